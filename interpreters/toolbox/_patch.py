"""``Patch``: apply a unified diff of one or several files, completely or not at all."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from typing import Annotated, Any

from attrs import frozen

from cognition.base.display import shown_name
from interpreters.toolbox._diff_display import DisplayedChange, count_changes, diff_of
from interpreters.toolbox._diffs import FileDiff, Hunk, HunkLine, read_diff
from interpreters.toolbox._edits import name_lines
from interpreters.toolbox._file_access import FileAccess
from interpreters.toolbox._texts import Line, Lines, Text, check_writable, format_lines, lines_of, read_text, usual_end
from interpreters.toolbox.edit_session import EditSession, File, Parts, fingerprint
from interpreters.toolbox.file_transaction import FileStep
from interpreters.toolbox.root_directory import MissingError, format_path
from interpreters.tools.context import ToolContext
from interpreters.tools.previews import Preview
from interpreters.tools.tool import Tool, ToolError, tool


@frozen
class PatchResult:
    """A text with hunks applied.

    Attributes:
        kept: as in ``Text``.
        offsets: for each hunk, how many lines below its stated line it was applied; None if it states no line.
    """

    kept: str
    offsets: tuple[int | None, ...]


def patch_tool(desk: EditSession) -> Tool[..., Any]:
    def preview_patch(patch: str, context: ToolContext[Any]) -> Preview:
        about = fingerprint(patch)
        with desk.guard_preview(context, about), desk.alone:
            work, steps, _files = _work_out_all(desk, patch, context)
            desk.show(context, about, steps)
        return diff_of([one.shown for one in work])

    @tool(name="Patch", approval=True, kind="mutation", paths=("patch",), preview=preview_patch)
    def patch(
        patch: Annotated[str, "the diff; paths begin at the working directory"], context: ToolContext[Any]
    ) -> str:
        """Apply a unified diff, which may change, make, delete and rename several files."""
        with desk.alone:
            work, steps, files = _work_out_all(desk, patch, context)
            desk.change(context, steps, files, fingerprint(patch))
        return "\n".join(one.told for one in work)

    return patch


@frozen
class PatchedFile:
    """The result of one file's diff.

    Attributes:
        diff: the diff.
        file: the present file; None if the file is created.
        after: the new content; None if the file is deleted.
        note: further words about this file for the model.
    """

    diff: FileDiff
    file: File | None
    after: bytes | None
    note: str = ""

    @property
    def sign(self) -> str:
        """As in ``DisplayedChange``."""
        old, new = self.diff.old, self.diff.new
        return "A" if old is None else "D" if new is None else "M" if old == new else "R"

    @property
    def name(self) -> str:
        return " -> ".join(format_path(path) for path in dict.fromkeys((self.diff.old, self.diff.new)) if path)

    @property
    def told(self) -> str:
        """The line about this file for the model."""
        return f"{self.sign} {self.name}{self.note}"

    @property
    def shown(self) -> DisplayedChange:
        """The change as shown to the approving user."""
        before = "" if self.file is None else self.file.text.shown
        after = "" if self.after is None else read_text(self.after).shown
        remark = {None: "", True: "; it can be executed then", False: "; it can not be executed then"}
        return DisplayedChange(self.sign, self.name, before, after, remark[self.diff.executable])


def _work_out_all(
    desk: EditSession, patch: str, context: ToolContext[Any]
) -> tuple[list[PatchedFile], list[FileStep], list[File]]:
    """Return the changes of a diff, file by file, and the steps for them.

    Raises:
        ToolError: it can't be applied, or changes nothing.
    """
    check_writable(patch)
    access = desk.access(context)
    work = [_work_out(desk, diff, access, context) for diff in read_diff(patch)]
    steps, files = _steps(desk, work, access)
    if not steps:
        raise ToolError("the diff would change nothing")
    return work, steps, files


def _work_out(desk: EditSession, diff: FileDiff, access: FileAccess, context: ToolContext[Any]) -> PatchedFile:
    try:
        if diff.old is None:
            new = apply_hunks(Text("", ""), diff.hunks).kept
            return PatchedFile(diff, None, new.encode(), f": {format_lines(len(Lines(new)))}")
        file = desk.file(diff.old, access, changing=True)
        if file.content is None:
            raise MissingError(f"no such file; to make it, write '--- /dev/null' and '+++ b/{diff.old}'")
        desk.check_read(context, file, needed=False)
        text = file.text
        made = apply_hunks(text, diff.hunks)
        if diff.new is None and made.kept:
            left = len(Lines(made.kept))
            raise ToolError(f"the diff deletes the file, and {left} lines of it stand in no hunk; remove all of them")
    except ToolError as error:
        path = diff.new if diff.old is None else diff.old
        raise ToolError(f"{path}: {error}\nNothing was changed.") from error
    if diff.new is None:
        return PatchedFile(diff, file, None)
    after = text.bytes_of(made.kept)
    added, removed = count_changes(text.shown, read_text(after).shown)
    return PatchedFile(diff, file, after, f": +{added} -{removed} lines{_describe_offsets(made.offsets)}")


def _describe_offsets(offsets: tuple[int | None, ...]) -> str:
    return "".join(
        f"; hunk {number} stood {format_lines(abs(offset))} further {'down' if offset > 0 else 'up'} than it said"
        for number, offset in enumerate(offsets, 1)
        if offset
    )


def _steps(desk: EditSession, work: list[PatchedFile], access: FileAccess) -> tuple[list[FileStep], list[File]]:
    """Combine the diffs into one final step per file: a diff may create a file again that another diff removes.

    Raises:
        ToolError: two diffs change the same file; or a new file already exists, or lies inside another file.
    """
    files: dict[Parts, File] = {}
    for one in work:
        if one.file is not None:
            if one.file.parts in files:
                raise ToolError(f"the diff has {one.diff.old} twice; write all its hunks under one name")
            files[one.file.parts] = one.file
    ends: dict[Parts, PatchedFile] = {}
    gone = {one.file.parts for one in work if one.file is not None and one.diff.old != one.diff.new}
    for one in work:
        if one.after is None or one.diff.new is None:
            continue
        if one.file is not None and one.diff.old == one.diff.new:
            parts = one.file.parts
        else:
            target = desk.target(one.diff.new, access)
            parts = target.parts
            if target.content is not None and parts not in gone:
                raise ToolError(f"{one.diff.new} is there already; to change it, write its name behind '---' too")
            files.setdefault(parts, target)
        if parts in ends:
            raise ToolError(f"the diff makes {one.diff.new} twice")
        ends[parts] = one
    for parts, one in ends.items():
        for depth in range(1, len(parts)):
            if parts[:depth] in ends:
                raise ToolError(
                    f"the diff makes both {ends[parts[:depth]].diff.new} and {one.diff.new}, and a file can't hold "
                    "another one; rename one of them"
                )
    steps = []
    for parts, file in files.items():
        end = ends.get(parts)
        source = None if end is None else end.file
        like = None if source is None or source.parts == parts else source.about
        mode = None if end is None else _mode(end)
        after = None if end is None else end.after
        if after != file.content or mode is not None or like is not None:
            steps.append(FileStep(parts, file.before, after, mode, like))
    return steps, list(files.values())


def _mode(end: PatchedFile) -> int | None:
    executable, about = end.diff.executable, None if end.file is None else end.file.about
    if executable is None:
        return None
    if about is None:
        return 0o777 if executable else None  # of which the umask takes what others may not
    now = stat.S_IMODE(about.st_mode)
    wanted = now | (now & 0o444) >> 2 if executable else now & ~0o111
    return None if wanted == now else wanted


def apply_hunks(text: Text, hunks: Sequence[Hunk]) -> PatchResult:
    """Apply all hunks or none.

    Raises:
        ToolError: a hunk's old lines match nowhere, or at several places but not at the stated line.
    """
    shown, kept = lines_of(text.shown), lines_of(text.kept)
    usual = usual_end(text.shown)
    parts: list[Line] = []
    offsets: list[int | None] = []
    at = 0
    for number, hunk in enumerate(hunks, 1):
        try:
            place = _place(shown, hunk, at)
            parts += kept[at:place]
            parts += _apply_hunk(text, shown, kept, hunk, place, usual)
        except ToolError as error:
            raise ToolError(f"hunk {number} of {len(hunks)}: {error}") from error
        offsets.append(None if hunk.start is None else place + 1 - max(1, hunk.start))
        at = place + len(hunk.old)
    parts += kept[at:]
    whole = [line.text + (line.end or (usual if index < len(parts) - 1 else "")) for index, line in enumerate(parts)]
    return PatchResult("".join(whole), tuple(offsets))


def _place(lines: list[Line], hunk: Hunk, first: int) -> int:
    """Return the index of a hunk's first line. Lines before ``first`` belong to earlier hunks."""
    old = hunk.old
    if not old:
        if lines:
            raise ToolError("it has no line of the file in it; give at least one line of context around the new ones")
        return 0
    stated = None if hunk.start is None else max(0, hunk.start - 1)
    if stated is not None and stated >= first and _fits_at(lines, old, stated):
        return stated
    found = [place for place in range(first, len(lines) - len(old) + 1) if _fits_at(lines, old, place)]
    if len(found) == 1:
        return found[0]
    said = "" if stated is None else f" at line {stated + 1}"
    if found:
        numbers = name_lines([place + 1 for place in found])
        raise ToolError(
            f"its lines do not stand{said or ' in one place only'}, and do at {len(found)} others: lines {numbers}. "
            "Give more lines of context, or the right line number"
        )
    raise ToolError(f"its lines do not stand{said} or anywhere else in the file{_nearest(lines, old, first, stated)}")


