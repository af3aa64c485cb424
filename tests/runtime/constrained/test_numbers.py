"""Ranges of numbers as patterns."""

import json
import math
import re
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from runtime.constrained._numbers import integer_range, pattern_of
from runtime.constrained.nodes import Number

bounds = st.none() | st.decimals(-2000, 2000, places=3) | st.integers(-(10**12), 10**12).map(Decimal)


@st.composite
def numbers(draw: st.DrawFn) -> Number:
    low, high = draw(bounds), draw(bounds)
    if low is not None and high is not None and low > high:
        low, high = high, low
    apart = low is None or high is None or low < high
    above, below = apart and low is not None and draw(st.booleans()), apart and high is not None and draw(st.booleans())
    written = [None if edge is None else f"{edge:f}" for edge in (low, high)]
    return Number(draw(st.booleans()), written[0], written[1], above, below)


def inside(number: Number, value: Fraction) -> bool:
    above = number.low is None or value > Fraction(number.low) or (value == Fraction(number.low) and not number.above)
    below = (
        number.high is None or value < Fraction(number.high) or (value == Fraction(number.high) and not number.below)
    )
    return above and below


@st.composite
def candidates(draw: st.DrawFn) -> tuple[Number, str]:
    """A range and a number that may or may not lie in it, near its ends more often than not."""
    number = draw(numbers())
    near = draw(st.sampled_from([edge for edge in (number.low, number.high) if edge is not None] or ["0"]))
    places = 0 if number.whole else draw(st.integers(0, 2))
    value = Decimal(near) + draw(st.decimals(-20, 20, places=places))
    return number, f"{value.quantize(Decimal(1).scaleb(-places)):f}"


@given(candidates())
def test_a_pattern_covers_exactly_the_numbers_of_its_range(case: tuple[Number, str]) -> None:
    """Integers, and decimals of up to two places however large the bounds are."""
    number, text = case
    if Decimal(text) == 0:
        text = text.lstrip("-")
    pattern = pattern_of(number) or "(?!)"

    assert inside(number, Fraction(text)) == (re.fullmatch(pattern, text) is not None)


@given(candidates())
def test_what_a_pattern_covers_is_in_range_as_floating_point_too(case: tuple[Number, str]) -> None:
    """No number is rounded out of its range by the program that reads it."""
    number, text = case
    if re.fullmatch(pattern_of(number) or "(?!)", text):
        value = float(text)
        assert number.low is None or value >= float(number.low)
        assert number.high is None or value <= float(number.high)


@st.composite
def float_ranges(draw: st.DrawFn) -> tuple[Number, float]:
    """A range with bounds of any size, and a floating-point number, often next to one of its ends."""
    edge = st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**25), 10**25)
    low, high = draw(edge), draw(edge)
    if low is not None and high is not None and low > high:
        low, high = high, low
    above, below = low is not None and draw(st.booleans()), high is not None and draw(st.booleans())
    written = [None if one is None else f"{decimal_of(one):f}" for one in (low, high)]
    near = float(draw(st.sampled_from([one for one in (low, high) if one is not None] or [0.0])))
    beside = st.sampled_from([near, math.nextafter(near, math.inf), math.nextafter(near, -math.inf)])
    value = draw(beside | st.floats(allow_nan=False, allow_infinity=False))
    return Number(False, written[0], written[1], above, below), value if math.isfinite(value) else near


def decimal_of(value: float) -> Decimal:
    return Decimal(value) if isinstance(value, float) and value.is_integer() else Decimal(repr(value))


@given(float_ranges())
def test_each_floating_point_number_within_the_bounds_can_be_written(case: tuple[Number, float]) -> None:
    """As JSON's writer and as Python's decimals write it, and no other can."""
    number, value = case
    fits = (number.low is None or value > float(number.low) or (value == float(number.low) and not number.above)) and (
        number.high is None or value < float(number.high) or (value == float(number.high) and not number.below)
    )
    exact = all(edge is None or decimal_of(float(edge)) == Decimal(edge) for edge in (number.low, number.high))
    short, plain = json.dumps(value), f"{Decimal(repr(value)):f}"
    pattern = re.compile(pattern_of(number) or "(?!)")

    for text in (short, plain if "." in plain else f"{plain}.0"):
        assert not exact or fits == (pattern.fullmatch(text) is not None), text


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (Number(True, "1", "3"), True),
        (Number(True, "1.2", "1.8"), False),
        (Number(True, "1", "2", above=True, below=True), False),
        (Number(True, "8", "13", step=7), False),
        (Number(True, "8", "14", step=7), True),
    ],
)
def test_an_empty_range_of_integers_is_noticed(number: Number, expected: bool) -> None:
    """Before a grammar is made of it."""
    assert expected == integer_range(number)
