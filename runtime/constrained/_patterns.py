"""Translates JSON Schema's string patterns (ECMA 262) to the engine's dialect (Rust's ``regex``).

A JSON Schema pattern may match anywhere in the text, and has its own anchors. An engine's pattern must match all of it.
Ranges of numbers are patterns too: a decimal with k digits after its point is an integer with a point k digits from its
end. So ranges of decimals are ranges of integers for each k. A number has at most 15 digits, so that no two of them are
equal as floating point, and rounding moves none out of its range.

Whether the engine can enforce a pattern is checked by compiling it when a tool is offered, not at a call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import Any, Literal

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
from runtime.constrained.nodes import Number, Text

ANYTHING = "(?s:.*)"

YEAR = "(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
BY_FOUR = "(?:0[48]|[2468][048]|[13579][26])"
LEAP_YEAR = f"(?:[0-9]{{2}}{BY_FOUR}|{BY_FOUR}00)"
DATE = (
    f"(?:{YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    f"|02-(?:0[1-9]|1[0-9]|2[0-8]))|{LEAP_YEAR}-02-29)"
)
CLOCK = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?"
OFFSET = "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,30}[A-Za-z0-9])?"
HEX = "[0-9a-fA-F]"

FORMATS: Mapping[str, str] = {
    "date": DATE,
    "time": f"{CLOCK}{OFFSET}?",
    "date-time": f"{DATE}T{CLOCK}{OFFSET}",
    "duration": "P(?:[0-9]{1,6}W|(?:[0-9]{1,6}D(?:T[0-9]{1,6}H)?|[0-9]{1,6}Y)|T(?:[0-9]{1,6}[HMS]))",
    "email": f"[A-Za-z0-9_+-]{{1,32}}(?:\\.[A-Za-z0-9_+-]{{1,32}}){{0,3}}@{LABEL}(?:\\.{LABEL}){{1,4}}",
    "hostname": f"{LABEL}(?:\\.{LABEL}){{0,4}}",
    "ipv4": f"{OCTET}(?:\\.{OCTET}){{3}}",
    "ipv6": f"(?:{HEX}{{1,4}}:){{7}}{HEX}{{1,4}}|(?:{HEX}{{1,4}}:){{1,6}}:{HEX}{{1,4}}|::{HEX}{{1,4}}",
    "uuid": f"{HEX}{{8}}-{HEX}{{4}}-{HEX}{{4}}-{HEX}{{4}}-{HEX}{{12}}",
    "uri": f"[a-z][a-z0-9+-]{{1,15}}://{LABEL}(?:\\.{LABEL}){{0,4}}(?::[1-9][0-9]{{1,3}})?(?:/[A-Za-z0-9_.~-]{{0,40}}){{0,8}}",
}
"""String formats with the patterns sampled for them: the usual forms, all valid by the format's standard. Exception: a
time of day may lack an offset.
"""

MOST_ROWS = 64
"""The most alternatives that a pattern may be split into because of its anchors."""

LARGEST_COUNT = 1_000_000
"""The largest count of a repetition; the engine's counters have 32 bits."""


class PatternError(ValueError):
    """Names the part of a pattern that sampling can't enforce."""


@lru_cache(1024)
def anchor_pattern(pattern: str) -> str:
    """Return a JSON Schema pattern as an engine pattern that matches the whole text.

    Raises:
        PatternError: lookarounds, back-references, anchors within the pattern and the like.
    """
    try:
        tree = read_pattern(pattern)
    except (EcmaError, TypeError) as error:
        raise PatternError(f"it is no regular expression of ECMA 262 ({error})") from None
    return "|".join(map(_whole, _rows(tree)))


def _rows(options: Disjunction) -> list[tuple[Piece, ...]]:
    """Return the alternatives of a pattern. Groups with anchors at either end are expanded."""
    rows: list[tuple[Piece, ...]] = []
    waiting = [row.items for row in reversed(options.options)]
    while waiting:
        items = waiting.pop()
        first, last = items[:1], items[-1:]
        if first and isinstance(first[0], Group) and _has_edge(first[0]):
            waiting += [(*row.items, *items[1:]) for row in reversed(first[0].body.options)]
        elif last and isinstance(last[0], Group) and _has_edge(last[0]):
            waiting += [(*items[:-1], *row.items) for row in reversed(last[0].body.options)]
        else:
            rows.append(items)
        if len(rows) + len(waiting) > MOST_ROWS:
            raise PatternError(f"its anchors stand in more than {MOST_ROWS} alternatives")
    return rows


