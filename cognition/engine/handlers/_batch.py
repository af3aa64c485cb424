"""The calls of one reply as a batch: judged, started in order, settled, and recorded together.

This module does not know which input advanced the batch; the handlers in ``tools``, ``answers`` and ``hooks`` do.
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import lru_cache

from cognition.base.ids import EffectId
from cognition.base.repetition import (
    LONGEST_CYCLE,
    Repetition,
    cycle_length,
    digest,
    find_repetition,
    fingerprint,
    remember,
)
from cognition.engine.draft import Draft, Setup
from cognition.engine.handlers.engine_calls import start_engine_call, waits_for_worker
from cognition.policy import AccessRules, Verdict, covers
from cognition.steps.decisions import AskApproval, CallJudged, CallTool, RunHook
from cognition.steps.engine_tools import SPAWN_WORKER
from cognition.steps.phases import (
    FIRST_ATTEMPT,
    PROPOSED,
    Acting,
    AwaitingAnswer,
    AwaitingApproval,
    AwaitingHook,
    CallSlot,
    CallStatus,
    ModelAttempt,
    Phase,
    Proposed,
    Retrying,
    Running,
    Settled,
)
from cognition.steps.state import AgentState
from cognition.values.features import HookPoint
from cognition.values.messages import AssistantMessage, MalformedToolCall, ToolCall, ToolResult
from cognition.values.outcomes import Completed, LimitKind
from cognition.values.tools import ToolSpec

MALFORMED_NOTE = "This tool call could not be read: {reason}\n{raw}\nSend it again, well-formed."

REPEATED_NOTE = (
    "{calls} gave the same {results} {rounds} times in a row. After one more time you will have to answer without "
    "tools, so do something else or answer now."
)

SOFT_LIMITS: frozenset[LimitKind] = frozenset({"steps", "tool_calls", "loop", "workers"})
"""Limits that leave room for a final answer; the others end the turn immediately."""

AT_WORK = frozenset((Running, Retrying, AwaitingHook))
"""Statuses with work in progress; in the other open statuses a person must act."""

NEAREST = lru_cache(maxsize=64)(get_close_matches)
"""Cached: a model repeats a misspelt name, and the search takes as long as five steps."""

ReadCall = tuple[ToolCall, str, bool]
"""A call, its fingerprint (empty unless in edition 1), and whether the model requests the user's confirmation."""


Awaiting = type[Running] | type[AwaitingApproval] | type[AwaitingAnswer] | type[AwaitingHook] | type[Retrying]


def begin_calls(
    draft: Draft,
    calls: tuple[ReadCall, ...],
    malformed: tuple[MalformedToolCall, ...],
    answer: str,
    now: float,
    cut: str = "",
) -> None:
    """Start the calls of a reply. ``answer`` is the reply's text for the user; ``cut`` as in ``Acting``."""
    slots: list[CallSlot] = []
    limit: LimitKind | None = draft.exhausted_limit(now)
    draft.called = True
    for call, mark, confirm in calls:
        status: CallStatus = PROPOSED
        if mark:
            draft.recent = remember(draft.recent, mark)
            if limit is None and cycle_length(draft.recent):
                limit = "loop"
        if limit is not None:
            status = refuse_over_limit(draft, limit)
        slots.append(CallSlot(call, status, confirm=confirm))
    advance(draft, Acting(tuple(slots), malformed, limit, answer, cut=cut), now)


Found = tuple[Acting, int]
"""The call that an input answers: its batch, and its position there."""


def find(phase: Phase, status: Awaiting, effect_id: EffectId) -> Found | None:
    """Return the call that waits for this effect in this status, or None."""
    if isinstance(phase, Acting):
        for position, slot in enumerate(phase.slots):
            if isinstance(slot.status, status) and slot.status.effect_id == effect_id:
                return phase, position
    return None


def draft_for_person(setup: Setup, state: AgentState, phase: Acting, now: float) -> Draft:
    """Return a draft for a person's answer; time spent only waiting for people does not count for the turn."""
    draft = Draft(setup, state)
    draft.now = now
    if phase.asked_at is not None:
        draft.started_at += max(0.0, now - phase.asked_at)
    return draft


def call_at(found: Found) -> ToolCall:
    phase, position = found
    return phase.slots[position].call


def with_slot(phase: Acting, position: int, slot: CallSlot, limit: LimitKind | None = None) -> Acting:
    """Return the batch with a changed slot, and with ``limit`` unless it already has a limit."""
    slots = phase.slots
    changed = (*slots[:position], slot, *slots[position + 1 :])
    return Acting(changed, phase.malformed, phase.limit or limit, phase.answer, cut=phase.cut)


