"""Rules in the order in which they are looked up: by the tool's name, and then by what the call is for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from cognition.messages import ToolCall
from cognition.policy.patterns import PERHAPS, YES, Pattern
from cognition.policy.rules import Action, Rule, Sort
from cognition.tools import ToolSpec

if TYPE_CHECKING:
    from cognition.policy.subjects import Subject, Subjects


class Matcher(Protocol):
    """A pattern's argument for subjects of one sort."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The key of every plain subject that it can match; empty where that can't be said."""
        ...

    def prohibits(self, subject: Any) -> int: ...
    def covers(self, subject: Any) -> bool: ...


def _matcher(sort: Sort) -> Callable[[Pattern], Matcher]:
    from cognition.policy.commands import CommandPattern
    from cognition.policy.paths import PathPattern
    from cognition.policy.texts import TextPattern

    makers: dict[Sort, Callable[[Pattern], Matcher]] = {
        "command": CommandPattern.of,
        "path": PathPattern.of,
        "text": TextPattern.of,
    }
    return makers[sort]


class Placed(NamedTuple):
    """A rule and its place in the list, by which the first of equally severe ones is told."""

    place: int
    rule: Rule


Entry = tuple[Placed, Matcher]


class Index:
    """The rules of some tools that have an argument, for subjects of one sort."""

    def __init__(self, rules: Sequence[Placed], make: Callable[[Pattern], Matcher]) -> None:
        self.all: list[Entry] = [(placed, make(placed.rule.pattern)) for placed in rules]
        self.keyed: dict[str, list[Entry]] = {}
        self.others: list[Entry] = []
        for entry in self.all:
            keys = entry[1].keys
            if not keys:
                self.others.append(entry)
            for key in keys:
                self.keyed.setdefault(key, []).append(entry)

    def entries(self, subject: Subject) -> Iterable[Entry]:
        """Those that may match a subject."""
        if not subject.plain:
            return self.all
        found = self.others
        for key in subject.keys:
            if key in self.keyed:
                found = found + self.keyed[key]
        return found


class Group:
    """The rules for one name, or for all names with one beginning."""

    def __init__(self) -> None:
        self.whole: dict[Action, Placed] = {}
        """Those without an argument, the first for each action."""
        self.forbidding: list[Placed] = []
        self.allowing: list[Placed] = []
        self._indexes: dict[tuple[Sort, bool], Index] = {}

    def add(self, placed: Placed) -> None:
        rule = placed.rule
        if not rule.pattern.argument:
            self.whole.setdefault(rule.action, placed)
        elif rule.action == "allow":
            self.allowing.append(placed)
        else:
            self.forbidding.append(placed)

    def index(self, sort: Sort, *, allowing: bool) -> Index:
        """Made when it is first needed, since only the tool says of which sort its subjects are."""
        made = self._indexes.get((sort, allowing))
        if made is None:
            made = Index(self.allowing if allowing else self.forbidding, _matcher(sort))
            self._indexes[sort, allowing] = made
        return made


class Found:
    """Of each action the first rule that matches a call."""

    __slots__ = ("allow", "ask", "deny", "perhaps")

    def __init__(self) -> None:
        self.deny: Placed | None = None
        self.perhaps: Placed | None = None
        """A prohibition of which nobody can say whether the call is what it means."""
        self.ask: Placed | None = None
        self.allow: Placed | None = None


class Looked:
    """A call that is being judged; what it is for is read when the first rule asks for it."""

    __slots__ = ("_subjects", "call", "tool")

    def __init__(self, call: ToolCall, tool: ToolSpec) -> None:
        self.call = call
        self.tool = tool
        self._subjects: Subjects | None = None

    @property
    def subjects(self) -> Subjects:
        found = self._subjects
        if found is None:
            from cognition.policy.subjects import subjects_of

            found = self._subjects = subjects_of(self.call, self.tool)
        return found


class Table:
    """Rules, ready to be looked up."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._exact: dict[str, Group] = {}
        self._open: dict[str, Group] = {}
        for place, rule in enumerate(rules):
            groups = self._open if rule.pattern.open else self._exact
            groups.setdefault(rule.pattern.name, Group()).add(Placed(place, rule))
        self._lengths = tuple(sorted({len(beginning) for beginning in self._open}))

    def _groups(self, name: str) -> Iterator[Group]:
        if name in self._exact:
            yield self._exact[name]
        for length in self._lengths:
            if length > len(name):
                break
            group = self._open.get(name[:length])
            if group is not None:
                yield group

    def find(self, looked: Looked) -> Found:
        """The rules that match a call."""
        found, groups = Found(), list(self._groups(looked.call.name))
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
                found.allow = _covering(groups, looked.subjects)
        return found


def _first(one: Placed | None, other: Placed | None) -> Placed | None:
    if one is None or other is None:
        return one or other
    return one if one.place <= other.place else other


def _forbid(found: Found, group: Group, subjects: Subjects) -> None:
    """Enter the prohibitions of a group that match some subject."""
    if subjects.unsure:
        found.perhaps = _first(found.perhaps, group.forbidding[0])
    index = group.index(subjects.sort, allowing=False)
    for subject in subjects.found:
        for placed, matcher in index.entries(subject):
            match = matcher.prohibits(subject.value)
            if match == YES and placed.rule.action == "deny":
                found.deny = _first(found.deny, placed)
            elif match == YES:
                found.ask = _first(found.ask, placed)
            elif match == PERHAPS:
                found.perhaps = _first(found.perhaps, placed)


def _covering(groups: Sequence[Group], subjects: Subjects) -> Placed | None:
    """The first of the allowances by which every subject is covered; None where one is not."""
    if subjects.unsure:
        return None
    indexes = [group.index(subjects.sort, allowing=True) for group in groups if group.allowing]
    used: Placed | None = None
    for subject in subjects.found:
        if not subject.silent:
            one = _covered(indexes, subject)
            if one is None:
                return None
            used = _first(used, one)
    return used


def _covered(indexes: Sequence[Index], subject: Subject) -> Placed | None:
    """The first of the allowances that cover a subject, in whatever order they are looked up."""
    first: Placed | None = None
    for index in indexes:
        for placed, matcher in index.entries(subject):
            if (first is None or placed.place < first.place) and matcher.covers(subject.value):
                first = placed
    return first
