"""Classifies a program's error messages. Pure.

Both programs report most errors only as text, which includes their providers' errors. First a status in the text
counts, then the program's error code, then a phrase of either program. ``cognition.steps.retry`` knows the phrases of
providers and handles the rest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from cognition import Failure
from cognition.base.elision import elide
from cognition.steps.retry import AMBIGUOUS, classify
from cognition.values.outcomes import ErrorKind

LONGEST = 600
"""Maximum characters of a message."""

STATUS = re.compile(
    r"\b(?:API error|HTTP(?: error)?|(?:last |unexpected )?status(?: code)?)[\s:(]*([45]\d\d)\b"
    r"|\A\s*([45]\d\d)\s+[A-Za-z]",
    re.IGNORECASE,
)
"""Matches ``API Error: 529 {...}``, ``unexpected status 401 Unauthorized``, ``429 Too Many Requests``; never a number
alone.
"""

CODES: Mapping[str, ErrorKind] = {
    **dict.fromkeys(("authentication_failed", "authentication_error", "permission_error", "billing_error"), "auth"),
    **dict.fromkeys(("rate_limit", "rate_limit_error", "overloaded_error", "overloaded"), "rate_limit"),
    **dict.fromkeys(("server_error", "api_error", "timeout_error"), "transient"),
}
"""Codes of Claude Code's ``error`` of a message, and of Anthropic's errors in a stream."""

WORDS: Mapping[ErrorKind, tuple[str, ...]] = {
    "auth": (
        r"please run /login", r"not logged in", r"codex login", r"invalid api key", r"invalid bearer token",
        r"oauth token (?:has expired|revoked)", r"authentication_error", r"credit balance is too low",
        r"check your plan and billing", r"refresh token", r"missing bearer", r"sign in again",
        r"could not resolve authentication",
    ),
    "context_overflow": (
        r"prompt is too long", r"context_length_exceeded", r"exceeds the context window", r"ran out of room",
    ),
    "rate_limit": (
        r"usage limit", r"hit your (?:\w+ )?limit", r"limit reached", r"rate.?limit", r"too many requests",
        r"at capacity", r"overloaded",
    ),
    "offline": (
        r"ENOTFOUND", r"EAI_AGAIN", r"ENETUNREACH", r"getaddrinfo", r"dns error", r"unable to connect to API",
        r"failed to lookup address",
    ),
    "transient": (
        r"ECONNRESET", r"ECONNREFUSED", r"ETIMEDOUT", r"EPIPE", r"connection error", r"stream disconnected",
        r"error sending request", r"request timed out", r"premature close", r"fetch failed",
        r"internal server error", r"no conversation found", r"no rollout found", r"exceeded retry limit",
        r"high demand",
    ),
}  # fmt: skip
"""Phrases of the programs and of their runtimes, most specific kinds first."""
PHRASES = {kind: re.compile("|".join(words), re.IGNORECASE) for kind, words in WORDS.items()}

TRY_AGAIN = re.compile(
    r"(?:try again|retry|retrying|retry.after)\D{0,12}?((?:\d+(?:\.\d+)?\s*[a-z]+[\s,]*(?:and\s+)?)+)", re.IGNORECASE
)
AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)", re.IGNORECASE)
SECONDS = {
    "ms|msec|milli[a-z]*": 0.001, "s|secs?|seconds?": 1.0, "m|mins?|minutes?": 60.0, "h|hrs?|hours?": 3600.0,
    "d|days?": 86400.0,
}  # fmt: skip
RESETS_AT = re.compile(r"limit reached\|(\d{9,11})\b")
"""Claude Code's older form: the end of a limit, in seconds since 1970."""

TOO_OLD = re.compile(
    r"unknown (?:option|argument|field|variant)|unexpected argument|unrecognized (?:option|argument)"
    r"|invalid type: boolean",
    re.IGNORECASE,
)
SESSION_GONE = re.compile(r"no conversation found|no rollout found|session .{0,80}not found", re.IGNORECASE)


def failure_of(program: str, said: str, *, status: int | None = None, code: str = "") -> Failure:
    """Return the classified failure.

    Args:
        program: the program.
        said: its message.
        status: an HTTP status, if it reported one separately.
        code: its error code, if any.
    """
    said = " ".join(said.split())
    shown = said if len(said) <= LONGEST else elide(said, LONGEST // 2, LONGEST // 2, lambda _: " ... ")
    if status is None and (found := STATUS.search(said)):
        status = int(found[1] or found[2])
    if TOO_OLD.search(said):
        return Failure(f"{program} is too old for what it is asked, or too new: update it ({shown})", kind="fatal")
    kind = _kind(said, status, code)
    retry_after = seconds_to_wait(said) if kind == "rate_limit" else None
    return Failure(f"{program}: {shown}", kind=kind, status=status, code=code, retry_after=retry_after)


def _kind(said: str, status: int | None, code: str) -> ErrorKind | None:
    if status is not None and status not in AMBIGUOUS:
        return classify(Failure("", status=status))
    if code in CODES:
        return CODES[code]
    return next((kind for kind, pattern in PHRASES.items() if pattern.search(said)), None)


def seconds_to_wait(said: str) -> float | None:
    """Return the waiting time in a message, such as ``try again in 1 hour 5 minutes``, or None."""
    found = TRY_AGAIN.search(said)
    waits = [
        float(amount) * seconds
        for amount, unit in AMOUNT.findall(found[1] if found else "")
        for words, seconds in SECONDS.items()
        if re.fullmatch(words, unit.lower())
    ]
    return sum(waits) if waits else None


def resets_at(said: str) -> float | None:
    """Return the end of a limit in a message of Claude Code, in seconds since 1970, or None."""
    found = RESETS_AT.search(said)
    return None if found is None else float(found[1])
