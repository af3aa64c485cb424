"""The reading end of a journal."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from cognition import PROTOCOL_VERSION, AgentConfig, AgentState, CodecError, Input, from_data
from cognition.codec import UNIONS, reader_of
from interpreters.journal.errors import (
    JournalDamagedError,
    JournalError,
    JournalVersionError,
    NotAJournalError,
    UnknownTagError,
)
from interpreters.journal.format import FORMAT, Header, Origin, Place, Record, sum_of
from interpreters.journal.payloads import MARK, PayloadError, Payloads
from interpreters.veil import NUMBERED

INPUT_TAGS: frozenset[str] = frozenset(next(tags for union, tags in UNIONS if union is Input).values())

FIELDS = {"seq", "input", "decisions", "sum"}
OPTIONAL = {"redacted"}
"""Fields of a record that stand there only when there is something to say."""


CHANGED = "the record was changed after it was written"


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
        self.on_record: Callable[[Place], object] | None = None
        """Told of each whole record: where it ends."""
        self.secrets = 0
        """The highest number of a placeholder for a secret in what was read so far."""
        self._payloads = Payloads(self.path)
        self._input = reader_of(Input)
        self._file = self._open()
        try:
            self.header, total = self._read_header()
            self.header_place = Place(self._file.tell(), 0, total)
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
        for place, line, intact in self._lines():
            record = self._record(place.number + 1, line, place.number, intact=intact)
            if not intact:
                raise self._damaged(CHANGED, place.number + 1, record)
            if self.on_record is not None:
                self.on_record(place)
            yield record

    def lines(self) -> Iterator[bytes]:
        """The records as they stand on file, found to be whole by their sums and not read: a fifth of the time.

        Raises:
            JournalDamagedError: at the line in question.
        """
        for place, line, intact in self._lines():
            if not intact:
                raise self._damaged(CHANGED, place.number + 1)
            yield line

    def record(self, line: bytes, number: int) -> Record:
        """Record ``number`` from its line, as ``lines`` gives it; raises as reading does."""
        return self._record(number + 1, line, number, intact=True)

    def _lines(self) -> Iterator[tuple[Place, bytes, bool]]:
        """Each whole line, where it ends, and whether its sum is right; behind one where it is not, nothing is."""
        before = self.header_place
        for number, line in enumerate(self._file, 1):
            if not line.endswith(b"\n"):
                self._check_torn(number + 1, line, before)
                return
            total = sum_of(line, before.sum)
            before = Place(before.end + len(line), number, total or 0)
            yield before, line, total is not None

    def _check_torn(self, number: int, line: bytes, before: Place) -> None:
        if sum_of(line[:-1] + b"\n", before.sum) is not None:  # no crash leaves a whole record and something behind it
            raise self._damaged("the line break behind the last record was changed", number)
        self.warnings.append(
            f"{self.path}, line {number}: the last record is torn, as a crash leaves it, and was left out"
        )

    def _open(self) -> BinaryIO:
        try:
            return self.path.open("rb")
        except OSError as error:
            reason = "there is no such file" if isinstance(error, FileNotFoundError) else error.strerror
            raise JournalError(f"can't be read: {reason}", path=self.path) from error

    def _read_header(self) -> tuple[Header, int]:
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
        self._count_secrets(line)
        try:
            total = sum_of(line, 0)
            if total is None:
                raise ValueError("it was changed after it was written")
            config, start, origin = data["config"], data.get("start"), data.get("origin")
            if MARK in line:
                start = self._payloads.brought_back(start)
                config = config and {**config, "system": self._payloads.brought_back(config.get("system", ""))}
                self._count_secrets(json.dumps([start, config]).encode())
            header = Header(
                session=_text(data["session"]),
                engine=_text(data["engine"]),
                config=None if config is None else from_data(config, AgentConfig),
                created=float(data["created"]),
                start=AgentState() if start is None else from_data(start, AgentState),
                origin=None if origin is None else Origin(_text(origin["session"]), int(origin["turn"])),
                redacted=tuple(data.get("redacted", ())),
            )
        except (KeyError, TypeError, ValueError, PayloadError) as error:
            what = f"the field {error} is missing" if isinstance(error, KeyError) else str(error)
            raise JournalDamagedError(f"the header is damaged: {what}", path=self.path, line=1) from error
        return header, total

    def _record(self, number: int, line: bytes, expected: int, *, intact: bool) -> Record:
        data = _decoded(line)
        if not isinstance(data, dict) or (data.keys() != FIELDS and data.keys() - OPTIONAL != FIELDS):
            raise self._damaged("this is no record", number)
        if data["seq"] != expected or isinstance(data["seq"], bool):
            raise self._damaged(f"record {expected} should stand here, not {data['seq']!r}", number)
        if not isinstance(data["decisions"], list) or not isinstance(data.get("redacted", []), list):
            raise self._damaged("the decisions are no list", number)
        self._count_secrets(line)
        if MARK in line:
            try:
                data = self._payloads.brought_back(data)
            except PayloadError as error:
                raise self._damaged(str(error), number) from error
            self._count_secrets(json.dumps(data).encode())
        try:
            event = self._input(data["input"])
            return Record(expected, event, data["decisions"], tuple(data.get("redacted", ())))
        except CodecError as error:
            if not intact:
                raise self._damaged(CHANGED, number) from error
            tag = data["input"].get("type") if isinstance(data["input"], dict) else None
            if isinstance(tag, str) and tag not in INPUT_TAGS:
                raise UnknownTagError(
                    f"this cogstep knows no input {tag!r}; use the one that recorded it", path=self.path, line=number
                ) from error
            raise self._damaged(f"the input can't be read: {error}", number) from error

    def _count_secrets(self, line: bytes) -> None:
        if b"[redacted:" in line:
            self.secrets = max(self.secrets, *map(int, NUMBERED.findall(line)), 0)

    def _damaged(self, what: str, number: int, record: Record | None = None) -> JournalDamagedError:
        message = f"{what}; the journal is damaged here"
        return JournalDamagedError(message, path=self.path, line=number, record=record)


def _decoded(line: bytes) -> Any:
    """The value of a line, or None if it holds none."""
    try:
        # As a text: of bytes, json would first find out how they are coded.
        return json.loads(line.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, got {value!r}")
    return value
