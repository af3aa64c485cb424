"""Read the paths in the headers of a unified diff, for tools that take one."""

from __future__ import annotations

import re
from collections.abc import Iterator

HEAD = re.compile(r"(?:---|\+\+\+|rename from|rename to|copy from|copy to) (.*)")
GIT = "diff --git "
PREFIXED = re.compile(r"[abciow]/(.+)", re.DOTALL)
"""git's prefixes: ``a/`` and ``b/``, and those of ``diff.mnemonicPrefix``."""
NOTHING = "/dev/null"


def diff_paths(text: str) -> tuple[list[str], bool]:
    """Return every path that any reader could find in a header of the diff, and whether there may be more.

    A file line that looks like a header counts as a header. Names quoted by git are not read.
    """
    found: dict[str, None] = {}
    more = False
    for line in text.split("\n"):
        for name in _named(line.rstrip("\r")):
            if name.startswith('"'):
                more = True
            elif name.partition("\t")[0] != NOTHING:
                found.update(dict.fromkeys(_readings(name)))
    return list(found), more or not found


def _named(line: str) -> Iterator[str]:
    head = HEAD.match(line)
    if head is not None:
        yield head[1]
    elif line.startswith(GIT):  # names a file twice; of a rename further lines say both names
        names = line[len(GIT) :]
        half = len(names) // 2
        if names.startswith('"') or names[half + 1 :] == names[:half] or names[half + 3 :] == names[2:half]:
            yield from (names[:half], names[half + 1 :])


def _readings(name: str) -> Iterator[str]:
    for reading in dict.fromkeys((name, name.partition("\t")[0], name.partition("\t")[0].rstrip())):
        if reading:
            yield reading
            prefixed = PREFIXED.fullmatch(reading)
            if prefixed is not None:
                yield prefixed[1]
