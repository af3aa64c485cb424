"""``Read``: show the numbered lines of a file, how many are omitted, and how to continue; in brief, only its text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from interpreters.toolbox._texts import Line, Lines
from interpreters.toolbox.root_directory import RootDirectory
from interpreters.tools.context import ToolContext
from interpreters.tools.tool import Tool, ToolError, tool

if TYPE_CHECKING:  # the brief tool needs nothing of what changes files
    from interpreters.toolbox.edit_session import EditSession

LINES = 2_000
"""Lines shown without a limit."""
CHARACTERS = 50_000


def brief_read_tool(files: RootDirectory) -> Tool[..., Any]:
    """Return ``Read`` as the shipped model knows it."""

    @tool(name="Read", read_only=True, idempotent=True)
    def read(path: str) -> str:
        """Read a text file."""
        return files.read(path)

    return read


def read_tool(desk: EditSession) -> Tool[..., Any]:
    @tool(name="Read", read_only=True, idempotent=True)
    def read(
        path: str,
        context: ToolContext[Any],
        offset: Annotated[int, "number of the first line"] = 1,
        limit: Annotated[int, "how many lines"] = LINES,
        column: Annotated[int, "character of the first line to begin at, for a line too long to show"] = 1,
    ) -> str:
        """Read a text file: its lines, each after its number and a tab."""
        file = desk.file(path)
        text = file.text
        shown = number_lines(path, Lines(text.shown), offset, limit, column)
        desk.remember(context, file.parts, file.content)
        return f"{shown}\n[{text.describe}]" if text.describe else shown

    return read


def number_lines(path: str, lines: Sequence[Line], offset: int, limit: int, column: int) -> str:
    """Return the requested lines, up to the limits, and how to continue.

    Raises:
        ToolError: the arguments are out of range.
    """
    for name, value in (("offset", offset), ("limit", limit), ("column", column)):
        if value < 1:
            raise ToolError(f"{name} is {value}, and has to be 1 or more")
    if not lines:
        return "[the file is empty]"
    if offset > len(lines):
        raise ToolError(f"offset is {offset}, and {path} has {len(lines)} line{'s' * (len(lines) != 1)}")
    if column > max(1, len(lines[offset - 1].text)):
        raise ToolError(f"column is {column}, and line {offset} has {len(lines[offset - 1].text)} characters")
    found: list[str] = []
    left = CHARACTERS
    number = offset
    while number <= len(lines) and number < offset + limit:
        text = lines[number - 1].text[column - 1 :]
        if len(text) > left and found:
            break
        found.append(f"{number:>6}\t{text[:left]}")
        if len(text) > left:
            column += left
            found.append(
                f"[line {number} goes on: {len(text) - left} more characters; "
                f"read on with offset={number}, column={column}]"
            )
            return "\n".join(found)
        left, column = left - len(text), 1
        number += 1
    if number <= len(lines):
        found.append(f"[lines {offset} to {number - 1} of {len(lines)}; read on with offset={number}]")
    elif not lines[-1].end:
        found.append("[the last line has no newline at its end]")
    return "\n".join(found)
