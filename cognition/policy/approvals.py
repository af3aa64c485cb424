"""Which calls of a tool are asked about by the tool's own word: all of them, none, or those that its patterns name."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from cognition.policy.patterns import Pattern, read_pattern
from cognition.policy.rules import Rule
from cognition.policy.tables import Looked, Table
from cognition.tools import ToolSpec


def asks_for_itself(looked: Looked) -> bool:
    """Whether the tool says that the user is asked before this call.

    Its patterns are read as those of prohibitions are, whatever way the call is spelt; where nobody can say whether one
    means the call, it does.
    """
    approval = looked.tool.approval
    if isinstance(approval, bool):
        return approval
    found = _table(looked.tool.name, approval).find(looked)
    return found.ask is not None or found.perhaps is not None


def own_patterns(tools: Iterable[ToolSpec]) -> list[Pattern]:
    """The patterns of all tools that ask about some of their calls.

    Raises:
        ConfigError: one is none.
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
