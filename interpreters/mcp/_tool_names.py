"""The names of a server's tools here: ``mcp.SERVER.TOOL``, unique, with characters that every model supports."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256

from cognition.values.tools import NAME

PREFIX = "mcp"
LONGEST = 64
"""Maximum characters of a tool's name, as in ``cognition.values.tools.NAME``."""
STRANGE = re.compile(r"[^A-Za-z0-9_.-]+")
MARK = 6
"""Number of hash characters that distinguish two similar names."""


def tool_names(server: str, names: Iterable[str]) -> dict[str, str]:
    """Return the name here for each of a server's own tool names.

    A valid name is unchanged, independent of the other names. In all others, invalid characters become an underscore. A
    name that would be ambiguous or too long ends with a hash of the original name. So no name depends on the order of a
    list.
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
