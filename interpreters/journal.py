"""Sessions on file: one JSON object a line, a header and then a record an input with its decisions.

    {"format":"cogstep-journal","version":1,"session":"4f...","engine":"llm","config":{...},"created":1790000000.0}
    {"seq":1,"input":{"type":"user_spoke",...},"decisions":[{"type":"call_model","effect_id":"1.1.0",
        "purpose":"answer","request":{"digest":"0c..."}}]}
    {"seq":2,"input":{"type":"model_replied","effect_id":"1.1.0",...},"decisions":[...]}

A record is written after the pure step and before any of its decisions is carried out: whatever may have happened in
the world stands on file, and the fold of the inputs gives the state. A request is recorded by its digest, since the
fold gives it again in full, and written out a session would cost the square of its length.

A line that has no line break at its end was torn by a crash: it is dropped with a warning, since its decisions were
never carried out. Any other damage is an error that names the line.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal

from attrs import field, frozen

from cognition import (
    PROTOCOL_VERSION,
    AgentConfig,
    AgentState,
    CallModel,
    CodecError,
    CognitiveEngine,
    CogstepError,
    ContextAssembled,
    Decision,
    EchoEngine,
    Input,
    LLMEngine,
    Transition,
    TurnFinished,
    from_data,
    to_data,
)
from cognition.codec import UNIONS
from interpreters.digest import RequestDigest

FORMAT = "cogstep-journal"
ENGINES: dict[type, str] = {LLMEngine: "llm", EchoEngine: "echo"}
"""Engines that a reader can make again from the header; others are named by their class and have to be given."""

REPORTS = (ContextAssembled,)
"""Decisions that only tell how another one came about. They are not recorded: what they tell of shows in the request,
and a better estimate of its size is no divergence."""

Fsync = Literal["record", "turn", "never"]
"""When what was written is forced to the disk. Without it a crash of the program loses nothing, one of the machine the
last seconds."""

ENCODE = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class JournalError(CogstepError):
    """A journal can't be read or written.

    Attributes:
        path: the file.
        line: the line that it is about, from 1; None for the file as a whole.
    """

    def __init__(self, message: str, *, path: Path, line: int | None = None) -> None:
        super().__init__(f"{path}{f', line {line}' if line is not None else ''}: {message}")
        self.path = path
        self.line = line


class NotAJournalError(JournalError):
    """The file is something else."""


class JournalVersionError(JournalError):
    """The journal was written by a cogstep whose format this one can't read."""


class JournalDamagedError(JournalError):
    """A line is no record, or records are missing."""


class UnknownTagError(JournalError):
    """A record holds an input of a type that this version doesn't know."""


class JournalExistsError(JournalError):
    """The file is there already; a recording is never overwritten."""


class JournalLockedError(JournalError):
    """Another session is writing this journal."""


class JournalWriteError(JournalError):
    """A record can't be written. Everything before it is on file, and its decisions were not carried out."""


@frozen
class Origin:
    """The session that a fork comes from, and the turn after which it goes its own way."""

    session: str
    turn: int


@frozen
class Header:
    """The first line."""

    session: str
    engine: str
    config: AgentConfig | None
    """What the engine was made from; None for engines that have no such configuration."""
    created: float
    start: AgentState = AgentState()
    """What the session began with: of a fork, the state it was forked from."""
    origin: Origin | None = None
    """Of a fork: where it comes from."""


@frozen
class Record:
    """One input with its decisions, as they stand on file."""

    seq: int
    """Counts the records from 1."""
    input: Input
    decisions: list[Any] = field(eq=False)
    """Plain data: a replay compares them with what it decides."""


class DecisionWriter:
    """Decisions as the journal has them: plain data, requests by their digest. One a session: the digest is a chain."""

    def __init__(self) -> None:
        self._digest = RequestDigest()

    def data(self, decisions: Iterable[Decision]) -> list[Any]:
        """The decisions of one step, reports left out."""
        return [self._data(decision) for decision in decisions if not isinstance(decision, REPORTS)]

    def _data(self, decision: Decision) -> Any:
        if not isinstance(decision, CallModel):
            return to_data(decision)
        return {
            "type": "call_model",
            "effect_id": decision.effect_id,
            "purpose": decision.purpose,
            "request": {"digest": self._digest.of(decision.request)},
        }


