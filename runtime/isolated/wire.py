"""What a model's process and its parent say to each other: plain values, one line of JSON each (``children.lines``)."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, ClassVar, cast

from attrs import frozen, resolve_types

from cognition import CogstepError, ModelRequest
from cognition.parsing import FormatSpec, Output
from runtime import errors
from runtime.children.lines import NARROW, WIDE, ProtocolError, Refusal, check_usage, line_of, read, restored
from runtime.llama.options import LlamaOptions
from runtime.models.specs import BackendName
from runtime.protocol import Done, ModelInfo
from runtime.templates.chosen import NOTHING_CHOSEN, Chosen

TO_CHILD = 1 << 28
"""Bytes of a line: a request holds a whole conversation."""

FROM_CHILD = 1 << 24
"""Bytes of a line: the last piece of a reply holds all of it; a million tokens are some five million bytes."""

LONGEST_CONTEXT = 2**31
"""Tokens: llama.cpp counts them in 32 bits."""

LONGEST_WAIT = 1e9
"""Seconds that anything may have taken."""

# ------------------------------------------------------------------------------------------------ from parent to child


@frozen
class Load:
    """Comes first."""

    tag: ClassVar = "load"
    backend: BackendName
    path: str
    pulse: float
    """Seconds between two signs of life."""
    context_tokens: int | None = None
    threads: int | None = None
    options: LlamaOptions | None = None
    chosen: Chosen = NOTHING_CHOSEN


@frozen
class Submit:
    """Make a reply."""

    tag: ClassVar = "submit"
    id: int
    request: ModelRequest
    submitted: float
    """When the caller asked, on the monotonic clock, which all processes of a machine share."""
    owner: int = 0
    """Whose request it is: owners take turns."""


@frozen
class Cancel:
    """End a reply; it answers with its ``Done``."""

    tag: ClassVar = "cancel"
    id: int


@frozen
class Count:
    """Say how many tokens a prompt has."""

    tag: ClassVar = "count"
    id: int
    request: ModelRequest


@frozen
class CountTexts:
    """Say how many tokens each of these texts has by itself."""

    tag: ClassVar = "count_texts"
    id: int
    texts: tuple[str, ...]


@frozen
class Save:
    """Save what the cache holds of a prompt, and say how many tokens that is."""

    tag: ClassVar = "save"
    id: int
    request: ModelRequest
    path: str
    """Absolute, since the two may have gone to different folders."""


@frozen
class Restore:
    """Put it back, and say how many tokens it is."""

    tag: ClassVar = "restore"
    id: int
    path: str


@frozen
class Close:
    """Cancel everything, answer it, free the model and end."""

    tag: ClassVar = "close"


# ------------------------------------------------------------------------------------------------ from child to parent


@frozen
class Loading:
    """How far the load is, 0 to 1."""

    tag: ClassVar = "loading"
    fraction: float


@frozen
class Ready:
    """The model stands."""

    tag: ClassVar = "ready"
    info: ModelInfo


@frozen
class LoadFailed:
    """It does not stand, and the process ends."""

    tag: ClassVar = "load_failed"
    refusal: Refusal


@frozen
class Produced:
    """What one step gave: each reply's number, and a piece of it."""

    tag: ClassVar = "produced"
    items: tuple[tuple[int, Output | Done], ...]


@frozen
class Counted:
    """How many tokens were counted, saved or restored."""

    tag: ClassVar = "counted"
    id: int
    tokens: int
    each: tuple[int, ...] = ()
    """Of texts, the number of each."""


@frozen
class NotCounted:
    """Why none."""

    tag: ClassVar = "not_counted"
    id: int
    refusal: Refusal


@frozen
class Pulse:
    """A sign of life, while there is something to do."""

    tag: ClassVar = "pulse"
    steps: int
    """How many steps the engine has taken. The same number again and again: it is still in the same native call."""


Question = Count | CountTexts | Save | Restore
FromParent = Load | Submit | Cancel | Question | Close
FromChild = Loading | Ready | LoadFailed | Produced | Counted | NotCounted | Pulse
Message = FromParent | FromChild


def encode(message: Message) -> bytes:
    """A message as a line of bytes.

    Raises:
        ConfigError: it holds a number that JSON doesn't have, or is longer than the other side reads.
    """
    _resolved()
    line = line_of(message, FROM_CHILD if isinstance(message, FromChild) else TO_CHILD)
    return line.encode("ascii") + b"\n"


def from_parent(line: str) -> FromParent:
    """What a parent said; raises ProtocolError."""
    _resolved()
    return cast("FromParent", read(line, FromParent, WIDE))


def from_child(line: str) -> FromChild:
    """What a child said, its numbers looked at; raises ProtocolError."""
    _resolved()
    message = cast("FromChild", read(line, FromChild, NARROW))
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


@cache
def _resolved() -> None:
    resolve_types(Chosen, localns={"FormatSpec": FormatSpec})
    resolve_types(ModelInfo, localns={"FormatSpec": FormatSpec})  # it imports that only for type checkers


# --------------------------------------------------------------------------------------------------------------- errors


def _again(kind: type[errors.ModelLoadError]) -> Any:
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
"""Those that differ by their class alone."""

KNOWN: dict[str, Any] = {
    **{name: _again(kind) for name, kind in ERRORS.items()},
    "ExtraMissingError": lambda told: errors.ExtraMissingError(told.message, extra=told.extra, spec=told.about),
    "SavedCacheError": lambda told: errors.SavedCacheError(told.message, Path(told.about)),
    "": lambda told: errors.ModelLoadError(f"{told.error}: {told.message}", spec=told.about),
}
"""How each error comes back; one of a kind that is not ours becomes a ``ModelLoadError`` that names it."""


def error_of(refusal: Refusal) -> CogstepError:
    """The error that a child told."""
    return restored(refusal, KNOWN)
