"""A copy of a store in SQLite at one moment, also while programs write to it.

Programs often copy only the file itself. What was written last is in a second file beside it, ``-wal``, and a durable
engine has a database of its own, ``.dbos``. This copies all of it, as it was at the same moment.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from interpreters.recording.store._errors import StoreError
from interpreters.recording.store.database import BUSY, Database
from runtime.files import make_private

ENGINE = ".dbos"
"""Ends the name of the database that DBOS has beside a store."""

UNDO = ".undo"
"""Ends the name of the directory with the old contents of files."""

PART = ".part"

PAGES = 2000
"""Pages of a database copied in one go."""


def back_up(database: Database, to: Path) -> tuple[Path, ...]:
    """Copy a store with everything beside it; return the copies. Writers wait until this has ended.

    Args:
        database: a SQLite database.
        to: the path of the copy; what is beside the store is copied beside it, under the same endings.

    Raises:
        StoreError: there is no such store, it is in PostgreSQL, ``to`` exists, or a copy can't be written. Nothing is
            left behind.
    """

    def fault(problem: str) -> StoreError:
        return StoreError(problem, store=database.display_name)

    if database.location.kind != "sqlite":
        raise fault("a database on a server is copied by its own program: pg_dump --format=custom --file=FILE DATABASE")
    if not database.is_there:
        raise fault("there is no such file; name the one that is meant")
    source = database.location.path
    endings = [ending for ending in ("", ENGINE, UNDO) if os.path.exists(f"{source}{ending}")]
    copies = [Path(f"{to}{ending}") for ending in endings]
    for one in copies:
        if os.path.lexists(one):
            raise fault(f"{one} exists, and nothing is overwritten; choose another name")
    parts = [Path(f"{one}{PART}") for one in copies]
    try:
        with _no_writers([f"{source}{ending}" for ending in endings if ending != UNDO]):
            for ending, part in zip(endings, parts, strict=True):
                _copy(Path(f"{source}{ending}"), part)
        for part, one in zip(parts, copies, strict=True):
            os.replace(part, one)
    except (OSError, sqlite3.Error) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise fault(f"can't be copied to {to} ({why}); see that its directory exists and has room") from error
    finally:
        for part in parts:
            _remove(part)
    return tuple(copies)


def _connect(path: str, mode: str) -> sqlite3.Connection:
    name = f"file:{quote(os.fsencode(os.path.abspath(path)))}?mode={mode}"
    return sqlite3.connect(name, uri=True, timeout=BUSY, isolation_level=None)


@contextmanager
def _no_writers(paths: list[str]) -> Iterator[None]:
    """Keep everybody from writing to these databases: for those who read the copies, all processes died now."""
    with ExitStack() as held:
        for path in paths:
            connection = held.enter_context(closing(_connect(path, "rw")))
            connection.execute("BEGIN IMMEDIATE")
            held.callback(connection.rollback)
        yield


def _copy(source: Path, to: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, to, symlinks=True)
        return
    make_private(str(to))
    with closing(_connect(str(source), "rw")) as there, closing(_connect(str(to), "rw")) as copy:
        there.backup(copy, pages=PAGES)
        copy.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with open(to, "rb") as written:
        os.fsync(written.fileno())


def _remove(part: Path) -> None:
    with suppress(OSError):
        shutil.rmtree(part) if part.is_dir() and not part.is_symlink() else part.unlink()
    for ending in ("-wal", "-shm", "-journal"):
        with suppress(OSError):
            os.unlink(f"{part}{ending}")
