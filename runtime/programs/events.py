"""What the readers of both programs share: lines to events, texts without half characters, what has been heard. Pure.

A program writes one JSON object a line. A reader is fed the bytes as they come, cut anywhere, and gives the same
outputs for any cut. What it can't believe ends the reading (``wrong``), since the line may have been what the reply is
about:

- a line that begins like an object and is none, or is longer than any may be;
- an event whose part that counts is of another type than it is documented with;
- a sign that the program does what it was not allowed to.

Events and parts that it does not know are passed over, since both programs get new ones all the time, and so are lines
that are no objects, which some versions print for people.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

from cognition import Failure, FinishReason, Usage
from cognition.parsing import Output, ReasoningDelta, TextDelta
from runtime.children.lines import LARGEST_COUNT, WIDE, Lines, ProtocolError, decoded

LONGEST_LINE = 1 << 24
"""Bytes of a line, 16 MiB: an event holds what a tool of the program's gave, whole."""
LONGEST_REPLY = 1 << 24
"""Characters that are read of a reply, its reasoning included."""
KEPT_NOISE = 400
"""Characters of lines that are no events."""
SHOWN_ARGUMENTS = 200
"""Characters of the arguments of a tool of the program's."""
TRAILING_HALF = re.compile("[\ud800-\udbff]\\Z")


class WrongEventError(Exception):
    """An event is not what it has to be; its text is the end of a sentence."""


class WholeText:
    """Puts the halves of characters together that an event ends or begins with; what is left of one is replaced."""

    def __init__(self) -> None:
        self._half = ""

    def feed(self, text: str) -> str:
        """The whole characters so far."""
        text, self._half = self._half + text, ""
        if found := TRAILING_HALF.search(text):
            text, self._half = text[: found.start()], found[0]
        return whole(text)

    def finish(self) -> str:
        """What is left at the end."""
        rest, self._half = self._half, ""
        return whole(rest)


