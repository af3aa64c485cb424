"""What has to happen to files so that trees are as they were before one of the entries of a list of changes."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

from attrs import field, frozen

from cognition import CogstepError
from interpreters.recording.journal.contents import Contents
from interpreters.toolbox.changing import Step, digest_of
from interpreters.toolbox.desk import LARGEST, Desk, File
from interpreters.toolbox.files import listed
from interpreters.tools.keeping import FileChange
from interpreters.tools.tool import ToolError
from interpreters.workspace.log import Entry, FileEntry, Old

Parts = tuple[str, ...]


@frozen
class Target:
    """A file as it is to be again.

    Attributes:
        old: what it was; None where it was not there.
        left: what the session's changes may have left it as: SHA-256 of what it holds, None for no file.
        mode_too: whether one of them may have changed its mode.
    """

    old: Old | None
    left: frozenset[str | None]
    mode_too: bool


@frozen(eq=False)
class RootPlan:
    """What is to happen in one directory.

    Attributes:
        desk: the directory.
        steps: one for each file that is another one now.
        changes: the same, for who keeps what they overwrite.
        folders: that the session has made and that go where they are empty then.
    """

    desk: Desk
    steps: tuple[Step, ...]
    changes: tuple[FileChange, ...]
    folders: tuple[Parts, ...]

    @property
    def root(self) -> str:
        return str(self.desk.wall.root)


@frozen(eq=False)
class Plan:
    """What is to happen in all of them, or why it can't.

    Attributes:
        changed: a sentence for each file that somebody else has changed.
        stuck: a sentence for each file that can't be put back, whoever wants it.
    """

    roots: list[RootPlan] = field(factory=list)
    changed: list[str] = field(factory=list)
    stuck: list[str] = field(factory=list)

    def __bool__(self) -> bool:
        return any(one.steps for one in self.roots) or bool(self.changed or self.stuck)


def first_of_turn(entries: Sequence[Entry], turn: int) -> int | None:
    """The number of the first entry in a turn or behind it; None if there is none."""
    return next((entry.number for entry in entries if entry.turn >= turn), None)


def first_after(entries: Sequence[Entry], turn: int) -> int | None:
    """The number of the first entry behind what happened until a turn had ended; None if there is none.

    An undo that is noted in that turn came when it had ended; one of an earlier turn is part of what this turn found.
    """
    until = (entry.number for entry in entries if entry.turn < turn + (entry.back is None))
    last = max(until, default=0)
    return last + 1 if last < len(entries) else None


def newest_undo(entries: Sequence[Entry]) -> int | None:
    """The number of the newest entry of an undo; of one that was carried on after it was broken off, the first."""
    found = max((entry.number for entry in entries if entry.back is not None), default=None)
    while found is not None and found > 1:
        before = entries[found - 2]
        if before.made or before.back != entries[found - 1].back:
            break
        found -= 1
    return found


def standing(entries: Sequence[Entry]) -> list[Entry]:
    """The changes of tools that are not undone, oldest first."""
    before: list[tuple[Entry, ...]] = []
    now: tuple[Entry, ...] = ()
    for entry in entries:
        before.append(now)
        if entry.back is None:
            now = (*now, entry) if entry.trees else now  # else nothing came of it
        elif entry.made:  # an undo of an undo brings back what stood before that
            now = before[entry.back - 1]
    return list(now)


def targets(entries: Sequence[Entry], back: int) -> dict[str, dict[Parts, Target]]:
    """For each directory the files that entry ``back`` and those behind it have changed, as they were before."""
    found: dict[str, dict[Parts, Target]] = {}
    for entry in entries[back - 1 :]:
        for tree in entry.trees:
            files = found.setdefault(tree.root, {})
            for one in tree.files:
                known = files.get(one.parts)
                old, mode_too = (one.old, one.mode_too) if known is None else (known.old, known.mode_too | one.mode_too)
                left = frozenset() if known is None else known.left
                files[one.parts] = Target(old, _left(one, left, made=entry.made), mode_too)
    return found


def _left(one: FileEntry, before: frozenset[str | None], *, made: bool) -> frozenset[str | None]:
    """What a change may have left a file as: one that nobody knows to have been made also what it was before.

    That is what its tool had read, or what the changes before it have left: an undo may have come in between.
    """
    if made:
        return frozenset((one.new,))
    return before | {one.new, None if one.old is None else one.old.content}


def planned(entries: Sequence[Entry], back: int, contents: Contents, *, force: bool) -> Plan:
    """What puts the trees back to what they were before entry ``back``.

    Args:
        entries: of the whole list.
        back: the number of an entry.
        contents: where old contents are kept.
        force: whether what somebody else has written is overwritten too.

    Raises:
        ContentError: an old content is missing, or was changed.
    """
    plan = Plan()
    for root, files in targets(entries, back).items():
        desk = _desk(root)
        if desk is None:
            plan.stuck.append(f"{listed(root)} is not the directory any more that it was")
            continue
        pairs = []
        for parts, target in files.items():
            name = listed(os.path.join(root, *parts))
            try:
                file = desk.file_to_make("/".join(parts))
            except ToolError as error:
                plan.stuck.append(f"{name}: {error}")
                continue
            if _is_changed(file, target) and not force:
                what = "has gone" if file.content is None else "was changed" if None not in target.left else "was made"
                plan.changed.append(f"{name} {what} since")
            elif (step := _step(file, target, contents)) is not None:
                pairs.append((step, FileChange(parts, file.content, file.about, step.after, target.mode_too)))
        steps, changes = tuple(step for step, _ in pairs), tuple(change for _, change in pairs)
        plan.roots.append(RootPlan(desk, steps, changes, _folders(entries, back, root)))
    return plan


def _desk(root: str) -> Desk | None:
    """The directory of a root; None if it has gone, or its name leads to another one by now."""
    try:
        desk = Desk(root)
    except (OSError, CogstepError):
        return None
    return desk if str(desk.wall.root) == root else None


def _folders(entries: Sequence[Entry], back: int, root: str) -> tuple[Parts, ...]:
    """The folders that were made since, those within others first."""
    trees = (tree for entry in entries[back - 1 :] for tree in entry.trees if tree.root == root)
    return tuple(sorted({parts for tree in trees for parts in tree.folders}, key=len, reverse=True))


def _is_changed(file: File, target: Target) -> bool:
    """Whether somebody else has changed a file, and not to what it is to be anyway."""
    now = None if file.content is None else digest_of(file.content)
    wanted = None if target.old is None else target.old.content
    return now != wanted and now not in target.left


def _step(file: File, target: Target, contents: Contents) -> Step | None:
    if target.old is None:
        return None if file.content is None else Step(file.parts, file.before, None)
    mode = target.old.mode if target.mode_too else None
    if file.content is not None and file.about is not None:
        same_mode = mode is None or stat.S_IMODE(file.about.st_mode) == mode
        if digest_of(file.content) == target.old.content and same_mode:
            return None
    like = None
    if file.content is None:  # made anew: whose it was, and with all of its mode, whatever the umask says
        user, group = target.old.owner
        like = os.stat_result((stat.S_IFREG | target.old.mode, 0, 0, 1, user, group, 0, 0, 0, 0))
    return Step(file.parts, file.before, contents.get(target.old.content, LARGEST), mode, like)
