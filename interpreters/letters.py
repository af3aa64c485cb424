"""What may lie in an interpreter's mailbox beside inputs: what happened elsewhere, for the session's own thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from attrs import define, frozen

from cognition import EffectId, Input, ToolCall
from interpreters.events import Event


@define(eq=False)
class Turn:
    """One run, as those see it who work for it."""

    _cancelled: bool = False
    _ended: bool = False

    def cancel(self) -> None:
        self._cancelled = True

    def end(self) -> None:
        self._ended = True

    def is_cancelled(self) -> bool:
        """Asked anew each time, since another thread or a signal handler may have said so in between."""
        return self._cancelled

    def is_over(self) -> bool:
        """Whether nobody waits any more for what was begun in it."""
        return self._cancelled or self._ended


@frozen(eq=False)
class CancelRequest:
    """Somebody wants this turn, and no later one, to stop."""

    turn: Turn
    reason: str


@frozen(eq=False)
class Progress:
    """What a tool says of itself."""

    turn: Turn
    call: ToolCall
    text: str


@frozen(eq=False)
class WorkerEvent:
    """What a worker's observers would be told, and a sign that it lives."""

    turn: Turn
    """Of the parent."""
    effect_id: EffectId
    event: Event


@frozen(eq=False)
class Errand:
    """A worker wants the program asked, which is done on the session's own thread."""

    turn: Turn
    ask: Callable[[], Any]
    answer: Future[Any]


@frozen(eq=False)
class Fault:
    """An error of the embedding program's own, met elsewhere: it ends the run."""

    turn: Turn
    error: BaseException


Letter = Input | CancelRequest | Progress | WorkerEvent | Errand | Fault
