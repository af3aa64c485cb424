"""The tools' side: judging calls, running them in order, and collecting one result for each."""

from __future__ import annotations

from difflib import get_close_matches

from cognition.context import shorten
from cognition.decisions import AskApproval, CallTool
from cognition.draft import Draft, Setup
from cognition.guards import cycle_length, remember
from cognition.handlers.rejection import reject
from cognition.inputs import ApprovalGiven, ApprovalRefused, ToolFailed, ToolReturned
from cognition.messages import MalformedToolCall, ToolCall, ToolResult
from cognition.outcomes import LimitKind
from cognition.phases import (
    Acting,
    AwaitingApproval,
    CallSlot,
    CallStatus,
    ModelAttempt,
    Proposed,
    Running,
    Settled,
)
from cognition.policy import Rule
from cognition.state import AgentState
from cognition.transition import Transition

MALFORMED_NOTE = "This tool call could not be read: {reason}\n{raw}\nSend it again, well-formed."
"""How an unreadable call is told to the model."""


def begin_calls(
    draft: Draft,
    calls: tuple[ToolCall, ...],
    marks: tuple[str, ...],
    malformed: tuple[MalformedToolCall, ...],
    now: float,
) -> None:
    """Start on the calls of a reply; ``marks`` are their fingerprints."""
    slots: list[CallSlot] = []
    limit: LimitKind | None = draft.exhausted(now)
    for call, mark in zip(calls, marks, strict=True):
        draft.recent = remember(draft.recent, mark)
        status: CallStatus = Proposed()
        if limit is None and cycle_length(draft.recent):
            limit = "loop"
        if limit is not None:
            status = Settled(ToolResult(f"Not run: {draft.limit_detail(limit)}.", "error"))
        slots.append(CallSlot(call, status))
    _advance(draft, Acting(tuple(slots), malformed, limit), now)


def on_tool_returned(setup: Setup, state: AgentState, event: ToolReturned) -> Transition:
    return _settle_running(setup, state, event, ToolResult(event.content))


def on_tool_failed(setup: Setup, state: AgentState, event: ToolFailed) -> Transition:
    return _settle_running(setup, state, event, ToolResult(f"Error: {event.message}", "error"))


def on_approval_given(setup: Setup, state: AgentState, event: ApprovalGiven) -> Transition:
    draft, phase = Draft(setup, state), state.phase
    position = _position(phase, AwaitingApproval, event)
    if position is None or not isinstance(phase, Acting):
        return reject(state, event, "no call awaits this approval")
    call = phase.slots[position].call
    if event.always:
        draft.remembered = (*draft.remembered, Rule("allow", call.name))
    draft.refusals = 0
    _advance(draft, _with_status(phase, position, _run(draft, call)), event.at)
    return draft.seal()


def on_approval_refused(setup: Setup, state: AgentState, event: ApprovalRefused) -> Transition:
    draft, phase = Draft(setup, state), state.phase
    position = _position(phase, AwaitingApproval, event)
    if position is None or not isinstance(phase, Acting):
        return reject(state, event, "no call awaits this approval")
    call = phase.slots[position].call
    if event.always:
        draft.remembered = (*draft.remembered, Rule("deny", call.name, event.reason))
    _advance(draft, _with_status(phase, position, _refuse(draft, "the user refused this call", event.reason)), event.at)
    return draft.seal()


def tell_malformed(draft: Draft, malformed: tuple[MalformedToolCall, ...]) -> None:
    """Show the model each call that could not be read, and why."""
    for item in malformed:
        raw = shorten(item.raw, draft.setup.result_limit)
        draft.note(MALFORMED_NOTE.format(reason=item.reason, raw=raw))


def _settle_running(
    setup: Setup, state: AgentState, event: ToolReturned | ToolFailed, result: ToolResult
) -> Transition:
    phase = state.phase
    position = _position(phase, Running, event)
    if position is None or not isinstance(phase, Acting):
        return reject(state, event, "no call runs under this id")
    draft = Draft(setup, state)
    _advance(draft, _with_status(phase, position, Settled(result)), event.at)
    return draft.seal()


