"""Who a request is submitted for, and how many requests one owner may have open.

An owner is whoever takes turns with others on a model: a session of an agent, its workers included; else whoever holds
the runtime. A session says so by ``owned_by``, which reaches the model through whatever a program puts around it.
"""

from __future__ import annotations

import threading
from collections import Counter
from itertools import count

from cognition import Failure

QUEUE_LIMIT = 1024
"""Requests of one owner that are not over, where nothing else is asked for."""

ALL_OWNERS = 8
"""Times the limit of one owner: the limit of all owners of a model together."""

_numbers = count(1)


class _Submitting(threading.local):
    """What this thread submits now. No ``ContextVar``, which would make each task's context one of its own, for the
    garbage collector to look through, though nothing is awaited while it is set.
    """

    owner: int | None = None


_now = _Submitting()


def new_owner() -> int:
    """A number that no other owner of this process has."""
    return next(_numbers)


def owner_or(otherwise: int) -> int:
    """The owner for whom this is called, or another one where nobody has said who that is."""
    owner = _now.owner
    return otherwise if owner is None else owner


class owned_by:  # noqa: N801 - read as a function; as a class it takes a fifth of a generator's time
    """As the context of a ``with``: what this thread submits within is this owner's."""

    __slots__ = ("_before", "_owner")

    def __init__(self, owner: int) -> None:
        self._owner = owner

    def __enter__(self) -> None:
        self._before, _now.owner = _now.owner, self._owner

    def __exit__(self, *_: object) -> None:
        _now.owner = self._before


class OpenRequests:
    """Counts the requests of each owner that are not over. From any thread.

    Args:
        limit: of one owner; None for none.
    """

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._open: Counter[int] = Counter()
        self._all = 0
        # A garbage collection may close a reply in the middle of anything, so it may be taken twice by one thread.
        self._lock = threading.RLock()

    def begin(self, owner: int) -> Failure | None:
        """One more; or why there may be no more now. The core waits and tries again."""
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
        """One of them is over."""
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
