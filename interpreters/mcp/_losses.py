"""Lost connections: the errors of a request, and the delay before the next attempt to reach a server."""

from __future__ import annotations

LONGEST = 30.0
"""Seconds."""


class LostError(Exception):
    """The server could not be reached, or was lost.

    Attributes:
        sent: whether the request may have reached it: then its outcome is unknown.
    """

    def __init__(self, why: str, *, sent: bool) -> None:
        super().__init__(why)
        self.sent = sent


class RequestRefusedError(Exception):
    """The server answered with an error, so the request was not carried out."""

    def __init__(self, why: str, *, code: int = 0, transient: bool = False) -> None:
        super().__init__(why)
        self.code = code
        self.transient = transient


def wait_after(failures: int) -> float:
    """Return the seconds until the next attempt after ``failures`` in a row: 0 after the first, then 1, doubling up to
    30.

    The first call after a loss connects immediately, since most servers that ended can be started again.
    """
    return 0.0 if failures < 2 else min(LONGEST, 2.0 ** min(failures - 2, 10))
