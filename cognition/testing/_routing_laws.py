"""The part of L6 about model routing: checks the chosen model against the configuration and the failures so far."""

from __future__ import annotations

from collections.abc import Sequence

from cognition.steps.config import AgentConfig
from cognition.steps.decisions import CallModel, FellBack, TurnFinished
from cognition.steps.inputs import ModelFailed, ModelReplied
from cognition.steps.retry import classify
from cognition.steps.state import AgentState
from cognition.testing._budget_laws import spent_budgets
from cognition.testing._engine_under_test import EngineUnderTest, Found, Problem
from cognition.testing._world import Edge, answered_effect, count, is_rejected
from cognition.values.outcomes import Failed
from cognition.values.routing import OF_THE_MODEL, OWN, ModelTask, is_open, order_of


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
            problem = _find_misrouting(config, state, call, edge.input.at, fell_back)
            if problem:
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
