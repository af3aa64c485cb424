"""The slots of model hosts: calls of all processes in the order of arrival, at most ``slots`` of a host at a time.

    cogstep_slots    the version of these tables
    cogstep_hosts    the number of the newest call of each host
    cogstep_calls    the calls that wait or are at work, each with its process

A call may start once the number of earlier calls left is less than its host's slots. A number is assigned under a lock
that is held until it is written, so its owner sees all lower numbers. Processes that wait delete the calls of dead
processes before them, based on the same heartbeats as the leases on sessions.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import Future, InvalidStateError
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from weakref import finalize

from attrs import define, field
from sqlalchemy import BigInteger, Column, Connection, Integer, MetaData, String, Table, delete, insert, inspect, select
from sqlalchemy.dialects.postgresql import insert as insert_postgresql
from sqlalchemy.dialects.sqlite import insert as insert_sqlite

from cognition import CogstepError
from interpreters.recording.store import SqlStore, StoreError
from interpreters.recording.store.database import SCHEMA_LOCK, Database

LOOKED_EVERY = 0.05
"""Seconds between two checks by a process whose calls wait for a slot."""

MISSED_AFTER = 1.0
"""Seconds between two checks for calls of dead processes, and between two tries while the database is unavailable."""

VERSION = 1
"""The version of the tables below. Tables of another version are rejected and not changed."""

tables = MetaData()

versions = Table("cogstep_slots", tables, Column("version", Integer, primary_key=True, autoincrement=False))

hosts = Table(
    "cogstep_hosts",
    tables,
    Column("name", String(64), primary_key=True),
    Column("newest", BigInteger, nullable=False),
)

calls = Table(
    "cogstep_calls",
    tables,
    Column("host", String(64), primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("holder", String(500), nullable=False),
    Column("taker", String(32), nullable=False),
)


def prepare(store: SqlStore) -> None:
    """Create the tables if needed, and delete the calls of dead processes; otherwise only waiting calls cause that.

    Raises:
        StoreError: the tables are of another version, or the database can't be used.
    """
    database = store.database

    def make(connection: Connection) -> set[str]:
        with database.transaction(connection):
            if database.location.kind == "postgresql":
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({SCHEMA_LOCK})")
            there = inspect(connection).has_table(versions.name)
            found = list(connection.execute(select(versions.c.version)).scalars()) if there else []
            if found and found != [VERSION]:
                raise StoreError(
                    f"its tables of model hosts have the schema version {', '.join(map(str, found))} and this cogstep "
                    f"knows version {VERSION}; use the cogstep that made them, or name another store. Nothing was "
                    "changed",
                    store=store.name,
                )
            tables.create_all(connection)
            if not found:
                connection.execute(insert(versions).values(version=VERSION))
            return set(connection.execute(select(calls.c.holder).distinct()).scalars())

    # Whoever holds something has joined before: so the living are asked for behind the holders.
    _clear(store, database.write(make))


def _clear(store: SqlStore, holders: Iterable[str]) -> None:
    living = {one.id for one in store.executors() if one.expires_in > 0}
    for dead in set(holders) - living:
        left = delete(calls).where(calls.c.holder == dead)
        store.database.run(lambda connection, left=left: connection.execute(left))  # type: ignore[misc]


@define(eq=False)
class Ticket:
    """A call's place in the queue of a host."""

    host: str
    slots: int
    came: Future[bool] = field(factory=Future)
    """Whether the call may start; False if it was given up before."""
    number: int = 0
    """Its place in the order; 0 until it is written."""
    freed: bool = False

    def answer(self, may_begin: bool) -> None:
        """Wake the waiting call, unless the ticket was answered already."""
        with contextlib.suppress(InvalidStateError):
            self.came.set_result(may_begin)


class Slots:
    """A process's slots of hosts. The methods are thread-safe and return immediately.

    Args:
        store: shared with the other processes. While it is unavailable, calls wait.
    """

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._changes: SimpleQueue[Ticket | None] = SimpleQueue()
        """Tickets to write, and tickets to delete; None ends the thread."""
        self._starting = Lock()
        self._started = False
        finalize(self, self._changes.put, None).atexit = False

    def take(self, host: str, slots: int) -> Ticket:
        """Queue up for a slot of a host. Await ``came`` of the ticket, and return it with ``free``."""
        with self._starting:
            if not self._started:
                self._started = True
                desk = TicketWriter(self._store, self._changes)
                Thread(target=desk.serve, name="cogstep-slots", daemon=True).start()
        ticket = Ticket(host, slots)
        self._changes.put(ticket)
        return ticket

    def free(self, ticket: Ticket) -> None:
        """Return a ticket after the call's end or cancellation. Takes no lock, so garbage collection may call it."""
        if not ticket.freed:
            ticket.freed = True
            self._changes.put(ticket)


