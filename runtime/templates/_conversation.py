"""Converts messages to the dictionaries that chat templates expect: OpenAI's shape, as ``transformers`` passes it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal

from attrs import evolve, field, frozen

from cognition import AssistantMessage, Message, ModelRequest, ToolCall, ToolMessage, ToolSpec, UserMessage
from cognition.values.content import images_of
from runtime.errors import MediaError, TemplateError
from runtime.templates._protection import Shield

Entry = dict[str, Any]


class Undefined(enum.Enum):
    """The type of ``UNDEFINED``."""

    UNDEFINED = "undefined"


UNDEFINED: Final = Undefined.UNDEFINED
"""Replaces a variable's value: the variable is not passed to the template."""

REMEMBERED_TOOLS = 8
"""Tool sets whose entries one template caches: agents that share a model use few."""

NoTools = Literal["none", "empty", "undefined"]
"""How to pass an empty set of tools to a template. ``transformers`` passes None, which fails in a template that always
loops over its tools.
"""

NO_TOOLS: Mapping[NoTools, Any] = {"none": None, "empty": [], "undefined": UNDEFINED}
"""The value of ``tools`` for each, in the order of trial."""


@frozen
class Shape:
    """The adaptation of a conversation to a template that refuses the plain form, or omits parts of it.

    The default is the plain form.
    """

    short_ids: bool = False
    """Call ids of nine letters and digits, which Mistral's templates require."""
    merge: bool = False
    """Merge adjacent user messages, for templates that require strict alternation."""
    fold_system: bool = False
    """Prepend the system prompt to the first user message. For templates without a system role, and for those that
    omit it after a tool call.
    """
    one_call: bool = False
    """Write a reply with several calls as one message per call, each followed by its result. Its text comes first, in a
    message of its own. For templates that refuse several calls in a message, or show only the first.
    """
    calls_as_text: bool = False
    """Write calls and results as text of assistant and user, for templates without a form for them."""
    parts: bool = False
    """Content as a list of parts, for templates of models that also accept images."""
    text_arguments: bool = False
    """Arguments as JSON text instead of an object, for templates that concatenate them."""
    reasoning_key: str = "reasoning_content"
    """The key under which the template looks for a message's reasoning."""
    text_apart: bool = False
    """Write the text of a reply with calls in a message of its own before it, for templates that show either."""

    def notes(self) -> tuple[str, ...]:
        return tuple(
            sentence
            for bent, sentence in (
                (self.short_ids, "the template wants call ids of nine letters and digits: they are renamed"),
                (self.merge, "the template wants user and assistant to take turns: neighbouring messages are merged"),
                (self.fold_system, "the template has no system role: the system prompt precedes the first message"),
                (self.one_call, "the template takes one call a message: each is shown in its own, before its result"),
                (self.calls_as_text, "the template has no form for calls and their results: they are told as text"),
                (self.parts, "the template wants content in parts: it is passed as one part of text"),
                (self.text_arguments, "the template wants arguments as text: they are passed as JSON text"),
                (self.text_apart, "the template shows no call beside text: the text is in a message of its own"),
            )
            if bent
        )


def entries(request: ModelRequest, shield: Shield, shape: Shape) -> list[Entry]:
    """Return the conversation with marks in its contents (``_protection``), system prompt first."""
    short: dict[str, str] = {}

    def call_id(original: str) -> str:
        return short.setdefault(original, f"call{len(short):05d}") if shape.short_ids else shield.text(original)

    apart = shape.one_call and request.protocol == "native"
    messages: Iterable[Message] = _one_call_each(request.messages) if apart else request.messages
    messages = _text_apart(messages) if shape.text_apart and request.protocol == "native" else messages
    one = _text_entry_for_calls if shape.calls_as_text else _entry
    one = one if request.protocol == "native" else _text_entry
    made = [
        {"role": "user", "content": shield.text(message.text)}
        if isinstance(message, UserMessage) and not message.parts
        else one(message, shield, shape, call_id)
        for message in messages
    ]
    if request.system:
        system = shield.text(request.system)
        if shape.fold_system:
            _fold(system, made)
        else:
            made.insert(0, {"role": "system", "content": system})
    made = _merge_roles(made) if shape.merge else made
    return in_parts(made) if shape.parts else made


def tool_entries(tools: Sequence[ToolSpec], shield: Shield) -> list[Entry]:
    """Return the tools as function definitions, with keys in the order of all templates' training texts."""
    return [
        {
            "type": "function",
            "function": {
                "name": shield.text(tool.name),
                "description": shield.text(tool.description),
                "parameters": shield.schema(tool.parameters),
            },
        }
        for tool in tools
    ]


@frozen
class _Same:
    """Tools as a key, compared by identity, since equal tools (1 and True in a schema) may be written differently."""

    tools: tuple[ToolSpec, ...] = field(eq=lambda tools: tuple(map(id, tools)))
    """A reference to each, so that its id is not reused."""


