"""Letters in an interpreter's mailbox other than inputs: events from elsewhere, for the session's own thread."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import Any, TypeVar

from attrs import frozen

from cognition import ApprovalsForgotten, CancelAsked, EffectId, Input, ModeChanged, ModelChosen, ModelReplied
from interpreters.observing.events import Event, ToolProgress

Result = TypeVar("Result")


class _TurnEnd:
    """Marks the end of a turn in its order."""


OVER = _TurnEnd()


class NotBegun(Exception):  # noqa: N818 - no error: nobody waits any more for what was about to begin
    """The turn was over before this could begin."""


class Turn:
    """One run as its workers see it: the effects that have begun, and whether it is over.

    All beginnings and the end share one order, a dict, and each is added by a single dict operation. So of a beginning
    and a cancellation one always comes first. This holds for other threads, observers, tools and a signal handler that
    interrupts this code. No lock is necessary. An effect behind the end has not begun and never will.

    Args:
        ended: whether the turn is over from the beginning.
        inherited: effects of an earlier process, which may or may not have begun.
        objection: returns why a reply can't be the turn's answer, or an empty text. None accepts any text.
    """

    __slots__ = ("_cancelled", "_order", "inherited", "objection")

    def __init__(
        self,
        *,
        ended: bool = False,
        inherited: Collection[EffectId] = (),
        objection: Callable[[ModelReplied], str] | None = None,
    ) -> None:
        self.inherited: Collection[EffectId] = inherited
        self.objection: Callable[[ModelReplied], str] | None = objection
        self._order: dict[EffectId | _TurnEnd, None] = {OVER: None} if ended else {}
        self._cancelled = False

    def try_begin(self, effect_id: EffectId) -> bool:
        """Note that an effect begins; return False if the turn is over and it must not. Call it just before the
        beginning.
        """
        self._order[effect_id] = None
        return OVER not in self._order or self.has_begun(effect_id)

    def begin(self, effect_id: EffectId, work: Callable[[], Result]) -> Result:
        """Do the work of an effect, unless the turn is over.

        Raises:
            NotBegun: the turn was already over.
        """
        if not self.try_begin(effect_id):
            raise NotBegun
        return work()

    def has_begun(self, effect_id: EffectId) -> bool:
        """Whether an effect began before the turn was over."""
        for one in list(self._order):  # a copy, since others go on adding to it
            if one == effect_id:
                return True
            if one is OVER:
                break
        return False

    def may_have_begun(self, effect_id: EffectId) -> bool:
        """Whether an effect began before the turn was over, or may have begun in an earlier process."""
        return effect_id in self.inherited or self.has_begun(effect_id)

    def cancel(self) -> bool:
        """Cancel the turn: its remaining effects never begin. Return False if it was already cancelled."""
        first = not self._cancelled
        self._order.setdefault(OVER)
        self._cancelled = True
        return first

    def end(self) -> None:
        """End the turn without cancelling it: its remaining effects never begin."""
        self._order.setdefault(OVER)

    def is_cancelled(self) -> bool:
        """Whether the turn is cancelled. Ask each time: a thread or a signal handler may cancel it at any moment."""
        return self._cancelled

    def is_over(self) -> bool:
        """Whether the session no longer waits for the turn's effects."""
        return OVER in self._order


@frozen(eq=False)
class Letter:
    """An event for the session's own thread. If its turn is over, it is dropped."""

    turn: Turn
    """The run that it is for."""


@frozen(eq=False)
class StopRequest(Letter):
    """A request to cancel this turn, but no later one.

    If it suspends, questions to a person or to the outside program stay pending, and only without any the turn is
    cancelled.
    """

    reason: str
    suspends: bool = False


@frozen(eq=False)
class Deferred(Letter):
    """The program answers this effect later."""

    effect_id: EffectId


@frozen(eq=False)
class Progress(Letter):
    """Progress reported by a tool."""

    said: ToolProgress


@frozen(eq=False)
class WorkerEvent(Letter):
    """An event of a worker, which is also a sign of life. The turn is the parent's."""

    effect_id: EffectId
    event: Event


@frozen(eq=False)
class WorkerRequest(Letter):
    """A worker's question to the program, to be asked on the session's own thread."""

    ask: Callable[[], Any]
    answer: Future[Any]


@frozen(eq=False)
class ProgramFailure(Letter):
    """An error of the embedding program, found on another thread. It ends the run."""

    error: BaseException


HandedInput = ModeChanged | ModelChosen | ApprovalsForgotten | CancelAsked
"""Inputs that answer no effect and therefore need no run."""

MailboxMessage = Input | Letter
