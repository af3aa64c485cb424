"""A session as seen from outside: the state, the effects in flight, and the turn's usage so far.

This module reads only inputs and decisions, so it works for any ``CognitiveEngine``. It has the same knowledge as an
interpreter, and the laws are checked against it.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Protocol, cast

from attrs import evolve, fields, frozen

from cognition.base.ids import EffectId
from cognition.steps.decisions import (
    ANSWERS,
    EFFECT_TYPES,
    AskApproval,
    AskUser,
    CallModel,
    CallTool,
    CancelEffect,
    Effect,
    Rejected,
    Remember,
    ReviewPlan,
    RunHook,
    SessionClosed,
    SpawnWorker,
    TurnFinished,
)
from cognition.steps.engine_tools import REMEMBER
from cognition.steps.inputs import (
    ApprovalGiven,
    ApprovalRefused,
    CancelAsked,
    CompactionAsked,
    HookReturned,
    Input,
    ModelFailed,
    ModelInterrupted,
    ModelReplied,
    PlanReviewed,
    QuestionAnswered,
    TimerFired,
    ToolFailed,
    UserSpoke,
    WorkerFailed,
    WorkerFinished,
    WorkerStalled,
)
from cognition.steps.phases import Closed, Idle
from cognition.steps.state import AgentState
from cognition.steps.transition import Transition
from cognition.steps.vocabulary import WORKER_TOOLS
from cognition.values.history import History
from cognition.values.messages import ToolCall, Usage, find_unusable


class AnyEngine(Protocol):
    """A ``CognitiveEngine``, or a similar engine with its own state class."""

    def step(self, state: Any, input: Input | None) -> Transition: ...


REMEMBERED_EFFECTS = 3
"""The number of ended effects that a world retains, for late and duplicate answers."""


@frozen
class Turn:
    """The usage of the current turn, counted from outside."""

    started_at: float = 0.0
    replies: int = 0
    calls: int = 0
    refusals: int = 0
    """Refusals by the user since a call last ran or was approved."""
    workers: int = 0
    continued: int = 0
    """How often a hook asked the turn to continue instead of completing."""
    usage: Usage = Usage()
    ran: tuple[ToolCall, ...] = ()
    """The calls of the newest reply that were started, in that order."""
    asked_at: float | None = None
    """Since when only a person is awaited; None if any other effect is in flight."""
    objected: int = 0
    """Answers that did not have the requested form."""
    cut: bool = False
    """Whether the newest reply was cut at its token limit. Summaries do not count as replies here."""
    summarised: int | None = None
    """The number of replies when a summary was last requested; None: not in this turn."""


@frozen
class World:
    """A session between two inputs, as its interpreter sees it."""

    state: AgentState = AgentState()
    """Or a value of the engine's own class. Without an ``AgentState``, the other fields are used instead."""
    open: tuple[Effect, ...] = ()
    """The effects in flight: decided, and neither answered by an accepted input nor cancelled."""
    over: tuple[Effect, ...] = ()
    """The last ``REMEMBERED_EFFECTS`` ended effects, oldest first."""
    granted: tuple[ToolCall, ...] = ()
    """Calls of the newest reply that the user approved and that have not started yet, or failed with a transient error.
    """
    changed: tuple[ToolCall, ...] = ()
    """Calls of the newest reply whose arguments a hook or the user changed, with the new arguments."""
    approved: tuple[ToolCall, ...] = ()
    """Calls of the newest reply that the user approved, including those that ran since."""
    failed: tuple[ToolCall, ...] = ()
    """Calls of the newest reply whose latest run failed with a transient error."""
    turn: Turn | None = None
    """None between turns."""
    closed: bool = False

    @property
    def is_closed(self) -> bool:
        """Whether the session is closed, by its state, or by the decisions if the state has its own class."""
        state: object = self.state
        return isinstance(state.phase, Closed) if isinstance(state, AgentState) else self.closed

    @property
    def in_turn(self) -> bool:
        """Whether a turn is in progress, or a summary between two turns.

        Read from the state, or from inputs and decisions if the state has its own class.
        """
        state: object = self.state
        if isinstance(state, AgentState):
            return not isinstance(state.phase, Idle | Closed)
        return self.turn is not None and not self.closed

    @property
    def phase_name(self) -> str:
        state: object = self.state
        if isinstance(state, AgentState):
            return type(state.phase).__name__
        return "Closed" if self.closed else "in a turn" if self.in_turn else "Idle"


