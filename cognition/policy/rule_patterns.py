"""A rule's pattern as text: ``Tool``, ``server.*``, ``Tool(argument)``, ``Tool(argument:*)``, ``Tool(src/**)``."""

from __future__ import annotations

import re
from typing import NamedTuple, NoReturn
from unicodedata import normalize

from cognition.base.errors import ConfigError

NAME = re.compile(r"[A-Za-z0-9_.-]*\*?")
"""A tool's name, or the beginning of a name and a star."""
FOREIGN = re.compile(r"[^A-Za-z0-9_.-]+")
LONGEST = 10_000
"""The most characters of a pattern."""
NO, PERHAPS, YES = 0, 1, 2
"""Whether a pattern matches; ``PERHAPS`` if that is uncertain."""


class Pattern(NamedTuple):
    """A parsed pattern."""

    name: str
    """A tool's name, or with ``open`` its beginning."""
    open: bool = False
    argument: str = ""
    """The text to compare with a call's arguments, composed (NFC) and without the ``:*``; empty for any arguments."""
    prefix: bool = False
    """Whether more text may follow the argument."""

    def names(self, name: str) -> bool:
        """Return whether the pattern is for calls of this tool, with any or some arguments."""
        return name.startswith(self.name) if self.open else name == self.name


def read_pattern(text: str) -> Pattern:
    """Read a rule's pattern.

    Raises:
        ConfigError: it is invalid; the message locates the mistake and shows the nearest valid form.
    """
    if len(text) > LONGEST:
        raise ConfigError(f"rule pattern {text[:40]!r}...: it is longer than {LONGEST:,} characters; shorten it")
    name, bracket, rest = text.partition("(")
    if not bracket:
        return Pattern(*_name(text, name, ""))
    if not rest.endswith(")"):
        _refuse_unclosed(text, name, rest)
    argument = rest[:-1]
    before, opened = _name(text, name, f"({argument})")
    inner = normalize("NFC", argument.strip())
    if not inner:
        _refuse(text, f"nothing stands between '(' at {len(name)} and ')'", name)
    if argument != argument.strip():
        _refuse(text, f"there are spaces beside a bracket at {len(name)}", f"{name}({inner})")
    if inner in ("*", ":*"):
        return Pattern(before, opened)
    prefix = inner.endswith(":*")
    found = inner.find(":*")
    if 0 <= found < len(inner) - 2 or inner.startswith(":*"):
        right = f"{name}({inner[:found]}:*)" if found else name
        _refuse(text, f"':*' at {len(name) + 1 + found} stands at the end only", right)
    return Pattern(before, opened, inner[:-2].rstrip() if prefix else inner, prefix)


def _name(text: str, name: str, behind: str) -> tuple[str, bool]:
    """Return the name and whether it is a beginning; ``behind`` is the text after it."""
    if not name:
        _refuse(text, "there is no tool's name at 0", f"*{behind}")
    end = len(name) - len(NAME.sub("", name, count=1))
    if end == len(name):
        return (name[:-1], True) if name[-1] == "*" else (name, False)
    if name[end - 1 : end] == "*":
        _refuse(text, f"'*' at {end - 1} stands at the end of a name only", f"{name[:end]}{behind}")
    if name[end] == ")":
        _refuse(text, f"the ')' at {end} was not opened", name[:end] or "*")
    if name[end] == ":" and not behind:
        inner = name[end + 1 :].removesuffix("*").removesuffix(":").strip()
        _refuse(
            text, f"{name[end]!r} at {end} is no part of a name", f"{name[:end] or '*'}{f'({inner}:*)' * bool(inner)}"
        )
    _refuse(text, f"{name[end]!r} at {end} is no part of a name", f"{FOREIGN.sub('', name) or '*'}{behind}")


def _refuse_unclosed(text: str, name: str, rest: str) -> NoReturn:
    inside, closed, behind = rest.rpartition(")")
    if closed:
        where = len(text) - len(behind)
        _refuse(text, f"{behind[:20]!r} at {where} stands behind the ')'", f"{name}({inside})")
    _refuse(text, f"the '(' at {len(name)} is not closed", f"{text})" if rest.strip() else name or "*")


class PatternError(ConfigError):
    """An invalid pattern; ``right`` is the nearest valid pattern."""

    def __init__(self, message: str, right: str) -> None:
        super().__init__(f"{message}; write {right!r}")
        self.right = right


def _refuse(text: str, problem: str, right: str) -> NoReturn:
    try:
        read_pattern(right)
    except PatternError as another:  # there is more than one mistake
        right = another.right
    raise PatternError(f"rule pattern {text!r}: {problem}", right)
