"""Where notes are kept between sessions: what ``remember`` saves and ``recall`` finds.

A store keeps each text once, so that saving it again, as a resumed session may do, changes nothing.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import threading
import weakref
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from runtime.errors import MemoryStoreError
from runtime.files import check_private, make_private, reason_about

WORD = re.compile(r"\w+")

LONGEST = 1 << 24
"""Bytes of a note, 16 MiB: neither saved nor read beyond, whoever made the file."""

FOUND = 5
"""Notes that one search gives: what a small model can read beside a question."""
DAMAGE = (sqlite3.Error, UnicodeDecodeError)
"""What is raised of a file that can not be used; the second, where SQLite says of a damaged one what stands there."""

TABLES = """
CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
CREATE VIRTUAL TABLE IF NOT EXISTS words
    USING fts5(text, content='notes', content_rowid='id', tokenize='porter unicode61 remove_diacritics 2');
CREATE TRIGGER IF NOT EXISTS saved AFTER INSERT ON notes
    BEGIN INSERT INTO words(rowid, text) VALUES (new.id, new.text); END;
"""
"""The texts, and SQLite's full-text index on them (https://www.sqlite.org/fts5.html), which keeps no second copy."""


@runtime_checkable
class Memory(Protocol):
    """What an agent needs of a store of notes. Called from one thread at a time."""

    def remember(self, text: str) -> object:
        """Save a note for good. The same text twice is one note."""

    def recall(self, query: str) -> Sequence[str]:
        """The notes that fit a query, best first; none is no error."""


class Notes:
    """Notes in a SQLite file, or in this process alone, found by the words they hold.

    >>> notes = Notes()
    >>> notes.remember("The user's cat is named Miu.")
    >>> notes.remember("Invoices are paid on Fridays.")
    >>> notes.recall("my cats")
    ("The user's cat is named Miu.",)

    Word forms count as one word (cat, cats), rare words count more than common ones (BM25). Usable from any thread.

    Args:
        path: the file, made if it is not there, for this user alone; None keeps the notes for as long as this object
            lives. Beside it stands an empty file, its name with ``-journal`` behind, in which SQLite keeps what a
            crash would interrupt.

    Raises:
        MemoryStoreError: the file can't be opened, is no store of notes, or is a link or another user's.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._path = ":memory:" if path is None else os.path.abspath(os.fspath(path))
        self._lock = threading.Lock()
        with _opening:
            try:
                if path is not None:
                    _see_to(self._path)
                self._file = sqlite3.connect(self._path, check_same_thread=False, isolation_level=None)
            except (sqlite3.Error, OSError) as error:
                raise self._error(error) from error
        # Connections wait for the garbage collection otherwise: they hold themselves.
        weakref.finalize(self, self._file.close)
        try:
            self._file.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
            # The journal stays, as our own file: made anew for each note, it could be a link by then.
            self._file.execute("PRAGMA journal_mode = TRUNCATE")
            self._file.executescript(TABLES)
            if path is not None and _schema(self._file) != _SCHEMA:
                raise sqlite3.DatabaseError("its tables are not those of notes")
        except DAMAGE as error:
            self._file.close()
            raise self._error(error) from error

    def remember(self, text: str) -> None:
        """Save a note; raises MemoryStoreError where it can't be."""
        try:
            with self._lock:
                self._file.execute("INSERT OR IGNORE INTO notes(text) VALUES (?)", (_storable(text),))
        except DAMAGE as error:
            raise self._error(error) from error

    def recall(self, query: str) -> tuple[str, ...]:
        """At most ``FOUND`` notes that share a word with the query, best first."""
        words = " OR ".join(f'"{word}"' for word in WORD.findall(_storable(query)))
        if not words:
            return ()
        try:
            with self._lock:
                rows = self._file.execute(
                    "SELECT text FROM words WHERE words MATCH ? ORDER BY rank, rowid LIMIT ?", (words, FOUND)
                ).fetchall()
        except DAMAGE as error:
            raise self._error(error) from error
        return tuple(text for (text,) in rows)

    def close(self) -> None:
        """Close the file. A second call does nothing."""
        with self._lock:
            self._file.close()

    def __enter__(self) -> Notes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _error(self, error: sqlite3.Error | UnicodeDecodeError | OSError) -> MemoryStoreError:
        reason = reason_about(error, self._path) if isinstance(error, OSError) else error
        return MemoryStoreError(f"the notes in {self._path} can't be used ({reason}); give another file", self._path)


_opening = threading.Lock()
"""Held from when a file is made until SQLite has it: whoever closes a descriptor of a file gives up all locks that the
process has on it (https://www.sqlite.org/howtocorrupt.html), so nobody here may have it open when that is done."""


def _see_to(path: str) -> None:
    """See that SQLite opens nothing but files of this user's: it would follow links, and make files for everybody.

    Raises:
        OSError: there is something else.
    """
    journal = f"{path}-journal"
    for name in (path, journal) if os.access(os.path.dirname(path), os.W_OK) else ():
        with contextlib.suppress(FileExistsError):
            make_private(name)
    check_private(path)
    for name in (journal, f"{path}-wal", f"{path}-shm"):  # the last two of another program's making
        with contextlib.suppress(FileNotFoundError):
            check_private(name)


def _schema(file: sqlite3.Connection) -> set[tuple[str, str]]:
    """What is defined in a file under our names: a view or a trigger of somebody else's would be run by a search."""
    return set(
        file.execute("SELECT name, sql FROM sqlite_schema WHERE tbl_name IN ('notes', 'words') AND type <> 'index'")
    )


def _own_schema() -> set[tuple[str, str]]:
    with contextlib.closing(sqlite3.connect(":memory:")) as empty:
        empty.executescript(TABLES)
        return _schema(empty)


_SCHEMA = _own_schema()


def _storable(text: str) -> str:
    """The text with a question mark for each half of a surrogate pair, which UTF-8 has no form for."""
    return text.encode("utf-8", "replace").decode()
