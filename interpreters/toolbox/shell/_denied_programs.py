"""Find the files of the programs that policy's rules deny to a command."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from cognition import Rule
from interpreters.toolbox.shell._reach import (
    LONGEST,
    MOST,
    OF_THE_KERNEL,
    Reach,
    entries_of,
    is_file,
    may_be_entered,
    target_of,
)

VISITED = 200_000
"""Files and directories that the search looks at: in the command's directories, and in the system's each."""
FOLDERS = tuple([f"{place}/{name}" for place in ("/usr", "/usr/local", "") for name in ("bin", "sbin")])
"""Directories that a command finds programs in, whatever its ``PATH``."""
LIBRARIES = ("/usr/libexec", "/usr/games", "/usr/local/libexec", "/usr/local/games", "/usr/lib", "/usr/lib32",
             "/usr/lib64", "/usr/libx32", "/usr/local/lib", "/usr/local/lib64", "/opt")  # fmt: skip
"""Directories below which programs lie that are on no ``PATH``, such as a second ``git``."""
MULTI_CALL = frozenset({"busybox", "toybox", "coreutils"})
"""Programs that are many others: they do what their first argument says, too."""
BEGINNINGS = tuple(MULTI_CALL)
READ = 16_000_000
"""Bytes of such a program that are read."""


class DeniedPrograms:
    """The programs that rules deny.

    A program is denied by its name, wherever it lies: on the ``PATH``, in the system's directories, and in ``root`` and
    ``readable``, where a file that can't be run yet counts as well, since its mode may change.

    Args:
        rules: each on one program.
        reach: what the command can reach.
        path: the value of its ``PATH``.
    """

    def __init__(self, rules: Sequence[Rule], reach: Reach, path: str) -> None:
        self._reach = reach
        self._found: dict[Path, None] = {}
        self._complete = True
        self.unheld: list[Rule] = []
        """Rules on a program that is others, too: who hides it, hides them."""
        self.absent: list[Rule] = []
        """Rules on a program that is nowhere."""
        self.partly: list[Rule] = []
        """Rules on a program that was not looked for in all of the directories."""
        if rules:
            self._search(rules, path)
        self.found: list[Path] = list(self._found)[:MOST]
        if len(self._found) > MOST:
            self.unheld = list(rules)
        self.absent = [rule for rule in self.absent if rule not in self.unheld]

    def _search(self, rules: Sequence[Rule], path: str) -> None:
        folders = [one for one in path.split(":") if os.path.isabs(one)]
        installed = _names_by_file([*folders, *FOLDERS])
        named = [rule for rule in rules if not _is_path(rule)]
        wanted = frozenset(map(_name, named))
        outside = _search_libraries(wanted) if named else {}
        inside = self._search_folders(wanted) if named else {}
        several = [one for files in (outside, inside) for name in MULTI_CALL for one in files.get(name, ())]
        several += [file for file, names in installed.items() if not MULTI_CALL.isdisjoint(map(_stem, names))]
        for rule in rules:
            name = _name(rule)
            if _is_path(rule):
                files = self._at(rule)
            else:
                files = [file for file, names in installed.items() if name in names]
                files += [file for file in (*outside.get(name, ()), *inside.get(name, ())) if is_file(file)]
                files += [file for file in several if _stem(name) not in MULTI_CALL and _offers(file, name)]
            denied = [file for file in files if _is_one(file, name, installed.get(file, ()))]
            self._found |= dict.fromkeys(denied)
            if len(denied) < len(files):
                self.unheld.append(rule)
            elif not denied:
                self.absent.append(rule)
        if not self._complete:
            self.partly = named

    def _at(self, rule: Rule) -> list[Path]:
        """Return the file that a rule names by its path. A link from the command's directories to elsewhere counts as
        missing: any command could make one to the shell, without which no later one starts.
        """
        place = Path(os.path.normpath(self._reach.root / os.path.expanduser(rule.pattern.argument)))
        file = target_of(str(place))
        if file is None or not is_file(file) or (self._reach.holds(place) and not self._reach.holds(file)):
            return []
        return [file]

    def _search_folders(self, wanted: frozenset[str]) -> dict[str, list[Path]]:
        """Return the files of these names that a command can reach in its directories, also behind links."""
        walk = _Walk(wanted, [str(folder) for folder in self._reach.folders])
        found: dict[str, list[Path]] = {}
        for name, paths in walk.found.items():
            for path in paths:
                real = target_of(path)
                if real is not None and (str(real) == path or self._reach.may_hide_target(real)):
                    found.setdefault(name, []).append(real)
        closed = [self._reach.shorten(Path(path)) for path in walk.closed]
        self._found |= dict.fromkeys(one for one in closed if self._reach.may_hide(one))
        self._complete = walk.complete and all(map(self._reach.may_hide, closed))
        return found


def _is_one(file: Path, name: str, names: Iterable[str]) -> bool:
    """Return whether all names of a file are names of one program. A multi-call program to which no links lead is one:
    nothing else is lost with it.
    """
    kinds = {name} | MULTI_CALL.intersection({_stem(file.name.casefold())})
    return all(any(one in other or other in one for one in kinds) for other in names)


def _is_path(rule: Rule) -> bool:
    return "/" in rule.pattern.argument


def _name(rule: Rule) -> str:
    return rule.pattern.argument.rpartition("/")[2].casefold()


def _stem(name: str) -> str:
    """Return the name of a multi-call program without what may follow: ``busybox.static`` is one as well."""
    return name.partition(".")[0].partition("-")[0]


class _Walk:
    """Look below folders for what has one of these names, or a multi-call program's; the uppermost first."""

    def __init__(self, wanted: frozenset[str], folders: Sequence[str]) -> None:
        self.found: dict[str, list[str]] = {}
        """Paths by their names; the multi-call programs by the name without what follows."""
        self.closed: list[str] = []
        """Folders that can't be looked at."""
        self.complete = True
        todo = deque((folder, len(os.fsencode(folder))) for folder in folders)
        seen, left = set(folders), VISITED
        while todo:
            folder, above = todo.popleft()
            entries = entries_of(folder, left)
            if entries is None or len(os.fsencode(folder)) > above + LONGEST:
                if may_be_entered(folder):
                    self.closed.append(folder)
                continue
            left -= len(entries)
            if left < 0:
                self.complete = False
                return
            for entry in entries:
                if _is_folder(entry):
                    if entry.path not in seen and entry.path not in OF_THE_KERNEL:
                        seen.add(entry.path)
                        todo.append((entry.path, above))
                    continue
                name = entry.name.casefold()
                if name in wanted:
                    self.found.setdefault(name, []).append(entry.path)
                elif name.startswith(BEGINNINGS) and _stem(name) in MULTI_CALL:
                    self.found.setdefault(_stem(name), []).append(entry.path)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


