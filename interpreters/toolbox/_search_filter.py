"""Filter paths from ripgrep exactly as a walk through the folders would."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any

from interpreters.toolbox._gitignore import IGNORE_FILE, Level, enter_folder
from interpreters.toolbox.line_search import below, open_directory
from interpreters.toolbox.root_directory import RootDirectory, SearchScope, Walk
from interpreters.tools.context import ToolContext
from interpreters.tools.tool import ToolError

BRACES = re.compile(r"\{([^{}]*)\}")
MANY = 64
"""Patterns that one pattern with braces may expand to."""

Reached = tuple[frozenset[int], Level | None]
"""For a folder: the positions in the pattern that its path reaches, and the git ignore patterns that apply in it."""


class SearchFilter:
    """The files to search: by a pattern, by git's ignore rules and by a second pattern."""

    def __init__(
        self, files: RootDirectory, parts: tuple[str, ...], asked: SearchScope, explicit: int, glob: str | None
    ) -> None:
        """Take ``parts``, ``asked`` and ``explicit`` as ``Walk`` does; paths must also match ``glob``.

        Raises:
            ToolError: ``glob`` is not a valid pattern.
        """
        nothing: ToolContext[Any] = ToolContext(None)
        self._root, self._explicit, self._asked = str(files.root), explicit, asked
        self._walk = Walk(files, parts, nothing, asked, explicit=explicit)
        self._globs = [] if glob is None else [files.parts(one) for one in expand_braces(glob)]
        self._named = [parts[0] for parts in self._globs if len(parts) == 1]
        self._pathed = [Walk(files, parts, nothing) for parts in self._globs if len(parts) > 1]
        self._folders: dict[str, Reached | None] = {}
        """By path. None: the folder is skipped."""

    def fits(self, path: str) -> bool:
        """Return whether a path matches the second pattern."""
        if not self._globs:
            return True
        names = path.split("/")
        return any(fnmatchcase(names[-1], one) for one in self._named) or any(
            one.leads_to(names) for one in self._pathed
        )

    def of(self, paths: Iterable[str]) -> Iterator[str]:
        """Yield the paths that a walk would reach. The paths must not contain links."""
        try:
            root = open_directory(self._root)
        except OSError:
            return
        try:
            for path in paths:
                *folders, name = path.split("/")
                if not self.fits(path):
                    continue
                reached = self._reach(root, folders)
                if reached is not None and self._is_reached(path, name, reached):
                    yield path
        finally:
            os.close(root)

    def _is_reached(self, path: str, name: str, folder: Reached) -> bool:
        places, level = folder
        after = self._walk.after(places, name)
        explicit = path.count("/") < self._explicit
        return self._walk.is_end(after) and (explicit or not self._walk.is_left_out(path, name, False, level, places))

    def _reach(self, root: int, folders: list[str]) -> Reached | None:
        prefix = "/".join([*folders, ""])
        if prefix not in self._folders:
            self._folders[prefix] = self._enter(root, folders, prefix)
        return self._folders[prefix]

    def _enter(self, root: int, folders: list[str], prefix: str) -> Reached | None:
        above: Level | None = None
        places = self._walk.beginning
        if folders:
            outer = self._reach(root, folders[:-1])
            if outer is None:
                return None
            before, above = outer
            places = self._walk.after(before, folders[-1])
            explicit = len(folders) <= self._explicit
            path = prefix.removesuffix("/")
            if not places or (not explicit and self._walk.is_left_out(path, folders[-1], True, above, before)):
                return None
        if self._asked.ignored:
            return places, None
        try:
            folder = below(os.dup(root), folders)
        except OSError:  # it is a link by now, or has gone
            return None
        try:
            there = {name for name in (".git", IGNORE_FILE) if _exists(name, folder)}
            return places, enter_folder(folder, prefix, above, there)
        finally:
            os.close(folder)


def _exists(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def expand_braces(glob: str) -> list[str]:
    """Expand braces: ``*.{py,md}`` becomes ``*.py`` and ``*.md``.

    Raises:
        ToolError: it expands to too many patterns.
    """
    done: list[str] = []
    todo = [glob]
    while todo:
        one = todo.pop()
        braces = BRACES.search(one)
        if braces is None:
            done.append(one)
        else:
            todo += [one[: braces.start()] + choice + one[braces.end() :] for choice in braces[1].split(",")]
        if len(done) + len(todo) > MANY:
            raise ToolError(f"invalid pattern: {glob[:80]} (its braces stand for more than {MANY} patterns)")
    return done
