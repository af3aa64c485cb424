"""What policy forbids a call beyond its arguments: its tool compares these rules with the files that it opens, and the
sandbox of a command enforces them.

A rule on paths sees the arguments of a call. ``Read("link/key")`` and ``Grep("password")`` reach files that no argument
names, so each ``CallTool`` carries the rules for its tool.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from attrs import frozen

from cognition.base.checking import checked
from cognition.policy._rule_table import JudgedCall, Table
from cognition.policy.rule_patterns import YES, Pattern, read_pattern
from cognition.policy.rules import Action, Rule
from cognition.values.features import Mode
from cognition.values.messages import ToolCall
from cognition.values.tools import ToolSpec

if TYPE_CHECKING:
    from cognition.policy._path_patterns import Path, PathPattern

WRITERS = frozenset({"Edit", "MultiEdit", "NotebookEdit", "Write", "apply_patch"})
"""Names that tools for changing files have elsewhere: a rule on one of them forbids no reading."""

READ = "Read"
"""The tool whose denied files no other tool that only reads may show."""

PROGRAM = re.compile(r"(?!-)[\w./~+@%:-]+")
"""A rule's argument that is the name or the path of a program, without arguments."""

ASKING: frozenset[Mode] = frozenset({"default", "careful", "plan"})
"""Modes that leave all questions."""

DENIED = "the rule {rule} denies {path}"
ASKED = "the rule {rule} asks about {path}, which this call does not name; call again with this path"
NOT_ALLOWED = "only {patterns} may be reached, and this is {path}"


@checked
@frozen
class AccessRules:
    """The rules that the tool of one call has to hold to while it runs."""

    paths: tuple[Rule, ...] = ()
    """Rules that deny files, or ask about files that the call does not name. For a command: files that it may neither
    read nor write.
    """
    only: tuple[tuple[str, ...], ...] = ()
    """Patterns of allowed files: a file has to match one pattern of each group."""
    writes: tuple[Rule, ...] = ()
    """For a command: rules that deny files to tools that write. The command may read these files."""
    programs: tuple[Rule, ...] = ()
    """For a command: rules that deny a program with any arguments."""
    arguments: tuple[Rule, ...] = ()
    """For a command: rules that deny some arguments of a program. A sandbox can't enforce them."""
    granted: tuple[str, ...] = ()
    """The parameters of ``ToolSpec.asks_with`` that the call sets: the user has approved them for this call. A tool
    that finds one set and not in here refuses it.
    """


NO_RULES = AccessRules()


class PathAccess:
    """Access rules for the files of one directory.

    Args:
        rules: of the call.
        roots: absolute paths of the directory, by each of its names.
        home: absolute path of the user's home, for patterns such as ``~/.ssh/**``; empty if unknown.
    """

    def __init__(self, rules: AccessRules, roots: Sequence[str], home: str = "") -> None:
        self._rules = [
            _PathRule(place, rule, pattern)
            for place, rule in enumerate(rules.paths)
            for pattern in patterns_below(rule.pattern, roots, home)
        ]
        self._keyed: dict[str, list[_PathRule]] = {}
        self._others: list[_PathRule] = []
        for one in self._rules:
            keys = one.pattern.keys
            if not keys:
                self._others.append(one)
            for key in keys:
                self._keyed.setdefault(key, []).append(one)
        self._only = [
            (group, [one for text in group for one in patterns_below(read_pattern(text), roots, home)])
            for group in rules.only
        ]

    def refusal(self, path: str) -> str:
        """Return why a file may not be reached, for the model; empty if it may.

        Args:
            path: its real path, without links, relative to the directory; ``.`` for the directory itself.
        """
        from cognition.policy._path_patterns import read_path

        found = read_path(path, real=True)
        problem = self._prohibition(path, found)
        if problem or found is None:
            return problem
        for group, patterns in self._only:
            if not any(pattern.covers(found) for pattern in patterns):
                return NOT_ALLOWED.format(patterns=", ".join(group), path=path)
        return ""

    def prohibition(self, path: str) -> str:
        """Return which rule denies a file or asks about it, as ``refusal`` does, without ``AccessRules.only``."""
        from cognition.policy._path_patterns import read_path

        return self._prohibition(path, read_path(path, real=True))

    def _prohibition(self, path: str, found: Path | None) -> str:
        if found is None:
            return f"{path[:80]!r} is not a path that rules can be read for" if self._rules or self._only else ""
        first: _PathRule | None = None
        for one in self._for(found):
            if (first is None or one.place < first.place) and one.pattern.prohibits(found) == YES:
                first = one
        if first is None:
            return ""
        rule = first.rule
        if rule.action == "deny":
            return rule.reason or DENIED.format(rule=rule.tool, path=path)
        return ASKED.format(rule=rule.tool, path=path)

    def skips(self, folder: str) -> bool:
        """Return whether no file below a folder may be reached. ``folder`` is a real path, as in ``refusal``."""
        from cognition.policy._path_patterns import ANY, read_path

        found = read_path(folder, real=True)
        if found is None:
            return bool(self._rules or self._only)
        if any(one.pattern.forbidden[-1] == ANY and one.pattern.prohibits(found) == YES for one in self._for(found)):
            return True
        return any(not any(pattern.leads_below(found) for pattern in patterns) for _, patterns in self._only)

    def closed_trees(self) -> list[str]:
        """Return the patterns of folders below which no file may be reached, such as ``secrets/**``; in lower case."""
        from cognition.policy._path_patterns import ANY

        return ["/".join(one.pattern.forbidden) for one in self._rules if one.pattern.forbidden[-1] == ANY]

    def concerning(self, search: Sequence[str]) -> tuple[list[Rule], list[tuple[str, ...]]]:
        """Return the rules, and the groups of ``AccessRules.only``, that may leave a file out of a search.

        The result depends on patterns alone, so it reveals no file.

        Args:
            search: pattern of the files that are searched, name by name. A name may contain ``*``, ``?`` and ``[``, and
                ``**`` is any number of names.
        """
        found = {one.place: one.rule for one in self._rules if one.pattern.may_meet(search)}
        return [found[place] for place in sorted(found)], [group for group, _ in self._only]

    def _for(self, path: Path) -> Iterator[_PathRule]:
        """Yield the rules that can match a path."""
        if not path.plain:
            yield from self._rules
            return
        yield from self._others
        for key in dict.fromkeys(path.keys):
            yield from self._keyed.get(key, ())


