"""Restate for ``benchmarks/durable.py``: a server of its own, bare steps, and sessions, served by this process."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, process_time

from restate import ObjectContext, VirtualObject

from interpreters.durable.definition import DurableAgent
from interpreters.durable.restate._context import BYTES, RUNS
from interpreters.durable.restate.sessions import RestateSessions
from tests.interpreters.durable.restate_rig import free_port, object_served, running_server

BARE = "cogstep.bare"


class OnRestate:
    """Bare invocations and sessions at one server."""

    def __init__(self, sessions: RestateSessions) -> None:
        self._sessions = sessions

    def bare(self, steps: int) -> tuple[float, float]:
        server = self._sessions._server
        reply = server.output(server.send(BARE, uuid.uuid4().hex, str(steps)), None)
        assert reply is not None
        assert reply.status < 300, reply
        wall, cpu = json.loads(reply.body)
        return wall, cpu

    def run(self, agent: str, session: str) -> None:
        self._sessions.result(self._sessions.send(session, "Go.", agent=agent))


@contextmanager
def on_restate(agents: tuple[DurableAgent, ...], url: str, text: str, folder: Path) -> Iterator[OnRestate]:
    """A server that is there while this is open.

    Args:
        agents: whose sessions it has.
        url: of the store.
        text: that a bare step gives.
        folder: for the server.
    """
    with running_server(folder / "restate") as server:
        sessions = RestateSessions(agents, url, ingress=server.ingress, admin=server.admin)
        with sessions.worker(f"http://127.0.0.1:{free_port()}"), _bare_worker(sessions, text.encode()):
            yield OnRestate(sessions)


@contextmanager
def _bare_worker(sessions: RestateSessions, text: bytes) -> Iterator[None]:
    made = VirtualObject(BARE)

    async def answer() -> bytes:
        return text

    @made.handler("run", input_serde=BYTES, output_serde=BYTES)
    async def run(context: ObjectContext, steps: bytes) -> bytes:
        began, worked = perf_counter(), process_time()
        for number in range(int(steps)):
            await context.run_typed(f"bare-{number}", answer, RUNS)
        return json.dumps([perf_counter() - began, process_time() - worked]).encode()

    with object_served(made) as address:
        sessions._server.register(address, (BARE,))
        yield
