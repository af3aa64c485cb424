"""What the tools of a server are called here: ``mcp.SERVER.TOOL``, each once, in letters that every model takes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256

from cognition.tools import NAME

PREFIX = "mcp"
LONGEST = 64
"""Characters of a tool's name, as ``cognition.tools.NAME`` has it."""
STRANGE = re.compile(r"[^A-Za-z0-9_.-]+")
MARK = 6
"""Characters by which two names are told apart that would be alike."""


def tool_names(server: str, names: Iterable[str]) -> dict[str, str]:
    """For each of a server's own names the one that its tool has here.

    A name that can stand as it is does so, whatever else the server lists. Of the others what can't stand is an
    underscore, and what would be alike or too long ends with a mark of the whole name, so that none depends on the
    order of a list.
    """
    own = tuple(dict.fromkeys(names))
    plain = {name: f"{PREFIX}.{server}.{name}" for name in own}
    found = {name: full for name, full in plain.items() if NAME.fullmatch(full)}
    changed = {name: STRANGE.sub("_", full) for name, full in plain.items() if name not in found}
    taken = list(changed.values())
    for name, full in changed.items():
        alike = taken.count(full) > 1 or full in found.values() or not STRANGE.sub("", name).strip("._-")
        if alike or len(full) > LONGEST:
            mark = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:MARK]
            full = f"{full[: LONGEST - MARK - 1]}-{mark}"
        found[name] = full
    return found
