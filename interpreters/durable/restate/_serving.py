"""The services of a process for a Restate server: for each agent a virtual object that runs its sessions, and another
that chooses the version of the agent for a session.

    cogstep.assistant              key: session    run, answer: by the version that began the session, or by this one
    cogstep-version.9.assistant.2  key: session    run, work: of version 2

The server sends an invocation of the first object to the newest deployment, and those of the others to the deployment
that has them. So an older version finishes the sessions that it started, and new sessions start with the newest
version.

A message that comes while the turn waits for answers stays in ``run`` of the first object, and the messages behind it
stay in its queue. ``run`` of the second object wakes it at the end of the turn. Answers and cancellations overtake it:
they go through ``answer``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

from attrs import asdict
from h2.events import DataReceived
from hypercorn import protocol
from hypercorn.asyncio import serve
from hypercorn.config import Config
from hypercorn.protocol.h2 import H2Protocol
from restate import ObjectContext, ObjectSharedContext, VirtualObject, wait_completed
from restate.endpoint import Endpoint
from restate.retry_policy import InvocationRetryPolicy

from cognition import ConfigError
from interpreters.durable._leaving import Leaving
from interpreters.durable.definition import DurableAgent
from interpreters.durable.operations import pending_answer
from interpreters.durable.restate._client import ANSWER, HEAR, PENDING, VERSION, WAITER, entrance_name, versioned_name
from interpreters.durable.restate._context import BYTES, execute, failed_run
from interpreters.durable.run import Take, run_durably, run_worker
from interpreters.durable.serialization import RunOutcome
from interpreters.loop.errors import PendingError


class ForgivingH2(H2Protocol):
    """Hypercorn's HTTP/2 connection, but it drops data for a stream that has ended.

    A peer may keep sending until it has read the end of the response, as when a run of Restate is attempted again or a
    process ends. Hypercorn has forgotten the stream by then, fails to find it, and closes the connection, including
    the other runs on it.
    """

    async def _handle_events(self, events: Any) -> None:
        for event in events:
            if isinstance(event, DataReceived) and event.stream_id not in self.streams:
                self.connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                await self._flush()
            else:
                await super()._handle_events([event])


IDLE: Final = timedelta(minutes=1)
"""Idle time after which an invocation that only waits for a timer or a worker leaves its process."""

PATIENCE: Final = timedelta(days=1)
"""Maximum time of a step, such as a tool: after that it counts as stuck, and the run is attempted again."""

RETRIES: Final = InvocationRetryPolicy(
    initial_interval=timedelta(milliseconds=100),
    exponentiation_factor=2.0,
    max_interval=timedelta(seconds=10),
    max_attempts=1000,
    on_max_attempts="pause",
)
"""A run without its process or database is retried for hours, and is then paused for a person to resume.

It is never dropped: its message has been acknowledged.
"""

TOO_EARLY: Final = b"the turn waits for answers"
"""Returned for a message that can't be taken yet."""

FIRST_PAUSE: Final = timedelta(minutes=1)

LONGEST_PAUSE: Final = timedelta(hours=1)
"""The maximum time between two tries of a message that waits. Usually the end of the turn wakes it, but not if another
agent has the turn.
"""

BACKLOG: Final = 100

GRACE: Final = 1.0
"""Seconds that an ending process waits for its requests, and again after each cancellation of them."""

ROUNDS: Final = 10
"""After this number of waits its connections are closed."""


On = Callable[[DurableAgent, str], DurableAgent]
"""Adapts a definition to a session."""


def _object(name: str) -> VirtualObject:
    return VirtualObject(
        name, inactivity_timeout=IDLE, abort_timeout=PATIENCE, invocation_retry_policy=RETRIES, state_preload=True
    )


def _entrance(agent: DurableAgent) -> VirtualObject:
    made = _object(entrance_name(agent.name))

    @made.handler(HEAR, input_serde=BYTES, output_serde=BYTES)
    async def run(context: ObjectContext, event: bytes) -> bytes:
        version: str | None = await context.get(VERSION, type_hint=str)
        if version is None:
            version = agent.version
            context.set(VERSION, version)
        return await _heard(context, versioned_name(agent.name, version), event)

    @made.handler(ANSWER, kind="shared", input_serde=BYTES, output_serde=BYTES)
    async def answer(context: ObjectSharedContext, event: bytes) -> bytes:
        version: str | None = await context.get(VERSION, type_hint=str)
        service = versioned_name(agent.name, version or agent.version)
        return await context.generic_call(service, HEAR, event, key=context.key())

    return made


async def _heard(context: ObjectContext, service: str, event: bytes) -> bytes:
    """Run a message once no turn waits for answers."""
    ended = await context.generic_call(service, HEAR, event, key=context.key())
    pause = FIRST_PAUSE
    while ended == TOO_EARLY:
        name, woken = context.awakeable(serde=BYTES)
        ended = await context.generic_call(service, HEAR, event, key=context.key(), headers={WAITER: name})
        if ended == TOO_EARLY:
            await wait_completed(woken, context.sleep(pause))
            pause = min(2 * pause, LONGEST_PAUSE)
    return ended


