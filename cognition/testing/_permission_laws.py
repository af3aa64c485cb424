"""L5, permissions: pure checks of one step."""

from __future__ import annotations

from cognition.base.errors import ConfigError
from cognition.policy import Action, Rule, Verdict, remembered_rule
from cognition.steps.decisions import AskApproval, CallJudged, CallTool, ModeSet, Remember, RulesForgotten, SpawnWorker
from cognition.steps.engine_tools import REMEMBER, SPAWN_WORKER
from cognition.steps.inputs import (
    ApprovalGiven,
    ApprovalRefused,
    ApprovalsForgotten,
    HookReturned,
    ModeChanged,
    ModelReplied,
)
from cognition.steps.phases import Acting, CallSlot, Settled
from cognition.steps.state import AgentState
from cognition.steps.vocabulary import is_worker_tool
from cognition.testing._engine_under_test import EngineUnderTest, Found, Problem, batch_of
from cognition.testing._world import Edge, answered_effect, approved_call, changed_by, granted_by, is_rejected
from cognition.values.features import Mode
from cognition.values.history import History
from cognition.values.messages import AssistantMessage, ToolCall, ToolMessage

JUDGED: frozenset[type] = frozenset({CallTool, AskApproval, Remember, SpawnWorker})
"""Decisions that need a permission."""
JUDGED_BY_RULES: frozenset[type] = frozenset({CallTool, AskApproval, CallJudged})
"""Decisions that a ``CallJudged`` accompanies, and ``CallJudged`` itself."""


def check_permitted(subject: EngineUnderTest, edge: Edge) -> Found:
    """L5: a call that runs is in the reply byte for byte, and policy allows it or the user approved exactly
    this call.
    """
    before, following = edge.before.state, edge.transition.next_state
    states: tuple[object, object] = before, following
    if not all(isinstance(state, AgentState) for state in states):
        return None  # a state class of its own: nobody can tell what is remembered, or which call stands in a reply
    touched = following.remembered is not before.remembered or isinstance(edge.input, ApprovalsForgotten)
    if touched and (problem := _check_remembered(subject, edge, before.remembered, following.remembered)):
        return Problem(problem)
    native = subject.config is None or subject.config.protocol == "native"  # otherwise calls are read from the text
    if native and isinstance(edge.input, ModelReplied) and not is_rejected(edge.transition):
        problem = _check_unaltered(edge.input, edge.before.state.history, following.history)
        if problem is not None:
            return Problem(problem)
    moved = following.mode != before.mode or following.resume_mode != before.resume_mode
    if moved and (problem := _mode(edge)):
        return Problem(problem)
    if JUDGED.isdisjoint(map(type, edge.transition.decisions)):
        return None
    granted, changed = granted_by(edge.before, edge.input), changed_by(edge.before, edge.input)
    mode = edge.input.mode if isinstance(edge.input, ModeChanged) else before.mode
    for decision in edge.transition.decisions:
        problem = None
        match decision:
            case ModeSet():
                mode = decision.mode
            case CallTool() | AskApproval():
                problem = _check_call_in_reply(following.history, decision, changed)
                if problem is None and isinstance(decision, CallTool):
                    problem = _check_allowed(subject, decision.call, granted, following.remembered, mode)
            case Remember():
                problem = _check_engine_call(subject, REMEMBER.name, granted, following.remembered, mode)
            case SpawnWorker():
                name = next((name for name, tool in subject.tools.items() if is_worker_tool(tool)), SPAWN_WORKER.name)
                problem = _check_engine_call(subject, name, granted, following.remembered, mode)
                problem = problem or _check_worker_rights(subject, decision, following.remembered, mode)
            case _:
                pass
        if problem is not None:
            return Problem(problem)
    return None


