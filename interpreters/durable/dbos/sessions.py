"""Sessions on DBOS: on SQLite for one machine, on PostgreSQL for many. Needs the extra ``dbos``.

    agent = DurableAgent("helper", load_model, tools=[pay], approve=ask_later)
    sessions = DBOSSessions(agent, "postgresql://ada@db.example/agents")
    with sessions.worker():          # in each process that is to work at sessions
        ...
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

import contextlib
import logging
import os
import threading
import uuid
from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any
from urllib.parse import quote

from dbos import DBOS, DBOSClient, DBOSConfig, EnqueueOptions
from dbos._error import DBOSAwaitedWorkflowCancelledError, DBOSNonExistentWorkflowError

from cognition import PROTOCOL_VERSION, CancelAsked, CogstepError, ConfigError, Input
from cognition.base.checking import show
from interpreters.agents.session_builder import user_input
from interpreters.durable._errors import DurableError, run_error
from interpreters.durable.dbos._context import (
    Cancellations,
    JsonSerializer,
    Steps,
    database_urls,
    is_transient,
    postpone,
    run_aside,
    should_log,
    spare_lookups,
    unusable_error,
)
from interpreters.durable.dbos._runs import (
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
    list_runs,
    poll_interval,
    process_name,
    queue_of,
    versions_of,
    wait_for,
)
from interpreters.durable.definition import NAME, DurableAgent, agent_named, answer_input, pending_of
from interpreters.durable.model_hosts.hosts import HostStates, ModelHost
from interpreters.durable.run import run_durably, run_worker
from interpreters.durable.serialization import RunOutcome, input_text
from interpreters.loop.program.message_content import Content
from interpreters.loop.program.pending import Postponable
from interpreters.recording.journal import JournalReader
from interpreters.recording.recorder import Recorder
from interpreters.recording.sessions import Transcript, read_transcript
from runtime.checking import checked_call
from runtime.closeable import Closeable

LOOKED_AFTER_EVERY = 2.0
"""Seconds between two checks for runs that belong to no living process."""

IDLE_AFTER = 10.0
"""Seconds after which PostgreSQL ends an idle transaction: a process stopped in the middle of a transaction holds rows
of the queue and would block all other processes.
"""

CLOSING = "!"
"""Follows the session's name in the id of a run that closes a turn; a quoted key never contains it."""

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
        self._place = database_urls(url)
        self.store: SqlStore = SqlStore(self._place.store)
        self.version: str = f"{PROTOCOL_VERSION}-{'+'.join(sorted({agent.version for agent in given}))}"
        """The version of new runs: cogstep's protocol version and the agents' versions, sorted and without duplicates.
        """
        self.at_once = at_once
        self._client: DBOSClient | None = None
        self._process = os.getpid()
        list(self.store.executors())  # says what is wrong with the database, in one line

    # ------------------------------------------------------------------------------------------------ from the outside

    @checked_call
    def send(self, session: str, content: Content, *, agent: str | None = None, key: str | None = None) -> str:
        """Send a message to a session and return the run's id. The first message starts the session.

        When this returns, the message is stored: a process will handle it.

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
        """Stop the session's turn and drop the messages queued after it. Return the id of the run that closes the turn.

        A running step is cancelled within a second if its process lives.

        Raises:
            NotAJournalError: the session does not exist.
        """
        own = self._agent(agent)
        self._check_started(session)
        client = self._connect()
        runs = self._runs(session, UNDER_WAY)
        closing = [one for one in runs if one.workflow_id.startswith(f"{session}:{CLOSING}")]  # these close it too
        for one in runs:
            if one not in closing:
                with self._translate_errors():
                    client.cancel_workflow(one.workflow_id, cancel_children=True)
        if len(runs) > len(closing) and not any(one.status == "PENDING" for one in closing):
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
            self._client = None

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
            # DBOS orders by time, which is counted in seconds on SQLite and may go backwards: so each message is told
            # to be worked at behind those that wait.
            "priority": 1 + max((one.priority or 0 for one in before), default=0),
        }
        with self._translate_errors():
            client.enqueue(place, own.name, session, input_text(hidden))
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
        with self._translate_errors():
            return list_runs(self._connect(), workflow_id_prefix=f"{session}:", status=status, limit=limit)

    def _agent(self, name: str | None) -> DurableAgent:
        return agent_named(self.agents, name)

    def _hide(self, text: str) -> str:
        return reduce(lambda said, agent: agent.hide(said), self.agents.values(), text)

    def _connect(self) -> DBOSClient:
        if self._process != os.getpid():  # a forked child leaves its parent's connections alone
            self._client, self._process = None, os.getpid()
        if self._client is None:
            with self._translate_errors():
                self._place.make_ready()
                DBOS.migrate(self._place.engine)
                self._client = DBOSClient(
                    system_database_url=self._place.engine,
                    serializer=JsonSerializer(self._hide),
                    application_name=QUEUE,
                    retry_connection_errors=False,
                )
        return self._client

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except CogstepError:
            raise
        except Exception as error:
            raise unusable_error(self.store.database, error) from error

    # -------------------------------------------------------------------------------------------------- from the inside

    @contextlib.contextmanager
    def worker(self) -> Iterator[None]:
        """Work at sessions in this process until the block is left; other processes continue unfinished runs.

        Only one block at a time in a process, in any of its threads or event loops; not in a forked child of such a
        process.

        Raises:
            StoreError, DurableError: the database can't be used (the message has the remedy), or the process is already
                a worker.
        """
        if not _at_work.acquire(blocking=False):
            raise DurableError(
                "this process, or the one that it was forked from, works at sessions already: leave the block of the "
                "first worker(), give one DBOSSessions all agents, or start another process"
            )
        with contextlib.ExitStack() as leaving:
            leaving.callback(_at_work.release)
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
            }
            stop = threading.Event()
            watch = threading.Thread(target=self._look_after, args=(left, stop), name="cogstep-takeover")
            try:
                self.hosts.load()
                with self._translate_errors():
                    run_aside(lambda: self._launch(config, left))
                watch.start()
                yield
            finally:
                stop.set()
                if watch.ident is not None:
                    watch.join()
                run_aside(lambda: DBOS.destroy(destroy_registry=True))
                with contextlib.suppress(CogstepError), self._translate_errors():
                    left.hand_over(self._connect())  # else others go on once this process has ended
                with contextlib.suppress(CogstepError):
                    self.store.join("")  # it works no more, though it may live on
                self.hosts.close()

    def _launch(self, config: DBOSConfig, left: OrphanedRuns) -> None:
        engine = DBOS(config=config)
        logging.getLogger("dbos").addFilter(should_log)
        self._register(left)
        queues = [queue_of(name) for name in self.agents]
        DBOS.listen_queues(queues)
        DBOS.launch()
        spare_lookups(engine)
        seconds = poll_interval(len(queues))
        for one in queues:
            DBOS.register_queue(
                one, partition_concurrency=1, worker_concurrency=self.at_once, polling_interval_sec=seconds
            )

    def _register(self, left: OrphanedRuns) -> None:
        from interpreters.durable.model_hosts.hosted_model import make_host_adapter

        on = make_host_adapter(self.hosts, self.store)

        def take(session: str) -> Recorder:
            return self.store.recorder(session, take_over=True)

        cancellations = Cancellations()

        async def run(name: str, session: str, event: str) -> str:
            return await _carried(run_durably, name, session, event)

        async def work(name: str, session: str, task: str) -> str:
            return await _carried(run_worker, name, session, task)

        async def _carried(execute: Any, name: str, session: str, text: str) -> str:
            own = str(DBOS.workflow_id)
            with left.executing(own):
                await left.check_place(self._connect, own, name, self.agents)
                agent, context = on(self._agent(name), session), Steps(work, (name,), cancellations)
                try:
                    ended: str = await execute(agent, session, text, context, take)
                    return ended
                except Exception as error:
                    if not is_transient(error):
                        if isinstance(error, CogstepError):
                            return RunOutcome(0.0, error=agent.hide(f"{type(error).__name__}: {error}")).text()
                        raise
                    left.give_up(own)  # it goes on once the database is back, or ends where another execution has it
                    raise postpone(error) from None

        work = DBOS.workflow(name=WORK, max_recovery_attempts=None)(work)
        DBOS.workflow(name=RUN, max_recovery_attempts=None)(run)

    def _look_after(self, left: OrphanedRuns, stop: threading.Event) -> None:
        unattended = Unattended()
        while not stop.wait(LOOKED_AFTER_EVERY):
            with contextlib.suppress(CogstepError), self._translate_errors():
                left.resume(self._connect())
                unattended.look(self._connect(), self.store)
