"""Reads journals."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from attrs import asdict, fields_dict

from cognition import PROTOCOL_VERSION, AgentConfig, AgentState, CodecError, CogstepError, Input, from_data
from cognition.steps.codec import reader_of, tags_of
from interpreters.recording.journal._file_recorder import FileRecorder
from interpreters.recording.journal.errors import (
    ForeignRecordingError,
    JournalDamagedError,
    JournalError,
    JournalVersionError,
    NotAJournalError,
    UnknownTagError,
)
from interpreters.recording.journal.format import FORMAT, Header, LineEnd, Origin, Record, sum_of
from interpreters.recording.journal.payloads import (
    MARK,
    LargeTexts,
    PayloadError,
    Payloads,
    RecorderPayloads,
)
from interpreters.recording.journal.seals import SealCheck
from interpreters.recording.journal.strict_lines import LONGEST, decode_line
from interpreters.recording.recorder import Recorder, Where, path_of
from interpreters.recording.redactor import NUMBERED, RedactionNote
from interpreters.tools.failures import describe
from runtime.closeable import Closeable
from runtime.files import open_regular

END: Any = object()
"""The end of a recorder's lines. A recorder that has lost one may give None in its place."""


class LineStream:
    """The lines of a recorder, read one by one as those of a file.

    Raises:
        JournalError: by each method, for any exception of the recorder, and for an invalid line.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._lines: Iterator[bytes] | None = None

    def readline(self, _longest: int) -> bytes:
        """Return the next line; empty at the end."""
        try:
            if self._lines is None:
                self._lines = iter(self._recorder.lines())
            line = next(self._lines, END)
        except JournalError:
            raise
        except Exception as error:
            raise JournalError(f"can't be read: {describe(error)}", path=path_of(self._recorder)) from error
        if line == b"":  # which a reader would take for the end, and the rest for what was never written
            raise JournalError("can't be read: one of its lines is empty", path=path_of(self._recorder))
        if line is END:
            return b""
        if not isinstance(line, bytes):
            why = f"can't be read: its lines have to be bytes, and one is of the type {type(line).__name__}"
            raise JournalError(why, path=path_of(self._recorder))
        return line

    def close(self) -> None:
        close = getattr(self._lines, "close", None)  # of a generator, which may hold something open
        if close is not None:
            with suppress(Exception):  # what was read was read
                close()


INPUT_TAGS = tags_of(Input)

FIELDS = {"seq", "input", "decisions", "sum"}
OPTIONAL = {"redacted", "seal"}
"""Optional fields of a record: hidden secrets, and the seal."""
USUAL = FIELDS | {"seal"}
HEADER_FIELDS = {"format", "version", "seal", "sum", *fields_dict(Header)}

SHOWN = 1 << 20
"""Maximum bytes of a line with a wrong sum that is still decoded, to show its content.

