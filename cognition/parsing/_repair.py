"""Repair of JSON that a model wrote almost right. Each change has a name; other defects are refused.

Only unambiguous changes are applied. They remove only a trailing comma and braces after the end, and never invent a
value. Backslashes are one question for the whole text: if one is invalid, its writer does not escape them. Then an
escaped letter elsewhere may be a line break or a part of a path, and the text is refused.
"""

from __future__ import annotations

import json
import re
from typing import Any

from attrs import frozen

from cognition.base.strict_json import DECODER

TRAILING_COMMA = "trailing comma"
SINGLE_QUOTES = "single quotes"
PYTHON_LITERAL = "Python literal"
UNESCAPED_CONTROL = "unescaped line break or control character"
INVALID_ESCAPE = "invalid escape"
MISSING_BRACE = "missing closing brace"
EXTRA_BRACE = "extra closing brace"

LITERALS = {"True": "true", "False": "false", "None": "null"}

TOKEN = re.compile(
    r"""(?P<blank>\s++)
    | (?P<double>"(?:[^"\\]|\\.)*+")
    | (?P<single>'(?:[^'\\]|\\.)*+')
    | (?P<mark>[{}\[\],:])
    | (?P<word>[^\s{}\[\],:"']++)""",
    re.VERBOSE | re.DOTALL,
)
INNER = re.compile(
    r"""\\(?P<unicode>u[0-9a-fA-F]{4})|\\(?P<escaped>.)|(?P<quote>")|(?P<control>[\x00-\x1f])""", re.DOTALL
)
ESCAPES = frozenset('"\\/bfnrt')
"""The characters that JSON allows behind a backslash, besides ``u`` and four digits."""
DOUBTFUL = ESCAPES - frozenset("bf")
"""Beside an invalid escape, these leave a doubt. No model means the control characters of ``\\b`` and ``\\f``."""
PYTHON_ESCAPES = frozenset("xUN01234567av\n'")
"""Escapes that only Python has. Between single quotes they leave a doubt."""
APOSTROPHE = re.compile(r"\w\\'\w")
CLOSERS = {"{": "}", "[": "]"}


@frozen
class RepairedValue:
    """A repaired value; ``repairs`` names the changes and is empty if the text was valid."""

    value: Any
    repairs: tuple[str, ...]


def repair_json(text: str, *, complete: bool = True) -> RepairedValue | None:
    """Return the value that this text was intended to be, or None.

    ``complete``: the text is known to have ended, so a brace missing at its end was forgotten. Otherwise the text may
    be truncated, and closing it would turn half a call into a call.
    """
    notes: dict[str, None] = {}
    try:
        rewritten = _rewrite(text, complete, notes)
        return None if rewritten is None else RepairedValue(DECODER.decode(rewritten), tuple(notes))
    except (ValueError, RecursionError):  # _DoubtfulEscapeError is a ValueError, too
        return None


class _DoubtfulEscapeError(ValueError):
    """A text has an invalid escape, and a valid one that may not have been meant as an escape."""


def _rewrite(text: str, complete: bool, notes: dict[str, None]) -> str | None:
    """Return the text as JSON, token by token, and note each kind of change; None if a token can't be read.

    Raises:
        _DoubtfulEscapeError: the backslashes leave a doubt.
    """
    unescaped = _has_invalid_escape(text)
    written: list[str] = []
    closers: list[str] = []
    comma: int | None = None  # where in ``written`` a comma stands that nothing but blanks has followed
    at = 0
    while at < len(text):
        if (token := TOKEN.match(text, at)) is None:  # a string that is never closed
            return None
        at = token.end()
        kind, piece = token.lastgroup, token.group()
        if kind == "blank":
            written.append(" ")
            continue
        if piece in ("}", "]"):
            if comma is not None:
                written[comma] = ""
                notes[TRAILING_COMMA] = None
            if not closers and piece == "}" and written:
                notes[EXTRA_BRACE] = None
                return "".join(written) if not text[at:].strip(" \t\r\n}") else None
            if not closers or closers.pop() != piece:
                return None
        elif piece in CLOSERS:
            closers.append(CLOSERS[piece])
        comma = len(written) if piece == "," else None
        if kind == "word" and piece in LITERALS:
            piece = LITERALS[piece]
            notes[PYTHON_LITERAL] = None
        elif kind in ("double", "single"):
            piece = _string(piece, notes, unescaped)
        written.append(piece)
    if closers:
        if not complete or set(closers) != {"}"} or comma is not None:
            return None
        notes[MISSING_BRACE] = None
        written += reversed(closers)
    return "".join(written)


def _has_invalid_escape(text: str) -> bool:
    """Return whether a string has a backslash that JSON does not allow, as regular expressions have.

    The model that wrote it does not escape backslashes.
    """
    at = 0
    while "\\" in text and (token := TOKEN.match(text, at)) is not None:
        at = token.end()
        if token.lastgroup in ("double", "single") and any(map(_is_invalid, INNER.finditer(token.group(), 1))):
            return True
    return False


def _is_invalid(found: re.Match[str]) -> bool:
    return found["escaped"] is not None and found["escaped"] not in ESCAPES | {"'"}


def _string(literal: str, notes: dict[str, None], unescaped: bool) -> str:
    """Return a string as JSON. ``unescaped``: the text has an invalid escape, so each backslash is meant literally.

    Raises:
        _DoubtfulEscapeError: a backslash may also be meant as an escape, as before a line break or a quotation mark.
    """
    quote, body = literal[0], literal[1:-1]
    if quote == "'":
        notes[SINGLE_QUOTES] = None

    def rewrite(match: re.Match[str]) -> str:
        escaped, control = match["escaped"], match["control"]
        if match["quote"]:  # only between single quotes: a double quote would have ended the other kind
            return '\\"'
        if control:
            notes[UNESCAPED_CONTROL] = None
            return json.dumps(control)[1:-1]
        if unescaped and (match["unicode"] or escaped in DOUBTFUL or (quote == "'" and escaped in PYTHON_ESCAPES)):
            raise _DoubtfulEscapeError
        if match["unicode"] or (escaped in ESCAPES and not unescaped):
            return match.group()
        if escaped == "'" and quote == "'":
            return "'"
        notes[INVALID_ESCAPE] = None
        if escaped == "'":  # as in it\'s; but a shell's '\'' means its backslash
            if not APOSTROPHE.fullmatch(body[match.start() - 1 : match.end() + 1]):
                raise _DoubtfulEscapeError
            return "'"
        return "\\\\" + (json.dumps(escaped)[1:-1] if escaped < " " else escaped)

    return '"' + INNER.sub(rewrite, body) + '"'
