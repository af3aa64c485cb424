"""The messages between a model's process and its parent: plain values, one line of JSON each (``children.lines``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar, cast

from attrs import frozen, resolve_types

from cognition import CogstepError, ModelRequest
from cognition.parsing import FormatSpec, Output
from runtime import errors
from runtime.children.line_pipe import (
    NARROW,
    WIDE,
    ProtocolError,
    Refusal,
    check_usage,
    line_of,
    read_message,
    restore_error,
)
from runtime.llama.options import LlamaOptions
from runtime.models.specs import BackendName
from runtime.protocol.model import Done, ModelInfo
from runtime.templates.override import NOTHING_CHOSEN, Override

TO_CHILD = 1 << 28
"""Maximum bytes of a line: a request contains a whole conversation."""

FROM_CHILD = 1 << 24
"""Maximum bytes of a line: the last piece of a reply contains all of it; a million tokens are about five million bytes.
"""

LONGEST_CONTEXT = 2**31
"""Tokens: llama.cpp counts them in 32 bits."""

LONGEST_WAIT = 1e9
"""Maximum seconds of any reported duration."""

# ------------------------------------------------------------------------------------------------ from parent to child


@frozen
class Load:
    """The first message: load the model."""

    tag: ClassVar[str] = "load"
    backend: BackendName
    path: str
    pulse: float
    """Seconds between two signs of life."""
    context_tokens: int | None = None
    threads: int | None = None
    options: LlamaOptions | None = None
    chosen: Override = NOTHING_CHOSEN


@frozen
class Submit:
    """Start a reply."""

    tag: ClassVar[str] = "submit"
    id: int
    request: ModelRequest
    submitted: float
    """When the caller submitted it, on the monotonic clock, which all processes of a machine share."""
    owner: int = 0
    """The owner of the request: owners take turns."""


@frozen
class Cancel:
    """Cancel a reply; its ``Done`` is the answer."""

    tag: ClassVar[str] = "cancel"
    id: int


@frozen
class Count:
    """Count the tokens of a prompt."""

    tag: ClassVar[str] = "count"
    id: int
    request: ModelRequest


@frozen
class CountTexts:
    """Count the tokens of each text."""

    tag: ClassVar[str] = "count_texts"
    id: int
    texts: tuple[str, ...]


@frozen
class Save:
    """Save the cached part of a prompt; the answer is its number of tokens."""

    tag: ClassVar[str] = "save"
    id: int
    request: ModelRequest
    path: str
    """Absolute, since the processes may have different working directories."""


@frozen
class Restore:
    """Restore a saved cache; the answer is its number of tokens."""

    tag: ClassVar[str] = "restore"
    id: int
    path: str


@frozen
class Close:
    """Cancel everything, answer it, free the model and end."""

    tag: ClassVar[str] = "close"


# ------------------------------------------------------------------------------------------------ from child to parent


@frozen
class Loading:
    """Load progress, 0 to 1."""

    tag: ClassVar[str] = "loading"
    fraction: float


@frozen
class Ready:
    """The model is loaded."""

    tag: ClassVar[str] = "ready"
    info: ModelInfo


@frozen
class LoadFailed:
    """Loading failed; the process ends."""

    tag: ClassVar[str] = "load_failed"
    refusal: Refusal


@frozen
class Produced:
    """The outputs of one step: the number of each reply, and a piece of it."""

    tag: ClassVar[str] = "produced"
    items: tuple[tuple[int, Output | Done], ...]


@frozen
class Counted:
    """The number of tokens counted, saved or restored."""

    tag: ClassVar[str] = "counted"
    id: int
    tokens: int
    each: tuple[int, ...] = ()
    """The number of each text."""


@frozen
class NotCounted:
    """Why there is no number."""

    tag: ClassVar[str] = "not_counted"
    id: int
    refusal: Refusal


@frozen
class Pulse:
    """A sign of life, sent while there is work."""

    tag: ClassVar[str] = "pulse"
    steps: int
    """The engine's steps so far. A repeated number means that it is still in the same native call."""


for _message_part in (Override, ModelInfo):  # they import that only for type checkers
    resolve_types(_message_part, localns={"FormatSpec": FormatSpec})

Question = Count | CountTexts | Save | Restore
FromParent = Load | Submit | Cancel | Question | Close
FromChild = Loading | Ready | LoadFailed | Produced | Counted | NotCounted | Pulse
Message = FromParent | FromChild


def encode(message: Message) -> bytes:
    """Return a message as a line of bytes.

    Raises:
        ConfigError: it contains a number that JSON does not have, or is longer than the other side's limit.
    """
    line = line_of(message, FROM_CHILD if isinstance(message, FromChild) else TO_CHILD)
    return line.encode("ascii") + b"\n"


def from_parent(line: str) -> FromParent:
    """Decode a message of the parent; raises ProtocolError."""
    return cast("FromParent", read_message(line, FromParent, WIDE))


def from_child(line: str) -> FromChild:
    """Decode a message of the child and check its numbers; raises ProtocolError."""
    message = cast("FromChild", read_message(line, FromChild, NARROW))
    match message:
        case Produced(items):
            for _, piece in items:
                if isinstance(piece, Done):
                    _check_done(piece)
        case Loading(fraction) if not 0 <= fraction <= 1:
            raise ProtocolError(f"a load that is {fraction} done")
        case Ready(info) if not (0 < info.context_tokens < LONGEST_CONTEXT and info.weight_bytes >= 0):
            raise ProtocolError(f"a model of {info.context_tokens} tokens and {info.weight_bytes} bytes")
        case Counted(tokens=number) | Pulse(steps=number) if number < 0:
            raise ProtocolError(f"a count of {number}")
        case Counted(each=numbers) if any(number < 0 for number in numbers):
            raise ProtocolError(f"a count of {min(numbers)}")
        case _:
            pass
    return message


def _check_done(done: Done) -> None:
    check_usage(done.usage)
    timings, failure = done.timings, done.failure
    times = [timings.prefill_seconds, timings.decode_seconds, timings.time_to_first_token or 0]
    if failure is not None:
        times += [failure.retry_after or 0, failure.needed_tokens or 0, failure.available_tokens or 0]
    if not all(0 <= time <= LONGEST_WAIT for time in times):
        raise ProtocolError(f"a reply with times and sizes that can't be: {times}")
    if (done.finish_reason == "error") != (failure is not None):
        raise ProtocolError(f"a reply that ended by {done.finish_reason} with the failure {failure}")


# --------------------------------------------------------------------------------------------------------------- errors


def _again(kind: type[errors.ModelLoadError]) -> Callable[[Refusal], CogstepError]:
    return lambda told: kind(told.message, spec=told.about)


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
"""Errors that differ only by their class."""

KNOWN: Mapping[str, Callable[[Refusal], CogstepError]] = {
    **{name: _again(kind) for name, kind in ERRORS.items()},
    "ExtraMissingError": lambda told: errors.ExtraMissingError(told.message, extra=told.extra, spec=told.about),
    "SavedCacheError": lambda told: errors.SavedCacheError(told.message, Path(told.about)),
    "": lambda told: errors.ModelLoadError(f"{told.error}: {told.message}", spec=told.about),
}
"""How to rebuild each error; an unknown class becomes a ``ModelLoadError`` that names it."""


def error_of(refusal: Refusal) -> CogstepError:
    """Return the error that a child reported."""
    return restore_error(refusal, KNOWN)
