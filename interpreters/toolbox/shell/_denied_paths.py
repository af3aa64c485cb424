"""Find the files and programs that policy's rules deny to a command, to make the profile of its sandbox."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from cognition import AccessRules, Rule
from cognition.policy.access import DeniedPaths, Places
from interpreters.toolbox.shell._profile import SandboxProfile

VISITED = 200_000
"""Files and directories that the search for denied paths looks at."""
MOST = 1_000
"""Denied paths that one sandbox can have."""


class Denials:
    """The profile of one command, and the rules that no sandbox can enforce here.

    Args:
        access: policy's rules for the command.
        root: its working directory.
        readable: further directories that it may read.
        path: the value of its ``PATH``.
        network: whether it may use the network.
    """

    def __init__(
        self, access: AccessRules, root: Path, readable: Sequence[Path], path: str, *, network: bool = False
    ) -> None:
        self.unheld: list[Rule] = []
        """Rules that the profile does not express."""
        hidden = self._find(access.paths, (root, *readable))
        read_only = [one for one in self._find(access.writes, (root,)) if one not in hidden]
        programs = self._programs(access.programs, root, path)
        self.profile: SandboxProfile = SandboxProfile(
            root, tuple(readable), tuple(hidden), tuple(read_only), tuple(programs), network
        )

    def _find(self, rules: Sequence[Rule], folders: Iterable[Path]) -> list[Path]:
        """Return the paths below the folders that rules match, with links resolved. All that is below them is left
        out.
        """
        if not rules:
            return []
        found: dict[Path, None] = {}
        left = VISITED
        for folder in folders:
            denied = DeniedPaths(rules, (str(folder),), os.path.expanduser("~"))
            todo: list[tuple[Path, Places]] = [(folder, denied.beginning)]
            seen = set(todo)
            while todo:
                place, before = todo.pop()
                try:
                    entries = list(os.scandir(place))
                except OSError:  # nor can the command open it
                    continue
                left -= len(entries)
                if left < 0 or len(found) > MOST:
                    self.unheld += [rule for rule in rules if rule not in self.unheld]
                    return list(found)[:MOST]
                for entry in entries:
                    places = denied.after(before, entry.name)
                    if not places:
                        continue
                    real = Path(os.path.realpath(entry.path))
                    if denied.rule(places) is not None:
                        found |= dict.fromkeys(one for one in (Path(entry.path), real) if _is_there(one))
                    elif real.is_dir() and real.is_relative_to(folder) and (real, places) not in seen:
                        seen.add((real, places))
                        todo.append((real, places))
        return [one for one in found if not any(above in found for above in one.parents)]

    def _programs(self, rules: Sequence[Rule], root: Path, path: str) -> list[Path]:
        found: dict[Path, None] = {}
        folders = [Path(one) for one in path.split(":") if os.path.isabs(one)]
        folders += [Path(place, name) for place in ("/usr", "/usr/local", "/") for name in ("bin", "sbin")]
        installed: Mapping[Path, set[str]] = _names_by_file(folders) if rules else {}
        for rule in rules:
            wanted = rule.pattern.argument.casefold()
            if "/" in wanted:
                file = Path(os.path.realpath(root / os.path.expanduser(rule.pattern.argument)))
                found |= {file: None} if file.is_file() else {}
                wanted = file.name.casefold()
                files = [one for one in installed if one == file]
            else:
                files = [one for one, names in installed.items() if wanted in names]
            for file in files:
                if all(wanted in name or name in wanted for name in installed[file]):
                    found[file] = None
                elif rule not in self.unheld:
                    self.unheld.append(rule)  # it is other programs, too, such as BusyBox
        return list(found)


def _is_there(path: Path) -> bool:
    return not path.is_symlink() and path.exists()


def _names_by_file(folders: Iterable[Path]) -> Mapping[Path, set[str]]:
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