def _sessions(agent: DurableAgent, take: Take, on: On, leaving: Leaving) -> VirtualObject:
    name = versioned_name(agent.name, agent.version)
    made = _object(name)

    async def attempt(context: ObjectContext, given: bytes, run: Any) -> bytes:
        key, own = context.key(), on(agent, context.key())
        return await execute(
            context, name, own.hide, lambda engine: run(own, key, given.decode(), engine, take), leaving
        )

    @made.handler(HEAR, input_serde=BYTES, output_serde=BYTES)
    async def run(context: ObjectContext, event: bytes) -> bytes:
        text = await attempt(context, event, run_durably)
        ended, waiter = RunOutcome.read(text.decode()), context.request().headers.get(WAITER)
        if ended.error.startswith(f"{PendingError.__name__}: "):
            if waiter is not None:
                context.set(WAITER, waiter)
            return TOO_EARLY
        if not ended.pending and (woken := await context.get(WAITER, type_hint=str)) is not None:
            context.clear(WAITER)
            context.resolve_awakeable(woken, b"", serde=BYTES)
        if ended.pending:
            context.set(PENDING, {"at": ended.at, "waits_for": [asdict(pending_answer(one)) for one in ended.pending]})
        elif not ended.is_refused and await context.get(PENDING, type_hint=dict) is not None:
            context.clear(PENDING)
        if ended.failure:
            raise failed_run(ended, text.decode())
        return text

    @made.handler("work", input_serde=BYTES, output_serde=BYTES)
    async def work(context: ObjectContext, task: bytes) -> bytes:
        text = await attempt(context, task, run_worker)
        if (ended := RunOutcome.read(text.decode())).failure:
            raise failed_run(ended, text.decode())
        return text

    return made


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket that several processes of this machine can share: if one ends, the server connects to
    another.

    Raises:
        OSError: the process can't listen on the address.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        if hasattr(socket, "SO_REUSEPORT"):
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(BACKLOG)  # whoever connects now, is answered as soon as this process has begun to serve
    except BaseException:
        made.close()
        raise
    return made


def app_of(
    agents: Sequence[DurableAgent], take: Take, keys: Sequence[str], on: On, leaving: Leaving | None = None
) -> Any:
    """Return the services of a process, as an ASGI application; ``leaving`` is the process's state.

    Raises:
        ConfigError: a key is invalid.
    """
    leaving = leaving or Leaving()
    endpoint: Any = Endpoint()  # type: ignore[no-untyped-call]  # the SDK's
    for agent in agents:
        endpoint.bind(_entrance(agent), _sessions(agent, take, on, leaving))
    for key in keys:
        endpoint.identity_key(key)
    try:
        return endpoint.app()
    except Exception as error:  # the SDK's class of it has no public name
        raise ConfigError(f"keys has to be public keys of the server, such as publickeyv1_...: {error}") from error


async def serve_on(
    listener: socket.socket, app: Any, ended: asyncio.Event, leaving: Leaving | None = None, drain: float = 0.0
) -> None:
    """Serve until ``ended`` is set; then close the socket, wait ``drain`` seconds for running steps, and end the
    requests.
    """
    config = Config()
    config.bind = [f"fd://{listener.detach()}"]  # which closes it in the end
    config.graceful_timeout = (
        drain + ROUNDS * GRACE
    )  # the requests end before their connections, or hypercorn fails at each
    config.loglevel = "WARNING"
    logging.getLogger("restate.server_context").addFilter(_one_line)
    protocol.H2Protocol = ForgivingH2  # type: ignore[attr-defined]  # in this process; hypercorn has no option for that
    await asyncio.to_thread(_leave_signals, app)
    at_work: set[asyncio.Task[Any]] = set()
    serving = asyncio.create_task(serve(_watch_requests(app, at_work), config, shutdown_trigger=ended.wait))
    ending = asyncio.create_task(ended.wait())
    try:
        await asyncio.wait((serving, ending), return_when=asyncio.FIRST_COMPLETED)
        if leaving is not None and not serving.done():
            await asyncio.to_thread(leaving.wait, drain)
            leaving.end()
            for task in at_work:
                task.cancel()
        while not (await asyncio.wait((serving,), timeout=GRACE))[0]:
            for task in at_work:  # the SDK goes on after the first cancellation, and then waits for a dead connection
                task.cancel()
        failure = serving.exception()
        if failure is not None and not ended.is_set():  # else it is one of connections that were broken off
            raise failure
    finally:
        serving.cancel()
        ending.cancel()


def _one_line(record: logging.LogRecord) -> bool:
    """Log a failed step of the SDK in one line; its own code raised the error, so a traceback does not help."""
    if record.exc_info and type(record.exc_info[1]).__name__ == "VMException":
        why = str(record.exc_info[1]).partition("\n")[0]
        record.msg, record.args, record.exc_info = "a run on Restate is attempted again: %s", (why,), None
    return True


def _leave_signals(app: Any) -> None:
    """Prevent the SDK from replacing the loop's SIGTERM handler, after which the process would not end.

    The SDK tries that once, at its first call, and fails if that is on another thread.
    """
    with contextlib.suppress(Exception):  # it has no answer to this question, and says so
        asyncio.run(app({"type": "lifespan"}, None, None))


def _watch_requests(app: Any, at_work: set[asyncio.Task[Any]]) -> Any:
    """Return the application with its request tasks in a set, and without a warning about the lifespan protocol."""

    async def handle(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            task: Any = asyncio.current_task()
            at_work.add(task)
            try:
                await app(scope, receive, send)
            finally:
                at_work.discard(task)
            return
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})

    return handle
