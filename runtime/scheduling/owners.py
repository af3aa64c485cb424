"""The owner of a request, and the limit of open requests per owner.

Owners take turns on a model. An owner is a session of an agent with its workers, or else a handle of the runtime. A
session sets it with ``owned_by``, which works through any wrapper of the runtime.
"""

from __future__ import annotations

import threading
from collections import Counter
from itertools import count

from cognition import Failure

QUEUE_LIMIT = 1024
"""Default limit of open requests of one owner."""

ALL_OWNERS = 8
"""The limit of all owners of a model together, as a multiple of one owner's limit."""

_numbers = count(1)


class _Submitting(threading.local):
    """The owner of the requests that this thread submits. Not a ``ContextVar``: that would give each task its own
    context for the garbage collector to scan, although nothing is awaited while the owner is set.
    """

    owner: int | None = None


_now = _Submitting()


def new_owner() -> int:
    """Return a number that no other owner of this process has."""
    return next(_numbers)


def owner_or(otherwise: int) -> int:
    """Return the current owner, or ``otherwise`` if none is set."""
    owner = _now.owner
    return otherwise if owner is None else owner


class owned_by:  # noqa: N801 - read as a function; as a class it takes a fifth of a generator's time
    """Context manager: requests that this thread submits in the block belong to this owner."""

    __slots__ = ("_before", "_owner")

    def __init__(self, owner: int) -> None:
        self._owner = owner

    def __enter__(self) -> None:
        self._before, _now.owner = _now.owner, self._owner

    def __exit__(self, *_: object) -> None:
        _now.owner = self._before


class OpenRequests:
    """Counts the open requests of each owner. From any thread.

    Args:
        limit: maximum per owner; None for no limit.
    """

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._open: Counter[int] = Counter()
        self._all = 0
        # A garbage collection may close a reply in the middle of anything, so it may be taken twice by one thread.
        self._lock = threading.RLock()

    def begin(self, owner: int) -> Failure | None:
        """Count one more, or return the failure of a full queue. The core waits and retries."""
        with self._lock:
            if self._limit is not None:
                if self._open[owner] >= self._limit:
                    return _full(f"{self._limit} requests of this agent are waiting or running")
                if self._all >= ALL_OWNERS * self._limit:
                    return _full(f"{self._all} requests of all its agents are waiting or running")
            self._open[owner] += 1
            self._all += 1
            return None

    def end(self, owner: int) -> None:
        """Count one fewer."""
        with self._lock:
            self._all -= 1
            self._open[owner] -= 1
            if not self._open[owner]:
                del self._open[owner]


def _full(what: str) -> Failure:
    return Failure(
        f"the model's queue is full: {what}; submit fewer at a time, or load it with a larger queue_limit",
        kind="rate_limit",
        code="queue_full",
    )
