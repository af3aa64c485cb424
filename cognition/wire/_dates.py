"""Dates of HTTP headers in seconds, for subtraction, without a calendar library or a clock.

Reads all three forms of RFC 9110 5.6.7::

    Sun, 06 Nov 1994 08:49:37 GMT
    Sunday, 06-Nov-94 08:49:37 GMT
    Sun Nov  6 08:49:37 1994
"""

from __future__ import annotations

import re

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_TIME = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
FORMS = (
    re.compile(rf"[a-z]+, (?P<day>\d\d?)[ -](?P<month>[a-z]{{3}})[ -](?P<year>\d{{2}}|\d{{4}}) {_TIME} (?:gmt|utc)"),
    re.compile(rf"[a-z]+ (?P<month>[a-z]{{3}})  ?(?P<day>\d\d?) {_TIME} (?P<year>\d{{4}})"),
)


def http_date(text: str) -> int | None:
    """Return the seconds since the beginning of the year 0 in the Gregorian calendar, or None if ``text`` is not a
    date.
    """
    for form in FORMS:
        found = form.fullmatch(text.strip().lower())
        if found and found["month"] in MONTHS:
            year = int(found["year"])
            if year < 100:  # of two digits: those of this century, until they are far ahead (RFC 9110)
                year += 1900 if year >= 70 else 2000
            days = _days(year, MONTHS.index(found["month"]) + 1, int(found["day"]))
            return ((days * 24 + int(found["hour"])) * 60 + int(found["minute"])) * 60 + int(found["second"])
    return None


def _days(year: int, month: int, day: int) -> int:
    """Return the days since the beginning of the year 0. Years start in March, so that a leap day is the last of a
    year.
    """
    year, month = (year, month - 3) if month > 2 else (year - 1, month + 9)
    return year * 365 + year // 4 - year // 100 + year // 400 + (month * 153 + 2) // 5 + day - 1