Decoding needs 30 times the line's length of memory.
"""

LOOKS = 3
"""Number of reads of an incomplete line. A session may be writing or repairing it at that moment."""


CRLF = "its line ends were changed to CRLF, as git's autocrlf does; copy it byte by byte"

CHANGED = "the record was changed after it was written"


class JournalReader(Closeable):
    """Reads a journal: the header immediately, then one record at a time, so that memory does not grow with the file.

    Attributes:
        header: the first line.
        warnings: skipped problems, such as a torn last line; complete after the last record.

    Raises:
        NotAJournalError, JournalVersionError, JournalDamagedError: by the constructor, about the first line.
    """

    header: Header

    def __init__(self, where: Where) -> None:
        if isinstance(where, FileRecorder):
            where = where.path
        self.path: Path = path_of(where)
        self._recorder = where if isinstance(where, Recorder) else None
        self.warnings: list[str] = []
        self.secrets: int = 0
        """Highest placeholder number of a secret read so far."""
        self._payloads: LargeTexts = Payloads(self.path) if self._recorder is None else RecorderPayloads(self._recorder)
        self._input = reader_of(Input)
        self._file: BinaryIO | LineStream
        if self._recorder is not None:
            self._file = LineStream(self._recorder)
        else:
            try:
                self._file = open_regular(self.path)
            except OSError as error:
                reason = "there is no such file" if isinstance(error, FileNotFoundError) else error.strerror
                raise JournalError(f"can't be read: {reason}", path=self.path) from error
        try:
            self.header, total, line = self._read_header()
            self._newest = (len(line), 0, total)
            """End, number and sum of the newest record read; initially those of the header."""
            self.seals: SealCheck = SealCheck(line)
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        self._file.close()

    @property
    def foreign(self) -> str:
        """Why the lines read so far do not count as this user's own; empty if they do.

        Each line certifies all earlier lines, so this is valid at any record.
        """
        return self.seals.foreign

    def check_own(self, what: str) -> None:
        """Check that this user wrote the lines read so far.

        Args:
            what: the operation to refuse otherwise, such as "resumed".

        Raises:
            ForeignRecordingError: there is no proof of that.
        """
        if reason := self.foreign:
            raise ForeignRecordingError(what, reason, path=self.path)

    def __iter__(self) -> Iterator[Record]:
        """Yield the records in order. A large text is in memory once, however often it occurs.

        Raises:
            JournalDamagedError, UnknownTagError: at the line in question.
        """
        for newest, line, intact in self._lines():
            number = newest[1]
            record = self._record(number + 1, line, number, intact=intact, keep=True)
            if not intact:
                raise self._damage_error(CHANGED, number + 1, record)
            self._newest = newest
            yield record

    @property
    def line_end(self) -> LineEnd:
        """End of the newest record from the iteration; initially of the header."""
        return LineEnd(*self._newest)

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of the records without decoding them, checked by their sums. Takes a fifth of the time.

        Raises:
            JournalDamagedError: at the line in question.
        """
        for (_, number, _), line, intact in self._lines():
            if not intact:
                raise self._damage_error(CHANGED, number + 1)
            yield line

    def record(self, line: bytes, number: int) -> Record:
        """Decode record ``number`` from a line of ``lines``. Raises as iterating does."""
        return self._record(number + 1, line, number, intact=True)

    def _lines(self) -> Iterator[tuple[tuple[int, int, int], bytes, bool]]:
        """Yield each complete line.

        The first part is a tuple of its end, number and sum, as in ``LineEnd``, which takes longer to create. Then
        follow the line, and whether its sum is correct. A line with a wrong sum is the last.
        """
        end, number, before = self._newest
        number += 1
        read = self._line
        while line := read(number):
            total = sum_of(line, before)
            if total is None and not isinstance(self._file, LineStream):
                line, total = self._read_again(self._file, line, end, before, number)
            if not line:
                return
            if total is None and not line.endswith(b"\n"):
                self._check_torn(number + 1, line, before)
                return
            end, before = end + len(line), total or 0
            if total is not None:
                self.seals.add(line)
            yield (end, number, before), line, total is not None
            number += 1

    def _line(self, number: int) -> bytes:
        """Read the line of record ``number``, up to more than the maximum length."""
        try:
            return self._file.readline(LONGEST + 1)
        except OSError as error:
            raise JournalError(f"can't be read: {error.strerror}", path=self.path, line=number + 1) from error

    def _read_again(
        self, file: BinaryIO, line: bytes, start: int, before: int, number: int
    ) -> tuple[bytes, int | None]:
        """Read an incomplete line again. Return it, and its sum if it is complete now."""
        for _ in range(LOOKS):
            file.seek(start)
            again = self._line(number)
            if again == line:
                break
            line = again
            total = sum_of(line, before)
            if total is not None:
                return line, total
        return line, None

    def _check_torn(self, number: int, line: bytes, before: int) -> None:
        if self._recorder is not None:  # which keeps a line whole or not at all
            raise self._damage_error("the line is not whole", number)
        if len(line) > LONGEST:
            raise self._damage_error("the line is longer than any record", number)
        if sum_of(line[:-1] + b"\n", before) is not None:  # no crash leaves a whole record and something behind it
            raise self._damage_error("the line break behind the last record was changed", number)
        self.warnings.append(
            f"{self.path}, line {number}: the last record is torn, as a crash leaves it, and was left out"
        )

    def _read_header(self) -> tuple[Header, int, bytes]:
        line = self._line(0)  # of a huge file without line breaks not all is read
        if not line:
            raise NotAJournalError(
                "the file is empty" if self._recorder is None else "nothing is recorded here", path=self.path
            )
        total = sum_of(line, 0)
        ours = line.startswith(b'{"format":"' + FORMAT.encode())
        data = None if total is None and len(line) > SHOWN else decode_line(line)
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            if ours and not line.endswith(b"\n"):
                raise JournalDamagedError("the header is torn, and nothing was recorded", path=self.path, line=1)
            if ours:
                raise JournalDamagedError("the header is damaged: it can't be read", path=self.path, line=1)
            raise NotAJournalError("this is no cogstep journal; record one with `cogstep run --record`", path=self.path)
        version = data.get("version")
        if type(version) is not int or version != PROTOCOL_VERSION:
            raise JournalVersionError(
                f"the journal has version {version!r} and this cogstep reads version {PROTOCOL_VERSION}; "
                "use the cogstep that recorded it",
                path=self.path,
                line=1,
            )
        self._count_secrets(line)
        try:
            if total is None:
                raise ValueError(CRLF if line.endswith(b"\r\n") else "it was changed after it was written")
            return self._header(data, MARK in line), total, line
        except JournalError:  # a recorder's, which can't give a large text
            raise
        except (CogstepError, KeyError, TypeError, ValueError, OverflowError, PayloadError) as error:
            what = f"the field {error} is missing" if isinstance(error, KeyError) else str(error)
            raise JournalDamagedError(f"the header is damaged: {what}", path=self.path, line=1) from error

    def _header(self, data: dict[str, Any], with_payloads: bool) -> Header:
        if unknown := data.keys() - HEADER_FIELDS:
            raise ValueError(f"the field {min(unknown)!r} is unknown")
        config, start, origin = data["config"], data.get("start"), data.get("origin")
        if with_payloads:
            system = config.get("system") if isinstance(config, dict) else None
            start, system = self._payloads.restore((start, system), self._count_secrets, keep=True)
            if isinstance(config, dict) and "system" in config:
                config = {**config, "system": system}
        return Header(
            session=from_data(data["session"], str),
            engine=from_data(data["engine"], str),
            config=None if config is None else from_data(config, AgentConfig),
            created=from_data(data["created"], float),
            start=AgentState() if start is None else from_data(start, AgentState),
            origin=None if origin is None else from_data(origin, Origin),
            redacted=_read_redactions(data),
        )

    def _record(self, number: int, line: bytes, expected: int, *, intact: bool, keep: bool = False) -> Record:
        if not intact and len(line) > SHOWN:
            raise self._damage_error(CHANGED, number)
        data = decode_line(line)
        if not isinstance(data, dict) or (data.keys() != USUAL and data.keys() - OPTIONAL != FIELDS):
            raise self._damage_error("this is no record", number)
        if type(data["seq"]) is not int or data["seq"] != expected:
            raise self._damage_error(f"record {expected} should stand here, not {data['seq']!r}", number)
        self._count_secrets(line)
        if MARK in line:
            try:
                data = self._payloads.restore(data, self._count_secrets, keep=keep)
            except PayloadError as error:
                raise self._damage_error(str(error), number) from error
        if not isinstance(data["decisions"], list):
            raise self._damage_error("the decisions are no list", number)
        try:
            hidden = _read_redactions(data)
            return Record(expected, self._input(data["input"]), data["decisions"], hidden)
        except ValueError as error:  # which a CodecError is
            if not intact:
                raise self._damage_error(CHANGED, number) from error
            tag = data["input"].get("type") if isinstance(data["input"], dict) else None
            if isinstance(error, CodecError) and isinstance(tag, str) and tag not in INPUT_TAGS.values():
                raise UnknownTagError(
                    f"this cogstep knows no input {tag!r}; use the one that recorded it", path=self.path, line=number
                ) from error
            raise self._damage_error(f"the input can't be read: {error}", number) from error

    def _count_secrets(self, content: bytes) -> None:
        if b"[redacted:" in content:
            self.secrets = max(self.secrets, *map(int, NUMBERED.findall(content)), 0)

    def _damage_error(self, what: str, number: int, record: Record | None = None) -> JournalDamagedError:
        message = f"{what}; the journal is damaged here"
        return JournalDamagedError(message, path=self.path, line=number, record=record)


def explain_foreign(where: Where, what: str, *, allowed: bool = False) -> str:
    """Return why a recording does not count as this user's own; empty if it does. The lines are not decoded.

    Args:
        where: the journal.
        what: the operation to refuse otherwise, such as "resumed".
        allowed: whether another user's recording is allowed.

    Raises:
        JournalError: the journal can't be read or is damaged.
        ForeignRecordingError: the recording is foreign, and ``allowed`` is False.
    """
    with JournalReader(where) as reader:
        for _ in reader.lines():  # each vouches for those before it
            pass
        if not allowed:
            reader.check_own(what)
        return reader.foreign


def _read_redactions(data: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(map(asdict, from_data(data["redacted"], tuple[RedactionNote, ...]))) if "redacted" in data else ()
