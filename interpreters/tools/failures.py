"""Exceptions of tools, of types and of validators: who caused them, and their text for a model or a log."""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
import threading
from collections.abc import Callable, Iterable
from traceback import walk_tb
from typing import Any

from interpreters.tools.context import ToolError, ToolRetry

KINDS: tuple[type[BaseException], ...] = (ConnectionError, TimeoutError)
"""Python's exceptions for refused, reset or broken connections, and for timeouts."""

NUMBERS: frozenset[int] = frozenset(
    {
        errno.EAGAIN,
        errno.ECONNABORTED,
        errno.ECONNREFUSED,
        errno.ECONNRESET,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ENETDOWN,
        errno.ENETRESET,
        errno.ENETUNREACH,
        errno.ETIMEDOUT,
    }
)
"""Error numbers of temporary failures, for an ``OSError`` without a class of its own."""

NAMES_AT_TIMES = getattr(socket, "EAI_AGAIN", None)
"""A temporary failure of name resolution. An unknown name is a different, permanent error."""

FEW = 5
"""Exceptions of a group that its description names."""

LONGEST_CHAIN = 8
"""Exceptions to look at, each the cause of the previous one."""


def describe(error: BaseException) -> str:
    """Return an exception's message, with its type if the message alone is unclear: ``KeyError: 'name'``."""
    if isinstance(error, OSError) and error.strerror:
        said = message_of(error, error.strerror)
        return said if error.filename is None else f"{said}: {message_of(error, error.filename)}"
    if isinstance(error, BaseExceptionGroup):
        inner = [describe(one) for one in error.exceptions[:FEW]]
        more = f"; and {len(error.exceptions) - FEW} more" if len(error.exceptions) > FEW else ""
        return f"{message_of(error, error.message)}: {'; '.join(inner)}{more}"
    message = message_of(error, error.args[0] if isinstance(error, KeyError) and error.args else error)
    if " " in message.strip():
        return message
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def message_of(error: BaseException, said: object) -> str:
    """Return ``str(said)``, the exception or a part of it. Its ``__str__`` is foreign code and may itself fail."""
    try:
        return str(said)
    except BaseException as broken:
        if not is_fault(broken):
            raise
        return f"{type(error).__name__}, whose message can't be read ({type(broken).__name__})"


def is_fault(error: BaseException) -> bool:
    """Return whether the tool itself caused an exception, of any type.

    A signal's exception is not the tool's fault: Ctrl-C, or one raised in a signal handler of the program. Python runs
    handlers only on the main thread. The tool's own handler counts as the tool's code, if the tool has restored the
    program's handler.
    """
    if threading.current_thread() is not threading.main_thread():
        return True
    return not isinstance(error, KeyboardInterrupt) and not _is_of_a_handler(error)


class TaskWatch:
    """Tells a coroutine's own faults from a cancellation of its task. Create it where the ``await`` starts."""

    def __init__(self) -> None:
        self._task = asyncio.current_task()
        self._cancelled = 0 if self._task is None else self._task.cancelling()

    def is_fault(self, error: BaseException) -> bool:
        """Return ``is_fault``, but do not count cancelling the task or closing the coroutine as a fault."""
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
    return any(frame.f_code in handlers for frame, _ in walk_tb(error.__traceback__))


def _code(handler: object) -> object:
    """Return the code object that Python runs for a signal, or None if the handler is not Python code."""
    if not callable(handler):  # SIG_DFL and SIG_IGN, whose class has a __call__ that makes its members
        return None
    function = getattr(handler, "__func__", handler)  # of a method
    return getattr(function, "__code__", None) or getattr(type(handler).__call__, "__code__", None)


def may_pass(error: BaseException) -> bool:
    """Return whether a failure is temporary.

    A ``ToolError`` decides with its ``transient``. For other exceptions, their types and those of their causes decide.
    The cause is ``__cause__``, or ``reason`` as in urllib.
    """
    if isinstance(error, ToolError):
        return error.transient and not isinstance(error, ToolRetry)
    if isinstance(error, BaseExceptionGroup):
        return all(map(may_pass, error.exceptions))
    one: object = error
    for _ in range(LONGEST_CHAIN):
        if not isinstance(one, Exception) or isinstance(one, ToolError):
            return False
        if isinstance(one, socket.gaierror):
            return one.errno is not None and one.errno == NAMES_AT_TIMES
        if isinstance(one, KINDS) or (isinstance(one, OSError) and one.errno in NUMBERS):
            return True
        reason = getattr(one, "reason", None) if isinstance(one, OSError) else None
        one = reason if isinstance(reason, BaseException) else one.__cause__
    return False


# ------------------------------------------------------------------------------ values of data that fits the schema


class RefusedError(ValueError):
    """A type or validator refuses a value.

    Attributes:
        problems: pairs of a place (``.points[0]``, or empty) and a description of the problem.
    """

    def __init__(self, problems: Iterable[tuple[str, str]]) -> None:
        self.problems: tuple[tuple[str, str], ...] = tuple(problems)
        super().__init__("; ".join(f"{place} {text}".strip() for place, text in self.problems))


def gather(parts: Iterable[tuple[str, Callable[[Any], Any], Any]]) -> list[Any]:
    """Make one value per part: a triple of place, constructor and data.

    Raises:
        RefusedError: some parts were refused; lists all of them.
    """
    values: list[Any] = []
    wrong: list[tuple[str, str]] = []
    for place, make, data in parts:
        try:
            values.append(make(data))
        except RecursionError:
            raise
        except Exception as error:  # a validator of the caller's own class said no, in whatever way it likes
            wrong += [(place + inner, text) for inner, text in problems_of(error)]
    if wrong:
        raise RefusedError(wrong)
    return values


def problems_of(error: BaseException) -> list[tuple[str, str]]:
    """Return the problems of an exception: pairs of a place within the value and a text."""
    if isinstance(error, RefusedError):
        return list(error.problems)
    if isinstance(error, BaseExceptionGroup):
        return [one for inner in error.exceptions for one in problems_of(inner)]
    return [("", describe(error))]
