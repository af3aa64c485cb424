"""What servers say of requests that failed, as values: written by their documentation and sources."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given, strategies as st

from cognition import Failure
from cognition.steps.retry import classify
from cognition.values.outcomes import ErrorKind
from cognition.wire import Decoder, Dialect, decode_error
from cognition.wire._errors import http_date
from tests.cognition.wire.sent import asked

OPENAI_LONG = (
    "This model's maximum context length is 8192 tokens. However, you requested 9412 tokens (9000 in the messages, 412 "
    "in the completion). Please reduce the length of the messages or completion."
)


def told(status: int, body: Any, headers: dict[str, str] | None = None, dialect: Dialect = "openai") -> Failure:
    written = body if isinstance(body, bytes) else json.dumps(body).encode()
    return decode_error(dialect, status, headers or {}, written)


@pytest.mark.parametrize(
    ("status", "body", "kind", "message", "code"),
    [
        (401, {"error": {"message": "Bad key", "type": "invalid_request_error", "code": "invalid_api_key"}},
         "auth", "Bad key", "invalid_api_key"),
        (429, {"error": {"message": "Rate limit", "type": "tokens", "code": "rate_limit_exceeded"}},
         "rate_limit", "Rate limit", "rate_limit_exceeded"),
        (429, {"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}},
         "auth", "You exceeded your quota", "insufficient_quota"),
        (429, {"error": "unauthorized"}, "rate_limit", "unauthorized", ""),
        (400, {"error": {"message": OPENAI_LONG, "type": "invalid_request_error", "code": "context_length_exceeded"}},
         "context_overflow", OPENAI_LONG, "context_length_exceeded"),
        (400, {"error": {"message": "no such field", "type": "invalid_request_error", "code": None}},
         "fatal", "no such field", "invalid_request_error"),
        (529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
         "rate_limit", "Overloaded", "overloaded_error"),
        (400, {"type": "error", "error": {"type": "invalid_request_error",
                                          "message": "Your credit balance is too low to access the API."}},
         "auth", "Your credit balance is too low to access the API.", "invalid_request_error"),
        (404, {"error": "model 'x' not found"}, "fatal", "model 'x' not found", ""),
        (400, {"error": "the input length exceeds the context length"}, "context_overflow",
         "the input length exceeds the context length", ""),
        (400, [{"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT"}}],
         "auth", "API key not valid.", "INVALID_ARGUMENT"),
        (400, {"object": "error", "message": "too many tokens", "type": "BadRequestError", "code": 400},
         "context_overflow", "too many tokens", "BadRequestError"),
        (422, {"detail": [{"loc": ["body"], "msg": "field required", "type": "missing"}]},
         "fatal", "field required", "missing"),
        (401, {"detail": "Unauthorized"}, "auth", "Unauthorized", ""),
        (400, {"errors": [{"title": "image input is not supported"}]}, "modality", "image input is not supported", ""),
        (502, b"<html><head><title>502</title></head><body>Bad\n gateway</body></html>",
         "transient", "502 Bad gateway", ""),
        (503, b"", "transient", "the server answered with status 503", ""),
        (500, {"error": {}}, "transient", "the server answered with status 500", ""),
        (500, {"error": {"message": "\ud800"}}, "transient", "\ufffd", ""),
        (500, [], "transient", "the server answered with status 500", ""),
        (500, 3, "transient", "the server answered with status 500", ""),
        (500, b"[" * 100_000, "transient", "[" * 1000, ""),
    ],
)  # fmt: skip
def test_errors_of_servers(status: int, body: Any, kind: ErrorKind, message: str, code: str) -> None:
    """In every form that is in use, by any of them in any format; the kind follows from status, code and text."""
    failure = told(status, body)

    assert (failure.message, failure.code, failure.status) == (message, code, status)
    assert classify(failure) == kind
    assert failure == told(status, body, dialect="ollama")


@pytest.mark.parametrize(
    ("message", "needed", "available"),
    [
        (OPENAI_LONG, 9000, 8192),
        ("This model's maximum context length is 4096 tokens. However, your request has 5000 input tokens", 5000, 4096),
        ("This model's maximum context length is 4096 tokens, however you requested 5000 tokens (1 in your prompt)",
         5000, 4096),
        ("request (9412 tokens) exceeds the available context size (8192 tokens), try increasing it", 9412, 8192),
        ("prompt is too long: 210,000 tokens > 200000 maximum", 210_000, 200_000),
        ("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000", 190_000, 200_000),
        ("Requested tokens (600) exceed context window of 512", 600, 512),
        ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
         1_200_000, 1_048_576),
        ("Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
         40_000, 32_768),
        ("prompt is too long", None, None),
    ],
)  # fmt: skip
def test_an_overflow_says_how_much_there_is_and_how_much_fits(
    message: str, needed: int | None, available: int | None
) -> None:
    """By which history is trimmed to what fits; where the sizes are not told it is trimmed by a guess."""
    failure = told(400, {"error": {"message": message}})

    assert (failure.needed_tokens, failure.available_tokens) == (needed, available)
    assert classify(failure) == "context_overflow"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"code": 429}, 429),
        ({"code": "503"}, 503),
        ({"code": 200, "type": "overloaded_error"}, 529),
        ({"code": "busy", "type": "rate_limit_error"}, 429),
        ({"code": "busy", "type": "new"}, None),
    ],
)
def test_an_error_within_a_stream_has_the_status_that_it_would_have_come_with(error: Any, status: int | None) -> None:
    """So that it is judged alike; where nothing tells, the request had been taken and may go well next time."""
    decoder = Decoder("openai", asked())
    decoder.feed(f"data: {json.dumps({'error': error})}\n\n".encode())
    failure = decoder.finish().failure

    assert failure is not None
    assert (failure.status, failure.kind) == (status, None if status else "transient")


def test_llama_server_tells_sizes_as_fields() -> None:
    error = {"code": 400, "message": "too long", "type": "exceed_context_size_error", "n_prompt_tokens": 9, "n_ctx": 8}

    failure = told(400, {"error": error})
    assert (failure.needed_tokens, failure.available_tokens, classify(failure)) == (9, 8, "context_overflow")
    assert told(400, {"error": {**error, "n_ctx": "8"}}).available_tokens is None


NOW = "Sun, 06 Nov 1994 08:49:37 GMT"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e999"}, None),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"Retry-After": "Sun, 06 Nov 1994 08:50:07 GMT", "Date": NOW}, 30.0),
        ({"Retry-After": "Sunday, 06-Nov-94 08:50:07 GMT", "Date": NOW}, 30.0),
        ({"Retry-After": "Sun Nov  6 08:50:07 1994", "Date": NOW}, 30.0),
        ({"Retry-After": "Sun, 06 Nov 1994 08:49:07 GMT", "Date": NOW}, 0.0),
        ({"Retry-After": "Sun, 06 Nov 1994 08:50:07 GMT"}, None),
        ({"Retry-After": "soon", "Date": NOW}, None),
        ({"Retry-After": "Sun, 06 Foo 1994 08:50:07 GMT", "Date": NOW}, None),
        ({}, None),
    ],
)
def test_how_long_to_wait_by_the_headers(headers: dict[str, str], seconds: float | None) -> None:
    """Seconds, or a date, which is held against the server's own clock: there is none here."""
    assert told(429, {"error": "slow"}, headers).retry_after == seconds


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        ({"message": "Please try again in 20s."}, 20.0),
        ({"message": "Please try again in 6m0.5s."}, 360.5),
        ({"message": "Please try again in 1h2m."}, 3720.0),
        ({"message": "Please try again in 120ms."}, 0.12),
        ({"message": "Please retry in 34.07s."}, 34.07),
        ({"message": "Please try again in a while, or try again in 3s"}, 3.0),
        ({"message": "Please try again in a while."}, None),
        ({"message": "x", "details": [3, {"retryDelay": 3}, {"retryDelay": "1x"}, {"retryDelay": "34s"}]}, 34.0),
        ({"message": "x", "details": "34s"}, None),
    ],
)
def test_how_long_to_wait_by_the_body(error: Any, seconds: float | None) -> None:
    assert told(429, {"error": error}).retry_after == seconds


