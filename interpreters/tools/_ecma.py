"""Match JSON Schema patterns (ECMA 262) with a time limit.

The standard library's ``re`` backtracks without end on patterns such as ``(a|aa)+$``, and the texts come from a model.
The ``regex`` package has a time limit; on a timeout the text counts as no match. ``runtime.constrained.ecma`` parses
the patterns, for sampling and for this check alike. A pattern outside of ECMA 262, such as ``(?i)a``, is matched as the
package reads it, and sampling does not enforce it.
"""

from __future__ import annotations

import math
import re
from typing import Any

from runtime.constrained.ecma import (
    Alternative,
    Assertion,
    BackReference,
    CharacterSet,
    Disjunction,
    EcmaError,
    Group,
    Lookaround,
    Piece,
    Repetition,
    read_pattern,
    write_class,
)

LONGEST = 2000
"""Characters of a pattern. Compile time grows faster than the length."""

LONGEST_TEXT = 200_000
"""Characters of a matched text. The longer the text, the less often the package checks its time limit: with ten times
as many characters, a search ran ten seconds over it.
"""

LONGEST_WRITTEN = 200_000
"""Characters of the compiled pattern, with Unicode classes expanded."""

MOST_REPEATS = 20_000
"""Pieces of a pattern, with all counted repetitions of groups expanded, as compiling does."""

WORD = "[0-9A-Za-z_]"
EDGES = {
    "^": "\\A",
    "$": "\\Z",
    "b": f"(?:(?<={WORD})(?!{WORD})|(?<!{WORD})(?={WORD}))",
    "B": f"(?:(?<={WORD})(?={WORD})|(?<!{WORD})(?!{WORD}))",
}


class UnreadablePatternError(ValueError):
    """A pattern can't be matched; the message gives the reason."""


class Pattern:
    """One compiled pattern.

    Raises:
        UnreadablePatternError: it is not a regular expression, or takes too long to compile.
    """

    def __init__(self, pattern: str) -> None:
        import regex

        if len(pattern) > LONGEST:
            raise UnreadablePatternError(f"it has {len(pattern)} characters, of at most {LONGEST}")
        tree, size = _read(pattern)
        if size > MOST_REPEATS:
            raise UnreadablePatternError(f"repetitions within each other make more than {MOST_REPEATS}")
        translated = pattern if tree is None else _translate(tree)
        if len(translated) > LONGEST_WRITTEN:
            raise UnreadablePatternError("its classes are too many")
        try:
            self._compiled: Any = regex.compile(translated)
        except (regex.error, RecursionError, OverflowError, ValueError, IndexError) as error:
            raise UnreadablePatternError(f"it is no regular expression ({error})") from None

    def matches(self, text: str, seconds: float) -> bool:
        """Return whether the pattern matches anywhere in a text.

        Raises:
            TimeoutError: the search took longer than ``seconds``, or the text is too long.
        """
        if len(text) > LONGEST_TEXT:
            raise TimeoutError
        return self._compiled.search(text, timeout=seconds, concurrent=True) is not None


def _read(pattern: str) -> tuple[Disjunction | None, int]:
    """Return the tree of a pattern (None if it is not ECMA 262), and the number of its expanded pieces."""
    try:
        tree = read_pattern(pattern)
    except EcmaError:
        counts = re.findall("[{,]([0-9]+)", pattern)
        return None, math.prod(max(int(digits[:9]), 1) for digits in counts)
    return tree, _size(tree)


def _translate(piece: Piece) -> str:
    match piece:
        case CharacterSet():
            return write_class(piece)
        case Alternative(items=items):
            return "".join(map(_translate, items))
        case Disjunction(options=options):
            return "|".join(map(_translate, options))
        case Group(body=body, captures=captures):
            return f"({'' if captures else '?:'}{_translate(body)})"
        case Lookaround(sign=sign, body=body):
            return f"(?{sign}{_translate(body)})"
        case Repetition(body=body, fewest=fewest, most=most, lazy=lazy):
            return f"(?:{_translate(body)}){{{fewest},{'' if most is None else most}}}{'?' if lazy else ''}"
        case Assertion(kind=kind):
            return EDGES[kind]
        case BackReference(group=group):  # what a group has not taken is empty
            return f"(?({group})\\{group})"


def _size(piece: Piece) -> int:
    match piece:
        case Alternative(items=items):
            return sum(map(_size, items))
        case Disjunction(options=options):
            return sum(map(_size, options))
        case Group(body=body) | Lookaround(body=body):
            return _size(body)
        case Repetition(body=CharacterSet()):
            return 1
        case Repetition(body=body, fewest=fewest, most=most):
            return _size(body) * max(fewest, most or 0, 1)
        case _:
            return 1
