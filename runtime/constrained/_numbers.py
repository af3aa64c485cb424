"""Patterns for the numbers between two bounds, in the engine's dialect (Rust's ``regex``).

Integers are written with all their digits. Other numbers have a point (``-74.0046539``), or one digit before the point
and an exponent (``1.5e-07``). There is no limit to the digits, so each number has a text: a model is free to choose any
number that the schema allows.

A program reads a number with a point or an exponent as floating point, which rounds. So its bounds are the outermost
floating-point numbers within the schema's bounds. Rounding keeps order, so each text between them is read as a number
between them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext

from runtime.constrained.nodes import Number

FRACTION = "\\.[0-9]+"
LARGEST_POWER = 307
"""The largest exponent behind any digit. Beyond, a number may be infinite to the program that reads it."""
SMALLEST_POWER = -330
"""Numbers with smaller exponents are 0 as floating point."""
LARGEST_DIGITS = "17976931348623157"
"""The digits of the largest floating-point number, whose exponent is one above ``LARGEST_POWER``."""

PRECISION = 1200
"""The digits of a number's decimal form: floating point has at most 1,075."""

_Unsigned = Callable[[Decimal, Decimal | None], list[str]]
"""Returns the patterns for the numbers between two, both from 0 on; with None, for all from the first on."""


def pattern_of(number: Number) -> str:
    """Return a pattern for the numbers within the bounds; empty if the range is empty. Ignores the step."""
    with localcontext() as context:
        context.prec = PRECISION
        low, high = _whole_bounds(number)
        parts = _signed(low, high, _positive_integers, _integers) if low is None or high is None or low <= high else []
        if not number.whole:
            low, high = _float_bounds(number)
            if low <= high and low < Decimal("inf") and high > Decimal("-inf"):
                low, high = (edge if edge.is_finite() else None for edge in (low, high))
                parts += [*_signed(low, high, _decimals, _decimals), *_signed(low, high, _exponentials, _exponentials)]
    return "|".join(parts)


