"""Builds the text of a grammar, in llguidance's dialect of Lark."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from runtime.constrained._patterns import literal

MOST_ORDERS = 1024
"""The most rules for the orders of members in one grammar. The engine takes about 0.1 ms to compile each."""


class Rules:
    """Named rules without duplicates. Special tokens are referenced by their numbers, all other text by its bytes.

    Args:
        special: the texts of all tokens that the engine treats as special, with their numbers.
    """

    def __init__(self, special: Mapping[str, int]) -> None:
        self._special = special
        texts = sorted(special, key=len, reverse=True)
        self._pattern = re.compile(f"({'|'.join(map(re.escape, texts))})") if texts else None
        self._names: dict[str, str] = {}
        self._bodies: dict[str, str] = {}
        self._orders = 0

    def afford_orders(self, count: int) -> bool:
        """Return whether this many more rules for orders of members are within the limit, and count them if so."""
        if self._orders + count > MOST_ORDERS:
            return False
        self._orders += count
        return True

    def rule(self, body: str) -> str:
        return self._add("r", body)

    def terminal(self, body: str) -> str:
        """Return the name of a terminal: one regular expression, or several joined by ``&``, ``|`` and ``~``."""
        return self._add("T", body)

    def reserve(self) -> str:
        """Reserve a name for a rule whose body comes later, since it may refer to itself."""
        name = f"d{len(self._bodies)}"
        self._bodies[name] = ""
        return name

    def define(self, name: str, body: str) -> None:
        self._bodies[name] = body

    def marker(self, text: str) -> str:
        """Return a text of the format with its special tokens; empty for an empty text."""
        parts = self._pattern.split(text) if self._pattern is not None else [text]
        return " ".join(
            f"<[{self._special[part]}]>" if part in self._special else quote_text(part) for part in parts if part
        )

    def until(self, body: str, end: str) -> str:
        """Return the rule for text up to a marker, and the marker; ``body`` is a terminal's.

        The engine matches the longest text for a terminal. So a marker in ordinary text must be part of the terminal,
        and the text before must not contain it: then no longer match exists. The text must not spell out a special
        token either: the parser reads texts, and would treat it as the end.
        """
        spelled = self._pattern.split(end)[0] if self._pattern is not None else end
        if not spelled:
            return f"{self.terminal(f'({body}){without((end,))}')} {self.marker(end)}".strip()
        whole = self.terminal(f"({body}{without((spelled,))}) {quote_text(spelled)}")
        return f"{whole} {self.marker(end[len(spelled) :])}".strip()

    def begins_special(self, text: str) -> bool:
        """Return whether this text begins with a special token, which ordinary text can't contain."""
        return any(text.startswith(special) for special in self._special)

    def text(self, start: str) -> str:
        lines = [f"{name}: {body}" for name, body in self._bodies.items()]
        return "\n".join([f"start: {start}", *lines]) + "\n"

    def _add(self, prefix: str, body: str) -> str:
        key = f"{prefix} {body}"
        if key not in self._names:
            name = f"{prefix}{len(self._bodies)}"
            self._names[key] = name
            self._bodies[name] = body
        return self._names[key]


def quote_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")  # which the engine would not read


def regex(pattern: str) -> str:
    return "/" + re.sub(r"(?<!\\)((?:\\\\)*)/", r"\1\\/", pattern).replace("\n", "\\n") + "/"


def without(texts: tuple[str, ...]) -> str:
    """Return the suffix of a terminal that excludes these texts."""
    listed = "|".join(literal(text) for text in texts if text)
    return f" & ~{regex(f'(?s:.*)(?:{listed})(?s:.*)')}" if listed else ""
