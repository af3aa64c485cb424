"""L6, the limits of a turn and the routing of its model calls: pure checks of one step."""

from __future__ import annotations

from collections.abc import Sequence

from cognition.context.summaries import COMPACT_EVERY
from cognition.steps.config import AgentConfig, Limits
from cognition.steps.decisions import (
    AskApproval,
    CallModel,
    CallTool,
    Compacted,
    Decision,
    FellBack,
    ModeSet,
    PlanChanged,
    SessionClosed,
    SpawnWorker,
    TasksChanged,
    TurnFinished,
)
from cognition.steps.inputs import (
    HookReturned,
    Input,
    ModelFailed,
    ModelInterrupted,
    ModelReplied,
    SessionReset,
    ShutdownAsked,
    TimerFired,
)
from cognition.steps.phases import Compacting
from cognition.steps.retry import classify
from cognition.steps.state import AgentState
from cognition.testing._engine_under_test import EngineUnderTest, Found, Problem
from cognition.testing._world import Edge, Turn, answered_effect, count, is_objected, is_rejected
from cognition.values.outcomes import Completed, Failed, LimitReached
from cognition.values.routing import OF_THE_MODEL, OWN, ModelTask, is_open, order_of

OF_THE_SESSION = (SessionClosed, TasksChanged, PlanChanged, ModeSet)
"""Decisions that a reset or a shutdown may add after the turn that it ends."""


def check_bounded(subject: EngineUnderTest, edge: Edge) -> Found:
    """L6: a turn has one outcome, as its last decision, and leaves no effect in flight.

    Also: a turn does not exceed its budgets, and a summary reduces the size of prompts.
    """
    if is_rejected(edge.transition):
        return None
    for decision in edge.transition.decisions:
        if isinstance(decision, Compacted) and not decision.after < decision.before:
            return Problem(f"a summary makes a prompt of {decision.before} tokens one of {decision.after}")
    turn = count(edge.before, edge.input)
    decisions, resting = edge.transition.decisions, not edge.after.in_turn
    ends = [place for place, decision in enumerate(decisions) if type(decision) is TurnFinished]
    if not ends:
        if turn is not None and resting:
            return Problem("the turn is over and no TurnFinished was decided")
        return _check_budgets(subject, turn, edge, decisions) if turn is not None else None
    if len(ends) > 1:
        return Problem(f"the turn was finished {len(ends)} times")
    if turn is None:
        return Problem("a turn was finished, and none was under way")
    of_session = OF_THE_SESSION if isinstance(edge.input, SessionReset | ShutdownAsked) else ()
    if any(not isinstance(decision, of_session) for decision in decisions[ends[0] + 1 :]):
        return Problem("TurnFinished is not the turn's last decision")
    if not resting:
        return Problem(f"the turn is finished and the phase is {edge.after.phase_name}")
    if edge.after.open:
        return Problem(f"the turn is finished and {edge.after.open[0].effect_id} is still in flight")
    finished = decisions[ends[0]]
    assert isinstance(finished, TurnFinished)
    if finished.usage != turn.usage:
        return Problem(f"the turn's usage is {turn.usage}, and {finished.usage} was reported")
    problem = _check_budgets(subject, turn, edge, decisions)
    return problem or _check_claimed_limit(subject, turn, edge, finished)


def _check_budgets(subject: EngineUnderTest, turn: Turn, edge: Edge, decisions: tuple[Decision, ...]) -> Found:
    if subject.config is None or not decisions:
        return None
    limits, event = subject.config.limits, edge.input
    calls, workers, refusals = turn.calls, turn.workers, turn.refusals
    for decision in decisions:
        if isinstance(decision, CallTool):
            calls, refusals = calls + 1, 0
            if limits.tool_calls is not None and calls > limits.tool_calls:
                return Problem(f"{decision.call.id} is run as call {calls} of a turn that may run {limits.tool_calls}")
        elif isinstance(decision, CallModel):
            if turn.replies > limits.steps:
                return Problem(f"the model is called after {turn.replies} replies; the limit is {limits.steps} and one")
            if turn.replies == limits.steps and decision.request.tools:
                return Problem(f"after {turn.replies} replies, the limit, the model is called with tools")
            problem = _check_summary(turn, limits, edge, decision)
            if problem := problem or _check_other_call(subject.config, turn, event, decision):
                return problem
            if turn.continued > limits.hook_continuations and isinstance(event, HookReturned):
                return Problem(f"a hook asks for the {turn.continued}th time to go on, and the turn does")
            if turn.objected > limits.corrections and is_objected(event) and subject.config.protocol == "native":
                return Problem(f"the {turn.objected}th answer that is not what was asked for is sent back")
        elif isinstance(decision, SpawnWorker):
            workers += 1
            if limits.workers is not None and workers > limits.workers:
                return Problem(f"worker {workers} of a turn that may have {limits.workers} is spawned")
        elif not isinstance(decision, AskApproval):
            continue
        spent = spent_budgets(limits, turn, event.at) if not isinstance(decision, AskApproval) else []
        if spent:
            return Problem(f"{type(decision).__name__} {decision.effect_id} is decided though {spent[0]} are used up")
        if refusals >= limits.refusals and not subject.config.features:  # what the engine does itself is not seen
            return Problem(f"{type(decision).__name__} is decided after {refusals} refusals in a row, the limit")
    return None


