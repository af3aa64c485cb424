"""Decide which failures of a tool are temporary, so that a tool with ``retries`` runs again."""

from __future__ import annotations

import errno
import socket

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

LONGEST_CHAIN = 8
"""Exceptions to look at, each the cause of the previous one."""


def may_pass(error: BaseException) -> bool:
    """Return whether a failure is temporary.

    A ``ToolError`` decides with its ``transient``. For other exceptions, their types and those of their causes decide.
    The cause is ``__cause__``, or ``reason`` as in urllib.
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
