"""The files of an index: the current database, and its replacement if damaged.

    .index/current            the name of the current database
    .index/3f9c...a1.sqlite   the database, with SQLite's own files beside it

An open database is never recreated under its name: SQLite would delete files that it believes to be its own
(https://www.sqlite.org/howtocorrupt.html). So a new database gets a new name. Other processes notice it at their next
search. The remains of an old database can be deleted at any time.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from runtime.errors import MemoryStoreError
from runtime.files import (
    check_private,
    closing,
    make_directory,
    make_private,
    open_private,
    read_regular,
    replace_private,
)
from runtime.stores._index import Index

FOLDER, CURRENT = ".index", "current"
NAME = re.compile(r"[0-9a-f]{24}\.sqlite")

PATIENCE = 10.0
"""Seconds to wait for another process's lock: it lasts milliseconds, unless that process is stopped."""

PAUSE = 0.002
"""Seconds between two attempts."""

ELSEWHERE = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}
ELSEWHERE |= {sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_NOLFS, sqlite3.SQLITE_PROTOCOL}
"""Errors after which an in-memory database is used instead, since no database can be written."""

BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def code_of(error: sqlite3.Error) -> int:
    """Return SQLite's primary error code; 0 for an error of Python's own."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


class IndexVersions:
    """Opens the index of a memory, and replaces it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / FOLDER

    def open(self) -> tuple[str, Index]:
        """Return the current index and its name; a new index if it is missing or cannot be opened.

        Raises:
            sqlite3.Error, OSError: no database can be written here.
            MemoryStoreError: another process has the lock.
        """
        name = self.current()
        if name:
            with contextlib.suppress(sqlite3.Error, OSError):
                return name, self._open_version(name)
        return self.replace(name)

    def current(self) -> str:
        """Return the name of the current index, or an empty text."""
        try:
            name = read_regular(self._folder / CURRENT, 100, links=False).decode("ascii", "replace")
        except OSError:
            return ""
        return name if NAME.fullmatch(name) else ""

    def replace(self, old: str) -> tuple[str, Index]:
        """Replace that index by a new one, unless another process already has. Raises like ``open``."""
        make_directory(self._folder)
        with lock(self._folder / "lock"):
            name = self.current()
            if name and name != old:
                with contextlib.suppress(sqlite3.Error, OSError):
                    return name, self._open_version(name)
            name = f"{secrets.token_hex(12)}.sqlite"
            make_private(self._folder / name)
            index = Index(self._folder / name)
            try:
                replace_private(self._folder / CURRENT, name.encode())
            except BaseException:
                index.close()
                raise
            self._sweep(name)
            return name, index

    def _open_version(self, name: str) -> Index:
        path = self._folder / name
        check_private(path)  # SQLite would follow a link, and make a file for everybody
        for beside in (f"{path}-wal", f"{path}-shm"):
            with contextlib.suppress(FileNotFoundError):
                check_private(beside)
        return Index(path)

    def _sweep(self, kept: str) -> None:
        for one in os.listdir(self._folder):
            if NAME.match(one) and not one.startswith(kept):
                with contextlib.suppress(OSError):
                    os.unlink(self._folder / one)


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Lock out other processes and threads during the block. The system releases the lock of a killed process.

    Raises:
        MemoryStoreError: another process has it for longer than ``PATIENCE``, or this disk does not support locks.
        OSError: its file cannot be created.
    """
    until = time.monotonic() + PATIENCE
    with closing(open_private(path)) as descriptor:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    told = f"another process has held {path} for {PATIENCE:.0f} s; end it, or try again"
                    raise MemoryStoreError(told, str(path)) from None
                time.sleep(PAUSE)
            except OSError as error:
                told = f"{path} can't be locked ({error.strerror}); put the memory on a disk of this machine"
                raise MemoryStoreError(told, str(path)) from error
        try:
            yield
        finally:  # and not by closing it, of which a child may have a copy
            fcntl.flock(descriptor, fcntl.LOCK_UN)
