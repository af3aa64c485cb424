"""What an engine answers beside its steps: the prompt in any state, who would be asked; and the smallest engine."""

from __future__ import annotations

import pytest
from attrs import evolve

from cognition import (
    AgentConfig,
    AgentState,
    AssistantMessage,
    CallModel,
    Candidate,
    Completed,
    EchoEngine,
    Failure,
    GenerationOptions,
    History,
    Input,
    Limits,
    LLMEngine,
    ModelFailed,
    Policy,
    ProposedCall,
    Rule,
    SessionReset,
    ShutdownAsked,
    TemplateCosts,
    TimerFired,
    ToolCall,
    ToolReturned,
    ToolSpec,
    Transition,
    TurnFinished,
    Usage,
    UserMessage,
    UserSpoke,
    fold,
    transitions,
)
from cognition.context import message_size
from cognition.steps.state import Window
from cognition.values.features import Mode
from tests.cognition.session import DELETE, MULTIPLY, WRITE, Session, effect, engine_with, replied


def test_the_prompt_of_a_state_that_waits_is_that_of_the_call_to_come() -> None:
    """Also for a final answer, which is asked for without tools."""
    session = Session(engine_with(MULTIPLY, limits=Limits(steps=1)))
    session(UserSpoke("Go"))
    session(replied("1.1.0", "", ProposedCall("multiply")))
    session(ToolReturned(effect("1.1.1"), "6"))
    session(ModelFailed(effect("1.2.0"), Failure("busy", status=503)))

    promised = session.engine.build_prompt(session.state)
    (again,) = session(TimerFired(effect("1.2.1")))

    assert isinstance(again, CallModel)
    assert again.purpose == "final_answer"
    assert again.request == promised


def test_the_prompt_of_an_idle_session_offers_the_tools_and_leaves_out_what_does_not_fit() -> None:
    engine = engine_with(MULTIPLY, context_tokens=1000, options=GenerationOptions(max_tokens=100))
    session = Session(engine)
    for turn in range(1, 6):
        session(UserSpoke("x" * 300))
        session(replied(f"{turn}.1.0", "y" * 300))
        prompt = engine.build_prompt(session.state)

        assert prompt.tools == (MULTIPLY,)
        assert 0 < len(prompt.messages) <= 8
        assert session.state.history[-1] == prompt.messages[-1]


@pytest.mark.parametrize("length", [300, 500, 700, 1000])
@pytest.mark.parametrize("cut", [None, 5, 150])
def test_the_prompt_of_a_state_that_is_too_long_is_the_one_that_a_step_would_make(length: int, cut: int | None) -> None:
    """With the same room for sections, the same notes in shortened results, and the same counts if there are any."""
    costs = None if cut is None else TemplateCosts(300, 5, 6, 7, 8, cut, 290, 250, 16.0, "a")
    session = Session(engine_with(ToolSpec("read", rereads=True), limits=Limits(steps=99)))
    sections = (Candidate("identity", "You are Ada. " * 30),)
    session(UserSpoke("Read the pages.", context=sections, dense=50, costs=costs, tokens=(9,)))
    while not session.state.window.cuts:
        step = session.state.counters.step
        session(evolve(replied(f"1.{step}.0", "", ProposedCall("read", {"page": step})), tokens=(20,)))
        tokens = (8, *[30] * -(-length // 100))
        session(ToolReturned(effect(f"1.{step}.1"), "x" * length, tokens=() if costs is None else tokens))
    call = next(decision for decision in session.decisions if isinstance(decision, CallModel))

    unfitted = Window(0, sum(map(message_size, session.state.history)))
    assert session.engine.build_prompt(evolve(session.state, window=unfitted)) == call.request


def test_the_prompt_of_a_turn_that_can_not_fit_is_shown_all_the_same() -> None:
    """A program that asks sees what was too long."""
    engine = engine_with(context_tokens=200, options=GenerationOptions(max_tokens=100))
    state = fold(engine, [UserSpoke("x" * 3000)])

    assert [UserMessage("m1", "x" * 3000)] == list(engine.build_prompt(state).messages)


@pytest.mark.parametrize(
    ("mode", "name", "expected"),
    [
        ("default", "delete", True),
        ("default", "write", False),
        ("default", "nothing", False),
        ("careful", "write", True),
        ("careful", "multiply", False),
        ("auto", "delete", False),
        ("plan", "delete", False),  # it is refused without a question
    ],
)
def test_who_would_be_asked_depends_on_the_mode(mode: Mode, name: str, expected: bool) -> None:
    engine = engine_with(DELETE, WRITE, MULTIPLY)
    call = ToolCall("call-1-1-1", name)

    assert expected == engine.requires_approval(call, AgentState(mode=mode))
    if mode == "default":
        assert expected == engine.requires_approval(call)


def test_what_the_user_said_from_now_on_counts_when_a_program_asks() -> None:
    engine = engine_with(DELETE, policy=Policy(default="ask"))
    call = ToolCall("call-1-1-1", "delete")

    assert not engine.requires_approval(call, AgentState(remembered=(Rule("allow", "delete"),)))
    assert not engine.requires_approval(call, AgentState(remembered=(Rule("deny", "delete"),)))


def test_the_echo_engine_numbers_its_messages_through() -> None:
    engine = EchoEngine()

    first = engine.step(AgentState(), UserSpoke("a"))
    second = engine.step(first.next_state, UserSpoke("b"))

    assert [
        UserMessage("m1", "a"),
        AssistantMessage("m2", "Echo: a"),
        UserMessage("m3", "b"),
        AssistantMessage("m4", "Echo: b"),
    ] == list(second.next_state.history)
    assert second.decisions == (TurnFinished(Completed("Echo: b"), Usage()),)
    assert Transition(second.next_state) == engine.step(second.next_state, ShutdownAsked())


def test_a_reset_forgets_the_system_prompt_that_came_with_a_message() -> None:
    """It came with what is forgotten: one that is too long would keep every later message from the model."""
    engine = LLMEngine(AgentConfig(system="Be brief.", context_tokens=2000))
    spoilt = engine.step(AgentState(), UserSpoke("a", system="long " * 5000)).next_state
    reset = engine.step(spoilt, SessionReset()).next_state

    decided = engine.step(reset, UserSpoke("b")).decisions[-1]

    assert reset.system is None
    assert isinstance(decided, CallModel)
    assert decided.request.system == "Be brief."


def test_a_fold_starts_where_it_is_told_and_gives_each_step_on_the_way() -> None:
    engine = EchoEngine()
    inputs: list[Input] = [UserSpoke("a"), UserSpoke("b")]
    begun = fold(engine, inputs[:1])

    states = [transition.next_state for transition in transitions(engine, inputs)]

    assert [begun, fold(engine, inputs)] == states
    assert states[-1] == fold(engine, inputs[1:], begun)
    assert states[1:] == [transition.next_state for transition in transitions(engine, inputs[1:], begun)]
    assert begun == fold(engine, [], begun)
    assert fold(engine, []) == AgentState()
    empty = AgentState(history=History(), mode="auto")
    assert fold(engine, [UserSpoke("a")], empty).mode == "auto"


def test_an_engine_without_a_configuration_has_the_default_one() -> None:
    assert LLMEngine().config == AgentConfig()
    config = AgentConfig(system="x")
    assert LLMEngine(config).config is config
