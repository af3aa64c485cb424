"""A recorder as a program may write it: sessions in SQLite, the one that docs/guides/recorders.md shows."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from weakref import finalize


class SqliteRecorder:
    patience = 30.0
    """Seconds to wait while another session is being written."""

    def __init__(self, database: Path, name: str) -> None:
        self.database, self.name = database, name
        self.opened: list[sqlite3.Connection] = []
        finalize(self, _close_all, self.opened)  # those that a broken recorder has not closed
        self._lock: sqlite3.Connection | None = None
        self._db: sqlite3.Connection | None = None

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.database, timeout=self.patience, check_same_thread=False)
        self.opened.append(db)
        db.execute("PRAGMA journal_mode=WAL")  # who reads keeps nobody from writing
        db.execute(
            "CREATE TABLE IF NOT EXISTS lines "
            "(session TEXT, number INTEGER, line BLOB NOT NULL, PRIMARY KEY (session, number))"
        )
        return db

    def lock(self, new: bool) -> bool:
        own = sha256(self.name.encode()).hexdigest()[:16]
        lock = sqlite3.connect(f"{self.database}-{own}.lock", timeout=0, check_same_thread=False)
        self.opened.append(lock)
        try:
            lock.execute("BEGIN EXCLUSIVE")  # until the connection is closed, or its process ends
        except sqlite3.OperationalError as error:
            lock.close()
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
            return False
        self._lock, self._db = lock, self._connect()
        return True

    def append(self, number: int, line: bytes, force: bool) -> None:
        if self._db is None:
            raise ValueError("the recorder is closed")
        with self._db as db:  # one transaction, which SQLite forces to the disk
            db.execute("DELETE FROM lines WHERE session = ? AND number >= ?", (self.name, number))
            db.execute("INSERT INTO lines VALUES (?, ?, ?)", (self.name, number, line))

    def lines(self) -> Iterator[bytes]:
        db = self._connect()
        try:
            rows = db.execute("SELECT line FROM lines WHERE session = ? ORDER BY number", (self.name,))
            yield from (line for (line,) in rows)
        finally:
            db.close()

    def close(self) -> None:
        for connection in (self._db, self._lock):
            if connection is not None:
                connection.close()
        self._db = self._lock = None


def _close_all(connections: list[sqlite3.Connection]) -> None:
    for connection in connections:
        connection.close()
