"""The laws meet states of other classes, and say so where an engine raises before anything comes of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from attrs import evolve, fields, frozen
from hypothesis import given, settings

from cognition import (
    AgentConfig,
    AgentState,
    CallModel,
    CallTool,
    CancelAsked,
    CancelEffect,
    Cancelled,
    Completed,
    Decision,
    EchoEngine,
    EffectId,
    GenerationOptions,
    History,
    Input,
    LLMEngine,
    ModelReplied,
    ModelRequest,
    Rejected,
    SessionReset,
    ShutdownAsked,
    ToolCall,
    ToolSpec,
    Transition,
    TurnFinished,
    Usage,
    UserMessage,
    UserSpoke,
)
from cognition.steps.decisions import SessionClosed
from cognition.testing import (
    ANY,
    InconclusiveError,
    LawViolation,
    Trace,
    World,
    explore,
    laws,
    trace,
)
from cognition.testing._law import Law
from cognition.testing._search import Walk
from cognition.testing._world import take
from cognition.testing.machine import machine
from cognition.testing.strategies import states

HELLO = UserSpoke("Hello")
NOTHING = Usage()


@frozen
class Ledger(AgentState):
    """The core's state with something more: what an engine on top of ``LLMEngine`` keeps."""

    spoken: int = 0


class Counting(LLMEngine):
    def step(self, state: AgentState, input: Input | None) -> Transition:
        transition = super().step(state, input)
        after = transition.next_state
        if after is state:
            return transition
        spoken = getattr(state, "spoken", 0) + isinstance(input, UserSpoke)
        kept = {field.name: getattr(after, field.name) for field in fields(AgentState)}
        return evolve(transition, next_state=Ledger(**kept, spoken=spoken))


COUNTING = Counting(AgentConfig(tools=(ToolSpec("look", read_only=True), ToolSpec("write", approval=True))))


@frozen
class Talk:
    """A state that has nothing of the core's."""

    turns: int = 0
    asked: EffectId | None = None
    over: bool = False
    text: str = ""


class Talking:
    """A whole engine on a state of its own: one model call a turn."""

    def step(self, state: Any, input: Input | None) -> Any:
        return Transition(*self.decide(state, input))  # type: ignore[arg-type]  # the class of the state is its own

    def decide(self, state: Talk, input: Input | None) -> tuple[Talk, tuple[Decision, ...]]:
        effect_id = getattr(input, "effect_id", None)
        finished = TurnFinished(Completed("Done."), Usage())
        match input:
            case None:
                return state, ()
            case ShutdownAsked() if not state.over:
                stopped: tuple[Decision, ...] = self.stop(state) if state.asked else ()
                return evolve(state, asked=None, over=True), (*stopped, SessionClosed())
            case SessionReset() if not state.over:
                return Talk(state.turns), self.stop(state) if state.asked else ()
            case UserSpoke(text=text) if not state.over and state.asked is None:
                asked = EffectId(f"{state.turns + 1}.1.0")
                return Talk(state.turns + 1, asked, text=text), (CallModel(asked, "answer", self.request(text)),)
            case CancelAsked(usage=usage) if state.asked is not None:
                return evolve(state, asked=None), self.stop(state, usage)
            case ModelReplied(usage=usage) if effect_id == state.asked and state.asked is not None:
                return evolve(state, asked=None), (evolve(finished, usage=usage),)
            case _ if effect_id is not None and effect_id == state.asked and type(input).__name__.startswith("Model"):
                return evolve(state, asked=None), (evolve(finished, usage=getattr(input, "usage", Usage())),)
            case CancelAsked() | UserSpoke():
                return state, (Rejected("out_of_phase", type(input).__name__, "not now"),)
            case _ if effect_id is not None or state.over:
                return state, (Rejected("foreign", type(input).__name__, "nobody asked", effect_id),)
            case _:
                return state, ()

    def stop(self, state: Talk, usage: Usage = NOTHING) -> tuple[Decision, ...]:
        assert state.asked is not None
        return CancelEffect(state.asked), TurnFinished(Cancelled(""), usage)

    def request(self, text: str) -> ModelRequest:
        return ModelRequest("", History([UserMessage("m1", text)]), (), GenerationOptions())


def law_of(name: str, engine: object, start: object) -> Law:
    return next(law for law in laws(engine, start=start) if law.name == name)  # type: ignore[arg-type]  # of the test


