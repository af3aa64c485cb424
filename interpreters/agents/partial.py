"""A structured answer while it is being written: as much of its JSON as is there, closed where it stops."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from interpreters.observing.events import Event, TextDelta

NOTHING: Any = object()
"""No part of a value is there yet."""

TOKEN = re.compile(
    r"""[ \t\r\n]*(?:("(?:[^"\\]|\\.)*")|([{}\[\],:])|([^\s{}\[\],:"]+)(?=[\s,}\]])|("(?:[^"\\]|\\.)*)\\?\Z)""", re.S
)
"""A whole string, a sign, a number or word that has ended, or a string that the text stops in."""

HALF_ESCAPE = re.compile(r"\\u[0-9a-fA-F]{0,3}\Z|\\u[dD][89abAB][0-9a-fA-F]{2}(?:\\u?[0-9a-fA-F]{0,3})?\Z")


def partial_json(text: str) -> Any:
    """The part of a JSON value that is there: a string is cut where the text stops, and a number, a word or a key that
    may go on is left out. ``NOTHING`` if there is none yet, or it is no JSON.
    """
    open_: list[str] = []
    kept, closing = 0, ""
    place, key = 0, False
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
        kept, closing = place, "".join(reversed(open_))
    return _read(text[:kept] + closing) if kept else NOTHING


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return NOTHING


class PartialAnswer:
    """Follows the events of a turn, and tells what of its answer is there."""

    def __init__(self) -> None:
        self._reply: tuple[int, int] | None = None
        self._text = ""
        self._told: Any = NOTHING

    def take(self, event: Event) -> Iterator[Any]:
        """Take the next event; gives the partial value, if it has changed."""
        if not isinstance(event.value, TextDelta):
            return
        if self._reply != (event.step, event.attempt):  # another reply: a call came before it, or it is a correction
            self._reply, self._text, self._told = (event.step, event.attempt), "", NOTHING
        self._text += event.value.text
        value = partial_json(self._text)
        if value is not NOTHING and value != self._told:
            self._told = value
            yield value
