"""Where one character, one word or one rule more makes the difference."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cognition import AgentConfig, ConfigError, Policy, Rule, ToolCall, ToolSpec, shell_protections
from cognition.policy import Action
from cognition.policy._judgement import MAY_CONCERN
from cognition.policy._path_patterns import LONGEST, read_path
from cognition.policy._text_patterns import fits
from cognition.policy.rules import FETCHING
from tests.cognition.naming import case_name

BASH = ToolSpec("Bash", command="command")
FETCH = ToolSpec("fetch")
NO_CURL = Policy((Rule("deny", "Bash(curl:*)"),))


TWICE = (("Bash", "*"), ("*", "Bash"), ("Bash(ls:*)", "Bash(ls -l:*)"))
"""Two patterns that both mean ``ls -l``."""


def judged(policy: Policy, tool: ToolSpec, arguments: dict[str, Any]) -> Action:
    return policy.judge(ToolCall("1", tool.name, json.dumps(arguments)), tool).action


@pytest.mark.parametrize(
    ("action", "line"),
    [
        ("ask", "python"),
        ("ask", "python -"),
        ("ask", "python -u"),
        ("ask", "python $X"),
        ("ask", "python -u $X"),
        ("ask", "python -cx f.py"),
        ("ask", "python /dev/stdin"),
        ("ask", "python /dev/stdin x"),
        ("ask", "node --eval=a=b f.js"),
        ("allow", "python --version"),
        ("allow", "python x.py"),
        ("allow", "python x.py $X"),
        ("allow", "python x.py -u"),
        ("ask", "python --check f.py"),
        ("ask", "bash"),
        ("ask", "bash -"),
        ("ask", "bash -e"),
        ("ask", "bash /dev/stdin"),
        ("allow", "bash x.sh"),
        ("deny", "bash -O extglob -c 'curl x'"),
        ("deny", "bash -c -e 'curl x'"),
        ("allow", "bash -O extglob -c 'ls'"),
        ("allow", "ls | xargs -I % echo %"),
        ("allow", "ls | xargs -I {} echo {}"),
        ("ask", "ls | xargs -I curl echo curl"),
        ("deny", "find -exec curl {} +"),
        ("deny", "find . -ok curl {} \\;"),
        ("deny", "find . -okdir curl {} \\;"),
        ("allow", "find . -exec echo x{} \\;"),
        ("ask", "find . -exec env x{} \\;"),
        ("allow", "find . -newermt 2026-01-01 -o -fprintf a b -exec echo {} +"),
        ("allow", "tclsh a.tcl x"),
        ("allow", "swipl -q a.pl"),
        ("ask", "swipl a.pl -g x"),
        ("ask", "osascript a $X"),
        ("allow", "python -W ignore -X dev -u a.py -c x"),
        ("allow", "perl -w a.pl -e x"),
        ("ask", "perl -i a.pl"),
        ("allow", "node --watch a.js -e"),
        ("ask", "node --require x a.js"),
        ("allow", "python -m json.tool a.json"),
        ("ask", "python -m timeit x"),
        ("ask", "python -m"),
        ("ask", "python -m $X"),
        ("allow", "awk -F: -v a=1 -f a.awk in"),
        ("ask", "awk -f"),
        ("ask", "sed --file=x y"),
        ("ask", "sed --f x y"),
        ("ask", "sed --of=p y"),
        ("ask", "GIT_CONFIG_COUNT=1 git log"),
        ("deny", "PAGER='curl --x=y' git log"),
        ("ask", "XPAGER=curl git log"),
    ],
    ids=case_name,
)
def test_what_a_program_is_given_decides_what_it_runs(action: Action, line: str) -> None:
    assert judged(NO_CURL, BASH, {"command": line}) == action


@pytest.mark.parametrize(
    ("parts", "text", "does"),
    [
        (("a", "b"), "ab", True),
        (("ab", "ba"), "aba", False),
        (("a", "b", "c"), "acbc", True),
        (("a", "bb", "c"), "abc", False),
        (("", "x", ""), "x", True),
        (("a", "b", "b", "c"), "abc", False),
        (("a", "b", "b", "c"), "abxbc", True),
        (("a", "c", "c"), "ac", False),
        (("a", "a", "c"), "axc", False),
    ],
)
def test_pieces_stand_one_behind_another(parts: tuple[str, ...], text: str, does: bool) -> None:
    assert fits(parts, text) is does


@pytest.mark.parametrize(
    ("pattern", "text", "does"),
    [
        ("fetch(ab:*)", "ab", True),
        ("fetch(ab:*)", "ab c", True),
        ("fetch(ab:*)", "ab-c", True),
        ("fetch(ab:*)", "abc", False),
        ("fetch(ab:*)", "abc-d", False),
        ("fetch(ab:*)", "ab_c", False),
        ("fetch(ab:*)", "xab", False),
        ("fetch(a*b:*)", "a1b c", True),
        ("fetch(a*b:*)", "a c", False),
        ("fetch(a b c:*)", "a b c", True),
        ("fetch(a b c:*)", "a b c-d", True),
        ("fetch(a b c:*)", "a b cd", False),
        ("fetch(a b c:*)", "a b cd-e", False),
        ("fetch(a b c:*)", "a b c1", False),
        ("fetch(a b c:*)", "a b c_", False),
        ("fetch(a b c:*)", "a b d", False),
        ("fetch(a b (:*)", "a b (c", True),
    ],
)
def test_a_prohibition_on_a_beginning_ends_with_a_word(pattern: str, text: str, does: bool) -> None:
    assert (judged(Policy((Rule("deny", pattern),)), FETCH, {"url": text}) == "deny") is does


def test_no_allowance_covers_what_stands_behind_a_star_and_a_beginning() -> None:
    policy = Policy((Rule("allow", "fetch(a*b:*)"),), "ask")

    assert judged(policy, FETCH, {"url": "a1b"}) == "ask"


@pytest.mark.parametrize(
    ("action", "patterns"),
    [
        *((action, patterns) for action in ("ask", "deny", "allow") for patterns in TWICE),
        ("ask", ("*(ls:*)", "Bash(ls:*)")),
        ("deny", ("*(ls:*)", "Bash(ls:*)")),
    ],
)
def test_of_rules_that_say_the_same_the_first_one_is_told(action: Action, patterns: tuple[str, str]) -> None:
    rules = tuple([Rule(action, pattern, f"rule {number}") for number, pattern in enumerate(patterns)])
    verdict = Policy(rules, "allow" if action != "allow" else "ask").judge(
        ToolCall("1", "Bash", {"command": "ls -l"}), BASH
    )

    assert (verdict.action, verdict.reason, verdict.rule) == (action, "rule 0", rules[0])


@pytest.mark.parametrize("patterns", [("Bash(ls -l)", "Bash(ls -a)"), ("Bash(ls -a)", "Bash(ls -l)")])
def test_what_may_meet_several_rules_is_asked_about_for_the_first_one(patterns: tuple[str, str]) -> None:
    rules = tuple([Rule("deny", pattern) for pattern in patterns])
    verdict = Policy(rules).judge(ToolCall("1", "Bash", {"command": "ls $X"}), BASH)

    assert (verdict.action, verdict.reason, verdict.rule) == ("ask", MAY_CONCERN.format(rule=rules[0].tool), rules[0])


@pytest.mark.parametrize("line", ["ls; cat x", "cat x; ls"])
def test_where_several_rules_allow_a_line_the_first_one_is_told(line: str) -> None:
    rules = Rule("allow", "Bash(ls:*)"), Rule("allow", "Bash(cat:*)")
    verdict = Policy(rules, "ask").judge(ToolCall("1", "Bash", {"command": line}), BASH)

    assert (verdict.action, verdict.rule) == ("allow", rules[0])


@pytest.mark.parametrize("patterns", [("Bash(curl:*)", "*(wget:*)"), ("*(wget:*)", "Bash(curl:*)")])
def test_what_can_not_be_read_is_asked_about_for_the_first_rule_that_it_might_evade(patterns: tuple[str, str]) -> None:
    rules = tuple([Rule("deny", pattern) for pattern in patterns])
    verdict = Policy(rules).judge(ToolCall("1", "Bash", {"command": "eval $X"}), BASH)

    assert (verdict.action, verdict.reason, verdict.rule) == ("ask", MAY_CONCERN.format(rule=rules[0].tool), rules[0])


def test_what_a_tool_is_allowed_as_a_whole_no_narrower_allowance_takes_back() -> None:
    policy = Policy((Rule("allow", "Bash"), Rule("allow", "Bash(ls:*)")), "ask")

    assert judged(policy, BASH, {"command": "rm x"}) == "allow"


def test_a_tool_is_named_whole_or_by_its_beginning() -> None:
    assert not Rule("deny", "Bash").matches("BashOutput")
    assert judged(Policy((Rule("deny", "Bash"), Rule("deny", "BashOutput*"))), BASH, {"command": "ls"}) == "deny"
    assert judged(Policy((Rule("deny", "mcp.files.*"),)), ToolSpec("mcp.files."), {}) == "deny"


def test_the_protections_name_the_tool_and_say_why() -> None:
    assert shell_protections("sh") == (
        Rule("deny", "sh(curl:*)", FETCHING),
        Rule("deny", "sh(wget:*)", FETCHING),
    )
    assert shell_protections()[0].tool == "Bash(curl:*)"


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("", "there is no tool's name at 0; write '*'"),
        ("Bash)", "the ')' at 4 was not opened; write 'Bash'"),
        ("Bash(git", "the '(' at 4 is not closed; write 'Bash(git)'"),
        ("Bash( ", "the '(' at 4 is not closed; write 'Bash'"),
        ("(", "the '(' at 0 is not closed; write '*'"),
        ("Bash(git) x", "' x' at 9 stands behind the ')'; write 'Bash(git)'"),
        ("Bash(a)b)c", "'c' at 9 stands behind the ')'; write 'Bash(a)b)'"),
        ("Bash(a)" + "y" * 25, f"'{'y' * 20}' at 7 stands behind the ')'; write 'Bash(a)'"),
    ],
)
def test_a_mistake_in_brackets_is_pointed_at(pattern: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        Rule("deny", pattern)

    assert str(error.value) == f"rule pattern {pattern!r}: {message}"


def test_a_rule_of_several_commands_is_refused_with_one_that_is_none() -> None:
    with pytest.raises(ConfigError) as error:
        AgentConfig(tools=(BASH,), policy=Policy((Rule("deny", "Bash(;X& y)"),)))

    assert str(error.value) == (
        "rule pattern with the argument ';X& y': it is for one command, without ';', '|', '&', brackets or open "
        "quotes; write a rule for each command, such as 'Bash(X:*)'"
    )


def test_a_path_is_read_up_to_its_longest_and_none_with_a_nul() -> None:
    assert read_path("a" * LONGEST) is not None
    assert (read_path("a" * (LONGEST + 1)), read_path("a\0b"), read_path("")) == (None, None, None)


def test_one_path_that_can_not_be_read_makes_the_call_unsure_whatever_else_it_names() -> None:
    move = ToolSpec("move", paths=("old", "new"))
    policy = Policy((Rule("deny", "move(secrets/**)"),))

    assert judged(policy, move, {"old": "a\0b", "new": "src/x"}) == "ask"
    assert judged(policy, move, {"old": "src/x", "new": "a\0b"}) == "ask"
    assert judged(policy, move, {"old": "secrets/x", "new": "--- y\n+++ y\n"}) == "deny"


def test_what_needs_approval_each_time_is_named() -> None:
    shell = ToolSpec("Bash", command="command", asks_with=("network", "root", "quick"))
    call = ToolCall("1", "Bash", {"command": "ls", "network": True, "root": "/", "quick": False})

    assert Policy().judge(call, shell).reason == "the call sets network, root, which needs approval each time"