class OfferedTools:
    """A cache of recent tools' entries: they stay the same between the steps of a session.

    Thread-safe. Do not change the entries; the sandbox prevents templates from doing so.
    """

    def __init__(self, shield: Shield) -> None:
        self._entries = lru_cache(REMEMBERED_TOOLS)(lambda same: tool_entries(same.tools, shield))

    def entries(self, tools: Sequence[ToolSpec]) -> list[Entry]:
        return self._entries(_Same(tuple(tools)))


def _entry(message: Message, shield: Shield, shape: Shape, call_id: Callable[[str], str]) -> Entry:
    if isinstance(message, UserMessage):
        if message.parts and (images := images_of(message.parts)):
            raise MediaError(
                f"the conversation holds {images[0]}, and this model takes text alone; use one that takes images, or "
                "describe the picture in words"
            )
        return {"role": "user", "content": shield.text(message.text)}
    if isinstance(message, AssistantMessage):
        entry: Entry = {"role": "assistant", "content": shield.text(message.text)}
        if message.reasoning:
            entry[shape.reasoning_key] = shield.text(message.reasoning)
        if message.calls:
            entry["tool_calls"] = [_call(call, shield, shape, call_id) for call in message.calls]
        return entry
    return {
        "role": "tool",
        "tool_call_id": call_id(message.call_id),
        "name": shield.text(message.name),
        "content": shield.text(message.content),
    }


def _one_call_each(messages: Iterable[Message]) -> Iterator[Message]:
    """Yield the messages, those of several calls as one message per call. A call's result follows it."""
    waiting: list[AssistantMessage] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            called = [one.calls[0].id for one in waiting]
            until = called.index(message.call_id) + 1 if message.call_id in called else 0
            yield from waiting[:until]
            del waiting[:until]
        else:
            yield from waiting
            waiting.clear()
            if isinstance(message, AssistantMessage) and len(message.calls) > 1:
                waiting += [evolve(message, text="", reasoning="", calls=(call,)) for call in message.calls]
                if not message.text:
                    waiting[0] = evolve(waiting[0], reasoning=message.reasoning)
                    continue
                message = evolve(message, calls=())
        yield message
    yield from waiting


def _text_apart(messages: Iterable[Message]) -> Iterator[Message]:
    """Yield the messages, those of text and calls as two."""
    for message in messages:
        if isinstance(message, AssistantMessage) and message.calls and message.text:
            yield evolve(message, calls=())
            message = evolve(message, text="", reasoning="")
        yield message


def _text_entry(message: Message, shield: Shield, shape: Shape, call_id: Callable[[str], str]) -> Entry:
    """In a text protocol, a reply's text includes its calls, and a result has the user's role."""
    if isinstance(message, AssistantMessage):
        return {"role": "assistant", "content": shield.text(message.text or _calls_as_text(message))}
    if isinstance(message, ToolMessage):
        return {"role": "user", "content": shield.text(f"Result of {message.name}:\n{message.content}")}
    return _entry(message, shield, shape, call_id)


def _text_entry_for_calls(message: Message, shield: Shield, shape: Shape, call_id: Callable[[str], str]) -> Entry:
    """Write calls in the assistant's text, and a result in the user's role, so that the conversation stays complete."""
    if isinstance(message, AssistantMessage):
        told = "\n".join(filter(None, (message.text, _calls_as_text(message))))
        return _entry(evolve(message, text=told, calls=()), shield, shape, call_id)
    return _text_entry(message, shield, shape, call_id)


def _calls_as_text(message: AssistantMessage) -> str:
    return "\n".join(f"Call of {call.name}: {call.arguments_json}" for call in message.calls)


def in_parts(made: Iterable[Entry]) -> list[Entry]:
    """Return messages with each content as a list of one text part."""
    return [{**entry, "content": [{"type": "text", "text": entry["content"]}]} for entry in made]


def _call(call: ToolCall, shield: Shield, shape: Shape, call_id: Callable[[str], str]) -> Entry:
    if shape.text_arguments:
        arguments = shield.text(call.arguments_json)
    else:
        try:
            arguments = shield.data(call.arguments)
        except (ValueError, RecursionError) as error:  # a recording may say anything; another form tells it as text
            raise TemplateError(f"the arguments of a call of {call.name!r} can't be read: {error}") from error
    return {
        "id": call_id(call.id),
        "type": "function",
        "function": {"name": shield.text(call.name), "arguments": arguments},
    }


def _fold(system: str, made: list[Entry]) -> None:
    for entry in made:
        if entry["role"] == "user":
            entry["content"] = f"{system}\n\n{entry['content']}"
            return
    made.insert(0, {"role": "user", "content": system})


def _merge_roles(made: list[Entry]) -> list[Entry]:
    merged: list[Entry] = []
    for entry in made:
        last = merged[-1] if merged else None
        plain = entry["role"] in ("user", "assistant") and "tool_calls" not in entry
        if last is not None and plain and last["role"] == entry["role"] and "tool_calls" not in last:
            merged[-1] = {**last, "content": f"{last['content']}\n\n{entry['content']}"}
        else:
            merged.append(entry)
    return merged
