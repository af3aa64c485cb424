"""Ranges of numbers as regular expressions.

A decimal with k digits after its point is an integer with a point k digits from its end. So ranges of decimals are
ranges of integers for each k. A number has at most 15 digits, so that no two of them are equal as floating point, and
rounding moves none out of its range.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext

from runtime.constrained.nodes import Number

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
