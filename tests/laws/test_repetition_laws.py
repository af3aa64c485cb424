"""L6 of calls that repeat: an engine that ends a turn too early, or never, is found."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from attrs import evolve

from cognition import (
    AgentConfig,
    ApprovalGiven,
    AssistantMessage,
    CallModel,
    EchoEngine,
    History,
    HookReturned,
    Image,
    Input,
    LimitHit,
    LimitReached,
    Limits,
    LLMEngine,
    ModelReplied,
    ModelRequest,
    ProposedCall,
    ToolReturned,
    ToolSpec,
    Transition,
    TurnFinished,
    Usage,
    UserSpoke,
)
from cognition.engine.handlers import _batch
from cognition.testing import Edge, Law, LawViolation, World, laws
from cognition.testing._engine_under_test import EngineUnderTest
from cognition.testing._repetition_laws import Rounds, check_repetitions, rounds_of
from examples.faulty_engines import CONFIG
from tests.laws.tampering import Change, add, edge_after, effect, only

WRITE, ASK, POLL = ToolSpec("write"), ToolSpec("ask", approval=True), ToolSpec("poll", polls=True)
ROOM = Limits(steps=20)
BASE = AgentConfig(tools=(WRITE, ASK, POLL), limits=ROOM)
LOOP = LimitHit("loop", "x")
TOO_EARLY = "the turn ends as a loop, and no calls gave the same results as often as they may"
TOO_LATE = "the model is called with tools, and its calls gave the same results {} times in a row"
LONG = "x" * 100_000
SHOT = Image.of(b"GIF89a" + bytes(300))


class Impatient(LLMEngine):
    """Ends a turn at the third equal call, whatever the results are."""

    def __init__(self, config: AgentConfig = CONFIG) -> None:
        super().__init__(evolve(config, edition=1))
        self.config = config


class Tireless(LLMEngine):
    """Never ends a turn as a loop."""

    def __init__(self, config: AgentConfig = CONFIG) -> None:
        super().__init__(evolve(config, limits=evolve(config.limits, repeats=None)))
        self.config = config


def bounded(engine: LLMEngine) -> Law:
    return next(law for law in laws(engine) if law.name == "L6")


@pytest.mark.parametrize("faulty", [Impatient, Tireless])
def test_an_engine_that_ends_a_turn_too_early_or_never_is_caught(faulty: Callable[[AgentConfig], LLMEngine]) -> None:
    with pytest.raises(LawViolation) as raised:
        bounded(faulty(evolve(CONFIG, tools=(WRITE,)))).check(max_examples=10)

    assert "the same results" in raised.value.problem
    assert len(raised.value.story.inputs) <= 7


def test_an_engine_that_looks_at_calls_only_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """No drawn run calls a tool several times with equal arguments and different results, so some do on purpose."""
    monkeypatch.setattr(_batch, "digest", lambda call, *_result: call)

    with pytest.raises(LawViolation, match=TOO_EARLY):
        bounded(LLMEngine(evolve(CONFIG, tools=(WRITE,)))).check(max_examples=10)


def test_the_engine_itself_is_found_in_order() -> None:
    assert bounded(LLMEngine(CONFIG)).check(max_examples=10).status == "held"


def turn(*results: str | ToolReturned, call: ProposedCall | None = None) -> tuple[Input, ...]:
    """A turn with one call in each reply, and its result."""
    events: list[Input] = [UserSpoke("Work")]
    for step, result in enumerate(results, 1):
        events.append(ModelReplied(effect(f"1.{step}.0"), calls=(call or ProposedCall("write"),)))
        given = ToolReturned(effect(""), result) if isinstance(result, str) else result
        events.append(evolve(given, effect_id=effect(f"1.{step}.1")))
    return tuple(events)


def edited(*arguments: str) -> tuple[Input, ...]:
    """A turn with different calls that the user approves with these arguments."""
    events: list[Input] = [UserSpoke("Work")]
    for step, given in enumerate(arguments, 1):
        events.append(ModelReplied(effect(f"1.{step}.0"), calls=(ProposedCall("ask", f'{{"n": {step}}}'),)))
        events.append(ApprovalGiven(effect(f"1.{step}.1"), arguments_json=given))
        events.append(ToolReturned(effect(f"1.{step}.2"), "ok"))
    return tuple(events)


def answered_between() -> tuple[Input, ...]:
    """A turn whose reply holds an answer beside its last call, which a hook does not take."""
    same = '{"a": "write", "i": {}}'
    events: list[Input] = [UserSpoke("Work")]
    for step in (1, 2, 3):
        text = same if step < 3 else '{"a": "write", "i": {}, "f": "Done."}'
        events += [ModelReplied(effect(f"1.{step}.0"), text), ToolReturned(effect(f"1.{step}.1"), "ok")]
    return (*events, HookReturned(effect("1.3.2"), "go_on"))


def unread(transition: Transition) -> Transition:
    """The newest call's arguments are no JSON, which another engine may not look at."""
    history, state = [], transition.next_state
    for message in state.history:
        if isinstance(message, AssistantMessage):
            message = evolve(message, calls=tuple(evolve(call, arguments_json="{") for call in message.calls))
        history.append(message)
    return evolve(transition, next_state=evolve(state, history=History(history)))


