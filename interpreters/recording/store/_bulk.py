"""Reads many sessions of a store together, so that a list of thousands does not need thousands of queries.

The first query about a session covers its whole batch. Each answer is returned once. A second query, for example after
an inconsistency, returns the present data.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, cached_property
from itertools import accumulate, groupby, takewhile
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, bindparam, func, select

from interpreters.recording.collections import RecordingInfo
from interpreters.recording.journal.content_files import undo_files
from interpreters.recording.journal.errors import JournalError
from interpreters.recording.store._executors import Membership, is_dead_here
from interpreters.recording.store._sql_recorder import SqlRecorder, undo_path_of
from interpreters.recording.store.database import Database
from interpreters.recording.store.locations import Kind
from interpreters.recording.store.schema import NOW, executors, lines, payloads, sessions

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
        membership: membership of this process.
        names: sorted names of the sessions.
    """

    def __init__(self, database: Database, membership: Membership, names: list[str]) -> None:
        self._database = database
        self._membership = membership
        self._names = names
        self._places = {name: place for place, name in enumerate(names)}
        self._lines: dict[str, list[bytes]] = {}

    def recorder(self, name: str) -> SqlRecorder:
        return _BatchRecorder(self._database, self._membership, name, self)

    def info(self, name: str) -> RecordingInfo | None:
        """Return the facts about a session; None at the second call. Raises as ``info_from_row``.

        All methods raise ``StoreError``.
        """
        row = self._infos[0].pop(name, None)
        return None if row is None else info_from_row(row, self._database)

    @cached_property
    def _infos(self) -> tuple[dict[str, Row[Any]], dict[str, int]]:
        """The facts about each session that were not asked for yet, and the size of each."""
        found = self._rows(select_infos(self._database.now, lines.c.session.between(*self._range)))
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
        found = self._rows(held)
        dead = {holder for holder in {row.holder for row in found} if is_dead_here(holder)}
        return dict.fromkeys(self._names, False) | {row.name: row.holder not in dead for row in found}

    def header(self, name: str) -> bytes | None:
        """Return the first line of a session; None at the second call."""
        return self._headers.pop(name, None)

    @cached_property
    def _headers(self) -> dict[str, bytes]:
        first = lines.c.session.between(*self._range), lines.c.number == 0
        return {row.session: row.line for row in self._rows(select(lines.c.session, lines.c.line).where(*first))}

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
        found = self._rows(
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

    def _rows(self, wanted: Select[Any]) -> list[Row[Any]]:
        return self._database.read(lambda connection: list(connection.execute(wanted)), [])


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