def settle(draft: Draft, phase: Acting, position: int, result: ToolResult, now: float) -> None:
    """Give a finished call its result, after the program's hook if there is one."""
    slot = phase.slots[position]
    hooks = draft.setup.config.hooks
    point: HookPoint = "worker_stop" if hooks and _is_worker(draft, slot.call) else "after_tool"
    status: CallStatus = Settled(result)
    if point in hooks:
        effect_id = draft.new_effect()
        draft.decide(RunHook(effect_id, point, result.content, slot.call))
        status = AwaitingHook(effect_id, result)
    slots = list(phase.slots)
    slots[position] = slot.now(status)
    advance(draft, phase, now, slots)


def advance(draft: Draft, phase: Acting, now: float, changed: list[CallSlot] | None = None) -> None:
    """Start every call that is due; when all have their results, continue with the model.

    A call is due when all earlier calls are settled, or when it and all earlier open calls may run in parallel.
    ``changed`` replaces the slots of ``phase``.
    """
    draft.now = now
    slots, beside = list(phase.slots) if changed is None else changed, draft.setup.beside
    limit = phase.limit
    open_call: ToolCall | None = None  # the nearest one before this one
    for position, slot in enumerate(slots):
        if open_call is not None and not (open_call.name in beside and slot.call.name in beside):
            break
        if isinstance(slot.status, Proposed):
            if limit is None:
                limit = reached_limit(draft, slot.call, now)
            if limit is not None:
                status: CallStatus = refuse_over_limit(draft, limit)
            elif (
                open_call is not None and _is_worker(draft, slot.call) and waits_for_worker(slot.call, slots[:position])
            ):
                continue
            else:
                status = _begin(draft, tuple(slots), position)
            slots[position] = slot = slot.now(status)
        if not isinstance(slot.status, Settled):
            open_call = slot.call
    results = [slot.status.result for slot in slots if isinstance(slot.status, Settled)]
    if len(results) == len(slots):
        _conclude(draft, phase, slots, results, limit, now)
    else:
        asked_at = now if AT_WORK.isdisjoint([type(slot.status) for slot in slots]) else None
        draft.phase = Acting(tuple(slots), phase.malformed, limit, phase.answer, asked_at, phase.cut)


def judge(draft: Draft, slots: tuple[CallSlot, ...], position: int) -> CallStatus:
    """Judge a call that is due or repeated: refuse it, ask about it, or start it."""
    setup, call = draft.setup, slots[position].call
    tool = setup.tools.get(call.name)
    if tool is None:
        return Settled(ToolResult(f"Error: {_unknown_tool(call.name, tuple(setup.tools))}", "error"))
    verdict = setup.config.policy.judge(call, tool, draft.remembered, draft.mode)
    if verdict.action == "deny":
        report_verdict(draft, call, verdict)
        return refuse(draft, "this call is not permitted", verdict.reason)
    slot = slots[position]
    if verdict.action == "allow" and verdict.rule is None and setup.asks is None and not slot.confirm:
        draft.refusals = 0  # the usual case: nothing speaks of this call
        return run(draft, slots, position)
    harmless = call.name in setup.engine_tools and tool.read_only
    asks = not slot.approved and (slot.confirm or (verdict.action == "ask" and not harmless))
    if not (asks or slot.approved or harmless) and setup.asks is not None and not _is_remembered(draft, call, tool):
        asks = setup.asks(call, draft.seal().next_state)
    if verdict.rule is not None and not slot.approved and verdict.action == ("ask" if asks else "allow"):
        report_verdict(draft, call, verdict)
    if asks:
        effect_id = draft.new_effect()
        draft.decide(AskApproval(effect_id, call, verdict.reason, access_rules(draft, call)))
        return AwaitingApproval(effect_id)
    draft.refusals = 0
    return run(draft, slots, position)


def _is_remembered(draft: Draft, call: ToolCall, tool: ToolSpec) -> bool:
    """Return whether the user has allowed such calls from now on."""
    return any(rule.action == "allow" and covers(rule, call, tool) for rule in draft.remembered)


def run(draft: Draft, slots: tuple[CallSlot, ...], position: int) -> CallStatus:
    call = slots[position].call
    draft.tool_calls += 1
    if call.name in draft.setup.engine_tools:
        return start_engine_call(draft, call, slots[:position])
    effect_id = draft.new_effect()
    draft.decide(CallTool(effect_id, call, access_rules(draft, call)))
    return Running(effect_id)


def access_rules(draft: Draft, call: ToolCall) -> AccessRules:
    return draft.setup.config.policy.access_rules(call, draft.setup.tools, draft.remembered, draft.mode)