def _check_summary(turn: Turn, limits: Limits, edge: Edge, call: CallModel) -> Found:
    """Return a problem if a summary is requested too often, with tools in a prompt of its own, or as the turn's last
    reply.
    """
    if call.purpose != "summary":
        return None
    if call.request.tools and not getattr(edge.transition.next_state.phase, "shares_prefix", False):
        return Problem("a summary is asked for with tools, in a prompt of its own")
    if turn.replies + 1 >= limits.steps:
        return Problem(f"a summary is asked for after {turn.replies} replies of {limits.steps}: it takes the last step")
    replies = COMPACT_EVERY if turn.summarised is None else turn.replies - turn.summarised
    again = isinstance(edge.input, TimerFired | ModelFailed)  # those ask for the same once more
    phase = getattr(edge.before.state, "phase", None)
    if isinstance(phase, Compacting):
        apart = phase.shares_prefix and not any(isinstance(one, Compacted) for one in edge.transition.decisions)
        again = again or phase.target is not None or apart  # of several pieces, or once more in a prompt of its own
    if replies < COMPACT_EVERY and not again:
        return Problem(f"a summary is asked for {replies} replies after the one before")
    return None


def _check_other_call(config: AgentConfig, turn: Turn, event: Input, call: CallModel) -> Found:
    seconds = config.limits.seconds
    left = None if seconds is None else max(seconds - (event.at - turn.started_at), 0.0)
    if left is not None and (call.seconds is None or not call.seconds <= left):
        return Problem(f"the model may take {call.seconds} seconds, and the turn has {left:g} left")
    if turn.cut and call.request.options.max_tokens == config.options.max_tokens:
        return Problem("the model is asked again at the token limit that cut its reply")
    return None


def spent_budgets(limits: Limits, turn: Turn, now: float) -> list[str]:
    """Return the budgets of tokens, cost and time that are used up."""
    usage = turn.usage
    budgets = (
        ("input_tokens", usage.input_tokens, limits.input_tokens),
        ("output_tokens", usage.output_tokens, limits.output_tokens),
        ("cost", usage.cost, limits.cost),
        ("seconds", now - turn.started_at, limits.seconds),
    )
    return [name for name, used, limit in budgets if limit is not None and used >= limit]


def exceeded_budgets(limits: Limits, turn: Turn) -> list[str]:
    """Return the budgets of tokens and cost of which more was used than there is."""
    names = ("input_tokens", "output_tokens", "cost")
    return [
        name for name in names if (limit := getattr(limits, name)) is not None and getattr(turn.usage, name) > limit
    ]


def _reached_by_session(limits: Limits, turn: Turn, state: object) -> dict[str, bool]:
    """Return whether each budget of the session is used up, or has cut a reply; empty for a state without usage."""
    if not isinstance(state, AgentState):
        return {}
    found = {}
    for name in ("session_input_tokens", "session_output_tokens", "session_cost"):
        limit, used = getattr(limits, name), getattr(state.total, name.removeprefix("session_"))
        found[name] = limit is not None and (used >= limit or (turn.cut and name == "session_output_tokens"))
    return found


