"""``Edit`` and ``MultiEdit``: exact pieces of a file replaced by others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from interpreters.toolbox.changing import Step
from interpreters.toolbox.comparing import counted, shown_diff
from interpreters.toolbox.desk import Desk
from interpreters.toolbox.edits import NAMED, Change, edited
from interpreters.toolbox.files import MissingError, listed
from interpreters.toolbox.texts import read_text
from interpreters.tools.context import ToolContext
from interpreters.tools.tool import Tool, tool


def edit_tools(desk: Desk) -> tuple[Tool[..., Any], Tool[..., Any]]:
    """The tools ``Edit`` and ``MultiEdit``."""

    @tool(name="Edit", approval=True, kind="mutation", paths=("path",))
    def edit(
        path: str,
        old: Annotated[str, "the exact text to replace, which stands in the file once"],
        new: Annotated[str, "the text in its place"],
        context: ToolContext[Any],
        replace_all: Annotated[bool, "replace every place"] = False,
    ) -> str:
        """Replace a piece of a text file that was read before."""
        return _edit(desk, path, [Change(old, new, replace_all)], context)

    @tool(name="MultiEdit", approval=True, kind="mutation", paths=("path",))
    def multi_edit(
        path: str,
        edits: Annotated[list[Change], "made one after another, all or none"],
        context: ToolContext[Any],
    ) -> str:
        """Make several edits to one text file that was read before."""
        return _edit(desk, path, edits, context)

    return edit, multi_edit


def _edit(desk: Desk, path: str, changes: Sequence[Change], context: ToolContext[Any]) -> str:
    with desk.alone:
        file = desk.file_to_change(path)
        if file.content is None:
            raise MissingError(f"no such file: {path}; make it with Write")
        text = file.text
        desk.check_read(context, file)
        made = edited(text, changes)
        after = text.bytes_of(made.kept)
        desk.change(context, [Step(file.parts, file.before, after)], [file])
    new = read_text(after).shown
    added, removed = counted(text.shown, new)
    places = [place for lines in made.places for place in lines]
    where = ", ".join(map(str, places[:NAMED])) + (", ..." if len(places) > NAMED else "")
    number = f"{len(places)} places, lines {where}" if len(places) > 1 else f"line {where}"
    head = f"Edited {listed('/'.join(file.parts))}: {number}; +{added} -{removed} lines."
    return "\n".join(filter(None, [head, shown_diff(text.shown, new)]))
