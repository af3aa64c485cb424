r"""Patterns of strings, as JSON Schema has them (ECMA 262), in the dialect of the engine (Rust's ``regex``).

A pattern of JSON Schema may match anywhere in the text and anchors itself; one of the engine always covers all of it.
``\d``, ``\w`` and ``\s`` mean ASCII, as in ECMA 262.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

ANYTHING = "(?s:.*)"

DATE = (
    "[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))"
).replace("[0-9]{4}", "(?:[1-9][0-9]{3})")
TIME = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,30}[A-Za-z0-9])?"
HEX = "[0-9a-fA-F]"

FORMATS: Mapping[str, str] = {
    "date": DATE,
    "time": TIME,
    "date-time": f"{DATE}T{TIME}",
    "duration": "P(?:[0-9]{1,6}W|(?:[0-9]{1,6}D(?:T[0-9]{1,6}H)?|[0-9]{1,6}Y)|T(?:[0-9]{1,6}[HMS]))",
    "email": f"[A-Za-z0-9_+-]{{1,32}}(?:\\.[A-Za-z0-9_+-]{{1,32}}){{0,3}}@{LABEL}(?:\\.{LABEL}){{1,4}}",
    "hostname": f"{LABEL}(?:\\.{LABEL}){{0,4}}",
    "ipv4": f"{OCTET}(?:\\.{OCTET}){{3}}",
    "ipv6": f"(?:{HEX}{{1,4}}:){{7}}{HEX}{{1,4}}|(?:{HEX}{{1,4}}:){{1,6}}:{HEX}{{1,4}}|::{HEX}{{1,4}}",
    "uuid": f"{HEX}{{8}}-{HEX}{{4}}-{HEX}{{4}}-{HEX}{{4}}-{HEX}{{12}}",
    "uri": f"[a-z][a-z0-9+-]{{1,15}}://{LABEL}(?:\\.{LABEL}){{0,4}}(?::[1-9][0-9]{{1,3}})?(?:/[A-Za-z0-9_.~-]{{0,40}}){{0,8}}",
}
"""Formats of strings with what is allowed for them: the usual forms, all valid by the format's own standard.

Dates leave out the 29th of February, which is not in every year.
"""

CLASSES = {"d": "0-9", "w": "A-Za-z0-9_", "s": " \\t\\n\\r\\f\\v"}
UNSUPPORTED_GROUP = re.compile(r"\(\?(?!:)")
UNSUPPORTED_ESCAPE = re.compile(r"[1-9bBkpPAZzG]")


class PatternError(ValueError):
    """Says what in a pattern can't be held to."""


def anchored(pattern: str) -> str:
    """A pattern of JSON Schema as one that covers the whole text.

    Raises:
        PatternError: lookarounds, back-references, anchors within the pattern and the like.
    """
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternError(f"it is no regular expression ({error})") from None
    except Exception as error:  # a TypeError for a pattern that is no text
        raise PatternError(f"it has to be a text ({error})") from None
    return "|".join(_whole(option) for option in _options(pattern))


def _options(pattern: str) -> list[str]:
    """What stands between the pattern's outermost ``|``."""
    options, start, depth = [], 0, 0
    for at, sign in _signs(pattern):
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if sign == "|" and not depth:
            options.append(pattern[start:at])
            start = at + 1
    return [*options, pattern[start:]]


def _whole(option: str) -> str:
    starts = option.startswith("^")
    ends = option.endswith("$") and not re.search(r"(?<!\\)(?:\\\\)*\\\$$", option)
    body = option[starts : len(option) - ends]
    return f"{'' if starts else ANYTHING}(?:{_translated(body)}){'' if ends else ANYTHING}"


def _signs(pattern: str) -> list[tuple[int, str]]:
    """The signs that mean something where they stand: not escaped, and outside of character classes."""
    found, inside, at = [], False, 0
    while at < len(pattern):
        sign = pattern[at]
        if sign == "\\":
            at += 1
        elif inside:
            inside = sign != "]" or pattern[at - 1] == "[" or pattern[at - 2 : at] == "[^"
        else:
            inside = sign == "["
            found.append((at, sign))
        at += 1
    return found


def _translated(body: str) -> str:
    for at, sign in _signs(body):
        if sign in "^$":
            raise PatternError(f"{sign!r} may only stand at its beginning and end")
        if UNSUPPORTED_GROUP.match(body, at) and sign == "(":
            raise PatternError(f"of groups, only (...) and (?:...), not {body[at : at + 4]!r}")
    made, inside, at = [], False, 0
    outside = {place for place, _ in _signs(body)}
    while at < len(body):
        sign = body[at]
        inside = at not in outside
        if sign == "\\":
            following = body[at + 1]
            if UNSUPPORTED_ESCAPE.match(following):
                raise PatternError(f"the escape '\\{following}' is not supported")
            if following in CLASSES:
                in_class = _in_class(body, at)
                made.append(CLASSES[following] if in_class else f"[{CLASSES[following]}]")
            elif following == "/":
                made.append("/")
            else:
                made.append(body[at : at + 2])
            at += 2
            continue
        made.append("\\[" if sign == "[" and inside else sign)
        at += 1
    return "".join(made)


def _in_class(body: str, place: int) -> bool:
    opened = False
    at = 0
    while at < place:
        sign = body[at]
        if sign == "\\":
            at += 1
        elif opened:
            opened = sign != "]"
        else:
            opened = sign == "["
        at += 1
    return opened


def literal(text: str) -> str:
    """A pattern that covers just this text."""
    return "".join(f"\\{sign}" if sign in r"\.+*?()|[]{}^$#&-~/" else sign for sign in text)