def called_again(transition: Transition) -> Transition:
    """The model may call tools, whatever was decided."""
    request = ModelRequest("", History(), BASE.tools, BASE.options)
    return evolve(transition, decisions=(CallModel(effect("1.9.0"), "answer", request),))


def found(config: AgentConfig, inputs: tuple[Input, ...], change: Change) -> str:
    engine = LLMEngine(config)
    problem = check_repetitions(bounded(engine).subject, edge_after(engine, inputs, change))
    return "" if problem is None else problem.text


CLAIMED = add(LOOP)


@pytest.mark.parametrize(
    ("inputs", "change", "expected"),
    [
        (turn("a", "a"), CLAIMED, TOO_EARLY),
        (turn("a", "a", "b"), CLAIMED, TOO_EARLY),
        (turn("a", "a", "a"), CLAIMED, ""),
        (turn("a", "b", "a", "b", "a"), CLAIMED, TOO_EARLY),
        (turn("a", "b", "a", "b", "a", "b"), CLAIMED, ""),
        (turn(call=ProposedCall("write")), only(TurnFinished(LimitReached("loop"), Usage())), TOO_EARLY),
        (turn("a", "a", "a"), called_again, TOO_LATE.format(3)),
        (turn("a", "a", "a"), unread, ""),
        (turn("a", "a"), lambda one: called_again(unread(one)), ""),
        (turn("a", "a", "a"), lambda one: called_again(unread(one)), TOO_LATE.format(3)),
        (turn("a", "a"), called_again, ""),
        (turn("a", "a", "b"), called_again, ""),
        (turn("a", "b", "a", "b", "a", "b"), called_again, TOO_LATE.format(3)),
        (turn(LONG, LONG, LONG), CLAIMED, ""),  # shortened, so they may be equal or not
        (turn(LONG, LONG, LONG), called_again, ""),
        (turn(*[ToolReturned(effect(""), "a", images=(SHOT,))] * 3), CLAIMED, ""),  # as pictures may be
        (turn(*[ToolReturned(effect(""), "a", images=(SHOT,))] * 3), called_again, ""),
        (edited(*['{"n": 0}'] * 3), CLAIMED, ""),
        (edited(*['{"n": 0}'] * 3), called_again, ""),
        (turn("a", "a", "a", call=ProposedCall("poll")), CLAIMED, TOO_EARLY),
        (turn("a", "a", "a", call=ProposedCall("poll")), called_again, ""),
        ((*turn("a", "a", "a"), ModelReplied(effect("1.4.0"), "Done.")), add(), ""),
        ((UserSpoke("Work"), UserSpoke("Again")), called_again, ""),  # rejected
    ],
)
def test_a_step_that_ends_a_turn_too_early_or_calls_the_model_once_more_is_found(
    inputs: tuple[Input, ...], change: Change, expected: str
) -> None:
    assert found(BASE, inputs, change) == expected


def test_what_cannot_be_known_from_the_messages_is_not_held_against_an_engine() -> None:
    """Hooks that change calls and results, edition 1, states of other classes, and a poll beside other calls."""
    several = (
        UserSpoke("Work"),
        ModelReplied(effect("1.1.0"), calls=(ProposedCall("write"), ProposedCall("poll"), ProposedCall("write"))),
        *(ToolReturned(effect(f"1.1.{number}"), "a") for number in (1, 2, 3)),
    )

    assert found(evolve(BASE, hooks=("after_tool",)), turn("a")[:1], CLAIMED) == ""
    assert found(evolve(BASE, edition=1), turn("a"), CLAIMED) == ""
    assert found(evolve(BASE, limits=Limits(repeats=None)), turn("a", "a", "a"), CLAIMED) == TOO_EARLY
    assert found(evolve(BASE, limits=Limits(repeats=None)), turn("a", "a", "a"), called_again) == ""
    assert found(BASE, several, called_again) == ""
    own_state = Edge(World(), UserSpoke("x"), Transition(None), World())  # type: ignore[arg-type]  # of its own class
    assert check_repetitions(bounded(LLMEngine()).subject, own_state) is None
    assert rounds_of(History(), frozenset()) == Rounds((), 0, answered=False)
    assert check_repetitions(EngineUnderTest.of(EchoEngine()), edge_after(LLMEngine(BASE), turn("a"), CLAIMED)) is None


def test_a_turn_that_goes_on_after_an_answer_is_in_order() -> None:
    """A reply that is answer and call in one ends the turn, unless a hook wants more; then the calls before it are no
    loop yet.
    """
    config = evolve(BASE, protocol="short_keys", hooks=("stop",))
    engine = LLMEngine(config)

    assert found(config, answered_between(), add()) == ""
    edge = edge_after(engine, answered_between(), add())
    assert any(isinstance(one, CallModel) and one.purpose == "answer" for one in edge.transition.decisions)
