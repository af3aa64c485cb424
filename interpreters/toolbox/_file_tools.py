"""``Read``, ``Write``, ``Edit`` and ``MultiEdit``: show and change the files in one directory.

They and ``Patch`` share an ``EditSession``: one tool may change a file that another has read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from attrs import frozen

from interpreters.toolbox._diff_display import DisplayedChange, count_changes, diff_of, format_diff
from interpreters.toolbox._edits import Change, apply_edits, name_lines
from interpreters.toolbox._patch import patch_tool
from interpreters.toolbox._texts import (
    Line,
    Lines,
    NoTextError,
    check_writable,
    format_lines,
    read_text,
    usual_end,
    with_ends,
)
from interpreters.toolbox.edit_session import EditSession, File, fingerprint
from interpreters.toolbox.file_transaction import FileStep
from interpreters.toolbox.root_directory import MissingError
from interpreters.tools.context import ToolContext
from interpreters.tools.previews import Preview
from interpreters.tools.tool import Tool, ToolError, tool

LINES = 2_000
"""Lines shown without a limit."""
CHARACTERS = 50_000


def file_tools(root: str | os.PathLike[str]) -> tuple[Tool[..., Any], ...]:
    """Return ``Read`` with line ranges, ``Write``, ``Edit``, ``MultiEdit`` and ``Patch`` for the directory ``root``.

    All but ``Read`` ask for approval.

    Raises:
        ConfigError: ``root`` is not a directory.
    """
    desk = EditSession(root)
    return (_read_tool(desk), _write_tool(desk), *_edit_tools(desk), patch_tool(desk))


# ---------------------------------------------------------------------------------------------------------------- Read


def _read_tool(desk: EditSession) -> Tool[..., Any]:
    @tool(name="Read", read_only=True, idempotent=True)
    def read(
        path: str,
        context: ToolContext[Any],
        offset: Annotated[int, "number of the first line"] = 1,
        limit: Annotated[int, "how many lines"] = LINES,
        column: Annotated[int, "character of the first line to begin at, for a line too long to show"] = 1,
    ) -> str:
        """Read a text file: its lines, each after its number and a tab."""
        file = desk.file(path, desk.access(context))
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
        raise ToolError(f"offset is {offset}, and {path} has {format_lines(len(lines))}")
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


# ----------------------------------------------------------------------------------------------------- whole changes


@frozen
class ChangedFile:
    """A call's change of one file.

    Attributes:
        file: the present file.
        content: the new content.
        note: a note on its encoding.
    """

    file: File
    content: bytes
    note: str = ""

    @property
    def steps(self) -> tuple[FileStep, ...]:
        """Empty if the file already has this content."""
        if self.content == self.file.content:
            return ()
        return (FileStep(self.file.parts, self.file.before, self.content),)

    @property
    def before(self) -> str | None:
        """The present text; None if it is not text."""
        try:
            return self.file.text.shown
        except ToolError:
            return None

    @property
    def after(self) -> str:
        return read_text(self.content).shown

    def report(self, start: str) -> str:
        """Return the numbers of lines and the diff of a changed text, for the model."""
        before, after = self.before or "", self.after
        added, removed = count_changes(before, after)
        return "\n".join(filter(None, [f"{start} +{added} -{removed} lines{self.note}.", format_diff(before, after)]))


def _preview(desk: EditSession, context: ToolContext[Any], about: str, work_out: Callable[[], ChangedFile]) -> Preview:
    with desk.guard_preview(context, about), desk.alone:
        made = work_out()
        desk.show(context, about, made.steps)
    if not made.steps:
        return Preview(note=f"{made.file.name} holds exactly this already; nothing would be changed")
    sign = "A" if made.file.content is None else "M"
    note = made.note if made.before is not None else "; it was no text before"
    return diff_of([DisplayedChange(sign, made.file.name, made.before or "", made.after, note)])


# --------------------------------------------------------------------------------------------------------------- Write


def _write_tool(desk: EditSession) -> Tool[..., Any]:
    def preview_write(path: str, content: str, context: ToolContext[Any]) -> Preview:
        return _preview(desk, context, fingerprint(path, content), lambda: _write(desk, path, content, context))

    @tool(name="Write", approval=True, idempotent=True, kind="mutation", paths=("path",), preview=preview_write)
    def write(path: str, content: Annotated[str, "all of the file"], context: ToolContext[Any]) -> str:
        """Write a whole text file. One that is there has to be read before; for a small change use Edit."""
        with desk.alone:
            made = _write(desk, path, content, context)
            name, steps = made.file.name, made.steps
            if not steps:
                desk.remember(context, made.file.parts, made.content)
                return f"{name} holds exactly this already; nothing was changed."
            desk.change(context, steps, [made.file], fingerprint(path, content))
        lines = format_lines(len(Lines(content)))
        if made.file.content is None:
            return f"Made {name}: {lines}."
        if made.before is None:
            return f"Wrote {name}: {lines}; it was no text before."
        return made.report(f"Wrote {name}:")

    return write


def _write(desk: EditSession, path: str, content: str, context: ToolContext[Any]) -> ChangedFile:
    check_writable(content)
    file = desk.target(path, desk.access(context))
    made = ChangedFile(file, *_encode_content(file, content))
    if file.content not in (None, made.content):
        desk.check_read(context, file)
    return made


def _encode_content(file: File, content: str) -> tuple[bytes, str]:
    """Return a file's bytes with another text, in its encoding and with its line endings, and a note on the encoding.

    Writing the text that was read changes nothing.
    """
    if file.content is None:
        return content.encode(), ""
    try:
        text = read_text(file.content)
    except NoTextError:
        return content.encode(), ""
    new = with_ends(content, text.shown, usual_end(text.shown))
    if new == text.shown:
        return file.content, ""
    if text.encoding == "latin-1":
        try:
            return new.encode("latin-1"), ""
        except UnicodeEncodeError:
            return new.encode(), "; it was Latin-1, and is UTF-8 now"
    return text.bytes_of(new), ""


# ------------------------------------------------------------------------------------------------------ Edit, MultiEdit


def _edit_tools(desk: EditSession) -> tuple[Tool[..., Any], Tool[..., Any]]:
    def preview_edit(path: str, old: str, new: str, replace_all: bool, context: ToolContext[Any]) -> Preview:
        return preview_edits(path, [Change(old, new, replace_all)], context)

    def preview_edits(path: str, edits: list[Change], context: ToolContext[Any]) -> Preview:
        return _preview(desk, context, fingerprint(path, edits), lambda: _edit(desk, path, edits, context)[0])

    def make(path: str, edits: list[Change], context: ToolContext[Any]) -> str:
        with desk.alone:
            made, places = _edit(desk, path, edits, context)
            desk.change(context, made.steps, [made.file], fingerprint(path, edits))
        where = f"{len(places)} places, lines" if len(places) > 1 else "line"
        return made.report(f"Edited {made.file.name}: {where} {name_lines(places)};")

    @tool(name="Edit", approval=True, kind="mutation", paths=("path",), preview=preview_edit)
    def edit(
        path: str,
        old: Annotated[str, "the exact text to replace, which stands in the file once"],
        new: Annotated[str, "the text in its place"],
        context: ToolContext[Any],
        replace_all: Annotated[bool, "replace every place"] = False,
    ) -> str:
        """Replace a piece of a text file that was read before."""
        return make(path, [Change(old, new, replace_all)], context)

    @tool(name="MultiEdit", approval=True, kind="mutation", paths=("path",), preview=preview_edits)
    def multi_edit(
        path: str,
        edits: Annotated[list[Change], "made one after another, all or none"],
        context: ToolContext[Any],
    ) -> str:
        """Make several edits to one text file that was read before."""
        return make(path, edits, context)

    return edit, multi_edit


def _edit(
    desk: EditSession, path: str, changes: Sequence[Change], context: ToolContext[Any]
) -> tuple[ChangedFile, list[int]]:
    """Return the change, and the numbers of the changed lines."""
    file = desk.file(path, desk.access(context), changing=True)
    if file.content is None:
        raise MissingError(f"no such file: {path}; make it with Write")
    text = file.text
    desk.check_read(context, file)
    made = apply_edits(text, changes)
    return ChangedFile(file, text.bytes_of(made.kept)), [line for lines in made.places for line in lines]
