"""Text of strangers between tags: what would be one of the tags there is written so that it is none.

Only that is changed, and not every ``<`` and ``&``: instructions are full of code, which the model had better read as
it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

WRITTEN = re.compile("&(?=(?:amp;)*lt;)")
"""Begins what reading back would take for something that was escaped."""
READ = re.compile("&(amp;)?((?:amp;)*lt;)")
LONGEST_NAME = 200
"""Characters of a source's name."""


@lru_cache(maxsize=32)
def _tags(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"<(?=\s*/?\s*(?:{'|'.join(map(re.escape, names))})\b)", re.IGNORECASE)


def escaped(text: str, names: tuple[str, ...]) -> str:
    """A text in which no tag of these names begins or ends, in whatever letters; ``unescaped`` gives it back."""
    if "&" in text:
        text = WRITTEN.sub("&amp;", text)
    return _tags(names).sub("&lt;", text) if "<" in text else text


def unescaped(text: str) -> str:
    """Undo ``escaped``."""
    return READ.sub(lambda found: f"&{found[2]}" if found[1] else "<", text)


def attribute(text: str, names: tuple[str, ...]) -> str:
    """A short text on one line that can stand in quotes in a tag."""
    line = " ".join(text[:LONGEST_NAME].split())
    return escaped(line, names).replace('"', "'")


def element(name: str, parts: Iterable[str]) -> str:
    """Texts between the tags of a section, each on lines of its own; empty where there are none."""
    inner = "\n".join(parts)
    return f"<{name}>\n{inner}\n</{name}>" if inner else ""


def frame(name: str) -> int:
    """Characters that ``element`` adds to its texts, and the empty line before it."""
    return len(f"<{name}>\n\n</{name}>\n\n")
