"""A cassette's file: readable JSON, to be reviewed and put under version control beside its test.

    {
      "format": "cogstep-cassette",
      "version": 1,
      "models": {"": {"name": "cogstep-small", "backend": "llama.cpp", "context_tokens": 4096, "features": ["tools"]}},
      "exchanges": [
        {"digest": "5c...", "request": {"system": "...", "messages": [{"user": "What is 17 * 23?"}], ...},
         "reply": {"calls": [{"name": "multiply", "arguments": {"a": 17, "b": 23}}], "finish_reason": "tool_calls"}},
        {"digest": "e1...", "request": {"same_messages": 1, "messages": [{"assistant": "", "calls": [...]}, ...]},
         "reply": {"text": "17 * 23 is 391.", "pieces": 9, "finish_reason": "stop"}}
      ]
    }

A request contains only its differences from the previous one: ``same_messages`` is the number of equal leading
messages, and equal parts are omitted. So the size of a session's cassette is linear in its length, and a reader sees
the additions.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

from attrs import define, field

from cognition import (
    CodecError,
    CogstepError,
    Failure,
    FinishReason,
    MalformedToolCall,
    ProposedCall,
    Usage,
    from_data,
    to_data,
)
from cognition.base.display import LONGEST_LINE, shown_name
from cognition.base.strict_json import LENIENT
from interpreters.recording.journal.strict_lines import read_strictly
from interpreters.testing.cassettes._requests import request_digest
from runtime.files import make_directory, read_regular, replace_private
from runtime.protocol.model import Done, Timings

FORMAT = "cogstep-cassette"
VERSION = 1

LONGEST = 1 << 27
"""Maximum bytes of a cassette: 128 MiB."""

PARTS = ("system", "tools", "options", "protocol")
"""The parts of a request that are omitted if they equal those of the previous request."""


class CassetteError(CogstepError):
    """A cassette can't be read or written.

    Attributes:
        path: its file.
    """

    def __init__(self, message: str, *, path: Path) -> None:
        super().__init__(f"{shown_name(str(path), LONGEST_LINE)}: {message}")
        self.path = path


@define
class Exchange:
    """A request and its reply."""

    digest: str
    request: dict[str, Any]
    """The complete request, even if the file has only its differences."""
    reply: dict[str, Any]
    model: str = ""
    """The name of the test's model, if it has several."""
    used: bool = field(default=False, eq=False)


@define
class Tape:
    """The contents of a cassette."""

    models: dict[str, dict[str, Any]] = field(factory=dict)
    exchanges: list[Exchange] = field(factory=list)


def read_tape(path: Path) -> Tape:
    """Read a cassette's file.

    Raises:
        CassetteError: it is missing, or can't be read.
    """
    try:
        data = LENIENT.decode(read_regular(path, LONGEST).decode())
    except FileNotFoundError:
        raise CassetteError(
            "there is no such cassette yet; record it with pytest --cassette=record", path=path
        ) from None
    except OSError as error:
        raise CassetteError(f"can't be read: {error.strerror}", path=path) from error
    except (ValueError, RecursionError) as error:
        raise CassetteError(f"can't be read: {error}", path=path) from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise CassetteError("this is no cassette", path=path)
    if data.get("version") != VERSION:
        raise CassetteError(
            f"it has version {data.get('version')!r}, and this cogstep reads version {VERSION}; record it again",
            path=path,
        )
    try:
        return Tape(_models(data["models"]), _exchanges(data["exchanges"]))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise CassetteError(f"it is damaged ({type(error).__name__}: {error}); record it again", path=path) from error


def _models(data: Any) -> dict[str, dict[str, Any]]:
    models: dict[str, dict[str, Any]] = from_data(read_strictly(json.dumps(data)), dict[str, dict[str, Any]])
    for info in models.values():
        from_data(info.get("name", ""), str)
        from_data(info.get("features", []), tuple[str, ...])
        from_data(info.get("media", []), tuple[str, ...])
        if from_data(info.get("context_tokens", 1), int) < 1:
            raise ValueError("a model has no context")
    return models


def _exchanges(entries: Iterable[dict[str, Any]]) -> list[Exchange]:
    found: list[Exchange] = []
    before: dict[str, Any] = {"messages": []}
    for entry in entries:
        written = dict(entry["request"])
        same = written.pop("same_messages", 0)
        request = {part: before[part] for part in PARTS if part in before} | written
        request = {part: value for part, value in request.items() if value is not None}
        request["messages"] = [*before["messages"][:same], *written["messages"]]
        reply_of_data(entry["reply"])  # whatever is wrong with it is said now and not in the middle of a test
        found.append(Exchange(request_digest(request), request, entry["reply"], entry.get("model", "")))
        before = request
    return found


