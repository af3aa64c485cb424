"""Values on the command line: parse and check them, with errors that name the valid values."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def checked(kind: Callable[[str], T], what: str, fits: Callable[[T], object]) -> Callable[[str], T]:
    """Return an argparse type for the values of a kind that fit. ``what`` describes the valid values in errors."""

    def read(text: str) -> T:
        with contextlib.suppress(ValueError):
            if fits(value := kind(text)):  # NaN fits nothing
                return value
        raise argparse.ArgumentTypeError(f"expected {what}, not {text!r}")

    return read


COUNT = checked(int, "a whole number from 1", lambda value: value >= 1)
REPLY = checked(int, "a whole number from 2", lambda value: value >= 2)
TEMPERATURE = checked(float, "a number from 0 to 2", lambda value: 0 <= value <= 2)
SHARE = checked(float, "a number from 0 to 1", lambda value: 0 <= value <= 1)
PART = checked(float, "a number above 0 and at most 1", lambda value: 0 < value <= 1)
FACTOR = checked(float, "a number above 0 and at most 10", lambda value: 0 < value <= 10)
TURN = checked(int, "a whole number from 0", lambda value: value >= 0)
SEED = checked(int, "a whole number from 0 to 4294967295", lambda value: 0 <= value < 2**32)
