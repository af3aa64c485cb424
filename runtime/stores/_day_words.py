"""The days that a question names: ``2026-11-24``, ``last Tuesday``, ``3 weeks ago``, ``in October``. Pure.

Each phrase is English, and is relative to a day that the caller passes. The newest day that fits is meant: in November,
``in December`` is of the year before.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Mapping
from datetime import date, timedelta

from attrs import frozen

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
SHORT_MONTHS = {name[:3]: number for number, name in enumerate(MONTHS, 1)} | {"sept": 9}
NUMBERS: Mapping[str, int] = {
    "a": 1,
    "an": 1,
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "ten": 10,
}

AROUND: Mapping[str, int] = {"day": 0, "week": 3, "month": 15, "year": 182}
"""Days before and after a day that people name by its distance in this unit."""

WEEKDAY = "|".join(WEEKDAYS)
MONTH = "|".join((*MONTHS, *sorted(SHORT_MONTHS)))
YEAR = r"(?:,? (?P<year>\d{4}))?"
COUNT = rf"\d{{1,4}}|{'|'.join(NUMBERS)}"
LONGEST_LOOKED_AT = 300
"""Characters read at each end of a longer text. There only phrases in words count: a pasted log is full of dates."""


@frozen
class Days:
    """The days of a phrase, both included."""

    first: date
    last: date


def _day(match: re.Match[str], today: date) -> Days | None:
    return _one(int(match["year"]), int(match["month"]), int(match["day"]))


def _one(year: int, month: int, day: int) -> Days | None:
    try:
        found = date(year, month, day)
    except ValueError:
        return None
    return Days(found, found)


def _back(count: int, unit: str, today: date) -> date | None:
    try:
        if unit == "month":
            months = today.year * 12 + today.month - 1 - count
            year, month = divmod(months, 12)
            return date(year, month + 1, min(today.day, monthrange(year, month + 1)[1]))
        if unit == "year":
            return _back(12 * count, "month", today)
        return today - timedelta(days=count * (7 if unit == "week" else 1))
    except (ValueError, OverflowError):  # before the first year
        return None


def _number(text: str) -> int:
    return NUMBERS.get(text) or int(text)


def _ago(match: re.Match[str], today: date) -> Days | None:
    found = _back(_number(match["count"]), match["unit"], today)
    if found is None:
        return None
    around = timedelta(days=AROUND[match["unit"]])
    return Days(max(found, date.min + around) - around, min(found + around, today))


def _last_days(match: re.Match[str], today: date) -> Days | None:
    found = _back(_number(match["count"]), match["unit"], today)
    return None if found is None else Days(found, today)


def _weekday(match: re.Match[str], today: date) -> Days:
    back = (today.weekday() - WEEKDAYS.index(match["weekday"]) - 1) % 7 + 1
    found = today - timedelta(days=back)
    return Days(found, found)


def _near(match: re.Match[str], today: date) -> Days:
    back = {"today": 0, "yesterday": 1, "the day before yesterday": 2, "last night": 1}.get(match[0], 0)
    found = today - timedelta(days=back)
    return Days(found, found)


def _period(match: re.Match[str], today: date) -> Days:
    last, unit = match["which"] != "this", match["unit"]
    if unit == "week":
        first = today - timedelta(days=today.weekday() + 7 * last)
        return Days(first, first + timedelta(days=6))
    if unit == "month":
        year, month = (today.year, today.month - last) if today.month > last else (today.year - 1, 12)
        return _month_days(year, month)
    return Days(date(today.year - last, 1, 1), date(today.year - last, 12, 31))


def _month_days(year: int, month: int) -> Days:
    return Days(date(year, month, 1), date(year, month, monthrange(year, month)[1]))


def _month_number(text: str) -> int:
    return SHORT_MONTHS.get(text) or MONTHS.index(text) + 1


def _in_month(match: re.Match[str], today: date) -> Days | None:
    month, year = _month_number(match["month"]), match["year"]
    newest = today.year - (month > today.month)
    return _month_days(int(year) if year else newest, month) if year != "0000" else None


def _month_day(match: re.Match[str], today: date) -> Days | None:
    month, day, year = _month_number(match["month"]), int(match["day"]), match["year"]
    if year:
        return _one(int(year), month, day)
    found = _one(today.year, month, day)
    return _one(today.year - 1, month, day) if found is None or found.first > today else found


PHRASES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], date], Days | None]], ...] = tuple(
    (re.compile(rf"(?<![\w.-]){pattern}(?![\w-])"), read)
    for pattern, read in (
        (r"(?P<year>\d{4})[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})", _day),
        (r"(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>\d{4})", _day),
        (r"the day before yesterday|yesterday|today|last night|tonight|this (?:morning|afternoon|evening)", _near),
        (rf"(?:about |around )?(?P<count>{COUNT}) (?P<unit>day|week|month|year)s? ago", _ago),
        (rf"(?:the |in the )?(?:last|past) (?P<count>{COUNT}) (?P<unit>day|week|month|year)s?", _last_days),
        (r"(?P<which>last|this|past|previous) (?P<unit>week|month|year)", _period),
        (
            rf"(?:on )?(?:the )?(?P<day>\d{{1,2}})(?:st|nd|rd|th)? (?:of )?(?P<month>{MONTH})\.?{YEAR}",
            _month_day,
        ),
        (
            rf"(?:on )?(?P<month>{MONTH})\.? (?:the )?(?P<day>\d{{1,2}})(?:st|nd|rd|th)?{YEAR}",
            _month_day,
        ),
        (rf"(?:in|during|last|since) (?P<month>{MONTH})(?: (?:of )?(?P<year>\d{{4}}))?", _in_month),
        (rf"(?:(?:on|last|this|past|since) )+(?P<weekday>{WEEKDAY})", _weekday),
    )
)
"""The phrases, the most exact first; patterns are matched against lower-case text."""
NUMERIC = 2
"""The number of phrases that are dates in digits; they are the first."""


def days_in(text: str, today: date) -> tuple[Days, str] | None:
    """Return the days of the first phrase found in a text, and the text without the phrase; None if it has none.

    Both ends of a long text are searched, the end first. ``today``: the day that phrases are relative to.
    """
    if len(text) > 2 * LONGEST_LOOKED_AT:
        behind = len(text) - LONGEST_LOOKED_AT
        parts, phrases = [(behind, len(text)), (0, LONGEST_LOOKED_AT)], PHRASES[NUMERIC:]
    else:
        parts, phrases = [(0, len(text))], PHRASES
    for begin, end in parts:
        part = re.sub(r"\s", " ", text[begin:end]).translate(LOWER)
        for pattern, read in phrases:
            for match in pattern.finditer(part):
                if (days := read(match, today)) is None:
                    continue
                rest = f"{text[: begin + match.start()]} {text[begin + match.end() :]}"
                return Days(days.first, max(days.first, today)) if "since " in match[0] else days, rest
    return None


LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
"""Small letters by place: ``str.lower`` may change a text's length."""
