"""A rule: the action for the calls that a pattern names."""

from __future__ import annotations

from typing import Literal

from attrs import Factory, field, frozen

from cognition.base.checking import checked
from cognition.policy.rule_patterns import Pattern, read_pattern

Action = Literal["allow", "ask", "deny"]

Sort = Literal["command", "path", "text"]
"""The kind of text that a rule's argument is compared with; the tool determines it."""

PATH_ARGUMENTS = frozenset(
    """
    cwd destination dir directory file file_path filename files folder new_path notebook_path old_path path paths root
    source_path target_path working_directory
    """.split()
)
"""Names of parameters treated as paths if the tool does not declare its paths."""

SEVERITY: dict[Action, int] = {"allow": 0, "ask": 1, "deny": 2}


def _read(rule: Rule) -> Pattern:
    return read_pattern(rule.tool)


@checked
@frozen
class Rule:
    """The action for calls of the tools, and with the arguments, that a pattern names."""

    action: Action
    """Whether they run, ask the user, or are refused."""
    tool: str
    """A tool's name (``write``), the beginning of names (``mcp.files.*``, ``*``), or either with an argument in
    parentheses: ``Bash(git push:*)``, ``Write(src/**)``, ``*(.env)``. See ``docs/guides/policy.md``.
    """
    reason: str = ""
    """Sent to the model when the rule denies."""
    pattern: Pattern = field(init=False, repr=False, eq=False, default=Factory(_read, takes_self=True))
    """The parsed ``tool``."""

    def matches(self, name: str) -> bool:
        """Return whether it is for calls of this tool, with any or some arguments."""
        return self.pattern.names(name)


FETCHING = "fetching from the network by the shell is not permitted; use a tool that is made for it"


def shell_protections(tool: str = "Bash") -> tuple[Rule, ...]:
    """Return essential rules for a tool that takes command lines."""
    return tuple([Rule("deny", f"{tool}({program}:*)", FETCHING) for program in ("curl", "wget")])


SHELL_PROTECTIONS = shell_protections()
"""``curl`` and ``wget`` are denied, for a tool named ``Bash``."""