def _check_claimed_limit(subject: EngineUnderTest, turn: Turn, edge: Edge, finished: TurnFinished) -> Found:
    """Return a problem if the turn ends with a limit that was not reached, or completes with a reply that was cut or
    exceeds a budget.

    Refusals and loops are not visible from outside, so they are not checked.
    """
    event, config = edge.input, subject.config
    if config is None:
        return None
    if isinstance(finished.outcome, Completed):
        if turn.cut:
            return Problem("a reply that was cut at its token limit is taken for an answer")
        over = config.edition > 1 and isinstance(event, ModelReplied) and exceeded_budgets(config.limits, turn)
        return Problem(f"a reply that exceeds {over[0]} is taken for an answer") if over else None
    if not isinstance(finished.outcome, LimitReached):
        return None
    limits, limit = config.limits, finished.outcome.limit
    features = config.features  # what the engine does itself counts as a call, and is not seen from outside
    spent = spent_budgets(limits, turn, event.at)
    late = isinstance(event, ModelInterrupted) and event.late and limits.seconds is not None
    reached = {
        **{name: name in spent for name in ("input_tokens", "cost")},
        "output_tokens": "output_tokens" in spent or (turn.cut and limits.output_tokens is not None),
        **_reached_by_session(limits, turn, edge.transition.next_state),
        "seconds": late or "seconds" in spent,
        "max_tokens": turn.cut,
        "steps": turn.replies >= limits.steps,
        "tool_calls": limits.tool_calls is not None and (turn.calls >= limits.tool_calls or bool(features)),
        "workers": limits.workers is not None and turn.workers >= limits.workers,
    }
    if not reached.get(limit, True):
        return Problem(f"the turn ended at the limit of {limit}, which was not reached")
    return None


# -------------------------------------------------------------------------------------------------------------- routing


def check_routing(subject: EngineUnderTest, edge: Edge) -> Found:
    """L6, for models: a call goes to the first working model in order, and the outcome of each call is counted.

    A turn does not fail while a model has not been tried.
    """
    config, state = subject.config, edge.transition.next_state
    if config is None or not isinstance(state, AgentState):
        return None
    fell_back = [one for one in edge.transition.decisions if isinstance(one, FellBack)]
    for call in edge.transition.decisions:
        if isinstance(call, CallModel):
            if problem := _find_misrouting(config, state, call, edge.input.at, fell_back):
                return Problem(problem)
            fell_back = []
    if fell_back:
        return Problem(f"it turns to {fell_back[0].to!r}, and calls no model")
    return _check_health_counts(config, state, edge) or _find_untried_model(config, state, edge)


def _find_misrouting(
    config: AgentConfig, state: AgentState, call: CallModel, now: float, told: Sequence[FellBack]
) -> str:
    model, given_up = call.model, state.spent.given_up
    if not config.models:
        return f"{call.effect_id} goes to {model!r}, and there are no other models" if model else ""
    order = _order(config, state, call)
    if model not in order:
        return f"{call.effect_id} goes to {model!r}, which is none of {order}"
    left = [name for name in order if name not in given_up]
    works = [name for name in left if not is_open(state.health, name, now)]
    if model != (works or left or order)[0]:
        return f"{call.effect_id} goes to {model!r}, and of {order} {works} work and {list(given_up)} were given up"
    for one in told:
        if one.to != model or one.model not in given_up or one.model == one.to:
            return f"it is told to turn from {one.model!r} to {one.to!r}, and {model!r} is called"
    return ""


def _order(config: AgentConfig, state: AgentState, call: CallModel) -> tuple[str, ...]:
    task: ModelTask = "summary" if call.purpose == "summary" else "plan" if state.mode == "plan" else "answer"
    return order_of(state.model, config.routes, config.fallback, task)


def _find_untried_model(config: AgentConfig, state: AgentState, edge: Edge) -> Found:
    """Return an untried model if the turn ends because the called model failed."""
    event, turn = edge.input, count(edge.before, edge.input)
    if not isinstance(event, ModelFailed) or event.partial_text or not config.models or turn is None:
        return None
    finished = [one for one in edge.transition.decisions if isinstance(one, TurnFinished)]
    if not finished or not isinstance(finished[0].outcome, Failed) or spent_budgets(config.limits, turn, event.at):
        return None
    call = answered_effect(edge.before, event)
    assert isinstance(call, CallModel)
    asked = (*state.spent.given_up, call.model)
    # Behind a summary that fails comes the turn's own call, which is not made at all where it finds no room.
    order = () if call.purpose == "summary" else _order(config, state, call)
    left = [name for name in order if name not in asked]
    return Problem(f"the turn fails where {call.model!r} has failed, and {left} were not asked") if left else None


def _check_health_counts(config: AgentConfig, state: AgentState, edge: Edge) -> Found:
    event = edge.input
    if not config.models or not isinstance(event, ModelReplied | ModelFailed) or is_rejected(edge.transition):
        return None
    model: str = getattr(answered_effect(edge.before, event), "model", OWN)
    known = [one for one in state.health if one.model == model]
    if isinstance(event, ModelReplied) and known:
        return Problem(f"{model!r} has answered, and counts as one that has failed: {known[0]}")
    if isinstance(event, ModelFailed) and not known and classify(event.failure) in OF_THE_MODEL:
        return Problem(f"{model!r} has failed ({classify(event.failure)}), and nothing is known of it")
    return None
