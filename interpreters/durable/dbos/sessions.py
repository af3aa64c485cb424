"""Sessions on DBOS: on SQLite for one machine, on PostgreSQL for many. Needs the extra ``dbos``.

    agent = DurableAgent("helper", load_model, tools=[pay], approve=ask_later)
    sessions = DBOSSessions(agent, "postgresql://ada@db.example/agents")
    sessions.work()                  # in each process that is to work at sessions, until SIGTERM
    run = sessions.send("ada", "Pay the invoice.")
    sessions.result(run).pending     # (AskApproval(effect_id='1.1.1', ...),)
    sessions.answer("ada", "1.1.1", True)

A run is a workflow, each effect a step, a timer a durable sleep and a worker a child workflow. Runs wait in a queue,
and only one run of a session is executed at a time. Model calls on hosts wait for a slot within their step, see
``make_host_adapter``. A session that waits for an answer has no workflow. So an approval needs no ``recv``, which would
occupy a process for as long as a person thinks.

DBOS does not reassign the workflows of a dead process. Here each process sends heartbeats to the store, and a living
process resumes the workflows of dead ones, see ``dbos_left``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial, reduce
from typing import Any, TypeVar
from urllib.parse import quote

from dbos import DBOS, DBOSClient, DBOSConfig, EnqueueOptions
from dbos._error import DBOSAwaitedWorkflowCancelledError, DBOSNonExistentWorkflowError

from cognition import PROTOCOL_VERSION, CancelAsked, CogstepError, ConfigError, Input
from cognition.base.checking import show
from interpreters.agents.session_builder import user_input
from interpreters.durable._errors import DurableError, run_error
from interpreters.durable._leaving import DRAIN, Leaving, first_signal
from interpreters.durable.dbos._connections import (
    CONNECTIONS,
    IDLE_AFTER,
    SystemPool,
    check_room,
    shares_of,
    system_pool,
)
from interpreters.durable.dbos._context import (
    Cancellations,
    JsonSerializer,
    RunFailedError,
    Steps,
    database_urls,
    is_transient,
    postpone,
    run_aside,
    should_log,
    spare_lookups,
    take_no_more,
    unusable_error,
)
from interpreters.durable.dbos._draining import drained_agents
from interpreters.durable.dbos._polling import Polling, current, wake
from interpreters.durable.dbos._runs import (
    CLOSING,
    POLLED_EVERY,
    QUEUE,
    RUN,
    UNDER_WAY,
    WORK,
    OrphanedRuns,
    Unattended,
    Version,
    agent_of,
    clear,
    database_time,
    is_closing,
    list_runs,
    next_priority,
    poll_interval,
    process_name,
    queue_of,
    run_of,
    versions_of,
    wait_for,
)
from interpreters.durable.dbos._waiting import hold, keep_waiting, release, release_forgotten
from interpreters.durable.definition import NAME, DurableAgent, agent_named, answer_input, pending_of
from interpreters.durable.model_hosts.hosts import HostStates, ModelHost
from interpreters.durable.run import run_durably, run_worker
from interpreters.durable.serialization import RunOutcome, input_text
from interpreters.loop.errors import PendingError
from interpreters.loop.program.message_content import Content
from interpreters.loop.program.pending import Postponable
from interpreters.recording.journal import JournalReader, NotAJournalError
from interpreters.recording.recorder import Recorder
from interpreters.recording.sessions import Transcript, read_transcript
from interpreters.recording.store.database import PATIENCE, is_starting
from runtime.checking import checked_call
from runtime.closeable import Closeable

T = TypeVar("T")

STARTING_PAUSE = 0.2
"""Seconds between two tries to reach a database that is starting up."""

LOOKED_AFTER_EVERY = 2.0
"""Seconds between two checks for runs that belong to no living process."""

NOTIFIED_EVERY = 0.2
"""Seconds between two wake-ups of DBOS's thread that sends notifications; cogstep sends none."""

_at_work = threading.Lock()
"""Held while this process is a worker: DBOS is a singleton in a process, and destroying it ends it for all users."""


