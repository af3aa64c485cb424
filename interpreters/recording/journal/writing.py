"""The writing end of a journal."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from attrs import asdict, evolve

from cognition import (
    PROTOCOL_VERSION,
    AgentConfig,
    AgentState,
    CognitiveEngine,
    Input,
    Transition,
    TurnFinished,
    UserSpoke,
    to_data,
)
from cognition.content import images_of
from interpreters.recording.journal.errors import (
    JournalError,
    JournalExistsError,
    JournalLockedError,
    JournalWriteError,
)
from interpreters.recording.journal.format import ENGINES, FORMAT, DecisionWriter, Origin, Place, line_of
from interpreters.recording.journal.lines import LONGEST, decoded
from interpreters.recording.journal.locking import LockedFile
from interpreters.recording.journal.payloads import LARGE, Payloads
from interpreters.recording.journal.reading import JournalReader
from interpreters.recording.journal.seals import begun, key_for_writing, said_of
from runtime.files import PRIVATE_FILE, force_directory, reason_about

if TYPE_CHECKING:
    from interpreters.recording.veil import Redacted, Veil

Fsync = Literal["record", "turn", "never"]
"""When what was written is forced to the disk. Without it a crash of the program loses nothing, one of the machine the
last seconds."""

UNSEALED = (
    "{path} is recorded without seals, because there is no key of this user's to seal it with: {reason}. So it won't "
    "count as this user's own, and can't be resumed; set XDG_STATE_HOME to a directory that only this user can write"
)


class Journal:
    """The writing end. Holds a lock on the file for as long as it is open; a crash releases it, and so does whoever
    drops it.
    """

    def __init__(self, path: Path, file: LockedFile, fsync: Fsync) -> None:
        self.path = path
        self._file = file
        self._fsync = fsync
        self._writing = threading.Lock()
        """Held while a record is written: by then the file is not closed, since its descriptor may be another's next.
        What can't be done now is left to who holds it: a signal's handler may have come in the midst of a write."""
        self._closed = False
        self._end = Place(0, -1, 0)
        """Where the last whole line ends: one value, which no interrupt halves."""
        self._payloads = Payloads(path)
        self._decisions = DecisionWriter()
        self.veil: Veil | None = None
        """Hides what is not to be written here."""
        self.warning = ""
        """Why the recording has no seals, and what that means; empty where it has them."""
        self._read: JournalReader | None = None
        """Of a journal that goes on, until the first line is written: it has seen what stands before."""

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        session: str,
        engine: CognitiveEngine,
        config: AgentConfig | None = None,
        fsync: Fsync = "turn",
        created: float | None = None,
        start: AgentState | None = None,
        origin: Origin | None = None,
        redacted: Sequence[Redacted] = (),
    ) -> Journal:
        """Begin a journal in a file that must not hold anything yet.

        ``start`` and ``origin`` are for forks; ``redacted`` says what is hidden in ``config``.

        Raises:
            JournalExistsError, JournalLockedError, JournalWriteError: each says what to do.
        """
        header: dict[str, Any] = {
            "format": FORMAT,
            "version": PROTOCOL_VERSION,
            "session": session,
            "engine": ENGINES.get(type(engine)) or f"{type(engine).__module__}.{type(engine).__qualname__}",
            "config": None if config is None else to_data(config),
            "created": time.time() if created is None else created,
        }
        if start is not None:
            header["start"] = to_data(start)
        if origin is not None:
            header["origin"] = asdict(origin, filter=lambda _field, value: value is not False)
        if redacted:
            header["redacted"] = [asdict(one) for one in redacted]
        # Only now, so that the file is locked as soon as it is there, and has its first line a moment later.
        journal = cls(Path(path), _open_for_writing(Path(path), os.O_CREAT), fsync)
        try:
            journal._begin(header)
        except BaseException:
            journal.close()
            raise
        return journal

    @classmethod
    def reopen(cls, path: str | os.PathLike[str], *, fsync: Fsync = "turn") -> tuple[Journal, JournalReader]:
        """Go on with a journal. The records are to be read to their end before the first one is written.

        From here on no other session can write it; what a crash left of a torn record goes with the first new one.

        Raises:
            JournalError: it can't be read or written, or another session is writing it.
        """
        path = Path(path)
        journal = cls(path, _open_for_writing(path, 0), fsync)
        try:
            journal._lock("another session is writing this journal; wait for its end")
            reader = JournalReader(path)
        except BaseException:
            journal.close()
            raise
        reader.on_record, journal._read = journal._stands, reader
        journal._stands(reader.header_place)
        return journal, reader

    def _stands(self, place: Place) -> None:
        """A whole line is known to end here."""
        self._end = place

    def _lock(self, otherwise: str) -> None:
        try:
            locked = self._file.lock()
        except OSError as error:
            raise JournalWriteError(
                f"can't be locked ({error.strerror}), so that nothing would keep a second session from writing it; "
                "choose a place on another disk",
                path=self.path,
            ) from error
        if not locked:
            raise JournalLockedError(otherwise, path=self.path)
        if not os.fstat(
            self._file.descriptor
        ).st_nlink:  # deleted, by `cogstep sessions prune` say, while this was opened
            raise JournalError("the file was deleted", path=self.path)

    def _begin(self, header: dict[str, Any]) -> None:
        try:
            self._end = evolve(self._end, seal=begun(key_for_writing()))
        except OSError as error:
            self.warning = UNSEALED.format(path=self.path, reason=said_of(error))
        self._lock("another session is being recorded here; choose another name")
        if os.fstat(self._file.descriptor).st_size > 0:
            raise JournalExistsError(
                "the file exists, and a recording is never overwritten; choose another name or delete it",
                path=self.path,
            )
        with contextlib.suppress(OSError):  # a disk without modes
            os.fchmod(self._file.descriptor, PRIVATE_FILE)  # an empty one was there
        self._put(header, force=self._fsync != "never")
        if self._fsync != "never":
            self._force_name()

    def _force_name(self) -> None:
        """Force the file's name to the disk too: else a crash of the machine may leave a file that nobody finds."""
        try:
            force_directory(self.path.parent)
        except OSError as error:
            raise self._not_written(error) from error

    @property
    def written(self) -> int:
        """How many records stand on file."""
        return self._end.number

    def waits(self, event: Input, transition: Transition) -> bool:
        """Whether ``write`` will wait for the disk, as far as that is known beforehand."""
        if self._fsync == "never":
            return False
        if self._forces(transition) or any(len(getattr(event, name, "")) >= LARGE for name in ("content", "text")):
            return True
        return isinstance(event, UserSpoke) and (
            len(event.system or "") >= LARGE or any(len(image.data) >= LARGE for image in images_of(event.parts))
        )

    def _forces(self, transition: Transition) -> bool:
        decisions = transition.decisions
        ends = bool(decisions) and isinstance(decisions[-1], TurnFinished)
        return self._fsync == "record" or (self._fsync == "turn" and ends)

    def write(self, event: Input, transition: Transition, redacted: Sequence[Redacted] = ()) -> None:
        """Append an input with its decisions, and with what a veil has hidden in it.

        Raises:
            JournalWriteError: it is not on file, and the file ends with the record before it.
        """
        record = {
            "seq": self.written + 1,
            "input": to_data(event),
            "decisions": self._decisions.data(transition.decisions),
        }
        if redacted:
            record["redacted"] = [asdict(one) for one in redacted]
        self._put(record, force=self._forces(transition))

    def close(self) -> None:
        """Release the file; once the record is written that a thread is writing. A second call does nothing."""
        self._closed = True
        self._close_if_nobody_writes()

    def _close_if_nobody_writes(self) -> None:
        # Looked at, not tried: an interrupt between a lock that was taken and the line that notes it leaves it taken.
        if not self._writing.locked():
            with self._writing:
                self._file.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _put(self, value: dict[str, Any], *, force: bool) -> None:
        if self._file.forked:  # before the lock: a thread of the parent's may have held it
            raise JournalWriteError(
                "this process was forked from the one that writes the journal, which goes on writing it; record "
                "another session here, or fork this one",
                path=self.path,
            )
        try:
            with self._writing:
                if self._closed:
                    raise JournalWriteError("the journal is closed", path=self.path)
                self._append(value, force=force)
        finally:
            if self._closed:
                self._close_if_nobody_writes()

    def _append(self, value: dict[str, Any], *, force: bool) -> None:
        descriptor = self._file.descriptor
        if self._read is not None:  # to its end by now. What is not the user's own, is not sealed as such
            self._end, self._read = evolve(self._end, seal=self._read.seals.whole()), None
        size, number = self._end.end, self._end.number
        line, total, seal = self._line(value)
        try:
            if os.fstat(descriptor).st_size > size:  # what an interrupt left behind of a record
                os.ftruncate(descriptor, size)
            written = 0
            while written < len(line):
                written += os.write(descriptor, line[written:])
            if force:
                os.fsync(descriptor)
        except OSError as error:
            self._take_back()
            raise self._not_written(error) from error
        self._end = Place(size + written, number + 1, total, seal)

    def _take_back(self) -> None:
        """Cut off what got through of a record, so that a reader finds whole ones only."""
        with contextlib.suppress(OSError):  # then the next record tries again
            os.ftruncate(self._file.descriptor, self._end.end)

    def _line(self, value: dict[str, Any]) -> tuple[bytes, int, blake2b | None]:
        """The line for a value, its sum and seal; its large texts are on file when this returns."""
        before, sealed = self._end.sum, self._end.seal
        try:
            line, total, seal = line_of(value, before, sealed)
            if len(line) >= LARGE:  # not the usual case
                line, total, seal = line_of(self._without_large_texts(value), before, sealed)
        except (ValueError, RecursionError) as error:
            raise JournalWriteError(f"the record has no form in JSON: {error}", path=self.path) from error
        except OSError as error:
            raise self._not_written(error) from error
        if len(line) > LONGEST:
            raise JournalWriteError(f"the record has {len(line)} bytes, and a line may have {LONGEST}", path=self.path)
        if "config" in value and decoded(line) is None:  # the only place where something stands of anybody's making
            raise JournalWriteError(
                "the header could not be read again: a tool's schema is nested too deeply, or a number is too long",
                path=self.path,
            )
        return line, total, seal

    def _without_large_texts(self, value: dict[str, Any]) -> dict[str, Any]:
        force = self._fsync != "never"
        if "config" not in value:
            moved: dict[str, Any] = self._payloads.moved_out(value, force=force)
            return moved
        config = value["config"] or {}
        # Schemas of tools may hold anything, so that they stay.
        texts = self._payloads.moved_out({"start": value.get("start"), "system": config.get("system")}, force=force)
        header = {**value, "start": texts["start"]} if "start" in value else dict(value)
        if "system" in config:
            header["config"] = {**config, "system": texts["system"]}
        return header

    def _not_written(self, error: OSError) -> JournalWriteError:
        return JournalWriteError(
            f"the record could not be written ({reason_about(error, self.path)}); everything before it is kept. "
            "Make room or choose another place, then go on",
            path=self.path,
        )


def _open_for_writing(path: Path, flags: int) -> LockedFile:
    try:
        return LockedFile(path, os.O_WRONLY | flags)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not flags:
            raise JournalError("can't be read: there is no such file", path=path) from error
        raise JournalWriteError(
            f"can't be opened for writing ({error.strerror}); choose another place", path=path
        ) from error
