"""Sessions on Restate. Needs the extra ``restate``, and a Restate server.

    sessions = RestateSessions(agent, "postgresql://ada@db.example/agents")
    sessions.serve("http://10.0.0.7:9080")               # in each process that is to work at sessions
    run = sessions.send("ada", "Pay the invoice.")       # in any process
    sessions.result(run).pending                         # (AskApproval(effect_id='1.1.1', ...),)
    sessions.answer("ada", "1.1.1", True)

A session is a virtual object under its name, a run an invocation of it, each effect a step of that, a timer a durable
sleep and a worker a call of another object. The server keeps what is sent and what steps gave, has one run of a session
executed at a time, and each until it has ended. A session that waits for an answer has no invocation.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import threading
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from typing import Any
from urllib.parse import SplitResult, urlsplit
from uuid import uuid4

from cognition import CancelAsked, CogstepError, ConfigError, Input
from cognition.checking import shown
from interpreters.agents.assembly import user_input
from interpreters.durable.definition import DurableAgent, agent_named
from interpreters.durable.errors import DurableError, failed
from interpreters.durable.hosts import ModelHost, Places
from interpreters.durable.pending import answering, pending_of
from interpreters.durable.restate_client import RestateServer
from interpreters.durable.texts import Ended, input_text
from interpreters.program.content import Content
from interpreters.program.later import Postponable
from interpreters.recording.journal import JournalReader
from interpreters.recording.recorder import Recorder
from interpreters.recording.store import SqlStore

INGRESS = "http://127.0.0.1:8080"
ADMIN = "http://127.0.0.1:9070"
"""Where a Restate server listens, if it is not told otherwise."""

ADDRESS = "http://127.0.0.1:9080"
"""Where a process serves, if it is not told otherwise."""

CLOSING = "!"
"""Begins the idempotency key of a run that closes a turn, which another cancellation lets end."""

WAITING = ("inboxed", "scheduled")
"""The statuses of invocations that have not begun."""

TOLD_AFTER = 5.0
"""Seconds of waiting for a run, after which the log says what keeps it from going on."""

LOG = logging.getLogger("cogstep")

CANCELLED = 409
"""The status of a run that was cancelled."""


class RestateSessions:
    """Sessions of one or more agents: for programs that send messages, and those that work at them.

    Args:
        agents: the definitions, the same in each process of a version.
        url: of the store in which sessions are recorded: ``postgresql://user@host/database`` or ``sqlite:///path``.
        ingress: the server's address for what is sent.
        admin: its address for what is registered and cancelled.
        hosts: where models run, if not in the processes; the same in each process.

    Raises:
        StoreError: the URL names no database.
        ConfigError: an address is none, or two agents or hosts have the same name.
    """

    def __init__(
        self,
        agents: DurableAgent | Iterable[DurableAgent],
        url: str,
        *,
        ingress: str = INGRESS,
        admin: str = ADMIN,
        hosts: Iterable[ModelHost] = (),
    ) -> None:
        given = (agents,) if isinstance(agents, DurableAgent) else tuple(agents)
        self.agents = {agent.name: agent for agent in given}
        if not given or len(self.agents) < len(given):
            raise ConfigError("sessions need at least one agent, and each has a name of its own")
        self.hosts = Places(hosts)
        self.store = SqlStore(url)
        self._server = RestateServer.at(ingress, admin)

    # ------------------------------------------------------------------------------------------------ from the outside

    def send(self, session: str, content: Content, *, agent: str | None = None, key: str | None = None) -> str:
        """Say something to a session, which begins with its first message; gives the run's id.

        When this returns, the server has the message on its disk: some process will work at it.

        Args:
            session: its name in the store.
            content: as for ``Agent.run``.
            agent: the definition's name; None where there is one.
            key: whoever sends the same key again within a day, sends nothing twice.

        Raises:
            ConfigError: the session's name is none, or the agent is unknown.
            DurableError: there is no server, or no process serves this agent; nothing was sent.
        """
        return self.put(session, user_input(content), agent=agent, key=key)

    def answer(self, session: str, effect_id: str, answer: Any, *, agent: str | None = None) -> str:
        """Hand in what a session waits for, as ``Agent.answer`` does; gives the run's id.

        Raises:
            CogstepError: nothing of this id is pending, or it is no answer to that.
        """
        event = answering(self._agent(agent), self.recorder(session), effect_id, answer)
        return self.put(session, event, agent=agent)

    def cancel(self, session: str, reason: str = "", *, agent: str | None = None) -> str:
        """Stop what a session does or waits for; gives the id of the run that closes its turn.

        What was sent before and has not begun, still comes. Once that run has ended, nothing of the turn begins.

        Raises:
            NotAJournalError: nothing was ever sent to the session.
        """
        own = self._agent(agent)
        for run in self._begun(own, session):
            closes = str(run.get("idempotency_key") or "").startswith(CLOSING)
            if run["status"] not in WAITING and not closes:
                self._server.cancel(run["id"])
        return self._put(own, session, CancelAsked(reason), f"{CLOSING}{uuid4().hex}")

    def go_on(self, session: str, *, agent: str | None = None) -> str:
        """Carry on a turn that a failed run has left open; gives the run's id.

        Raises:
            NotAJournalError: nothing was ever sent to the session.
        """
        own = self._agent(agent)
        self._begun(own, session)
        return self._put(own, session, None, "")

    def put(self, session: str, event: Input | None, *, agent: str | None = None, key: str | None = None) -> str:
        """Give a session an input as it is; None goes on with what was interrupted. Raises what ``send`` does."""
        # It goes into a header, which has neither every character nor every length.
        scoped = "" if key is None else sha256(f"{session}\0{key}".encode(errors="surrogatepass")).hexdigest()
        return self._put(self._agent(agent), session, event, scoped)

    def result(self, run: str, timeout: float | None = None) -> Ended:
        """Wait for the end of a run. Its texts are as they are recorded, with placeholders for secrets.

        Where the server can't have it done, such as by a version that nobody runs, the log says so after some seconds.

        Args:
            run: its id.
            timeout: in seconds; None: as long as it takes.

        Raises:
            TimeoutError: it has not ended within this time, and goes on.
            DurableDivergedError: other agent logic began the session.
            DurableError: the run failed, or was cancelled; or there is no server, or it knows no such run.
        """
        reply = self._server.output(run, TOLD_AFTER if timeout is None else timeout)
        if reply is None:
            why = self._server.why_it_waits(run)
            if timeout is not None:
                raise TimeoutError(f"the run {run} has not ended within {timeout:g} seconds{why and f': {why}'}")
            if why:
                LOG.warning("the run %s waits: %s", run, why)
            reply = self._server.output(run, None)
        if reply is None:
            raise DurableError("the server gave up waiting for the run; ask for its result again")
        if reply.status == CANCELLED:
            raise DurableError("the run was cancelled")
        if reply.status >= 300:
            raise DurableError(reply.problem())
        ended = Ended.read(reply.body.decode())
        if ended.error:
            raise failed(ended.error)
        return ended

    def pending(self, session: str, *, agent: str | None = None) -> tuple[Postponable, ...]:
        """What a session waits for, oldest first.

        Raises:
            JournalError: the recording can't be read.
        """
        return pending_of(self._agent(agent), self.recorder(session))

    def recorder(self, session: str) -> Recorder:
        """The recording of a session, for whoever reads it: ``replay``, ``transcript``, ``export_session``."""
        return self.store.recorder(session)

    def _put(self, agent: DurableAgent, session: str, event: Input | None, idempotency: str) -> str:
        self.recorder(session)  # says what is wrong with its name
        hidden = None if event is None else agent.veil().hide(event)[0]
        return self._server.send(_entrance(agent), session, input_text(hidden), idempotency)

    def _begun(self, agent: DurableAgent, session: str) -> list[dict[str, Any]]:
        """The runs of a session that have not ended; a misspelt name is no session that has nothing to do."""
        recorder = self.recorder(session)
        runs = self._server.invocations(_entrance(agent), session)
        if not runs:
            with JournalReader(recorder):  # raises where nothing is recorded either
                pass
        return runs

    def _agent(self, name: str | None) -> DurableAgent:
        return agent_named(self.agents, name)

    # -------------------------------------------------------------------------------------------------- from the inside

    def serve(self, address: str = ADDRESS, *, bind: str = "", keys: Sequence[str] = ()) -> None:
        """Work at sessions in this process until SIGTERM or Ctrl-C; what it leaves others go on with.

        Several processes of a machine may serve at one address, and so may machines behind a balancer: the server goes
        to another one where one dies. Processes of another version of an agent need another address.

        Args:
            address: where the server reaches this process.
            bind: where it listens, if not there.
            keys: of the servers whose requests are taken (``publickeyv1_...``). Without any, those of everybody who
                reaches the process.

        Raises:
            DurableError: there is no server, it does not reach this address, or knows it as that of another version.
            ConfigError: it is no address that this process can have, or a key is none.
        """

        async def until_a_signal() -> None:
            ended, loop = asyncio.Event(), asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, ended.set)
            await self.serve_async(address, bind=bind, keys=keys, ended=ended)

        asyncio.run(until_a_signal())

    def _move(self, address: str, names: Sequence[str]) -> None:
        with contextlib.suppress(CogstepError, OSError):
            self._server.move_here(address, names)

    @contextlib.contextmanager
    def worker(self, address: str = ADDRESS, *, bind: str = "", keys: Sequence[str] = ()) -> Iterator[None]:
        """``serve`` beside what this process does, until the block is left."""
        ready, ended, loop = threading.Event(), asyncio.Event(), asyncio.new_event_loop()
        failed: list[BaseException] = []

        def work() -> None:
            try:
                with asyncio.Runner(loop_factory=lambda: loop) as runner:
                    runner.run(self.serve_async(address, bind=bind, keys=keys, ended=ended, ready=ready))
            except BaseException as error:
                failed.append(error)
            finally:
                ready.set()

        thread = threading.Thread(target=work, name="cogstep-restate")
        thread.start()
        try:
            ready.wait()
            if not failed:
                yield
        finally:
            with contextlib.suppress(RuntimeError):  # it has ended by itself
                loop.call_soon_threadsafe(ended.set)
            thread.join()
        if failed:
            raise failed[0]

    async def serve_async(
        self,
        address: str = ADDRESS,
        *,
        bind: str = "",
        keys: Sequence[str] = (),
        ended: asyncio.Event,
        ready: threading.Event | None = None,
    ) -> None:
        """``serve`` in an event loop until ``ended`` is set; ``ready`` is set once the server knows the process."""
        try:
            from interpreters.durable.hosted import hosted
            from interpreters.durable.restate_serving import app_of, entrance, listening, serve_on, versioned
        except ImportError as error:  # pragma: no cover - the extra is installed wherever this is tested
            raise ConfigError(
                "whoever works at sessions on Restate needs the extra: pip install 'cogstep[restate]'"
            ) from error

        parts = urlsplit(bind or address)
        if parts.scheme != "http" or not parts.hostname or not _port(parts):
            raise ConfigError(f"a process listens at an address such as {ADDRESS}, not {shown(bind or address)}")
        agents = tuple(self.agents.values())
        app = app_of(agents, partial(self.store.recorder, take_over=True), keys, hosted(self.hosts, self.store))
        await asyncio.to_thread(self.hosts.load)
        try:
            listener = listening(parts.hostname, _port(parts))
        except OSError as error:
            raise ConfigError(f"this process can't listen at {bind or address}: {error}") from error
        serving = asyncio.create_task(serve_on(listener, app, ended))
        names = [entrance(one.name) for one in agents] + [versioned(one.name, one.version) for one in agents]
        try:
            await asyncio.to_thread(self._server.register, address, names)
            # Nobody waits for it: an address at which nothing answers may take the server a while.
            threading.Thread(target=self._move, args=(address, names), name="cogstep-move", daemon=True).start()
            if ready is not None:
                ready.set()
        except BaseException:
            ended.set()
            raise
        finally:
            await serving
            self.hosts.close()


def _port(parts: SplitResult) -> int:
    """The port of an address; 0: it has none that there is."""
    try:
        return parts.port or 0
    except ValueError:
        return 0


def _entrance(agent: DurableAgent) -> str:
    """The object that says which version runs a session of an agent."""
    return f"cogstep.{agent.name}"
