"""``RestateContext``: a Restate invocation as the engine of a durable run.

Only one task at a time may await Restate's own futures: each wait reads the invocation's single connection, and would
consume data for other waits. Effects run concurrently in their own tasks, so they only register their futures, and a
single task waits for all of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any, Final

from restate import ObjectContext, RunOptions, TerminalError
from restate.exceptions import RetryableError
from restate.serde import BytesSerde
from restate.server_context import ServerInvocationContext
from restate.vm import FirstCompletedUnresolvedFuture, SingleUnresolvedFuture

from cognition import CogstepError
from interpreters.durable._errors import is_due_to
from interpreters.durable._leaving import Activity, Leaving
from interpreters.durable.context import Meanwhile, Work
from interpreters.durable.restate._client import OUTCOME
from interpreters.durable.serialization import RunOutcome
from interpreters.recording.journal import JournalLockedError, JournalWriteError
from interpreters.recording.store import StoreError


class AttemptConnection:
    """A filter between a context of the SDK and its connection, optimised for a step that runs alone.

        the SDK   ── a step begins ───▶  held back
        the step's work
        the SDK   ── what it gave ────▶  both, as one message
        what may be done meanwhile
        the SDK  ◀── it is kept ───────  the server

    The SDK sends the two messages separately. If the work takes no time, the server stores them together in two thirds
    of the time (0.9 ms instead of 1.3 ms on two cores). So the first message is sent alone only if the work waits for
    something; until then the server does not need it.

    Args:
        context: its ``send`` and ``receive`` are replaced.
    """

    def __init__(self, context: ServerInvocationContext) -> None:
        replaced: Any = context
        self._send, self._channel = context.send, context.receive
        replaced.send, replaced.receive = self.send, self
        self._holds = False
        self._held = b""
        self._gave = False
        self._meanwhile: Callable[[], None] | None = None

    def begin(self, meanwhile: Callable[[], None] | None) -> None:
        """Start a step that runs alone.

        Args:
            meanwhile: called once the work's result is written to the connection.
        """
        self._holds, self._gave, self._meanwhile = True, False, meanwhile

    def note_result(self) -> None:
        """Mark the step's work as done; its result is sent next."""
        self._gave = True

    def end(self) -> None:
        self._holds, self._meanwhile = False, None

    async def send(self, message: Any) -> None:
        """Replaces the SDK's ``send``."""
        if self._holds:
            self._held += message["body"]
            return
        if self._held:
            message = {**message, "body": self._held + message["body"]}
            self._held = b""
        await self._send(message)

    async def __call__(self) -> Any:
        """Replaces the SDK's ``receive``, called when it has sent everything."""
        if self._holds:
            await asyncio.sleep(0)  # the work begins, in a task of the SDK's
            self._holds = False
            if self._held and not self._gave:
                await self.send({"type": "http.response.body", "body": b"", "more_body": True})
        elif self._gave and self._meanwhile is not None:
            meanwhile, self._meanwhile = self._meanwhile, None
            await asyncio.sleep(0)  # the task that writes for all streams of the connection has been woken
            meanwhile()
        return await self._channel()

    def __getattr__(self, name: str) -> Any:
        """Pass all other calls on to the SDK's own channel."""
        return getattr(self._channel, name)


LOG = logging.getLogger("cogstep")

BYTES: Final = BytesSerde()
RUNS: Final = RunOptions[bytes](serde=BYTES)

WAKE: Final[Any] = {"type": "restate.run_completed", "data": None}
"""Makes the task that waits at the connection check again for completed futures."""

LEAVE: Final[Any] = {"type": "http.disconnect"}
"""Makes the task that waits at the connection stop, at a point without a half-sent message."""

LATE = 1.0
"""Seconds after which a timer that the server has not reported counts as fired."""

REFUSED = 422
"""The status of an invocation that failed with an error of ours, which another attempt would only repeat."""

FAILED = 500
"""The status of an invocation that failed after it had begun its work."""


