"""What a handle's tools overwrite is kept beside the session's recording, where this side finds it.

Tools run here, and the recording is written there: by another thread, another process, perhaps on another machine. It
is this side that has the files, so that it is this side that keeps what they held, and puts them back.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from cognition import EffectId
from cognition.ids import parse_effect_id
from interpreters.recording.journal import JournalError, JournalReader
from interpreters.workspace.checkpoints import Checkpoints
from interpreters.workspace.undoing import UNRECORDED, UndoError

ELSEWHERE = (
    "nothing was kept, because nothing says where this program finds the recordings of its host: give files=, the "
    "folder from which their names lead on this side, to AgentHost"
)


class Kept:
    """Keeps for one handle.

    Args:
        key: the session's name in its host.
        journal: its recording, as the host was told; None where it has none.
        folder: from where that name leads on this side; None: nobody knows.
        resumed: whether the recording was there already, perhaps under another name of the session.
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
        """The recording.

        Raises:
            UndoError: nothing can be kept beside it; says why.
        """
        if self._place is None:
            raise UndoError(ELSEWHERE if self._recorded else UNRECORDED)
        return self._place

    def keeper(self, effect_id: EffectId) -> Checkpoints | None:
        """What keeps for a call; None where there is no place for it.

        Args:
            effect_id: of the call, or of the worker that made it: an effect of this session, which tells the turn.
        """
        if self._place is None:
            return None
        if self._checkpoints is None:
            self._checkpoints = self._found(self._place)
            if self._checkpoints is None:
                return None
            self._checkpoints.turn = lambda: self._turn
        turn, *_ = parse_effect_id(effect_id) or (0,)
        self._turn = max(self._turn, turn)  # a call of an earlier turn may come late
        return self._checkpoints

    def _found(self, place: Path) -> Checkpoints | None:
        try:
            with JournalReader(place) as reader:
                session = reader.header.session
        except JournalError:  # it is not there, whatever was said of the folder
            return None
        if session != self._key and not self._resumed:  # another one, of the same name
            return None
        return Checkpoints(place, session, force=self._force)
