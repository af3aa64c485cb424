"""DBOS as the engine of a durable run: its steps, the place of its tables, its serialization, its errors.

    a step that may be kept     loop ──▶ thread: look for it ── work ──▶ loop ── text ──▶ thread: keep it ──▶ loop
    one that can't be, alone    loop: work, its record ── text ──▶ thread: keep it ──▶ loop

DBOS uses three threads in sequence for an async step, and a task for its cancellation. Thread switches are most of that
cost apart from the database. So each step is a blocking function for DBOS, on a single thread per step, and
``Cancellations`` handles cancellation.

If DBOS can't have a stored result and no other call is running, the work is done first. DBOS then only runs a step that
returns the text. ``meanwhile`` is called before that step and not during it: the step's thread would have to wait for
the loop, which costs more than it gains.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import json
import logging
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from functools import wraps
from typing import Any, Final, TypeVar

from attrs import frozen
from dbos import DBOS, Serializer, SetWorkflowID
from dbos._error import DBOSAwaitedWorkflowCancelledError, DBOSWorkflowCancelledError, DBOSWorkflowConflictIDError
from sqlalchemy.exc import SQLAlchemyError

from interpreters.durable._errors import DurableError, is_due_to
from interpreters.durable._leaving import Activity
from interpreters.durable.context import Meanwhile, Work
from interpreters.durable.serialization import RunOutcome
from interpreters.recording.journal import JournalExistsError, JournalLockedError, TakenOverError
from interpreters.recording.store import StoreError
from interpreters.recording.store.database import NOT_WHOLE, Database, lacks_wal
from interpreters.recording.store.locations import locate
from runtime.files import make_private

T = TypeVar("T")
V = TypeVar("V")

LOG = logging.getLogger("cogstep")

OLDEST_SQLITE = (3, 42)
"""DBOS's tables need ``unixepoch('subsec')``; an older SQLite fails in their defaults with an unhelpful error."""


PASSING = (SQLAlchemyError, StoreError, TakenOverError, JournalLockedError, JournalExistsError)
"""Errors of an unavailable database, or caused by another execution."""


OTHER_TABLES = ("42P01", "42P07", "42701", "42703")
"""PostgreSQL's codes for missing and for already existing tables and columns."""

SQLITE_OTHER_TABLES = ("no such table", "no such column", "has no column", "duplicate column", "already exists")
"""SQLite's messages for the same."""

TIMER: Final = "DBOS.sleep"
"""The name of a timer's step, and like it, it stores the end of the wait: so timers of earlier versions go on."""

LOOKED_EVERY = 1.0
"""Seconds between two checks whether a run with a longer step was cancelled."""

_nothing_kept: contextvars.ContextVar[bool] = contextvars.ContextVar("cogstep_nothing_kept", default=False)
"""Whether DBOS's next lookup is for a step that can't have a stored result."""


class Cancellations:
    """Cancels the running steps of cancelled runs. For use in one event loop."""

    def __init__(self) -> None:
        self._steps: defaultdict[str, set[asyncio.Task[Any]]] = defaultdict(set)
        self._looking: asyncio.Task[None] | None = None

    @contextmanager
    def watch(self, run: str) -> Iterator[None]:
        """Cancel the current task if the run is cancelled within the block."""
        task = asyncio.current_task()
        assert task is not None
        self._steps[run].add(task)
        if self._looking is None or self._looking.done():
            # In a context of its own: what a workflow asks of DBOS is a step of it.
            self._looking = contextvars.Context().run(asyncio.create_task, self._look())
        try:
            yield
        finally:
            self._steps[run].discard(task)
            if not self._steps[run]:
                del self._steps[run]

    async def _look(self) -> None:
        while self._steps:
            await asyncio.sleep(LOOKED_EVERY)
            under_way = {run: set(tasks) for run, tasks in self._steps.items()}  # those behind it may be resumed ones
            if not under_way:
                return
            with suppress(Exception):  # where the database is away, what is cancelled is seen when it is back
                for one in await DBOS.list_workflows_async(
                    workflow_ids=list(under_way), status="CANCELLED", load_input=False, load_output=False
                ):
                    _cancel(under_way[one.workflow_id])