@pytest.mark.parametrize("law", laws(COUNTING, start=Ledger()), ids=lambda law: law.name)
def test_an_engine_whose_state_is_more_than_the_cores_is_held_to_every_law(law: Law) -> None:
    law.check(max_examples=30)


ALPHABET = (HELLO, UserSpoke("Again"), ModelReplied(ANY, "Done."), CancelAsked(), ShutdownAsked())


LACKING = ("tools", "limits", "context")


@pytest.mark.parametrize(
    "law", laws(Talking(), start=Talk(), alphabet=ALPHABET, without=LACKING), ids=lambda law: law.name
)
def test_an_engine_with_a_state_of_another_class_is_held_to_what_can_be_told_from_outside(law: Law) -> None:
    law.check(max_examples=50)


def test_an_exploration_and_a_state_machine_begin_at_the_state_that_they_are_given() -> None:
    found = explore(Talking(), ALPHABET, limit=60, start=Talk())
    own = explore(COUNTING, limit=100, start=Ledger())

    assert (found.violation, found.states, found.spoken, found.raised) == (None, 60, True, 0)
    assert (own.violation, own.states) == (None, 100)


class EndsNothing(Talking):
    def stop(self, state: Talk, usage: Usage = NOTHING) -> tuple[Decision, ...]:
        return super().stop(state, usage)[1:]


class KeepsOn(Talking):
    def stop(self, state: Talk, usage: Usage = NOTHING) -> tuple[Decision, ...]:
        return super().stop(state, usage)[:1]


class Mute(Talking):
    def request(self, text: str) -> ModelRequest:
        return ModelRequest("", History(), (), GenerationOptions())


class Forgetful(Talking):
    """Holds what it should keep in its state."""

    said = ""

    def decide(self, state: Talk, input: Input | None) -> tuple[Talk, tuple[Decision, ...]]:
        following, decisions = super().decide(state, input)
        self.said += following.text
        return evolve(following, text=self.said), decisions


class Unwritable(Talking):
    def decide(self, state: Talk, input: Input | None) -> tuple[Talk, tuple[Decision, ...]]:
        following, decisions = super().decide(state, input)
        return (evolve(following, text=object()) if state.turns else following), decisions


@pytest.mark.parametrize(
    ("name", "engine", "expected"),
    [
        ("L1", Forgetful(), "equal arguments gave transitions that differ in next_state.text"),
        ("L6", EndsNothing(), "the turn is finished and 1.1.0 is still in flight"),
        ("L7", EndsNothing(), "CallModel 1.1.0 is in flight and is cancelled 0 times"),
        ("L7", KeepsOn(), "after a cancellation the phase is in a turn"),
        ("L8", Unwritable(), "a stored state goes on otherwise than the live one"),
        ("L9", Mute(), "does not begin at a turn but with None"),
    ],
)
def test_faults_of_an_engine_with_a_state_of_another_class_are_found(name: str, engine: Talking, expected: str) -> None:
    with pytest.raises(LawViolation) as raised:
        law_of(name, engine, Talk()).check(max_examples=100)

    assert expected in raised.value.problem


def test_calls_of_which_nobody_knows_where_they_stand_are_not_judged() -> None:
    """Laws L4 and L5 read the history and the rules of a state; another class shows neither."""

    class Calling(Talking):
        def decide(self, state: Talk, input: Input | None) -> tuple[Talk, tuple[Decision, ...]]:
            following, decisions = super().decide(state, input)
            return following, (*decisions, CallTool(EffectId("1.1.9"), ToolCall("c1", "look")))

    edge = take(Calling(), World(Talk()), HELLO)  # type: ignore[arg-type]  # a state of the test's own class

    assert law_of("L4", Calling(), Talk()).step(edge) is None
    assert law_of("L5", Calling(), Talk()).step(edge) is None


def test_a_session_with_a_state_of_another_class_is_closed_when_it_is_said_to_be() -> None:
    world = World(Talk())  # type: ignore[arg-type]  # a state of the test's own class
    asked = take(Talking(), world, HELLO).after
    closed = take(Talking(), asked, ShutdownAsked()).after

    assert [(one.in_turn, one.is_closed, one.phase_name) for one in (world, asked, closed)] == [
        (False, False, "Idle"),
        (True, False, "in a turn"),
        (False, True, "Closed"),
    ]


def test_strategies_draw_states_of_the_class_that_a_session_begins_with() -> None:
    seen: list[int] = []

    @settings(max_examples=20, database=None, derandomize=True)
    @given(states(COUNTING, start=Ledger()))
    def draw(state: Any) -> None:
        seen.append(getattr(state, "spoken", 0))

    draw()

    assert max(seen) > 0


