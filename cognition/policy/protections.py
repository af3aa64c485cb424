"""Rules that are ready to be put into a policy."""

from __future__ import annotations

from cognition.policy.rules import Rule

FETCHING = "fetching from the network by the shell is not permitted; use a tool that is made for it"


def shell_protections(tool: str = "Bash") -> tuple[Rule, ...]:
    """Rules for a tool that takes command lines: what a policy should not do without."""
    return tuple([Rule("deny", f"{tool}({program}:*)", FETCHING) for program in ("curl", "wget")])


SHELL_PROTECTIONS = shell_protections()
"""``curl`` and ``wget`` are denied, for a tool of the name ``Bash``."""
