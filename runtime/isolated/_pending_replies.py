"""Requests of callers to the supervisor's thread, each with the place for its answer."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue

from attrs import define, field

from cognition import Failure, FinishReason
from cognition.parsing import Output
from runtime.isolated.wire import Counted
from runtime.protocol.done import done_of
from runtime.protocol.model import Done


@define(eq=False)
class Reply:
    """A pending reply."""

    id: int
    line: bytes
    over: Callable[[], None] = lambda: None
    """Called once, right before ``Done`` is delivered."""
    outputs: SimpleQueue[Output | Done] = field(factory=SimpleQueue)
    cancelled: bool = False
    seen: list[Output] = field(factory=list)
    size: int = 0
    """Bytes of memory that ``seen`` takes."""

    def end(self, reason: FinishReason, failure: Failure | None = None) -> None:
        """Deliver a ``Done`` in place of the process's own; its usage is then unknown."""
        self.over()
        self.outputs.put(done_of(self.seen, reason, failure))

    def fail(self, failure: Failure) -> None:
        """End the reply after its process ended; a cancelled reply still ends as cancelled."""
        if self.cancelled:
            self.end("cancelled")
        else:
            self.end("error", failure)


@define(eq=False)
class Question:
    """A pending question for one or several numbers."""

    id: int
    line: bytes
    answer: Future[Counted] = field(factory=Future)


@define(eq=False)
class Withdrawal:
    """A reply was cancelled."""

    reply: Reply


Letter = Reply | Question | Withdrawal
