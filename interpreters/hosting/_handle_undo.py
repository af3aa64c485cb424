"""Copies of files that a handle's tools overwrite, saved beside the session's recording as seen from this side.

Tools run on this side. The recording is written by another thread or process, perhaps on another machine. Only this
side can read the files, so it saves and restores their contents.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from cognition import EffectId
from cognition.base.ids import parse_effect_id
from interpreters.recording.journal import JournalError, JournalReader
from interpreters.recording.undo.checkpoints import Checkpoints
from interpreters.recording.undo.restore import UNRECORDED, UndoError

ELSEWHERE = (
    "nothing was kept, because nothing says where this program finds the recordings of its host: give files=, the "
    "folder from which their names lead on this side, to AgentHost"
)


class HandleUndo:
    """Saves copies for a handle.

    Args:
        key: the session's name in its host.
        journal: its recording, as named to the host; None if it is not recorded.
        folder: the folder on this side to which that name is relative; None if unknown.
        resumed: whether the recording existed before, perhaps with another session name.
        force: see ``Checkpoints``.
    """

    def __init__(
        self, key: str, journal: str | os.PathLike[str] | None, folder: str | None, *, resumed: bool, force: bool
    ) -> None:
        self._key = key
        self._recorded = journal is not None
        self._place: Path | None = None
        if journal is not None and folder is not None:
            with suppress(OSError):  # the working directory is gone, and what is named from there with it
                self._place = Path(os.path.abspath(os.path.join(folder, journal)))
        self._resumed = resumed
        self._force = force
        self._checkpoints: Checkpoints | None = None
        self._turn = 0

    @property
    def file(self) -> Path:
        """The path of the recording.

        Raises:
            UndoError: copies can't be saved beside it; the message has the reason.
        """
        if self._place is None:
            raise UndoError(ELSEWHERE if self._recorded else UNRECORDED)
        return self._place

    def undo_hook(self, effect_id: EffectId) -> Checkpoints | None:
        """Return the store of copies for a call; None if it can't have one.

        Args:
            effect_id: of the call, or of the effect that spawned its worker: an effect of this session, which contains
                the turn's number.
        """
        if self._place is None:
            return None
        if self._checkpoints is None:
            try:
                with JournalReader(self._place) as reader:
                    session = reader.header.session
            except JournalError:  # it is not there, whatever was said of the folder
                return None
            if session != self._key and not self._resumed:  # another one, of the same name
                return None
            self._checkpoints = Checkpoints(self._place, session, force=self._force)
            self._checkpoints.turn = lambda: self._turn
        turn, *_ = parse_effect_id(effect_id) or (0,)
        self._turn = max(self._turn, turn)  # a call of an earlier turn may come late
        return self._checkpoints
