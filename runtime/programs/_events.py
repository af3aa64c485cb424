"""The common base of both readers: from lines to events, joining of half characters, the state of a reply. Pure.

A program writes one JSON object a line. A reader accepts bytes split anywhere; its outputs do not depend on the splits.
Invalid output ends the reading (``wrong``), since the line may have been the essential one:

- a line that starts like an object but is not one, or is too long;
- an event whose essential part has an undocumented type;
- a sign that the program does something that is not allowed.

Unknown events and fields are ignored, since both programs keep adding them. So are lines that are not objects, which
some versions print for people.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from cognition import Failure, FinishReason, Usage
from cognition.parsing import Output, ReasoningDelta, TextDelta
from runtime.children.line_pipe import LARGEST_COUNT, WIDE, LineSplitter, ProtocolError, decode_line

LONGEST_LINE = 1 << 24
"""Maximum bytes of a line, 16 MiB: an event contains the full result of one of the program's tools."""
LONGEST_REPLY = 1 << 24
"""Maximum characters of a reply, including reasoning."""
KEPT_NOISE = 400
"""Maximum characters of lines that are not events."""
SHOWN_ARGUMENTS = 200
"""Maximum characters of the arguments of one of the program's tools."""
TRAILING_HALF = re.compile("[\ud800-\udbff]\\Z")


Item = TypeVar("Item")


class WrongEventError(Exception):
    """An event is invalid; the text is the end of a sentence."""


class SurrogateJoiner:
    """Joins surrogate halves that events split; replaces an unmatched half."""

    def __init__(self) -> None:
        self._half = ""

    def feed(self, text: str) -> str:
        """Return the complete characters so far."""
        text, self._half = self._half + text, ""
        if found := TRAILING_HALF.search(text):
            text, self._half = text[: found.start()], found[0]
        return join_surrogates(text)

    def finish(self) -> str:
        """Return the rest at the end."""
        rest, self._half = self._half, ""
        return join_surrogates(rest)


