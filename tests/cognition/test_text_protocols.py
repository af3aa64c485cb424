"""Turns of models that write calls in plain text: a reply is read, and then moves the turn like any other."""

from __future__ import annotations

import pytest

from cognition import CallTool, Completed, FinishReason, Remember, ToolSpec, TurnFinished, Usage, UserSpoke
from tests.cognition.session import Session, engine_with, replied

SHELL = ToolSpec("shell", parameters={"type": "object", "properties": {"command": {"type": "string"}}})


def begun() -> Session:
    session = Session(engine_with(SHELL, protocol="short_keys"))
    session(UserSpoke("List"))
    return session


def test_a_reply_may_hold_a_note_and_a_call() -> None:
    remember, run = begun()(replied("1.1.0", '{"t": "look", "a": "shell", "i": "ls", "r": "curious"}'))

    assert remember == Remember("curious")
    assert isinstance(run, CallTool)
    assert (run.call.name, run.call.arguments) == ("shell", {"command": "ls"})


def test_an_answer_is_told_without_its_form() -> None:
    (end,) = begun()(replied("1.1.0", '{"f": "One file."}'))

    assert end == TurnFinished(Completed("One file."), Usage())


@pytest.mark.parametrize(("finish_reason", "answer"), [("error", "One file. "), ("stop", "One file. <tool")])
def test_an_answer_that_broke_off_is_told_without_the_beginning_of_a_call(
    finish_reason: FinishReason, answer: str
) -> None:
    """A whole answer may end in anything."""
    (end,) = begun()(replied("1.1.0", "One file. <tool", finish_reason=finish_reason))

    assert end == TurnFinished(Completed(answer, finish_reason), Usage())