class Steps:
    """The ``DurableContext`` of a DBOS workflow.

    Before each step DBOS looks for a stored result, which is a third of a step's cost. The execution that does a run's
    first step is the first execution of it, so it skips the lookups of later steps (see ``spare_lookups``). If another
    execution starts in the meantime, DBOS refuses to store this execution's steps, and before that the store refuses
    its records.

    Work runs in a context without the workflow, in each execution: calls of DBOS by a tool are not steps of the run.

    Args:
        work: the workflow of a worker.
        arguments: its arguments before the session and the task.
        cancellations: the process's cancellations.
        activity: what the process knows of this execution while it leaves.
        now: returns the seconds since the epoch by one clock for all processes: the database's.
    """

    calls_meanwhile: Final = True

    def __init__(
        self,
        work: Callable[..., Any],
        arguments: tuple[str, ...],
        cancellations: Cancellations,
        activity: Activity | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._work = work
        self._arguments = arguments
        self._cancellations = cancellations
        self._activity = activity or Activity()
        self._now = now
        self._run = str(DBOS.workflow_id)
        self._is_first: bool | None = None
        """Whether this is the run's first execution; None while unknown."""

    @property
    def is_leaving(self) -> bool:
        return self._activity.is_leaving

    async def step(self, name: str, work: Work, *, alone: bool = False, meanwhile: Meanwhile | None = None) -> str:
        is_recorded = False

        def decide() -> str | None:
            nonlocal is_recorded
            instead = meanwhile() if meanwhile is not None else None
            is_recorded = meanwhile is not None and instead is None
            return instead

        with self._activity.work():
            if alone and self._is_first:
                text = await self._work_on_thread(work)
                stored = decide() or text
                text = await self._store(name, lambda: stored)
            else:
                text = await self._look_up(name, work, None if meanwhile is None else decide)
        if not is_recorded:
            await self._activity.hold_back()
        return text

    async def _work_on_thread(self, work: Work) -> str:
        async def carried() -> str:
            with self._cancellations.watch(self._run):
                return await work()

        task = contextvars.Context().run(asyncio.create_task, carried())
        own = asyncio.current_task()
        try:
            text = await task
        except asyncio.CancelledError:
            if own is None or own.cancelling():
                raise
            raise self._cancelled_error() from None
        if own is not None and own.cancelling():  # the process stops to work, and the tool has made little of it
            raise asyncio.CancelledError
        return text

    async def _store(self, name: str, perform: Callable[[], V]) -> V:
        before = _nothing_kept.set(bool(self._is_first))
        try:
            return await DBOS.run_step_async({"name": name}, perform)
        finally:
            _nothing_kept.reset(before)

    def _cancelled_error(self) -> DBOSWorkflowCancelledError:
        return DBOSWorkflowCancelledError(f"the run {self._run} was cancelled, or its process ends")

    async def _look_up(self, name: str, work: Work, meanwhile: Meanwhile | None) -> str:
        loop = asyncio.get_running_loop()
        at_work: list[asyncio.Task[Any]] = []
        begun = given_up = False

        async def carried() -> str:
            task = asyncio.current_task()
            if given_up or task is None:  # cancelled before it began: it must not begin any more
                raise asyncio.CancelledError
            at_work.append(task)
            with self._cancellations.watch(self._run):
                text = await work()
            return text if meanwhile is None else meanwhile() or text

        def perform() -> str:
            nonlocal begun
            begun = True
            carrying = carried()
            try:
                return _outcome(contextvars.Context().run(asyncio.run_coroutine_threadsafe, carrying, loop), loop)
            except CancelledError:
                raise self._cancelled_error() from None
            except RuntimeError:
                if not loop.is_closed():
                    raise
                if inspect.getcoroutinestate(carrying) == inspect.CORO_CREATED:
                    carrying.close()
                raise self._cancelled_error() from None  # as an error of the step, DBOS would keep it for ever

        try:
            text = await self._store(name, perform)
        except asyncio.CancelledError:
            given_up = True
            _cancel(at_work)
            raise
        if self._is_first is None:
            self._is_first = begun
        return text

    async def sleep(self, name: str, seconds: float) -> None:
        begun = False

        def deadline() -> float:
            nonlocal begun
            begun = True
            return self._now() + seconds

        with self._activity.work():
            until: Any = await self._store(TIMER, deadline)
        left = seconds
        if not begun:  # an earlier execution has begun to wait; a wrong clock must not make it wait for longer
            with suppress(StoreError):
                left = min(seconds, float(until) - await asyncio.to_thread(self._now))
        with self._activity.rest():
            await asyncio.sleep(max(0.0, left))
        await self._activity.hold_back()

    async def child(self, name: str, session: str, task: str) -> str:
        with self._activity.work(), SetWorkflowID(f"{self._run}/{name}"):
            handle = await DBOS.start_workflow_async(self._work, *self._arguments, session, task)
        with self._activity.rest():
            try:
                text: str = await handle.get_result()
            except RunFailedError as failed:
                text = failed.outcome
        await self._activity.hold_back()
        return text


def _cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel each task only once: a tool's cleanup may take longer than the time to the next check."""
    for task in tasks:
        if not task.cancelling():
            task.cancel()


def _outcome(carried: Future[str], loop: asyncio.AbstractEventLoop) -> str:
    """Wait on a thread for the result of a coroutine in an event loop.

    Raises:
        RuntimeError: the loop has ended, perhaps while the coroutine was being submitted.
    """
    while not carried.done():
        try:
            return carried.result(LOOKED_EVERY)
        except TimeoutError:
            if loop.is_closed() and not carried.done():
                raise RuntimeError("the event loop has ended") from None
    return carried.result()


def spare_lookups(dbos: DBOS) -> None:
    """Patch a launched DBOS instance to skip lookups when ``Steps`` knows that there is no stored result.

    DBOS has no option for that, so this replaces a method that is not public. If the method is missing, every step is
    looked up, as without the patch.
    """
    database: Any = getattr(dbos, "_sys_db", None)
    look: Any = getattr(database, "check_operation_execution", None)
    if look is None:
        return

    @wraps(look)
    def look_or_not(*asked: Any, **named: Any) -> Any:
        return None if _nothing_kept.get() else look(*asked, **named)

    database.check_operation_execution = look_or_not


def take_no_more(dbos: DBOS) -> None:
    """Stop a launched DBOS instance from taking further runs from the queues; it has no public function for that."""
    for stop in getattr(dbos, "background_thread_stop_events", ()):
        stop.set()


def is_transient(error: BaseException | None) -> bool:
    """Whether an execution failed for an external reason, so that a further execution may succeed."""
    return is_due_to(error, PASSING)


def postpone(error: BaseException) -> DBOSWorkflowConflictIDError:
    """Log why an execution ends without an outcome, and return the exception that makes DBOS wait for another
    execution.
    """
    run = str(DBOS.workflow_id)
    if not isinstance(error, TakenOverError):
        LOG.warning("the run %s goes on later: %s", run, _reason(error))
    return DBOSWorkflowConflictIDError(run)


def _reason(error: BaseException) -> str:
    """Return a driver's message without the statement and its values."""
    return str(getattr(error, "orig", None) or error).strip().partition("\n")[0]


def unusable_error(database: Database, error: Exception) -> DurableError:
    """Return an error of DBOS as a one-line error with the remedy."""
    said = database.location.hide_password(_reason(error))
    state = getattr(getattr(error, "orig", None), "sqlstate", None)
    if state in OTHER_TABLES or any(words in said for words in SQLITE_OTHER_TABLES):
        return DurableError(
            f"{database.display_name}: DBOS's tables are not those that its version here makes ({said}); put a copy of "
            "before in their place, or name another database"
        )
    return DurableError(str(database.error(error, "DBOS can't use it")))


class RunFailedError(DurableError):
    """The end of a run that failed or was refused: DBOS stores it with the status ERROR.

    Attributes:
        outcome: the ``RunOutcome`` as JSON.
    """

    def __init__(self, problem: str, outcome: str) -> None:
        super().__init__(problem)
        self.outcome = outcome


class JsonSerializer(Serializer):
    r"""Serializes DBOS's data as JSON. An exception is stored as text, so that reading never creates an arbitrary
    object.

        {"error": "DurableDivergedError: ..."}                     an exception
        {"error": "...", "outcome": "{\"at\":1790000000.0,...}"}     a run that failed, with its outcome
        {"error": "...", "outcome": "...", "refused": true}        a run of which nothing was carried out

    Args:
        hide: hides secrets in that text.
    """

    def __init__(self, hide: Callable[[str], str] = str) -> None:
        self._hide = hide

    def serialize(self, data: Any) -> str:
        if isinstance(data, BaseException):
            if is_transient(data):  # else DBOS would keep it as what the step came to, for all further executions
                raise postpone(data) from data
            if isinstance(data, RunFailedError):  # its texts were hidden with the agent's own rules
                is_refused = RunOutcome.read(data.outcome).is_refused
                data = {"error": data.args[0], "outcome": data.outcome} | ({"refused": True} if is_refused else {})
            else:
                data = {"error": self._hide(f"{type(data).__name__}: {data}")}
        return json.dumps(data, ensure_ascii=True, separators=(",", ":"))

    def deserialize(self, serialized_data: str) -> Any:
        data = json.loads(serialized_data)
        if not isinstance(data, dict) or "error" not in data or not data.keys() <= {"error", "outcome", "refused"}:
            return data
        return RunFailedError(data["error"], data["outcome"]) if "outcome" in data else DurableError(data["error"])

    def name(self) -> str:
        return "cogstep_json"


@frozen(eq=False)
class DatabaseUrls:
    """The URLs of the store's tables and of DBOS's own."""

    store: str
    engine: str

    def make_ready(self) -> None:
        """Create DBOS's SQLite file if it is missing, readable by the user only, and set it to WAL mode.

        DBOS's data must be on the disk before a tool starts that must not start twice. In SQLite's default mode a
        commit is the deletion of a file, which a crash of the machine may undo; in WAL mode it is not. WAL mode also
        waits for the disk once per step, not three or four times. The mode is set once DBOS's tables are there.

        Raises:
            DurableError: the file is a copy without its write-ahead log.
        """
        path = locate(self.store).path
        if not path:
            return
        own = f"{path}.dbos"
        with suppress(FileExistsError):
            make_private(own)
        alone = lacks_wal(own)
        # Whatever is wrong with the file, DBOS finds it too, and that is told.
        with suppress(sqlite3.Error), closing(sqlite3.connect(own)) as file:
            if file.execute("SELECT 1 FROM sqlite_master").fetchone() is not None:
                file.execute("PRAGMA journal_mode=WAL")
            elif alone:  # before it has tables, it never gets a log
                raise DurableError(f"{own}: {NOT_WHOLE.format(wal=f'{own}-wal')}")


def database_urls(url: str) -> DatabaseUrls:
    """Return the databases of a URL: on PostgreSQL the same for both; on SQLite two files, so that they don't block
    each other.

    Raises:
        DurableError: this Python's SQLite is too old for DBOS, or the URL lacks the database's name.
        StoreError: it is not the URL of a database.
    """
    location = locate(url)
    if location.kind != "sqlite":
        if not location.url.database:
            raise DurableError(
                f"DBOS finds no database by the user's name: say {location.shown}/database in the URL, by its own name"
            )
        return DatabaseUrls(url, location.url.render_as_string(hide_password=False))
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise DurableError(
            f"DBOS needs SQLite {'.'.join(map(str, OLDEST_SQLITE))} and this Python has {sqlite3.sqlite_version}: use "
            "a Python with a newer one (or pysqlite3-binary in its place, see docs/guides/durable.md), or PostgreSQL"
        )
    # Of the whole path: the two files stay together, wherever the program stands when the second one is opened.
    engine = location.url.set(drivername="sqlite", database=f"{location.path}.dbos")
    return DatabaseUrls(url, engine.render_as_string(hide_password=False))


def run_aside(work: Callable[[], T]) -> T:
    """Run work that DBOS refuses in a thread with a running event loop."""
    if asyncio._get_running_loop() is None:
        return work()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result()


def should_log(record: logging.LogRecord) -> bool:
    """Whether to log a record of DBOS. A cancelled or failed run gets no traceback: its caller gets the reason. A run
    that was taken just before this process ceased to work is handed over to others: that is no error either.
    """
    expected = (DBOSAwaitedWorkflowCancelledError, RunFailedError)
    if record.exc_info and isinstance(record.exc_info[1], expected):
        return False
    return not record.getMessage().endswith(": Event loop is closed")