@frozen
class Edge:
    """One step of an engine: the world before, the input, the transition, the world after."""

    before: World
    input: Input
    transition: Transition
    after: World
    error: str | None = None
    """The exception that ``step`` raised; the transition then changes nothing."""


def advance(engine: AnyEngine, world: World, input: Input) -> tuple[Transition, World]:
    """Take one step. Propagates any exception of the engine's ``step``."""
    transition = engine.step(world.state, input)
    return transition, after(world, input, transition)


def take(engine: AnyEngine, world: World, input: Input) -> Edge:
    """Take one step. An exception of the engine becomes data, since raising breaks a law like any other."""
    try:
        transition, following = advance(engine, world, input)
    except Exception as error:  # whatever it is: totality is what is tested
        return Edge(world, input, Transition(world.state), world, f"{type(error).__name__}: {error}")
    return Edge(world, input, transition, following)


def step_on(engine: AnyEngine, world: World, input: Input, edges: list[Edge]) -> World:
    """Take one step, add it to ``edges``, and return the world after it."""
    edges.append(take(engine, world, input))
    return edges[-1].after


def is_rejected(transition: Transition) -> bool:
    for decision in transition.decisions:  # noqa: SIM110 - asked of every step, and ``any`` takes three times as long
        if type(decision) is Rejected:
            return True
    return False


ASKED = frozenset({AskApproval, AskUser, ReviewPlan})
"""Effects that a person answers."""
BY_PERSONS = (ApprovalGiven, ApprovalRefused, QuestionAnswered, PlanReviewed)
"""The answers to them. The time spent waiting only for a person does not count towards the turn."""


def count(world: World, event: Input) -> Turn | None:
    """Return the turn's counts after an accepted input and before its decisions."""
    if isinstance(event, UserSpoke):
        return Turn(event.at)
    turn = world.turn
    if turn is None:
        return None
    if turn.asked_at is not None and isinstance(event, BY_PERSONS):
        turn = evolve(turn, started_at=turn.started_at + max(0.0, event.at - turn.asked_at))
    match event:
        case ModelReplied(usage=usage):
            turn = _with(turn, turn.usage + usage, turn.replies + 1, ())
            if turn.summarised is not None and is_of_summary(world, event):
                return turn
            turn = evolve(turn, objected=turn.objected + 1) if is_objected(event) else turn
            cut = event.finish_reason == "length"
            return turn if cut == turn.cut else evolve(turn, cut=cut)
        case ModelFailed() | ModelInterrupted() | WorkerFinished() | WorkerFailed() | WorkerStalled() | CancelAsked():
            return _with(turn, turn.usage + event.usage, turn.replies, turn.ran)
        case ApprovalGiven():
            return evolve(turn, refusals=0)
        case ApprovalRefused(failed=False):
            return evolve(turn, refusals=turn.refusals + 1)
        case HookReturned(verdict="go_on"):
            hook = answered_effect(world, event)
            at_stop = isinstance(hook, RunHook) and hook.point == "stop"
            return evolve(turn, continued=turn.continued + 1) if at_stop else turn
        case _:
            return turn


def is_of_summary(world: World, event: Input) -> bool:
    effect = answered_effect(world, event)
    return isinstance(effect, CallModel) and effect.purpose == "summary"


