"""Dangers as data: patterns of calls, each with the damage if such a call ran.

A tool or its instructions come with their dangers. A policy adopts them as the rules of a layer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Literal, get_args

from attrs import Factory, field, frozen

from cognition.base.checking import checked
from cognition.policy._rule_table import JudgedCall, Table
from cognition.policy.rules import Action, Rule
from cognition.values.messages import ToolCall
from cognition.values.tools import ToolSpec

Level = Literal["safe", "warn", "confirm", "destructive", "block"]
"""From harmless to forbidden."""

LEVELS: tuple[Level, ...] = get_args(Level)
ACTIONS: Mapping[Level, Action] = {"confirm": "ask", "destructive": "ask", "block": "deny"}
"""The policy's action for each level. The other levels are only shown: such data can't permit a call that policy would
ask about.
"""


def _read(danger: Danger) -> Rule:
    return Rule(ACTIONS.get(danger.level, "allow"), danger.pattern, danger.reason)


@checked
@frozen
class Danger:
    """A pattern of calls, with the damage they would do."""

    pattern: str
    """A rule's pattern, matched as widely as a deny rule: ``Bash(rm -rf:*)``, ``Write(.git/**)``, ``pay``."""
    level: Level
    reason: str = ""
    """Shown to the user with a question, and sent to the model with a denial."""
    rule: Rule = field(init=False, repr=False, eq=False, default=Factory(_read, takes_self=True))
    """The pattern as a rule; raises ConfigError for an invalid pattern."""


def danger_rules(dangers: Iterable[Danger]) -> tuple[Rule, ...]:
    """Return rules for a layer of a policy, which can only tighten: ``block`` denies, ``destructive`` and ``confirm``
    ask.
    """
    return tuple([danger.rule for danger in dangers if danger.level in ACTIONS])


def danger_of(dangers: Iterable[Danger], call: ToolCall, tool: ToolSpec) -> Danger | None:
    """Return the worst danger that matches this call, certainly or possibly; among equals the first."""
    looked = JudgedCall(call, tool)
    for table, named in _by_level(tuple(dangers)):
        found = table.find(looked)
        met = found.deny or found.perhaps
        if met is not None:
            return named[met.place]
    return None


@lru_cache(maxsize=64)
def _by_level(dangers: tuple[Danger, ...]) -> tuple[tuple[Table, tuple[Danger, ...]], ...]:
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
    """Return the common dangers of shells, for a tool that takes command lines."""
    return tuple([Danger(f"{tool}({argument})", level, reason) for argument, level, reason in SHELL])
