"""Read a docstring: the text for the model, and the parameters, in the styles of Google, NumPy and Sphinx."""

from __future__ import annotations

import re
from collections.abc import Iterable

GOOGLE = re.compile(r"(?:(?:Keyword |Other )?(?:Args|Arguments|Parameters)|Params):\s*$")
NUMPY = re.compile(r"(?:Other )?Parameters\s*$")
UNDERLINE = re.compile(r"[-=]{3,}\s*$")
ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")
"""A parameter in Google's style."""
NAMES = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")
"""One parameter or several in NumPy's style, with their type."""
FIELD = re.compile(r"[:@](param|parameter|arg|argument|key|keyword|type)\s+(?:[^:]*?\s)?\*{0,2}(\w+)\s*:\s*(.*)$")
"""A parameter in Sphinx's style, or in Epytext's."""
LIST = re.compile(r"[-*+>|:@.]|\d+[.)]|\S+:$")
"""The beginning of a line that has to stay a line: of a list, a table, an example, a heading."""


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return a docstring without the descriptions of parameters, and those by the parameter's name.

    Lines of a paragraph become one line; lists, examples and indented texts stay as they are.
    """
    lines = text.splitlines()
    rest: list[str] = []
    found: dict[str, list[str]] = {}
    at = 0
    while at < len(lines):
        line = lines[at]
        if GOOGLE.match(line) and at + 1 < len(lines) and (not lines[at + 1].strip() or lines[at + 1][:1] in " \t"):
            at = _read_google(lines, at + 1, found)
        elif NUMPY.match(line) and at + 1 < len(lines) and UNDERLINE.match(lines[at + 1]):
            at = _read_numpy(lines, at + 2, found)
        elif field := FIELD.match(line.strip()):
            at = _read_field(lines, at, field, found)
        else:
            rest.append(line)
            at += 1
    return _flow(rest), {name: " ".join(filter(None, parts)) for name, parts in found.items()}


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _read_google(lines: list[str], at: int, found: dict[str, list[str]]) -> int:
    margin: int | None = None
    current: list[str] = []
    while at < len(lines) and (not lines[at].strip() or _indent(lines[at])):
        line = lines[at]
        if line.strip():
            margin = _indent(line) if margin is None else margin
            entry = ENTRY.match(line.strip()) if _indent(line) == margin else None
            if entry is not None:
                current = found[entry[1]] = [entry[2]]
            else:
                current.append(line.strip())
        at += 1
    return at


def _read_numpy(lines: list[str], at: int, found: dict[str, list[str]]) -> int:
    current: list[list[str]] = []
    while at < len(lines):
        line = lines[at]
        if line.strip() and not _indent(line):
            names = NAMES.match(line)
            if names is None or (at + 1 < len(lines) and UNDERLINE.match(lines[at + 1])):
                break
            current = [found.setdefault(name.strip().lstrip("*"), []) for name in names[1].split(",")]
        elif line.strip():
            for parts in current:
                parts.append(line.strip())
        at += 1
    return at


def _read_field(lines: list[str], at: int, field: re.Match[str], found: dict[str, list[str]]) -> int:
    kind, name, begun = field.groups()
    parts = [begun.strip()]
    margin = _indent(lines[at])
    at += 1
    while at < len(lines) and lines[at].strip() and _indent(lines[at]) > margin:
        parts.append(lines[at].strip())
        at += 1
    if kind != "type":
        found[name] = parts
    return at


def _flow(lines: Iterable[str]) -> str:
    """Return the text of these lines, with the lines of a paragraph in one, and one empty line between paragraphs."""
    paragraphs: list[list[str]] = [[]]
    for line in lines:
        if line.strip():
            paragraphs[-1].append(line.rstrip())
        elif paragraphs[-1]:
            paragraphs.append([])
    return "\n\n".join("\n".join(_joined(paragraph)) for paragraph in paragraphs if paragraph)


def _joined(paragraph: list[str]) -> list[str]:
    if any(_indent(line) or LIST.match(line) for line in paragraph):
        return paragraph
    return [" ".join(" ".join(paragraph).split())]