@given(st.datetimes(datetime(1970, 1, 1), datetime(2099, 12, 31), timezones=st.just(UTC)), st.integers(0, 10**8))
def test_dates_are_as_far_apart_as_they_are(moment: datetime, seconds: int) -> None:
    """In the form that servers write, and in the two that RFC 9110 has them read besides."""
    moment = moment.replace(microsecond=0)
    then = moment + timedelta(seconds=seconds)
    forms = (
        format_datetime(then, usegmt=True),
        then.strftime("%a %b ") + f"{then.day:2} " + then.strftime("%H:%M:%S %Y"),
    )
    now = http_date(format_datetime(moment, usegmt=True))

    assert now is not None
    for form in forms:
        there = http_date(form)
        assert there is not None
        assert there - now == seconds
    if moment.year < 2070:
        assert http_date(moment.strftime("%A, %d-%b-%y %H:%M:%S GMT")) == now


@given(st.integers(400, 599), st.dictionaries(st.sampled_from(["retry-after", "date"]), st.text()), st.binary())
def test_any_answer_is_a_failure(status: int, headers: dict[str, str], body: bytes) -> None:
    failure = decode_error("openai", status, headers, body)

    assert failure.status == status
    assert 0 < len(failure.message) <= 1000


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from("error message code type details detail status metadata raw".split()), inner)
    ),
    max_leaves=8,
)


@given(json_values)
def test_any_json_is_a_failure(body: Any) -> None:
    failure = told(429, body)

    assert classify(failure) in ("rate_limit", "auth", "context_overflow")
    (failure.message + failure.code).encode()


def test_what_a_server_repeats_of_a_request_is_kept_short() -> None:
    """Some repeat all of it."""
    assert len(told(400, {"error": {"message": "x" * 100_000}}).message) == 1000
    assert told(400, b"x" * (2 << 20)).message == "x" * 1000
