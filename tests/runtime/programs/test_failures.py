"""What a program says went wrong is a failure of the right kind, by its words where it has nothing better."""

import pytest

from cognition.steps.retry import classify
from cognition.values.outcomes import ErrorKind
from runtime.programs._failures import failure_of, resets_at, seconds_to_wait


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("429 unauthorized", "rate_limit"),
        ("401 Unauthorized", "auth"),
        ('API Error: 401 {"type":"error"}', "auth"),
        ("Invalid API key · Please run /login", "auth"),
        ("Credit balance is too low", "auth"),
        ("Quota exceeded. Check your plan and billing details.", "auth"),
        ("API Error (529 overloaded_error)", "rate_limit"),
        ('API Error: 529 {"type":"overloaded_error"}', "rate_limit"),
        ("Claude AI usage limit reached|1754900000", "rate_limit"),
        ("You've hit your session limit · resets 3pm", "rate_limit"),
        ("exceeded retry limit, last status: 429 Too Many Requests", "rate_limit"),
        ("exceeded retry limit, last status: 401 Unauthorized", "auth"),
        ("unexpected status 500 Internal Server Error", "transient"),
        ("unexpected status 404 Not Found", "fatal"),
        ("API Error: 400 prompt is too long: 210000 tokens", "context_overflow"),
        ("API Error: 400 messages: at least one is needed", "fatal"),
        ("Your input exceeds the context window of this model.", "context_overflow"),
        ("Codex ran out of room in the model's context window. Start a new thread.", "context_overflow"),
        ("We’re currently experiencing high demand, which may cause temporary errors.", "transient"),
        ("API Error: Unable to connect to API (ENOTFOUND)", "offline"),
        ("API Error: Connection error.", "transient"),
        ("stream disconnected before completion: idle timeout", "transient"),
        ("invalid author field", "fatal"),
        ("request 429 was lost on port 4290", "fatal"),
        ("the path /auth/author/x is too long", "fatal"),
        ("error: unknown option '--no-session-persistence'", "fatal"),
    ],
)
def test_words_are_read(said: str, kind: ErrorKind) -> None:
    """A status counts first, then a phrase; a word within another one, or a number by itself, never does."""
    assert classify(failure_of("claude", said)) == kind


def test_a_status_and_a_code_count_before_words() -> None:
    """What is told apart is meant, whatever stands in the text."""
    assert classify(failure_of("claude", "please run /login", status=503)) == "transient"
    assert classify(failure_of("claude", "please run /login", code="rate_limit")) == "rate_limit"
    assert classify(failure_of("claude", "prompt is too long", status=400)) == "context_overflow"


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("Try again in 1 hour 5 minutes.", 3900.0),
        ("try again in 2 days, 3 hours and 1 minute", 183_660.0),
        ("please try again in 1.5s", 1.5),
        ("retry after 20 seconds", 20.0),
        ("try again in 250ms", 0.25),
        ("try again at 3:05 PM", None),
        ("try again in 5 parsecs", None),
        ("try again", None),
    ],
)
def test_waits_are_read(said: str, seconds: float | None) -> None:
    """Where they are said in a form that is known."""
    assert seconds_to_wait(said) == seconds
    assert failure_of("codex", f"usage limit: {said}").retry_after == seconds


def test_the_time_at_which_a_limit_is_over_is_read() -> None:
    """In seconds since 1970."""
    assert resets_at("Claude AI usage limit reached|1754900000") == 1754900000.0
    assert resets_at("usage limit reached") is None


@pytest.mark.parametrize(
    "said",
    [
        "error: unknown option '--no-session-persistence'",
        "error: unexpected argument '--ignore-user-config' found",
        "Error loading config: invalid type: boolean `false`, expected struct AgentRoleToml in `agents.enabled`",
        "unknown field `default_tools_approval_mode`, expected one of `command`, `args`",
    ],
)
def test_a_program_of_another_age_says_so(said: str) -> None:
    """What it does not know, it was told by us: nobody can mend that but by an update."""
    failure = failure_of("codex", said)

    assert (failure.kind, "update it" in failure.message) == ("fatal", True)


def test_long_words_are_shortened_in_their_middle() -> None:
    """An error is told first by some programs, and last by others."""
    message = failure_of("codex", f"first {'x' * 5000} last").message

    assert message.startswith("codex: first")
    assert message.endswith("last")
    assert len(message) < 1000
