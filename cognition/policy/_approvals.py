"""A tool's own approval setting: it asks about all calls, no calls, or those that its patterns match."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from cognition.policy._rule_table import Looked, Table
from cognition.policy.rule_patterns import Pattern, read_pattern
from cognition.policy.rules import Rule
from cognition.values.tools import ToolSpec


def asks_for_itself(looked: Looked) -> bool:
    """Return whether the tool itself asks the user before this call.

    Its patterns match as widely as those of deny rules, in any spelling of the call. An uncertain match counts as a
    match.
    """
    approval = looked.tool.approval
    if isinstance(approval, bool):
        return approval
    found = _table(looked.tool.name, approval).find(looked)
    return found.ask is not None or found.perhaps is not None


def own_patterns(tools: Iterable[ToolSpec]) -> list[Pattern]:
    """Return the patterns of all tools that ask about some of their calls.

    Raises:
        ConfigError: a pattern is invalid.
    """
    return [
        read_pattern(f"{tool.name}({argument})")
        for tool in tools
        if not isinstance(tool.approval, bool)
        for argument in tool.approval
    ]


@lru_cache(maxsize=256)
def _table(name: str, arguments: tuple[str, ...]) -> Table:
    return Table(Rule("ask", f"{name}({argument})") for argument in arguments)
