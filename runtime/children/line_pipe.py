"""Messages between processes: one line of JSON each, with limits checked on both sides.

The reader trusts nothing:

- a line has a maximum length and must be UTF-8;
- an object must not repeat a key;
- numbers are finite and of limited length;
- nesting is at most a few hundred deep;
- an object is a message of its union, each field of its type.

Anything else raises a ``ProtocolError``, in time and memory bounded by the line's length. Nothing is unpickled or
evaluated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from typing import Any

from attrs import astuple, frozen

from cognition import CodecError, CogstepError, ConfigError, Usage, from_data, to_data
from cognition.base.encoding import bounded
from cognition.base.strict_json import DECODER, DEEPEST_MESSAGE, BoundedDecoder

WRITE = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode

NO_UTF8 = re.compile("[\ud800-\udfff]")
r"""Surrogates that ``LineSplitter`` produces for invalid UTF-8 bytes; an escape such as ``\ud800`` in a text is
different.
"""

MOST_BRACKETS = 500_000
"""Maximum arrays and objects in a line: an empty one takes 2 bytes there and 64 in memory."""

STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
"""A JSON string; brackets inside it do not count."""

LONGEST_NUMBER = 300
"""Characters. A longer number has no float, and Python parses it in quadratic time."""

LARGEST_COUNT = 2**53
"""The largest number in a child's messages: up to it all JSON readers agree."""

LONGEST_REASON = 500
"""Maximum characters of an error text from another process."""


class ProtocolError(CogstepError):
    """A line is not a valid message, or not valid at this point.

    Attributes:
        data: the readable part; empty if it is not a JSON object.
    """

    def __init__(self, message: str, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message if len(message) <= LONGEST_REASON else f"{message[:LONGEST_REASON]} ...")
        self.data: Mapping[str, Any] = data or {}


# ------------------------------------------------------------------------------------------------------------- writing


def line_of(message: Any, longest: int | None = None) -> str:
    """Return a message as one line of ASCII JSON without a line break.

    Raises:
        ConfigError: JSON cannot express a value in it, such as infinity (the message names its place). Or it has more
            than ``longest`` bytes, the other side's limit.
    """
    data = to_data(message)
    try:
        line = bounded(WRITE(data))
    except (TypeError, ValueError, RecursionError) as error:
        places = ", ".join(find_nonfinite(data, message.tag))
        what = "a number that is not finite, which JSON does not have; None means without end"
        raise ConfigError(f"{places}: {what}" if places else f"{message.tag}: {error}") from error
    if longest is not None and len(line) > longest:
        raise ConfigError(f"{message.tag}: {len(line):,} bytes, and the other side reads {longest:,} at most")
    return line


def find_nonfinite(data: Any, place: str) -> Iterator[str]:
    """Yield the places of non-finite numbers."""
    if isinstance(data, float) and not isfinite(data):
        yield place
    elif isinstance(data, dict | list | tuple):
        for name, one in data.items() if isinstance(data, dict) else enumerate(data):
            yield from find_nonfinite(one, f"{place}.{name}")


# ------------------------------------------------------------------------------------------------------------- reading


