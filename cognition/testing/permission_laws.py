"""L5, what may run: a pure check of one step."""

from __future__ import annotations

from cognition.decisions import AskApproval, CallTool, ModeSet, Remember, SpawnWorker
from cognition.engine_tools import REMEMBER, SPAWN_WORKER
from cognition.features import Mode
from cognition.history import History
from cognition.inputs import ApprovalGiven, ApprovalRefused, ModeChanged, ModelReplied
from cognition.messages import AssistantMessage, ToolCall
from cognition.policy import Rule
from cognition.state import AgentState
from cognition.testing.subject import Found, Problem, Subject, batch_of
from cognition.testing.world import Edge, changed_by, granted_by, is_rejected

JUDGED: frozenset[type] = frozenset({CallTool, AskApproval, Remember, SpawnWorker})
"""Decisions that need a permission."""


def permitted(subject: Subject, edge: Edge) -> Found:
    """L5: what runs stands in the reply to the byte, and policy allows it or the user approved exactly this."""
    before, following = edge.before.state, edge.transition.next_state
    states: tuple[object, object] = before, following
    if not all(isinstance(state, AgentState) for state in states):
        return None  # a state class of its own: nobody can tell what is remembered, or which call stands in a reply
    if following.remembered is not before.remembered:
        problem = _remembered(edge, before.remembered, following.remembered)
        if problem is not None:
            return Problem(problem)
    native = subject.config is None or subject.config.protocol == "native"  # otherwise calls are read from the text
    if native and isinstance(edge.input, ModelReplied) and not is_rejected(edge.transition):
        problem = _altered(edge.input, edge.before.state.history, following.history)
        if problem is not None:
            return Problem(problem)
    if following.mode != before.mode or following.resume_mode != before.resume_mode:
        problem = _mode(edge)
        if problem is not None:
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
                problem = _shown(following.history, decision, changed)
                if problem is None and isinstance(decision, CallTool):
                    problem = _allowed(subject, decision.call, granted, following.remembered, mode)
            case Remember():
                problem = _engine_call_allowed(subject, REMEMBER.name, granted, following.remembered, mode)
            case SpawnWorker():
                problem = _engine_call_allowed(subject, SPAWN_WORKER.name, granted, following.remembered, mode)
                problem = problem or _more_than_parent(subject, decision, following.remembered, mode)
            case _:
                pass
        if problem is not None:
            return Problem(problem)
    return None


def _mode(edge: Edge) -> str | None:
    """A mode that permits more is the user's to choose; an engine may plan, and return from planning."""
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


def _remembered(edge: Edge, old: tuple[Rule, ...], new: tuple[Rule, ...]) -> str | None:
    """Only the user's own "from now on" adds to what is remembered, and only for the tool that was asked about."""
    if new == old:
        return None
    event = edge.input
    asked = [
        effect.call.name
        for effect in edge.before.open
        if isinstance(effect, AskApproval) and effect.effect_id == getattr(event, "effect_id", None)
    ]
    if isinstance(event, ApprovalGiven | ApprovalRefused) and event.always and asked:
        action = "allow" if isinstance(event, ApprovalGiven) else "deny"
        if new[:-1] == old and (new[-1].action, new[-1].tool) == (action, asked[0]):
            return None
    return f"what is remembered of the user's approvals became {list(new)}, which the user did not say"


def _altered(event: ModelReplied, old: History, new: History) -> str | None:
    """Calls that a reply brings into history are those that the model proposed, in its order."""
    if len(new) <= len(old):
        return None
    proposed = iter([(call.name, call.arguments_json) for call in event.calls])
    for message in new[len(old) :]:
        if isinstance(message, AssistantMessage):
            for call in message.calls:
                if (call.name, call.arguments_json) not in proposed:
                    return f"{call.id} is {call.name}({call.arguments_json}), which the model did not propose"
    return None


def _shown(history: History, decision: CallTool | AskApproval, changed: tuple[ToolCall, ...]) -> str | None:
    """What runs, or is asked about, is a call of the reply, with a hook's arguments if one gave others."""
    call = decision.call
    by_hook = [other for other in changed if other.id == call.id]
    batch = batch_of(history, call)
    if call in by_hook or (not by_hook and call in batch):
        return None
    what = "runs" if isinstance(decision, CallTool) else "is shown for approval"
    return f"{call} {what}, and it should be {[*by_hook, *(other for other in batch if other.id == call.id)][:1]}"


def _allowed(
    subject: Subject, call: ToolCall, granted: tuple[ToolCall, ...], remembered: tuple[Rule, ...], mode: Mode
) -> str | None:
    if subject.config is None:
        return None
    tool = subject.tools.get(call.name)
    if tool is None:
        return f"{call.id} runs, and there is no tool {call.name!r}"
    action = subject.config.policy.judge(call, tool, remembered, mode).action
    if action == "allow" or (action == "ask" and call in granted):
        return None
    if any(other.id == call.id and other != call for other in granted):
        return f"{call.id} runs with other arguments than those that were approved"
    return f"{call.id} runs, and for {call.name!r} the word is {action!r}" + "; nobody approved it" * (action == "ask")


def _engine_call_allowed(
    subject: Subject, name: str, granted: tuple[ToolCall, ...], remembered: tuple[Rule, ...], mode: Mode
) -> str | None:
    """As ``_allowed`` for what the engine carries out itself; its decision does not say for which call it is."""
    if subject.config is None:
        return None
    call = next((call for call in granted if call.name == name), ToolCall("", name))
    problem = _allowed(subject, call, granted, remembered, mode)
    return None if problem is None else f"{name} is carried out: {problem}"


def _more_than_parent(subject: Subject, spawn: SpawnWorker, remembered: tuple[Rule, ...], mode: Mode) -> str | None:
    """What a worker could do that its parent could not at this moment."""
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
