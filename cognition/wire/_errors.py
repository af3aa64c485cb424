"""Decodes a server's error, from status, headers and body or from within a stream, as a ``Failure``.

``cognition.steps.retry.classify`` decides its kind, by status, then code, then text. The forms::

    {"error": {"message": "...", "type": "...", "code": "..."}}     OpenAI and most others; a list of it: Gemini
    {"type": "error", "error": {"type": "...", "message": "..."}}   Anthropic
    {"error": "..."}                                                Ollama, mlx_lm.server
    {"object": "error", "message": "...", "code": 400}              older builds of vLLM
    {"detail": "..."}, {"detail": [{"msg": "..."}]}                 FastAPI, Mistral
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite
from typing import Any

from attrs import evolve

from cognition.base.strict_json import LENIENT
from cognition.steps.retry import classify
from cognition.values.counts import MOST_TOKENS
from cognition.values.outcomes import Failure
from cognition.wire._fields import Object, without_halves
from cognition.wire._quirks import Dialect

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_TIME = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
FORMS = (
    re.compile(rf"[a-z]+, (?P<day>\d\d?)[ -](?P<month>[a-z]{{3}})[ -](?P<year>\d{{2}}|\d{{4}}) {_TIME} (?:gmt|utc)"),
    re.compile(rf"[a-z]+ (?P<month>[a-z]{{3}})  ?(?P<day>\d\d?) {_TIME} (?P<year>\d{{4}})"),
)
"""All three forms of a date of RFC 9110 5.6.7::

    Sun, 06 Nov 1994 08:49:37 GMT
    Sunday, 06-Nov-94 08:49:37 GMT
    Sun Nov  6 08:49:37 1994
"""

LONGEST_MESSAGE = 1000
"""Characters retained of a server's message: some repeat the whole request."""
LONGEST_READ = 10_000
"""Characters of it searched for sizes and times."""
LARGEST_BODY = 1 << 20
"""Bytes of a body that are parsed."""

STATUS_OF: Mapping[str, int] = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "api_error": 500,
    "server_error": 500,
    "internal_server_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""For an error within a stream: the HTTP status that an error of this type has outside of streams
