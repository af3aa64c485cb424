"""Policy's rules for the files that one call reaches: each tool compares them with the files' real paths.

``PathSandbox.access`` makes a ``FileAccess`` for a call, and ``PathSandbox.at`` takes it: there is no other way to a
file. A search asks it about each file, and does not enter folders without a file for it.

No answer shows whether a denied file exists. So the notes of a search depend on its pattern and on the rules alone: a
note only for files that were found would list them, one guess a call.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from cognition import NO_RULES, AccessRules, PathAccess
from cognition.base.display import shown_name
from interpreters.tools.tool import ToolError

NAMED = 3
"""Rules that a note names."""
GLOBS = 200
"""Patterns that ripgrep gets."""
PLAIN = re.compile(r"[\w.@+,~ /*-]+", re.ASCII)
"""A pattern that ripgrep reads as rules do."""


class RefusedError(ToolError):
    """Policy forbids the file, whether it exists or not."""


class FileAccess:
    """The rules of one call for the files of one directory.

    Args:
        rules: of the call.
        roots: absolute paths of the directory, by each of its names.
    """

    def __init__(self, rules: AccessRules, roots: Sequence[str] = ()) -> None:
        self._paths: PathAccess | None = None
        self.is_limited: bool = bool(rules.paths or rules.only)
        if self.is_limited:
            home = os.path.expanduser("~")
            self._paths = PathAccess(rules, tuple(dict.fromkeys(roots)), home if os.path.isabs(home) else "")

    def check(self, parts: Sequence[str]) -> None:
        """Check that a file may be reached. ``parts`` is its path relative to the directory, without links.

        Raises:
            RefusedError: it may not.
        """
        if self._paths is not None:
            _refuse(self._paths.refusal("/".join(parts) or "."))

    def check_on_the_way(self, parts: Sequence[str]) -> None:
        """Check a link, or a folder that ``..`` leaves again: following them shows whether they exist.

        Raises:
            RefusedError: a rule denies it, or asks about it.
        """
        if self._paths is not None:
            _refuse(self._paths.prohibition("/".join(parts) or "."))

    def allows(self, path: str) -> bool:
        """Return whether a file may be reached. ``path`` is relative to the directory, without links."""
        return self._paths is None or not self._paths.refusal(path)

    def skips(self, folder: str) -> bool:
        """Return whether no file below a folder may be reached."""
        return self._paths is not None and self._paths.skips(folder)

    def globs(self) -> list[str]:
        """Return ignore patterns for ripgrep, in any case of letters, of folders without a file that may be reached.

        A pattern of single files is none of them: as an ignore pattern it would also be one of folders.
        """
        trees = [] if self._paths is None else self._paths.closed_trees()
        return [one if one.startswith("**") else f"/{one}" for one in trees if PLAIN.fullmatch(one)][:GLOBS]

    def notes(self, search: Sequence[str]) -> list[str]:
        """Return a line about the files that a search leaves out. ``search`` is its pattern, name by name."""
        if self._paths is None:
            return []
        rules, groups = self._paths.concerning(search)
        denying = [rule.tool for rule in rules if rule.action == "deny"]
        asking = [rule.tool for rule in rules if rule.action != "deny"]
        found = [f"denied by {_listed(denying)}"] if denying else []
        found += [f"to ask about by {_listed(asking)} (name the path of one)"] if asking else []
        found += [f"not allowed by {_listed(group)}" for group in groups]
        return [f"[left out, if there are any: files {'; files '.join(found)}]"] if found else []


UNLIMITED = FileAccess(NO_RULES)
"""For the user's own commands, such as ``undo``, and for folders on the way to a file that is checked."""


def _refuse(problem: str) -> None:
    if problem:
        raise RefusedError(f"not permitted: {shown_name(problem, None)}")


def _listed(patterns: Sequence[str]) -> str:
    more = len(patterns) - NAMED
    names = ", ".join(shown_name(pattern) for pattern in patterns[:NAMED])
    return f"the rule{'s' * (len(patterns) != 1)} {names}" + (f" and {more} more" if more > 0 else "")