def is_objected(event: Input) -> bool:
    """Return whether the input is an answer without the requested form."""
    if not isinstance(event, ModelReplied) or not event.objection:
        return False
    return bool(event.text.strip()) and not event.calls and not event.malformed


def _with(turn: Turn, usage: Usage, replies: int, ran: tuple[ToolCall, ...], run: int = 0) -> Turn:
    """``evolve`` for the most frequent cases; ``evolve`` would take a tenth of an exploration's time.

    ``run``: how many calls begin to run, which ends a row of refusals.
    """
    refusals = 0 if run else turn.refusals
    return Turn(
        turn.started_at,
        replies,
        turn.calls + run,
        refusals,
        turn.workers,
        turn.continued,
        usage,
        ran,
        turn.asked_at,
        turn.objected,
        turn.cut,
        turn.summarised,
    )


def history_of(state: object) -> History:
    """Return the messages so far; empty if the state has its own class, which may store them in its own way."""
    return state.history if isinstance(state, AgentState) else History()


def answered_effect(world: World, event: Input) -> Effect | None:
    """Return the effect in flight that an input answers, if any."""
    effect_id: EffectId | None = getattr(event, "effect_id", None)
    return next((effect for effect in world.open if effect.effect_id == effect_id), None)


def granted_by(world: World, event: Input) -> tuple[ToolCall, ...]:
    if isinstance(event, ModelReplied):
        return ()
    if isinstance(event, ApprovalGiven) and (call := approved_call(world, event)):
        return (*world.granted, call)
    if (failed := failed_by(world, event)) and failed in world.approved:
        return (*world.granted, failed)
    return world.granted


def failed_by(world: World, event: Input) -> ToolCall | None:
    """Return the call for which this input reports a transient failure."""
    if isinstance(event, ToolFailed) and event.transient:
        effect = answered_effect(world, event)
        return effect.call if isinstance(effect, CallTool) else None
    return None


def approved_call(world: World, event: ApprovalGiven) -> ToolCall | None:
    """Return the call that the user approves, with the user's arguments if there are any.

    None if those arguments are unusable.
    """
    effect = answered_effect(world, event)
    if not isinstance(effect, AskApproval) or event.arguments_json in (None, effect.call.arguments_json):
        return effect.call if isinstance(effect, AskApproval) else None
    edited = ToolCall(effect.call.id, effect.call.name, event.arguments_json)
    return None if find_unusable(edited) else edited


def changed_by(world: World, event: Input) -> tuple[ToolCall, ...]:
    if isinstance(event, ModelReplied):
        return ()
    call: ToolCall | None = None
    if isinstance(event, HookReturned) and event.arguments_json is not None:
        effect = answered_effect(world, event)
        if isinstance(effect, RunHook) and effect.point == "before_tool" and effect.call is not None:
            call = ToolCall(effect.call.id, effect.call.name, event.arguments_json)
    if isinstance(event, ApprovalGiven) and event.arguments_json is not None:
        call = approved_call(world, event)
    return world.changed if call is None else (*(one for one in world.changed if one.id != call.id), call)


EFFECTS: frozenset[type] = frozenset(EFFECT_TYPES)


