"""What callers hand to the supervisor's thread, each with the place where its answer goes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue

from attrs import define, field

from cognition import Failure, FinishReason
from cognition.parsing import Output
from runtime.ending import done_of
from runtime.isolated.wire import Counted
from runtime.protocol import Done


@define(eq=False)
class Reply:
    """A reply that somebody waits for."""

    id: int
    line: bytes
    """The request, as it is sent."""
    over: Callable[[], None] = lambda: None
    """Called once, right before its ``Done`` is given out."""
    outputs: SimpleQueue[Output | Done] = field(factory=SimpleQueue)
    cancelled: bool = False
    seen: list[Output] = field(factory=list)
    size: int = 0
    """Bytes of memory that ``seen`` takes."""

    def end(self, reason: FinishReason, failure: Failure | None = None) -> None:
        """Its end, where the process can't say any more what that is. What the reply has cost is not known then."""
        self.over()
        self.outputs.put(done_of(self.seen, reason, failure))

    def fail(self, failure: Failure) -> None:
        """As the process ended; whoever had cancelled it gets what was asked for."""
        if self.cancelled:
            self.end("cancelled")
        else:
            self.end("error", failure)


@define(eq=False)
class Question:
    """A number, or several, that somebody waits for."""

    id: int
    line: bytes
    answer: Future[Counted] = field(factory=Future)


@define(eq=False)
class Withdrawal:
    """A reply was cancelled."""

    reply: Reply


Letter = Reply | Question | Withdrawal