def _has_edge(piece: Piece) -> bool:
    match piece:
        case Assertion(kind=kind):
            return kind in ("^", "$")
        case Group(body=Disjunction(options=options)):
            return any(_has_edge(item) for row in options for item in row.items)
        case _:
            return False


def _whole(items: tuple[Piece, ...]) -> str:
    start, end = 0, len(items)
    while start < end and items[start] == Assertion("^"):
        start += 1
    while end > start and items[end - 1] == Assertion("$"):
        end -= 1
    body = "".join(map(_translate, items[start:end]))
    return f"{'' if start else ANYTHING}(?:{body}){ANYTHING if end == len(items) else ''}"


def _translate(piece: Piece) -> str:
    match piece:
        case CharacterSet(properties=()):
            return write_class(piece, surrogates=False)
        case CharacterSet():
            raise PatternError(f"the property {piece.properties[0]} is not supported")
        case Alternative(items=items):
            return "".join(map(_translate, items))
        case Disjunction(options=options):
            return f"(?:{'|'.join(map(_translate, options))})"
        case Group(body=body):
            return _translate(body)
        case Repetition(body=body, fewest=fewest, most=most):
            if max(fewest, most or 0) > LARGEST_COUNT:
                raise PatternError(f"repetitions of up to {LARGEST_COUNT} are held to")
            return f"(?:{_translate(body)}){{{fewest},{'' if most is None else most}}}"
        case Assertion(kind="^" | "$" as kind):
            raise PatternError(f"{kind!r} may only stand at its beginning and end")
        case Assertion(kind=kind):
            raise PatternError(f"the escape '\\{kind}' is not supported")
        case BackReference(group=group):
            raise PatternError(f"the escape '\\{group}' is not supported")
        case Lookaround(sign=sign):
            raise PatternError(f"of groups, only (...) and (?:...), not '(?{sign}'")


def literal(text: str) -> str:
    return "".join(f"\\{sign}" if sign in r"\.+*?()|[]{}^$#&-~/" else sign for sign in text)


# ---------------------------------------------------------------------------------------------------------- numbers

INTEGER = "-?(?:0|[1-9][0-9]{0,17})"
DECIMAL = INTEGER + "(?:\\.[0-9]{1,15})?(?:[eE][+-]?[0-9]{1,2})?"
LARGEST = 10**18 - 1
DIGITS = 15
AFTER_POINT = 6
"""The most digits after the point of a number with bounds."""


def pattern_of(number: Number) -> str:
    """Return a pattern for all ways to write a number within its bounds. Ignores the step."""
    if number.low is None and number.high is None:
        return INTEGER if number.whole else DECIMAL
    low, high = _scale_bounds(number, 0)
    parts = _signed_patterns(low, high, 0)
    if not number.whole:
        room = max(len(str(abs(edge))) for edge in (low, high, 1))
        if number.low is None or number.high is None:
            room = max(len(str(abs(edge))) for edge in (low, high, 1) if abs(edge) != LARGEST)
        for places in range(1, max(1, min(AFTER_POINT, DIGITS - room)) + 1):
            parts += _signed_patterns(*_scale_bounds(number, places), places)
    return "|".join(parts)


