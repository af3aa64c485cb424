"""The story with everything in it on DBOS, held against asyncio: ``python -m tests.interpreters.durable.same URL``.

In a process of its own, since DBOS has one instance a process, and SQLite may have to be another one than Python's.
"""

from __future__ import annotations

import sys

import tests.interpreters.durable.sqlite  # noqa: F401 - before anything opens a database
from cognition import CallModel, TurnFinished
from interpreters import replay
from interpreters.durable.dbos import DBOSSessions
from interpreters.durable.definition import DurableAgent
from interpreters.durable.texts import Ended
from interpreters.testing.fakes import FunctionModel
from tests.interpreters.durable.stories import FULL, lines_of_asyncio
from tests.interpreters.durable.worlds import World, asked_async, bare, by_rule


def main(url: str) -> None:
    usual = bare(lines_of_asyncio(FULL)[1])
    world = World(FULL)
    options = world.options(asked_async)
    options["performers"] = {CallModel: asked_async}
    del options["clock"]
    agent = DurableAgent("tester", FunctionModel(world.answer), world.tools(), **options)
    with DBOSSessions(agent, url) as sessions:
        with sessions.worker():
            for number in range(len(FULL.turns)):
                key = f"thing-{number}"
                run = sessions.send("s", f"Do the {number + 1}. thing.", key=key)
                assert sessions.send("s", f"Do the {number + 1}. thing.", key=key) == run
                ended = sessions.result(run)
                while ended.pending:
                    ended = answered(sessions, ended)
                assert isinstance(ended.finished, TurnFinished)
        lines = list(sessions.recorder("s").lines())
        assert bare(lines) == usual
        names = [name for name in sessions.store.names() if name.partition("/")[0] == "s"]  # other tests have others
        for name in names:
            assert replay(sessions.recorder(name)).same
        assert len(sessions.transcript("s").turns) == len(FULL.turns)
        assert len(names) == 2  # the worker's, too
        for session in names:
            assert b"sk-" not in b"".join(sessions.recorder(session).lines())
    print("the same")


def answered(sessions: DBOSSessions, ended: Ended) -> Ended:
    """What waits costs nothing: no run is at work, and the recording knows what is asked."""
    assert not sessions._runs("s", ["PENDING", "ENQUEUED"])
    assert sessions.pending("s") == ended.pending
    effect = ended.pending[0]
    return sessions.result(sessions.answer("s", str(effect.effect_id), by_rule(effect)))


if __name__ == "__main__":
    main(sys.argv[1])
