"""Escape foreign text between tags, so that it can't contain these tags.

Only these tags change, not every ``<`` and ``&``: instructions are full of code, which the model should read unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

WRITTEN = re.compile("&(?=(?:amp;)*lt;)")
"""An ampersand that ``unescape_tags`` would take for an escape."""
READ = re.compile("&(amp;)?((?:amp;)*lt;)")
LONGEST_NAME = 200
"""The most characters of a source's name."""


@lru_cache(maxsize=32)
def _tags(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"<(?=\s*/?\s*(?:{'|'.join(map(re.escape, names))})\b)", re.IGNORECASE)


def escape_tags(text: str, names: tuple[str, ...]) -> str:
    """Return a text without opening or closing tags of these names, in either case; ``unescape_tags`` reverses it."""
    if "&" in text:
        text = WRITTEN.sub("&amp;", text)
    return _tags(names).sub("&lt;", text) if "<" in text else text


def unescape_tags(text: str) -> str:
    """Undo ``escape_tags``."""
    return READ.sub(lambda found: f"&{found[2]}" if found[1] else "<", text)


def attribute(text: str, names: tuple[str, ...]) -> str:
    """Return a short text on one line, valid in quotes in a tag."""
    line = " ".join(text[:LONGEST_NAME].split())
    return escape_tags(line, names).replace('"', "'")


def element(name: str, parts: Iterable[str]) -> str:
    """Return texts between the tags of a section, each on its own lines; empty without texts."""
    inner = "\n".join(parts)
    return f"<{name}>\n{inner}\n</{name}>" if inner else ""


def frame(name: str) -> int:
    """Return the characters that ``element`` adds to its texts, including the empty line before it."""
    return len(f"<{name}>\n\n</{name}>\n\n")
