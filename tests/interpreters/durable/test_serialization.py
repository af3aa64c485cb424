"""What the engine keeps of a step is read as what the step gave, so that this execution need not read it."""

from __future__ import annotations

from typing import Any, get_args

from hypothesis import given, settings, strategies as st

from cognition import Input, ToolReturned
from cognition.base.ids import EffectId
from interpreters.durable.serialization import LocalResult, StepResult
from interpreters.recording.redactor import RedactionNote
from tests.cognition.samples import some

EVENTS: Any = st.one_of(*map(some, get_args(Input)))
HIDDEN = st.builds(RedactionNote, st.text(max_size=5), st.text(max_size=5), st.integers(1, 9)).map(lambda one: (one,))


@settings(max_examples=200, deadline=None)
@given(st.builds(StepResult, st.floats(0, 2e9), EVENTS, st.just(()) | HIDDEN, st.integers(0, 9)))
def test_what_a_step_gave_is_read_as_the_same(happened: StepResult) -> None:
    text = happened.text()

    assert text.isascii()
    if LocalResult.of(happened, None).is_read_again:
        assert StepResult.read(text) == happened
    assert StepResult.read(text) == StepResult.read(StepResult.read(text).text())


def test_two_halves_of_a_character_that_come_together_are_read_as_one() -> None:
    halves = StepResult(1.0, ToolReturned(EffectId("1.1.1"), "\ud83d" + "\ude00"))

    text = halves.text()

    assert not LocalResult.of(halves, None).is_read_again
    assert StepResult.read(text) != halves
