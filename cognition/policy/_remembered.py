"""Turn a user's "from now on" answer about a call into a rule of the session."""

from __future__ import annotations

from cognition.base.errors import ConfigError
from cognition.policy._rule_table import JudgedCall, Table
from cognition.policy.rule_patterns import read_pattern
from cognition.policy.rules import Action, Rule
from cognition.values.messages import ToolCall
from cognition.values.tools import ToolSpec


def remembered_rule(action: Action, text: str, call: ToolCall, tool: ToolSpec, reason: str = "") -> Rule:
    """Return the rule to remember for an answer about a call; without a pattern it covers the whole tool.

    Raises:
        ConfigError: the pattern can't be read, is not for this tool alone, can never match, or allows a different call.
    """
    if not text:
        return Rule(action, tool.name, reason)
    pattern = read_pattern(text)
    if pattern.open or pattern.name != tool.name:
        behind = f"({pattern.argument}{':*' * pattern.prefix})" if pattern.argument else ""
        raise ConfigError(
            f"rule pattern {text!r}: the question was about {tool.name!r}, and an answer is about no other tool; "
            f"write {tool.name + behind!r}"
        )
    if pattern.argument and tool.command:
        from cognition.policy._arguments import check_command

        check_command(pattern)
    rule = Rule(action, text, reason)
    if action == "allow" and not covers(rule, call, tool):
        raise ConfigError(
            f"rule pattern {text!r} does not cover the call that is approved, {call.arguments_json[:200]}; write one "
            f"of those that proposed_rules() gives for it, or leave rule out to allow all calls of {tool.name!r}"
        )
    return rule


def covers(rule: Rule, call: ToolCall, tool: ToolSpec) -> bool:
    """Return whether an allow rule covers a whole call."""
    return Table((rule,)).find(JudgedCall(call, tool)).allow is not None