def report_verdict(draft: Draft, call: ToolCall, verdict: Verdict) -> None:
    rule = "" if verdict.rule is None else verdict.rule.tool
    draft.decide(CallJudged(call.id, verdict.action, rule, verdict.reason))


def refuse(draft: Draft, what: str, reason: str) -> Settled:
    draft.refusals += 1
    return Settled(ToolResult(f"Error: {what}{': ' + reason if reason else ''}", "refused"))


def report_malformed(draft: Draft, malformed: tuple[MalformedToolCall, ...]) -> None:
    for item in malformed:
        draft.note(MALFORMED_NOTE.format(reason=item.reason, raw=item.raw))


def _begin(draft: Draft, slots: tuple[CallSlot, ...], position: int) -> CallStatus:
    call = slots[position].call
    if "before_tool" in draft.setup.config.hooks and call.name in draft.setup.tools:
        effect_id = draft.new_effect()
        draft.decide(RunHook(effect_id, "before_tool", "", call))
        return AwaitingHook(effect_id)
    return judge(draft, slots, position)


def _is_worker(draft: Draft, call: ToolCall) -> bool:
    return draft.setup.engine_tools.get(call.name) == SPAWN_WORKER.name


def reached_limit(draft: Draft, call: ToolCall, now: float) -> LimitKind | None:
    """Return the limit that prevents this call. Ask at each start: time passes and calls run."""
    exhausted = draft.exhausted_limit(now)
    if exhausted is not None:
        return exhausted
    limits = draft.setup.config.limits
    if limits.tool_calls is not None and draft.tool_calls >= limits.tool_calls:
        return "tool_calls"
    if limits.workers is not None and draft.workers >= limits.workers and _is_worker(draft, call):
        return "workers"
    return None


def refuse_over_limit(draft: Draft, limit: LimitKind) -> Settled:
    return Settled(ToolResult(f"Not run: {draft.limit_detail(limit)}.", "error"))


def _unknown_tool(name: str, known: tuple[str, ...]) -> str:
    close = NEAREST(name, known, n=3)
    if close:
        return f"there is no tool {name!r}; did you mean {' or '.join(close)}?"
    return f"there is no tool {name!r}; " + (f"there are {', '.join(known)}" if known else "no tools are offered")


def _conclude(
    draft: Draft,
    phase: Acting,
    slots: list[CallSlot],
    results: list[ToolResult],
    limit: LimitKind | None,
    now: float,
) -> None:
    """Append the results of all calls to history, in call order, and continue with the model."""
    repetition = _remember_results(draft, slots, results)
    draft.record_results([(slot.call, result, slot.context) for slot, result in zip(slots, results, strict=True)])
    report_malformed(draft, phase.malformed)
    if phase.cut:
        draft.stop_truncated(phase.cut, phase.answer)
        return
    if phase.answer and all(result.status == "ok" for result in results) and not phase.malformed:
        draft.append(AssistantMessage(draft.new_message_id(), phase.answer))
        draft.complete(Completed(phase.answer))
        return
    attempt = ModelAttempt("repair") if phase.malformed else FIRST_ATTEMPT
    warning = ""
    if repetition is not None and repetition.final:
        limit = limit or "loop"
    elif repetition is not None:
        warning = _warning(slots, repetition)
    draft.next_model_call(now, attempt, limit if limit in SOFT_LIMITS else None, warning=warning)


def _remember_results(draft: Draft, slots: list[CallSlot], results: list[ToolResult]) -> Repetition | None:
    """Remember the calls of a reply with their results, and return a cycle that is repeated too often.

    A result counts as the tool gave it, before it is shortened.
    """
    setup, recent, new = draft.setup, draft.recent, list[str]()
    repeats = setup.config.limits.repeats
    if repeats is None or setup.config.edition == 1:
        return None
    for slot, result in zip(slots, results, strict=True):
        call, pictures = slot.call, [image.data for image in result.images]
        if call.name in setup.polling:
            recent, new = (), []
        else:
            new.append(digest(fingerprint(call.name, call.arguments), result.status, result.content, *pictures))
    draft.recent = (*recent, *new)[-repeats * LONGEST_CYCLE :]
    return find_repetition(recent, new, repeats)


def _warning(slots: list[CallSlot], repetition: Repetition) -> str:
    one = repetition.length == 1
    calls = f"The same call of {slots[-1].call.name}" if one else f"The same {repetition.length} calls"
    return REPEATED_NOTE.format(calls=calls, results="result" if one else "results", rounds=repetition.rounds)
