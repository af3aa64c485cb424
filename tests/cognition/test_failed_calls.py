"""What becomes of a turn whose model fails, can't be read, or says nothing."""

from __future__ import annotations

import pytest

from cognition import (
    AgentConfig,
    AssistantMessage,
    CallModel,
    Cancelled,
    Failed,
    Failure,
    GenerationOptions,
    Input,
    LimitHit,
    LimitReached,
    Limits,
    ModelFailed,
    ModelInterrupted,
    ProposedCall,
    RetryPlanned,
    SessionReset,
    StartTimer,
    TimerFired,
    ToolReturned,
    TurnFinished,
    Usage,
    UserMessage,
    UserSpoke,
)
from cognition.engine.handlers.model import REFUSED
from tests.cognition.session import WRITE, Session, effect, engine_with, replied


def test_retries_end_with_the_failure() -> None:
    """After the configured number of attempts the turn fails with the last error."""
    session = Session(engine_with())
    session(UserSpoke("Hello"))
    calls = 1
    index = 0
    while True:
        decisions = session(ModelFailed(effect(f"1.1.{index}"), Failure("reset", kind="transient")))
        if not isinstance(decisions[-1], StartTimer):
            break
        session(TimerFired(effect(f"1.1.{index + 1}")))
        index += 2
        calls += 1

    assert decisions == (TurnFinished(Failed("transient", "reset"), Usage()),)
    assert AgentConfig().retry.attempts == calls


@pytest.mark.parametrize("kind", ["auth", "fatal", "modality"])
def test_errors_that_do_not_go_away_end_the_turn_at_once(kind: str) -> None:
    session = Session(engine_with())
    session(UserSpoke("Hello"))
    failure = Failure("no", kind=kind)  # type: ignore[arg-type]  # one of the literals

    assert (TurnFinished(Failed(kind, "no"), Usage(5)),) == session(  # type: ignore[arg-type]  # as above
        ModelFailed(effect("1.1.0"), failure, usage=Usage(5))
    )


@pytest.mark.behaviour("B19")
def test_a_call_that_showed_text_is_not_silently_restarted() -> None:
    session = Session(engine_with())
    session(UserSpoke("Hello"))

    decisions = session(ModelFailed(effect("1.1.0"), Failure("reset", kind="transient"), "Hi, I"))

    assert decisions == (TurnFinished(Failed("transient", "reset", "Hi, I"), Usage()),)
    assert session.state.history[-1] == AssistantMessage("m2", "Hi, I", interrupted=True)


def test_an_interrupted_model_call_ends_the_turn_as_cancelled() -> None:
    session = Session(engine_with())
    session(UserSpoke("Hello"))

    decisions = session(ModelInterrupted(effect("1.1.0"), "Hi", Usage(3, 1)))

    assert decisions == (TurnFinished(Cancelled("the model call was interrupted", "Hi"), Usage(3, 1)),)


@pytest.mark.parametrize("edition", [1, 2])
def test_an_overflow_drops_old_turns_and_tries_again(edition: int) -> None:
    """The runtime's count corrects the estimate, old turns go, and an overflow of what is left ends the turn."""
    session = Session(engine_with(context_tokens=1000, options=GenerationOptions(max_tokens=100), edition=edition))
    for turn in (1, 2, 3):
        session(UserSpoke("x" * 300))
        session(replied(f"{turn}.1.0", "y" * 300))
    session(UserSpoke("Hello"))
    failure = Failure("too long", kind="context_overflow", needed_tokens=3000, available_tokens=900)

    plan, again = session(ModelFailed(effect("4.1.0"), failure))

    assert plan == RetryPlanned("context_overflow", "too long", 2, 0.0)
    assert isinstance(again, CallModel)
    assert again.request.messages[-1].text == "Hello"  # type: ignore[union-attr]  # the user's message
    assert len(again.request.messages) < 7
    (end,) = session(ModelFailed(effect("4.1.1"), failure))
    message = "too long" if edition == 1 else REFUSED.format(message="too long")
    assert end == TurnFinished(Failed("context_overflow", message), Usage())


def test_an_overflow_with_an_absurd_count_does_not_silence_the_session() -> None:
    """A wrong report costs a turn at most; the next message reaches the model again (law L10)."""
    session = Session(engine_with())
    session(UserSpoke("Hello"))
    failure = Failure("too long", kind="context_overflow", needed_tokens=10**9)
    session(ModelFailed(effect("1.1.0"), failure))

    (ask,) = session(UserSpoke("Hello again"))

    assert isinstance(ask, CallModel)


@pytest.mark.parametrize("between", [(), (SessionReset(),)])
def test_a_correction_that_lets_nothing_through_is_forgotten(between: tuple[Input, ...]) -> None:
    """No prompt would ever be sent that could put it right (law L10)."""
    session = Session(engine_with(context_tokens=200, options=GenerationOptions(max_tokens=100)))
    session(UserSpoke("Hello"))
    session(ModelFailed(effect("1.1.0"), Failure("too long", kind="context_overflow")))
    for event in between:
        session(event)

    (ask,) = session(UserSpoke("Hello"))

    assert isinstance(ask, CallModel)


def test_a_count_that_fills_the_context_is_forgotten_by_a_reset() -> None:
    session = Session(engine_with(context_tokens=200, options=GenerationOptions(max_tokens=100)))
    session(UserSpoke("Hello"))
    session(replied("1.1.0", "Hi.", usage=Usage(10**6)))
    session(SessionReset())

    (ask,) = session(UserSpoke("Hello"))

    assert isinstance(ask, CallModel)


@pytest.mark.behaviour("B16")
def test_a_message_that_can_not_fit_fails_the_turn_with_numbers() -> None:
    session = Session(engine_with(context_tokens=200, options=GenerationOptions(max_tokens=100), edition=1))

    (end,) = session(UserSpoke("x" * 3000))

    assert isinstance(end, TurnFinished)
    assert isinstance(end.outcome, Failed)
    assert end.outcome.kind == "context_overflow"
    assert "the prompt may have 100" in end.outcome.message


@pytest.mark.behaviour("B9")
def test_the_step_limit_asks_for_a_final_answer_without_tools() -> None:
    """At the limit the model is told to wrap up and tools are withheld."""
    session = Session(engine_with(WRITE, limits=Limits(steps=2)))
    session(UserSpoke("Work"))
    for step in (1, 2):
        session(replied(f"1.{step}.0", "", ProposedCall("write", {"n": step})))
        decisions = session(ToolReturned(effect(f"1.{step}.1"), "ok"))

    hit, final = decisions
    assert hit == LimitHit("steps", "the limit of 2 steps is reached")
    assert isinstance(final, CallModel)
    assert (final.purpose, final.request.tools) == ("final_answer", ())
    note = final.request.messages[-1]
    assert isinstance(note, UserMessage)
    assert note.origin == "engine"
    end = session(replied("1.3.0", "Half done.", ProposedCall("write", {"n": 3})))
    assert end == (TurnFinished(LimitReached("steps", "Half done."), Usage()),)
