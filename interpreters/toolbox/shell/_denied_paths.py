"""Find the files and programs that policy's rules deny to a command, to make the profile of its sandbox.

What can't be looked at is denied if a rule may match in it: the command is of the same user, and can change its mode.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path

from cognition import AccessRules, ConfigError, Rule
from cognition.policy.access import DeniedPaths, Places, patterns_below
from interpreters.toolbox.shell._denied_programs import DeniedPrograms
from interpreters.toolbox.shell._profile import SandboxProfile
from interpreters.toolbox.shell._reach import (
    LONGEST,
    MOST,
    OF_THE_KERNEL,
    Reach,
    entries_of,
    is_essential,
    is_folder,
    may_be_entered,
    target_of,
)

VISITED = 200_000
"""Files and directories that the search for denied paths looks at."""
VISITED_OF_SYSTEM = 20_000
"""The same for the system's own, to which only rules with absolute paths lead."""
KEPT = 10_000
"""Steps of a search that are kept, since many files have the same names."""


class Denials:
    """The profile of one command, and what becomes of policy's rules for it.

    Args:
        access: policy's rules for the command.
        root: its working directory.
        readable: further directories that it may read.
        path: the value of its ``PATH``.
        network: whether it may use the network.
        names: these directories, and their absolute paths as the user wrote them, perhaps through links.
    """

    def __init__(
        self,
        access: AccessRules,
        root: Path,
        readable: Sequence[Path],
        path: str,
        *,
        network: bool = False,
        names: Iterable[tuple[Path, str]] = (),
    ) -> None:
        reach = Reach(root, tuple(readable), tuple(names), network)
        files, writes = _PathSearch(access.paths, reach), _PathSearch(access.writes, reach, writing=True)
        programs = DeniedPrograms(access.programs, reach, path)
        self.unheld: list[Rule] = [*files.unheld, *writes.unheld, *programs.unheld]
        """Rules that the profile does not express."""
        groups = (access.paths, files.absent), (access.writes, writes.absent), (access.programs, programs.absent)
        met = [rule for rules, absent in groups for rule in rules if rule not in absent]
        self.absent: list[Rule] = [rule for _, absent in groups for rule in absent if rule not in met]
        """Rules that match nothing yet, so that nothing is protected."""
        self.partly: list[Rule] = programs.partly
        """Rules on programs that were not looked for in all of the directories."""
        self.profile: SandboxProfile = SandboxProfile(
            root,
            tuple(readable),
            hidden=tuple(files.found),
            read_only=tuple(_outermost(writes.found, files.found)),
            programs=tuple(_outermost(programs.found, files.found)),
            network=network,
        )


def _outermost(paths: Iterable[Path], others: Iterable[Path] = ()) -> list[Path]:
    """Return the paths that lie in none of the others or each other."""
    found, beside = dict.fromkeys(paths), frozenset(others)
    return [
        one
        for one in found
        if one not in beside and not any(above in found or above in beside for above in one.parents)
    ]


class _Matcher:
    """Rules for the paths below one directory.

    Args:
        rules: each with the rule of policy that it stands for.
        names: absolute paths of the directory.
    """

    def __init__(self, rules: Sequence[tuple[Rule, Rule]], names: Sequence[str]) -> None:
        home = os.path.expanduser("~")
        self._denied = DeniedPaths([rule for rule, _ in rules], names, home)
        self._policys = [policys for rule, policys in rules for _ in patterns_below(rule.pattern, names, home)]
        """By the numbers in ``Places``."""
        self._after: dict[tuple[Places, str], Places] = {}
        self._matched: dict[Places, frozenset[Rule]] = {}
        self.beginning: Places = self._denied.beginning

    def after(self, places: Places, name: str) -> Places:
        """Return what is reached by one more name; empty if no rule can match below it."""
        key = places, name
        found = self._after.get(key)
        if found is None:
            if len(self._after) >= KEPT:
                self._after.clear()
            found = self._after[key] = self._denied.after(places, name)
        return found

    def matched(self, places: Places) -> frozenset[Rule]:
        """Return the rules that match the path that has reached these places."""
        if places not in self._matched:
            ends = [one for one in places if self._denied.rule(frozenset({one})) is not None]
            self._matched[places] = frozenset(self._policys[number] for number, _ in ends)
        return self._matched[places]

    def alive(self, places: Places) -> frozenset[Rule]:
        """Return the rules that match this path, or may match one below."""
        return frozenset(self._policys[number] for number, _ in places)