class DBOSSessions(Closeable):
    """Sessions of agents in one database, for programs that send messages and for processes that work at them.

    Args:
        agents: the definitions; the same in each process that has them. A run waits for a process that has its agent.
        url: ``postgresql://user@host/database`` or ``sqlite:///path``.
        hosts: the model hosts, if models don't run in the processes; the same in each process.
        at_once: the maximum number of runs of each agent that a process executes at a time, at least 1. Use the same
            value in each process: the last process to start sets it for all.
        connections: the maximum number of connections to PostgreSQL that this process opens, at least 5. It covers
            everything here: the store, DBOS and its listener. Callers wait while all are in use.

    Raises:
        StoreError, DurableError: the database can't be used; the message has the remedy.
        ConfigError: two agents or hosts have the same name, or an argument is invalid.
    """

    @checked_call
    def __init__(
        self,
        agents: DurableAgent | Iterable[DurableAgent],
        url: str,
        *,
        hosts: Iterable[ModelHost] = (),
        at_once: int = 100,
        connections: int = CONNECTIONS,
    ) -> None:
        from interpreters.recording.store import SqlStore

        given = (agents,) if isinstance(agents, DurableAgent) else tuple(agents)
        self.agents: dict[str, DurableAgent] = {one.name: one for one in given}
        self.hosts: HostStates = HostStates(hosts)
        if not given:
            raise ConfigError("sessions need at least one agent")
        if len(self.agents) < len(given):
            raise ConfigError("two agents have the same name")
        if at_once < 1:
            raise ConfigError(f"at_once has to be at least 1, not {at_once}: a worker would never begin a run")
        self.connections = connections
        shares = shares_of(connections)
        self._place = database_urls(url)
        self.store: SqlStore = SqlStore(self._place.store, connections=shares.store)
        self.version: str = f"{PROTOCOL_VERSION}-{'+'.join(sorted({agent.version for agent in given}))}"
        """The version of new runs: cogstep's protocol version and the agents' versions, sorted and without duplicates.
        """
        self.at_once = at_once
        self._client: DBOSClient | None = None
        self._pool: SystemPool | None = None
        self._process = os.getpid()
        list(self.store.executors())  # says what is wrong with the database, in one line

    # ------------------------------------------------------------------------------------------------ from the outside

    @checked_call
    def send(self, session: str, content: Content, *, agent: str | None = None, key: str | None = None) -> str:
        """Send a message to a session and return the run's id. The first message starts the session.

        When this returns, the message is stored: a process will handle it. If the turn before waits for answers, the
        message waits until that turn is over.

        Args:
            session: letters, digits, ``_``, ``.`` and ``-``, 64 characters at most.
            content: as for ``Agent.run``.
            agent: the definition's name; may be None if there is only one.
            key: an idempotency key of 1 to 200 characters: sending the same key to a session again sends nothing.

        Raises:
            ConfigError: the session's name or the key is invalid, or the agent is unknown.
            DurableError: the database can't be used; nothing was sent.
        """
        return self._enqueue(session, user_input(content), agent, key)

    @checked_call
    def answer(self, session: str, effect_id: str, answer: Any, *, agent: str | None = None) -> str:
        """Answer a pending effect of a session, as ``Agent.answer`` does, and return the run's id.

        Raises:
            CogstepError: no pending effect has this id, or the answer does not fit it.
        """
        event = answer_input(self._agent(agent), self.recorder(session), effect_id, answer)
        return self._enqueue(session, event, agent, None)

    @checked_call
    def cancel(self, session: str, reason: str = "", *, agent: str | None = None) -> str:
        """Stop the session's turn; return the id of the run that closes it.

        Messages that were sent before and have not started are still handled. A running step is cancelled within a
        second if its process lives.

        Raises:
            NotAJournalError: the session does not exist.
        """
        own = self._agent(agent)
        self._check_started(session)
        client = self._connect()
        with self._translate_errors():
            hold(client, session)  # else the next message begins before this turn is closed
        runs = self._runs(session, ["PENDING"])
        closing = [one for one in runs if is_closing(one)]  # these close it too
        stopped = [one for one in runs if one not in closing and not self._will_wait(one, session, own)]
        for one in stopped:
            with self._translate_errors():
                client.cancel_workflow(one.workflow_id, cancel_children=True)
        if stopped and not closing:
            self.store.fence(session)
        return self._enqueue(session, CancelAsked(reason), own.name, None)

    @checked_call
    def resume_turn(self, session: str, *, agent: str | None = None) -> str:
        """Continue a turn that a failed run has left open, and return the run's id.

        Raises:
            NotAJournalError: the session does not exist.
        """
        self._agent(agent)
        self._check_started(session)
        return self._enqueue(session, None, agent, None)

    @checked_call
    def result(self, run: str, timeout: float | None = None) -> RunOutcome:
        """Wait for the end of a run. Its texts are as recorded, with placeholders for secrets.

        If no process of its version is working, this is logged after some seconds.

        Args:
            run: its id.
            timeout: in seconds; None waits for ever.

        Raises:
            TimeoutError: it has not ended in time, and continues.
            DurableDivergedError: other agent logic started the session.
            DurableError: the run failed, or was cancelled; or the database can't be used.
        """
        client = self._connect()

        def status() -> list[Any]:
            with self._translate_errors():
                return list_runs(client, workflow_ids=[run])

        wait_for(run, status, timeout, self.store)
        with self._translate_errors():
            try:
                text: Any = client.retrieve_workflow(run).get_result(polling_interval_sec=POLLED_EVERY)
            except RunFailedError as failed:
                text = failed.outcome
            except DBOSAwaitedWorkflowCancelledError:
                raise DurableError(
                    f"the run {run} was cancelled; its turn is closed by the run that cancel() gave"
                ) from None
            except DBOSNonExistentWorkflowError:
                raise DurableError(f"there is no run {show(run)} in {self.store.name}") from None
        ended = RunOutcome.read(str(text))
        if ended.error:
            raise run_error(ended.error)
        return ended

    @checked_call
    def versions(self) -> list[Version]:
        """Return the versions that started sessions here, and those of working processes. Reads all runs and sessions.

        Use it before you stop the last process of a version, to see whether sessions still need it.

        Raises:
            StoreError, DurableError: the database can't be used.
        """
        with self._translate_errors():
            return list(versions_of(self._connect(), self.store, self.version))

    @checked_call
    def clear(self, older: float | None = None) -> int:
        """Delete DBOS's data of sessions that are no longer recorded, such as their messages; return the number of
        runs.

        ``prune`` deletes recordings only, not the engine's data.

        Args:
            older: also delete runs of living sessions that ended more than this number of seconds ago, except the
                newest run of each. Their ``result`` is then gone, and their ``key`` can be sent again. None keeps all
                of these.

        Raises:
            StoreError, DurableError: the database can't be used.
        """
        with self._translate_errors():
            return clear(self._connect(), self.store, older)

    @checked_call
    def pending(self, session: str, *, agent: str | None = None) -> tuple[Postponable, ...]:
        """Return the session's pending effects, oldest first; raises as reading its recording does."""
        return pending_of(self._agent(agent), self.recorder(session))

    @checked_call
    def transcript(self, session: str, *, agent: str | None = None) -> Transcript:
        """Return the recorded messages and calls of a session so far, turn by turn."""
        return read_transcript(self.recorder(session), self._agent(agent).given.get("engine"))

    @checked_call
    def recorder(self, session: str) -> Recorder:
        """Return the recording of a session, for readers such as ``replay``."""
        return self.store.recorder(session)

    def close(self) -> None:
        """Close the connection to the database."""
        if self._client is not None:
            self._client.destroy()
            self._client = self._pool = None

    def _will_wait(self, run: Any, session: str, agent: DurableAgent) -> bool:
        """Whether a run has only come to see that its message has to wait: it is no part of the turn."""
        with self._translate_errors():
            if self._connect().list_workflow_steps(run.workflow_id):
                return False
        try:
            return bool(pending_of(agent, self.recorder(session)))
        except NotAJournalError:  # it is the first run
            return False

    # -------------------------------------------------------------------------------------------------- the enqueueing

    def _enqueue(self, session: str, event: Input | None, agent: str | None, key: str | None) -> str:
        own = self._agent(agent)
        if not NAME.fullmatch(session):
            raise ConfigError(f"a session's name is letters, digits, '_', '.' and '-', 64 at most: not {show(session)}")
        if key is not None and not 1 <= len(key) <= 200:
            raise ConfigError(f"key has to be a text of 1 to 200 characters, not {show(key)}")
        hidden = None if event is None else own.redactor().hide(event)[0]
        closing = CLOSING if isinstance(event, CancelAsked) else ""
        # Quoted, a key has only characters that are safe in every database, and never those of a worker's run id.
        name = uuid.uuid4().hex if key is None else quote(key, safe="", errors="surrogatepass")
        run = f"{session}:{closing}{name}"
        client = self._connect()
        before = self._runs(session, UNDER_WAY)
        place: EnqueueOptions = {
            "workflow_name": RUN,
            # Of a session that runs by another agent, behind that: one run of a session at a time.
            "queue_name": queue_of(next(filter(None, map(agent_of, before)), own.name)),
            "workflow_id": run,
            "app_version": before[0].app_version if before else self._version_of(session),
            "queue_partition_key": session,
            "priority": next_priority(before, bool(closing)),
        }
        self._patiently(lambda: client.enqueue(place, own.name, session, input_text(hidden)))  # once, by its id
        wake()
        return run

    def _version_of(self, session: str) -> str:
        """Return the version of the session's first run: the logic that started a session also continues it."""
        found = self._runs(session, limit=1)
        return (found[0].app_version or self.version) if found else self.version

    def _check_started(self, session: str) -> None:
        """Raise for an unknown session: a misspelt name must not look like an idle session."""
        if not self._runs(session, limit=1):
            with JournalReader(self.recorder(session)):  # raises where nothing is recorded either
                pass

    def _runs(self, session: str, status: list[str] | None = None, limit: int | None = None) -> list[Any]:
        client = self._connect()
        return self._patiently(lambda: list_runs(client, workflow_id_prefix=f"{session}:", status=status, limit=limit))

    def _agent(self, name: str | None) -> DurableAgent:
        return agent_named(self.agents, name)

    def _hide(self, text: str) -> str:
        return reduce(lambda said, agent: agent.hide(said), self.agents.values(), text)

    def _connect(self) -> DBOSClient:
        if self._process != os.getpid():  # a forked child leaves its parent's connections alone
            self._client, self._process = None, os.getpid()
        if self._client is None:
            self._client = self._patiently(self._new_client)
        return self._client

    def _new_client(self) -> DBOSClient:
        pool = self._pool = system_pool(self._place.engine, shares_of(self.connections).engine)
        if pool is None or not pool.is_migrated:
            self._place.make_ready()
            DBOS.migrate(self._place.engine)
            self._place.make_ready()
        if pool is not None:
            pool.is_migrated = True
        return DBOSClient(
            system_database_url=self._place.engine,
            system_database_engine=None if pool is None else pool.engine,
            serializer=JsonSerializer(self._hide),
            application_name=QUEUE,
            retry_connection_errors=False,
        )

    def _patiently(self, ask: Callable[[], T]) -> T:
        """Ask again for as long as a restart takes, while the database is starting up or shutting down."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                with self._translate_errors():
                    return ask()
            except CogstepError as error:
                if not is_starting(error) or time.monotonic() > until:
                    raise
            time.sleep(STARTING_PAUSE)

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except CogstepError:
            raise
        except Exception as error:
            raise unusable_error(self.store.database, error) from error

    # -------------------------------------------------------------------------------------------------- from the inside

    def work(self, *, drain: float = DRAIN) -> None:
        """Work at sessions in this process until SIGTERM or Ctrl-C, in its main thread; as ``worker``.

        Raises:
            ConfigError: this is not the main thread. All errors of ``worker``.
        """
        with first_signal(signal.SIGTERM, signal.SIGINT) as wait, self.worker(drain=drain):
            wait()

    @contextlib.contextmanager
    def worker(self, *, drain: float = DRAIN) -> Iterator[None]:
        """Work at sessions in this process until the block is left; other processes continue unfinished runs.

        Only one block at a time in a process, in any of its threads or event loops; not in a forked child of such a
        process.

        Args:
            drain: the seconds that leaving waits for running tools and model calls. No further ones start, and
                those that take longer are cancelled.

        Raises:
            StoreError, DurableError: the database can't be used (the message has the remedy), or the process is already
                a worker.
        """
        if not _at_work.acquire(blocking=False):
            raise DurableError(
                "this process, or the one that it was forked from, works at sessions already: leave the block of the "
                "first worker(), give one DBOSSessions all agents, or start another process"
            )
        with contextlib.ExitStack() as held:
            held.callback(_at_work.release)
            with self._translate_errors():
                check_room(self.store.database, self.connections)
            own = self.store.join(process_name(self.version, self.agents))
            self._connect()
            left = OrphanedRuns(self.store, own)
            config: DBOSConfig = {
                "name": QUEUE,
                "system_database_url": self._place.engine,
                "application_version": self.version,
                "executor_id": own,
                "serializer": JsonSerializer(self._hide),
                "log_level": "ERROR",
                "sys_db_idle_transaction_timeout_sec": IDLE_AFTER,
                "system_database_engine": None if self._pool is None else self._pool.engine,
                "notification_coalesce_sec": NOTIFIED_EVERY,
            }
            leaving, stop = Leaving(), threading.Event()
            polling = Polling(map(queue_of, self.agents), self.version, self.store.database, leaving.is_busy)
            held.enter_context(current(polling))
            watch = threading.Thread(target=self._look_after, args=(left, stop, polling), name="cogstep-takeover")
            try:
                self.hosts.load()
                with self._translate_errors():
                    engine = run_aside(lambda: self._launch(config, left, leaving, polling))
                watch.start()
                yield
            finally:
                stop.set()
                polling.stop()
                if watch.ident is not None:
                    watch.join()
                    take_no_more(engine)
                    leaving.wait(drain)
                run_aside(lambda: DBOS.destroy(destroy_registry=True))
                with contextlib.suppress(CogstepError), self._translate_errors():
                    left.hand_over(self._connect())  # else others go on once this process has ended
                with contextlib.suppress(CogstepError):
                    self.store.join("")  # it works no more, though it may live on
                self.hosts.close()

    def _launch(self, config: DBOSConfig, left: OrphanedRuns, leaving: Leaving, polling: Polling) -> DBOS:
        engine = DBOS(config=config)
        logging.getLogger("dbos").addFilter(should_log)
        self._register(left, leaving)
        queues = [queue_of(name) for name in self.agents]
        DBOS.listen_queues(queues)
        DBOS.launch()
        spare_lookups(engine)
        polling.install(engine)
        seconds = poll_interval(len(queues))
        drained = drained_agents(self._connect())
        for name, one in zip(self.agents, queues, strict=True):
            limit = -self.at_once if name in drained else self.at_once
            DBOS.register_queue(one, partition_concurrency=1, worker_concurrency=limit, polling_interval_sec=seconds)
        polling.forget_settings()
        return engine

    def _register(self, left: OrphanedRuns, leaving: Leaving) -> None:
        from interpreters.durable.model_hosts.hosted_model import make_host_adapter

        on = make_host_adapter(self.hosts, self.store)

        def take(session: str) -> Recorder:
            return self.store.recorder(session, take_over=True)

        cancellations = Cancellations()

        async def run(name: str, session: str, event: str) -> str:
            return await _carried(partial(run_durably, queued=True), name, session, event)

        async def work(name: str, session: str, task: str) -> str:
            return await _carried(run_worker, name, session, task)

        async def _carried(execute: Any, name: str, session: str, text: str) -> str:
            own = str(DBOS.workflow_id)
            with left.executing(own), leaving.activity() as activity:
                await left.check_place(self._connect, own, name, self.agents)
                agent = on(self._agent(name), session)
                context = Steps(work, (name,), cancellations, activity, lambda: database_time(self.store))
                try:
                    ended: str = await _to_end(execute(agent, session, text, context, take), agent, own, name)
                    outcome = RunOutcome.read(ended)
                    if run_of(own) == own and not outcome.pending:
                        await asyncio.to_thread(lambda: release(self._connect(), session))
                    if outcome.failure:
                        raise RunFailedError(outcome.failure, ended)
                    return ended
                except Exception as error:
                    if not is_transient(error):
                        raise
                    left.give_up(own)  # it goes on once the database is back, or ends where another execution has it
                    raise postpone(error) from None

        async def _to_end(execution: Awaitable[str], agent: DurableAgent, own: str, name: str) -> str:
            try:
                return await execution
            except PendingError:
                await asyncio.to_thread(lambda: keep_waiting(self._connect(), own, name, left.own))
                raise asyncio.CancelledError from None  # of an error, DBOS would look for the outcome once a second
            except CogstepError as error:
                if is_transient(error):
                    raise
                return RunOutcome(0.0, error=agent.hide(f"{type(error).__name__}: {error}")).text()

        work = DBOS.workflow(name=WORK, max_recovery_attempts=None)(work)
        DBOS.workflow(name=RUN, max_recovery_attempts=None)(run)

    def _look_after(self, left: OrphanedRuns, stop: threading.Event, polling: Polling) -> None:
        unattended, drained = Unattended(), frozenset[str]()
        while not stop.wait(LOOKED_AFTER_EVERY):
            with contextlib.suppress(CogstepError), self._translate_errors():
                if drained != (drained := drained_agents(self._connect())):
                    polling.forget_settings()
                left.resume(self._connect())
                if unattended.look(self._connect(), self.store):
                    release_forgotten(self._connect())
                    self.store.database.close_surplus()
                    if self._pool is not None:
                        self._pool.close_surplus()