class RestateContext:
    """A ``DurableContext`` for one attempt of an invocation.

    Args:
        context: the context passed to the handler.
        service: the virtual object that runs workers.
        hide: hides secrets in error messages, which the server stores and shows.
        activity: what the process knows of this attempt while it leaves.
    """

    calls_meanwhile: Final = True

    def __init__(
        self, context: ObjectContext, service: str, hide: Callable[[str], str], activity: Activity | None = None
    ) -> None:
        assert isinstance(context, ServerInvocationContext)
        self._context = context
        self._line = AttemptConnection(context)
        self._service = service
        self._hide = hide
        self._activity = activity or Activity()
        self._is_sent = False
        """Whether the text of a step is on its way to the server while its answer is recorded."""
        self._awaited: dict[int, tuple[Any, asyncio.Future[Any] | None]] = {}
        """For each handle its Restate future, and the future of the waiting effect; None if it no longer waits."""
        self._open = FirstCompletedUnresolvedFuture([])
        self._waiting: asyncio.Task[None] | None = None
        self.failure: BaseException | None = None
        """The reason why this attempt ends: it was cancelled, lost its server, or continues in another attempt."""

    @property
    def is_leaving(self) -> bool:
        return self._activity.is_leaving and not self._is_sent

    async def step(self, name: str, work: Work, *, alone: bool = False, meanwhile: Meanwhile | None = None) -> str:
        with self._activity.work():
            text = await self._stored(name, work, alone, meanwhile)
        if meanwhile is None:  # else the next effect is recorded, and has to begin
            await self._activity.hold_back()
        return text

    async def _stored(self, name: str, work: Work, alone: bool, meanwhile: Meanwhile | None) -> str:
        at_work: list[asyncio.Task[Any]] = []
        given_up = False
        alone = alone and self._waiting is None  # else there is one that waits for what was given up

        async def action() -> bytes:
            task = asyncio.current_task()
            if given_up or task is None:  # cancelled before it began: it must not begin any more
                raise asyncio.CancelledError
            at_work.append(task)
            try:
                text = (await work()).encode()
            except Exception as error:
                raise to_server_error(error, self._hide) from None  # the SDK sends what an error came from, too
            if alone:
                self._line.note_result()
            return text

        future = self._context.run_typed(name, action, RUNS)
        try:
            result: bytes = await (self._result_alone(future, meanwhile) if alone else self._result(future))
        except asyncio.CancelledError:
            given_up = True
            for task in at_work:
                task.cancel()
            raise
        return result.decode()

    async def sleep(self, name: str, seconds: float) -> None:
        future = self._context.sleep(timedelta(seconds=seconds), name)
        # The server is sent the end by this process's clock. If that is ahead, the wait must not be longer.
        with self._activity.rest(), suppress(TimeoutError):
            async with asyncio.timeout(seconds + LATE):
                await self._result(future)
        await self._activity.hold_back()

    async def child(self, name: str, session: str, task: str) -> str:
        future = self._context.generic_call(self._service, "work", task.encode(), key=session)
        try:
            with self._activity.rest():
                result: bytes = await self._result(future)
            text = result.decode()
        except TerminalError as error:
            text = (error.metadata or {}).get(OUTCOME) or RunOutcome(0.0, error=error.message).text()
        await self._activity.hold_back()
        return text

    async def close(self) -> None:
        if self._waiting is not None:
            await self._context.receive.enqueue_restate_event(LEAVE)
            await asyncio.wait([self._waiting])

    async def _result_alone(self, future: Any, meanwhile: Meanwhile | None) -> Any:
        """``_result`` for the only awaited future: it needs no common waiting task."""
        if self.failure is not None:
            raise asyncio.CancelledError
        context: Any = self._context
        handle = future.handle
        self._line.begin(None if meanwhile is None else partial(self._run_meanwhile, meanwhile))
        is_kept = False
        try:
            if not context.vm.is_completed(handle):
                await context.create_poll_or_cancel_coroutine(SingleUnresolvedFuture(handle))
            is_kept = True
            return await context.must_take_notification(handle)
        except BaseException as error:  # see ``_wait``
            if is_kept and isinstance(error, TerminalError):  # the step's own; any other says that the run is cancelled
                raise
            self.failure = error
            raise asyncio.CancelledError from error
        finally:
            self._line.end()

    def _run_meanwhile(self, meanwhile: Meanwhile) -> None:
        self._is_sent = True
        try:
            meanwhile()
        except Exception as error:
            raise to_server_error(error, self._hide) from None
        finally:
            self._is_sent = False

    async def _result(self, future: Any) -> Any:
        if self.failure is not None:
            raise asyncio.CancelledError
        handle: int = future.handle
        settled: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._awaited[handle] = future, settled
        self._open.children.append(SingleUnresolvedFuture(handle))
        if self._waiting is None:
            self._waiting = asyncio.create_task(self._wait())
        else:
            await self._context.receive.enqueue_restate_event(WAKE)
        try:
            return await settled
        except asyncio.CancelledError:
            if handle in self._awaited:
                self._awaited[handle] = future, None
            raise

    async def _wait(self) -> None:
        try:
            while any(settled is not None for _, settled in self._awaited.values()):
                await self._context.create_poll_or_cancel_coroutine(self._open)
                for handle, (future, settled) in list(self._awaited.items()):
                    if self._context.vm.is_completed(handle):
                        del self._awaited[handle]
                        self._open.children.remove(SingleUnresolvedFuture(handle))
                        await _settle(future, settled)
        except BaseException as error:  # whatever it is, the handler raises it, where the server's code expects it
            self.failure = error
            for _, settled in self._awaited.values():
                if settled is not None:
                    settled.cancel()
        finally:
            self._waiting = None