class LineSplitter:
    """Splits a stream of bytes into lines.

    Args:
        longest: maximum bytes of a line; a longer line is refused before its end arrives.
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._begun = bytearray()

    def feed(self, data: bytes) -> Iterator[str]:
        """Yield the lines that these bytes complete. Invalid UTF-8 becomes lone surrogates, which ``read_message``
        refuses.

        Raises:
            ProtocolError: a line is longer than ``longest``.
        """
        lines: list[bytearray] = []
        self._begun += data
        if b"\n" in data:
            *lines, self._begun = self._begun.split(b"\n")
        for line in lines:
            self._check(line)
            yield line.decode("utf-8", "surrogateescape")
        self._check(self._begun)

    def rest(self) -> str:
        """Return the start of the unfinished line, at the end of the stream."""
        begun, self._begun = self._begun, bytearray()
        return begun.decode("utf-8", "surrogateescape")

    def _check(self, line: bytearray) -> None:
        if len(line) > self._longest:
            raise ProtocolError(f"a message of more than {self._longest:,} bytes")


def _whole(text: str) -> int:
    if len(text) > LONGEST_NUMBER:
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)


def _real(text: str) -> float:
    if len(text) > LONGEST_NUMBER or not isfinite(number := float(text)):
        raise ValueError(f"{text[:20]} is no JSON number that a float can hold")
    return number


def _count(text: str) -> int:
    if len(text) > 17 or abs(number := int(text)) > LARGEST_COUNT:
        raise ValueError(f"a number beyond {LARGEST_COUNT}")
    return number


def _decoder(whole: Callable[[str], int]) -> json.JSONDecoder:
    unique, finite = DECODER.object_pairs_hook, DECODER.parse_constant
    return BoundedDecoder(
        DEEPEST_MESSAGE, parse_int=whole, parse_float=_real, parse_constant=finite, object_pairs_hook=unique
    )


WIDE = _decoder(_whole)
"""For messages from a program to its child: tool schemas may contain any number."""

NARROW = _decoder(_count)
"""For messages from a child: no number is larger than ``LARGEST_COUNT``."""


def read_message(line: str, union: Any, decoder: json.JSONDecoder) -> Any:
    """Return the message of a line.

    Raises:
        ProtocolError: it is not a valid message.
    """
    try:
        data = decode_line(line, decoder)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"this is no JSON: {error}", _readable_part(line)) from error
    if not isinstance(data, dict):
        raise ProtocolError("a message is a JSON object")
    try:
        return from_data(data, union)
    except (CodecError, ValueError, RecursionError) as error:
        raise ProtocolError(f"this is no message ({str(data.get('type'))[:60]!r}): {error}", data) from error


def decode_line(line: str, decoder: json.JSONDecoder) -> Any:
    """Return the JSON value of a line, within the limits.

    Raises:
        ValueError: it is not JSON, or exceeds a limit.
        RecursionError: it is nested in more than ``DEEPEST_MESSAGE`` levels.
    """
    if not line.isascii() and NO_UTF8.search(line):
        raise ValueError("it is no UTF-8")
    if _brackets(line) > MOST_BRACKETS and _brackets(STRING.sub("", line)) > MOST_BRACKETS:
        raise ValueError(f"more than {MOST_BRACKETS:,} arrays and objects")
    return decoder.decode(line)


def _brackets(line: str) -> int:
    return line.count("{") + line.count("[")


def _readable_part(line: str) -> dict[str, Any]:
    """Return the readable part of a refused line: the caller that waits for its id needs the error."""
    try:
        data = decode_line(line, LENIENT)
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


LENIENT = BoundedDecoder(DEEPEST_MESSAGE, parse_int=lambda text: int(text) if len(text) <= LONGEST_NUMBER else 0)


def check_usage(usage: Usage) -> None:
    """Check that a child reports no negative count, which would refund used budget.

    Raises:
        ProtocolError: it does.
    """
    numbers = (usage.input_tokens, usage.output_tokens, usage.reused_tokens, usage.cost)
    if not all(0 <= number <= LARGEST_COUNT for number in numbers):  # NaN is neither
        raise ProtocolError(f"a usage that can't be: {numbers}")


# -------------------------------------------------------------------------------------------------------------- errors


@frozen
class Refusal:
    """An error as data; its class by name."""

    error: str
    message: str
    about: str = ""
    """The model to load, or the file of a saved cache."""
    extra: str = ""


def refusal(error: BaseException) -> Refusal:
    """Return an error as data."""
    about = getattr(error, "path", "") or getattr(error, "spec", "")
    return Refusal(type(error).__name__, str(error), str(about), str(getattr(error, "extra", "")))


def restore_error(refusal: Refusal, known: Mapping[str, Callable[[Refusal], CogstepError]]) -> CogstepError:
    """Return the error of this refusal, built by the entry of ``known`` for its class; ``""`` is the fallback."""
    make = known.get(refusal.error, known[""])
    return make(Refusal(*[text[:LONGEST_REASON] for text in astuple(refusal)]))