@lru_cache(maxsize=8)
def _search_libraries(wanted: frozenset[str]) -> Mapping[str, Sequence[Path]]:
    """Return the programs of these names below the system's directories. Once in a process: it takes up to a second."""
    found: dict[str, list[Path]] = {}
    tops = dict.fromkeys(os.path.realpath(place) for place in LIBRARIES)
    for name, paths in _Walk(wanted, list(tops)).found.items():
        for path in paths:
            if is_file(path) and os.access(path, os.X_OK):
                found.setdefault(name, []).append(Path(os.path.realpath(path)))
    return found


def _offers(file: Path, name: str) -> bool:
    """Return whether a multi-call program is a program of this name, too; also if that is uncertain."""
    try:
        about = os.stat(file)
    except OSError:
        return False
    return _has_name(str(file), about.st_mtime_ns, about.st_size, name)


@lru_cache(maxsize=64)
def _has_name(file: str, _changed: int, _size: int, name: str) -> bool:
    try:
        with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
            content = opened.read(READ)
    except OSError:
        return True
    return not content.startswith(b"\x7fELF") or b"\0%s\0" % os.fsencode(name) in content


def _names_by_file(folders: Iterable[str]) -> Mapping[Path, set[str]]:
    """Return the programs of these folders: by the real path of a file all names of it, links and hard links too."""
    dated = []
    for folder in dict.fromkeys(os.path.realpath(folder) for folder in folders):
        try:
            dated.append((folder, os.stat(folder).st_mtime_ns))
        except OSError:
            continue
    return _read_names(tuple(dated))


@lru_cache(maxsize=8)
def _read_names(folders: tuple[tuple[str, int], ...]) -> Mapping[Path, set[str]]:
    """Read the folders, each with the time of its last change: 2,000 programs take some milliseconds."""
    files: dict[tuple[int, int], list[Path]] = {}
    names: dict[tuple[int, int], set[str]] = {}
    for folder, _ in folders:
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        for entry in entries:
            try:
                about = entry.stat()
            except OSError:  # a link to nothing
                continue
            key = about.st_dev, about.st_ino
            names.setdefault(key, set()).add(entry.name.casefold())
            real = Path(os.path.realpath(entry.path)) if entry.is_symlink() else Path(entry.path)
            if real not in files.setdefault(key, []):
                files[key].append(real)
    return {file: names[key] for key, several in files.items() for file in several}
