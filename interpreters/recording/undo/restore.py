"""``undo``: restore the files that a session's tools have changed to their state at the beginning of a turn.

Either all files are restored or none, as with the tools' own changes. Overwritten contents are saved first, and the
undo is an entry in the list of changes, so it can be undone too. A kill halfway leaves an entry without its ``made``.
Repeating the same undo completes it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from attrs import frozen

from cognition import CogstepError, ToolReturned
from cognition.base.ids import parse_effect_id
from interpreters.recording.journal import JournalReader
from interpreters.recording.journal.content_files import CHANGES, ContentError, Contents, undo_files
from interpreters.recording.recorder import Where, beside, path_of
from interpreters.recording.undo._log import ChangeEntry, ChangeLog, LockedLog
from interpreters.recording.undo._plan import (
    Plan,
    find_active_entries,
    first_after,
    first_of_turn,
    newest_undo,
    plan_restore,
)
from interpreters.recording.undo.checkpoints import keep_contents
from interpreters.toolbox.file_transaction import ChangedError
from runtime.checking import checked_call
from runtime.files import reason_about

EFFECT = re.compile(rb'"effect_id":"(\d{1,9})\.')
"""Finds the turn of an effect in a line of a recording. Inside a text the quotes would be escaped."""

FILE_TOOLS = frozenset({"Write", "Edit", "MultiEdit", "Patch"})
UNCHANGED = "nothing was changed."
"""End of a tool's result if the file already contained the text to write."""

NOTHING_KEPT = (
    "no old content of files was kept beside this recording, so that there is nothing to undo: its session has changed "
    "none by cogstep's own tools (Write, Edit, MultiEdit, Patch), or was recorded elsewhere or by a version that kept "
    "none"
)
UNRECORDED = "without a recording nothing is kept that could be undone: give journal=, or --record"
NO_PLACE = (
    "nothing was kept, because its recorder has no place for what files held, as a PostgreSQL server has none for the "
    "files of other machines: record to a file or to SQLite, or give your own recorder a `beside` "
    "(docs/guides/recorders.md)"
)
NOTHING_LEFT = "all that its tools have changed is undone already"
NO_UNDO = "nothing was undone, so that there is no undo to take back"
BY_FORCE = (
    "Save what you want to keep of them, or give --force (force=True): it overwrites them, and keeps what it "
    "overwrites for --redo (redo=True)"
)
FORK_FORCES_NOTHING = (
    "Save what you want to keep of them: a fork overwrites nothing of somebody else's, but an undo with --force "
    "(force=True) does, and keeps it for --redo (redo=True)"
)


