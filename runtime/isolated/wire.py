"""What a model's process and its parent say to each other: plain values, read strictly, whoever sent them.

A frame is the length of its body (4 bytes, the highest first) and the body: JSON in UTF-8, an object with its tag under
``"type"``. Nothing is ever unpickled or evaluated.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

from attrs import frozen, resolve_types

from cognition import CodecError, CogstepError, ModelRequest, from_data, to_data
from cognition.parsing import (
    ArgumentsDelta,
    CallFinished,
    CallMalformed,
    CallStarted,
    FormatSpec,
    Output,
    ReasoningDelta,
    TextDelta,
)
from runtime import errors
from runtime.llama.options import LlamaOptions
from runtime.models.specs import BackendName
from runtime.protocol import Done, ModelInfo

LONGEST = 1 << 30
"""Bytes of a body: a gigabyte is no request, but damage."""

# ------------------------------------------------------------------------------------------------ from parent to child


@frozen
class Load:
    """Comes first."""

    backend: BackendName
    path: str
    pulse: float
    """Seconds between two signs of life."""
    context_tokens: int | None = None
    threads: int | None = None
    options: LlamaOptions | None = None


@frozen
class Submit:
    """Make a reply."""

    id: int
    request: ModelRequest
    submitted: float
    """When the caller asked, on the monotonic clock, which all processes of a machine share."""


@frozen
class Cancel:
    """End a reply; it answers with its ``Done``."""

    id: int


@frozen
class Count:
    """Say how many tokens a prompt has."""

    id: int
    request: ModelRequest


@frozen
class Save:
    """Save what the cache holds of a prompt, and say how many tokens that is."""

    id: int
    request: ModelRequest
    path: str
    """Absolute, since the two may have gone to different folders."""


@frozen
class Restore:
    """Put it back, and say how many tokens it is."""

    id: int
    path: str


@frozen
class Close:
    """Cancel everything, answer it, free the model and end."""


# ------------------------------------------------------------------------------------------------ from child to parent


@frozen
class Loading:
    """How far the load is, 0 to 1."""

    fraction: float


@frozen
class Ready:
    """The model stands."""

    info: ModelInfo


@frozen
class Refusal:
    """An error, by the name of its class."""

    kind: str
    message: str
    spec: str = ""
    """What was to be loaded, or the file of a saved cache."""
    extra: str = ""


@frozen
class LoadFailed:
    """It does not stand, and the process ends."""

    refusal: Refusal


@frozen
class Produced:
    """What one step gave: each reply's number, and a piece of it. Written by hand below, for there are many."""

    items: tuple[tuple[int, Output | Done], ...]


@frozen
class Counted:
    """How many tokens were counted, saved or restored."""

    id: int
    tokens: int


@frozen
class NotCounted:
    """Why none."""

    id: int
    refusal: Refusal


@frozen
class Pulse:
    """A sign of life, while there is something to do."""

    steps: int
    """How many steps the engine has taken. The same number again and again: it is still in the same native call."""


FromParent = Load | Submit | Cancel | Count | Save | Restore | Close
FromChild = Loading | Ready | LoadFailed | Produced | Counted | NotCounted | Pulse
Message = FromParent | FromChild

TAGS: dict[type, str] = {
    Load: "load",
    Submit: "submit",
    Cancel: "cancel",
    Count: "count",
    Save: "save",
    Restore: "restore",
    Close: "close",
    Loading: "loading",
    Ready: "ready",
    LoadFailed: "load_failed",
    Counted: "counted",
    NotCounted: "not_counted",
    Pulse: "pulse",
}
"""All but ``Produced``."""

PIECES: dict[type, str] = {
    TextDelta: "text",
    ReasoningDelta: "reasoning",
    CallStarted: "call_started",
    ArgumentsDelta: "arguments",
    CallFinished: "call_finished",
    CallMalformed: "call_malformed",
    Done: "done",
}
"""Tags of what a reply is made of."""


