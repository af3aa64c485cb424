"""Sessions on Restate. Needs the extra ``restate``, and a Restate server.

    sessions = RestateSessions(agent, "postgresql://ada@db.example/agents")
    sessions.serve("http://10.0.0.7:9080")               # in each process that is to work at sessions
    run = sessions.send("ada", "Pay the invoice.")       # in any process
    sessions.result(run).pending                         # (AskApproval(effect_id='1.1.1', ...),)
    sessions.answer("ada", "1.1.1", True)

A session is a virtual object with its name as key. A run is an invocation of it, and each effect is a step of the
invocation. A timer is a durable sleep, and a worker is a call of another object. The server stores messages and step
results. It executes one run of a session at a time, and repeats each until it has ended. A session that waits for an
answer has no invocation, except the next message if there is one: it sleeps until the turn is over.
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

from cognition import CancelAsked, CogstepError, ConfigError, Input, UserSpoke
from cognition.base.checking import show
from interpreters.agents.session_builder import user_input
from interpreters.durable._errors import DurableError, run_error
from interpreters.durable._leaving import DRAIN, Leaving
from interpreters.durable.definition import DurableAgent, agent_named, answer_input, pending_of
from interpreters.durable.model_hosts.hosts import HostStates, ModelHost
from interpreters.durable.restate._client import ANSWER, HEAR, RestateServer, entrance_name, versioned_name
from interpreters.durable.serialization import RunOutcome, input_text
from interpreters.loop.program.message_content import Content
from interpreters.loop.program.pending import Postponable
from interpreters.recording.journal import JournalReader
from interpreters.recording.recorder import Recorder
from interpreters.recording.store import SqlStore
from runtime.models.installation import install_line

INGRESS = "http://127.0.0.1:8080"
ADMIN = "http://127.0.0.1:9070"
"""Default admin address of a Restate server."""

ADDRESS = "http://127.0.0.1:9080"
"""Default address of a serving process."""

CLOSING = "!"
"""Prefix of the idempotency key of a run that closes a turn; another cancellation does not stop it."""

TOLD_AFTER = 5.0
"""Seconds of waiting for a run after which the reason is logged."""

LOG = logging.getLogger("cogstep")

CANCELLED = 409


class RestateSessions:
    """Sessions of agents, for programs that send messages and for processes that work at them.

    Args:
        agents: the definitions, the same in each process of a version.
        url: the store for the recordings: ``postgresql://user@host/database`` or ``sqlite:///path``.
        ingress: the server's address for messages.
        admin: its address for registration and cancellation.
        hosts: the model hosts, if models don't run in the processes; the same in each process.

    Raises:
        StoreError: the URL names no database.
        ConfigError: an address is invalid, or two agents or hosts have the same name.
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
        self.agents: dict[str, DurableAgent] = {agent.name: agent for agent in given}
        if not given or len(self.agents) < len(given):
            raise ConfigError("sessions need at least one agent, and each has a name of its own")
        self.hosts: HostStates = HostStates(hosts)
        self.store: SqlStore = SqlStore(url)
        self._server = RestateServer.at(ingress, admin)

    # ------------------------------------------------------------------------------------------------ from the outside

    def send(self, session: str, content: Content, *, agent: str | None = None, key: str | None = None) -> str:
        """Send a message to a session and return the run's id. The first message starts the session.

        When this returns, the server has the message on its disk: a process will handle it. If the turn before waits
        for answers, the message waits until that turn is over.

        Args:
            session: its name in the store.
            content: as for ``Agent.run``.
            agent: the definition's name; may be None if there is only one.
            key: an idempotency key: sending the same key again within a day sends nothing.

        Raises:
            ConfigError: the session's name is invalid, or the agent is unknown.
            DurableError: there is no server, or no process serves this agent; nothing was sent.
        """
        return self.put(session, user_input(content), agent=agent, key=key)

    def answer(self, session: str, effect_id: str, answer: Any, *, agent: str | None = None) -> str:
        """Answer a pending effect of a session, as ``Agent.answer`` does, and return the run's id.

        Raises:
            CogstepError: no pending effect has this id, or the answer does not fit it.
        """
        event = answer_input(self._agent(agent), self.recorder(session), effect_id, answer)
        return self.put(session, event, agent=agent)

    def cancel(self, session: str, reason: str = "", *, agent: str | None = None) -> str:
        """Stop the session's turn; return the id of the run that closes it.

        Messages that were sent before and have not started are still handled. Once that run has ended, no effect of the
        turn starts.

        Raises:
            NotAJournalError: the session does not exist.
        """
        own = self._agent(agent)
        runs = self._find_unfinished(own, session)
        closing = self._put(own, session, CancelAsked(reason), f"{CLOSING}{uuid4().hex}")  # before the next message
        for run in runs:
            closes = str(run.get("idempotency_key") or "").startswith(CLOSING)
            if run["at_work"] and not closes:
                self._server.cancel(run["id"])
        return closing

    def resume_turn(self, session: str, *, agent: str | None = None) -> str:
        """Continue a turn that a failed run has left open, and return the run's id.

        Raises:
            NotAJournalError: the session does not exist.
        """
        own = self._agent(agent)
        self._find_unfinished(own, session)
        return self._put(own, session, None, "")

    def put(self, session: str, event: Input | None, *, agent: str | None = None, key: str | None = None) -> str:
        """Send a raw input to a session; None continues an interrupted turn. Raises as ``send``."""
        # It goes into a header, which has neither every character nor every length.
        scoped = "" if key is None else sha256(f"{session}\0{key}".encode(errors="surrogatepass")).hexdigest()
        return self._put(self._agent(agent), session, event, scoped)

    def result(self, run: str, timeout: float | None = None) -> RunOutcome:
        """Wait for the end of a run. Its texts are as recorded, with placeholders for secrets.

        If the server can't execute it, such as when no process has its version, the reason is logged after some
        seconds.

        Args:
            run: its id.
            timeout: in seconds; None waits for ever.

        Raises:
            TimeoutError: it has not ended in time, and continues.
            DurableDivergedError: other agent logic started the session.
            DurableError: the run failed, or was cancelled; or there is no server, or it does not know the run.
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
        if reply.status >= 300 and reply.outcome is None:
            raise DurableError(reply.problem())
        ended = RunOutcome.read(reply.outcome or reply.body.decode())
        if ended.error:
            raise run_error(ended.error)
        return ended

    def pending(self, session: str, *, agent: str | None = None) -> tuple[Postponable, ...]:
        """Return the session's pending effects, oldest first.

        Raises:
            JournalError: the recording can't be read.
        """
        return pending_of(self._agent(agent), self.recorder(session))

    def recorder(self, session: str) -> Recorder:
        """Return the recording of a session, for readers: ``replay``, ``transcript``, ``export_session``."""
        return self.store.recorder(session)

    def _put(self, agent: DurableAgent, session: str, event: Input | None, idempotency: str) -> str:
        self.recorder(session)  # says what is wrong with its name
        hidden = None if event is None else agent.redactor().hide(event)[0]
        handler = HEAR if isinstance(event, UserSpoke) else ANSWER
        return self._server.send(entrance_name(agent.name), session, input_text(hidden), idempotency, handler)

    def _find_unfinished(self, agent: DurableAgent, session: str) -> list[dict[str, Any]]:
        """Return the session's unfinished runs. Raise for an unknown session: a misspelt name must not look like an
        idle session.
        """
        recorder = self.recorder(session)
        runs = self._server.invocations(agent.name, session)
        if not runs:
            with JournalReader(recorder):  # raises where nothing is recorded either
                pass
        return runs

    def _agent(self, name: str | None) -> DurableAgent:
        return agent_named(self.agents, name)

    # -------------------------------------------------------------------------------------------------- from the inside

    def serve(self, address: str = ADDRESS, *, bind: str = "", keys: Sequence[str] = (), drain: float = DRAIN) -> None:
        """Work at sessions in this process until SIGTERM or Ctrl-C; other processes continue unfinished runs.

        Several processes of a machine may serve at the same address, and so may machines behind a balancer: if a
        process dies, the server connects to another. Processes with another version of an agent need another address.

        Args:
            address: the address at which the server reaches this process.
            bind: the address to listen on, if different.
            keys: public keys of the servers whose requests are accepted (``publickeyv1_...``). Without keys, requests
                of any client that reaches the process are accepted.
            drain: the seconds that the end waits for running tools and model calls. No further ones start, and
                those that take longer are cancelled.

        Raises:
            DurableError: there is no server, it does not reach this address, or knows it as that of another version.
            ConfigError: the process can't listen on this address, or a key is invalid.
        """

        async def until_a_signal() -> None:
            ended, loop = asyncio.Event(), asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, ended.set)
            await self.serve_async(address, bind=bind, keys=keys, ended=ended, drain=drain)

        asyncio.run(until_a_signal())

    def _move(self, address: str, names: Sequence[str]) -> None:
        with contextlib.suppress(CogstepError, OSError):
            self._server.move_here(address, names)

    @contextlib.contextmanager
    def worker(
        self, address: str = ADDRESS, *, bind: str = "", keys: Sequence[str] = (), drain: float = DRAIN
    ) -> Iterator[None]:
        """Run ``serve`` on a separate thread until the block is left."""
        ready, ended, loop = threading.Event(), asyncio.Event(), asyncio.new_event_loop()
        failed: list[BaseException] = []

        def work() -> None:
            try:
                with asyncio.Runner(loop_factory=lambda: loop) as runner:
                    serving = self.serve_async(address, bind=bind, keys=keys, ended=ended, ready=ready, drain=drain)
                    runner.run(serving)
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
        drain: float = DRAIN,
    ) -> None:
        """``serve`` in an event loop until ``ended`` is set; ``ready`` is set once the server knows the process."""
        try:
            from interpreters.durable.model_hosts.hosted_model import make_host_adapter
            from interpreters.durable.restate._serving import app_of, listen, serve_on
        except ImportError as error:  # pragma: no cover - the extra is installed wherever this is tested
            raise ConfigError(
                f"a process that works at sessions on Restate needs the extra: {install_line('restate')}"
            ) from error

        parts = urlsplit(bind or address)
        if parts.scheme != "http" or not parts.hostname or not _port(parts):
            raise ConfigError(f"a process listens at an address such as {ADDRESS}, not {show(bind or address)}")
        agents = tuple(self.agents.values())
        take, on = partial(self.store.recorder, take_over=True), make_host_adapter(self.hosts, self.store)
        leaving = Leaving()
        app = app_of(agents, take, keys, on, leaving)
        await asyncio.to_thread(self.hosts.load)
        try:
            listener = listen(parts.hostname, _port(parts))
        except OSError as error:
            raise ConfigError(f"this process can't listen at {bind or address}: {error}") from error
        serving = asyncio.create_task(serve_on(listener, app, ended, leaving, drain))
        names = [entrance_name(one.name) for one in agents] + [versioned_name(one.name, one.version) for one in agents]
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
    try:
        return parts.port or 0
    except ValueError:
        return 0