def integer_range(number: Number) -> bool:
    """Return whether any multiple of its step is within the bounds of a number."""
    with localcontext() as context:
        context.prec = PRECISION
        low, high = _whole_bounds(number)
        return low is None or high is None or -(-int(low) // number.step) * number.step <= int(high)


def _whole_bounds(number: Number) -> tuple[Decimal | None, Decimal | None]:
    """Return the smallest and the largest integer within the bounds."""
    low = high = None
    if number.low is not None:
        edge = Decimal(number.low)
        low = edge.to_integral_value(ROUND_CEILING) + 0  # which makes 0 of -0
        low += number.above and low == edge
    if number.high is not None:
        edge = Decimal(number.high)
        high = edge.to_integral_value(ROUND_FLOOR) + 0
        high -= number.below and high == edge
    return low, high


def _float_bounds(number: Number) -> tuple[Decimal, Decimal]:
    """Return the smallest and the largest floating-point number within the bounds; infinite where there is no bound."""
    low = _float_bound(number.low, math.inf, excluded=number.above)
    high = _float_bound(number.high, -math.inf, excluded=number.below)
    return low, high


def _float_bound(text: str | None, inwards: float, *, excluded: bool) -> Decimal:
    """Return the shortest text of the floating-point number at a bound, or of the next one ``inwards``."""
    if text is None:
        return Decimal(-inwards)
    bound = Decimal(text)
    near = float(bound)
    if bound in (Decimal(repr(near)), Decimal(near)):
        outside = excluded
    else:
        outside = (Decimal(near) < bound) == (inwards > 0)
    return Decimal(repr(math.nextafter(near, inwards) if outside else near)) + 0


def _signed(low: Decimal | None, high: Decimal | None, below_zero: _Unsigned, others: _Unsigned) -> list[str]:
    """Return the patterns for the numbers of a range; ``below_zero`` receives the bounds without their signs."""
    parts: list[str] = []
    if low is None or low <= 0:
        least = Decimal(0) if high is None or high >= 0 else -high
        parts += [f"-(?:{part})" for part in below_zero(least, None if low is None else abs(low))]
    if high is None or high >= 0:
        parts += others(Decimal(0) if low is None or low <= 0 else low, high)
    return parts


# ------------------------------------------------------------------------------------------------ numbers from 0 on


def _positive_integers(least: Decimal, most: Decimal | None) -> list[str]:
    return _integers(max(least, Decimal(1)), most)


def _integers(least: Decimal, most: Decimal | None) -> list[str]:
    if most is not None and least > most:
        return []
    first = str(int(least))
    if most is None:
        if first == "0":
            return ["0", "[1-9][0-9]*"]
        return [_at_least(first), f"[1-9][0-9]{{{len(first)},}}"]
    last = str(int(most))
    if len(first) == len(last):
        return [_between(first, last)]
    parts = [_at_least(first), _between("1" + "0" * (len(last) - 1), last)]
    if len(last) - len(first) > 1:
        parts.append(f"[1-9][0-9]{{{len(first)},{len(last) - 2}}}")
    return parts


def _decimals(least: Decimal, most: Decimal | None) -> list[str]:
    """Return patterns for the numbers with a point; the last digits may be zeros."""
    whole, fraction = _split(least)
    if most is None:
        above = "|".join(_integers(Decimal(whole) + 1, None))
        return [f"{whole}\\.{_fraction_from(fraction)}", f"(?:{above}){FRACTION}"]
    last, last_fraction = _split(most)
    if whole == last:
        return [f"{whole}\\.{_fraction_between(fraction, last_fraction)}"]
    parts = [f"{whole}\\.{_fraction_from(fraction)}", f"{last}\\.{_fraction_to(last_fraction)}"]
    if within := _integers(Decimal(whole) + 1, Decimal(last) - 1):
        parts.append(f"(?:{'|'.join(within)}){FRACTION}")
    return parts


def _exponentials(least: Decimal, most: Decimal | None) -> list[str]:
    """Return patterns for the numbers other than 0 with an exponent."""
    parts: list[str] = []
    top = LARGEST_POWER
    if most is None:
        if least.adjusted() <= LARGEST_POWER:
            parts.append(_mantissa("1", LARGEST_DIGITS) + _exponent(LARGEST_POWER + 1, LARGEST_POWER + 1))
    elif most == 0:
        return []
    else:
        top = most.adjusted() - 1
    bottom = SMALLEST_POWER if least == 0 else least.adjusted() + 1
    if most is not None and least != 0 and least.adjusted() == most.adjusted():
        return [_mantissa(_digits(least), _digits(most)) + _exponent(top + 1, top + 1)]
    if least != 0:
        parts.append(_mantissa(_digits(least), "") + _exponent(bottom - 1, bottom - 1))
    if most is not None:
        parts.append(_mantissa("1", _digits(most)) + _exponent(top + 1, top + 1))
    if bottom <= top:
        parts.append(f"[1-9](?:{FRACTION})?{_exponent(bottom, top)}")
    return parts


def _mantissa(first: str, last: str) -> str:
    """Return a pattern for ``d.ddd`` between two such numbers, given without their points; no ``last``: up to 10."""
    low, high = int(first[0]), int(last[0]) if last else 10
    if low == high:
        return f"{low}" + _optional(first[1:], _fraction_between(first[1:], last[1:]))
    parts = [f"{low}" + _optional(first[1:], _fraction_from(first[1:]))]
    if last:
        parts.append(f"{high}" + _optional("", _fraction_to(last[1:])))
    if high - low > 1:
        parts.append(f"[{low + 1}-{high - 1}](?:{FRACTION})?")
    return f"(?:{'|'.join(parts)})"


def _optional(needed: str, fraction: str) -> str:
    return f"\\.{fraction}" if needed else f"(?:\\.{fraction})?"


def _exponent(low: int, high: int) -> str:
    options = []
    if low < 0:
        lower = _integers(Decimal(max(1, -high)), Decimal(-low))
        options.append(f"-0{{0,2}}(?:{'|'.join(lower)})")
    if high >= 0:
        options.append(f"\\+?0{{0,2}}(?:{'|'.join(_integers(Decimal(max(low, 0)), Decimal(high)))})")
    return f"[eE](?:{'|'.join(options)})"


def _split(number: Decimal) -> tuple[str, str]:
    """Return the digits before the point, and those behind it without trailing zeros."""
    whole, _, fraction = f"{number:f}".partition(".")
    return whole, fraction.rstrip("0")


def _digits(number: Decimal) -> str:
    return "".join(map(str, number.as_tuple().digits)).lstrip("0").rstrip("0")


# ------------------------------------------------------------------------------------------------ sequences of digits


def _between(first: str, last: str) -> str:
    """Return a pattern for the digits between two sequences of the same length."""
    same = 0
    while same < len(first) and first[same] == last[same]:
        same += 1
    if same == len(first):
        return first
    rest = len(first) - same - 1
    low, high = int(first[same]), int(last[same])
    parts = [f"{low}{_at_least(first[same + 1 :])}", f"{high}{_at_most(last[same + 1 :])}"]
    if high - low > 1:
        parts.append(f"[{low + 1}-{high - 1}]{_any_digits(rest)}")
    return f"{first[:same]}(?:{'|'.join(parts)})"


def _at_least(digits: str) -> str:
    return _up_to("9", digits)


def _at_most(digits: str) -> str:
    return _up_to("0", digits)


def _up_to(limit: str, digits: str) -> str:
    """Return a pattern for as many digits, between these and only nines or zeros (``limit``)."""
    parts = [digits]
    for place, digit in enumerate(digits):
        if digit != limit:
            others = f"[{int(digit) + 1}-9]" if limit == "9" else f"[0-{int(digit) - 1}]"
            parts.append(f"{digits[:place]}{others}{_any_digits(len(digits) - place - 1)}")
    return f"(?:{'|'.join(parts)})"


def _any_digits(count: int) -> str:
    return f"[0-9]{{{count}}}" if count else ""


def _fraction_from(digits: str) -> str:
    """Return a pattern for one digit or more behind a point, from these on."""
    if not digits:
        return "[0-9]+"
    parts = [f"{digits}[0-9]*"]
    for place, digit in enumerate(digits):
        if digit != "9":
            parts.append(f"{digits[:place]}[{int(digit) + 1}-9][0-9]*")
    return f"(?:{'|'.join(parts)})"


def _fraction_to(digits: str, *, begun: bool = False) -> str:
    """Return a pattern for one digit or more behind a point, up to these; none is needed where they have ``begun``."""
    if not digits:
        return "0*" if begun else "0+"
    parts = [f"{digits}0*"]
    for place, digit in enumerate(digits):
        before = digits[:place]
        if digit != "0":
            parts.append(f"{before}[0-{int(digit) - 1}][0-9]*")
        if before or begun:
            parts.append(before)
    return f"(?:{'|'.join(parts)})"


def _fraction_between(first: str, last: str) -> str:
    same = 0
    while same < min(len(first), len(last)) and first[same] == last[same]:
        same += 1
    before = first[:same]
    if same == len(first):
        return f"{before}{_fraction_to(last[same:], begun=bool(before))}"
    low, high = int(first[same]), int(last[same])
    parts = [f"{low}{_fraction_from(first[same + 1 :]) if first[same + 1 :] else '[0-9]*'}"]
    parts.append(f"{high}{_fraction_to(last[same + 1 :], begun=True)}")
    if high - low > 1:
        parts.append(f"[{low + 1}-{high - 1}][0-9]*")
    return f"{before}(?:{'|'.join(parts)})"
