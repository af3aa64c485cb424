"""``Edit`` and ``MultiEdit``: replace exact pieces of a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from interpreters.toolbox._change_preview import DisplayedChange, diff_of, fingerprint
from interpreters.toolbox._diff_display import count_changes, format_diff
from interpreters.toolbox._edits import NAMED, Change, EditResult, apply_edits
from interpreters.toolbox._texts import read_text
from interpreters.toolbox.edit_session import EditSession, File
from interpreters.toolbox.file_transaction import FileStep
from interpreters.toolbox.root_directory import MissingError, format_path
from interpreters.tools.context import ToolContext
from interpreters.tools.previews import Preview
from interpreters.tools.tool import Tool, tool


def edit_tools(desk: EditSession) -> tuple[Tool[..., Any], Tool[..., Any]]:
    def preview_edit(path: str, old: str, new: str, replace_all: bool, context: ToolContext[Any]) -> Preview:
        return _preview(desk, path, [Change(old, new, replace_all)], context)

    def preview_edits(path: str, edits: list[Change], context: ToolContext[Any]) -> Preview:
        return _preview(desk, path, edits, context)

    @tool(name="Edit", approval=True, kind="mutation", paths=("path",), preview=preview_edit)
    def edit(
        path: str,
        old: Annotated[str, "the exact text to replace, which stands in the file once"],
        new: Annotated[str, "the text in its place"],
        context: ToolContext[Any],
        replace_all: Annotated[bool, "replace every place"] = False,
    ) -> str:
        """Replace a piece of a text file that was read before."""
        return _edit(desk, path, [Change(old, new, replace_all)], context)

    @tool(name="MultiEdit", approval=True, kind="mutation", paths=("path",), preview=preview_edits)
    def multi_edit(
        path: str,
        edits: Annotated[list[Change], "made one after another, all or none"],
        context: ToolContext[Any],
    ) -> str:
        """Make several edits to one text file that was read before."""
        return _edit(desk, path, edits, context)

    return edit, multi_edit


def _edit(desk: EditSession, path: str, changes: Sequence[Change], context: ToolContext[Any]) -> str:
    with desk.alone:
        file, made = _work_out(desk, path, changes, context)
        after = file.text.bytes_of(made.kept)
        desk.change(context, [FileStep(file.parts, file.before, after)], [file], fingerprint(path, changes))
    old, new = file.text.shown, read_text(after).shown
    added, removed = count_changes(old, new)
    places = [place for lines in made.places for place in lines]
    where = ", ".join(map(str, places[:NAMED])) + (", ..." if len(places) > NAMED else "")
    number = f"{len(places)} places, lines {where}" if len(places) > 1 else f"line {where}"
    head = f"Edited {format_path('/'.join(file.parts))}: {number}; +{added} -{removed} lines."
    return "\n".join(filter(None, [head, format_diff(old, new)]))


def _preview(desk: EditSession, path: str, changes: Sequence[Change], context: ToolContext[Any]) -> Preview:
    about = fingerprint(path, changes)
    with desk.guard_preview(context, about), desk.alone:
        file, made = _work_out(desk, path, changes, context)
        after = file.text.bytes_of(made.kept)
        desk.show(context, about, [FileStep(file.parts, file.before, after)])
    return diff_of([DisplayedChange("M", format_path("/".join(file.parts)), file.text.shown, read_text(after).shown)])


def _work_out(
    desk: EditSession, path: str, changes: Sequence[Change], context: ToolContext[Any]
) -> tuple[File, EditResult]:
    file = desk.file_to_change(path)
    if file.content is None:
        raise MissingError(f"no such file: {path}; make it with Write")
    text = file.text
    desk.check_read(context, file)
    return file, apply_edits(text, changes)
