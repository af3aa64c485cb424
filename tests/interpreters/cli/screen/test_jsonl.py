"""Events as JSON lines."""

import json

import pytest
from hypothesis import given, strategies as st

from cognition import Completed, EffectId, ToolCall, Usage, from_data
from interpreters import events
from interpreters.cli.screen.output import event_line
from interpreters.observing.events import Event
from tests.cognition.samples import some


def test_a_line_is_the_envelope_and_what_happened_with_its_tag() -> None:
    """The same data as in recordings, and between a host and its handles."""
    call = ToolCall("c", "calculate", {"expression": "ä\n"})

    line = event_line(Event("s", 1, 2, 1, 7, events.CallTool(EffectId("1.2.1"), call)))

    assert "\n" not in line
    assert json.loads(line) == {
        "session": "s",
        "turn": 1,
        "step": 2,
        "attempt": 1,
        "sequence": 7,
        "value": {
            "type": "call_tool",
            "effect_id": "1.2.1",
            "call": {"id": "c", "name": "calculate", "arguments_json": '{"expression": "ä\\n"}'},
        },
    }


def test_an_outcome_says_which_of_the_four_it_is() -> None:
    """Outcomes carry the tags that recordings use."""
    line = event_line(Event("s", 1, 1, 1, 1, events.TurnFinished(Completed("391"), Usage(1, 2))))

    assert json.loads(line)["value"] == {
        "type": "turn_finished",
        "outcome": {"type": "completed", "text": "391"},
        "usage": {"input_tokens": 1, "output_tokens": 2},
    }


@given(st.sampled_from(list(events.TAGS)).flatmap(some))
def test_a_line_is_read_as_the_event_that_it_was(value: events.EventValue) -> None:
    """Whatever happened: an input, a decision, a piece of a reply, a message, or what only observers are told."""
    event = Event("s", 1, 2, 3, 4, value)

    line = event_line(event)

    assert event == from_data(json.loads(line), Event)
    assert json.loads(line)["value"]["type"] == events.TAGS[type(value)]


def test_a_number_that_json_does_not_have_is_no_line() -> None:
    """NaN and Infinity are Python's own; other programs could not read them."""
    with pytest.raises(ValueError, match="JSON compliant"):
        event_line(Event("s", 1, 1, 1, 1, events.UserSpoke("Hi!", at=float("nan"))))
