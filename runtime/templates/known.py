"""Which templates are known: those in the list that ``tests/conformance/templates.py --known`` makes.

They are the one that ships, and those that ``make conformance`` renders whole. They run in the program itself; all
others in a process of their own (``apart.py``). A text that differs in anything but the space at its end is another
template.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path

LIST = Path(__file__).with_name("known_templates.txt")
"""A line for each: the SHA-256 of its text in hexadecimal digits, and its name."""


def fingerprint(source: str) -> str:
    """What a template is known by. The space at its end, which editors and converters change, does not count."""
    return sha256(source.rstrip().encode("utf-8", "surrogatepass")).hexdigest()


def is_known(source: str) -> bool:
    """Whether a template is in the list; where there is no list, none is."""
    return fingerprint(source) in _known()


@cache
def _known() -> frozenset[str]:
    try:
        lines = LIST.read_text("ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return frozenset()
    return frozenset(line.partition(" ")[0] for line in lines if line and not line.startswith("#"))
