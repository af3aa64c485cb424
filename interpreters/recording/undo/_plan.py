"""Plans that restore trees to their state before an entry of a list of changes."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress

from attrs import field, frozen

from cognition import CogstepError
from interpreters.recording.journal.content_files import Contents
from interpreters.recording.undo._log import ChangeEntry, OldFile
from interpreters.toolbox.edit_session import LARGEST, EditSession, File
from interpreters.toolbox.file_transaction import FileStep, digest_of
from interpreters.toolbox.root_directory import format_path
from interpreters.tools.tool import ToolError
from interpreters.tools.undo_hook import FileChange

Parts = tuple[str, ...]


@frozen
class Target:
    """The wanted state of a file.

    Attributes:
        old: the file to restore; None if it did not exist.
        left: SHA-256 of each content that the session's changes may have left; None in it for no file.
        mode_too: whether a change may have affected its mode.
    """

    old: OldFile | None
    left: frozenset[str | None]
    mode_too: bool


@frozen(eq=False)
class RootPlan:
    """The plan for one directory.

    Attributes:
        desk: the directory.
        steps: one for each file that differs now.
        changes: the same steps, for the keeper that saves the overwritten contents.
        folders: folders created by the session, to be removed if they are empty afterwards.
    """

    desk: EditSession
    steps: tuple[FileStep, ...]
    changes: tuple[FileChange, ...]
    folders: tuple[Parts, ...]

    @property
    def root(self) -> str:
        return str(self.desk.wall.root)


@frozen(eq=False)
class Plan:
    """The plan for all directories, or the reasons against it.

    Attributes:
        changed: a sentence for each file that others have changed since.
        stuck: a sentence for each file that can't be restored, even by force.
    """

    roots: list[RootPlan] = field(factory=list)
    changed: list[str] = field(factory=list)
    stuck: list[str] = field(factory=list)

    def __bool__(self) -> bool:
        return any(one.steps for one in self.roots) or bool(self.changed or self.stuck)


def first_of_turn(entries: Sequence[ChangeEntry], turn: int) -> int:
    """Return the number of the first entry in or after a turn; 0 without one."""
    return next((entry.number for entry in entries if entry.turn >= turn), 0)


def first_after(entries: Sequence[ChangeEntry], turn: int) -> int:
    """Return the number of the first entry after the end of a turn; 0 without one.

    An undo noted in that turn happened after its end. An undo in an earlier turn happened before the turn began.
    """
    until = (entry.number for entry in entries if entry.turn < turn + (entry.back is None))
    last = max(until, default=0)
    return last + 1 if last < len(entries) else 0


def newest_undo(entries: Sequence[ChangeEntry]) -> int:
    """Return the number of the newest undo, or 0.

    If an interrupted undo was repeated, this is the number of its first entry.
    """
    found = max((entry.number for entry in entries if entry.back is not None), default=0)
    while found > 1:
        before = entries[found - 2]
        if before.made or before.back != entries[found - 1].back:
            break
        found -= 1
    return found


def find_active_entries(entries: Sequence[ChangeEntry]) -> list[ChangeEntry]:
    """Return the tools' changes that are not undone, oldest first."""
    before: list[tuple[ChangeEntry, ...]] = []
    now: tuple[ChangeEntry, ...] = ()
    for entry in entries:
        before.append(now)
        if entry.back is None:
            now = (*now, entry) if entry.trees else now  # else nothing came of it
        elif entry.made:  # an undo of an undo brings back what stood before that
            now = before[entry.back - 1]
    return list(now)


def find_targets(entries: Sequence[ChangeEntry], back: int) -> dict[str, dict[Parts, Target]]:
    """Return for each directory the files changed by entry ``back`` and later, as they were before it."""
    found: dict[str, dict[Parts, Target]] = {}
    for entry in entries[back - 1 :]:
        for tree in entry.trees:
            files = found.setdefault(tree.root, {})
            for one in tree.files:
                known = files.get(one.path) or Target(one.old, frozenset(), one.mode_too)
                left = frozenset((one.new,))
                if not entry.made:  # it may not have happened, and an undo may have come in between
                    left |= known.left | {None if one.old is None else one.old.content}
                files[one.path] = Target(known.old, left, known.mode_too | one.mode_too)
    return found


def plan_restore(entries: Sequence[ChangeEntry], back: int, contents: Contents, *, force: bool) -> Plan:
    """Return the plan that restores the trees to their state before entry ``back``.

    Args:
        entries: the whole list.
        back: number of an entry; 0 for none, with nothing to restore.
        contents: the saved contents.
        force: whether to overwrite changes by others too.

    Raises:
        ContentError: a saved content is missing or was changed.
    """
    plan = Plan()
    for root, files in (find_targets(entries, back) if back else {}).items():
        desk: EditSession | None = None
        with suppress(OSError, CogstepError):
            desk = EditSession(root)
        if desk is None or str(desk.wall.root) != root:  # it is gone, or its path now leads elsewhere
            plan.stuck.append(f"{format_path(root)} is not the directory any more that it was")
            continue
        pairs = []
        for parts, target in files.items():
            name = format_path(os.path.join(root, *parts))
            try:
                file = desk.file_to_make("/".join(parts))
            except ToolError as error:
                plan.stuck.append(f"{name}: {error}")
                continue
            if _is_changed(file, target) and not force:
                what = "has gone" if file.content is None else "was changed" if None not in target.left else "was made"
                plan.changed.append(f"{name} {what} since")
            elif (step := _plan_file(file, target, contents)) is not None:
                pairs.append((step, FileChange(parts, file.content, file.about, step.after, target.mode_too)))
        steps, changes = tuple(step for step, _ in pairs), tuple(change for _, change in pairs)
        trees = (tree for entry in entries[back - 1 :] for tree in entry.trees if tree.root == root)
        folders = sorted({parts for tree in trees for parts in tree.folders}, key=len, reverse=True)
        plan.roots.append(RootPlan(desk, steps, changes, tuple(folders)))
    return plan


def _is_changed(file: File, target: Target) -> bool:
    """Whether others have changed a file to anything but its wanted state."""
    now = None if file.content is None else digest_of(file.content)
    wanted = None if target.old is None else target.old.content
    return now != wanted and now not in target.left


def _plan_file(file: File, target: Target, contents: Contents) -> FileStep | None:
    if target.old is None:
        return None if file.content is None else FileStep(file.parts, file.before, None)
    mode = target.old.mode if target.mode_too else None
    if file.content is not None and file.about is not None:
        same_mode = mode is None or stat.S_IMODE(file.about.st_mode) == mode
        if digest_of(file.content) == target.old.content and same_mode:
            return None
    like = None
    if file.content is None:  # made anew: whose it was, and with all of its mode, whatever the umask says
        user, group = target.old.owner
        like = os.stat_result((stat.S_IFREG | target.old.mode, 0, 0, 1, user, group, 0, 0, 0, 0))
    return FileStep(file.parts, file.before, contents.get(target.old.content, LARGEST), mode, like)
