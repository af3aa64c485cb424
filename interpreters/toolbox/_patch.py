"""``Patch``: apply a unified diff of one or several files, completely or not at all."""

from __future__ import annotations

import stat
from typing import Annotated, Any

from attrs import frozen

from interpreters.toolbox._change_preview import Shown, diff_of, fingerprint
from interpreters.toolbox._diff_display import counted
from interpreters.toolbox._diffs import FileDiff, Hunk, read_diff
from interpreters.toolbox._hunks import patched
from interpreters.toolbox._texts import Text, check_writable, read_text
from interpreters.toolbox.edit_session import Desk, File
from interpreters.toolbox.file_transaction import Step
from interpreters.toolbox.root_directory import MissingError, listed
from interpreters.tools.context import ToolContext
from interpreters.tools.previews import Preview
from interpreters.tools.tool import Tool, ToolError, tool

Parts = tuple[str, ...]


def patch_tool(desk: Desk) -> Tool[..., Any]:
    def shown(patch: str, context: ToolContext[Any]) -> Preview:
        about = fingerprint(patch)
        with desk.showing(context, about), desk.alone:
            work, steps, _files = _all_worked_out(desk, patch, context)
            desk.show(context, about, steps)
        return diff_of([one.shown for one in work])

    @tool(name="Patch", approval=True, kind="mutation", paths=("patch",), preview=shown)
    def patch(
        patch: Annotated[str, "the diff; paths begin at the working directory"], context: ToolContext[Any]
    ) -> str:
        """Apply a unified diff, which may change, make, delete and rename several files."""
        with desk.alone:
            work, steps, files = _all_worked_out(desk, patch, context)
            desk.change(context, steps, files, fingerprint(patch))
        return "\n".join(one.told for one in work)

    return patch


@frozen
class Work:
    """The result of one file's diff.

    Attributes:
        diff: the diff.
        file: the present file; None if the file is created.
        after: the new content; None if the file is deleted.
        told: the line about this file for the model.
    """

    diff: FileDiff
    file: File | None
    after: bytes | None
    told: str

    @property
    def shown(self) -> Shown:
        """The change as shown to the approving user."""
        diff = self.diff
        before = "" if self.file is None else self.file.text.shown
        after = "" if self.after is None else read_text(self.after).shown
        name = listed(diff.name) if None in (diff.old, diff.new) else _named(diff)
        remark = {None: "", True: "; it can be executed then", False: "; it can not be executed then"}
        return Shown(self.told[0], name, before, after, remark[diff.executable])


def _named(diff: FileDiff) -> str:
    old, new = listed(diff.old or ""), listed(diff.new or "")
    return new if diff.old == diff.new else f"{old} -> {new}"


def _all_worked_out(desk: Desk, patch: str, context: ToolContext[Any]) -> tuple[list[Work], list[Step], list[File]]:
    """Return the changes of a diff, file by file, and the steps for them.

    Raises:
        ToolError: it can't be applied, or changes nothing.
    """
    check_writable(patch)
    work = [_worked_out(desk, diff, context) for diff in read_diff(patch)]
    steps, files = _steps(desk, work)
    if not steps:
        raise ToolError("the diff would change nothing")
    return work, steps, files


def _worked_out(desk: Desk, diff: FileDiff, context: ToolContext[Any]) -> Work:
    try:
        if diff.old is None:
            after = patched(Text("", ""), diff.hunks).kept
            lines = after.count("\n") + (after[-1:] not in ("", "\n"))
            return Work(diff, None, after.encode(), f"A {listed(diff.name)}: {lines} line{'s' * (lines != 1)}")
        file = desk.file_to_change(diff.old)
        if file.content is None:
            raise MissingError(f"no such file; to make it, write '--- /dev/null' and '+++ b/{diff.old}'")
        desk.check_read(context, file, needed=False)
        text = file.text
        made = patched(text, diff.hunks)
    except ToolError as error:
        raise ToolError(f"{diff.old or diff.name}: {error}\nNothing was changed.") from error
    if diff.new is None:
        if made.kept:
            lines = made.kept.count("\n") + (made.kept[-1] != "\n")
            raise ToolError(
                f"{diff.old}: the diff deletes the file, and {lines} lines of it stand in no hunk; remove all of them"
                "\nNothing was changed."
            )
        return Work(diff, file, None, f"D {listed(diff.old)}")
    after_bytes = text.bytes_of(made.kept)
    added, removed = counted(text.shown, read_text(after_bytes).shown)
    sign = "M" if diff.old == diff.new else "R"
    return Work(
        diff, file, after_bytes, f"{sign} {_named(diff)}: +{added} -{removed} lines{_moved(diff.hunks, made.offsets)}"
    )


def _moved(hunks: tuple[Hunk, ...], offsets: tuple[int | None, ...]) -> str:
    found = []
    for number, offset in enumerate(offsets, 1):
        if offset:
            count = f"{abs(offset)} line{'s' * (abs(offset) != 1)}"
            found.append(f"hunk {number} stood {count} further {'down' if offset > 0 else 'up'} than it said")
    return "".join(f"; {one}" for one in found)


def _steps(desk: Desk, work: list[Work]) -> tuple[list[Step], list[File]]:
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
    ends: dict[Parts, Work] = {}
    gone = {one.file.parts for one in work if one.file is not None and one.diff.old != one.diff.new}
    for one in work:
        if one.after is None or one.diff.new is None:
            continue
        if one.file is not None and one.diff.old == one.diff.new:
            parts = one.file.parts
        else:
            target = desk.file_to_make(one.diff.new)
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
        mode = None if end is None else _mode(end, source)
        after = None if end is None else end.after
        if after != file.content or mode is not None or like is not None:
            steps.append(Step(parts, file.before, after, mode, like))
    return steps, list(files.values())


def _mode(end: Work, source: File | None) -> int | None:
    if end.diff.executable is None:
        return None
    if source is None or source.about is None:
        return 0o777 if end.diff.executable else None  # of which the umask takes what others may not
    now = stat.S_IMODE(source.about.st_mode)
    wanted = now | (now & 0o444) >> 2 if end.diff.executable else now & ~0o111
    return None if wanted == now else wanted