@cache
def _kinds() -> tuple[dict[str, type], dict[str, type]]:
    """Classes by tag, of messages and of pieces."""
    resolve_types(ModelInfo, localns={"FormatSpec": FormatSpec})  # it imports that only for type checkers
    return {tag: kind for kind, tag in TAGS.items()}, {tag: kind for kind, tag in PIECES.items()}


def encode(message: Message) -> bytes:
    """A message as a frame."""
    _kinds()
    data: Any
    if isinstance(message, Produced):
        items = [[number, PIECES[type(piece)], to_data(piece, type(piece))] for number, piece in message.items]
        data = {"type": "produced", "items": items}
    else:
        data = {"type": TAGS[type(message)], **to_data(message, type(message))}
    return frame(data)


def frame(data: Any) -> bytes:
    """JSON data as a frame."""
    body = json.dumps(data, separators=(",", ":")).encode("ascii")
    return struct.pack(">I", len(body)) + body


def decode(body: bytes) -> Message:
    """A message from the body of its frame.

    Raises:
        CodecError: it is none.
    """
    data = parse(body)
    messages, pieces = _kinds()
    tag = data.pop("type", None)
    if tag == "produced":
        return Produced(tuple([_piece(item, pieces) for item in _list(data.get("items"), "$.items")]))
    if not isinstance(tag, str) or tag not in messages:
        raise CodecError(("$.type", f"no message is called {tag!r}"))
    return cast("Message", from_data(data, messages[tag]))


def parse(body: bytes) -> dict[str, Any]:
    """The JSON object of a frame.

    Raises:
        CodecError: there is none.
    """
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise CodecError(("$", f"no JSON: {error}")) from error
    if not isinstance(data, dict):
        raise CodecError(("$", f"expected an object, got {type(data).__name__}"))
    return data


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise CodecError((where, f"expected an array, got {type(value).__name__}"))
    return value


def _piece(item: Any, pieces: dict[str, type]) -> tuple[int, Output | Done]:
    match item:
        case [int(number), str(tag), data] if tag in pieces:
            return number, from_data(data, pieces[tag])
        case _:
            raise CodecError(("$.items", "expected a number, a tag and a piece"))


class Frames:
    """Takes bytes as they come, cut anywhere, and gives the bodies of whole frames."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The bodies that these bytes complete.

        Raises:
            CodecError: a length that none can have.
        """
        self._rest += data
        start = 0
        try:
            while len(self._rest) - start >= 4:
                (length,) = struct.unpack_from(">I", self._rest, start)
                if length > LONGEST:
                    raise CodecError(("$", f"a frame of {length} bytes"))
                if len(self._rest) - start - 4 < length:
                    break
                body = bytes(self._rest[start + 4 : start + 4 + length])
                start += 4 + length
                yield body
        finally:
            del self._rest[:start]


# --------------------------------------------------------------------------------------------------------------- errors

ERRORS: dict[str, type[errors.ModelLoadError]] = {
    kind.__name__: kind
    for kind in (
        errors.ModelLoadError,
        errors.ModelSpecError,
        errors.ModelOptionsError,
        errors.ModelNotFoundError,
        errors.ModelFileError,
        errors.LoadCancelledError,
        errors.TemplateError,
        errors.TemplateStoppedError,
    )
}
"""Those that come back as what they were; ``ExtraMissingError`` too, which has a field more."""


def refusal(error: BaseException) -> Refusal:
    """An error as a value."""
    about = error.path if isinstance(error, errors.SavedCacheError) else getattr(error, "spec", "")
    return Refusal(type(error).__name__, str(error), str(about), str(getattr(error, "extra", "")))


def restored(refusal: Refusal) -> CogstepError:
    """The error again; one of a kind that is not ours becomes a ``ModelLoadError`` that names it."""
    if refusal.kind == "ExtraMissingError":
        return errors.ExtraMissingError(refusal.message, extra=refusal.extra, spec=refusal.spec)
    if refusal.kind == "SavedCacheError":
        return errors.SavedCacheError(refusal.message, Path(refusal.spec))
    if refusal.kind in ERRORS:
        return ERRORS[refusal.kind](refusal.message, spec=refusal.spec)
    return errors.ModelLoadError(f"{refusal.kind}: {refusal.message}", spec=refusal.spec)
