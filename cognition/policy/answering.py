"""What the user says of a call "from now on": as a rule of the session, and the rules that there are to choose from."""

from __future__ import annotations

from cognition.errors import ConfigError
from cognition.messages import ToolCall
from cognition.policy.patterns import read_pattern
from cognition.policy.rules import Action, Rule
from cognition.policy.tables import Looked, Table
from cognition.tools import ToolSpec


def remembered_rule(action: Action, text: str, call: ToolCall, tool: ToolSpec, reason: str = "") -> Rule:
    """The rule that is remembered of an answer about a call; without a pattern it is for the whole tool.

    Raises:
        ConfigError: the pattern can't be read, is not for this tool alone, would never match, or allows something else
            than this call.
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
        from cognition.policy.arguments import check_command

        check_command(pattern)
    rule = Rule(action, text, reason)
    if action == "allow" and not covers(rule, call, tool):
        raise ConfigError(
            f"rule pattern {text!r} does not cover the call that is approved, {call.arguments_json[:200]}; write one "
            f"of those that proposed_rules() gives for it, or leave rule out to allow all calls of {tool.name!r}"
        )
    return rule


def covers(rule: Rule, call: ToolCall, tool: ToolSpec) -> bool:
    """Whether an allowance is for all of a call."""
    return Table((rule,)).find(Looked(call, tool)).allow is not None
