"""Exceptions of tools: which are the tool's own fault, and what one says, for a model or for who reads a warning."""

from __future__ import annotations

import asyncio
import signal
import threading


def describe(error: BaseException) -> str:
    """What an exception says, with its type where the message alone would say nothing: ``KeyError: 'name'``."""
    if isinstance(error, OSError) and error.strerror:
        said = message_of(error, error.strerror)
        return said if error.filename is None else f"{said}: {message_of(error, error.filename)}"
    message = message_of(error, error.args[0] if isinstance(error, KeyError) and error.args else error)
    if " " in message.strip():
        return message
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def message_of(error: BaseException, said: object) -> str:
    """``said``, which an exception holds or is, as a text. Its class may be anybody's, and fail at that."""
    try:
        return str(said)
    except BaseException as broken:
        if not is_fault(broken):
            raise
        return f"{type(error).__name__}, whose message can't be read ({type(broken).__name__})"


def is_fault(error: BaseException) -> bool:
    """Whether an exception that came out of a tool is the tool's own fault, of whatever type it is.

    Not its fault is what a signal has raised in the middle of it: Ctrl-C, or what a handler of the program's raises.
    Python runs handlers on the main thread alone. The handler of a tool that has put the program's back is its own.
    """
    if threading.current_thread() is not threading.main_thread():
        return True
    return not isinstance(error, KeyboardInterrupt) and not _is_of_a_handler(error)


class TaskWatch:
    """Made where an ``async def`` begins to be awaited, to tell its own faults from what is done to its task."""

    def __init__(self) -> None:
        self._task = asyncio.current_task()
        self._cancelled = 0 if self._task is None else self._task.cancelling()

    def is_fault(self, error: BaseException) -> bool:
        """``is_fault``, where its task's being cancelled and its coroutine's being closed are no fault either."""
        if not isinstance(error, asyncio.CancelledError | GeneratorExit):
            return is_fault(error)
        if self._task is None or _running() is not self._task:  # a task that is dropped is closed from outside
            return False
        return isinstance(error, GeneratorExit) or self._task.cancelling() <= self._cancelled


def _running() -> asyncio.Task[object] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop runs here
        return None


def _is_of_a_handler(error: BaseException) -> bool:
    handlers = [_code(signal.getsignal(number)) for number in signal.valid_signals()]
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in handlers:
            return True
        trace = trace.tb_next
    return False


def _code(handler: object) -> object:
    """What Python runs for a signal; None where it is nothing of Python's."""
    if not callable(handler):  # SIG_DFL and SIG_IGN, whose class has a __call__ that makes its members
        return None
    function = getattr(handler, "__func__", handler)  # of a method
    return getattr(function, "__code__", None) or getattr(type(handler).__call__, "__code__", None)