class UndoError(CogstepError):
    """The undo changed nothing.

    Attributes:
        files: a sentence for each file that prevents the undo.
    """

    def __init__(self, message: str, files: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.files: tuple[str, ...] = tuple(files)


@frozen
class RestoredFile:
    """A restored file."""

    path: str
    """Absolute path."""
    how: str
    """``changed``, ``made`` or ``deleted``: the effect of the undo on the file."""


@frozen
class Restored:
    """The result of an undo."""

    turn: int | None
    """The trees are as at the beginning of this turn; None: as before the newest undo."""
    files: tuple[RestoredFile, ...]


@checked_call
def undo(
    path: Where,
    turn: int | None = None,
    *,
    redo: bool = False,
    force: bool = False,
    dry_run: bool = False,
) -> Restored:
    """Restore the files that a session's own tools have changed to their state at the beginning of a turn.

    Args:
        path: the session's recording, a file or a ``Recorder``. It may be open.
        turn: number of the turn; None for the newest turn with changes that are not undone.
        redo: restore the state before the newest undo instead.
        force: whether to overwrite files that others have changed since.
        dry_run: only report the files.

    Raises:
        UndoError: there is nothing to undo, or a file prevents it; nothing was changed.
        ForeignRecordingError: there is no proof that this user wrote the recording.
        JournalError: the recording can't be read or is damaged.
    """
    if redo and turn is not None:
        raise UndoError("a turn's beginning, or what was before the newest undo: give one of the two")
    session, before, newest = _session(path)
    if turn is not None and not before < turn <= newest:
        raise UndoError(f"{path_of(path)}: {_no_turn(turn, before, newest)}")
    return _put_back(path, session, newest, turn, redo=redo, force=force, dry_run=dry_run)


def undo_after(path: Where, turn: int, *, dry_run: bool = False) -> Restored:
    """Restore the files to their state at the end of a turn, as ``fork`` does with ``files``.

    An undo after that turn is reverted, since the conversation up to the turn does not contain it.

    Args:
        path: the recording.
        turn: number of the turn.
        dry_run: see ``undo``.

    Raises:
        CogstepError: as ``undo``.
    """
    session, _, newest = _session(path)
    if turn >= newest and ((place := beside(path)) is None or not _is_kept(undo_files(place))):
        return Restored(turn + 1, ())
    return _put_back(path, session, newest, turn + 1, dry_run=dry_run, from_end=True)


def _is_kept(contents: Contents) -> bool:
    return os.path.lexists(contents.directory / CHANGES)


def _put_back(
    path: Where,
    session: str,
    newest: int,
    turn: int | None,
    *,
    redo: bool = False,
    force: bool = False,
    dry_run: bool = False,
    from_end: bool = False,
) -> Restored:
    """Do the work of ``undo``. With ``from_end``, restore the end of the previous turn instead."""
    where, path, place = path, path_of(path), beside(path)
    if place is None:
        raise UndoError(f"{path}: {NO_PLACE}")
    contents = undo_files(place)
    if not _is_kept(contents):
        raise UndoError(f"{path}: {NOTHING_KEPT}")
    try:
        with ChangeLog(contents, session).hold(begin=False) as log:
            log.check_own("undone")
            if not log.entries:
                if from_end and turn is not None and turn > newest:
                    return Restored(turn, ())
                raise UndoError(f"{path}: {NOTHING_KEPT}")
            if turn is not None:
                _check_kept(where, path, turn, log.entries)
            plan_from = partial(plan_restore, log.entries, contents=contents, force=force)
            goal = turn
            if from_end and turn is not None:
                back = first_after(log.entries, turn - 1)
                plan = plan_from(back)
            else:
                back, goal, plan = _choose_entry(path, log.entries, plan_from, turn, redo=redo)
            _check(path, plan, FORK_FORCES_NOTHING if from_end else BY_FORCE)
            if plan and not dry_run:
                _carry_out(path, log, contents, max(newest, log.entries[-1].turn), back, plan)
            elif not dry_run:
                for one in plan.roots:  # a file that was made and deleted again leaves its folders
                    one.desk.changes.make((), folders=one.folders)
                if log.entries[-1].back == back:  # it was broken off when all files were done
                    log.note_done(len(log.entries))
    except ContentError as error:
        raise UndoError(f"{path}: {error}; nothing was undone") from error
    except OSError as error:
        reason = reason_about(error, contents.directory)
        raise UndoError(f"{path}: {contents.directory} can't be used ({reason}); nothing was undone") from error
    return Restored(goal, tuple(_list_files(plan)))


def _session(where: Where) -> tuple[str, int, int]:
    """Return the name of a recorded session, the turn before its recording begins, and its newest turn."""
    with JournalReader(where) as reader:
        before = newest = reader.header.start.counters.turn
        for line in reader.lines():
            newest = max(newest, *map(int, EFFECT.findall(line)), 0)
        reader.check_own("undone")
        return reader.header.session, before, newest


def _check_kept(where: Where, path: Path, turn: int, entries: Sequence[ChangeEntry]) -> None:
    """Check that the list contains all recorded changes by file tools since a turn began.

    Entries may be missing if a recording was copied without its undo data and then continued.

    Raises:
        UndoError: entries are missing. An undo would create a state that never existed.
    """
    known = {entry.call for entry in entries}
    lost: dict[str, tuple[int, str]] = {}
    with JournalReader(where) as reader:
        tools = () if reader.header.config is None else reader.header.config.tools
        names = {spec.name for spec in tools if spec.name in FILE_TOOLS and spec.kind == "mutation"}
        called: dict[str, tuple[str, str]] = {}
        for number, line in enumerate(reader.lines() if names else (), 1):
            if b'"call_tool"' not in line and b'"tool_returned"' not in line:
                continue
            record = reader.record(line, number)
            event = record.input
            if isinstance(event, ToolReturned) and not event.content.endswith(UNCHANGED):
                call, name = called.get(event.effect_id, ("", ""))
                began, *_ = parse_effect_id(event.effect_id) or (0,)
                if name in names and call not in known and began >= turn:
                    lost[call] = (began, name)
            for one in record.decisions:
                if one["type"] == "call_tool":
                    called[one["effect_id"]] = (one["call"]["id"], one["call"]["name"])
    if lost:
        newest, name = max(lost.values())
        raise UndoError(
            f"{path}: what {len(lost)} calls overwrote since turn {turn} began is not kept here, such as one of {name} "
            f"in turn {newest}: the recording was without {undo_files(path).directory.name} by then. Nothing was "
            f"undone; what is kept is undone by a turn after {newest}, if there is one"
        )


def _no_turn(turn: int, before: int, newest: int) -> str:
    if newest == before:
        return f"there is no turn {turn}; nothing was said yet"
    turns = f"its turns are {before + 1} to {newest}"
    if turn > before:
        return f"there is no turn {turn}; {turns}"
    return (
        f"turn {turn} is not recorded here: {turns}. What happened before is undone by the recording that it stands in"
    )


def _choose_entry(
    path: Path, entries: Sequence[ChangeEntry], plan_from: Callable[[int], Plan], turn: int | None, *, redo: bool
) -> tuple[int, int | None, Plan]:
    """Return the entry to go back to, the turn that it means, and the plan."""
    last = entries[-1]
    broken_off = 0 if last.back is None or last.made else last.back
    if redo and not (broken_off and _turn_of(entries, broken_off) is None):
        newest = newest_undo(entries)
        if not newest:
            raise UndoError(f"{path}: {NO_UNDO}")
        return newest, None, plan_from(newest)
    if turn is not None:
        first = first_of_turn(entries, turn)
        return first, turn, plan_from(first)
    if broken_off:
        return broken_off, _turn_of(entries, broken_off), plan_from(broken_off)
    left = find_active_entries(entries)
    if not left:
        raise UndoError(f"{path}: {NOTHING_LEFT}; to take the newest undo back, give --redo (redo=True)")
    turns = sorted({entry.turn for entry in left})
    while True:
        one = turns.pop()
        first = first_of_turn(entries, one)  # which is there: one of them is of that turn
        plan = plan_from(first)
        if plan or not turns:  # else it came to nothing: a change that failed, or whose opposite came behind it
            return first, one, plan


def _turn_of(entries: Sequence[ChangeEntry], back: int) -> int | None:
    """Return the turn that begins just before an entry; None for an undo that is reverted."""
    entry = entries[back - 1]
    return entry.turn if entry.back is None else None


def _check(path: Path, plan: Plan, by_force: str) -> None:
    in_the_way = [*plan.stuck, *plan.changed]
    if in_the_way:
        count = len(in_the_way)
        head = f"{path}: nothing was undone, since {'a file is' if count == 1 else f'{count} files are'} in the way"
        todo = "Put right what can't be overwritten, then try it again" if plan.stuck else by_force
        raise UndoError(f"{head}: {'; '.join(in_the_way)}. {todo}", in_the_way)


def _carry_out(path: Path, log: LockedLog, contents: Contents, turn: int, back: int, plan: Plan) -> None:
    kept = (keep_contents(contents, one.root, one.changes, force=True) for one in plan.roots if one.steps)
    entry = ChangeEntry(turn, tuple(kept), back=back)
    contents.force_names()
    number = log.add(entry)
    done = 0
    try:
        for one in plan.roots:
            one.desk.changes.make(one.steps, folders=one.folders)
            done += 1
    except (ChangedError, OSError) as error:
        if done:  # those restored so far go back too
            for one in plan_restore(log.entries, number, contents, force=False).roots:
                if one.steps:
                    one.desk.changes.make(one.steps, folders=one.folders)
        what = f"{error.path} was changed in this moment" if isinstance(error, ChangedError) else str(error.strerror)
        raise UndoError(f"{path}: {what}; nothing was undone. Try it again") from error
    log.note_done(number)


def _list_files(plan: Plan) -> Iterator[RestoredFile]:
    for one in plan.roots:
        for step in one.steps:
            how = "deleted" if step.after is None else "made" if step.before is None else "changed"
            yield RestoredFile(os.path.join(one.root, *step.parts), how)
