"""Which failures of a tool may pass by themselves, so that a tool with ``retries`` is run again."""

from __future__ import annotations

import errno
import socket

from interpreters.tools.context import ToolError, ToolRetry

KINDS: tuple[type[BaseException], ...] = (ConnectionError, TimeoutError)
"""Exceptions of Python's own for connections that were refused, reset or broken, and for what took too long."""

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
"""Numbers of the system's errors, where an ``OSError`` has one of no class of its own."""

NAMES_AT_TIMES = getattr(socket, "EAI_AGAIN", None)
"""A name could not be resolved at the moment. That there is no such name is another error, and lasts."""

LONGEST_CHAIN = 8
"""How many exceptions are looked at, each the reason of the one before."""


def may_pass(error: BaseException) -> bool:
    """Whether a failure may pass: as a ``ToolError`` says itself, and of others by what they are or were raised from.

    The reason is what stands behind ``from``, or in ``reason``, as urllib has it.
    """
    if isinstance(error, ToolError):
        return error.transient and not isinstance(error, ToolRetry)
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
