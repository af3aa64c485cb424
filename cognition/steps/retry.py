"""Classify failures and plan retries: a plan made of values, not a sleep."""

from __future__ import annotations

from cognition.steps.config import RetryPolicy
from cognition.values.outcomes import ErrorKind, Failure

RETRIED: frozenset[ErrorKind] = frozenset({"rate_limit", "transient", "offline", "bad_output"})
"""Kinds of failure that may pass."""

BY_STATUS: dict[int, ErrorKind] = {
    400: "fatal",
    401: "auth",
    402: "auth",
    403: "auth",
    404: "fatal",
    408: "transient",
    409: "transient",
    413: "context_overflow",
    422: "fatal",
    425: "transient",
    429: "rate_limit",
    529: "rate_limit",  # Anthropic: overloaded
}
"""HTTP statuses (RFC 9110, and providers' additions). Any other status is transient from 500 on, and fatal below."""

BY_CODE: dict[str, ErrorKind] = {
    "insufficient_quota": "auth",  # OpenAI, DashScope: no credit is left, which waiting does not mend
    "billing_not_active": "auth",
    "billing_hard_limit_reached": "auth",
    "context_length_exceeded": "context_overflow",
    "exceed_context_size_error": "context_overflow",  # llama-server
}
"""Codes more specific than their HTTP status."""

AMBIGUOUS: frozenset[int] = frozenset({400, 422})
"""Statuses that providers use for quite different failures; code and message decide instead."""

BY_TEXT: tuple[tuple[ErrorKind, tuple[str, ...]], ...] = (
    (
        "context_overflow",
        (
            "context_length_exceeded",
            "context length",
            "context window",
            "maximum context",
            "too many tokens",
            "prompt is too long",
            "exceeds the available context",
            "exceed context limit",
            "exceed context window",
            "exceeds the maximum number of tokens",
            "reduce the length of the messages",
        ),
    ),
    ("rate_limit", ("rate_limit", "rate limit", "too many requests", "overloaded", "quota")),
    (
        "auth",
        (
            "credit balance is too low",
            "invalid_api_key",
            "api key",
            "unauthorized",
            "authentication",
            "permission denied",
            "forbidden",
        ),
    ),
    (
        "modality",
        (
            "does not support image",
            "image input",
            "image_url is only",
            "audio input",
            "unsupported content type",
            "modality",
        ),
    ),
    (
        "offline",
        (
            "name or service not known",
            "getaddrinfo",
            "network is unreachable",
            "no route to host",
            "temporary failure in name resolution",
        ),
    ),
    ("bad_output", ("invalid json in response", "could not parse the response", "incomplete response")),
    (
        "transient",
        (
            "timed out",
            "timeout",
            "connection reset",
            "connection refused",
            "connection aborted",
            "broken pipe",
            "unavailable",
        ),
    ),
)
"""Phrases in providers' codes and messages, the most specific kinds first."""


def classify(failure: Failure) -> ErrorKind:
    """Return the kind of a failure: as given, else by status, code or message, in this order; else ``fatal``.

    A few codes outrank any status (``BY_CODE``).
    """
    if failure.kind is not None:
        return failure.kind
    if failure.code in BY_CODE:
        return BY_CODE[failure.code]
    if failure.status is not None and failure.status not in AMBIGUOUS:
        known = BY_STATUS.get(failure.status)
        return known or ("transient" if failure.status >= 500 else "fatal")
    for text in (failure.code.lower(), failure.message.lower()):
        for kind, phrases in BY_TEXT:
            if any(phrase in text for phrase in phrases):
                return kind
    return "fatal"


def delay(policy: RetryPolicy, kind: ErrorKind, attempt: int, turn: int, retry_after: float | None) -> float:
    """Return the seconds to wait before attempt number ``attempt`` (from 2).

    The wait doubles from ``first_delay``, once more for rate limits, up to ``longest_delay``. A provider's Retry-After
    has the same cap. Jitter of up to a quarter keeps many sessions from returning at the same moment. It is computed
    from turn and attempt, so that a replay waits like the first run.
    """
    if retry_after is not None and retry_after >= 0:
        return min(retry_after, policy.longest_delay)
    doublings = min(attempt - 2 + (kind == "rate_limit"), 64)  # beyond, the cap holds anyway and floats overflow
    seconds = min(policy.first_delay * 2.0**doublings, policy.longest_delay)
    jitter = (turn * 7919 + attempt * 104729) % 1000 / 4000  # two primes: neighbours in turn and attempt spread out
    return min(seconds * (1 + jitter), policy.longest_delay)
