r"""Patterns of JSON Schema, which are ECMA 262's, matched with a time limit.

The standard library's ``re`` backtracks without end on patterns such as ``(a|aa)+$``, and the arguments come from a
model. So the ``regex`` package matches, which takes a time limit; a text that it can't decide on in time does not fit.
``\d``, ``\w`` and ``\s`` mean ASCII and ``$`` the very end, as ECMA 262 has them.
"""

from __future__ import annotations

import re
from typing import Any

LONGEST = 2000
"""Characters of a pattern; compiling one takes longer than in proportion."""

MOST_REPEATS = 20_000
"""Counted repetitions within each other, multiplied: compiling writes them out."""

INSIDE = {"d": "0-9", "w": "A-Za-z0-9_"}
OUTSIDE = {"d": "[0-9]", "w": "[A-Za-z0-9_]", "D": "[^0-9]", "W": "[^A-Za-z0-9_]", "/": "/", "-": "\\-"}
KNOWN = frozenset("bBdDfnrsStvwWpP0123456789xu")
"""Letters and digits that mean something behind a backslash; any other stands for itself."""
COUNTED = re.compile(r"\{([0-9]*),?([0-9]*)\}")


class UnreadablePatternError(ValueError):
    """Says why a pattern can't be matched."""


class Pattern:
    """One pattern.

    Raises:
        UnreadablePatternError: it is no regular expression, or one that takes too long to compile.
    """

    def __init__(self, pattern: str) -> None:
        import regex

        if len(pattern) > LONGEST:
            raise UnreadablePatternError(f"it has {len(pattern)} characters, of at most {LONGEST}")
        if _repeats(pattern) > MOST_REPEATS:
            raise UnreadablePatternError(f"repetitions within each other make more than {MOST_REPEATS}")
        try:
            self._compiled: Any = regex.compile(_translated(pattern))
        except (regex.error, RecursionError, OverflowError, ValueError, IndexError) as error:
            raise UnreadablePatternError(f"it is no regular expression ({error})") from None

    def found_in(self, text: str, seconds: float) -> bool:
        """Whether it matches anywhere in a text.

        Raises:
            TimeoutError: that could not be told in time.
        """
        return self._compiled.search(text, timeout=seconds, concurrent=True) is not None


def _translated(pattern: str) -> str:
    made: list[str] = []
    at, inside = 0, False
    while at < len(pattern):
        sign = pattern[at]
        if sign == "\\" and at + 1 < len(pattern):
            text, at = _escape(pattern, at + 1, inside)
            made.append(text)
            continue
        if inside:
            inside = sign != "]"
            made.append("\\[" if sign == "[" else sign)
        elif pattern.startswith(("[]", "[^]"), at):  # nothing, and everything
            made.append("(?!)" if pattern[at + 1] == "]" else "[\\s\\S]")
            at += 1 if pattern[at + 1] == "]" else 2
        else:
            inside = sign == "["
            made.append("\\Z" if sign == "$" else sign)
        at += 1
    return "".join(made)


def _escape(pattern: str, at: int, inside: bool) -> tuple[str, int]:
    """What stands for an escape, and the place behind it."""
    sign = pattern[at]
    if sign == "c" and pattern[at + 1 : at + 2].isalpha():
        return re.escape(chr(ord(pattern[at + 1].upper()) - 64)), at + 2
    if sign == "u" and (code := re.compile(r"\{([0-9a-fA-F]{1,6})\}").match(pattern, at + 1)) is not None:
        return re.escape(chr(int(code[1], 16))), code.end()
    if sign == "k" and (named := re.compile(r"<(\w+)>").match(pattern, at + 1)) is not None and not inside:
        return f"(?P={named[1]})", named.end()
    found = (INSIDE if inside else OUTSIDE).get(sign)
    if found is None and sign.isalnum() and sign not in KNOWN:
        found = sign
    return (f"\\{sign}" if found is None else found), at + 1


def _repeats(pattern: str) -> int:
    """The largest product of counted repetitions within each other."""
    worst, levels, at = 1, [1], 0
    last = 1  # what the piece before this place comes to
    while at < len(pattern):
        sign = pattern[at]
        if sign == "\\":
            last, at = 1, at + 2
            continue
        if sign == "(":
            levels.append(1)
        elif sign == ")" and len(levels) > 1:
            last = levels.pop()
            levels[-1] = max(levels[-1], last)
        elif sign == "{" and (count := COUNTED.match(pattern, at)) is not None:
            times = max(int(number[:9]) for number in (count[1] or "1", count[2] or "1"))
            levels[-1] = max(levels[-1], last * max(times, 1))
            at = count.end()
            continue
        else:
            last = 1
        worst = max(worst, *levels)
        at += 1
    return max(worst, *levels)