def whole(text: str) -> str:
    """A text whose half characters are put together where they are neighbours, else replaced."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class EventReader(ABC):
    """Reads what one process of a program writes to its stdout.

    Args:
        program: its name, for people.
        structured: whether the reply is JSON of a schema, whose last text alone counts.
    """

    def __init__(self, program: str, *, structured: bool = False, longest_line: int = LONGEST_LINE) -> None:
        self.program = program
        self.structured = structured
        self.session = ""
        """The id of the program's session, once it has told it."""
        self.usage = Usage()
        self.before = self.total = Usage()
        """What its session had used before this reply, and has with it, where the program counts by the session."""
        self.ended = False
        """Whether the program has said that its reply is over."""
        self.reason: FinishReason = "stop"
        """``length`` ends the reply: nothing of what comes behind it counts."""
        self.failure: Failure | None = None
        """What the program says went wrong. It counts once nothing more comes."""
        self.limit_over: float | None = None
        """When a rate limit is over, in seconds since 1970, where the program says so."""
        self.wrong: Failure | None = None
        """Why nothing more is read, and the process has to be ended."""
        self.warnings: list[str] = []
        self.noise = ""
        """The beginning of what it printed beside events."""
        self._lines = Lines(longest_line)
        self._text, self._reasoning = WholeText(), WholeText()
        self._length = 0
        self._line_begun = False
        """Whether the reasoning does not end with a line break."""
        self._outputs: list[Output] = []

    # --------------------------------------------------------------------------------------------------- reading

    def feed(self, data: bytes) -> tuple[Output, ...]:
        """Read the next bytes."""
        if self.wrong is None:
            self._read(self._lines.feed(data))
        return self._taken()

    def finish(self) -> tuple[Output, ...]:
        """Nothing more comes: read a last line without its end, and let go of what was held back."""
        if self.wrong is None and (rest := self._lines.rest()).strip():
            self._read(iter((rest,)))
        self._finish()
        self._say(TextDelta, self._text.finish())
        self._say(ReasoningDelta, self._reasoning.finish())
        return self._taken()

    def _read(self, lines: Iterator[str]) -> None:
        try:
            for line in lines:
                if line := line.strip():
                    self._line(line)
                if self.wrong is not None:  # however the bytes are cut, nothing behind this line counts
                    return
        except ProtocolError as error:
            self._stop(f"wrote {error}")
        except WrongEventError as error:
            self._stop(str(error))

    def _line(self, line: str) -> None:
        if not line.startswith("{"):
            self.noise = f"{self.noise}\n{line}".strip()[:KEPT_NOISE]
            return
        try:
            event = decoded(line, WIDE)
        except (ValueError, RecursionError) as error:
            raise WrongEventError(f"wrote a line that can't be read ({error}): {line[:80]!r}") from error
        self._event(event)

    def _stop(self, what: str) -> None:
        self.wrong = self.wrong or Failure(f"{self.program} {what}", kind="bad_output")

    def refuse(self, why: str) -> None:
        """It does what it must not: nothing more of it counts."""
        self.wrong = self.wrong or Failure(f"{self.program} {why}", kind="fatal", code="not_allowed")

    @abstractmethod
    def _event(self, event: dict[str, Any]) -> None:
        """Read one event; raises WrongEventError."""

    def _finish(self) -> None:  # noqa: B027 - a reader that holds nothing back has nothing to do
        """Let go of texts that a subclass has held back."""

    # -------------------------------------------------------------------------------------------------- telling

    def text(self, text: str) -> None:
        """More of the reply."""
        self._say(TextDelta, self._text.feed(text))

    def reasoning(self, text: str) -> None:
        """More of what the model thinks."""
        self._say(ReasoningDelta, self._reasoning.feed(text))

    def note(self, text: str) -> None:
        """What the program does on its way, as a line of its own among what the model thinks."""
        before = "\n" if self._line_begun else ""
        self._say(ReasoningDelta, f"{before}{self._reasoning.finish()}{whole(text)}\n")

    def used(self, tool: str, arguments: Any) -> None:
        """The program calls a tool of its own."""
        told = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        told = " ".join(told.split())
        self.note(f"[{tool} {told[:SHOWN_ARGUMENTS]}{' ...' if len(told) > SHOWN_ARGUMENTS else ''}]")

    def warn(self, sentence: str) -> None:
        """Something that a user should know, once."""
        if sentence not in self.warnings:
            self.warnings.append(sentence)

    def _say(self, kind: type[TextDelta] | type[ReasoningDelta], text: str) -> None:
        if not text:
            return
        self._length += len(text)
        if self._length > LONGEST_REPLY:
            self._stop(f"wrote a reply of more than {LONGEST_REPLY:,} characters")
            return
        if kind is ReasoningDelta:
            self._line_begun = not text.endswith("\n")
        self._outputs.append(kind(text))

    def _taken(self) -> tuple[Output, ...]:
        outputs, self._outputs = tuple(self._outputs), []
        return outputs


# ------------------------------------------------------------------------------------------------- parts of events


def text_of(event: Mapping[str, Any], key: str) -> str:
    """A text that has to be there.

    Raises:
        WrongEventError: it is not, or is none.
    """
    value = event.get(key)
    if not isinstance(value, str):
        raise WrongEventError(f"wrote an event ({str(event.get('type'))[:40]!r}) in which {key!r} is no text")
    return value


def object_of(event: Mapping[str, Any], key: str) -> dict[str, Any]:
    """An object that has to be there.

    Raises:
        WrongEventError: it is not, or is none.
    """
    value = event.get(key)
    if not isinstance(value, dict):
        raise WrongEventError(f"wrote an event ({str(event.get('type'))[:40]!r}) in which {key!r} is no object")
    return value


def said(event: Mapping[str, Any], key: str) -> str:
    """A text that may be there; empty for anything else."""
    value = event.get(key)
    return value if isinstance(value, str) else ""


def part(event: Mapping[str, Any], key: str) -> dict[str, Any]:
    """An object that may be there; empty for anything else."""
    value = event.get(key)
    return value if isinstance(value, dict) else {}


def count(numbers: Mapping[str, Any], key: str) -> int:
    """A number of tokens; 0 where it is missing or can't be one."""
    value = numbers.get(key)
    return value if type(value) is int and 0 <= value <= LARGEST_COUNT else 0
