"""An answer that is not of the type asked for goes back to the model, a set number of times."""

from __future__ import annotations

import pytest

from cognition import (
    CallModel,
    Completed,
    ConfigError,
    LimitReached,
    Limits,
    ProposedCall,
    RunHook,
    ToolReturned,
    TurnFinished,
    UserMessage,
    UserSpoke,
    from_data,
    to_data,
)
from cognition.steps.inputs import Input
from tests.cognition.session import MULTIPLY, Session, effect, engine_with, replied

SCHEMA = '{"type": "integer"}'
WRONG = 'the answer must be a whole number, not "5"'


def asked(**config: object) -> Session:
    session = Session(engine_with(MULTIPLY, **config))
    session(UserSpoke("How many?", SCHEMA))
    return session


def test_the_model_is_told_what_is_wrong_and_asked_again() -> None:
    session = asked()

    (again,) = session(replied("1.1.0", '"5"', objection=WRONG))

    assert isinstance(again, CallModel)
    assert (again.effect_id, again.purpose, again.request.options.response_format) == ("1.2.0", "repair", SCHEMA)
    note = f"Your answer is not what was asked for: {WRONG}. Give the whole answer again, with that mended."
    assert session.state.history[-1] == UserMessage("m4", note, "engine")


@pytest.mark.parametrize("corrections", [0, 1, 2, 3])
def test_an_answer_is_sent_back_as_often_as_the_limit_says(corrections: int) -> None:
    """The last one is kept as it is: whoever asked for it is told what is wrong when it is read."""
    session = asked(limits=Limits(corrections=corrections))
    for number in range(corrections):
        (again,) = session(replied(f"1.{number + 1}.0", "[]", objection=WRONG))
        assert isinstance(again, CallModel)

    (end,) = session(replied(f"1.{corrections + 1}.0", "[]", objection=WRONG))

    assert isinstance(end, TurnFinished)
    assert end.outcome == Completed("[]")


def test_calls_between_the_answers_do_not_count_and_do_not_start_the_count_anew() -> None:
    session = asked(limits=Limits(corrections=1))
    session(replied("1.1.0", "[]", objection=WRONG))
    session(replied("1.2.0", "", ProposedCall("multiply")))
    session(ToolReturned(effect("1.2.1"), "5"))

    (end,) = session(replied("1.3.0", "[]", objection=WRONG))

    assert isinstance(end, TurnFinished)


def test_every_turn_has_its_own_corrections() -> None:
    session = asked(limits=Limits(corrections=1))
    session(replied("1.1.0", "[]", objection=WRONG))
    session(replied("1.2.0", "[]", objection=WRONG))
    session(UserSpoke("And now?", SCHEMA))

    (again,) = session(replied("2.1.0", "[]", objection=WRONG))

    assert isinstance(again, CallModel)


def test_other_limits_end_the_corrections() -> None:
    """The step limit asks for a last answer, and that is not asked again."""
    session = asked(limits=Limits(steps=1, corrections=5))

    _, last = session(replied("1.1.0", "[]", objection=WRONG))
    (end,) = session(replied("1.2.0", "[]", objection=WRONG))

    assert isinstance(last, CallModel)
    assert last.purpose == "final_answer"
    assert isinstance(end, TurnFinished)
    assert end.outcome == LimitReached("steps", "[]")


def test_a_cut_answer_is_not_asked_for_again_at_the_same_limit() -> None:
    session = asked()

    decided = session(replied("1.1.0", "[1, 2", finish_reason="length", objection="it is no JSON"))

    assert not any(isinstance(one, CallModel) for one in decided)


def test_the_program_is_asked_before_the_end_and_not_before_each_correction() -> None:
    session = asked(hooks=("stop",))

    (again,) = session(replied("1.1.0", "[]", objection=WRONG))
    (hook,) = session(replied("1.2.0", "5"))

    assert isinstance(again, CallModel)
    assert isinstance(hook, RunHook)


def test_an_objection_is_recorded_with_its_reply() -> None:
    """So that a replay sends the same answers back."""
    reply = replied("1.1.0", "[]", objection=WRONG)

    assert from_data(to_data(reply, Input), Input) == reply


def test_a_text_protocol_asks_for_the_value_in_words_alone() -> None:
    """Its replies have a form of their own, which no schema of the answer describes."""
    session = Session(engine_with(MULTIPLY, protocol="short_keys"))

    call = session(UserSpoke("How many?", SCHEMA))[-1]

    assert isinstance(call, CallModel)
    assert call.request.options.response_format == ""
    assert SCHEMA in session.state.history[-1].text


@pytest.mark.parametrize("corrections", [-1, 1001])
def test_a_number_of_corrections_that_is_none_is_refused(corrections: int) -> None:
    with pytest.raises(ConfigError, match="corrections"):
        Limits(corrections=corrections)
