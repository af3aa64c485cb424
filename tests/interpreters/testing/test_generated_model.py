"""Whatever a model says, an agent ends its turn, once, and tells the truth of it. Held for both ways of running."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import jsonschema
import pytest
from attrs import frozen
from hypothesis import HealthCheck, given, settings, strategies as st

from cognition import (
    AssistantMessage,
    Cancelled,
    Completed,
    ConfigError,
    Failed,
    LimitReached,
    Limits,
    RetryPolicy,
    ToolMessage,
    Usage,
    UserMessage,
)
from interpreters import RunResult, events, fakes, replay, tool
from interpreters.observing.events import Event
from interpreters.testing.fakes import GeneratedModel
from interpreters.testing.fakes._strategies import (
    KINDS,
    Kind,
    generated_models,
    replies,
    right_calls,
    values,
    wrong_calls,
)
from interpreters.tools.schema import problems
from tests.interpreters.ways import Way, in_asyncio, in_sync


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@frozen
class Place:
    city: str
    country: str | None = None


def tools(ran: list[tuple[str, tuple[Any, ...]]]) -> list[Any]:
    """Tools that note, from outside of the agent, that they ran and with what."""

    @tool(read_only=True)
    def look(n: int, deep: bool = False) -> int:
        """Look."""
        ran.append(("look", (n, deep)))
        return n

    @tool
    def paint(place: Place, colours: list[Colour], mode: Literal["fast", "slow"] = "fast") -> str:
        """Paint."""
        ran.append(("paint", (place, *colours)))
        if len(colours) > 2:
            raise ValueError("too many colours")
        return mode

    @tool(approval=True)
    def pay(amount: float, notes: dict[str, str] | None = None) -> str:
        """Pay."""
        ran.append(("pay", (amount,)))
        return f"paid {amount}"

    return [look, paint, pay]


TOOLS = tools([])


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(generated_models(TOOLS), st.booleans())
def test_every_turn_ends_once_and_truthfully(model: GeneratedModel, allow: bool) -> None:
    """With any model: what is told of a turn is what happened in it, and the session goes on afterwards."""
    for talk in (in_sync, in_asyncio):
        hold_to_the_truth(talk, GeneratedModel(model.replies, model.then), allow)


def hold_to_the_truth(talk: Way, model: GeneratedModel, allow: bool) -> None:
    told: list[Event] = []
    asked_for: list[str] = []
    ran: list[tuple[str, tuple[Any, ...]]] = []

    def approve(request: Any) -> bool:
        asked_for.append(request.call.id)
        return allow

    with TemporaryDirectory() as folder:
        journal = Path(folder, "session.jsonl")
        said = talk(
            model,
            "Go!",
            "And on!",
            tools=tools(ran),
            approve=approve,
            observers=[events.Inline(told.append)],
            limits=Limits(steps=4, tool_calls=6),
            retry=RetryPolicy(attempts=3),
            clock=fakes.FakeClock(),
            journal=journal,
            fsync="never",
        )
        report = replay(journal).raise_for_divergence()

    assert said.state == report.state
    assert [event.turn for event in told if isinstance(event.value, events.TurnFinished)] == [1, 2]
    assert isinstance(told[-1].value, events.TurnFinished)
    assert [result.outcome for result in said.results] == [
        e.value.outcome for e in told if isinstance(e.value, events.TurnFinished)
    ]
    served = iter(model.served)
    for result in said.results:
        turn = [event for event in told if event.turn == result.turn]
        asked = sum(isinstance(event.value, events.ModelCalled) for event in turn)
        check_outcome(result, [next(served) for _ in range(asked)])
        check_messages(result, ran, allow)
    assert next(served, None) is None, "the model was asked more often than observers were told"
    assert not ran, "a tool ran, and no result of the history tells of it"


def check_outcome(result: RunResult, served: Sequence[fakes.Reply]) -> None:
    """The outcome is that of the replies, and so is what they took."""
    last = served[-1]
    assert result.usage == sum((reply.usage for reply in served if reply.crash is None), Usage())
    match result.outcome:
        case Completed(text=text, finish_reason=reason):
            assert (last.failure, last.crash, last.calls, last.malformed) == (None, None, (), ())
            assert (last.text, last.finish_reason or "stop") == (text, reason)
            assert result.ok
        case Failed():
            failed, unreadable = last.failure or last.crash, last.calls or last.malformed
            assert failed or unreadable or not last.text.strip(), (
                "the model answered, and the turn is said to have failed"
            )
            assert not result.ok
        case LimitReached():
            assert not result.ok
        case Cancelled():
            raise AssertionError("nobody asked to stop")


def check_messages(result: RunResult, ran: list[tuple[str, tuple[Any, ...]]], allow: bool) -> None:
    """The user's message comes first, each call has one result, and what ran is what is told of."""
    first, *rest = result.messages
    assert isinstance(first, UserMessage)
    assert first.origin == "user"
    open_calls: list[str] = []
    names: dict[str, str] = {}
    for message in rest:
        if isinstance(message, ToolMessage):
            assert open_calls.pop(0) == message.call_id
            check_result(message, ran, allow)
            continue
        assert not open_calls, "the model was asked before each call had its result"
        if isinstance(message, AssistantMessage):
            open_calls = [call.id for call in message.calls]
            assert not set(open_calls) & names.keys()
            names |= {call.id: call.name for call in message.calls}
        else:
            assert message.origin == "engine"
    assert not open_calls


