"""Stores of notes between sessions: ``remember`` saves, ``recall`` finds.

A store keeps each text once, so saving it again, as a resumed session may do, has no effect.
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

from cognition.base.protocols import AttributeProtocolMeta
from cognition.context.words import LONGEST_MESSAGE, MOST_WORDS, rarest_words
from runtime.closeable import Closeable
from runtime.errors import MemoryStoreError
from runtime.files import check_private, make_private, reason_about
from runtime.stores._tables import has_tables

WORD = re.compile(r"\w+")

LONGEST = 1 << 24
"""Maximum bytes of a note, 16 MiB, for writing and reading, in any file."""

FOUND = 5
"""Notes per search: as many as a small model can read beside a question."""
DAMAGE = (sqlite3.Error, UnicodeDecodeError)
"""Exceptions of an unusable file; SQLite raises the second for some damaged files."""

TABLES = """
CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
CREATE VIRTUAL TABLE IF NOT EXISTS words
    USING fts5(text, content='notes', content_rowid='id', tokenize='porter unicode61 remove_diacritics 2');
CREATE TRIGGER IF NOT EXISTS saved AFTER INSERT ON notes
    BEGIN INSERT INTO words(rowid, text) VALUES (new.id, new.text); END;
"""
"""The texts, and SQLite's full-text index on them (https://www.sqlite.org/fts5.html), which stores no second copy."""

OWN = "tbl_name IN ('notes', 'words') AND type <> 'index'"
"""The definitions under our names."""


@runtime_checkable
class Memory(Protocol, metaclass=AttributeProtocolMeta):
    """The store of notes that an agent needs. Called from one thread at a time."""

    def remember(self, text: str) -> object:
        """Save a note permanently. The same text twice is one note."""

    def recall(self, query: str) -> Sequence[str]:
        """Return the matching notes, best first; an empty result is not an error."""


class Notes(Closeable):
    """Notes in a SQLite file, or in memory, found by their words.

    >>> notes = Notes()
    >>> notes.remember("The user's cat is named Miu.")
    >>> notes.remember("Invoices are paid on Fridays.")
    >>> notes.recall("my cats")
    ("The user's cat is named Miu.",)

    Word forms count as one word (cat, cats), rare words count more than common words (BM25). Usable from any thread.

    Args:
        path: the file, created if missing, readable only by this user; None for memory only. Beside it SQLite uses an
            empty ``-journal`` file, to recover from crashes.

    Raises:
        MemoryStoreError: the file cannot be opened, is not a store of notes, is a symlink, or is owned by another user.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._path = ":memory:" if path is None else os.path.abspath(os.fspath(path))
        self._lock = threading.Lock()
        with _opening:
            try:
                if path is not None:
                    _prepare_file(self._path)
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
            if path is not None and not has_tables(self._file, TABLES, OWN):
                raise sqlite3.DatabaseError("its tables are not those of notes")
        except DAMAGE as error:
            self._file.close()
            raise self._error(error) from error

    def remember(self, text: str) -> None:
        """Save a note. Raises MemoryStoreError on failure."""
        try:
            with self._lock:
                self._file.execute("INSERT OR IGNORE INTO notes(text) VALUES (?)", (_storable(text),))
        except DAMAGE as error:
            raise self._error(error) from error

    def recall(self, query: str) -> tuple[str, ...]:
        """Return at most ``FOUND`` notes that share a word with the query, best first. Of more than 24 words of a query
        the rarest that occur count.
        """
        try:
            with self._lock:
                words = " OR ".join(f'"{word}"' for word in self._words(_storable(query)))
                query = "SELECT text FROM words WHERE words MATCH ? ORDER BY rank, rowid LIMIT ?"
                rows = self._file.execute(query, (words, FOUND)).fetchall() if words else []
        except DAMAGE as error:
            raise self._error(error) from error
        return tuple(text for (text,) in rows)

    def _words(self, query: str) -> list[str]:
        """Return the words to search for: of many, as in a pasted log, the rarest that occur in any note."""
        if len(query) > 2 * LONGEST_MESSAGE:
            query = f"{query[:LONGEST_MESSAGE]} {query[-LONGEST_MESSAGE:]}"
        words: list[str] = WORD.findall(query)
        if len(words) <= MOST_WORDS:
            return words
        return rarest_words({word: self._count(word) for word in dict.fromkeys(words)})

    def _count(self, word: str) -> int:
        query = "SELECT count(*) FROM words WHERE words MATCH ?"
        return int(self._file.execute(query, (f'"{word}"',)).fetchone()[0])

    def close(self) -> None:
        """Close the file. A second call does nothing."""
        with self._lock:
            self._file.close()

    def _error(self, error: sqlite3.Error | UnicodeDecodeError | OSError) -> MemoryStoreError:
        reason = reason_about(error, self._path) if isinstance(error, OSError) else error
        return MemoryStoreError(f"the notes in {self._path} can't be used ({reason}); give another file", self._path)


_opening = threading.Lock()
"""Locked from the creation of a file until SQLite has opened it. Closing any descriptor of a file releases all locks of
the process on it (https://www.sqlite.org/howtocorrupt.html), so no other thread may have it open then.
"""


def _prepare_file(path: str) -> None:
    """Check that SQLite opens only private files of this user: it would follow symlinks, and create files with open
    permissions.

    Raises:
        OSError: a file is not private.
    """
    journal = f"{path}-journal"
    for name in (path, journal) if os.access(os.path.dirname(path), os.W_OK) else ():
        with contextlib.suppress(FileExistsError):
            make_private(name)
    check_private(path)
    for name in (journal, f"{path}-wal", f"{path}-shm"):  # the last two of another program's making
        with contextlib.suppress(FileNotFoundError):
            check_private(name)


def _storable(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode, by question marks."""
    return text.encode("utf-8", "replace").decode()