def check_judgements(subject: EngineUnderTest, edge: Edge) -> Found:
    """L5: a ``CallJudged`` with the policy's verdict accompanies each call that a rule allows or asks about or policy
    denies.

    Calls that the user approved, and those that the user or a hook refused, need none: their answers show it.
    """
    before, following = edge.before.state, edge.transition.next_state
    states: tuple[object, object] = before, following
    if subject.config is None or not all(isinstance(state, AgentState) for state in states):
        return None
    decisions = edge.transition.decisions
    refused = _newly_refused(edge)
    if not refused and JUDGED_BY_RULES.isdisjoint(map(type, decisions)):
        return None
    granted, changed = granted_by(edge.before, edge.input), changed_by(edge.before, edge.input)
    mode = before.mode
    words: list[CallJudged] = []
    for decision in decisions:
        match decision:
            case ModeSet():
                mode = decision.mode
            case CallJudged(call_id=call_id):
                words.append(decision)
                call = _call_of(following.history, changed, call_id)
                verdict = None if call is None else _verdict(subject, call, following.remembered, mode)
                if verdict is None or decision != _judgement_of(call_id, verdict):
                    return Problem(f"{decision} is said, and policy says {verdict}")
            case CallTool(call=call) | AskApproval(call=call) if call not in granted:
                verdict = _verdict(subject, call, following.remembered, mode)
                action = "allow" if isinstance(decision, CallTool) else "ask"
                if verdict is None or verdict.rule is None or verdict.action != action:
                    continue
                if _judgement_of(call.id, verdict) not in words:
                    return Problem(f"{call.id} is met by the rule {verdict.rule.tool!r}, and nothing says so")
            case _:
                pass
    for call_id in refused:
        call = _call_of(following.history, changed, call_id)
        verdict = None if call is None else _verdict(subject, call, following.remembered, mode)
        if verdict is not None and verdict.action == "deny" and _judgement_of(call_id, verdict) not in words:
            return Problem(f"{call_id} is denied ({verdict.reason or 'by default'}), and nothing says so")
    return None


def _judgement_of(call_id: str, verdict: Verdict) -> CallJudged:
    return CallJudged(call_id, verdict.action, "" if verdict.rule is None else verdict.rule.tool, verdict.reason)


def _verdict(subject: EngineUnderTest, call: ToolCall, remembered: tuple[Rule, ...], mode: Mode) -> Verdict | None:
    tool = subject.tools.get(call.name)
    if subject.config is None or tool is None:
        return None
    return subject.config.policy.judge(call, tool, remembered, mode)


def _call_of(history: History, changed: tuple[ToolCall, ...], call_id: str) -> ToolCall | None:
    named = ToolCall(call_id, "")
    return next((call for call in (*changed, *batch_of(history, named)) if call.id == call_id), None)


def _newly_refused(edge: Edge) -> list[str]:
    """Return the ids of the calls that this step refuses, except the call that the user or a hook refuses with it."""
    before, following = edge.before.state, edge.transition.next_state
    if following.phase is before.phase and following.history is before.history:
        return []
    known = {slot.call.id for slot in _slots(before) if isinstance(slot.status, Settled)}
    event = edge.input
    if isinstance(event, ApprovalRefused) or (isinstance(event, HookReturned) and event.verdict == "refuse"):
        call: ToolCall | None = getattr(answered_effect(edge.before, event), "call", None)
        known |= set() if call is None else {call.id}
    refused = [
        slot.call.id
        for slot in _slots(following)
        if isinstance(slot.status, Settled) and slot.status.result.status == "refused"
    ]
    added = () if following.history is before.history else following.history[len(before.history) :]
    refused += [one.call_id for one in added if isinstance(one, ToolMessage) and one.status == "refused"]
    return [call_id for call_id in refused if call_id not in known]


def _slots(state: AgentState) -> tuple[CallSlot, ...]:
    return state.phase.slots if isinstance(state.phase, Acting) else ()


def _mode(edge: Edge) -> str | None:
    """Check that only the user chooses a more permissive mode. An engine may enter plan mode and return from it."""
    old, new = edge.before.state, edge.transition.next_state
    if isinstance(edge.input, ModeChanged) and not is_rejected(edge.transition):
        chosen = edge.input.mode
        resume = old.mode if chosen == "plan" and old.mode != "plan" else old.resume_mode
        if (new.mode, new.resume_mode) == (chosen, resume):
            return None
    elif new.resume_mode in (old.mode, old.resume_mode) and (
        new.mode in ("plan", old.mode) or (old.mode == "plan" and new.mode == old.resume_mode)
    ):
        return None
    return f"the mode became {new.mode!r} (to return to: {new.resume_mode!r}), which the user did not choose"