def check_result(message: ToolMessage, ran: list[tuple[str, tuple[Any, ...]]], allow: bool) -> None:
    raised = message.content == "Error: too many colours"
    if message.status == "ok" or raised:
        name, arguments = next(entry for entry in ran if entry[0] == message.name)  # those beside each other may swap
        ran.remove((name, arguments))
        assert name != "pay" or allow
        assert all(type(value) in TYPES[name] for value in arguments)


TYPES: dict[str, tuple[type, ...]] = {"look": (int, bool), "paint": (Place, Colour), "pay": (int, float)}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=8, deadline=None)
@given(st.data())
def test_each_kind_of_reply_can_be_asked_for_alone(kind: Kind, data: st.DataObject) -> None:
    """And the agent copes with a model that never says anything else."""
    model = data.draw(generated_models(TOOLS, kinds=[kind], max_replies=2))

    hold_to_the_truth(in_sync, model, True)


def test_a_kind_that_there_is_not_is_an_error() -> None:
    with pytest.raises(ConfigError, match="'nice'"):
        replies(kinds=["nice"])  # type: ignore[list-item]  # the wrong name is what is tested


@given(st.data())
def test_right_calls_fit_their_tools_and_wrong_ones_are_met(data: st.DataObject) -> None:
    """What is called right is accepted by the schema; nothing of a wrong call keeps a turn from its end."""
    spec = data.draw(st.sampled_from(TOOLS)).spec
    right = data.draw(right_calls(spec))

    assert list(problems(json.loads(right.arguments_json), spec.parameters)) == []
    assert spec.name == data.draw(wrong_calls(spec)).name


SCHEMAS: list[dict[str, Any]] = [
    {"type": "string", "minLength": 2, "maxLength": 3},
    {"type": ["integer", "null"], "minimum": 3, "maximum": 4},
    {"type": "number", "minimum": 0, "maximum": 1},
    {"const": "this"},
    {"enum": ["a", 1, None]},
    {"oneOf": [{"type": "boolean"}, {"type": "null"}]},
    {"type": "array", "items": {"type": "integer"}, "minItems": 1, "uniqueItems": True},
    {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2},
    {"type": "object", "additionalProperties": {"type": "integer"}},
    {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]},
    {},
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
@settings(max_examples=30)
@given(st.data())
def test_values_fit_their_schema(schema: dict[str, Any], data: st.DataObject) -> None:
    jsonschema.validate(data.draw(values(schema)), schema)


def test_a_drawn_model_prints_as_the_code_that_makes_it() -> None:
    """A failing example becomes a regression test by copying it."""
    model = GeneratedModel([fakes.Reply("Hi", finish_reason="length")], then="Done.")

    assert repr(model) == "GeneratedModel([Reply('Hi', finish_reason='length')], then=Reply('Done.'))"
    again = eval(repr(model), {"GeneratedModel": GeneratedModel, "Reply": fakes.Reply})
    assert (model.replies, model.then) == (again.replies, again.then)
