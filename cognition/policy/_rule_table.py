"""Rules indexed for lookup: by the tool's name, then by the call's subject."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from cognition.policy.rule_patterns import PERHAPS, YES, Pattern
from cognition.policy.rules import Action, Rule, Sort
from cognition.values.messages import ToolCall
from cognition.values.tools import ToolSpec

if TYPE_CHECKING:
    from cognition.policy._command import Mention
    from cognition.policy._targets import Target, Targets


MOST_NAMES = 1_000
"""The most tool names whose groups a table keeps."""


class Matcher(Protocol):
    """A pattern's argument for subjects of one sort."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of every plain subject that it can match; empty if unknown."""
        ...

    def prohibits(self, subject: Any) -> int: ...
    def covers(self, subject: Any) -> bool: ...


def _matcher(sort: Sort) -> Callable[[Pattern], Matcher]:
    from cognition.policy._command_patterns import CommandPattern
    from cognition.policy._path_patterns import PathPattern
    from cognition.policy._text_patterns import TextPattern

    makers: dict[Sort, Callable[[Pattern], Matcher]] = {
        "command": CommandPattern.of,
        "path": PathPattern.of,
        "text": TextPattern.of,
    }
    return makers[sort]


class PlacedRule(NamedTuple):
    """A rule with its position in the list, to find the first of equally severe rules."""

    place: int
    rule: Rule


Entry = tuple[PlacedRule, Matcher]


class Index:
    """Rules with an argument for subjects of one sort."""

    def __init__(self, rules: Sequence[PlacedRule], make: Callable[[Pattern], Matcher]) -> None:
        self.all: list[Entry] = [(placed, make(placed.rule.pattern)) for placed in rules]
        self.keyed: dict[str, list[Entry]] = {}
        self.others: list[Entry] = []
        for entry in self.all:
            keys = entry[1].keys
            if not keys:
                self.others.append(entry)
            for key in keys:
                self.keyed.setdefault(key, []).append(entry)

    def entries(self, subject: Target) -> Iterable[Entry]:
        if not subject.plain:
            return self.all
        found, keyed = self.others, self.keyed
        for key in subject.keys:
            if key in keyed:
                found = found + keyed[key]
        return found

    def mentioned(self, mention: Mention) -> Iterable[Entry]:
        """Return the rules that may match one of the programs that a command may run."""
        if mention.open or mention.globs:
            return self.all
        found = self.others
        if not mention.names.isdisjoint(self.keyed):
            for key in mention.names.intersection(self.keyed):
                found = found + self.keyed[key]
        return found


class Group:
    """The rules for one name, or for all names with one beginning."""

    def __init__(self) -> None:
        self.whole: dict[Action, PlacedRule] = {}
        """The first rule without an argument, for each action."""
        self.forbidding: list[PlacedRule] = []
        self.allowing: list[PlacedRule] = []
        self._indexes: dict[tuple[Sort, bool], Index] = {}

    def add(self, placed: PlacedRule) -> None:
        rule = placed.rule
        if not rule.pattern.argument:
            self.whole.setdefault(rule.action, placed)
        elif rule.action == "allow":
            self.allowing.append(placed)
        else:
            self.forbidding.append(placed)

    def index(self, sort: Sort, *, allowing: bool) -> Index:
        """Return the index, built on first use: only the tool determines the sort of its subjects."""
        made = self._indexes.get((sort, allowing))
        if made is None:
            made = Index(self.allowing if allowing else self.forbidding, _matcher(sort))
            self._indexes[sort, allowing] = made
        return made


class FirstMatches:
    """The first matching rule for each action."""

    __slots__ = ("allow", "ask", "deny", "perhaps")

    def __init__(self) -> None:
        self.deny: PlacedRule | None = None
        self.perhaps: PlacedRule | None = None
        """A deny or ask rule that possibly matches the call."""
        self.ask: PlacedRule | None = None
        self.allow: PlacedRule | None = None


