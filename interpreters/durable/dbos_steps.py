"""The steps of a workflow of DBOS: carried out in the loop, and kept by one thread for each.

    a step that may be kept     loop ──▶ thread: look for it ── work ──▶ loop ── text ──▶ thread: keep it ──▶ loop
    one that can't be, alone    loop: work, its record ── text ──▶ thread: keep it ──▶ loop

DBOS takes three threads for an async step, one after the other, and a task of its own by which it can be cancelled. To
change from one thread to another is most of what that costs beyond the database. So to DBOS each step is a function
that blocks its thread, of which there is one for each step under way, and ``Cancellations`` hears of a cancellation.
Where nothing can be kept of a step, and nothing else is asked of DBOS meanwhile, its work is done first, and DBOS is
asked to do a step that gives the text. What is to be done before that is kept is done before DBOS is asked, and not
while it keeps it: its thread would have to wait for whatever the loop does then, which costs more than is won.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager, suppress
from functools import wraps
from typing import Any, Final

from interpreters.durable.context import Meanwhile, Work
from interpreters.durable.dbos_context import DBOS, DBOSWorkflowCancelledError, SetWorkflowID

LOOKED_EVERY = 1.0
"""Seconds between two looks at whether a run was cancelled whose step takes longer."""

_nothing_kept: contextvars.ContextVar[bool] = contextvars.ContextVar("cogstep_nothing_kept", default=False)
"""Whether DBOS is about to look for what it has kept of a step of which it can't have kept anything."""


class Cancellations:
    """Cancels the steps under way of the runs that were cancelled. To be used in one event loop."""

    def __init__(self) -> None:
        self._steps: defaultdict[str, set[asyncio.Task[Any]]] = defaultdict(set)
        """By runs."""
        self._looking: asyncio.Task[None] | None = None

    @contextmanager
    def heard(self, run: str) -> Iterator[None]:
        """The task that enters is cancelled when the run is."""
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
    """The ``DurableContext`` of a workflow of DBOS.

    DBOS looks for what it has kept before it does a step, which is a third of what a step costs. Whoever has done the
    first step of a run is the first to execute it, and of what comes behind there is nothing to be found; should
    another execution begin meanwhile, then DBOS refuses to keep this one's steps, and the store refuses its lines
    before that. See ``spare_lookups``.

    Work is done in a context without the workflow, in each execution: what a tool does with DBOS is no step of the run.

    Args:
        work: the workflow of a worker.
        arguments: what it is given besides the session and the task.
        cancellations: of the process.
    """

    calls_meanwhile: Final = True

    def __init__(self, work: Callable[..., Any], arguments: tuple[str, ...], cancellations: Cancellations) -> None:
        self._work = work
        self._arguments = arguments
        self._cancellations = cancellations
        self._run = str(DBOS.workflow_id)
        self._is_first: bool | None = None
        """Whether no execution was before this one; None as long as nobody knows."""

    async def step(self, name: str, work: Work, *, alone: bool = False, meanwhile: Meanwhile | None = None) -> str:
        """See ``DurableContext.step``."""
        if not (alone and self._is_first):
            return await self._looked_for(name, work, meanwhile)
        text = await self._worked(work)
        if meanwhile is not None:
            text = meanwhile() or text
        return await self._kept(name, lambda: text)

    async def _worked(self, work: Work) -> str:
        """Do a step's work in the loop."""

        async def carried() -> str:
            with self._cancellations.heard(self._run):
                return await work()

        task = contextvars.Context().run(asyncio.create_task, carried())
        own = asyncio.current_task()
        try:
            text = await task
        except asyncio.CancelledError:
            if own is None or own.cancelling():
                raise
            raise self._was_cancelled() from None
        if own is not None and own.cancelling():  # the process stops to work, and the tool has made little of it
            raise asyncio.CancelledError
        return text

    async def _kept(self, name: str, perform: Callable[[], str]) -> str:
        """The text of a step of which ``perform`` does the work, on a thread, if there is none."""
        before = _nothing_kept.set(bool(self._is_first))
        try:
            return await DBOS.run_step_async({"name": name}, perform)
        finally:
            _nothing_kept.reset(before)

    def _was_cancelled(self) -> DBOSWorkflowCancelledError:
        return DBOSWorkflowCancelledError(f"the run {self._run} was cancelled, or its process ends")

    async def _looked_for(self, name: str, work: Work, meanwhile: Meanwhile | None) -> str:
        loop = asyncio.get_running_loop()
        at_work: list[asyncio.Task[Any]] = []
        begun = given_up = False

        async def carried() -> str:
            task = asyncio.current_task()
            if given_up or task is None:  # cancelled before it began: it must not begin any more
                raise asyncio.CancelledError
            at_work.append(task)
            with self._cancellations.heard(self._run):
                text = await work()
            return text if meanwhile is None else meanwhile() or text

        def perform() -> str:
            nonlocal begun
            begun = True
            carrying = carried()
            try:
                return _outcome(contextvars.Context().run(asyncio.run_coroutine_threadsafe, carrying, loop), loop)
            except CancelledError:
                raise self._was_cancelled() from None
            except RuntimeError:
                if not loop.is_closed():
                    raise
                if inspect.getcoroutinestate(carrying) == inspect.CORO_CREATED:
                    carrying.close()
                raise self._was_cancelled() from None  # as an error of the step, DBOS would keep it for ever

        try:
            text = await self._kept(name, perform)
        except asyncio.CancelledError:
            given_up = True
            _cancel(at_work)
            raise
        if self._is_first is None:
            self._is_first = begun
        return text

    async def sleep(self, name: str, seconds: float) -> None:
        """See ``DurableContext.sleep``."""
        await DBOS.sleep_async(seconds)

    async def child(self, name: str, session: str, task: str) -> str:
        """See ``DurableContext.child``."""
        with SetWorkflowID(f"{self._run}/{name}"):
            handle = await DBOS.start_workflow_async(self._work, *self._arguments, session, task)
        text: str = await handle.get_result()
        return text


def _cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel each once: what a tool does in its end may take longer than the time to the next look."""
    for task in tasks:
        if not task.cancelling():
            task.cancel()


def _outcome(carried: Future[str], loop: asyncio.AbstractEventLoop) -> str:
    """Wait on a thread for what a loop carries out.

    Raises:
        RuntimeError: the loop has ended, perhaps in the moment in which it was asked.
    """
    while not carried.done():
        try:
            return carried.result(LOOKED_EVERY)
        except TimeoutError:
            if loop.is_closed() and not carried.done():
                raise RuntimeError("the event loop has ended") from None
    return carried.result()


def spare_lookups(dbos: DBOS) -> None:
    """Have an instance of DBOS, which was launched, look for nothing where ``Steps`` knows that there is nothing.

    DBOS has no option for that, so this stands in for a method of its own that is not public. Where a DBOS has none of
    this kind, every step is looked for, as without this.
    """
    database: Any = getattr(dbos, "_sys_db", None)
    look: Any = getattr(database, "check_operation_execution", None)
    if look is None:
        return

    @wraps(look)
    def look_or_not(*asked: Any, **named: Any) -> Any:
        return None if _nothing_kept.get() else look(*asked, **named)

    database.check_operation_execution = look_or_not
