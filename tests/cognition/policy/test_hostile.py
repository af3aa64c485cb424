"""Calls that try to get past a rule: each gets the verdict of its table. test_hostile_runs.py runs them."""

from __future__ import annotations

import pytest

from cognition import SHELL_PROTECTIONS, Policy, Rule, ToolCall
from cognition.policy import Action
from tests.cognition.naming import case_name
from tests.cognition.policy.evading import BEYOND, EVADING, TRICKS, UNCOVERED, UNSEEN
from tests.cognition.policy.hostile import BASH, EXPECTED, EXPECTED_PATHS, PATHS, SHELL, WRITE, lines_of

OPEN = Policy((*SHELL_PROTECTIONS, Rule("deny", "Bash(rm -rf:*)"), Rule("deny", "Bash(git push:*)")))
"""The denials of ``SHELL``; everything else is allowed."""


@pytest.mark.parametrize(("action", "line"), [(a, line) for a, lines in EXPECTED for line in lines], ids=case_name)
@pytest.mark.behaviour("B10")
def test_a_command_line_is_judged_by_what_it_runs(action: Action, line: str) -> None:
    assert action == SHELL.judge(ToolCall("1", "Bash", {"command": line}), BASH).action


@pytest.mark.parametrize(
    ("action", "path"), [(a, path) for a, paths in EXPECTED_PATHS for path in paths], ids=case_name
)
@pytest.mark.behaviour("B10")
def test_a_path_is_judged_by_where_it_leads(action: Action, path: str) -> None:
    assert action == PATHS.judge(ToolCall("1", "Write", {"path": path}), WRITE).action


def judged(policy: Policy, line: str) -> Action:
    return policy.judge(ToolCall("1", "Bash", {"command": line}), BASH).action


@pytest.mark.parametrize("line", EVADING, ids=case_name)
@pytest.mark.behaviour("B10")
def test_what_runs_others_in_its_own_way_is_asked_about_though_all_else_is_allowed(line: str) -> None:
    assert judged(OPEN, line) != "allow"


@pytest.mark.parametrize("line", lines_of(TRICKS), ids=case_name)
@pytest.mark.behaviour("B10")
def test_no_allowance_covers_a_trick(line: str) -> None:
    assert judged(SHELL, line) != "allow"


@pytest.mark.parametrize("line", lines_of(UNSEEN), ids=case_name)
@pytest.mark.behaviour("B10")
def test_what_an_earlier_reader_overlooked_is_asked_about(line: str) -> None:
    assert judged(OPEN, line) != "allow"


@pytest.mark.parametrize("policy", [OPEN, SHELL], ids=["all else is allowed", "allowances"])
@pytest.mark.parametrize("line", lines_of(UNCOVERED), ids=case_name)
@pytest.mark.behaviour("B10")
def test_no_allowance_covers_what_an_earlier_reader_overlooked(policy: Policy, line: str) -> None:
    assert judged(policy, line) != "allow"


@pytest.mark.parametrize("line", lines_of(BEYOND), ids=case_name)
def test_a_limit_that_the_guide_names_is_one(line: str) -> None:
    assert judged(OPEN, line) == "allow"


@pytest.mark.parametrize("mode", ["auto", "bypassPermissions"])
@pytest.mark.parametrize("line", ["eval $X", "case a in $X) ls;; esac", "cu*l x", "x" * 200_000 + ";"])
def test_what_may_evade_a_rule_is_asked_about_in_every_mode(mode: str, line: str) -> None:
    call = ToolCall("1", "Bash", {"command": line})

    assert SHELL.judge(call, BASH, mode=mode).action == "ask"  # type: ignore[arg-type]  # one of the modes
    assert Policy().judge(call, BASH).action == "ask"
    assert Policy().judge(call, BASH, mode=mode).action == "allow"  # type: ignore[arg-type]  # as above


@pytest.mark.parametrize(
    ("action", "line"),
    [
        ("deny", "ls > /etc/x"),
        ("ask", "cd /etc; ls > x"),
        ("ask", "ls | (pushd /etc && cat >> x)"),
        ("deny", "cd .. && ls > /etc/x"),
        ("ask", "cd $X; ls > etc/x"),
        ("allow", "cd /etc; ls"),
        ("allow", "ls > x"),
        ("allow", "cd /etc; ls > /tmp/x 2>&1"),
        ("allow", "cd /etc; ls > ~/x"),
    ],
)
def test_a_file_in_another_directory_may_be_one_that_a_rule_means(action: Action, line: str) -> None:
    policy = Policy((Rule("deny", "Bash(> /etc/*)"),))

    assert policy.judge(ToolCall("1", "Bash", {"command": line}), BASH).action == action


def test_there_are_more_than_a_hundred_cases() -> None:
    for table, least in ((EXPECTED, 250), (EXPECTED_PATHS, 60)):
        cases = [case for _, cases in table for case in cases]
        assert len(set(cases)) == len(cases) > least
