"""Dangers: the worst of those that a call is decides, however it is spelt, and data permits nothing."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, strategies as st

import cognition.policy
from cognition import CogstepError, Policy, Rule, ToolCall, ToolSpec, from_data, to_data
from cognition.policy import DANGERS, SEVERITY, Action, Danger, Layer, danger_of, danger_rules, shell_dangers
from cognition.policy._risks import LEVELS, Level

BASH = ToolSpec("Bash", command="command")
PAY = ToolSpec("pay")
KNOWN = shell_dangers()


def bash(line: str) -> ToolCall:
    return ToolCall("1", "Bash", {"command": line})


@pytest.mark.parametrize(
    ("line", "level", "action"),
    [
        ("sudo mkfs /dev/sda", "block", "deny"),
        ("mkfs.ext4 /dev/sda", "block", "deny"),
        ("echo x > /dev/sda", "block", "deny"),
        ("echo x >> /dev/nvme0n1", "block", "deny"),
        ("true && rm -rf /", "block", "deny"),
        ("rm -r -f //", "block", "deny"),
        ("rm -fr x", "destructive", "ask"),
        ("ls; rm  --recursive --force x", "destructive", "ask"),
        ("/bin/rm -r -f x", "destructive", "ask"),
        ("bash -c 'sudo ls'", "destructive", "ask"),
        ("git push -f", "destructive", "ask"),
        ("git -C x push", "confirm", "ask"),
        ("echo $(git push)", "confirm", "ask"),
        ("eval $X", "block", "ask"),
        ("rm x", None, "allow"),
        ("rm -rf", "destructive", "ask"),
        ("echo 'rm -rf /'", None, "allow"),
        ("echo x > /dev/null", None, "allow"),
    ],
)
def test_what_a_command_line_is(line: str, level: Level | None, action: Action) -> None:
    """``mkfs`` behind ``sudo`` is as bad as ``mkfs``; where nobody can say what a line does it may be the worst."""
    danger = danger_of(KNOWN, bash(line), BASH)
    policy = Policy(danger_rules(KNOWN))
    policy.check([BASH])

    assert level == (danger and danger.level)
    assert action == policy.judge(bash(line), BASH).action


@pytest.mark.parametrize(
    ("arguments", "met"),
    [
        ({"to": "EVIL Corp"}, True),
        ({"to": ["x", {"y": "evil\ncorp"}]}, True),
        ({"to": "good"}, False),
        ({"evil corp": 1}, False),
    ],
)
def test_texts_are_looked_at_as_they_are_decoded(arguments: dict[str, Any], met: bool) -> None:
    """Not at the JSON that they came in, in which a line break is two other characters."""
    dangers = (Danger("pay(evil*)", "block", "they are known for it"),)
    call = ToolCall("1", "pay", arguments)

    assert met == (danger_of(dangers, call, PAY) is not None)
    verdict = Policy(danger_rules(dangers)).judge(call, PAY)
    assert (verdict.action, verdict.reason) == (("deny", "they are known for it") if met else ("allow", ""))


def test_the_worst_is_told_wherever_it_stands_and_of_equals_the_first() -> None:
    levels = [Danger("pay", level, level) for level in LEVELS]
    call = ToolCall("1", "pay", {})
    for order in permutations(levels):
        assert danger_of(order, call, PAY) == Danger("pay", "block", "block")
    same = (Danger("pay", "warn", "one"), Danger("*", "warn", "two"), Danger("other", "block"))
    assert danger_of(same, call, PAY) == same[0]
    assert danger_of(iter(same[1:]), call, PAY) == same[1]
    assert danger_of((), call, PAY) is None


@given(
    st.lists(st.builds(Danger, st.sampled_from(["pay", "*", "pay(a*)", "other"]), st.sampled_from(LEVELS))),
    st.sampled_from([(), (Rule("allow", "pay"),), (Rule("ask", "*"),), (Rule("deny", "pay(b)"),)]),
    st.sampled_from(list(SEVERITY)),
    st.sampled_from(["a", "b", "abc"]),
)
def test_dangers_permit_nothing(dangers: list[Danger], rules: tuple[Rule, ...], default: Action, text: str) -> None:
    """Whatever somebody says is safe, it is judged no softer than without that."""
    call = ToolCall("1", "pay", {"to": text})

    before = Policy(rules, default).judge(call, PAY)
    after = Policy(rules, default).under(Layer(danger_rules(dangers))).judge(call, PAY)

    assert SEVERITY[after.action] >= SEVERITY[before.action]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Danger("pay", "severe"), "severe"),  # type: ignore[arg-type]
        (lambda: Danger("pay(", "block"), "is not closed"),
        (lambda: from_data({"pattern": "pay", "level": "sever"}, Danger), "not one of: safe, warn"),
    ],
)
def test_what_is_no_danger_is_refused(make: Any, told: str) -> None:
    with pytest.raises(CogstepError, match=told):
        make()


def test_dangers_are_data() -> None:
    assert [from_data(to_data(danger), Danger) for danger in KNOWN] == list(KNOWN)
    assert shell_dangers() == KNOWN
    assert {danger.level for danger in KNOWN} == {"confirm", "destructive", "block"}
    assert all(danger.reason and danger.pattern.startswith("run(") for danger in shell_dangers("run"))


def test_dangers_are_loaded_when_they_are_asked_for() -> None:
    """A policy without any needs none of it."""
    assert [cognition.policy.__getattr__(name) for name in sorted(DANGERS)] == [
        Danger,
        Level,
        danger_of,
        danger_rules,
        shell_dangers,
    ]
    with pytest.raises(AttributeError, match="has no attribute 'Dangers'"):
        cognition.policy.__getattr__("Dangers")
