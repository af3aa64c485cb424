"""Where notes are kept between sessions: what ``remember`` saves and ``recall`` finds.

A store keeps each text once, so that saving it again, as a resumed session may do, changes nothing.
"""

from __future__ import annotations

import os
import re
import sqlite3
import threading
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from runtime.errors import MemoryStoreError

WORD = re.compile(r"\w+")

FOUND = 5
"""Notes that one search gives: what a small model can read beside a question."""

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
        path: the file, made if it is not there; None keeps the notes for as long as this object lives.

    Raises:
        MemoryStoreError: the file can't be opened, or is no store of notes.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._path = ":memory:" if path is None else os.fspath(path)
        self._lock = threading.Lock()
        try:
            self._file = sqlite3.connect(self._path, check_same_thread=False, isolation_level=None)
        except sqlite3.Error as error:
            raise self._error(error) from error
        try:
            self._file.executescript(TABLES)
        except sqlite3.Error as error:
            self._file.close()
            raise self._error(error) from error

    def remember(self, text: str) -> None:
        """Save a note; raises MemoryStoreError where it can't be."""
        try:
            with self._lock:
                self._file.execute("INSERT OR IGNORE INTO notes(text) VALUES (?)", (_storable(text),))
        except sqlite3.Error as error:
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
        except sqlite3.Error as error:
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

    def _error(self, error: sqlite3.Error) -> MemoryStoreError:
        return MemoryStoreError(f"the notes in {self._path} can't be used ({error}); give another file", self._path)


def _storable(text: str) -> str:
    """The text with a question mark for each half of a surrogate pair, which UTF-8 has no form for."""
    return text.encode("utf-8", "replace").decode()
