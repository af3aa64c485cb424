"""The suite of stories on DBOS, held against asyncio: ``python -m tests.interpreters.durable.same URL``.

In a process of its own, since DBOS has one instance a process, and SQLite may have to be another one than Python's.
"""

from __future__ import annotations

import sys

import tests.interpreters.durable.sqlite  # noqa: F401 - before anything opens a database
from interpreters import replay
from interpreters.durable.dbos.sessions import DBOSSessions
from tests.interpreters.durable.stories import FULL, agents_of, suite, tell


def main(url: str) -> None:
    worlds, agents = agents_of(suite())
    with DBOSSessions(agents, url) as sessions:
        with sessions.worker():
            tell(sessions, agents, worlds)
        full = worlds[0]
        assert full.story == FULL
        names = [name for name in sessions.store.names() if name.partition("/")[0] == full.session]
        assert len(names) == 2  # the worker's, too
        assert all(replay(sessions.recorder(name)).same for name in names)
        transcript = sessions.transcript(full.session, agent=full.session)
        assert len(transcript.turns) == len(FULL.turns)
        for world in worlds:  # what waits costs nothing: no run is at work, or in a queue
            assert not sessions._runs(world.session, ["PENDING", "ENQUEUED"])
    print(f"the same {len(worlds)} times")


if __name__ == "__main__":
    main(sys.argv[1])
