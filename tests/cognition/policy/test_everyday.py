"""What stays free: ordinary command lines under two denials."""

from __future__ import annotations

from cognition import Policy, Rule, ToolCall
from tests.cognition.policy.everyday import EVERYDAY
from tests.cognition.policy.hostile import BASH

MOST_QUESTIONS = 10
"""Of 150 lines."""


def test_ordinary_commands_run_without_a_question_under_two_denials() -> None:
    policy = Policy((Rule("deny", "Bash(curl:*)"), Rule("deny", "Bash(rm -rf:*)")))
    judged = {line: policy.judge(ToolCall("1", "Bash", {"command": line}), BASH).action for line in EVERYDAY}

    assert [line for line, action in judged.items() if action == "deny"] == []
    assert len(judged) >= 150
    assert len({line.split()[0] for line in EVERYDAY}) >= 50
    asking = [line for line, action in judged.items() if action == "ask"]
    assert len(asking) <= MOST_QUESTIONS * len(judged) / 150, asking
