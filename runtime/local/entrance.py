"""Requests that have come and are not prepared yet, of each owner by itself.

To render and tokenise a prompt takes milliseconds of the owner's thread. So of a thousand requests that one caller
submits at once only the next few are prepared: the others cost nothing, a cancelled one is dropped, and nobody else
waits for their prompts.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping

from runtime.local.replies import RunningReply

READY = 32
"""Requests of one owner that are prepared and wait for a sequence: enough for the plan to choose from."""

PREPARED_AT_ONCE = 32
"""Requests that are prepared between two batches: so many can begin together."""

PREPARING = 0.25
"""Seconds of preparing between two batches, past which the next request has to wait. Most take some milliseconds, and a
prompt of a million characters a second or more."""


class Entrance:
    """Queues by owner, which take turns."""

    def __init__(self) -> None:
        self._queues: dict[int, deque[RunningReply]] = {}
        """The owner whose turn it is comes first; none is empty."""

    def __bool__(self) -> bool:
        return bool(self._queues)

    def put(self, owner: int, reply: RunningReply) -> None:
        """At the end of its owner's queue."""
        self._queues.setdefault(owner, deque()).append(reply)

    def take(self, ready: Mapping[int, int]) -> tuple[int, RunningReply] | None:
        """The next to be prepared, with its owner; None where every owner has enough that is.

        Args:
            ready: how many of an owner's requests are prepared and wait. Who has none comes before all others.
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
        """Those that nobody wants any more, taken out."""
        dropped: list[RunningReply] = []
        for owner, queue in list(self._queues.items()):
            kept = deque[RunningReply]()
            for reply in queue:
                (dropped if reply.stopped() else kept).append(reply)
            if kept:
                self._queues[owner] = kept
            else:
                del self._queues[owner]
        return dropped


class Pace:
    """How much is prepared between two batches, so that what goes on isn't held up by however many long prompts come.

    What took long pauses as long, while anything goes on: preparing takes no more than half of the time then.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._prepared = 0
        self._seconds = 0.0
        self._began = 0.0
        self._paused_until = 0.0
        self._paused = False

    def next_round(self, *, busy: bool) -> None:
        """A batch was evaluated, or there was none.

        Args:
            busy: whether anything goes on.
        """
        self._prepared, self._seconds = 0, 0.0
        self._paused = busy and self._clock() < self._paused_until

    @property
    def open(self) -> bool:
        """Whether one more may be prepared."""
        return not self._paused and self._prepared < PREPARED_AT_ONCE and self._seconds < PREPARING

    def __enter__(self) -> None:
        """The preparing of one request begins."""
        self._began = self._clock()

    def __exit__(self, *_exception: object) -> None:
        now = self._clock()
        self._prepared += 1
        self._seconds += now - self._began
        if self._seconds >= PREPARING:
            self._paused_until = now + self._seconds
