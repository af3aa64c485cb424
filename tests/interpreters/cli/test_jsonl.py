"""Events as JSON lines."""

import json

from cognition import Completed, LimitReached, ToolCall, Usage
from interpreters import events
from interpreters.cli.jsonl import event_line


def test_a_line_holds_every_field_and_its_type_first() -> None:
    """Who reads the lines needs no table of defaults."""
    event = events.ToolStarted(
        session="s", turn=1, step=2, attempt=1, sequence=7, call=ToolCall("c", "calculate", {"expression": "ä\n"})
    )

    line = event_line(event)

    assert line.startswith('{"type":"tool_started",')
    assert "\n" not in line
    assert json.loads(line) == {
        "type": "tool_started",
        "session": "s",
        "turn": 1,
        "step": 2,
        "attempt": 1,
        "sequence": 7,
        "call": {"id": "c", "name": "calculate", "arguments_json": '{"expression": "ä\\n"}'},
    }


def test_an_outcome_says_which_of_the_four_it_is() -> None:
    """Outcomes carry the tags that recordings use."""
    ends = {"session": "s", "turn": 1, "step": 1, "attempt": 1, "sequence": 1, "usage": Usage(1, 2)}
    completed = json.loads(event_line(events.TurnFinished(outcome=Completed("391"), **ends)))
    limited = json.loads(event_line(events.TurnFinished(outcome=LimitReached("steps"), **ends)))

    assert completed["outcome"] == {"type": "completed", "text": "391", "finish_reason": "stop"}
    assert completed["usage"] == {"input_tokens": 1, "output_tokens": 2, "reused_tokens": 0, "cost": 0.0}
    assert limited["outcome"] == {"type": "limit_reached", "limit": "steps", "text": ""}
