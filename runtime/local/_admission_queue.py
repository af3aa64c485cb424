"""Queues of requests that are not prepared so far, one per owner.

Rendering and tokenising a prompt takes milliseconds of the owner's thread. So only the next few of a thousand requests
are prepared: the others cost nothing, a cancelled one is dropped, and other callers do not wait for their prompts.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping

from runtime.local._running_reply import RunningReply

READY = 32
"""Prepared requests of one owner that wait for a sequence: enough choice for the plan."""

PREPARED_AT_ONCE = 32
"""Maximum requests prepared between two batches; so many can start together."""

PREPARING = 0.25
"""Seconds of preparing between two batches; after that the next request waits. Most take a few milliseconds, a prompt
of a million characters a second or more.
"""


class AdmissionQueue:
    """Queues of owners, which take turns."""

    def __init__(self) -> None:
        self._queues: dict[int, deque[RunningReply]] = {}
        """In the order of turns; never contains an empty queue."""

    def __bool__(self) -> bool:
        return bool(self._queues)

    def put(self, owner: int, reply: RunningReply) -> None:
        """Append to the owner's queue."""
        self._queues.setdefault(owner, deque()).append(reply)

    def take(self, ready: Mapping[int, int]) -> tuple[int, RunningReply] | None:
        """Return the next request to prepare, with its owner; None if every owner has enough prepared.

        Args:
            ready: the number of prepared, waiting requests per owner. Owners with 0 come first.
        """
        owner = next((one for one in self._queues if not ready.get(one)), None)
        if owner is None:
            owner = next((one for one in self._queues if ready[one] < READY), None)
        if owner is None:
            return None
        queue = self._queues.pop(owner)
        reply = queue.popleft()
        if queue:
            self._queues[owner] = queue  # behind the others
        return owner, reply

    def drop_stopped(self) -> list[RunningReply]:
        """Remove and return the cancelled requests."""
        dropped: list[RunningReply] = []
        queues, self._queues = self._queues, {}
        for owner, queue in queues.items():
            for reply in queue:
                if reply.stopped():
                    dropped.append(reply)
                else:
                    self.put(owner, reply)
        return dropped


class Pace:
    """Limits the preparing between two batches, so that long prompts do not delay running replies.

    After a long preparation comes an equally long pause while replies run: preparing takes at most half of the time.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._prepared = 0
        self._seconds = 0.0
        self._began = 0.0
        self._paused_until = 0.0
        self._paused = False

    def next_round(self, *, busy: bool) -> None:
        """Start the round after a batch, or after an idle step.

        Args:
            busy: whether replies are running.
        """
        self._prepared, self._seconds = 0, 0.0
        self._paused = busy and self._clock() < self._paused_until

    @property
    def open(self) -> bool:
        """Whether another request may be prepared."""
        return not self._paused and self._prepared < PREPARED_AT_ONCE and self._seconds < PREPARING

    def __enter__(self) -> None:
        self._began = self._clock()

    def __exit__(self, *_exception: object) -> None:
        now = self._clock()
        self._prepared += 1
        self._seconds += now - self._began
        if self._seconds >= PREPARING:
            self._paused_until = now + self._seconds