class Journal:
    """The writing end. Holds a lock on the file for as long as it is open; a crash releases it."""

    def __init__(self, path: Path, descriptor: int, fsync: Fsync) -> None:
        self.path = path
        self._descriptor = descriptor
        self._fsync = fsync
        self._end = (0, -1)
        """Where the last whole record ends, and its number (the header has 0): one value, which no interrupt halves."""
        self._decisions = DecisionWriter()

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
    ) -> Journal:
        """Begin a journal in a file that must not hold anything yet.

        ``start`` and ``origin`` are for forks.

        Raises:
            JournalExistsError, JournalLockedError, JournalWriteError: each says what to do.
        """
        journal = cls(Path(path), _open_for_writing(Path(path), os.O_CREAT), fsync)
        header = {
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
            header["origin"] = {"session": origin.session, "turn": origin.turn}
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
        descriptor = _open_for_writing(path, 0)
        journal = cls(path, descriptor, fsync)
        try:
            journal._lock("another session is writing this journal; wait for its end")
            reader = JournalReader(path)
        except BaseException:
            journal.close()
            raise
        reader.on_record = journal._stands
        journal._stands(reader.header_end, 0)
        return journal, reader

    def _stands(self, end: int, number: int) -> None:
        """A whole record is known to end here."""
        self._end = (end, number)

    def _lock(self, otherwise: str) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise JournalLockedError(otherwise, path=self.path) from error

    def _begin(self, header: dict[str, Any]) -> None:
        self._lock("another session is being recorded here; choose another name")
        if os.fstat(self._descriptor).st_size > 0:
            raise JournalExistsError(
                "the file exists, and a recording is never overwritten; choose another name or delete it",
                path=self.path,
            )
        self._put(header, force=self._fsync != "never")

    @property
    def written(self) -> int:
        """How many records stand on file."""
        return self._end[1]

    def write(self, event: Input, transition: Transition) -> None:
        """Append an input with its decisions.

        Raises:
            JournalWriteError: it is not on file, and the file ends with the record before it.
        """
        decisions = transition.decisions
        record = {
            "seq": self.written + 1,
            "input": to_data(event),
            "decisions": self._decisions.data(decisions),
        }
        ends = bool(decisions) and isinstance(decisions[-1], TurnFinished)
        self._put(record, force=self._fsync == "record" or (self._fsync == "turn" and ends))

    def sync(self) -> None:
        """Force what was written to the disk; for those who do it elsewhere than at ``write``.

        Raises:
            JournalWriteError: the disk reports a failure.
        """
        try:
            if self._descriptor >= 0:
                os.fsync(self._descriptor)
        except OSError as error:
            raise JournalWriteError(f"could not be forced to the disk ({error.strerror})", path=self.path) from error

    def close(self) -> None:
        """Release the file. A second call does nothing."""
        if self._descriptor < 0:
            return
        descriptor, self._descriptor = self._descriptor, -1
        os.close(descriptor)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _put(self, value: dict[str, Any], *, force: bool) -> None:
        if self._descriptor < 0:
            raise JournalWriteError("the journal is closed", path=self.path)
        line = self._line(value)
        size, number = self._end
        try:
            if os.fstat(self._descriptor).st_size > size:  # what an interrupt left behind of a record
                os.ftruncate(self._descriptor, size)
            written = 0
            while written < len(line):
                written += os.write(self._descriptor, line[written:])
            if force:
                os.fsync(self._descriptor)
        except OSError as error:
            self._take_back()
            raise JournalWriteError(
                f"the record could not be written ({error.strerror}); everything before it is kept. "
                "Make room or choose another place, then go on",
                path=self.path,
            ) from error
        self._end = (size + written, number + 1)

    def _take_back(self) -> None:
        """Cut off what got through of a record, so that a reader finds whole ones only."""
        with contextlib.suppress(OSError):  # then the next record tries again
            os.ftruncate(self._descriptor, self._end[0])

    def _line(self, value: dict[str, Any]) -> bytes:
        try:
            try:
                return (ENCODE(value) + "\n").encode()
            except UnicodeEncodeError:  # half of a surrogate pair, which UTF-8 has no form for but JSON's \u has
                return (json.dumps(value, allow_nan=False, separators=(",", ":")) + "\n").encode()
        except ValueError as error:
            raise JournalWriteError(f"the record has no form in JSON: {error}", path=self.path) from error


class JournalReader:
    """The reading end: the header at once, then record by record, so that memory does not grow with the file.

    Attributes:
        header: the first line.
        warnings: what was found and left out, such as a torn last line; complete once all records were read.

    Raises:
        NotAJournalError, JournalVersionError, JournalDamagedError: by the constructor, about the first line.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.warnings: list[str] = []
        self.on_record: Callable[[int, int], object] | None = None
        """Told of each whole record: where in the file it ends, and its number."""
        self._file = self._open()
        try:
            self.header = self._read_header()
            self.header_end = self._file.tell()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> JournalReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[Record]:
        """The records, in order.

        Raises:
            JournalDamagedError, UnknownTagError: at the line in question.
        """
        expected, end = 1, self.header_end
        for number, line in enumerate(self._file, 2):
            if not line.endswith(b"\n"):
                self.warnings.append(
                    f"{self.path}, line {number}: the last record is torn, as a crash leaves it, and was left out"
                )
                return
            record = self._record(number, line, expected)
            end += len(line)
            if self.on_record is not None:
                self.on_record(end, expected)
            yield record
            expected += 1

    def _open(self) -> BinaryIO:
        try:
            return self.path.open("rb")
        except OSError as error:
            reason = "there is no such file" if isinstance(error, FileNotFoundError) else error.strerror
            raise JournalError(f"can't be read: {reason}", path=self.path) from error

    def _read_header(self) -> Header:
        try:
            line = self._file.readline(
                1 << 26
            )  # no header is longer; of a huge file without line breaks not all is read
        except OSError as error:
            raise JournalError(f"can't be read: {error.strerror}", path=self.path) from error
        if not line:
            raise NotAJournalError("the file is empty", path=self.path)
        data = _decoded(line)
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            if not line.endswith(b"\n") and line.startswith(b'{"format":"' + FORMAT.encode()):
                raise JournalDamagedError("the header is torn, and nothing was recorded", path=self.path, line=1)
            raise NotAJournalError("this is no cogstep journal; record one with `cogstep run --record`", path=self.path)
        version = data.get("version")
        if version != PROTOCOL_VERSION:
            raise JournalVersionError(
                f"the journal has version {version!r} and this cogstep reads version {PROTOCOL_VERSION}; "
                "use the cogstep that recorded it",
                path=self.path,
                line=1,
            )
        try:
            config, start, origin = data["config"], data.get("start"), data.get("origin")
            return Header(
                session=_text(data["session"]),
                engine=_text(data["engine"]),
                config=None if config is None else from_data(config, AgentConfig),
                created=float(data["created"]),
                start=AgentState() if start is None else from_data(start, AgentState),
                origin=None if origin is None else Origin(_text(origin["session"]), int(origin["turn"])),
            )
        except (KeyError, TypeError, ValueError) as error:
            what = f"the field {error} is missing" if isinstance(error, KeyError) else str(error)
            raise JournalDamagedError(f"the header is damaged: {what}", path=self.path, line=1) from error

    def _record(self, number: int, line: bytes, expected: int) -> Record:
        data = _decoded(line)
        if not isinstance(data, dict) or data.keys() != {"seq", "input", "decisions"}:
            raise self._damaged("this is no record", number)
        if data["seq"] != expected or isinstance(data["seq"], bool):
            raise self._damaged(f"record {expected} should stand here, not {data['seq']!r}", number)
        if not isinstance(data["decisions"], list):
            raise self._damaged("the decisions are no list", number)
        try:
            return Record(expected, from_data(data["input"], Input), data["decisions"])
        except CodecError as error:
            tag = data["input"].get("type") if isinstance(data["input"], dict) else None
            if isinstance(tag, str) and tag not in INPUT_TAGS:
                raise UnknownTagError(
                    f"this cogstep knows no input {tag!r}; use the one that recorded it", path=self.path, line=number
                ) from error
            raise self._damaged(f"the input can't be read: {error}", number) from error

    def _damaged(self, what: str, number: int) -> JournalDamagedError:
        return JournalDamagedError(f"{what}; the journal is damaged here", path=self.path, line=number)


INPUT_TAGS: frozenset[str] = frozenset(next(tags for union, tags in UNIONS if union is Input).values())


def _open_for_writing(path: Path, flags: int) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | flags, 0o644)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not flags:
            raise JournalError("can't be read: there is no such file", path=path) from error
        raise JournalWriteError(
            f"can't be opened for writing ({error.strerror}); choose another place", path=path
        ) from error


def _decoded(line: bytes) -> Any:
    """The value of a line, or None if it holds none."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, got {value!r}")
    return value
