"""Saves old file contents beside a recording, before the session's tools change the files."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from cognition import CogstepError
from interpreters.recording.journal import Journal
from interpreters.recording.journal.content_files import Contents, undo_files
from interpreters.recording.journal.payloads import directory_of
from interpreters.recording.undo._log import ChangeEntry, ChangeLog, FileEntry, LockedLog, OldFile, Tree
from interpreters.toolbox.edit_session import EditSession
from interpreters.toolbox.file_transaction import ChangedError, digest_of
from interpreters.toolbox.root_directory import format_path
from interpreters.tools.tool import ToolError
from interpreters.tools.undo_hook import FileChange
from runtime.files import reason_about


class Checkpoints:
    """The ``UndoHook`` of one session: see ``interpreters.tools.undo_hook``.

    Args:
        journal: file of the session's recording, or the path in its place: see ``recorder.Beside``.
        session: name of the session.
        force: whether undo data must be forced to disk before a change, beyond the system's cache. A killed process
            loses neither.

    Attributes:
        turn: returns the newest turn of the session, or of a worker's parent.
    """

    def __init__(self, journal: Path, session: str, *, force: bool) -> None:
        self._journal = Path(os.path.abspath(journal))  # wherever the program stands later
        self._force = force
        self._log = ChangeLog(undo_files(self._journal), session, force=force)
        self._directory_forced = False
        self.turn: Callable[[], int] = lambda: 0

    @contextmanager
    def keep_changes(self, root: str, changes: Sequence[FileChange], call_id: str) -> Iterator[None]:
        """See ``UndoHook.keep_changes``. Such changes of one session happen one after another."""
        with ExitStack() as held:
            log, number = self._keep(root, changes, call_id, held)
            try:
                yield
            except ChangedError:  # such as by an undo in another process: all is as it was
                log.note_failed(number)
                raise
            log.note_done(number)

    @contextmanager
    def keep_files(self, root: str | os.PathLike[str], paths: Sequence[str], call_id: str) -> Iterator[None]:
        """See ``UndoHook.keep_files``. The block may use other tools and take long, since it does not block other
        changes.
        """
        desk = EditSession(root)
        files = {file.parts: file for file in map(desk.file_to_make, paths)}
        # As if they were to stay as they are: what they have become is noted afterwards.
        changes = [FileChange(one.parts, one.content, one.about, one.content, mode_too=True) for one in files.values()]
        with ExitStack() as held:
            number = self._keep(str(desk.wall.root), changes, call_id, held)[1]
        try:
            yield
        finally:
            with suppress(
                OSError, CogstepError, ToolError
            ):  # then it is not known, and a file that has changed says so
                left = [desk.file_to_make("/".join(parts)).content for parts in files]
                with self._log.hold() as log:
                    log.note_done(number, [None if one is None else digest_of(one) for one in left])

    def _keep(self, root: str, changes: Sequence[FileChange], call_id: str, held: ExitStack) -> tuple[LockedLog, int]:
        """Save the undo data of a change and note it. Return the list, which ``hold`` releases, and the number of the
        change.
        """
        self._check_not_ours(root, changes)
        contents = undo_files(self._journal)  # a new one, which looks whether a content is still there
        try:
            log = held.enter_context(self._log.hold())
            trees = (keep_contents(contents, root, changes, force=self._force),)
            if self._force:  # contents first, then their names, then the line that needs them, and only then the change
                contents.force_names(own=not self._directory_forced)
                self._directory_forced = True
            return log, log.add(ChangeEntry(self.turn(), trees, call_id))
        except (OSError, CogstepError) as error:
            reason = reason_about(error, contents.directory) if isinstance(error, OSError) else str(error)
            place = format_path(str(contents.directory))
            raise ToolError(
                f"what the files hold can't be kept for an undo in {place} ({reason}), so nothing was changed"
            ) from error

    def _check_not_ours(self, root: str, changes: Sequence[FileChange]) -> None:
        """Check that a tool does not change the recording or its undo data. An undo would corrupt them while it uses
        them.

        Raises:
            ToolError: the tool would change them.
        """
        folder = os.path.realpath(self._journal.parent)
        for one in changes:
            there, *_ = os.path.relpath(os.path.join(root, *one.parts), folder).split(os.sep)
            ours = undo_files(self._journal).directory.name, directory_of(self._journal).name
            if there in (self._journal.name, *ours):
                raise ToolError(f"no tool changes the recording of its own session: {format_path('/'.join(one.parts))}")


def checkpoints_of(journal: Journal | None, session: str) -> Checkpoints | None:
    """Return the keeper of a session; None if its recorder has no place for undo data."""
    if journal is None or journal.beside is None:
        return None
    return Checkpoints(journal.beside, session, force=journal.forces)


def keep_contents(contents: Contents, root: str, changes: Sequence[FileChange], *, force: bool) -> Tree:
    """Save the contents that a change overwrites in one directory, and return the description of the change.

    With ``force`` the contents are on disk. ``Contents.force_names`` does the same for their names.

    Raises:
        OSError: a content can't be saved.
    """
    files = []
    for one in changes:
        old = None
        if one.old is not None and one.about is not None:
            name = contents.put(one.old, force=force, named=False)
            old = OldFile(name, stat.S_IMODE(one.about.st_mode), (one.about.st_uid, one.about.st_gid))
        new = None if one.new is None else sha256(one.new).hexdigest()
        files.append(FileEntry(one.parts, old, new, one.mode_too or old is None or new is None))
    made = [one.parts for one in changes if one.old is None]
    parents = dict.fromkeys(parts[:depth] for parts in made for depth in range(1, len(parts)))
    outer_first = sorted(parents, key=len)
    missing = tuple(parts for parts in outer_first if not os.path.lexists(os.path.join(root, *parts)))
    return Tree(root, missing, tuple(files))
