"""The files of an index: which database is the present one, and a new one in place of one that is damaged.

    .index/current            the name of the present one
    .index/3f9c...a1.sqlite   it, with what SQLite puts beside it

A database that others have open is never made anew under its name: SQLite would delete what it believes to be its own
files (https://www.sqlite.org/howtocorrupt.html). So a new one gets a new name, others see at their next search that
theirs is not the present one, and what is left of an old one can be deleted at any time.
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
from runtime.stores.index import Index

FOLDER, CURRENT = ".index", "current"
NAME = re.compile(r"[0-9a-f]{24}\.sqlite")

PATIENCE = 10.0
"""Seconds for another process that holds a lock: each holds it for milliseconds, unless it was stopped there."""

PAUSE = 0.002
"""Seconds between two tries."""

ELSEWHERE = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}
ELSEWHERE |= {sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_NOLFS, sqlite3.SQLITE_PROTOCOL}
"""Where no database can be written, one in this process will do."""

BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def code_of(error: sqlite3.Error) -> int:
    """SQLite's own number of what was wrong; 0 where Python says it of itself."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


class Generations:
    """Opens the index of a memory, and replaces it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / FOLDER

    def open(self) -> tuple[str, Index]:
        """The present index and its name; a new one where there is none, or it can't be opened.

        Raises:
            sqlite3.Error, OSError: no database can be written here.
            MemoryStoreError: another process holds the lock.
        """
        name = self.current()
        if name:
            with contextlib.suppress(sqlite3.Error, OSError):
                return name, self._opened(name)
        return self.replace(name)

    def current(self) -> str:
        """The name of the present index; nothing where there is none."""
        try:
            name = read_regular(self._folder / CURRENT, 100, links=False).decode("ascii", "replace")
        except OSError:
            return ""
        return name if NAME.fullmatch(name) else ""

    def replace(self, old: str) -> tuple[str, Index]:
        """A new index in place of that one, unless another process has replaced it already; raises as ``open``."""
        make_directory(self._folder)
        with locked(self._folder / "lock"):
            name = self.current()
            if name and name != old:
                with contextlib.suppress(sqlite3.Error, OSError):
                    return name, self._opened(name)
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

    def _opened(self, name: str) -> Index:
        path = self._folder / name
        check_private(path)  # SQLite would follow a link, and make a file for everybody
        for beside in (f"{path}-wal", f"{path}-shm"):
            with contextlib.suppress(FileNotFoundError):
                check_private(beside)
        return Index(path)

    def _sweep(self, kept: str) -> None:
        """Delete what is left of older ones."""
        for one in os.listdir(self._folder):
            if NAME.match(one) and not one.startswith(kept):
                with contextlib.suppress(OSError):
                    os.unlink(self._folder / one)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes and threads out as long as the block lasts. The system unlocks for one that is killed.

    Raises:
        MemoryStoreError: somebody holds it for longer than ``PATIENCE``, or this disk knows no locks.
        OSError: its file can't be made.
    """
    until = time.monotonic() + PATIENCE
    with closing(open_private(path)) as descriptor:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise MemoryStoreError(
                        f"another process has held {path} for {PATIENCE:.0f} s; end it, or try again", str(path)
                    ) from None
                time.sleep(PAUSE)
            except OSError as error:
                raise MemoryStoreError(
                    f"{path} can't be locked ({error.strerror}); put the memory on a disk of this machine", str(path)
                ) from error
        try:
            yield
        finally:  # and not by closing it, of which a child may have a copy
            fcntl.flock(descriptor, fcntl.LOCK_UN)