class _PathRule(NamedTuple):
    """A rule's pattern for paths of one directory, with the rule's position in the list."""

    place: int
    rule: Rule
    pattern: PathPattern


Places = frozenset[tuple[int, int]]
"""What a path has reached: the numbers of patterns, and a place in each."""


class DeniedPaths:
    """The paths below a directory that rules match, found name by name from the top. Arguments as in ``PathAccess``."""

    def __init__(self, rules: Iterable[Rule], roots: Sequence[str], home: str = "") -> None:
        self._patterns = [
            (rule, pattern.forbidden) for rule in rules for pattern in patterns_below(rule.pattern, roots, home)
        ]
        self.beginning: Places = frozenset((number, 0) for number in range(len(self._patterns)))

    def after(self, places: Places, name: str) -> Places:
        """Return what is reached by one more name; empty if no rule can match below it."""
        from cognition.policy._path_patterns import bare_name, places_after

        bare = bare_name(name)
        return frozenset(
            (number, after)
            for number, place in places
            for after in places_after(self._patterns[number][1], frozenset({place}), bare)
        )

    def rule(self, places: Places) -> Rule | None:
        """Return the first rule that matches the path that has reached these places."""
        from cognition.policy._path_patterns import is_end

        found = [number for number, place in places if is_end(self._patterns[number][1], place)]
        return self._patterns[min(found)][0] if found else None


def patterns_below(pattern: Pattern, roots: Sequence[str], home: str) -> list[PathPattern]:
    """Return a pattern's argument as patterns of paths relative to a directory; none if it matches no such path."""
    from cognition.policy._path_patterns import PathPattern

    return PathPattern.of(pattern).below(roots, home)


class RuleLayer(Protocol):
    """A policy, or a layer below it."""

    @property
    def rules(self) -> tuple[Rule, ...]: ...
    @property
    def default(self) -> Action: ...
    @property
    def allow_only(self) -> tuple[str, ...]: ...


def rules_for(
    layers: Sequence[RuleLayer],
    call: ToolCall,
    tools: Mapping[str, ToolSpec],
    remembered: tuple[Rule, ...],
    mode: Mode,
) -> AccessRules:
    """Return the access rules of a call that runs.

    Args:
        layers: the policy, and those below it.
        call: the call.
        tools: all tools that are offered.
        remembered: the user's "from now on" answers.
        mode: of the session.
    """
    tool = tools[call.name]
    denying = [
        rule
        for rule in (*(rule for layer in layers for rule in layer.rules), *remembered)
        if rule.action == "deny" and rule.pattern.argument
    ]
    if tool.command:
        return _rules_for_command(tool, tools, denying)
    named = _NamedCall(call, tool, tuple([rule for rule in remembered if rule.matches(tool.name)]), mode)
    also = READ if tool.read_only and _opens_files(tool) else tool.name
    paths = [rule for rule in denying if rule.matches(tool.name) or rule.matches(also)]
    paths += named.unasked(layers)
    only = [group for layer in layers for group in named.limits(layer, asks=layer is layers[0] and bool(tool.approval))]
    only += named.remembered(layers)
    return AccessRules(tuple(paths), tuple(only)) if paths or only else NO_RULES