# -------------------------------------------------------------------------------------------------------- inconclusive


class Raising:
    """Raises at every step, or at every input of a kind."""

    def __init__(self, kinds: type | tuple[type, ...] = object) -> None:
        self.kinds, self.engine = kinds, EchoEngine()

    def step(self, state: AgentState, input: Input | None) -> Transition:
        if input is not None and isinstance(input, self.kinds):
            raise KeyError("phase_of_mine")
        return self.engine.step(state, input)


EVERY_OTHER = [law.name for law in laws(EchoEngine()) if law.name != "L2"]


@pytest.mark.parametrize("name", EVERY_OTHER)
@pytest.mark.parametrize("kinds", [object, UserSpoke], ids=["at every input", "at every message"])
def test_a_law_of_which_nothing_was_seen_is_inconclusive(name: str, kinds: type) -> None:
    """Where every run raised, no law but L2 has been looked at: that is said, and is no success."""
    with pytest.raises(InconclusiveError) as raised:
        law_of(name, Raising(kinds), None).check(max_examples=30)

    assert raised.value.law.name == name
    assert str(raised.value).startswith(
        f"{name} ({raised.value.law.title}) is inconclusive: step raised in each of the"
    )
    assert "-> raised KeyError: 'phase_of_mine'" in str(raised.value)
    assert isinstance(raised.value.story, Trace)


def test_what_raises_is_the_matter_of_the_law_of_totality() -> None:
    with pytest.raises(LawViolation, match="step raised KeyError"):
        law_of("L2", Raising(), None).check(max_examples=30)


def test_an_engine_that_begins_at_the_wrong_state_is_told_how_to_begin() -> None:
    """The commonest reason: a state class of its own, of which nobody told the kit."""
    with pytest.raises(InconclusiveError, match=r"laws\(engine, start=\.\.\.\)"):
        law_of("L3", Talking(), None).check(max_examples=30)


def test_an_engine_that_raises_now_and_then_is_held_to_what_is_seen_of_it() -> None:
    law = next(law for law in laws(Raising(CancelAsked), without=("model", "tools")) if law.name == "L6")

    assert law.check(max_examples=50).status == "held"


def test_an_alphabet_that_does_not_lead_to_what_a_law_is_about_is_inconclusive() -> None:
    def check(engine: object, alphabet: Sequence[Input]) -> None:
        next(law for law in laws(engine, alphabet=alphabet) if law.name == "L3").check(max_examples=30)  # type: ignore[arg-type]  # of the test

    with pytest.raises(InconclusiveError, match="the model was called with the result of a call"):
        check(Raising(CancelAsked), [ShutdownAsked(), CancelAsked()])
    with pytest.raises(InconclusiveError, match="step raised in each of the"):
        check(Raising(ShutdownAsked), [ShutdownAsked()])


@pytest.mark.parametrize("name", ["L4", "L5"])
def test_a_law_that_reads_nothing_of_a_state_says_so(name: str) -> None:
    with pytest.raises(InconclusiveError, match="reads nothing from a state that is not an AgentState"):
        law_of(name, Talking(), Talk()).check(max_examples=2)


def test_an_exploration_in_which_every_step_raised_says_so() -> None:
    found = explore(Raising(), limit=50, leave_out=("L2",))
    silent = explore(Raising(UserSpoke), limit=50, leave_out=("L2",))
    seen = explore(Raising(CancelAsked), limit=50, leave_out=("L2",))

    assert (found.states, found.raised == found.transitions, found.inconclusive) == (1, True, True)
    assert (silent.inconclusive, silent.spoken) == (True, False)
    assert (seen.inconclusive, seen.spoken, seen.raised > 0) == (False, True, True)
    assert not explore(Raising(), limit=50).inconclusive


def test_a_story_may_be_told_from_a_state_of_ones_own() -> None:
    story = trace(Talking(), [HELLO], World(Talk()))  # type: ignore[arg-type]  # a state of the test's own class

    assert "CallModel" in str(story)
    Walk(laws(Talking(), start=Talk())).take(HELLO)


TestTalkingMachine = machine(Talking(), leave_out=("L2",), start=Talk()).TestCase
TestTalkingMachine.settings = settings(max_examples=20, stateful_step_count=15, derandomize=True, deadline=None)