def _fits_at(lines: list[Line], old: list[HunkLine], place: int) -> bool:
    if place + len(old) > len(lines):
        return False
    return all(_is_same(lines[place + index], line) for index, line in enumerate(old))


def _is_same(line: Line, wanted: HunkLine) -> bool:
    r"""Return whether a line matches a hunk's line. The hunk may write ``\r\n`` as it is or as ``\n``."""
    if not wanted.ended:
        return line.end == "" and line.text == wanted.text
    return line.text == wanted.text or (line.end == "\r\n" and line.text + "\r" == wanted.text)


def _nearest(lines: list[Line], old: list[HunkLine], first: int, stated: int | None) -> str:
    """Describe the place that matches most of a hunk's lines, and its first different line."""
    best, score = None, 0
    for place in range(first, len(lines)):
        two = zip(lines[place : place + 2], old, strict=False)
        if place != stated and not any(_is_same(line, wanted) for line, wanted in two):
            continue
        right = sum(_is_same(line, wanted) for line, wanted in zip(lines[place : place + len(old)], old, strict=False))
        if right > score:
            best, score = place, right
    if best is None:
        return "; Read it, and take the lines of context from there"
    for index, wanted in enumerate(old):
        if best + index >= len(lines):
            return f". Most of them stand from line {best + 1} on, and the file ends before {shown_name(wanted.text)!r}"
        if not _is_same(lines[best + index], wanted):
            return (
                f". Most like them is line {best + 1} and what follows, where line {best + index + 1} is "
                f"{shown_name(lines[best + index].text)!r} and not {shown_name(wanted.text)!r}"
            )
    return ""  # pragma: no cover - it would have been found


def _apply_hunk(text: Text, shown: list[Line], kept: list[Line], hunk: Hunk, place: int, usual: str) -> list[Line]:
    """Return the lines that replace a hunk's old lines. A new line has the ending of the line that it replaces."""
    exact = any(line.text.endswith("\r") for line in hunk.lines)
    before = shown[place - 1].end if place else usual
    ends: list[str] = []
    for old in shown[place : place + len(hunk.old)]:
        before = old.end or before  # the last line of a file may have none
        ends.append(before)
    found: list[Line] = []
    at, removed = 0, 0
    for line in hunk.lines:
        if line.sign == " ":
            found.append(kept[place + at])
            at, removed = at + 1, 0
        elif line.sign == "-":
            at, removed = at + 1, removed + 1
        else:
            if exact:
                end = "\r\n" if line.text.endswith("\r") else "\n"
            elif removed:
                end, removed = ends[at - removed], removed - 1
            else:
                end = ends[min(max(at - 1, 0), len(ends) - 1)] if ends else usual
            body = line.text[:-1] if end == "\r\n" and line.text.endswith("\r") and line.ended else line.text
            found.append(Line(text.to_stored_form(body), end if line.ended else ""))
    return found
