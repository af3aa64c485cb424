"""A rule: what to do with the calls that a pattern names."""

from __future__ import annotations

from typing import Literal

from attrs import Factory, field, frozen

from cognition.checking import checked
from cognition.policy.patterns import Pattern, read_pattern

Action = Literal["allow", "ask", "deny"]

Sort = Literal["command", "path", "text"]
"""What the argument of a rule is held against, which the tool says."""

PATH_ARGUMENTS = frozenset(
    """
    cwd destination dir directory file file_path filename files folder new_path notebook_path old_path path paths root
    source_path target_path working_directory
    """.split()
)
"""Names of parameters that are taken for paths where a tool says nothing of that."""

SEVERITY: dict[Action, int] = {"allow": 0, "ask": 1, "deny": 2}


def _read(rule: Rule) -> Pattern:
    return read_pattern(rule.tool)


@checked
@frozen
class Rule:
    """What to do with calls of the tools that a pattern names, and with arguments that it names."""

    action: Action
    """Whether they run, the user is asked, or they are refused."""
    tool: str
    """A tool's name (``write``), the beginning of names (``mcp.files.*``, ``*``), or either with an argument in
    brackets: ``Bash(git push:*)``, ``Write(src/**)``, ``*(.env)``. See ``docs/policy.md``."""
    reason: str = ""
    """Told to the model when the rule denies."""
    pattern: Pattern = field(init=False, repr=False, eq=False, default=Factory(_read, takes_self=True))
    """``tool``, as it was read."""

    def matches(self, name: str) -> bool:
        """Whether it is for calls of this tool, with some arguments or with any."""
        return self.pattern.names(name)