class JudgedCall:
    """A call under judgement. Its subjects are read when the first rule needs them."""

    __slots__ = ("_subjects", "call", "tool")

    def __init__(self, call: ToolCall, tool: ToolSpec) -> None:
        self.call = call
        self.tool = tool
        self._subjects: Targets | None = None

    @property
    def subjects(self) -> Targets:
        found = self._subjects
        if found is None:
            found = self._subjects = _targets_of()(self.call, self.tool)
        return found


@cache
def _targets_of() -> Callable[[ToolCall, ToolSpec], Targets]:
    """Return ``targets_of``. Imported once: the statement alone takes a microsecond at every call."""
    from cognition.policy._targets import targets_of

    return targets_of


class Table:
    """Rules prepared for lookup."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._exact: dict[str, Group] = {}
        self._open: dict[str, Group] = {}
        for place, rule in enumerate(rules):
            groups = self._open if rule.pattern.open else self._exact
            groups.setdefault(rule.pattern.name, Group()).add(PlacedRule(place, rule))
        self._lengths = tuple(sorted({len(beginning) for beginning in self._open}))
        self._of_name: dict[str, list[Group]] = {}
        """The groups for the names of earlier calls."""

    def _groups(self, name: str) -> list[Group]:
        found = self._of_name.get(name)
        if found is None:
            found = self._groups_for(name)
            if len(self._of_name) < MOST_NAMES:
                self._of_name[name] = found
        return found

    def _groups_for(self, name: str) -> list[Group]:
        found = [self._exact[name]] if name in self._exact else []
        for length in self._lengths:
            if length > len(name):
                break
            group = self._open.get(name[:length])
            if group is not None:
                found.append(group)
        return found

    def find(self, looked: JudgedCall) -> FirstMatches:
        """Return the rules that match a call."""
        found, groups = FirstMatches(), self._groups(looked.call.name)
        if not groups:
            return found
        allowing = False
        for group in groups:
            whole, allowing = group.whole, allowing or bool(group.allowing)
            if not whole:
                continue
            found.deny = _first(found.deny, whole.get("deny"))
            found.ask = _first(found.ask, whole.get("ask"))
            found.allow = _first(found.allow, whole.get("allow"))
        if found.deny is None:
            for group in groups:
                if group.forbidding:
                    _forbid(found, group, looked.subjects)
            if found.allow is None and allowing:
                found.allow = _find_all_covering(groups, looked.subjects)
        return found


def _first(one: PlacedRule | None, other: PlacedRule | None) -> PlacedRule | None:
    if one is None or other is None:
        return one or other
    return one if one.place <= other.place else other


def _forbid(found: FirstMatches, group: Group, subjects: Targets) -> None:
    """Record a group's deny and ask rules that match any subject."""
    if subjects.unsure:
        found.perhaps = _first(found.perhaps, group.forbidding[0])
    index = group.index(subjects.sort, allowing=False)
    for subject in subjects.found:
        for entry in index.entries(subject):
            _match(found, entry, subject.value)
    for mention in subjects.mentions:
        for entry in index.mentioned(mention):
            _match(found, entry, mention)


def _match(found: FirstMatches, entry: Entry, value: Any) -> None:
    placed, matcher = entry
    match = matcher.prohibits(value)
    if match == YES and placed.rule.action == "deny":
        found.deny = _first(found.deny, placed)
    elif match == YES:
        found.ask = _first(found.ask, placed)
    elif match == PERHAPS:
        found.perhaps = _first(found.perhaps, placed)


def _find_all_covering(groups: Sequence[Group], subjects: Targets) -> PlacedRule | None:
    """Return the first of the allow rules that together cover every subject; None if a subject is not covered."""
    if subjects.unsure:
        return None
    indexes = [group.index(subjects.sort, allowing=True) for group in groups if group.allowing]
    used: PlacedRule | None = None
    for subject in subjects.found:
        if not subject.silent:
            one = _find_covering(indexes, subject)
            if one is None:
                return None
            used = _first(used, one)
    return used


def _find_covering(indexes: Sequence[Index], subject: Target) -> PlacedRule | None:
    """Return the first allow rule that covers a subject, independent of the lookup order."""
    first: PlacedRule | None = None
    for index in indexes:
        for placed, matcher in index.entries(subject):
            if (first is None or placed.place < first.place) and matcher.covers(subject.value):
                first = placed
    return first