async def _settle(future: Any, settled: asyncio.Future[Any] | None) -> None:
    try:
        result = await future
    except TerminalError as error:
        if settled is not None and not settled.done():
            settled.set_exception(error)
    else:
        if settled is not None and not settled.done():
            settled.set_result(result)


async def execute(
    context: ObjectContext,
    service: str,
    hide: Callable[[str], str],
    run: Callable[[RestateContext], Awaitable[str]],
    leaving: Leaving | None = None,
) -> bytes:
    """Run an attempt of an invocation and convert its errors for the server: permanent errors end it, all others cause
    another attempt.
    """
    with (leaving or Leaving()).activity() as activity:
        return await _execute(RestateContext(context, service, hide, activity), hide, run)


async def _execute(
    engine: RestateContext, hide: Callable[[str], str], run: Callable[[RestateContext], Awaitable[str]]
) -> bytes:
    try:
        return (await run(engine)).encode()
    except asyncio.CancelledError:
        if engine.failure is None:
            raise
        raise engine.failure from None
    except (TerminalError, RetryableError):
        raise
    except Exception as error:
        raise to_server_error(error, hide) from None
    finally:
        await engine.close()


def failed_run(outcome: RunOutcome, text: str) -> TerminalError:
    """Return the error with which the server stores a failed run, so that its console shows it as one."""
    status = REFUSED if outcome.is_refused else FAILED
    return TerminalError(outcome.failure, status, {OUTCOME: text})


def to_server_error(error: Exception, hide: Callable[[str], str]) -> TerminalError | RetryableError:
    """Return an error for the server. An error that is not a ``CogstepError`` is retried: it may not happen again."""
    text = hide(f"{type(error).__name__}: {error}")
    if not isinstance(error, CogstepError):
        LOG.error("a run failed, and is attempted again", exc_info=error)  # the server gets no traceback
        return RetryableError(text)
    # Another attempt may succeed if the database is unavailable, or if another process has the session.
    passing = is_due_to(error, (StoreError, JournalWriteError, JournalLockedError, OSError))
    return RetryableError(text) if passing else TerminalError(text, REFUSED)
