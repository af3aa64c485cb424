"""The laws of a situation: checks of its possible continuations. Each takes its own steps and does not change the
world.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from attrs import evolve

from cognition.base.ids import EffectId
from cognition.steps.decisions import (
    AskApproval,
    AskUser,
    CallModel,
    CallTool,
    CancelEffect,
    Effect,
    NotCompacted,
    Recall,
    ReviewPlan,
    RunHook,
    SpawnWorker,
    TurnFinished,
)
from cognition.steps.inputs import (
    ApprovalGiven,
    CancelAsked,
    HookReturned,
    Input,
    MemoryRecalled,
    ModelReplied,
    PlanReviewed,
    QuestionAnswered,
    SessionReset,
    TimerFired,
    ToolReturned,
    UserSpoke,
    WorkerFinished,
)
from cognition.steps.phases import Compacting
from cognition.steps.state import AgentState
from cognition.steps.transition import Transition
from cognition.testing._edge_laws import check_results, find_unpaired, read_back
from cognition.testing._engine_under_test import UNREADABLE, EngineUnderTest, Found, Problem
from cognition.testing._trace import contrast
from cognition.testing._world import Edge, World, history_of, is_rejected, step_on, take
from cognition.values.messages import Message, ToolCall, ToolMessage
from cognition.values.outcomes import Cancelled, Failed

MOST_STEPS = 200
"""The limit of benign answers that must lead to idle. Far above the need: one for each effect in flight and each call
of the reply, and one answer.
"""
SILENT_REPLIES = 3
"""A turn whose model replies with nothing is nudged twice, and ends with the third such reply at the latest."""


def answer(effect: Effect, at: float = 0.0) -> Input:
    """Return the benign answer to an effect: the model answers in text, tools return, the user agrees, hooks
    let pass.
    """
    match effect:
        case CallModel(effect_id=effect_id):
            return ModelReplied(effect_id, "Done.", at=at)
        case CallTool(effect_id=effect_id, call=call):
            return ToolReturned(effect_id, f"the result of {call.id}", at=at)
        case AskApproval(effect_id=effect_id):
            return ApprovalGiven(effect_id, at=at)
        case AskUser(effect_id=effect_id, questions=questions):
            return QuestionAnswered(effect_id, tuple(question.options[:1] for question in questions), at=at)
        case ReviewPlan(effect_id=effect_id):
            return PlanReviewed(effect_id, True, at=at)
        case Recall(effect_id=effect_id):
            return MemoryRecalled(effect_id, ("a note",), at=at)
        case SpawnWorker(effect_id=effect_id, worker=worker):
            return WorkerFinished(effect_id, f"the result of {worker.name}", at=at)
        case RunHook(effect_id=effect_id):
            return HookReturned(effect_id, at=at)
        case _:  # StartTimer
            return TimerFired(effect.effect_id, at=at)


# ------------------------------------------------------------------------------------------------------------ L2 total


def check_none_as_input(subject: EngineUnderTest, world: World) -> Found:
    """L2: None as input ("nothing happened") returns a transition."""
    try:
        subject.engine.step(world.state, None)
    except Exception as error:  # whatever it is: totality is what is tested
        return Problem(f"step raised {type(error).__name__}: {error} on None as input")
    return None


# --------------------------------------------------------------------------------------------------------- L3 answered


def check_arrival_order(subject: EngineUnderTest, world: World) -> Found:
    """L3: the history does not depend on the order in which the results of the calls in flight arrive.

    Tries both orders of each two neighbours; every order consists of such exchanges. Excludes approvals: when a budget
    runs out, the call approved last can't run.
    """
    calls = [effect for effect in world.open if isinstance(effect, CallTool | SpawnWorker | Recall | AskUser)]
    for place, first in enumerate(calls[:-1]):
        forward = _settle(subject, world, (first, calls[place + 1]))
        backward = _settle(subject, world, (calls[place + 1], first))
        one, other = history_of(forward[-1].after.state), history_of(backward[-1].after.state)
        if one != other:
            return Problem(
                f"history depends on whether {first.effect_id} or {calls[place + 1].effect_id} is answered first:\n"
                f"    {_results(one)}\n    {_results(other)}",
                tuple(backward),
            )
    return None


def _settle(subject: EngineUnderTest, world: World, first: Iterable[Effect]) -> list[Edge]:
    edges: list[Edge] = []
    for effect in first:
        world = step_on(subject.engine, world, answer(effect), edges)
    while len(edges) < MOST_STEPS:
        rest = [effect for effect in world.open if not isinstance(effect, CallModel)]
        if not rest or edges[-1].error is not None:
            break
        world = step_on(subject.engine, world, answer(rest[0]), edges)
    return edges


def _results(messages: Iterable[Message]) -> str:
    return ", ".join(f"{m.call_id}={m.content!r}" for m in messages if isinstance(m, ToolMessage))


# ------------------------------------------------------------------------------------------------------ L7 cancellable


def check_cancellable(subject: EngineUnderTest, world: World) -> Found:
    """L7: a cancellation ends the turn in one step, stops all effects, closes every call, and allows a next message."""
    edge = take(subject.engine, world, CancelAsked("enough"))
    if not world.in_turn or edge.error is not None:
        return None  # not cancellable, or L2's matter
    if problem := _check_cancelled(world, edge):
        return Problem(problem, (edge,))
    edges = [edge, take(subject.engine, edge.after, UserSpoke("Go on."))]
    while not any(isinstance(decision, CallModel | TurnFinished) for decision in edges[-1].transition.decisions):
        world = edges[-1].after
        if not world.open or edges[-1].error is not None or len(edges) >= MOST_STEPS:
            return Problem("after a cancellation, the user's next message leads to no model call", tuple(edges[:8]))
        edges.append(take(subject.engine, world, answer(world.open[-1])))
    found = check_results(subject, edges[-1])
    return None if found is None else Problem(f"after a cancellation, {found.text}", tuple(edges))


def _check_cancelled(world: World, edge: Edge) -> str | None:
    decisions, history = edge.transition.decisions, history_of(edge.transition.next_state)
    if is_rejected(edge.transition):
        return "a turn is under way and cancelling it is rejected"
    if edge.after.in_turn or edge.after.is_closed:
        return f"after a cancellation the phase is {edge.after.phase_name}"
    stopped = [decision.effect_id for decision in decisions if isinstance(decision, CancelEffect)]
    for effect in world.open:
        if (times := stopped.count(effect.effect_id)) != 1:
            return f"{type(effect).__name__} {effect.effect_id} is in flight and is cancelled {times} times"
    last = decisions[-1] if decisions else None
    state: object = world.state
    phase = state.phase if isinstance(state, AgentState) else None
    if isinstance(phase, Compacting) and phase.attempt is None:
        return None if isinstance(last, NotCompacted) else f"a summary between turns is cancelled and ends as {last}"
    if not isinstance(last, TurnFinished) or not isinstance(last.outcome, Cancelled):
        return f"the cancelled turn does not end as cancelled but with {last}"
    results = {m.call_id: m.status for m in history if isinstance(m, ToolMessage)}
    for effect in world.open:
        call: ToolCall | None = getattr(effect, "call", None)
        if call is not None and history and results.get(call.id) != "cancelled":
            return f"the open call {call.id} has {results.get(call.id, 'no result')!r}, not 'cancelled'"
    return find_unpaired(tuple(history))


# --------------------------------------------------------------------------------------------------------- L8 faithful


def check_state_encoding(subject: EngineUnderTest, world: World) -> Found:
    """L8: the state survives JSON encoding and decoding unchanged, and continues like the live state.

    With purity (L1) it follows that the fold over a journal's inputs equals the live state, step by step.
    """
    try:
        stored = read_back(world.state, type(world.state))
    except UNREADABLE as error:
        return Problem(f"the state can't be recorded: {type(error).__name__}: {error}")
    if stored != world.state:
        return Problem(f"the state comes back from its JSON changed: {contrast(world.state, stored)}")
    return check_continuation(subject, world, stored)


def check_continuation(subject: EngineUnderTest, world: World, stored: Any) -> Found:
    """L8: from a decoded state an engine continues as from the live state."""
    for event in [answer(effect) for effect in world.open] or [UserSpoke("Hello")]:
        if _step(subject, world.state, event) != _step(subject, stored, event):
            live, again = take(subject.engine, world, event), take(subject.engine, evolve(world, state=stored), event)
            difference = contrast(live.transition, again.transition)
            return Problem(f"a stored state goes on otherwise than the live one: {difference}", (live,))
    return None


def _step(subject: EngineUnderTest, state: Any, event: Input) -> Transition | None:
    try:
        return subject.engine.step(state, event)
    except Exception:  # L2's matter
        return None


# ------------------------------------------------------------------------------------------------------------ L10 alive


def check_liveness(subject: EngineUnderTest, world: World) -> Found:
    """L10: an effect is always in flight until the turn ends, and benign answers lead there."""
    edges: list[Edge] = []
    now = world.turn.started_at if world.turn is not None else 0.0
    while world.in_turn:
        if not world.open:
            return Problem(f"nothing is in flight and the phase is {world.phase_name}", tuple(edges))
        if len(edges) >= MOST_STEPS:
            return Problem(f"{MOST_STEPS} benign answers do not lead to idle", tuple(edges[:8]))
        world = step_on(subject.engine, world, answer(world.open[0], now), edges)
        if edges[-1].error is not None:
            return None  # L2's matter
    return None


def check_reset(subject: EngineUnderTest, world: World) -> Found:
    """L10: after a reset a message leads to a model call, as in a new session, for any previous inputs."""
    if world.is_closed:
        return None
    edges = [take(subject.engine, world, SessionReset())]
    speaks = edges[-1].error is not None or _speak(subject, edges, edges[-1].after)
    if speaks or not _speak(subject, [], subject.beginning):
        return None
    return Problem("after a reset a message leads to no model call, though it does in a new session", tuple(edges))


def _speak(subject: EngineUnderTest, edges: list[Edge], world: World) -> bool:
    """Return whether a short message leads to a model call with benign answers."""
    event: Input = UserSpoke("Hello")
    for _ in range(MOST_STEPS):
        world = step_on(subject.engine, world, event, edges)
        if any(isinstance(decision, CallModel) for decision in edges[-1].transition.decisions):
            return True
        if edges[-1].error is not None or not world.open:
            break
        event = answer(world.open[-1])
    return False


def check_nudges(subject: EngineUnderTest, world: World) -> Found:
    """L10: replies without text and calls end the turn with the third at the latest."""
    if not any(isinstance(effect, CallModel) and effect.purpose != "summary" for effect in world.open):
        return None
    edges: list[Edge] = []
    for silent in SILENT:
        call = next((effect for effect in world.open if isinstance(effect, CallModel)), None)
        if call is not None and call.purpose == "summary":  # what was said to the model may have filled the context
            world = step_on(subject.engine, world, silent(call.effect_id), edges)
            call = next((effect for effect in world.open if isinstance(effect, CallModel)), None)
        if call is None:
            outcomes = [d.outcome for d in edges[-1].transition.decisions if isinstance(d, TurnFinished)]
            if any(isinstance(one, Failed) and one.kind == "context_overflow" for one in outcomes):
                return None  # there was no room for what it was told
            return Problem("a reply without text and calls leaves the turn without a model call", tuple(edges))
        world = step_on(subject.engine, world, silent(call.effect_id), edges)
        if edges[-1].error is not None or not world.in_turn:
            return None
    return Problem(f"{SILENT_REPLIES} replies without text and calls do not end the turn", tuple(edges))


SILENT: tuple[Callable[[EffectId], ModelReplied], ...] = (
    ModelReplied,
    lambda effect_id: ModelReplied(effect_id, reasoning="Hmm."),
    lambda effect_id: ModelReplied(effect_id, " \n"),
)
"""An empty reply of each kind: nothing, only reasoning, only white space."""
