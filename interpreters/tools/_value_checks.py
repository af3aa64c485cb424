"""Judgements on single JSON values, shared by the check of signatures and the check of whole JSON Schemas."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation, localcontext
from ipaddress import IPv4Address, IPv6Address
from typing import Any

DEEPEST_STACK = 0.7
"""The share of Python's stack, callers included, that a check may use. The package's data structures are native code: a
stack overflow inside them kills the process.
"""

DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
DATE_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(\.\d+)?([Zz]|[+-]\d\d:?\d\d)?", re.ASCII)
TIME = re.compile(r"(\d\d:\d\d:\d\d)(\.\d+)?([Zz]|[+-]\d\d:?\d\d)?", re.ASCII)
UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
DURATION = re.compile(r"P(?!$)(?:\d+W|(?:\d+Y)?(?:\d+M)?(?:\d+D)?(?:T(?=\d)(?:\d+H)?(?:\d+M)?(?:\d+S)?)?)", re.ASCII)
LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
HOSTNAME = re.compile(rf"{LABEL}(?:\.{LABEL})*\.?", re.ASCII)
URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"{}|\\^`]*", re.ASCII)
EMAIL = re.compile(r"[^\s@]+@[^\s@]+")
MICROSECONDS = 7
"""Characters of the longest fraction of a second that Python can store, including the point."""


def as_date(text: str) -> date:
    """Parse a text of the format ``date``.

    Raises:
        ValueError: it is not a date.
    """
    if not DATE.fullmatch(text):
        raise ValueError(f"{text!r} is no date such as 2026-11-24")
    return date.fromisoformat(text)


def as_date_time(text: str) -> datetime:
    """Parse a text of the format ``date-time``. Without a UTC offset the result is naive.

    A leap second becomes the second before it. A fraction is cut to microseconds.

    Raises:
        ValueError: it is not a date and time.
    """
    found = DATE_TIME.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is no date and time such as 2026-11-24T17:30:00+01:00")
    return datetime.fromisoformat(f"{found[1]}T{_clock(found[2], found[3], found[4])}")


def as_time(text: str) -> time:
    """Parse a text of the format ``time``, like ``as_date_time``.

    Raises:
        ValueError: it is not a time.
    """
    found = TIME.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is no time such as 17:30:00")
    return time.fromisoformat(_clock(found[1], found[2], found[3]))


def _clock(seconds: str, fraction: str | None, offset: str | None) -> str:
    return seconds.replace(":60", ":59") + (fraction or "")[:MICROSECONDS] + (offset or "").upper()


RULES: Mapping[str, Callable[[str], object]] = {
    "date": as_date,
    "date-time": as_date_time,
    "time": as_time,
    "uuid": UUID.fullmatch,
}
"""The formats of signatures. For an invalid text, a rule returns None or raises ValueError."""

OTHER_RULES: Mapping[str, Callable[[str], object]] = {
    "duration": DURATION.fullmatch,
    "email": EMAIL.fullmatch,
    "hostname": HOSTNAME.fullmatch,
    "ipv4": IPv4Address,
    "ipv6": IPv6Address,
    "uri": URI.fullmatch,
}
"""The formats that only ``schema_check`` checks, with rules of the same kind."""


def has_format(text: str, name: str) -> bool:
    """Return whether a text has a format. True for any unknown format."""
    rule = RULES.get(name)
    try:
        return rule is None or rule(text) is not None
    except ValueError:
        return False


def is_deep() -> bool:
    """Return whether the stack is nearly used up."""
    try:
        sys._getframe(int(sys.getrecursionlimit() * DEEPEST_STACK))
    except ValueError:
        return False
    return True


def is_multiple(number: float, step: float) -> bool:
    """Check with decimals: 0.07 is a multiple of 0.01, but not in floating point."""
    with localcontext() as context:
        context.prec = 5000
        try:
            return Decimal(str(number)) % Decimal(str(step)) == 0
        except InvalidOperation:  # an infinite number
            return False


def has_duplicates(items: Iterable[Any]) -> bool:
    """Return whether two items are equal, in linear time: a comparison of all pairs takes minutes for a long list.

    Raises:
        RecursionError: an item is nested too deeply.
    """
    known: set[Any] = set()
    for number, item in enumerate(items):
        known.add(as_key(item))
        if len(known) <= number:
            return True
    return False


def as_key(value: Any) -> Any:
    """Return a key that is equal for values that JSON considers equal: 1 equals 1.0 but not true, and the order of
    members does not matter.

    Raises:
        RecursionError: the value is nested too deeply.
    """
    if isinstance(value, list | dict) and is_deep():
        raise RecursionError("nested too deeply to be compared")
    if isinstance(value, list):
        return list, tuple(map(as_key, value))
    if isinstance(value, dict):
        return dict, frozenset((name, as_key(member)) for name, member in value.items())
    return (bool, value) if isinstance(value, bool) else value
