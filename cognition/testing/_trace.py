"""Runs as readable stories: one line for each input and each decision."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import attrs
from attrs import frozen

from cognition.base.display import shown_name
from cognition.steps.decisions import CallModel, Decision
from cognition.steps.inputs import Input
from cognition.testing._world import AnyEngine, Edge, World, step_on
from cognition.values.content import images_of
from cognition.values.history import History
from cognition.values.messages import AssistantMessage, Message, ProposedCall, ToolCall, UserMessage

LONGEST_TEXT = 40
"""Characters of a text that a story shows."""
NAME_WIDTH = 17
"""Columns for the name of an input or decision: the longest is ``ContextAssembled``."""


NAMELESS = ("text", "content", "message", "call", "calls", "outcome", "failure", "point", "mode")
"""Fields whose values explain themselves without a name."""


@frozen
class TraceStep:
    """One input and the decisions on it."""

    input: Input
    decisions: tuple[Decision, ...] = ()
    error: str | None = None
    """The exception that the engine raised instead."""


@frozen
class Trace:
    """A run of an engine from the beginning of a session. Its text has a numbered line for each input, then its
    decisions.

    >>> from cognition import EchoEngine, UserSpoke
    >>> print(tell(EchoEngine(), [UserSpoke("Hello")]))  # doctest: +SKIP
      1     UserSpoke                 "Hello"
         -> TurnFinished              Completed("Echo: Hello")
    """

    scenes: tuple[TraceStep, ...] = ()

    @property
    def inputs(self) -> tuple[Input, ...]:
        return tuple(scene.input for scene in self.scenes)

    def __str__(self) -> str:
        lines = (line for number, scene in enumerate(self.scenes, 1) for line in _lines(number, scene))
        return "\n".join(shown_name(line, None) for line in lines)


def trace_of(edges: Iterable[Edge]) -> Trace:
    return Trace(tuple(TraceStep(edge.input, edge.transition.decisions, edge.error) for edge in edges))


def trace(engine: AnyEngine, inputs: Sequence[Input], start: World | None = None) -> Trace:
    """Feed these inputs to an engine, and return the story."""
    world, edges = start or World(), list[Edge]()
    for event in inputs:
        world = step_on(engine, world, event, edges)
    return trace_of(edges)


def contrast(one: Any, other: Any, path: str = "") -> str:
    """Return the first difference between two values of a class, as two lines."""
    if type(one) is type(other) and attrs.has(type(one)):
        for field in attrs.fields(type(one)):
            left, right = getattr(one, field.name), getattr(other, field.name)
            if left != right:
                return contrast(left, right, f"{path}.{field.name}")
    if isinstance(one, Sequence) and isinstance(other, Sequence) and not isinstance(one, str):
        for place, (left, right) in enumerate(zip(one, other, strict=False)):
            if left != right:
                return contrast(left, right, f"{path}[{place}]")
    return f"{path.lstrip('.') or 'the whole'}\n    first:  {one!r:.300}\n    second: {other!r:.300}"


def shorten(text: str, limit: int = LONGEST_TEXT) -> str:
    """Return the text in quotes, on one line, with a count of the characters beyond ``limit``."""
    quoted = json.dumps(text[:limit], ensure_ascii=False)
    return quoted if len(text) <= limit else f'{quoted[:-1]}…" (+{len(text) - limit})'


def describe(value: Input | Decision) -> str:
    """Return one line for an input or decision: its name, the effect's id, and the distinguishing fields."""
    effect_id = getattr(value, "effect_id", None)
    if isinstance(value, CallModel):
        details = f"{value.purpose}: {_messages(value.request.messages)}"
    else:
        details = ", ".join(_fields(value))
    return f"{type(value).__name__:<{NAME_WIDTH}} {effect_id or '':<7} {details}"


def _lines(number: int, scene: TraceStep) -> list[str]:
    lines = [f"{number:>3}     {describe(scene.input)}".rstrip()]
    lines += [f"     -> {describe(decision)}".rstrip() for decision in scene.decisions]
    if scene.error is not None:
        lines.append(f"     -> raised {scene.error}")
    elif not scene.decisions:
        lines.append("     -> nothing")
    return lines


def _fields(value: Any) -> list[str]:
    """Return the fields that differ from their defaults, as ``name=value``; a first text has no name."""
    shown = []
    for field in attrs.fields(type(value)):
        item = getattr(value, field.name)
        factory = getattr(field.default, "factory", None)
        default = field.default if factory is None else factory()
        if field.name == "effect_id" or item in ("", (), None) or item is False or item == default:
            continue
        text = _value(item)
        shown.append(text if field.name in NAMELESS else f"{field.name}={text}")
    return shown


def _value(item: Any) -> str:
    match item:
        case str():
            return shorten(item)
        case ToolCall(id=call_id):
            return f"{_call(item)} as {call_id}"
        case ProposedCall():
            return _call(item)
        case tuple():
            return "[" + ", ".join(_value(part) for part in item) + "]"
        case float():
            return f"{item:g}"
        case _ if attrs.has(type(item)):
            return f"{type(item).__name__}({', '.join(_fields(item))})"
        case _:
            return str(item)


def _call(call: ToolCall | ProposedCall) -> str:
    arguments = call.arguments_json
    return f"{call.name}({arguments if len(arguments) <= LONGEST_TEXT else arguments[:LONGEST_TEXT] + '…'})"


def _messages(messages: History) -> str:
    """Return the messages of a request in a few characters each, so that missing and duplicate ones are easy to see."""
    return " | ".join(_message(message) for message in messages[-6:]) if len(messages) else "no messages"


def _message(message: Message) -> str:
    match message:
        case UserMessage(text=text, origin=origin, parts=content):
            return " ".join((origin, shorten(text, 16), *map(str, images_of(content))))
        case AssistantMessage(text=text, calls=calls):
            parts = shorten(text, 16) if text else "", ", ".join(call.id for call in calls)
            return f"assistant {' '.join(filter(None, parts)) or 'nothing'}"
        case _:
            return f"{message.call_id} {message.status}"
