"""What crosses the border of a process: messages, each of which is one line of JSON, held to its limits on both sides.

Whoever reads believes nothing: a line has a longest length, UTF-8 is UTF-8, a key stands once, a number is finite and
of a bounded length, what is nested is nested a few hundred times at most, and an object is a message of its union, each
field of its type. Everything else is a ``ProtocolError``, in time and memory that follow from the length of the line.
Nothing is ever unpickled or evaluated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from typing import Any, NoReturn

from attrs import frozen

from cognition import CodecError, CogstepError, ConfigError, Usage, from_data, to_data
from cognition.strict_json import DECODER

WRITE = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode

NO_UTF8 = re.compile("[\ud800-\udfff]")
"""How ``Lines`` gives bytes that are none; what a text says as ``\\ud800`` is another matter."""

MOST_BRACKETS = 500_000
"""Arrays and objects in a line: an empty one is 2 bytes there and 64 in memory."""

STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
"""Of JSON, in which brackets mean nothing."""

LONGEST_NUMBER = 300
"""Characters. A longer one has no float, and Python takes a time for it that grows with the square of its length."""

LARGEST_COUNT = 2**53
"""Of what a child counts: the largest number up to which every program that reads JSON agrees."""

LONGEST_REASON = 500
"""Characters of an error that another process words."""


class ProtocolError(CogstepError):
    """A line is no message, or not one that belongs there.

    Attributes:
        data: what could be read of it; empty if it is no JSON object.
    """

    def __init__(self, message: str, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message if len(message) <= LONGEST_REASON else f"{message[:LONGEST_REASON]} ...")
        self.data = data or {}


# ------------------------------------------------------------------------------------------------------------- writing


def line_of(message: Any, longest: int | None = None) -> str:
    """A message as one line of JSON, in ASCII and without a line break.

    Raises:
        ConfigError: JSON has no form for something in it, such as infinity; the message says where it stands. Or it has
            more than ``longest`` bytes, which the other side would not read.
    """
    data = to_data(message)
    try:
        line = WRITE(data)
    except (TypeError, ValueError, RecursionError) as error:
        places = ", ".join(endless(data, message.tag))
        what = "a number that is not finite, which JSON does not have; None means without end"
        raise ConfigError(f"{places}: {what}" if places else f"{message.tag}: {error}") from error
    if longest is not None and len(line) > longest:
        raise ConfigError(f"{message.tag}: {len(line):,} bytes, and the other side reads {longest:,} at most")
    return line


def endless(data: Any, place: str) -> Iterator[str]:
    """Where the numbers are that JSON doesn't have."""
    if isinstance(data, float) and not isfinite(data):
        yield place
    elif isinstance(data, dict | list | tuple):
        for name, one in data.items() if isinstance(data, dict) else enumerate(data):
            yield from endless(one, f"{place}.{name}")


# ------------------------------------------------------------------------------------------------------------- reading


class Lines:
    """Takes bytes as they come, cut anywhere, and gives whole lines.

    Args:
        longest: bytes that a line may have; what is longer is refused before its end has come.
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._begun = bytearray()

    def feed(self, data: bytes) -> Iterator[str]:
        """The lines that these bytes complete. What is no UTF-8 is kept as lone surrogates, for ``read`` to refuse.

        Raises:
            ProtocolError: a line is longer than any may be.
        """
        whole, end, rest = data.rpartition(b"\n")
        lines = (self._begun + whole).split(b"\n") if end else []
        if end:
            self._begun = bytearray()
        self._begun += rest
        for line in lines:
            self._check(line)
            yield line.decode("utf-8", "surrogateescape")
        self._check(self._begun)

    def rest(self) -> str:
        """What has come of a line that has no end yet, and now never will."""
        begun, self._begun = self._begun, bytearray()
        return begun.decode("utf-8", "surrogateescape")

    def _check(self, line: bytearray) -> None:
        if len(line) > self._longest:
            raise ProtocolError(f"a message of more than {self._longest:,} bytes")


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON number")


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
    unique = DECODER.object_pairs_hook
    return json.JSONDecoder(parse_int=whole, parse_float=_real, parse_constant=_refuse, object_pairs_hook=unique)


WIDE = _decoder(_whole)
"""For what a program says to a process of its own: schemas of tools may hold any number."""

NARROW = _decoder(_count)
"""For what a child says: nothing that it counts is larger than ``LARGEST_COUNT``."""


def read(line: str, union: Any, decoder: json.JSONDecoder) -> Any:
    """The message of a line.

    Raises:
        ProtocolError: it is none.
    """
    try:
        data = decoded(line, decoder)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"this is no JSON: {error}", _as_far_as_it_goes(line)) from error
    if not isinstance(data, dict):
        raise ProtocolError("a message is a JSON object")
    try:
        message = from_data(data, union)
    except (CodecError, ValueError, RecursionError) as error:
        raise ProtocolError(f"this is no message ({str(data.get('type'))[:60]!r}): {error}", data) from error
    return message


def decoded(line: str, decoder: json.JSONDecoder) -> Any:
    """The JSON value of a line, held to the limits.

    Raises:
        ValueError: it is none, or exceeds one.
        RecursionError: it is nested thousands deep.
    """
    if not line.isascii() and NO_UTF8.search(line):
        raise ValueError("it is no UTF-8")
    if _brackets(line) > MOST_BRACKETS and _brackets(STRING.sub("", line)) > MOST_BRACKETS:
        raise ValueError(f"more than {MOST_BRACKETS:,} arrays and objects")
    return decoder.decode(line)


def _brackets(line: str) -> int:
    return line.count("{") + line.count("[")


def _as_far_as_it_goes(line: str) -> dict[str, Any]:
    """What can be read of a line that is refused, since whoever waits for the answer to its id is to hear of it."""
    try:
        data = decoded(line, LENIENT)
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


LENIENT = json.JSONDecoder(parse_int=lambda text: int(text) if len(text) <= LONGEST_NUMBER else 0)


def check_usage(usage: Usage) -> None:
    """See that a child counts nothing below zero, which would give back what was used up.

    Raises:
        ProtocolError: it does.
    """
    numbers = (usage.input_tokens, usage.output_tokens, usage.reused_tokens, usage.cost)
    if not all(0 <= number <= LARGEST_COUNT for number in numbers):  # NaN is neither
        raise ProtocolError(f"a usage that can't be: {numbers}")


# -------------------------------------------------------------------------------------------------------------- errors


@frozen
class Refusal:
    """An error, by the name of its class."""

    error: str
    message: str
    about: str = ""
    """What was to be loaded, or the file of a saved cache."""
    extra: str = ""


def refusal(error: BaseException) -> Refusal:
    """An error as a value."""
    about = getattr(error, "path", "") or getattr(error, "spec", "")
    return Refusal(type(error).__name__, str(error), str(about), str(getattr(error, "extra", "")))


def restored(refusal: Refusal, known: Mapping[str, Callable[[Refusal], CogstepError]]) -> CogstepError:
    """The error again, by the table of those that come back as what they were; the row ``""`` is for all others."""
    make = known.get(refusal.error, known[""])
    return make(
        Refusal(*[text[:LONGEST_REASON] for text in (refusal.error, refusal.message, refusal.about, refusal.extra)])
    )