def write_tape(path: Path, tape: Tape) -> None:
    """Write the file atomically, readable only by this user: it contains a conversation.

    Raises:
        CassetteError: it can't be written.
    """
    entries = []
    before: dict[str, Any] = {"messages": []}
    for exchange in tape.exchanges:
        entry: dict[str, Any] = {"digest": exchange.digest}
        if exchange.model:
            entry["model"] = exchange.model
        entries.append(entry | {"request": _shorten(exchange.request, before), "reply": exchange.reply})
        before = exchange.request
    data = {"format": FORMAT, "version": VERSION, "models": tape.models, "exchanges": entries}
    try:
        make_directory(path.parent)
        replace_private(path, _text(data))
    except OSError as error:
        raise CassetteError(f"can't be written: {error.strerror}", path=path) from error


def _shorten(request: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """Return a request without the parts equal to the previous one; a removed part is written as null."""
    messages, known = request["messages"], before["messages"]
    same = 0
    while same < min(len(messages), len(known)) and messages[same] == known[same]:
        same += 1
    short = {part: request.get(part) for part in PARTS if request.get(part) != before.get(part)}
    return ({"same_messages": same} if same else {}) | short | {"messages": messages[same:]}


def _text(data: dict[str, Any]) -> bytes:
    try:
        return (json.dumps(data, ensure_ascii=False, indent=2) + "\n").encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which UTF-8 has no form for but JSON's \u has
        return (json.dumps(data, indent=2) + "\n").encode()


def data_of_reply(done: Done, pieces: int) -> dict[str, Any]:
    """Return a reply as data, without empty fields; arguments become objects if that loses nothing.

    ``pieces`` is the number of deltas of the text.
    """
    failure = None if done.failure is None else to_data(done.failure)
    data: dict[str, Any] = {
        "text": done.text,
        "pieces": pieces if pieces > 1 else None,
        "reasoning": done.reasoning,
        "calls": [_call_data(call) for call in done.calls],
        "malformed": [to_data(item) for item in done.malformed],
        "finish_reason": done.finish_reason,
        "usage": to_data(done.usage),
        "failure": failure,
        "continuation": done.continuation,
    }
    return {name: value for name, value in data.items() if value}


def reply_of_data(data: dict[str, Any]) -> tuple[Done, int]:
    """Read a ``data_of_reply`` result: return the reply, and the number of pieces of its text.

    Raises:
        ValueError, TypeError, KeyError: the data are invalid.
    """
    known = {"text", "pieces", "reasoning", "calls", "malformed", "finish_reason", "usage", "failure", "continuation"}
    unknown = data.keys() - known
    if unknown:
        raise ValueError(f"a reply has no {', '.join(sorted(unknown))}")
    if data["finish_reason"] not in get_args(FinishReason):
        raise ValueError(f"a reply doesn't end by {data['finish_reason']!r}")
    # Arguments are the model's, and may hold any number. These are reckoned with.
    read_strictly(json.dumps([data.get("usage"), data.get("failure"), data.get("pieces")]))
    try:
        return Done(
            from_data(data.get("text", ""), str),
            from_data(data.get("reasoning", ""), str),
            tuple(_call_of(call) for call in data.get("calls", ())),
            from_data(data.get("malformed", []), tuple[MalformedToolCall, ...]),
            data["finish_reason"],
            from_data(data.get("usage", {}), Usage),
            Timings(),
            None if data.get("failure") is None else from_data(data["failure"], Failure),
            continuation=from_data(data.get("continuation", ""), str),
        ), max(from_data(data.get("pieces", 1), int), 1)
    except CodecError as error:
        raise ValueError(str(error)) from error


def _call_data(call: ProposedCall) -> dict[str, Any]:
    data: dict[str, Any] = to_data(call)
    text = data.pop("arguments_json", "{}")
    arguments: Any = text
    with contextlib.suppress(ValueError, RecursionError):
        decoded = LENIENT.decode(text)
        if isinstance(decoded, dict) and ProposedCall("", decoded).arguments_json == text:
            arguments = decoded
    return {"name": data.pop("name"), "arguments": arguments, **data}


def _call_of(data: dict[str, Any]) -> ProposedCall:
    given = dict(data)
    call = ProposedCall("", given.pop("arguments"))
    read: ProposedCall = from_data({**given, "arguments_json": call.arguments_json}, ProposedCall)
    return read
