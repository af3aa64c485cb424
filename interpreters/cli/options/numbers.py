"""Numbers on the command line: parse and check them, with errors that name the valid values."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any


def number(kind: type[int] | type[float], what: str, fits: Callable[[float], bool]) -> Callable[[str], Any]:
    """Return an argparse type for a number. ``what`` describes the valid values in errors."""

    def read(text: str) -> int | float:
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not fits(value):  # NaN fits nothing
            raise argparse.ArgumentTypeError(f"expected {what}, not {text!r}")
        return value

    return read


COUNT = number(int, "a whole number from 1", lambda value: value >= 1)
REPLY = number(int, "a whole number from 2", lambda value: value >= 2)
TEMPERATURE = number(float, "a number from 0 to 2", lambda value: 0 <= value <= 2)
SHARE = number(float, "a number from 0 to 1", lambda value: 0 <= value <= 1)
PART = number(float, "a number above 0 and at most 1", lambda value: 0 < value <= 1)
FACTOR = number(float, "a number above 0 and at most 10", lambda value: 0 < value <= 10)
TURN = number(int, "a whole number from 0", lambda value: value >= 0)
SEED = number(int, "a whole number from 0 to 4294967295", lambda value: 0 <= value < 2**32)