class _PathSearch:
    """The search for the paths that rules match."""

    def __init__(self, rules: Sequence[Rule], reach: Reach, *, writing: bool = False) -> None:
        self._reach = reach
        self._found: dict[Path, None] = {}
        self._met: set[Rule] = set()
        self._unheld: set[Rule] = set()
        self.found: list[Path] = []
        """Matched paths, resolved."""
        self.unheld: list[Rule] = []
        self.absent: list[Rule] = []
        if not rules:
            return
        whole = [(one, rule) for rule in rules for one in self._whole(rule)]
        reached = self._search_folders(rules, whole, (reach.root,) if writing else reach.folders)
        if whole and not writing:
            reached |= self._search_system(whole)
        if len(self._found) > MOST:
            self._unheld |= self._met
        self.found = _outermost(list(self._found)[:MOST])
        self.unheld = [rule for rule in rules if rule in self._unheld]
        self.absent = [rule for rule in rules if rule in reached and rule not in self._met | self._unheld]

    def _whole(self, rule: Rule) -> list[Rule]:
        """Return a rule that leads out of the root as rules with absolute paths: as it is written, and resolved."""
        found = []
        for text in _absolute(rule, self._reach):
            names = text.split("/")
            stars = next((number for number, name in enumerate(names) if "*" in name), len(names))
            beginning, rest = "/".join(names[:stars]) or "/", names[stars:]
            try:
                real = os.path.realpath(beginning).rstrip("/")
                for one in dict.fromkeys((text, "/".join([real, *rest]) or "/")):
                    found.append(Rule("deny", f"*({one}{':*' if rule.pattern.prefix else ''})"))
            except (ConfigError, OSError, ValueError):  # no text of a rule, or no name of a file
                self._unheld.add(rule)
            at = Path(beginning)
            if any(at.is_relative_to(place) for place in OF_THE_KERNEL) and not self._reach.holds(at):
                self._unheld.add(rule)
        return found

    def _search_folders(
        self, rules: Sequence[Rule], whole: Sequence[tuple[Rule, Rule]], folders: Sequence[Path]
    ) -> set[Rule]:
        """Return the rules that may match something in the folders, now or later."""
        left, reached = VISITED, {rule for rule in rules if not _leads_out(rule)}
        for folder in dict.fromkeys(folders):
            names = self._reach.names_of(folder)
            own = [(rule, rule) for rule in rules if folder == self._reach.root or not _goes_up(rule)]
            for rule, policys in whole:
                if any("\0" not in one.forbidden for one in patterns_below(rule.pattern, names, "")):
                    reached.add(policys)
            matcher = _Matcher([*own, *whole], names)
            left = self._walk([(str(folder), matcher.beginning)], matcher, left)
        return reached

    def _search_system(self, whole: Sequence[tuple[Rule, Rule]]) -> set[Rule]:
        """Return the rules that may match something in the system's directories."""
        matcher, begun, reached = _Matcher(whole, ("/",)), list[tuple[str, Places]](), set[Rule]()
        for place in self._reach.system():
            places, matched = matcher.beginning, frozenset[Rule]()
            for name in place.split("/")[1:]:
                places = matcher.after(places, name)
                matched = matcher.matched(places)
                if matched:
                    break
            reached |= matcher.alive(places)
            if matched and is_essential(place):
                self._unheld |= matched
            elif matched and os.path.exists(place):
                self._add(Path(os.path.realpath(place)), matched)
            elif places and is_folder(place):
                begun.append((os.path.realpath(place), places))
        self._walk(begun, matcher, VISITED_OF_SYSTEM)
        return reached

    def _walk(self, begun: Iterable[tuple[str, Places]], matcher: _Matcher, left: int) -> int:
        """Look through folders, by their real paths, the uppermost first. Return how many entries may still be
        visited.
        """
        todo = deque((folder, len(os.fsencode(folder)), places) for folder, places in begun)
        seen = set[tuple[str, Places]]()
        while todo:
            folder, above, places = todo.popleft()
            if (folder, places) in seen:
                continue
            seen.add((folder, places))
            entries = entries_of(folder, left)
            if entries is None:
                if may_be_entered(folder):
                    self._deny(Path(folder), matcher.alive(places))
                continue
            left -= len(entries)
            if left < 0 or len(self._found) > MOST:
                self._unheld |= matcher.alive(places).union(*(matcher.alive(waiting) for _, _, waiting in todo))
                return max(left, 0)
            for entry in entries:
                after = matcher.after(places, entry.name)
                if not after:
                    continue
                path = f"{folder.rstrip('/')}/{entry.name}"
                if len(os.fsencode(path)) > above + LONGEST:
                    self._deny(Path(folder), matcher.alive(after))
                    continue
                try:
                    further = self._look(entry, path, matcher.matched(after), matcher.alive(after))
                except OSError:
                    self._deny(Path(path), matcher.alive(after))
                    continue
                if further is not None:
                    todo.append((further, above, after))
        return left

    def _look(self, entry: os.DirEntry[str], path: str, matched: frozenset[Rule], alive: frozenset[Rule]) -> str | None:
        """Deny an entry if rules match it. Else return the folder in which to look further, if it is one.

        Raises:
            OSError: it can't be looked at.
        """
        if entry.is_symlink():
            target = target_of(path)
            if target is None or not self._reach.may_hide_target(target):
                return None
            if matched or not _can_be_looked_at(target):
                self._deny(target, matched or alive)
                return None
            return str(target) if target.is_dir() else None
        if matched and is_essential(path):
            self._unheld |= matched
        elif matched and self._reach.may_hide(Path(path)):
            self._add(Path(path), matched)
        elif entry.is_dir(follow_symlinks=False) and path not in OF_THE_KERNEL:
            return path
        return None

    def _deny(self, path: Path, rules: frozenset[Rule]) -> None:
        """Deny a path; if it can't be looked at, or is too long, the innermost folder above it that can."""
        path = self._reach.shorten(path)
        while self._reach.holds(path):
            try:
                os.lstat(path)
            except (FileNotFoundError, NotADirectoryError):
                return
            except OSError:
                path = path.parent
                continue
            if self._reach.may_hide(path):
                self._add(path, rules)
                return
            break
        self._unheld |= rules

    def _add(self, path: Path, rules: frozenset[Rule]) -> None:
        self._found[path] = None
        self._met |= rules


def _can_be_looked_at(path: Path) -> bool:
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return True


def _text(rule: Rule) -> str:
    return os.path.normpath(rule.pattern.argument)


def _goes_up(rule: Rule) -> bool:
    return _text(rule).split("/")[0] == ".."


def _leads_out(rule: Rule) -> bool:
    return _text(rule).split("/")[0] in ("", "..", "~")


def _absolute(rule: Rule, reach: Reach) -> list[str]:
    """Return the absolute paths, or patterns of them, that a rule names; none if it is relative to the root."""
    text = _text(rule)
    first = text.split("/")[0]
    if first == "~":
        text = os.path.expanduser(text)
        return [text] if os.path.isabs(text) else []
    if first == "..":
        return [os.path.normpath(f"{root}/{text}") for root in reach.names_of(reach.root)]
    return [f"/{text.lstrip('/')}"] if first == "" else []