def join_surrogates(text: str) -> str:
    """Return the text with adjacent surrogate halves joined, and others replaced."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class EventReader(ABC):
    """Reads the stdout of one process of a program.

    Args:
        program: its name, for messages.
        structured: whether the reply is JSON of a schema; then only the last text counts.
    """

    def __init__(self, program: str, *, structured: bool = False, longest_line: int = LONGEST_LINE) -> None:
        self.program = program
        self.structured = structured
        self.session = ""
        """The id of the program's session, once reported."""
        self.usage = Usage()
        self.before = self.total = Usage()
        """The session's usage before and after this reply, if the program counts per session."""
        self.ended = False
        """Whether the program has reported the end of its reply."""
        self.reason: FinishReason = "stop"
        """``length`` ends the reply: later output does not count."""
        self.failure: Failure | None = None
        """The error that the program reported. It counts at the end of the output."""
        self.limit_over: float | None = None
        """The end of a rate limit, in seconds since 1970, if the program reports it."""
        self.wrong: Failure | None = None
        """Why reading stopped and the process must be ended."""
        self.warnings: list[str] = []
        self.noise = ""
        """The beginning of its output other than events."""
        self._lines = LineSplitter(longest_line)
        self._text, self._reasoning = SurrogateJoiner(), SurrogateJoiner()
        self._length = 0
        self._line_begun = False
        self._outputs: list[Output] = []

    # --------------------------------------------------------------------------------------------------- reading

    def feed(self, data: bytes) -> tuple[Output, ...]:
        """Read the next bytes."""
        if self.wrong is None:
            self._read(self._lines.feed(data))
        return self._take_outputs()

    def finish(self) -> tuple[Output, ...]:
        """Read an unterminated last line, and return the buffered text."""
        if self.wrong is None and (rest := self._lines.rest()).strip():
            self._read(iter((rest,)))
        self._finish()
        self._emit(TextDelta, self._text.finish())
        self._emit(ReasoningDelta, self._reasoning.finish())
        return self._take_outputs()

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
            event = decode_line(line, WIDE)
        except (ValueError, RecursionError) as error:
            raise WrongEventError(f"wrote a line that can't be read ({error}): {line[:80]!r}") from error
        self._event(event)

    def _stop(self, what: str) -> None:
        self.wrong = self.wrong or Failure(f"{self.program} {what}", kind="bad_output")

    def refuse(self, why: str) -> None:
        """Stop reading because the program does something forbidden."""
        self.wrong = self.wrong or Failure(f"{self.program} {why}", kind="fatal", code="not_allowed")

    @abstractmethod
    def _event(self, event: dict[str, Any]) -> None:
        """Read one event; raises WrongEventError."""

    def _finish(self) -> None:  # noqa: B027 - a reader that holds nothing back has nothing to do
        """Flush texts that a subclass has buffered."""

    # -------------------------------------------------------------------------------------------------- telling

    def text(self, text: str) -> None:
        """Add text to the reply."""
        self._emit(TextDelta, self._text.feed(text))

    def reasoning(self, text: str) -> None:
        """Add reasoning."""
        self._emit(ReasoningDelta, self._reasoning.feed(text))

    def note(self, text: str) -> None:
        """Report an action of the program, as a line within the reasoning."""
        before = "\n" if self._line_begun else ""
        self._emit(ReasoningDelta, f"{before}{self._reasoning.finish()}{join_surrogates(text)}\n")

    def report_tool_use(self, tool: str, arguments: Any) -> None:
        """Report a call of one of the program's own tools."""
        told = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        told = " ".join(told.split())
        self.note(f"[{tool} {told[:SHOWN_ARGUMENTS]}{' ...' if len(told) > SHOWN_ARGUMENTS else ''}]")

    def warn(self, sentence: str) -> None:
        """Add a warning for the user, once."""
        if sentence not in self.warnings:
            self.warnings.append(sentence)

    def _emit(self, kind: type[TextDelta] | type[ReasoningDelta], text: str) -> None:
        if not text:
            return
        self._length += len(text)
        if self._length > LONGEST_REPLY:
            self._stop(f"wrote a reply of more than {LONGEST_REPLY:,} characters")
            return
        if kind is ReasoningDelta:
            self._line_begun = not text.endswith("\n")
        self._outputs.append(kind(text))

    def _take_outputs(self) -> tuple[Output, ...]:
        outputs, self._outputs = tuple(self._outputs), []
        return outputs


# ------------------------------------------------------------------------------------------------- parts of events


def text_of(event: Mapping[str, Any], key: str) -> str:
    """Return a required text.

    Raises:
        WrongEventError: it is missing, or not a text.
    """
    value = event.get(key)
    if not isinstance(value, str):
        raise WrongEventError(f"wrote an event ({str(event.get('type'))[:40]!r}) in which {key!r} is no text")
    return value


def object_of(event: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return a required object.

    Raises:
        WrongEventError: it is missing, or not an object.
    """
    value = event.get(key)
    if not isinstance(value, dict):
        raise WrongEventError(f"wrote an event ({str(event.get('type'))[:40]!r}) in which {key!r} is no object")
    return value


def optional_text(event: Mapping[str, Any], key: str) -> str:
    """Return an optional text; empty for anything else."""
    value = event.get(key)
    return value if isinstance(value, str) else ""


def part(event: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return an optional object; empty for anything else."""
    value = event.get(key)
    return value if isinstance(value, dict) else {}


def items(event: Mapping[str, Any], key: str, kind: type[Item]) -> list[Item]:
    """Return the items of one type in an optional list; none for anything else."""
    value = event.get(key)
    return [item for item in value if isinstance(item, kind)] if isinstance(value, list) else []


def count(numbers: Mapping[str, Any], key: str) -> int:
    """Return a number of tokens; 0 if missing or invalid."""
    value = numbers.get(key)
    return value if type(value) is int and 0 <= value <= LARGEST_COUNT else 0
