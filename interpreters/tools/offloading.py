"""Threads for blocking work under asyncio: plain tools, and plain functions of the program."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from functools import partial
from operator import call
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from interpreters.tools.tool import is_async
from runtime.threads.pool import ThreadPool

Result = TypeVar("Result")

AT_ONCE = 64
"""Maximum number of threads that an event loop awaits at the same time, over all its sessions. Further calls wait.

Abandoned threads, such as that of a timed-out tool, do not count.
"""

THREADS = ThreadPool()
"""The pool shared by all event loops of the process. Idle threads end."""

OBSERVER_THREADS = ThreadPool(AT_ONCE)
"""The pool for the observers of all event loops. An observer uses a thread only while it has events to process."""

if hasattr(os, "register_at_fork"):  # else no process is ever forked
    os.register_at_fork(after_in_child=THREADS.forget)
    os.register_at_fork(after_in_child=OBSERVER_THREADS.forget)

_gates: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


async def run_in_thread(function: Callable[[], Result]) -> Result:
    """Call a function on a thread and await its result or exception.

    Cancelling this does not stop the thread.
    """
    loop = asyncio.get_running_loop()
    async with _gates.setdefault(loop, asyncio.Semaphore(AT_ONCE)):
        answer = _start(loop, function)
        try:
            return await answer
        except asyncio.CancelledError:
            if answer.done() and not answer.cancelled() and answer.exception() is None:
                _drop(answer.result())  # it came, and the cancellation was faster
            raise


async def run_to_end(function: Callable[[], Result]) -> Result:
    """Call ``function`` on a thread without waiting for a free place. A cancellation waits until the call has ended."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Result] = _UncancellableFuture(loop=loop)
    _start(loop, function, answer=answer)
    try:
        return await answer
    except asyncio.CancelledError:
        if answer.done():
            answer.exception()  # it counts as seen: the cancellation goes first
        raise


class _UncancellableFuture(asyncio.Future[Result]):
    """A future that ignores cancellation: its task receives the cancellation once this future is done."""

    def cancel(self, msg: Any = None) -> bool:
        """Refuse to cancel. asyncio then delivers the cancellation to the task later."""
        return False


async def run_in_new_thread(function: Callable[[], Result]) -> Result:
    """Call ``function`` on a new thread that ends with the call: for the last action of a session."""

    def start(job: Callable[[], object]) -> None:
        threading.Thread(target=job, name="cogstep close", daemon=True).start()

    return await _start(asyncio.get_running_loop(), function, start)


def _start(
    loop: asyncio.AbstractEventLoop,
    function: Callable[[], Result],
    start: Callable[[Callable[[], object]], object] = THREADS.start,
    answer: asyncio.Future[Result] | None = None,
) -> asyncio.Future[Result]:
    """Begin a call on a thread. Return the future of its result: ``answer``, if given."""
    if answer is None:
        answer = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: Result | None, error: BaseException | None) -> None:
        if answer.done():  # cancelled: nobody waits for it any more
            _drop(result)
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(result)  # type: ignore[arg-type]  # without an error there is a result

    def job() -> None:
        result: Result | None = None
        error: BaseException | None = None
        try:
            result = context.run(function)
        except StopIteration as stopped:  # a future refuses it, since it would end the generator that awaits it
            error = RuntimeError(f"StopIteration: {stopped}")
        except GeneratorExit as left:  # of a future, it would close what awaits it
            error = RuntimeError(f"GeneratorExit: {left}")
        except BaseException as caught:  # whatever it is, it is the caller's
            error = caught
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(settle, result, error)

    start(job)
    return answer


def _drop(result: object) -> None:
    """Close a coroutine that is never awaited, so that Python does not warn."""
    if inspect.iscoroutine(result):
        result.close()


async def await_answer(ask: Callable[[], Any], begins: Callable[[Callable[[], Any]], Any] = call) -> Any:
    """Call a function of the program and await its answer. An ``async def`` runs in the loop, others on a thread.

    Args:
        ask: the function.
        begins: calls ``ask``, at the moment and on the thread where the call begins.
    """
    answer = begins(ask) if is_async(ask) else await run_in_thread(partial(begins, ask))
    if isinstance(answer, Future):
        return await asyncio.wrap_future(answer)
    return await answer if isinstance(answer, Awaitable) else answer


def mark_seen(task: asyncio.Task[None]) -> None:
    """Mark a task's error as seen, so that asyncio does not log it. The next attempt raises it again."""
    if not task.cancelled():
        task.exception()
