"""Sessions on a real Temporal server, whose processes are killed at random moments, and itself too.

    TEMPORAL_CLI=/usr/local/bin/temporal python -m tests.interpreters.durable.temporal_kills --times 60 --sessions 6

Some processes work at all sessions; SIGKILL ends one of them, or the server, and another one is started. Every session
has to finish, with nothing lost that was acknowledged and nothing done twice that must not be; each history replays.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from temporalio.client import Client, WorkflowHandle, WorkflowHistory, WorkflowQueryFailedError
from temporalio.service import RPCError
from temporalio.worker import Replayer, Worker

from cognition import CancelAsked, Completed, UserSpoke
from interpreters.durable.serialization import RunOutcome, StepResult
from interpreters.durable.temporal.workflow import SessionWorkflow, activities, beginning, message, reply
from tests.interpreters.durable import outside
from tests.interpreters.durable.outside import agent_of, answer_to
from tests.interpreters.durable.restate_rig import Workers, free_port

T = TypeVar("T")

QUEUE = "cogstep"
PATIENCE = 90.0
"""Seconds for which a person of this test waits for a server, or for a session."""

OFTEN = 0.2
"""Of the kills, those that the server gets."""

MISSING = "TEMPORAL_CLI has to name Temporal's command, which brings a server for development"


def program() -> str | None:
    """The command with the server."""
    return os.environ.get("TEMPORAL_CLI") or None


class Server:
    """A server with a database of its own; it may be killed and started again.

    Args:
        folder: of its own.
        long: the number of events after which it suggests to go on as new.
    """

    def __init__(self, folder: Path, long: int) -> None:
        self._long = f"limit.historyCount.suggestContinueAsNew={long}"
        self.database = folder / "temporal.db"
        self.address = f"127.0.0.1:{free_port()}"
        self._folder = folder
        self.process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        command = program()
        assert command is not None, MISSING
        port = self.address.partition(":")[2]
        ports = ["--port", port, "--http-port", str(free_port()), "--metrics-port", str(free_port())]
        where = ["--db-filename", str(self.database), "--log-level", "error", "--headless"]
        where += ["--dynamic-config-value", self._long]
        with open(self._folder / "server.log", "ab") as log:
            return subprocess.Popen([command, "server", "start-dev", *ports, *where], stdout=log, stderr=log)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def start(self) -> None:
        self.process = self._started()


async def patiently(call: Callable[[], Awaitable[T]]) -> T:
    """What a call gives once there is a server, and a process that works."""
    ends = time.monotonic() + PATIENCE
    while True:
        try:
            return await call()
        except (RPCError, RuntimeError, WorkflowQueryFailedError):
            if time.monotonic() > ends:
                raise
            await asyncio.sleep(0.1)


async def connected(address: str) -> Client:
    return await patiently(lambda: Client.connect(address))


@asynccontextmanager
async def running_server(folder: Path, long: int) -> AsyncIterator[tuple[Server, Client]]:
    """A server that is there while this is open."""
    server = Server(folder, long)
    try:
        yield server, await connected(server.address)
    finally:
        server.kill()


class Person:
    """Somebody who talks with one session, until told to stop, and answers what it asks."""

    def __init__(self, client: Client, folder: Path, name: str) -> None:
        self.name = name
        self._client = client
        self._agent = agent_of(folder)
        self.said: list[str] = []
        self.unsure: set[str] = set()
        """Messages of which the server did not say whether it had them, so that they were sent again."""

    async def talk(self, stop: asyncio.Event) -> None:
        first = beginning(self._agent)
        await patiently(lambda: self._start(first))
        session: Any = self._client.get_workflow_handle(self.name)
        while not stop.is_set() or not self.said:
            text = f"Do the {len(self.said) + 1}. thing."
            self.said.append(text)
            await self._put(session, message(self._agent, text), text)
            now = await self._stands(session)
            while now.pending:
                await self._put(session, reply(self._agent, now.pending[0], answer_to(now.pending[0])), "")
                now = await self._stands(session)
            assert now.finished is not None
            assert now.finished.outcome == Completed("Done."), now
            assert now.error == ""
        await patiently(lambda: session.signal("end"))
        await patiently(lambda: session.result())

    async def _start(self, first: str) -> None:
        reuse: Any = {"id": self.name, "task_queue": QUEUE, "id_conflict_policy": 2}  # one that runs already is taken
        await self._client.start_workflow("cogstep.session", first, **reuse)

    async def _put(self, session: WorkflowHandle[Any, Any], text: str, said: str) -> None:
        async def put() -> None:
            try:
                await session.signal("put", text)
            except RPCError:
                self.unsure.add(said)
                raise

        await patiently(put)

    async def _stands(self, session: WorkflowHandle[Any, Any]) -> RunOutcome:
        """How things stand once the session waits or has ended its turn."""
        ends = time.monotonic() + PATIENCE
        while True:
            now = RunOutcome.read(await patiently(lambda: session.query("status", rpc_timeout=timedelta(seconds=5))))
            if now.pending or now.finished or now.error:
                return now
            assert time.monotonic() < ends, f"{self.name} has not finished"
            await asyncio.sleep(0.1)


async def kills(
    times: int, sessions: int, folder: Path, *, workers: int = 3, seed: int = 0, long: int = 100
) -> Counter[str]:
    """Kill so often; gives the number of results of each kind."""
    chance = random.Random(seed)
    async with running_server(folder, long) as (server, client):
        crew = Workers(["-m", "tests.interpreters.durable.temporal_kills", str(folder), server.address], folder / "log")
        stop = asyncio.Event()
        people = [Person(client, folder, f"session-{number}") for number in range(sessions)]
        try:
            for _ in range(workers):
                await asyncio.to_thread(crew.add)
            talks = [asyncio.create_task(person.talk(stop)) for person in people]
            for _ in range(times):
                await asyncio.sleep(chance.uniform(0.2, 2.0))
                await _kill_one(chance, server, crew)
            stop.set()
            await asyncio.gather(*talks)
        finally:
            crew.close()
        return await _check(client, folder, people)


async def _kill_one(chance: random.Random, server: Server, crew: Workers) -> None:
    if chance.random() < OFTEN:
        server.kill()
        server.start()
    else:
        crew.kill(chance.choice(crew.processes))
        await asyncio.to_thread(crew.add)


async def _check(client: Client, folder: Path, people: list[Person]) -> Counter[str]:
    """See that nothing was lost, nothing done twice, and that each history replays."""
    done = Counter((folder / "done").read_text().splitlines())
    assert [line for line, times in done.items() if times > 1] == []
    found: Counter[str] = Counter()
    heard: dict[str, list[str]] = {}
    replayer = Replayer(workflows=[SessionWorkflow])
    executions = [one async for one in client.list_workflows()]
    for execution in sorted(executions, key=lambda one: one.start_time):
        history = await client.get_workflow_handle(execution.id, run_id=execution.run_id).fetch_history()
        await replayer.replay_workflow(history)
        found["histories"] += 1
        for event in happened_in(history):
            found[type(event).__name__] += 1
            assert not isinstance(event, CancelAsked)
            if isinstance(event, UserSpoke):
                heard.setdefault(execution.id, []).append(event.text)
    for person in people:
        assert list(dict.fromkeys(heard[person.name])) == person.said
        again = {text for text, times in Counter(heard[person.name]).items() if times > 1}
        assert again <= person.unsure
        found["messages"] += len(person.said)
    return found + Counter({"done outside": sum(done.values())})


def happened_in(history: WorkflowHistory) -> list[Any]:
    """What the activities of a history gave."""
    results = []
    for event in history.events:
        if event.HasField("activity_task_completed_event_attributes"):
            given = event.activity_task_completed_event_attributes.result.payloads[0].data
            results.append(StepResult.read(_text(given)).event)
    return results


def _text(data: bytes) -> str:
    return str(json.loads(data))


async def work(folder: Path, address: str) -> None:
    """What one process does, until it is killed."""
    outside.SLOWEST = 0.3  # so that most kills come while a call is under way
    client = await connected(address)
    agent, short = agent_of(folder), timedelta(seconds=1)
    async with Worker(
        client,
        task_queue=QUEUE,
        workflows=[SessionWorkflow],
        activities=activities(agent),
        sticky_queue_schedule_to_start_timeout=short,
    ):
        print("ready", flush=True)
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--times", type=int, default=60, help="how often something is killed (%(default)s)")
    parser.add_argument("--sessions", type=int, default=6, help="how many sessions there are (%(default)s)")
    parser.add_argument("--workers", type=int, default=3, help="how many processes work at them (%(default)s)")
    parser.add_argument("--long", type=int, default=100, help="events of a long history (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if program() is None:
        print(MISSING)
        return
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        made = kills(given.times, given.sessions, Path(folder), workers=given.workers, seed=given.seed, long=given.long)
        found = asyncio.run(made)
        print(f"{given.times} kills in {time.monotonic() - began:.0f} s; {dict(found)}")


if __name__ == "__main__":
    if len(sys.argv) == 3 and ":" in sys.argv[2]:
        asyncio.run(work(Path(sys.argv[1]), sys.argv[2]))
    else:
        main()
