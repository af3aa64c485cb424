"""Dangers as data: calls that a pattern names, and how bad it would be if one of them ran.

Whoever brings a tool, or instructions for one, brings these along; a policy takes them over as the rules of a layer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Literal, get_args

from attrs import Factory, field, frozen

from cognition.checking import checked
from cognition.messages import ToolCall
from cognition.policy.rules import Action, Rule
from cognition.policy.tables import Looked, Table
from cognition.tools import ToolSpec

Level = Literal["safe", "warn", "confirm", "destructive", "block"]
"""From harmless to what never runs."""

LEVELS: tuple[Level, ...] = get_args(Level)
ACTIONS: Mapping[Level, Action] = {"confirm": "ask", "destructive": "ask", "block": "deny"}
"""What a policy does about each level. The others are told and change nothing: data that somebody brings permits no
call that would be asked about without it.
"""


def _read(danger: Danger) -> Rule:
    return Rule(ACTIONS.get(danger.level, "allow"), danger.pattern, danger.reason)


@checked
@frozen
class Danger:
    """What a call would do that a pattern names, and how bad that is."""

    pattern: str
    """As of a rule, read as widely as a prohibition: ``Bash(rm -rf:*)``, ``Write(.git/**)``, ``pay``."""
    level: Level
    reason: str = ""
    """Told to the user who is asked, and to the model where it is denied."""
    rule: Rule = field(init=False, repr=False, eq=False, default=Factory(_read, takes_self=True))
    """The pattern as a rule; raises ConfigError where it is none."""


def danger_rules(dangers: Iterable[Danger]) -> tuple[Rule, ...]:
    """Rules for a layer of a policy, where they only tighten: ``block`` denies, ``destructive`` and ``confirm`` ask."""
    return tuple([danger.rule for danger in dangers if danger.level in ACTIONS])


def danger_of(dangers: Iterable[Danger], call: ToolCall, tool: ToolSpec) -> Danger | None:
    """The worst danger that this call is, or may be where nobody can say what it does; of equals the first."""
    looked = Looked(call, tool)
    for table, named in _by_level(tuple(dangers)):
        found = table.find(looked)
        met = found.deny or found.perhaps
        if met is not None:
            return named[met.place]
    return None


@lru_cache(maxsize=64)
def _by_level(dangers: tuple[Danger, ...]) -> tuple[tuple[Table, tuple[Danger, ...]], ...]:
    """The dangers of each level, the worst first, with what finds them."""
    levels = [tuple([danger for danger in dangers if danger.level == level]) for level in reversed(LEVELS)]
    return tuple([(Table(Rule("deny", danger.pattern) for danger in named), named) for named in levels if named])


SHELL: tuple[tuple[str, Level, str], ...] = (
    ("mkfs*:*", "block", "it makes a new file system over what a disk holds"),
    ("wipefs:*", "block", "it erases what a disk holds"),
    ("> /dev/sd*", "block", "it writes over a disk"),
    ("> /dev/nvme*", "block", "it writes over a disk"),
    ("rm -rf /", "block", "it deletes everything"),
    ("rm -rf ~", "block", "it deletes all that the user has"),
    ("dd:*", "destructive", "it may write over a disk"),
    ("rm -rf:*", "destructive", "it deletes folders with all that is in them"),
    ("sudo:*", "destructive", "it runs a command with all rights"),
    ("doas:*", "destructive", "it runs a command with all rights"),
    ("chmod 777:*", "destructive", "everybody may change these files then"),
    ("chmod -R 777:*", "destructive", "everybody may change these files then"),
    ("git push --force:*", "destructive", "it throws away what others have pushed"),
    ("git reset --hard:*", "destructive", "it throws away changes that are in no commit"),
    ("git clean -f:*", "destructive", "it deletes files that are in no commit"),
    ("shutdown:*", "destructive", "it stops the machine"),
    ("reboot:*", "destructive", "it stops the machine"),
    ("npm publish:*", "destructive", "what is published stays so"),
    ("git push:*", "confirm", "others see it"),
    ("npm install:*", "confirm", "it runs programs of the packages"),
    ("pip install:*", "confirm", "it runs programs of the packages"),
    ("docker rm:*", "confirm", "it deletes containers"),
)
"""Arguments of patterns for command lines, with their levels and reasons."""


def shell_dangers(tool: str = "Bash") -> tuple[Danger, ...]:
    """What every shell can do, for a tool that takes command lines."""
    return tuple([Danger(f"{tool}({argument})", level, reason) for argument, level, reason in SHELL])