(https://docs.anthropic.com/en/api/errors, https://platform.openai.com/docs/guides/error-codes).
"""

_NUMBER = r"(\d[\d,]{0,17})"
OVERFLOWS: tuple[tuple[re.Pattern[str], bool], ...] = tuple(
    (re.compile(pattern.replace("N", _NUMBER), re.IGNORECASE | re.DOTALL), needed_first)
    for pattern, needed_first in (
        (r"N tokens?\)? exceeds? the available context size \(N", True),  # llama-server
        (r"prompt is too long: N tokens > N", True),  # Anthropic
        (r"input length and `?max_tokens`? exceed context limit: N \+ \d+ > N", True),  # Anthropic
        (r"Requested tokens \(N\) exceed context window of N", True),  # llama_cpp.server
        (r"input token count \(N\) exceeds the maximum number of tokens allowed \(N", True),  # Gemini
        (r"Prompt contains N tokens.{0,200}?N maximum context", True),  # Mistral
        (r"maximum context length (?:is|of) N tokens.{0,200}?\(N in the messages", False),  # OpenAI, DeepSeek
        (r"maximum context length (?:is|of) N tokens.{0,200}?(?:requested|resulted in|has|contains) N", False),  # vLLM
    )
)
"""Patterns of context overflow messages, and whether the prompt's size comes first in them, or the limit."""

WAIT = re.compile(
    r"(?:try again|retry) in (?:(\d{1,6})h)?(?:(\d{1,6})m(?!s))?(?:(\d{1,9}(?:\.\d{1,9})?)(ms|s))?", re.IGNORECASE
)
"""The wait in a message, such as ``Please try again in 6m0.5s``."""
SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")

TAG = re.compile(r"<[^<>]*>")
"""An HTML tag, as in the error pages of proxies."""


def decode_error(dialect: Dialect, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
    """Return the failure that an answer with an error status describes.

    Args:
        dialect: the wire format of the request. All forms are read in each: gateways answer in their own.
        status: the HTTP status.
        headers: the answer's headers; case does not matter.
        body: the body in any form, or a part of it.
    """
    known = {name.lower(): value for name, value in headers.items()}
    text = body[:LARGEST_BODY].decode("utf-8", "replace")
    try:
        value: Any = LENIENT.decode(text)
    except (ValueError, RecursionError):
        value = TAG.sub(" ", text)
    return _failure(value, status, _retry_after(known))


def failure_in(event: Object) -> Failure:
    """Return the failure described by an event of a stream, or by a body with the status of success.

    The server had accepted the request by then. So without a known reason, the failure counts as retryable.
    """
    failure = _failure(event, None, None)
    untold = failure.status is None and classify(failure) == "fatal"
    return evolve(failure, kind="transient") if untold else failure


def _failure(value: Any, status: int | None, retry_after: float | None) -> Failure:
    if isinstance(value, list) and value:
        value = value[0]
    error = _error_in(value)
    fields: Object = error if isinstance(error, dict) else {}
    message = (error if isinstance(error, str) else _message_in(fields))[:LONGEST_READ]
    words = (fields.get(key) for key in ("code", "type", "status"))  # the code if it is a text, else the type
    code = next((word[:100] for word in words if isinstance(word, str) and not word.isdecimal() and word), "")
    code = without_halves(code)
    if status is None:
        status = _status_in(fields, code)
    said = without_halves(" ".join(message.split())[:LONGEST_MESSAGE])
    if not said:
        said = f"the server answered with status {status}" if status else "the server reported an error"
    needed, available = _sizes(fields, message)
    if retry_after is None:
        retry_after = _wait_in_message(fields, message)
    return Failure(said, None, status, code, retry_after, needed, available)


def _error_in(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    for key in ("error", "detail", "errors"):
        inner = value.get(key)
        if isinstance(inner, list) and inner:
            inner = inner[0]
        if isinstance(inner, dict) or (isinstance(inner, str) and inner.strip()):
            return inner
    return value


def _message_in(error: Object) -> str:
    found = next((error[key] for key in ("message", "msg", "detail", "title") if isinstance(error.get(key), str)), "")
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None  # OpenRouter: what the server behind it said
    return f"{found}: {raw}" if isinstance(raw, str) and raw else found


def _status_in(error: Object, code: str) -> int | None:
    for key in ("status", "status_code", "code"):
        number = error.get(key)
        if isinstance(number, str) and number.isdecimal() and len(number) == 3:
            number = int(number)
        if type(number) is int and 400 <= number <= 599:
            return number
    kind = error.get("type")
    return STATUS_OF.get(code, STATUS_OF.get(kind) if isinstance(kind, str) else None)


def _sizes(error: Object, message: str) -> tuple[int | None, int | None]:
    """Return the prompt's tokens and the limit, if an overflow error names them."""
    needed, available = error.get("n_prompt_tokens"), error.get("n_ctx")  # llama-server
    if _is_count(needed) and _is_count(available):
        return needed, available
    for pattern, needed_first in OVERFLOWS:
        if found := pattern.search(message):
            first, second = (min(int(number.replace(",", "")), MOST_TOKENS) for number in found.groups())
            return (first, second) if needed_first else (second, first)
    return None, None


def _is_count(number: Any) -> bool:
    return type(number) is int and 0 < number <= MOST_TOKENS


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait by the headers: a number, or a date minus the answer's own date."""
    if (milliseconds := _seconds(headers.get("retry-after-ms", ""))) is not None:
        return milliseconds / 1000
    text = headers.get("retry-after", "")
    if (seconds := _seconds(text)) is not None:
        return seconds
    then, now = http_date(text), http_date(headers.get("date", ""))
    return None if then is None or now is None else float(max(then - now, 0))


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return max(seconds, 0.0) if isfinite(seconds) else None


def _wait_in_message(error: Object, message: str) -> float | None:
    details = error.get("details")  # Google's RetryInfo
    for detail in details if isinstance(details, list) else ():
        told = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(told, str) and (found := SECONDS.fullmatch(told[:20])):
            return float(found[1])
    for found in WAIT.finditer(message):
        hours, minutes, number, unit = found.groups()
        if hours or minutes or number:
            seconds = float(number or 0) / (1000 if unit and unit.lower() == "ms" else 1)
            return int(hours or 0) * 3600 + int(minutes or 0) * 60 + seconds
    return None


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
