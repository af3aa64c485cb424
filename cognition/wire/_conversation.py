"""A request's messages as turns that any wire format can express: a result for every call, right after its reply.

The engine creates sound histories, but trimming may cut them, and other programs may write them. Servers refuse a
result without its call, and a call without its result. Here the first becomes text, and the second gets ``NO_RESULT``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from zlib import crc32

from attrs import frozen

from cognition.base.encoding import bounded
from cognition.base.strict_json import DEEPEST, LENIENT, NUMBERS
from cognition.steps.requests import ModelRequest
from cognition.values.content import Part, TextPart
from cognition.values.messages import AssistantMessage, Message, ToolMessage, UserMessage, read_arguments
from cognition.wire._names import Ids, Names
from cognition.wire._quirks import Dialect, Quirks

DATED = re.compile(r"(?:[-@:]\d[-\d]*)?")
"""The suffix that a server may add to the requested model's name, such as a date."""
NO_RESULT = "(no result: the call was interrupted)"
"""The result for a call without a result."""
SEEN = "(seen)"
"""The assistant message inserted between results and a user message, for servers that require one there."""
RESULT_NOTE = "Result of {name}:\n{content}"
"""The text form of a result in a user message."""


@frozen
class UserTurn:
    """A message in the user's role."""

    parts: tuple[Part, ...]


@frozen
class CallTurn:
    """A call in a reply, with its id and name on the wire."""

    id: str
    name: str
    arguments: str
    """JSON text of an object."""


@frozen
class ReplyTurn:
    """A reply of the model."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[CallTurn, ...] = ()
    kept: tuple[tuple[int, Mapping[str, Any]], ...] = ()
    """The values that the server wants back, each with its place (``_replies.Kept``)."""


@frozen
class ResultTurn:
    """The result of a call of the preceding reply."""

    id: str
    name: str
    content: str
    failed: bool = False


Turn = UserTurn | ReplyTurn | ResultTurn


def turns_of(request: ModelRequest, quirks: Quirks, names: Names, model: str) -> list[Turn]:
    """Return the messages of a request as turns, in order. With a text protocol, calls and results are texts."""
    if request.protocol != "native":
        return [_as_text(message) for message in request.messages]
    turns = _native_turns(request, quirks, names, model)
    return list(_with_replies(turns)) if quirks.reply_before_user else turns


def _native_turns(request: ModelRequest, quirks: Quirks, names: Names, model: str) -> list[Turn]:
    """Return the messages as turns, with a result for each call."""
    turns: list[Turn] = []
    ids = Ids(quirks)
    waiting: dict[str, CallTurn] = {}  # calls of the newest reply, by their own ids, that have no result yet
    for message in request.messages:
        if isinstance(message, ToolMessage) and message.call_id in waiting:
            call = waiting.pop(message.call_id)
            turns.append(ResultTurn(call.id, call.name, message.content, message.status != "ok"))
            continue
        turns += _take_unanswered(waiting)
        if isinstance(message, AssistantMessage):
            calls = {
                call.id: CallTurn(ids[call.id], names.to_wire[call.name], _object_text(call.arguments_json))
                for call in message.calls
            }
            waiting = dict(calls)
            kept = read_continuation(message.continuation, quirks.dialect, model)
            turns.append(ReplyTurn(message.text, message.reasoning, tuple(calls.values()), kept))
        else:
            turns.append(_as_text(message))
    return turns + _take_unanswered(waiting)


def continuation_of(dialect: Dialect, model: str, kept: Iterable[tuple[int, Mapping[str, Any]]]) -> str:
    """Return JSON text with the parts of a reply that its server wants back; empty if there are none."""
    if not (items := [[at, value] for at, value in kept]):
        return ""
    try:
        text = bounded(json.dumps(items, allow_nan=False), DEEPEST)
    except (ValueError, RecursionError):  # no server means what is no number, or is nested that deep
        return ""
    return json.dumps({"dialect": dialect, "model": model, "kept": text, "checksum": crc32(text.encode())})


def read_continuation(continuation: str, dialect: Dialect, model: str) -> tuple[tuple[int, Mapping[str, Any]], ...]:
    """Return the stored parts if they belong to the same model and wire format; else an empty tuple, as no other
    accepts them.

    A server may report a longer name than the requested one: ``m-2026-02-01`` matches ``m``, ``m-mini`` does not.
    """
    try:
        known = LENIENT.decode(continuation)
        name = known["model"]
        if known["dialect"] != dialect or not name.startswith(model) or not DATED.fullmatch(name, len(model)):
            return ()
        if known["checksum"] != crc32(known["kept"].encode()):  # a recording hides what looks like a secret
            return ()
        return tuple((int(at), dict(value)) for at, value in NUMBERS.decode(known["kept"]))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return ()  # of a session that somebody else wrote


def _take_unanswered(waiting: dict[str, CallTurn]) -> list[Turn]:
    left: list[Turn] = [ResultTurn(call.id, call.name, NO_RESULT, failed=True) for call in waiting.values()]
    waiting.clear()
    return left


def _with_replies(turns: Iterable[Turn]) -> Iterator[Turn]:
    """Insert a reply wherever a user message would follow results directly."""
    before: Turn | None = None
    for turn in turns:
        if isinstance(turn, UserTurn) and isinstance(before, ResultTurn):
            yield ReplyTurn(SEEN)
        yield turn
        before = turn


def _as_text(message: Message) -> Turn:
    if isinstance(message, UserMessage):
        return UserTurn(message.parts or (TextPart(message.text),))
    if isinstance(message, ToolMessage):
        return UserTurn((TextPart(RESULT_NOTE.format(name=message.name, content=message.content)),))
    told = (f"Call of {call.name}: {call.arguments_json}" for call in message.calls)
    return ReplyTurn(message.text or "\n".join(told), message.reasoning)


def insert_parts(
    told: list[dict[str, Any]], before: int, kept: Iterable[tuple[int, Mapping[str, Any]]]
) -> list[dict[str, Any]]:
    """Return ``told``, text first (``before`` items) and then calls, with the ``kept`` values inserted at
    their places.
    """
    rows: list[list[dict[str, Any]]] = [[] for _ in range(len(told) - before + 1)]
    for at, value in kept:
        if told and at < len(rows):  # servers refuse a thought that nothing follows
            rows[at].append(dict(value))
    made = [*rows[0], *told[:before]]
    for row, call in zip(rows[1:], told[before:], strict=True):
        made += [*row, call]
    return made


def arguments_object(text: str) -> dict[str, Any]:
    """Return the arguments of a call as an object, for formats that need one."""
    return read_arguments("", text, NUMBERS)


def _object_text(text: str) -> str:
    """Return the arguments unchanged, or wrapped in an object if they are not a JSON object.

    The engine never creates such a call. A session from another program may contain it, and servers refuse it.
    """
    try:
        read_arguments("", text, NUMBERS)
    except (ValueError, RecursionError):
        return json.dumps({"arguments": text})
    return text
