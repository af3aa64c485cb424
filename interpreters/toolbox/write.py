"""``Write``: a whole file, made new or in the place of one that was read."""

from __future__ import annotations

from typing import Annotated, Any

from interpreters.toolbox.changing import Step
from interpreters.toolbox.comparing import counted, shown_diff
from interpreters.toolbox.desk import Desk, File
from interpreters.toolbox.files import listed
from interpreters.toolbox.texts import NoTextError, check_writable, lines_of, read_text, usual_end, with_ends
from interpreters.tools.context import ToolContext
from interpreters.tools.tool import Tool, ToolError, tool


def write_tool(desk: Desk) -> Tool[..., Any]:
    """The tool ``Write``."""

    @tool(name="Write", approval=True, idempotent=True, kind="mutation", paths=("path",))
    def write(path: str, content: Annotated[str, "all of the file"], context: ToolContext[Any]) -> str:
        """Write a whole text file. One that is there has to be read before; for a small change use Edit."""
        check_writable(content)
        with desk.alone:
            file = desk.file_to_make(path)
            new, note = written(file, content)
            name = listed("/".join(file.parts))
            if new == file.content:
                desk.remember(context, file.parts, new)
                return f"{name} holds exactly this already; nothing was changed."
            if file.content is not None:
                desk.check_read(context, file)
            desk.change(context, [Step(file.parts, file.before, new)], [file])
        lines = len(lines_of(content))
        if file.content is None:
            return f"Made {name}: {_lines(lines)}."
        try:
            before = file.text.shown
        except ToolError:
            return f"Wrote {name}: {_lines(lines)}; it was no text before."
        added, removed = counted(before, read_text(new).shown)
        diff = shown_diff(before, read_text(new).shown)
        return "\n".join(filter(None, [f"Wrote {name}: +{added} -{removed} lines{note}.", diff]))

    return write


def _lines(count: int) -> str:
    return f"{count} line{'s' * (count != 1)}"


def written(file: File, content: str) -> tuple[bytes, str]:
    """The bytes of a file with another text, in the encoding and with the ends of lines that it has, and a remark.

    To write what was read so changes nothing.
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
