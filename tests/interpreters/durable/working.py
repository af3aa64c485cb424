"""A process that works at sessions until its input ends: ``python -m ...durable.working URL FOLDER``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import tests.interpreters.durable.sqlite  # noqa: F401 - before anything opens a database
from interpreters.durable.dbos.sessions import DBOSSessions
from interpreters.recording.store import SqlRecorder
from tests.interpreters.durable.shop import CHANCE, moment, shop


def main(url: str, folder: Path) -> None:
    if CHANCE:
        append, append_with = SqlRecorder.append, SqlRecorder.append_with

        def dying(self: SqlRecorder, number: int, line: bytes, force: bool) -> None:
            moment(folder, "before a commit")
            append(self, number, line, force)
            moment(folder, "behind a commit")

        def dying_with(self: SqlRecorder, number: int, line: bytes, payloads: Mapping[str, bytes], force: bool) -> None:
            moment(folder, "before a commit")
            append_with(self, number, line, payloads, force)
            moment(folder, "behind a commit")

        SqlRecorder.append = dying  # type: ignore[method-assign]
        SqlRecorder.append_with = dying_with  # type: ignore[method-assign]
    sessions = DBOSSessions(shop(folder, retries=True), url)
    with sessions.worker():
        print("ready", flush=True)
        sys.stdin.read()
    sessions.close()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
