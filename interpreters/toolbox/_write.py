"""``Write``: write a whole file, new or in place of a file that was read."""

from __future__ import annotations

from typing import Annotated, Any

from attrs import frozen

from interpreters.toolbox._change_preview import DisplayedChange, diff_of, fingerprint
from interpreters.toolbox._diff_display import count_changes, format_diff
from interpreters.toolbox._texts import Lines, NoTextError, check_writable, read_text, usual_end, with_ends
from interpreters.toolbox.edit_session import EditSession, File
from interpreters.toolbox.file_transaction import FileStep
from interpreters.toolbox.root_directory import format_path
from interpreters.tools.context import ToolContext
from interpreters.tools.previews import Preview
from interpreters.tools.tool import Tool, ToolError, tool


def write_tool(desk: EditSession) -> Tool[..., Any]:
    def preview_write(path: str, content: str, context: ToolContext[Any]) -> Preview:
        about = fingerprint(path, content)
        with desk.guard_preview(context, about), desk.alone:
            work = _work_out(desk, path, content, context)
            desk.show(context, about, work.steps)
        if not work.steps:
            return Preview(note=f"{work.name} holds exactly this already; nothing would be changed")
        after = read_text(work.new).shown
        if work.file.content is None:
            return diff_of([DisplayedChange("A", work.name, "", after)])
        if work.before is None:
            return diff_of([DisplayedChange("M", work.name, "", after, "; it was no text before")])
        return diff_of([DisplayedChange("M", work.name, work.before, after, work.note)])

    @tool(name="Write", approval=True, idempotent=True, kind="mutation", paths=("path",), preview=preview_write)
    def write(path: str, content: Annotated[str, "all of the file"], context: ToolContext[Any]) -> str:
        """Write a whole text file. One that is there has to be read before; for a small change use Edit."""
        with desk.alone:
            work = _work_out(desk, path, content, context)
            if not work.steps:
                desk.remember(context, work.file.parts, work.new)
                return f"{work.name} holds exactly this already; nothing was changed."
            desk.change(context, work.steps, [work.file], fingerprint(path, content))
        lines = len(Lines(content))
        if work.file.content is None:
            return f"Made {work.name}: {_lines(lines)}."
        if work.before is None:
            return f"Wrote {work.name}: {_lines(lines)}; it was no text before."
        after = read_text(work.new).shown
        added, removed = count_changes(work.before, after)
        head = f"Wrote {work.name}: +{added} -{removed} lines{work.note}."
        return "\n".join(filter(None, [head, format_diff(work.before, after)]))

    return write


@frozen
class WriteResult:
    """The result of a call.

    Attributes:
        file: the present file.
        name: the path to display.
        new: the new content.
        steps: empty if the file already has this content.
        note: a note on its encoding.
    """

    file: File
    name: str
    new: bytes
    steps: tuple[FileStep, ...] = ()
    note: str = ""

    @property
    def before(self) -> str | None:
        """The present text; None if it is not text."""
        try:
            return self.file.text.shown
        except ToolError:
            return None


def _work_out(desk: EditSession, path: str, content: str, context: ToolContext[Any]) -> WriteResult:
    check_writable(content)
    file = desk.file_to_make(path)
    new, note = encode_content(file, content)
    name = format_path("/".join(file.parts))
    if new == file.content:
        return WriteResult(file, name, new)
    if file.content is not None:
        desk.check_read(context, file)
    return WriteResult(file, name, new, (FileStep(file.parts, file.before, new),), note)


def _lines(count: int) -> str:
    return f"{count} line{'s' * (count != 1)}"


def encode_content(file: File, content: str) -> tuple[bytes, str]:
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
