"""Sessions on a real Restate server, whose processes are killed a hundred times at random moments, and itself too.

    python tests/interpreters/durable/restate_kills.py               # a hundred times
    python tests/interpreters/durable/restate_kills.py --times 2 --sessions 200 --workers 4
    python tests/interpreters/durable/restate_kills.py --postgres    # records there, and that crashes too

Some processes work at all sessions; SIGKILL ends one of them, or the server, and another one is started. Every session
has to finish, with nothing lost that was acknowledged and nothing done twice that must not be.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from cognition import Completed
from interpreters.durable._errors import DurableError
from interpreters.durable.restate.sessions import RestateSessions
from interpreters.durable.serialization import RunOutcome
from interpreters.loop.program.program import read_answer
from tests.interpreters.databases import Postgres, why_no_postgres
from tests.interpreters.durable.outside import agent_of, answer_to, check
from tests.interpreters.durable.restate_rig import MISSING, Server, Workers, free_port, running_server, server_program

T = TypeVar("T")

PATIENCE = 60.0
"""Seconds for which a person of this test tries to reach a server."""

OFTEN = 0.2
"""Of the kills, those that the server gets; and of the others, those that the database gets where it may crash."""


def patiently(call: Callable[[], T]) -> T:
    """What a call gives once there is a server again."""
    ends = time.monotonic() + PATIENCE
    while True:
        try:
            return call()
        except DurableError as error:
            if "no Restate server" not in str(error) or time.monotonic() > ends:
                raise
            time.sleep(0.05)


class Person(threading.Thread):
    """Somebody who talks with one session, until told to stop, and answers what it asks."""

    def __init__(self, sessions: RestateSessions, name: str, stop: threading.Event) -> None:
        super().__init__(name=name, daemon=True)
        self._sessions = sessions
        self._stopping = stop
        self.said: list[str] = []
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._stopping.is_set() or not self.said:
                self._turn(f"Do the {len(self.said) + 1}. thing.")
        except BaseException as error:
            self.failure = error

    def _turn(self, text: str) -> None:
        sessions, name = self._sessions, self.name
        run = patiently(lambda: sessions.send(name, text, key=text))
        self.said.append(text)
        ended = self._ended(run)
        while ended.pending:
            ended = self._ended(self._answered(ended.pending[0]))
        assert ended.finished is not None
        assert ended.finished.outcome == Completed("Done."), ended

    def _answered(self, effect: Any) -> str:
        """Handed in as it is, since a server may have taken it, and been killed before it said so."""
        event = read_answer(effect, answer_to(effect), {})
        key = f"answer-{effect.effect_id}"
        return patiently(lambda: self._sessions.put(self.name, event, key=key))

    def _ended(self, run: str) -> RunOutcome:
        return patiently(lambda: self._sessions.result(run))


def kills(
    times: int, sessions: int, folder: Path, *, workers: int = 2, seed: int = 0, database: Postgres | None = None
) -> Counter[str]:
    """Kill so often; gives the number of results of each kind."""
    chance, address = random.Random(seed), f"http://127.0.0.1:{free_port()}"
    store = f"sqlite:///{folder}/sessions.db" if database is None else database.url
    with running_server(folder / "restate") as server:
        arguments = [str(folder), store, server.ingress, server.admin, address]
        crew = Workers([str(Path(__file__).with_name("restate_worker.py")), *arguments], folder / "workers.log")
        face = RestateSessions(agent_of(folder), store, ingress=server.ingress, admin=server.admin)
        stop = threading.Event()
        people = [Person(face, f"session-{number}", stop) for number in range(sessions)]
        try:
            for _ in range(workers):
                crew.add()
            for person in people:
                person.start()
            for _ in range(times):
                time.sleep(chance.uniform(0.05, 0.6))
                _kill_one(chance, server, crew, database)
            stop.set()
            for person in people:
                person.join(PATIENCE)
                if person.failure is not None:
                    raise person.failure
                assert not person.is_alive(), f"{person.name} has not finished"
        finally:
            crew.close()
        return check(folder, face.store.recorder, {person.name: person.said for person in people})


def _kill_one(chance: random.Random, server: Server, workers: Workers, database: Postgres | None) -> None:
    if chance.random() < OFTEN:
        server.kill()
        server.start()
    elif database is not None and chance.random() < OFTEN:
        database.stop("immediate")
        database.start()
    else:
        workers.kill(chance.choice(workers.processes))
        workers.add()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--times", type=int, default=100, help="how often something is killed (%(default)s)")
    parser.add_argument("--sessions", type=int, default=8, help="how many sessions there are (%(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="how many processes work at them (%(default)s)")
    parser.add_argument("--postgres", action="store_true", help="record in PostgreSQL, and have that crash too")
    given = parser.parse_args()
    missing = MISSING if server_program() is None else why_no_postgres() if given.postgres else ""
    if missing:
        print(missing)
        return
    database = Postgres() if given.postgres else None
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        try:
            results = kills(given.times, given.sessions, Path(folder), workers=given.workers, database=database)
        finally:
            if database is not None:
                database.end()
        print(f"{given.times} kills in {time.monotonic() - began:.0f} s; results: {dict(results)}")


if __name__ == "__main__":
    main()
