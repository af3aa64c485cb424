"""Writes journals."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from attrs import asdict, evolve

from cognition import (
    PROTOCOL_VERSION,
    AgentConfig,
    AgentState,
    CognitiveEngine,
    Compacted,
    Input,
    NotCompacted,
    Transition,
    TurnFinished,
    UserSpoke,
    to_data,
)
from cognition.values.content import images_of
from interpreters.recording.journal._file_recorder import FileRecorder
from interpreters.recording.journal.errors import (
    JournalError,
    JournalExistsError,
    JournalLockedError,
    JournalWriteError,
    unwritten_error,
)
from interpreters.recording.journal.format import ENGINES, FORMAT, DecisionWriter, LineEnd, Origin, line_of
from interpreters.recording.journal.payloads import LARGE, LargeTexts, Payloads, RecorderPayloads
from interpreters.recording.journal.reader import JournalReader
from interpreters.recording.journal.seals import KEY_FILE, describe_os_error, key_for_writing, start_hash
from interpreters.recording.journal.strict_lines import LONGEST, decode_line
from interpreters.recording.recorder import KeepsPayloads, MayWait, Recorder, Where, beside, path_of
from interpreters.tools.failures import describe
from runtime.closeable import Closeable

if TYPE_CHECKING:
    from interpreters.recording.redactor import RedactionNote, Redactor

T = TypeVar("T")

Fsync = Literal["record", "turn", "never"]
"""When to force records to disk. Without it, a crash of the program loses nothing; a crash of the machine loses the
last seconds.
"""

UNSEALED = (
    "{path} is recorded without seals, because there is no key of this user's to seal it with: {reason}. So it won't "
    "count as this user's own, and can't be resumed; {help}"
)


class Journal(Closeable):
    """Writes a journal. It locks its place while it is open; a crash or the loss of all references releases the lock.

    It formats the lines, and a ``Recorder`` stores them: a file, or the program's own.
    """

    def __init__(self, where: Where, fsync: Fsync) -> None:
        self.path: Path = path_of(where)
        self._recorder: Recorder = where if isinstance(where, Recorder) else FileRecorder(where)
        self._files = self._recorder if isinstance(self._recorder, FileRecorder) else None
        """The recorder if it is a file, which supports more than other recorders."""
        self._slow = self._recorder if isinstance(self._recorder, MayWait) else None
        """The recorder if it may have to wait for more than the disk."""
        self._process = os.getpid()
        self._released = False
        """Whether the place belongs to another session, perhaps through the same recorder. It must not be closed here
        then.
        """
        self._fsync = fsync
        self._writing = threading.Lock()
        """Lock while a record is written. The file is not closed in the meantime, since its descriptor could be reused.

        A call that finds it locked leaves its work to the owner: it may be a signal handler that interrupted a write.
        """
        self._closed = False
        self._end = LineEnd(0, -1, 0)
        """End of the last complete line, in one value that an interrupt can't split."""
        self._payloads: LargeTexts | None = None
        if self._files is not None:
            self._payloads = Payloads(self._files.path)
        elif isinstance(self._recorder, KeepsPayloads):
            self._payloads = RecorderPayloads(self._recorder)
        self._decisions = DecisionWriter()
        self.redactor: Redactor | None = None
        self.warning: str = ""
        """Why the recording has no seals, with the consequences; empty if it has them."""
        self._read: JournalReader | None = None
        """Reader of a continued journal, until the first line is written."""

    @classmethod
    def create(
        cls,
        where: Where,
        *,
        session: str,
        engine: CognitiveEngine,
        config: AgentConfig | None = None,
        fsync: Fsync = "turn",
        created: float | None = None,
        start: AgentState | None = None,
        origin: Origin | None = None,
        redacted: Sequence[RedactionNote] = (),
    ) -> Journal:
        """Begin a journal in an empty file or another empty place.

        ``start`` and ``origin`` are for forks; ``redacted`` describes the secrets hidden in ``config``.

        Raises:
            JournalExistsError, JournalLockedError, JournalWriteError: each message explains what to do.
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
            header["redacted"] = [one.data() for one in redacted]
        journal = cls(where, fsync)
        try:
            journal._begin(header)
        except BaseException:
            journal.close()
            raise
        return journal

    @classmethod
    def reopen(cls, where: Where, *, fsync: Fsync = "turn") -> tuple[Journal, JournalReader]:
        """Continue a journal. Read all its records before writing the first new one.

        From now on other sessions can't write to it. The first new record replaces a torn last record.

        Raises:
            JournalError: the journal can't be read or written, or another session is writing it.
        """
        journal = cls(where, fsync)
        try:
            journal._lock("another session is writing this journal; wait for its end", new=False)
            reader = JournalReader(where)
        except BaseException:
            journal.close()
            raise
        journal._read = reader
        return journal, reader

    def _lock(self, otherwise: str, *, new: bool) -> None:
        locked = self._ask(partial(self._recorder.lock, new), "be opened for writing")
        if not locked and self._files is None:  # it may be a session's that nobody holds any more
            gc.collect()
            locked = self._ask(partial(self._recorder.lock, new), "be opened for writing")
        if not locked:
            self._released = True
            raise JournalLockedError(otherwise, path=self.path)

    def _ask(self, ask: Callable[[], T], what: str) -> T:
        """Return the recorder's answer. Any exception is raised as an error of this journal."""
        try:
            return ask()
        except JournalError:
            raise
        except Exception as error:
            raise JournalWriteError(f"can't {what} ({describe(error)})", path=self.path) from error

    def _begin(self, header: dict[str, Any]) -> None:
        try:
            self._end = evolve(self._end, seal=start_hash(key_for_writing()))
        except OSError as error:
            help_ = "set XDG_STATE_HOME to a directory that only this user can write"
            if os.environ.get(KEY_FILE):
                help_ = f"put that right, or leave {KEY_FILE} out"
            self.warning = UNSEALED.format(path=self.path, reason=describe_os_error(error), help=help_)
        self._lock("another session is being recorded here; choose another name", new=True)
        if self._ask(self._has_data, "be read"):
            what = "the file exists" if self._files is not None else "something is recorded here already"
            raise JournalExistsError(
                f"{what}, and a recording is never overwritten; choose another name or delete it", path=self.path
            )
        self._put(header, force=self.forces)

    def _has_data(self) -> bool:
        if self._files is not None:
            return self._files.has_data
        return any(True for _ in self._recorder.lines())

    @property
    def where(self) -> Where:
        return self._recorder if self._files is None else self._files.beside

    @property
    def beside(self) -> Path | None:
        """Path of the undo data; None if the recorder has no place for it."""
        return beside(self._recorder)

    @property
    def forces(self) -> bool:
        """Whether records are ever forced to disk, beyond the system's cache."""
        return self._fsync != "never"

    @property
    def written(self) -> int:
        return self._end.number if self._read is None else self._read.line_end.number

    @property
    def may_wait(self) -> bool:
        """Whether a call of the recorder may take long, if the recorder reports it."""
        return self._slow is not None and self._slow.may_wait

    def waits(self, event: Input, transition: Transition) -> bool:
        """Whether ``write`` is expected to wait for the disk."""
        if self.may_wait:
            return True
        if not self.forces:
            return False
        if self._must_force(transition) or any(len(getattr(event, name, "")) >= LARGE for name in ("content", "text")):
            return True
        return isinstance(event, UserSpoke) and (
            len(event.system or "") >= LARGE
            or any(len(image.data) >= LARGE for image in images_of(event.parts))
            or any(len(one.text) >= LARGE for one in event.context)
        )

    def _must_force(self, transition: Transition) -> bool:
        if self._fsync != "turn":
            return self._fsync == "record"
        decisions = transition.decisions
        return bool(decisions) and isinstance(decisions[-1], TurnFinished | Compacted | NotCompacted)

    def write(
        self, event: Input, transition: Transition, redacted: Sequence[RedactionNote] = (), *, force: bool = False
    ) -> None:
        """Append an input with its decisions, and the notes of secrets that a redactor has hidden in it.

        ``force``: force it to disk, unless ``fsync`` is "never".

        Raises:
            JournalWriteError: the record is not on file, and the file ends with the previous record.
        """
        record = {
            "seq": self.written + 1,
            "input": to_data(event),
            "decisions": self._decisions.data(transition.decisions),
        }
        if redacted:
            record["redacted"] = [one.data() for one in redacted]
        if self._files is not None and isinstance(event, UserSpoke):
            self._files.check_path()
        self._put(record, force=self._must_force(transition) or (force and self.forces))

    def close(self) -> None:
        """Release the place, after a record that another thread is writing. A second call does nothing."""
        self._closed = True
        self._close_if_idle()

    def _close_if_idle(self) -> None:
        # Looked at, not tried: an interrupt between a lock that was taken and the line that notes it leaves it taken.
        if not self._writing.locked():
            with self._writing:
                # In this order: at the interpreter's exit `os` may be gone, while a released journal has nothing to do.
                if not self._released and os.getpid() == self._process:  # else it is the parent's, or another session's
                    self._ask(self._recorder.close, "be closed")
                    self._released = True

    def _put(self, value: dict[str, Any], *, force: bool) -> None:
        if os.getpid() != self._process:  # before the lock: a thread of the parent's may have held it
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
                self._close_if_idle()

    def _append(self, value: dict[str, Any], *, force: bool) -> None:
        if self._read is not None:  # to its end by now. What is not the user's own, is not sealed as such
            self._end, self._read = evolve(self._read.line_end, seal=self._read.seals.running_hash()), None
            if self._files is not None:
                self._files.note_line(self._end.number, self._end.end)
        number, before, sealed = self._end.number + 1, self._end.sum, self._end.seal
        brings: dict[str, bytes] = {}
        """The large texts to store together with the line. Those that belong into files are stored there before."""
        try:
            begins = "config" in value
            if begins and self._payloads is not None:  # a fork's start may name a large text many times
                value, brings = self._without_large_texts(value, self._payloads)
            line, total, seal = line_of(value, before, sealed)
            if len(line) >= LARGE and not begins and self._payloads is not None:  # not the usual case
                short, brings = self._without_large_texts(value, self._payloads)
                line, total, seal = line_of(short, before, sealed)
        except (ValueError, RecursionError) as error:
            raise JournalWriteError(f"the record has no form in JSON: {error}", path=self.path) from error
        except OSError as error:
            raise unwritten_error(error, self.path) from error
        if len(line) > LONGEST:
            raise JournalWriteError(f"the record has {len(line)} bytes, and a line may have {LONGEST}", path=self.path)
        if begins and decode_line(line) is None:  # the only place where something stands of anybody's making
            raise JournalWriteError(
                "the header could not be read again: a tool's schema is nested too deeply, or a number is too long",
                path=self.path,
            )
        try:
            if brings and isinstance(self._recorder, KeepsPayloads):
                self._recorder.append_with(number, line, brings, force)
            else:
                self._recorder.append(number, line, force)
        except JournalError:
            raise
        except Exception as error:
            raise JournalWriteError(
                f"the record could not be written ({describe(error)}); everything before it is kept", path=self.path
            ) from error
        self._end = LineEnd(self._end.end + len(line), number, total, seal)
        if brings and self._payloads is not None:  # only now: a line that takes this one's place has to bring them too
            self._payloads.note_stored(brings)

    def _without_large_texts(
        self, value: dict[str, Any], payloads: LargeTexts
    ) -> tuple[dict[str, Any], dict[str, bytes]]:
        if "config" not in value:
            return payloads.extract(value, force=self.forces)
        config = value["config"] or {}
        # Schemas of tools may hold anything, so that they stay.
        texts, brings = payloads.extract(
            {"start": value.get("start"), "system": config.get("system")}, force=self.forces
        )
        header = {**value, "start": texts["start"]} if "start" in value else dict(value)
        if "system" in config:
            header["config"] = {**config, "system": texts["system"]}
        return header, brings
