"""A session of a store as a recording: facts about it, its deletion, and its creation from existing lines.

Each operation is one transaction that locks the session's row, as writers do. So it never runs in parallel with a
writer, and after a deletion all writers' tokens are invalid.

The sessions of a list are read together, so that a list of thousands does not need thousands of queries. The first
query about one of them covers its whole batch. Each answer is returned once. A second query, for example after an
inconsistency, returns the present data.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, cached_property
from hashlib import sha256
from itertools import accumulate, groupby, islice, takewhile
from pathlib import Path
from typing import Any

from attrs import field, frozen
from sqlalchemy import ColumnElement, Connection, Row, Select, bindparam, delete, func, insert, select
from sqlalchemy.exc import IntegrityError

from interpreters.recording.collections import UNDO, RecordingInfo
from interpreters.recording.journal.content_files import Contents, undo_files
from interpreters.recording.journal.errors import (
    JournalError,
    JournalExistsError,
    JournalLockedError,
    JournalWriteError,
)
from interpreters.recording.recorder import path_of
from interpreters.recording.store._errors import StoreError
from interpreters.recording.store._executors import Membership, is_dead_here
from interpreters.recording.store._sql_recorder import SqlRecorder, assign_row, select_row, undo_path_of
from interpreters.recording.store.database import Database
from interpreters.recording.store.locations import Kind
from interpreters.recording.store.schema import NOW, executors, lines, payloads, sessions

OPEN, WRITTEN = "a session has it open", "it was written just now"
BEING_RECORDED = "another session is being recorded here; choose another name"

PAGE = 200

FIRST, MOST = 16, 256
"""Sizes of the first and the largest batch. Each batch has twice the size of the previous one, for callers that need
only a few.
"""

LATEST = 253_402_300_799.0
"""The last second of the year 9999, after which no date exists."""

AT_ONCE = 1 << 20
"""Maximum bytes of lines read together. A longer session is read separately, in pages."""


def select_infos(now: ColumnElement[Any], which: ColumnElement[bool]) -> Select[Any]:
    """Return the query for ``info_from_row``: a row for each session of the selected lines."""
    beside = select(func.sum(func.length(payloads.c.content))).where(payloads.c.session == lines.c.session)
    return (
        select(
            lines.c.session,
            func.max(lines.c.written).label("changed"),
            func.sum(func.length(lines.c.line)).label("size"),
            beside.scalar_subquery().label("beside"),
            now.label("now"),
        )
        .where(which)
        .group_by(lines.c.session)
    )


@cache
def select_info(kind: Kind) -> Select[Any]:
    """Return the same query for one session ``s``. Cached, since building it takes as long as running it."""
    return select_infos(NOW[kind], lines.c.session == bindparam("s"))


def info_from_row(row: Row[Any], database: Database) -> RecordingInfo:
    """Return the facts about a session and the data beside it.

    Raises:
        JournalError: the time of its last write is invalid, so it was changed by others.
    """
    if not isinstance(row.changed, float | int) or not 0 <= row.changed <= LATEST:
        raise JournalError(
            "the time at which a line was written is none (cogstep_lines.written): somebody has changed it",
            path=Path(f"{row.session} in {database.display_name}"),
        )
    place = undo_path_of(database, row.session)
    kept = 0 if place is None else undo_files(place).size()
    return RecordingInfo(row.changed, int(row.size) + int(row.beside or 0) + kept, row.now)


class Batch:
    """Some sessions of a store with consecutive names.

    Args:
        database: database of the store.
        names: sorted names of the sessions.
    """

    def __init__(self, database: Database, names: list[str]) -> None:
        self._database = database
        self._names = names
        self._places = {name: place for place, name in enumerate(names)}
        self._lines: dict[str, list[bytes]] = {}

    def info(self, name: str) -> RecordingInfo | None:
        """Return the facts about a session; None at the second call. Raises as ``info_from_row``.

        All methods raise ``StoreError``.
        """
        row = self._infos[0].pop(name, None)
        return None if row is None else info_from_row(row, self._database)

    @cached_property
    def _infos(self) -> tuple[dict[str, Row[Any]], dict[str, int]]:
        """The facts about each session that were not asked for yet, and the size of each."""
        found = self._database.all(select_infos(self._database.now, lines.c.session.between(*self._range)))
        return {row.session: row for row in found}, {row.session: int(row.size) for row in found}

    def is_open(self, name: str) -> bool | None:
        """Return whether a session is being written; None at the second call."""
        return self._open.pop(name, None)

    @cached_property
    def _open(self) -> dict[str, bool]:
        alive = executors.c.expires > self._database.now
        held = (
            select(sessions.c.name, sessions.c.holder)
            .join(executors, executors.c.id == sessions.c.holder)
            .where(sessions.c.name.between(*self._range), alive)
        )
        found = self._database.all(held)
        dead = {holder for holder in {row.holder for row in found} if is_dead_here(holder)}
        return dict.fromkeys(self._names, False) | {row.name: row.holder not in dead for row in found}

    def header(self, name: str) -> bytes | None:
        """Return the first line of a session; None at the second call."""
        return self._headers.pop(name, None)

    @cached_property
    def _headers(self) -> dict[str, bytes]:
        first = lines.c.session.between(*self._range), lines.c.number == 0
        found = self._database.all(select(lines.c.session, lines.c.line).where(*first))
        return {row.session: row.line for row in found}

    def records(self, name: str, *, stay: bool = False) -> list[bytes] | None:
        """Return the other lines of a session; None at the second call, or if they are too long to read together.

        Args:
            name: name of the session.
            stay: whether to return them again later.
        """
        if name not in self._lines and not self._load(name):
            return None
        if stay:
            return self._lines[name]
        self._places.pop(name, None)
        return self._lines.pop(name)

    def _load(self, name: str) -> bool:
        place, sizes = self._places.get(name), self._infos[1]
        if place is None or sizes.get(name, AT_ONCE) >= AT_ONCE:
            return False
        following = self._names[place:]
        sums = accumulate(sizes.get(one, 0) for one in following)
        last = following[max(0, sum(1 for _ in takewhile(lambda size: size <= AT_ONCE, sums)) - 1)]
        found = self._database.all(
            select(lines.c.session, lines.c.line)
            .where(lines.c.session.between(name, last), lines.c.number > 0)
            .order_by(lines.c.session, lines.c.number)
        )
        self._lines = {name: []}
        for session, rows in groupby(found, lambda row: row.session):
            self._lines[session] = [row.line for row in rows]
        return True

    @property
    def _range(self) -> tuple[str, str]:
        return self._names[0], self._names[-1]


class _BatchRecorder(SqlRecorder):
    """A recorder that first reads its lines together with others of the batch."""

    def __init__(self, database: Database, membership: Membership, session: str, batch: Batch) -> None:
        super().__init__(database, membership, session, False)
        self._batch = batch

    def lines(self) -> Iterator[bytes]:
        header = self.explain_errors(lambda: self._batch.header(self.session))
        if header is None:
            yield from super().lines()
            return
        yield header
        records = self.explain_errors(lambda: self._batch.records(self.session))
        yield from self.lines_from(1) if records is None else records


@frozen
class SqlSession:
    """A session of a store as a ``Recording``; created by ``SqlStore.recording``."""

    name: str
    _database: Database = field(repr=False)
    _membership: Membership = field(repr=False)
    _batch: Batch | None = field(default=None, repr=False)
    """The batch of the session, if it is one of many."""

    @property
    def where(self) -> SqlRecorder:
        if self._batch is not None:
            return _BatchRecorder(self._database, self._membership, self.name, self._batch)
        return SqlRecorder(self._database, self._membership, self.name, False)

    @property
    def not_ours(self) -> str:
        """See ``Recording.not_ours``: always empty, since all writers of a store may delete its sessions."""
        return ""

    def info(self) -> RecordingInfo | None:
        """See ``Recording.info``. The time is the database's.

        Raises:
            JournalError: the time of the last write was changed by others.
        """
        found = None if self._batch is None else self._batch.info(self.name)
        return self._database.read(self._info, None) if found is None else found

    def _info(self, connection: Connection) -> RecordingInfo | None:
        row = connection.execute(select_info(self._database.location.kind), {"s": self.name}).first()
        return None if row is None else info_from_row(row, self._database)

    def _undo_files(self) -> Contents | None:
        place = undo_path_of(self._database, self.name)
        return None if place is None else undo_files(place)

    def is_open(self) -> bool:
        def look(connection: Connection) -> bool:
            holder = connection.execute(select(sessions.c.holder).where(sessions.c.name == self.name)).scalar()
            return self._membership.is_alive(connection, holder)

        found = None if self._batch is None else self._batch.is_open(self.name)
        return self._database.read(look, False) if found is None else found

    def is_new_or_gone(self) -> bool:
        return self._database.first(select(lines.c.number).where(lines.c.session == self.name).limit(1)) is None

    def has_no_header(self) -> bool:
        first = self._database.first(select(func.min(lines.c.number)).where(lines.c.session == self.name))
        return first is not None and bool(first[0])

    def content(self, longest: int) -> bytes | None:
        """See ``Recording.content``. Only for a session of a batch; others are read in pages."""
        records = None if self._batch is None else self._batch.records(self.name, stay=True)
        if records is None or not all(isinstance(line, bytes) for line in records):  # SQLite keeps text as well
            return None
        return b"".join(records)

    def beside(self) -> str:
        contents = self._undo_files()
        return UNDO if contents is not None and os.path.lexists(contents.directory) else ""

    def payloads(self) -> Iterator[tuple[str, bytes]]:
        """See ``Recording.payloads``.

        Raises:
            JournalError: a payload can't be read, or was changed.
        """
        found = select(payloads.c.name).where(payloads.c.session == self.name).order_by(payloads.c.name)
        recorder = self.where
        for name in [row.name for row in self._database.all(found)]:
            content = recorder.payload(name)
            if content is None or sha256(content).hexdigest() != name:
                raise JournalError(f"the payload {name} was changed after it was written", path=path_of(recorder))
            yield name, content

    def delete(self, about: RecordingInfo, *, dry_run: bool = False) -> str:
        if not dry_run:
            return self.delete_batch([(self, about)])[0]
        try:  # without keeping anybody from writing
            self._membership.release_dropped()
            return OPEN if self.is_open() else WRITTEN if self.info() not in (None, about) else ""
        except (StoreError, JournalError) as error:
            return error.problem

    @property
    def place(self) -> object:
        """See ``BatchDeletable.place``. None for SQLite, which has no slow round trips."""
        return None if self._database.location.path else self._database

    def delete_batch(self, given: Sequence[tuple[SqlSession, RecordingInfo]]) -> Sequence[str]:
        """See ``BatchDeletable.delete_batch``: in one transaction."""
        names = [one.name for one, _ in given]

        def work(connection: Connection) -> list[str]:
            with self._database.transaction(connection):
                rows = select(sessions.c.name, sessions.c.holder).where(sessions.c.name.in_(names))
                held = list(connection.execute(rows.order_by(sessions.c.name).with_for_update()))  # in one order
                open_ = {row.name for row in held if self._membership.is_alive(connection, row.holder)}
                found = connection.execute(select_infos(self._database.now, lines.c.session.in_(names)))
                there = {row.session: row for row in found}
                kept = [
                    OPEN if one.name in open_ else self._explain_change(there.get(one.name), about)
                    for one, about in given
                ]
                # Not those that somebody else has deleted; or this, and the connection broke behind it.
                gone = [name for name, why in zip(names, kept, strict=True) if not why and name in there]
                for contents in (one._undo_files() for one, _ in given if one.name in gone):
                    if contents is not None:
                        contents.remove()
                for table in (payloads, lines):
                    connection.execute(delete(table).where(table.c.session.in_(gone)))
                connection.execute(delete(sessions).where(sessions.c.name.in_(gone)))
            return kept

        try:
            self._membership.release_dropped()
            return self._database.read(work, [""] * len(given))
        except StoreError as error:
            return [error.problem] * len(given)
        except OSError as error:
            return [error.strerror or type(error).__name__] * len(given)

    def _explain_change(self, row: Any, about: RecordingInfo) -> str:
        """Return why a session is not deleted, given its present ``row`` (None if it is gone); empty if it is."""
        try:
            return WRITTEN if row is not None and info_from_row(row, self._database) != about else ""
        except JournalError as error:
            return error.problem

    def begin(
        self,
        lines: Callable[[], Iterable[bytes]],
        changed: float,
        payloads: Callable[[], Iterable[tuple[str, bytes]]] = tuple,
    ) -> None:
        token = 0

        def work(connection: Connection) -> None:
            nonlocal token
            with self._database.transaction(connection):
                standing = connection.execute(select_row(self.name)).first()
                if standing is not None and token and standing.token == token:
                    return  # it was recorded, and the connection broke behind it
                if standing is not None and self._membership.is_alive(connection, standing.holder):
                    raise JournalLockedError(BEING_RECORDED, path=path_of(self.where))
                if self._info(connection) is not None:
                    raise JournalExistsError(
                        "something is recorded here already, and a recording is never overwritten; choose another name",
                        path=path_of(self.where),
                    )
                token = assign_row(self._database, connection, self.name, standing, None)
                self._put(connection, lines(), changed)
                self._put_payloads(connection, payloads())

        try:
            self._membership.release_dropped()
            self._database.write(work)
        except StoreError as error:
            if isinstance(error.__cause__, IntegrityError):  # of two who begin it at once, the second one
                raise JournalLockedError(BEING_RECORDED, path=path_of(self.where)) from error
            raise JournalWriteError(error.problem, path=path_of(self.where)) from error

    def _put(self, connection: Connection, given: Iterable[bytes], changed: float) -> None:
        rows: Iterator[dict[str, Any]] = (
            {"session": self.name, "number": number, "line": line, "written": changed}
            for number, line in enumerate(given)
        )
        while page := list(islice(rows, PAGE)):
            connection.execute(insert(lines), page)

    def _put_payloads(self, connection: Connection, given: Iterable[tuple[str, bytes]]) -> None:
        connection.execute(delete(payloads).where(payloads.c.session == self.name))  # of a line that was not kept
        for name, content in given:
            connection.execute(insert(payloads).values(session=self.name, name=name, content=content))