def _check_remembered(subject: EngineUnderTest, edge: Edge, old: tuple[Rule, ...], new: tuple[Rule, ...]) -> str | None:
    """Check that only the user changes the remembered rules.

    Only the user's "from now on" adds a rule: for the tool in question, with the pattern given. Only the user removes
    rules, including refusals, and then exactly the named ones.
    """
    event = edge.input
    if isinstance(event, ApprovalsForgotten) and edge.error is None and not is_rejected(edge.transition):
        if new != tuple(rule for rule in old if event.rules and rule.tool not in event.rules):
            return f"the user took back {list(event.rules) or 'all rules'}, and what is remembered became {list(new)}"
        works = any(isinstance(effect, SpawnWorker) for effect in edge.before.open)
        if works and RulesForgotten(event.rules) not in edge.transition.decisions:
            return f"the user took back {list(event.rules) or 'all rules'}, and the workers are not told"
        return None
    if new == old:
        return None
    asked = answered_effect(edge.before, event)
    if isinstance(event, ApprovalGiven | ApprovalRefused) and event.always and isinstance(asked, AskApproval):
        call = approved_call(edge.before, event) if isinstance(event, ApprovalGiven) else asked.call
        action: Action = "allow" if isinstance(event, ApprovalGiven) else "deny"
        if call is not None and new[:-1] == old and _is_rule_for(subject, call, action, event.rule, new[-1]):
            return None
    return f"what is remembered of the user's approvals became {list(new)}, which the user did not say"


def _is_rule_for(subject: EngineUnderTest, call: ToolCall, action: Action, pattern: str, rule: Rule) -> bool:
    if (rule.action, rule.tool) != (action, pattern or call.name):
        return False
    tool = subject.tools.get(call.name)
    try:
        return tool is None or remembered_rule(action, pattern, call, tool).tool == rule.tool
    except ConfigError:
        return False


def _check_unaltered(event: ModelReplied, old: History, new: History) -> str | None:
    if len(new) <= len(old):
        return None
    proposed = iter([(call.name, call.arguments_json) for call in event.calls])
    for message in new[len(old) :]:
        if isinstance(message, AssistantMessage):
            for call in message.calls:
                if (call.name, call.arguments_json) not in proposed:
                    return f"{call.id} is {call.name}({call.arguments_json}), which the model did not propose"
    return None


def _check_call_in_reply(
    history: History, decision: CallTool | AskApproval, changed: tuple[ToolCall, ...]
) -> str | None:
    call = decision.call
    by_others = [other for other in changed if other.id == call.id]
    batch = batch_of(history, call)
    if call in by_others or (not by_others and call in batch):
        return None
    what = "runs" if isinstance(decision, CallTool) else "is shown for approval"
    return f"{call} {what}, and it should be {[*by_others, *(other for other in batch if other.id == call.id)][:1]}"


def _check_allowed(
    subject: EngineUnderTest, call: ToolCall, granted: tuple[ToolCall, ...], remembered: tuple[Rule, ...], mode: Mode
) -> str | None:
    if subject.config is None:
        return None
    if (tool := subject.tools.get(call.name)) is None:
        return f"{call.id} runs, and there is no tool {call.name!r}"
    action = subject.config.policy.judge(call, tool, remembered, mode).action
    if action == "allow" or (action == "ask" and call in granted):
        return None
    if any(other.id == call.id and other != call for other in granted):
        return f"{call.id} runs with other arguments than those that were approved"
    return f"{call.id} runs, and for {call.name!r} the word is {action!r}" + "; nobody approved it" * (action == "ask")


def _check_engine_call(
    subject: EngineUnderTest, name: str, granted: tuple[ToolCall, ...], remembered: tuple[Rule, ...], mode: Mode
) -> str | None:
    """Like ``_check_allowed`` for calls that the engine executes itself; the decision does not name the call."""
    if subject.config is None:
        return None
    call = next((call for call in granted if call.name == name), ToolCall("", name))
    problem = _check_allowed(subject, call, granted, remembered, mode)
    return None if problem is None else f"{name} is carried out: {problem}"


def _check_worker_rights(
    subject: EngineUnderTest, spawn: SpawnWorker, remembered: tuple[Rule, ...], mode: Mode
) -> str | None:
    """Return a permission that a worker would have and its parent does not have at this moment."""
    if spawn.mode != mode:
        return f"worker {spawn.worker.name!r} gets the mode {spawn.mode!r}, and its parent's is {mode!r}"
    if spawn.remembered != remembered:
        return f"worker {spawn.worker.name!r} gets other rules than those that its parent remembers"
    if subject.config is None:
        return None
    own = {tool.name for tool in subject.config.tools}
    if not own.issuperset(spawn.worker.tools):
        return f"worker {spawn.worker.name!r} gets tools that its parent does not have"
    for name in ("steps", "tool_calls", "input_tokens", "output_tokens", "cost", "seconds", "workers"):
        limit, given = getattr(subject.config.limits, name), getattr(spawn.limits, name)
        if limit is not None and (given is None or given > limit):
            return f"worker {spawn.worker.name!r} gets {given} {name}, and its parent has {limit}"
    return None
