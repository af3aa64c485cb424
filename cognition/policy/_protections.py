"""Ready-made rules for a policy."""

from __future__ import annotations

from cognition.policy.rules import Rule

FETCHING = "fetching from the network by the shell is not permitted; use a tool that is made for it"


def shell_protections(tool: str = "Bash") -> tuple[Rule, ...]:
    """Return essential rules for a tool that takes command lines."""
    return tuple([Rule("deny", f"{tool}({program}:*)", FETCHING) for program in ("curl", "wget")])


SHELL_PROTECTIONS = shell_protections()
"""``curl`` and ``wget`` are denied, for a tool named ``Bash``."""