def after(world: World, event: Input, transition: Transition) -> World:
    """Return the world after a step: it adds the decided effects, and removes the answered and cancelled ones."""
    state = transition.next_state
    if is_rejected(transition):
        return world if state is world.state else evolve(world, state=state)
    open_, over, closed = list(world.open), list(world.over), world.closed
    turn, granted, changed = count(world, event), granted_by(world, event), changed_by(world, event)
    approved, failed = ((), ()) if isinstance(event, ModelReplied) else (world.approved, world.failed)
    if granted and granted != world.granted:
        approved = (*approved, *(call for call in granted if call not in approved))
    if again := failed_by(world, event):
        failed = (*failed, again)
    if (effect_id := getattr(event, "effect_id", None)) is not None:
        _close(effect_id, open_, over)
    for decision in transition.decisions:  # by exact type, as in the codec: ``match`` takes three times as long
        kind = type(decision)
        if kind in EFFECTS:
            open_.append(cast(Effect, decision))
        if isinstance(decision, CallTool):
            granted = tuple(other for other in granted if other.id != decision.call.id)
            if failed:
                failed = tuple(other for other in failed if other.id != decision.call.id)
            turn = turn and _with(turn, turn.usage, turn.replies, (*turn.ran, decision.call), run=1)
        elif isinstance(decision, CallModel):
            if decision.purpose == "summary" and turn is not None and type(event) is not TimerFired:
                turn = evolve(turn, summarised=turn.replies)
        elif kind is SpawnWorker:
            granted = _use_grant(granted, *WORKER_TOOLS)
            turn = turn and evolve(turn, workers=turn.workers + 1)
        elif kind is Remember:
            granted = _use_grant(granted, REMEMBER.name)
        elif isinstance(decision, CancelEffect):
            _close(decision.effect_id, open_, over)
        elif kind is TurnFinished:
            turn, granted, changed, approved, failed = None, (), (), (), ()
        elif kind is SessionClosed:
            closed = True
    if turn is not None:
        asked_at = turn.asked_at
        if open_ and open_ != list(world.open):
            asked_at = event.at if all(type(effect) in ASKED for effect in open_) else None
        if asked_at != turn.asked_at:
            turn = evolve(turn, asked_at=asked_at)
    over_ = tuple(over[-REMEMBERED_EFFECTS:])
    return World(state, tuple(open_), over_, granted, changed, approved, failed, turn, closed)


def _use_grant(granted: tuple[ToolCall, ...], *names: str) -> tuple[ToolCall, ...]:
    """Remove the first call with the first matching name, which the engine has executed itself."""
    places = (place for name in names for place, call in enumerate(granted) if call.name == name)
    found = next(places, len(granted))
    return granted[:found] + granted[found + 1 :]


def _close(effect_id: EffectId, open_: list[Effect], over: list[Effect]) -> None:
    for position, effect in enumerate(open_):
        if effect.effect_id == effect_id:
            over.append(open_.pop(position))
            return


def readdress(event: Input, effect_id: EffectId) -> Input:
    """Return the same answer, to another effect. Raises for an input that is not an answer."""
    kind: Any = type(event)
    values = {name: getattr(event, name) for name in _names(kind)}  # half of the time that ``evolve`` takes
    changed: Input = kind(**{**values, "effect_id": effect_id})
    return changed


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def can_answer(event: Input, effect: Effect) -> bool:
    """Return whether an input is an answer to this effect, apart from its id.

    Questions are answered one by one, with one choice each unless several are allowed.
    """
    if type(event) not in ANSWERS[type(effect)]:
        return False
    if isinstance(event, QuestionAnswered) and isinstance(effect, AskUser):
        return len(event.answers) == len(effect.questions) and all(
            len(chosen) == 1 or (question.multiple and len(chosen) > 1)
            for question, chosen in zip(effect.questions, event.answers, strict=True)
        )
    return True


def belongs(world: World, event: Input) -> bool:
    """Return whether an input belongs here:

    - an answer: if an effect in flight accepts it;
    - a user message and a request for a summary: between turns;
    - a cancellation: within a turn, or during a summary between turns;
    - a change of mode, forgotten rules, a reset and a shutdown: until the session is closed.
    """
    if world.is_closed:
        return False
    if getattr(event, "effect_id", None) is not None:
        effect = answered_effect(world, event)
        return effect is not None and can_answer(event, effect)
    match event:
        case UserSpoke() | CompactionAsked():
            return not world.in_turn
        case CancelAsked():
            return world.in_turn
        case _:  # ModeChanged, ApprovalsForgotten, SessionReset, ShutdownAsked
            return True
