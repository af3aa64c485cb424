"""The policy seam in full: which rules match, which of them wins, what a mode makes of it, and why."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from cognition import Policy, Rule, ToolCall, ToolSpec, Verdict
from cognition.values.features import Mode

NAMES = st.text("abcd._-", min_size=1, max_size=6)
CALL = ToolCall("call-1-1-1", "write")
WRITE = ToolSpec("write")
LOOK = ToolSpec("write", read_only=True)
ALLOWED, DENIED = Verdict("allow"), Verdict("deny")
PLANNING = Verdict("deny", "only read-only tools run while planning")
CAREFUL = Verdict("ask", "everything that is not read-only asks")


@given(NAMES, NAMES)
@pytest.mark.behaviour("B10")
def test_a_pattern_matches_a_name_or_with_a_star_all_that_begin_so(prefix: str, name: str) -> None:
    assert (name == prefix) == Rule("ask", prefix).matches(name)
    assert name.startswith(prefix) == Rule("ask", prefix + "*").matches(name)
    assert Rule("ask", "*").matches(name)
    assert not Rule("ask", name + "x*").matches(name)


@pytest.mark.parametrize(
    ("policy", "tool", "mode", "expected"),
    [
        (Policy(), WRITE, "default", ALLOWED),
        (Policy(), WRITE, "careful", CAREFUL),
        (Policy(), LOOK, "careful", ALLOWED),
        (Policy(default="ask"), WRITE, "careful", Verdict("ask")),
        (Policy(default="deny"), WRITE, "careful", DENIED),
        (Policy(), WRITE, "plan", PLANNING),
        (Policy(), LOOK, "plan", ALLOWED),
        (Policy(default="ask"), LOOK, "plan", Verdict("ask")),
        (Policy(), WRITE, "auto", ALLOWED),
        (Policy(default="ask"), WRITE, "auto", ALLOWED),
        (Policy(default="deny"), WRITE, "auto", DENIED),
        (
            Policy((Rule("ask", "*", "first"), Rule("ask", "write", "second"))),
            WRITE,
            "default",
            Verdict("ask", "first"),
        ),
        (Policy((Rule("ask", "*"), Rule("deny", "write", "why"))), WRITE, "auto", Verdict("deny", "why")),
        (Policy(), ToolSpec("write", approval=True), "default", Verdict("ask", "the tool asks for approval")),
    ],
)
@pytest.mark.behaviour("B10")
def test_a_verdict_is_the_rules_then_the_modes(policy: Policy, tool: ToolSpec, mode: Mode, expected: Verdict) -> None:
    """The first of equally severe rules gives the reason; a mode never lifts a denial."""
    assert expected == policy.judge(CALL, tool, mode=mode)


@pytest.mark.parametrize(
    ("remembered", "default", "expected"),
    [
        ((Rule("deny", "write", "never"),), "allow", Verdict("deny", "never")),
        ((Rule("deny", "write", "never"), Rule("deny", "*", "later")), "ask", Verdict("deny", "never")),
        ((Rule("allow", "write"), Rule("deny", "write", "changed")), "ask", Verdict("deny", "changed")),
        ((Rule("deny", "write", "no"), Rule("allow", "write")), "ask", Verdict("deny", "no")),
        ((Rule("allow", "write", "yes"),), "ask", Verdict("allow", "yes")),
        ((Rule("allow", "write", "yes"),), "deny", DENIED),
        ((Rule("deny", "read"), Rule("allow", "read")), "ask", Verdict("ask")),
    ],
)
def test_what_the_user_said_from_now_on(remembered: tuple[Rule, ...], default: str, expected: Verdict) -> None:
    """An allowance lifts a question and nothing else; a refusal holds whatever else was said, with its own reason."""
    policy = Policy(default=default)  # type: ignore[arg-type]  # one of the literals

    assert expected == policy.judge(CALL, WRITE, remembered)