def integer_range(number: Number) -> bool:
    """Return whether any multiple of its step is within the bounds of a number."""
    low, high = _scale_bounds(number, 0)
    return low <= high and -(-low // number.step) * number.step <= high


def _scale_bounds(number: Number, places: int) -> tuple[int, int]:
    """Return the bounds as whole numbers of units of 10 ** -``places``."""
    with localcontext() as context:
        context.prec = 60
        unit = Decimal(1).scaleb(places)
        limit = LARGEST if places == 0 else 10**DIGITS - 1
        low, high = -limit, limit
        if number.low is not None:
            edge = Decimal(number.low) * unit
            low = int(edge.to_integral_value(ROUND_CEILING))
            low += number.above and low == edge
        if number.high is not None:
            edge = Decimal(number.high) * unit
            high = int(edge.to_integral_value(ROUND_FLOOR))
            high -= number.below and high == edge
    return low, high


def _signed_patterns(low: int, high: int, places: int) -> list[str]:
    parts = []
    if low < 0:
        parts += [f"-(?:{part})" for part in _upwards(max(1, -high), -low, places)]
    if high >= 0:
        parts += _upwards(max(low, 0), high, places)
    return parts


def _upwards(low: int, high: int, places: int) -> list[str]:
    """Return patterns for the unsigned integers of a range, one for each length; empty for an empty range."""
    parts = []
    for width in range(places + 1, max(places + 1, len(str(high))) + 1):
        first = max(low, 10 ** (width - 1) if width > places + 1 else 0)
        last = min(high, 10**width - 1)
        if first <= last:
            parts.append(_digits(f"{first:0{width}d}", f"{last:0{width}d}", places))
    return parts


def _digits(first: str, last: str, places: int) -> str:
    """Return a pattern for the numbers between two of equal length, with a point before the last ``places`` digits."""
    if not first:
        return ""
    point = "\\." if places and len(first) == places else ""
    if set(first) == {"0"} and set(last) == {"9"}:
        before = len(first) - places
        if before > 0 and places:
            return f"[0-9]{{{before}}}\\.[0-9]{{{places}}}"
        return f"{point}[0-9]{{{len(first)}}}"
    if first[0] == last[0]:
        return f"{point}{first[0]}{_digits(first[1:], last[1:], places)}"
    rest = len(first) - 1
    options = [f"{first[0]}{_digits(first[1:], '9' * rest, places)}"]
    if int(last[0]) - int(first[0]) > 1:
        options.append(f"[{int(first[0]) + 1}-{int(last[0]) - 1}]{_digits('0' * rest, '9' * rest, places)}")
    options.append(f"{last[0]}{_digits('0' * rest, last[1:], places)}")
    return f"{point}(?:{'|'.join(options)})"


# ------------------------------------------------------------------------------------------------- the engine's verdict

FUEL = 200_000
"""The engine's steps for one text. A whole grammar, with many texts, gets ``masks.FUEL``."""

Verdict = Literal["fits", "empty", "too complex"]
"""Some text matches, none does, or the engine rejects the pattern."""


def text_schema(node: Text) -> dict[str, Any]:
    described: dict[str, Any] = {"type": "string", "minLength": node.shortest}
    patterns = [f"^(?:{anchor_pattern(pattern)})$" for pattern in (node.pattern, *node.also) if pattern is not None]
    if len(patterns) == 1:
        described["pattern"] = patterns[0]
    elif patterns:
        described["allOf"] = [{"pattern": pattern} for pattern in patterns]
    if node.longest is not None:
        described["maxLength"] = node.longest
    return described


def text_verdict(node: Text) -> Verdict:
    return _of_json(json.dumps(text_schema(node)))


@lru_cache(2048)
def _of_json(described: str) -> Verdict:
    matcher = _matcher(f"start: %json {described}\n")
    if matcher is None:
        return "fits"
    if matcher.is_error():
        error = matcher.get_error()
        return "empty" if "is empty" in error and "Unable to determine" not in error else "too complex"
    matcher.compute_bitmask()
    return "too complex" if matcher.is_error() else "fits"


@lru_cache(4096)
def alive(terminal: str) -> bool:
    """Return whether the engine accepts the body of a terminal, and finds a matching text."""
    matcher = _matcher(f"start: T\nT: {terminal}\n")
    if matcher is None:
        return True
    if matcher.is_error():
        return False
    mask = matcher.compute_bitmask()
    return not matcher.is_error() and (any(mask) or bool(matcher.is_accepting()))


def _matcher(grammar: str) -> Any:
    """Return the engine's matcher for a grammar; None if the engine is not installed, and nothing is constrained."""
    tokenizer = _byte_tokenizer()
    return None if tokenizer is None else compile_grammar(tokenizer, grammar, FUEL)


@cache
def _byte_tokenizer() -> Any:
    if find_spec("llguidance") is None:
        return None
    import llguidance

    return llguidance.LLTokenizer("byte")


def compile_grammar(tokenizer: Any, grammar: str, fuel: int) -> Any:
    """Return the engine's matcher for a grammar, which may be in error; ``fuel`` are the steps to compile it."""
    import llguidance

    limits = llguidance.LLParserLimits(initial_lexer_fuel=fuel)
    described = llguidance.LLMatcher.grammar_from_lark(grammar)
    return llguidance.LLMatcher(tokenizer, described, log_level=0, limits=limits)