def _position(
    phase: object,
    status: type[Running] | type[AwaitingApproval],
    event: ToolReturned | ToolFailed | ApprovalGiven | ApprovalRefused,
) -> int | None:
    """Which call of the batch an input is about."""
    if isinstance(phase, Acting):
        for position, slot in enumerate(phase.slots):
            if isinstance(slot.status, status) and slot.status.effect_id == event.effect_id:
                return position
    return None


def _with_status(phase: Acting, position: int, status: CallStatus) -> Acting:
    slots = phase.slots
    changed = CallSlot(slots[position].call, status)
    return Acting((*slots[:position], changed, *slots[position + 1 :]), phase.malformed, phase.limit)


def _advance(draft: Draft, phase: Acting, now: float) -> None:
    """Start every call whose turn has come; when all have their results, go on with the model.

    A call's turn has come when all calls before it are settled, or when it is read-only and so are all open calls
    before it.
    """
    slots = list(phase.slots)
    limit = phase.limit
    waiting = False  # whether a call before this one is still open
    for position, slot in enumerate(slots):
        if waiting and not _read_only(draft, slot.call):
            break
        if isinstance(slot.status, Proposed):
            if limit is None:
                limit = _reached(draft)
            status = _not_run(draft, limit) if limit is not None else _judge(draft, slot.call)
            slots[position] = slot = CallSlot(slot.call, status)
        if not isinstance(slot.status, Settled):
            if not _read_only(draft, slot.call):
                break
            waiting = True
    draft.phase = Acting(tuple(slots), phase.malformed, limit)
    if all(isinstance(slot.status, Settled) for slot in slots):
        _conclude(draft, draft.phase, now)


def _read_only(draft: Draft, call: ToolCall) -> bool:
    tool = draft.setup.tools.get(call.name)
    return tool is not None and tool.read_only


def _reached(draft: Draft) -> LimitKind | None:
    """The limit that lets no further call of this reply run."""
    limits = draft.setup.config.limits
    if draft.refusals >= limits.refusals:
        return "refusals"
    if limits.tool_calls is not None and draft.tool_calls >= limits.tool_calls:
        return "tool_calls"
    return None


def _not_run(draft: Draft, limit: LimitKind) -> Settled:
    return Settled(ToolResult(f"Not run: {draft.limit_detail(limit)}.", "error"))


def _judge(draft: Draft, call: ToolCall) -> CallStatus:
    """What becomes of a call whose turn has come."""
    setup = draft.setup
    tool = setup.tools.get(call.name)
    if tool is None:
        return Settled(ToolResult(f"Error: {_unknown_tool(call.name, tuple(setup.tools))}", "error"))
    verdict = setup.config.policy.judge(call, tool, draft.remembered)
    if verdict.action == "deny":
        return _refuse(draft, "this call is not permitted", verdict.reason)
    if verdict.action == "ask":
        identity = draft.new_effect()
        draft.decide(AskApproval(identity, call, verdict.reason))
        return AwaitingApproval(identity)
    draft.refusals = 0
    return _run(draft, call)


def _run(draft: Draft, call: ToolCall) -> Running:
    identity = draft.new_effect()
    draft.tool_calls += 1
    draft.decide(CallTool(identity, call))
    return Running(identity)


def _refuse(draft: Draft, what: str, reason: str) -> Settled:
    draft.refusals += 1
    return Settled(ToolResult(f"Error: {what}{': ' + reason if reason else ''}", "refused"))


def _unknown_tool(name: str, known: tuple[str, ...]) -> str:
    close = get_close_matches(name, known, n=3)
    if close:
        return f"there is no tool {name!r}; did you mean {' or '.join(close)}?"
    return f"there is no tool {name!r}; " + (f"there are {', '.join(known)}" if known else "no tools are offered")


def _conclude(draft: Draft, phase: Acting, now: float) -> None:
    """All calls have their results: write them down in call order and ask the model again."""
    for slot in phase.slots:
        assert isinstance(slot.status, Settled)
        draft.record_result(slot.call, slot.status.result)
    tell_malformed(draft, phase.malformed)
    limit = phase.limit if phase.limit in SOFT_LIMITS else None
    draft.go_on(now, ModelAttempt("repair" if phase.malformed else "answer"), limit)


SOFT_LIMITS: frozenset[LimitKind | None] = frozenset({"steps", "tool_calls", "loop"})
"""Limits that leave room for a final answer; the others end the turn at once."""