class TicketWriter:
    """The single thread of a process that writes tickets and finds those that may start."""

    def __init__(self, store: SqlStore, changes: SimpleQueue[Ticket | None]) -> None:
        self._store = store
        self._database: Database = store.database
        self._changes = changes
        self._taker = uuid.uuid4().hex
        self._unwritten: list[Ticket] = []
        self._written: dict[tuple[str, int], Ticket] = {}
        """The tickets that wait or are in use, by host and number."""
        self._left: set[str] = set()
        """Hosts with returned tickets that are not deleted yet."""
        self._made = False
        self._missed = 0.0

    def serve(self) -> None:
        """Run until the ``Slots`` object is no longer used."""
        ended = False
        while not ended:
            ended = self._collect(LOOKED_EVERY if self._waiting() else None)
            while self._unwritten or self._left or (ended and self._written):
                try:
                    self._exchange(ended)
                    break
                except CogstepError:  # the database is away, and said to be so by whoever writes a session
                    if ended:  # others delete what is left, once this process has ended
                        break
                    time.sleep(MISSED_AFTER)
            else:
                with contextlib.suppress(CogstepError):
                    self._look()

    def _waiting(self) -> list[Ticket]:
        return [one for one in self._written.values() if not one.came.done()]

    def _collect(self, timeout: float | None) -> bool:
        """Collect the changes since the last call; return whether the end was among them."""
        ended = False
        with contextlib.suppress(Empty):
            change = self._changes.get(timeout=timeout)
            while True:
                if change is None:
                    ended = True
                elif not change.freed:
                    self._unwritten.append(change)
                elif change.number:
                    self._written.pop((change.host, change.number), None)
                    self._left.add(change.host)
                change = self._changes.get_nowait()
        return ended

    def _exchange(self, ended: bool) -> None:
        holder = self._store.join()
        if not self._made:
            prepare(self._store)
            self._made = True
        unwritten = [] if ended else [one for one in self._unwritten if not one.freed]
        if ended:
            self._written.clear()
        numbered = self._database.run(lambda connection: self._write(connection, holder, unwritten))
        for one, number in zip(unwritten, numbered, strict=True):
            one.number = number
            self._written[one.host, number] = one
        self._unwritten.clear()
        self._left.clear()
        for one in unwritten:
            if one.freed:  # meanwhile, when it had no number
                self._changes.put(one)
        self._look()

    def _write(self, connection: Connection, holder: str, unwritten: list[Ticket]) -> list[int]:
        """Write new tickets and return their numbers.

        This desk's rows that it does not know are deleted: returned tickets, and duplicates from a connection that
        broke after the commit.
        """
        with self._database.transaction(connection):
            more = Counter(one.host for one in unwritten)
            newest = {host: self._newest(connection, host, more[host]) for host in sorted(more)}
            known = set(self._written)
            mine = select(calls.c.host, calls.c.number).where(calls.c.taker == self._taker)
            for host, number in connection.execute(mine).all():
                if (host, number) not in known:
                    connection.execute(delete(calls).where(calls.c.host == host, calls.c.number == number))
            numbers = []
            for one in reversed(unwritten):
                numbers.append(newest[one.host])
                newest[one.host] -= 1
                row = {"host": one.host, "number": numbers[-1], "holder": holder, "taker": self._taker}
                connection.execute(insert(calls).values(row))
        return numbers[::-1]

    def _newest(self, connection: Connection, host: str, more: int) -> int:
        """Add ``more`` to a host's counter and return it; the row stays locked until the end of the transaction."""
        insert_into = insert_sqlite if self._database.location.kind == "sqlite" else insert_postgresql
        counted = (
            insert_into(hosts)
            .values(name=host, newest=more)
            .on_conflict_do_update(index_elements=[hosts.c.name], set_={"newest": hosts.c.newest + more})
            .returning(hosts.c.newest)
        )
        return int(connection.execute(counted).scalar_one())

    def _look(self) -> None:
        waiting: dict[str, list[Ticket]] = {}
        for one in self._waiting():
            waiting.setdefault(one.host, []).append(one)
        for host, own in waiting.items():
            rows = select(calls.c.number, calls.c.holder).where(calls.c.host == host).order_by(calls.c.number)
            found = self._database.run(lambda connection, rows=rows: connection.execute(rows).all())  # type: ignore[misc]
            order = {number: place for place, (number, _) in enumerate(found)}
            for ticket in own:
                if (place := order.get(ticket.number)) is None:  # this process was taken for dead
                    del self._written[host, ticket.number]
                    ticket.number = 0
                    self._changes.put(ticket)
                elif place < ticket.slots:
                    ticket.answer(True)
            if not all(one.came.done() for one in own) and (now := time.monotonic()) >= self._missed + MISSED_AFTER:
                self._missed = now
                _clear(self._store, {holder for _, holder in found})
