"""Partial values of a structured answer while the model writes it: the JSON so far, closed at its end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from cognition.base.strict_json import LENIENT
from interpreters.observing.events import Event, ReasoningDelta, TextDelta, ToolProgress, WarningRaised

NOTHING: Any = object()
"""No part of a value has arrived yet."""

TOKEN = re.compile(
    r"""[ \t\r\n]*(?:("[^"\\]*+(?:\\.[^"\\]*+)*+")|([{}\[\],:])|([^\s{}\[\],:"]+)(?=[\s,}\]])"""
    r"""|("[^"\\]*+(?:\\.[^"\\]*+)*+)\\?\Z)""",
    re.S,
)
"""A complete string, a punctuation sign, a complete number or word, or a string cut by the end of the text."""

HALF_ESCAPE = re.compile(r"\\u[0-9a-fA-F]{0,3}\Z|\\u[dD][89abAB][0-9a-fA-F]{2}(?:\\u?[0-9a-fA-F]{0,3})?\Z")


def partial_json(text: str) -> Any:
    """Return the value of the JSON text so far, or ``NOTHING`` if no value has begun or the text is not JSON.

    A string is cut at the end of the text. A number, word or key that may continue is omitted.
    """
    open_: list[str] = []
    kept, place, key = 0, 0, False
    while (found := TOKEN.match(text, place)) is not None:
        string, sign, word, cut = found.groups()
        place = found.end()
        if cut is not None:
            if not (open_ and open_[-1] == "}" and key):
                return _read(text[: found.start(4)] + HALF_ESCAPE.sub("", cut) + '"' + "".join(reversed(open_)))
            break
        if sign in ("{", "["):
            open_.append("}" if sign == "{" else "]")
            key = sign == "{"
        elif sign in ("}", "]"):
            if not open_ or open_.pop() != sign:
                return NOTHING
            key = False
        elif sign == ",":
            key = bool(open_) and open_[-1] == "}"
            continue
        elif sign == ":":
            key = False
            continue
        elif key and (string or word):
            continue  # a key, whose value is not there yet
        kept = place
    return _read(text[:kept] + "".join(reversed(open_))) if kept else NOTHING  # what opens or closes is always kept


def _read(text: str) -> Any:
    try:
        return LENIENT.decode(text)
    except (ValueError, RecursionError):
        return NOTHING


SHORT = 2048
"""Up to this number of characters, an answer is parsed after each piece."""
SHARE = 32
"""A longer answer is parsed again when it has grown by 1/32. So the total work is linear in its length, not quadratic.
"""

BETWEEN = (ReasoningDelta, ToolProgress, WarningRaised)
"""Events that may arrive between two pieces of a text."""


class PartialAnswer:
    """Follows the events of a turn and yields the partial values of its answer."""

    def __init__(self) -> None:
        self._session: str | None = None
        self._reply: tuple[int, int] | None = None
        self._pieces: list[str] = []
        self._length, self._read = 0, 0
        """Characters of the reply, and of its part parsed so far."""
        self._told: Any = NOTHING

    def take(self, event: Event) -> Iterator[Any]:
        """Take the next event and yield the partial value if it has changed. At the reply's end it is the complete
        value.
        """
        if self._session is None:
            self._session = event.session  # the first event is never a worker's
        if event.session != self._session or isinstance(event.value, BETWEEN):
            return
        if not isinstance(event.value, TextDelta):
            yield from self._read_growth()
            return
        if self._reply != (event.step, event.attempt):  # another reply: a call came before it, or it is a correction
            self._reply = event.step, event.attempt
            self._pieces, self._length, self._read, self._told = [], 0, 0, NOTHING
        self._pieces.append(event.value.text)
        self._length += len(event.value.text)
        if self._length <= SHORT or self._length - self._read >= self._length / SHARE:
            yield from self._read_growth()

    def _read_growth(self) -> Iterator[Any]:
        if self._read == self._length:
            return
        text = "".join(self._pieces)
        self._pieces, self._read = [text], self._length
        value = partial_json(text)
        if value is not NOTHING and value != self._told:
            self._told = value
            yield value
