"""The core's small parts, each against its own promise: policy, retry, guards, context, messages, ids."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from cognition import (
    AgentConfig,
    ConfigError,
    Failure,
    GenerationOptions,
    History,
    Limits,
    Policy,
    RetryPolicy,
    Rule,
    ToolCall,
    ToolSpec,
    Usage,
    UserMessage,
)
from cognition.base.ids import parse_effect_id
from cognition.base.repetition import cycle_length, fingerprint, remember
from cognition.context import fit, message_size, scale_after_measurement, shorten
from cognition.policy import SEVERITY
from cognition.steps.retry import classify, delay
from cognition.steps.state import Window

ACTIONS = st.sampled_from(["allow", "ask", "deny"])
PATTERNS = st.sampled_from(["*", "write", "read", "mcp.*", "mcp.files.*", "mcp.files.list", "w*"])
RULES = st.builds(Rule, ACTIONS, PATTERNS)
NAMES = st.sampled_from(["write", "read", "mcp.files.list", "other"])
TOOLS = st.builds(ToolSpec, NAMES, approval=st.booleans())


@given(st.lists(RULES), ACTIONS, TOOLS, st.lists(RULES), st.integers(0), PATTERNS)
@pytest.mark.behaviour("B10")
def test_adding_a_deny_rule_never_permits_more(
    rules: list[Rule], default: str, tool: ToolSpec, remembered: list[Rule], place: int, pattern: str
) -> None:
    """Policy is monotone (law L5)."""
    call = ToolCall("call-1-1-1", tool.name)
    before = Policy(tuple(rules), default).judge(call, tool, tuple(remembered))  # type: ignore[arg-type]  # literals
    at = place % (len(rules) + 1)
    more = (*rules[:at], Rule("deny", pattern), *rules[at:])
    after = Policy(more, default).judge(call, tool, tuple(remembered))  # type: ignore[arg-type]  # literals

    assert SEVERITY[before.action] <= SEVERITY[after.action]


@given(st.lists(RULES), ACTIONS, TOOLS, st.lists(RULES))
def test_what_the_user_allowed_never_lifts_a_denial(
    rules: list[Rule], default: str, tool: ToolSpec, remembered: list[Rule]
) -> None:
    call, policy = ToolCall("call-1-1-1", tool.name), Policy(tuple(rules), default)  # type: ignore[arg-type]  # literals
    if policy.judge(call, tool).action == "deny":
        assert policy.judge(call, tool, tuple(remembered)).action == "deny"
    if any(rule.action == "deny" and rule.matches(tool.name) for rule in remembered):
        assert policy.judge(call, tool, tuple(remembered)).action == "deny"


@pytest.mark.behaviour("B10")
def test_the_most_severe_rule_wins_and_a_tool_may_ask_for_itself() -> None:
    call, tool = ToolCall("call-1-1-1", "write"), ToolSpec("write")
    table = [
        (Policy(), tool, "allow"),
        (Policy(default="ask"), tool, "ask"),
        (Policy(), ToolSpec("write", approval=True), "ask"),
        (Policy(default="deny"), ToolSpec("write", approval=True), "deny"),
        (Policy((Rule("allow", "write"),)), ToolSpec("write", approval=True), "allow"),
        (Policy((Rule("allow", "write"), Rule("ask", "*"))), tool, "ask"),
        (Policy((Rule("deny", "*"), Rule("ask", "*"), Rule("allow", "write"))), tool, "deny"),
        (Policy((Rule("deny", "wri"),)), tool, "allow"),
    ]
    for policy, spec, expected in table:
        assert expected == policy.judge(call, spec).action


@pytest.mark.parametrize("pattern", ["", "a*b", "**"])
def test_a_rule_pattern_that_means_nothing_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError, match="rule pattern"):
        Rule("deny", pattern)


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (Failure("x", kind="modality", status=500), "modality"),
        (Failure("rate limit", status=401), "auth"),
        (Failure("x", status=429), "rate_limit"),
        (Failure("x", status=529), "rate_limit"),
        (Failure("x", status=503), "transient"),
        (Failure("x", status=599), "transient"),
        (Failure("x", status=418), "fatal"),
        (Failure("x", status=413), "context_overflow"),
        (Failure("This model's maximum context length is 8192 tokens", status=400), "context_overflow"),
        (Failure("bad", status=400, code="context_length_exceeded"), "context_overflow"),
        (Failure("bad request", status=400), "fatal"),
        (Failure("Connection reset by peer"), "transient"),
        (Failure("getaddrinfo failed"), "offline"),
        (Failure("The model is overloaded"), "rate_limit"),
        (Failure("rate limit", code="invalid_api_key"), "auth"),
        (Failure("this model does not support image input"), "modality"),
        (Failure("could not parse the response"), "bad_output"),
        (Failure("?"), "fatal"),
    ],
)
def test_failures_are_classified_by_status_then_code_then_text(failure: Failure, kind: str) -> None:
    assert kind == classify(failure)


@given(
    st.sampled_from(["transient", "rate_limit", "offline"]),
    st.integers(2, 10_000),
    st.integers(1, 10**9),
    st.none() | st.floats(-5, 1e9),
)
@pytest.mark.behaviour("B19")
def test_waits_are_positive_capped_and_repeatable(
    kind: str, attempt: int, turn: int, retry_after: float | None
) -> None:
    policy = RetryPolicy()
    seconds = delay(policy, kind, attempt, turn, retry_after)  # type: ignore[arg-type]  # one of the literals

    assert 0 <= seconds <= policy.longest_delay
    assert seconds == delay(policy, kind, attempt, turn, retry_after)  # type: ignore[arg-type]  # as above


def test_waits_double_and_double_again_for_rate_limits() -> None:
    """1 s, 2 s, 4 s ... and up to a quarter of jitter; a rate limit is one doubling ahead; Retry-After is kept."""
    policy = RetryPolicy()
    for attempt, base in ((2, 1.0), (3, 2.0), (4, 4.0), (6, 16.0)):
        plain = delay(policy, "transient", attempt, 1, None)
        limited = delay(policy, "rate_limit", attempt, 1, None)
        assert base <= plain < base * 1.25
        assert limited == min(2 * plain, policy.longest_delay)
    assert delay(policy, "transient", 40, 1, None) == 30.0
    assert delay(policy, "rate_limit", 2, 1, 12.5) == 12.5
    assert delay(policy, "rate_limit", 2, 1, 3600.0) == 30.0
    assert delay(policy, "transient", 2, 1, None) != delay(policy, "transient", 2, 2, None)


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.lists(st.integers())))
def test_a_fingerprint_does_not_depend_on_order_or_white_space(arguments: dict[str, object]) -> None:
    reordered = dict(reversed(arguments.items()))
    loose = json.dumps(reordered, indent=2)

    assert fingerprint("t", ToolCall("a", "t", arguments).arguments) == fingerprint("t", json.loads(loose))
    assert fingerprint("t", arguments) != fingerprint("u", arguments)


@given(st.lists(st.sampled_from("ab"), max_size=20))
@pytest.mark.behaviour("B8")
def test_a_cycle_is_seen_exactly_when_the_tail_repeats_three_times(marks: list[str]) -> None:
    recent: tuple[str, ...] = ()
    for mark in marks:
        recent = remember(recent, mark)
    expected = 0
    for length in (1, 2, 3):
        tail = marks[-3 * length :]
        if not expected and len(tail) == 3 * length and tail == tail[:length] * 3:
            expected = length

    assert expected == cycle_length(recent)


def test_a_cycle_of_four_is_no_loop() -> None:
    """Long cycles happen in honest work, such as read, edit, build, test."""
    assert cycle_length(tuple("abcd" * 3)) == 0


@pytest.mark.parametrize(("text", "expected"), [("9" * 18, int("9" * 18)), ("9" * 19, None)])
def test_counters_of_ids_have_at_most_eighteen_digits(text: str, expected: int | None) -> None:
    parsed = parse_effect_id(f"1.2.{text}")

    assert (None if expected is None else (1, 2, expected)) == parsed


@given(st.text(max_size=400), st.integers(8, 300))
@pytest.mark.behaviour("B15")
def test_shortening_keeps_both_ends_and_says_how_much_is_missing(text: str, limit: int) -> None:
    short = shorten(text, limit)

    assert len(short) <= len(text)
    if len(text) <= limit:
        assert text == short
    elif short != text:
        head, note, tail = short.partition("\n[... ")
        count, _, rest = tail.partition(" characters left out ...]\n")
        assert text.startswith(head)
        assert note
        assert text.endswith(rest)
        assert len(text) == len(head) + int(count) + len(rest)


def user(number: int, size: int, origin: str = "user") -> UserMessage:
    return UserMessage(f"m{number}", "x" * size, origin)  # type: ignore[arg-type]  # one of the literals


@given(
    st.lists(st.tuples(st.integers(0, 400), st.booleans()), min_size=1, max_size=30),
    st.floats(0.2, 5),
    st.integers(10, 2000),
)
@pytest.mark.behaviour("B16")
def test_trimming_drops_whole_turns_and_never_the_last(
    sizes: list[tuple[int, bool]], scale: float, budget: int
) -> None:
    """The window that fits starts at a turn, holds the newest turn, and is within the budget (law L9)."""
    history = History(user(i, size, "user" if first or i == 0 else "engine") for i, (size, first) in enumerate(sizes))
    window = Window(0, sum(message_size(m) for m in history), scale)
    starts = [i for i, m in enumerate(history) if isinstance(m, UserMessage) and m.origin == "user"]

    fitted = fit(history, window, 16.0, budget)

    if fitted is None:
        last = sum(message_size(m) for m in history[starts[-1] :])
        assert (16.0 + last) * scale > budget * 0.999
    else:
        assert fitted.first in starts
        assert fitted.size == pytest.approx(sum(message_size(m) for m in history[fitted.first :]))
        assert (16.0 + fitted.size) * scale <= budget


def test_a_measured_prompt_corrects_the_estimate_within_reason() -> None:
    assert scale_after_measurement(100.0, 150) == 1.5
    assert scale_after_measurement(100.0, 1) == 0.2
    assert scale_after_measurement(100.0, 10_000) == 5.0
    assert scale_after_measurement(100.0, 10**400) == 5.0
    assert scale_after_measurement(3.3, 16) == 16 / 3.3


@given(st.dictionaries(st.text(), st.text()))
def test_the_arguments_of_a_call_are_decoded_afresh_each_time(arguments: dict[str, object]) -> None:
    call = ToolCall("call-1-1-1", "t", arguments)
    first = call.arguments
    first["changed"] = True

    assert arguments == call.arguments


def test_arguments_that_json_can_not_carry_are_refused() -> None:
    for value in ({"a": float("nan")}, {"a": object()}):
        with pytest.raises(ConfigError, match="JSON"):
            ToolCall("call-1-1-1", "t", value)
    with pytest.raises(ValueError, match="no JSON object"):
        ToolCall("call-1-1-1", "t", "[]").arguments  # noqa: B018 - the access raises


@pytest.mark.parametrize(
    "make",
    [
        lambda: ToolSpec("no spaces"),
        lambda: ToolSpec(""),
        lambda: AgentConfig(tools=(ToolSpec("a"), ToolSpec("a"))),
        lambda: AgentConfig(context_tokens=0),
        lambda: AgentConfig(reply_tokens=0),
        lambda: AgentConfig(options=GenerationOptions(max_tokens=100), context_tokens=100),
        lambda: GenerationOptions(temperature=3),
        lambda: GenerationOptions(max_tokens=0),
        lambda: Limits(steps=0),
        lambda: Limits(seconds=-1),
        lambda: RetryPolicy(attempts=0),
    ],
)
def test_a_configuration_that_can_not_work_is_refused(make: object) -> None:
    with pytest.raises(ConfigError):
        make()  # type: ignore[operator]  # one of the lambdas


def test_arguments_are_written_as_the_letters_they_are() -> None:
    """As a model would write them: escapes would cost tokens and hide the text from whoever approves it."""
    assert ToolCall("call-1-1-1", "t", {"a": "é"}).arguments_json == '{"a": "é"}'


def test_usage_adds_up() -> None:
    assert Usage(1, 2, 3, 0.5) + Usage(3, 4, 0, 1.0) == Usage(4, 6, 3, 1.5)