def set_each_time(call: ToolCall, tool: ToolSpec) -> tuple[str, ...]:
    """Return the parameters that the call sets and that need the user's approval each time (``ToolSpec.asks_with``)."""
    try:
        return tuple([name for name in tool.asks_with if call.arguments.get(name) not in (None, False)])
    except (ValueError, RecursionError):  # the arguments are no JSON object, so the call never runs
        return ()


def _rules_for_command(tool: ToolSpec, tools: Mapping[str, ToolSpec], denying: Iterable[Rule]) -> AccessRules:
    paths, writes, programs, arguments = [], [], [], []
    for rule in denying:
        concerned = [one for one in tools.values() if rule.matches(one.name) and not one.command]
        if rule.matches(tool.name) and rule.pattern.prefix and PROGRAM.fullmatch(rule.pattern.argument):
            programs.append(rule)
        elif rule.matches(tool.name) and not rule.pattern.open:
            arguments.append(rule)
        if rule.pattern.open or not rule.matches(tool.name):
            if rule.pattern.name in WRITERS or (concerned and all(one.tool_class == "mutation" for one in concerned)):
                writes.append(rule)
            elif rule.pattern.open or not concerned or any(map(_opens_files, concerned)):
                paths.append(rule)
    return AccessRules(tuple(paths), (), tuple(writes), tuple(programs), tuple(arguments)) if denying else NO_RULES


def _opens_files(tool: ToolSpec) -> bool:
    """Return whether a tool may open files: one that takes paths, or a search by a pattern."""
    from cognition.policy._targets import paths_of

    return bool(paths_of(tool)) or tool.name == "Glob"


class _NamedCall:
    """A call that runs, and the paths that it names: rules on those have been applied."""

    def __init__(self, call: ToolCall, tool: ToolSpec, remembered: tuple[Rule, ...], mode: Mode) -> None:
        self._tool, self._remembered, self._mode = tool, remembered, mode
        self._judged = JudgedCall(call, tool)
        self._allowed = any(rule.action == "allow" and not rule.pattern.argument for rule in remembered)
        """Whether the user has allowed all calls of the tool."""

    def unasked(self, layers: Iterable[RuleLayer]) -> Iterator[Rule]:
        """Yield the rules that ask about paths, but not about a path that the call names."""
        for rule in self._asking(layers):
            if not self._is_about(rule):
                yield rule

    def remembered(self, layers: Iterable[RuleLayer]) -> Iterator[tuple[str, ...]]:
        """Yield the patterns of the user's answers, if they replace a question about this call."""
        allowing = [rule for rule in self._remembered if rule.action == "allow"]
        if any(map(self._is_about, self._asking(layers))) and Table(allowing).find(self._judged).allow is not None:
            yield from self._group(allowing)

    def _asking(self, layers: Iterable[RuleLayer]) -> Iterator[Rule]:
        """Yield the rules for this tool that ask, in the session's mode."""
        if self._allowed or self._mode == "auto":
            return
        rules = [rule for layer in layers for rule in layer.rules if rule.action == "ask"]
        rules += [rule for rule in self._remembered if rule.action == "ask"]
        if not isinstance(self._tool.approval, bool) and self._is_asked():
            rules += [Rule("ask", f"{self._tool.name}({argument})") for argument in self._tool.approval]
        yield from (rule for rule in rules if rule.matches(self._tool.name))

    def _is_about(self, rule: Rule) -> bool:
        found = Table((rule,)).find(self._judged)
        return found.ask is not None or found.perhaps is not None

    def limits(self, layer: RuleLayer, *, asks: bool) -> Iterator[tuple[str, ...]]:
        """Yield the patterns of one layer that allow files, if a file without one of them is denied or asked about."""
        if layer.allow_only:
            yield from self._group(Rule("allow", text) for text in layer.allow_only)
        if layer.default == "deny":
            yield from self._group(rule for rule in layer.rules if rule.action != "deny")
        elif (asks or layer.default == "ask") and not self._allowed and self._is_asked():
            allowing = [rule for rule in (*layer.rules, *self._remembered) if rule.action == "allow"]
            if Table(allowing).find(self._judged).allow is not None:  # otherwise the user was asked about this call
                yield from self._group(allowing)

    def _group(self, rules: Iterable[Rule]) -> Iterator[tuple[str, ...]]:
        """Yield the rules of the tool as one group of patterns, unless one of them is for all of its calls."""
        found = [rule for rule in rules if rule.matches(self._tool.name)]
        if all(rule.pattern.argument for rule in found):
            yield tuple([rule.tool for rule in found])

    def _is_asked(self) -> bool:
        """Return whether the mode leaves questions about calls without a rule."""
        return self._mode in ASKING or (
            self._mode == "acceptEdits" and self._tool.tool_class in ("execution", "network")
        )
