"""What may lie in an interpreter's mailbox beside inputs: what happened elsewhere, for the session's own thread."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import Any, TypeVar

from attrs import frozen

from cognition import ApprovalsForgotten, CancelAsked, EffectId, Input, ModeChanged, ModelChosen, ModelReplied
from interpreters.observing.events import Event, ToolProgress

Result = TypeVar("Result")


class _Over:
    """Stands in a turn's order at the place where the turn ended."""


OVER = _Over()


class NotBegun(Exception):  # noqa: N818 - no error: nobody waits any more for what was about to begin
    """The turn was over before this could begin."""


class Turn:
    """One run, as those who work for it see it: the effects that have begun in it, and whether it is over.

    Each beginning and the end stand in one order, and each is put there by a single operation on a dict. So of a
    beginning and a cancellation one always comes first, whoever they are (another thread, a signal's handler in the
    middle of this code, an observer, a tool), and nobody takes a lock that another one could hold. What stands behind
    the end has not begun and never will.

    Args:
        ended: whether it is over from the beginning.
        inherited: effects of an earlier process, of which nobody knows whether they have begun.
        objection: what is wrong with a reply as the turn's answer; empty for nothing. None where any text will do.
    """

    __slots__ = ("_cancelled", "_order", "inherited", "objection")

    def __init__(
        self,
        *,
        ended: bool = False,
        inherited: Collection[EffectId] = (),
        objection: Callable[[ModelReplied], str] | None = None,
    ) -> None:
        self.inherited = inherited
        self.objection = objection
        self._order: dict[EffectId | _Over, None] = {OVER: None} if ended else {}
        self._cancelled = False

    def begins(self, effect_id: EffectId) -> bool:
        """Note that an effect begins; False if the turn is over and it must not. Called right before it begins."""
        self._order[effect_id] = None
        return OVER not in self._order or self.has_begun(effect_id)

    def begin(self, effect_id: EffectId, work: Callable[[], Result]) -> Result:
        """Do the work of an effect, if the turn is not over.

        Raises:
            NotBegun: the turn was over before.
        """
        if not self.begins(effect_id):
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
        """End the turn as a cancelled one: nothing begins from here on. Whether it had not been cancelled before."""
        first = not self._cancelled
        self._order.setdefault(OVER)
        self._cancelled = True
        return first

    def end(self) -> None:
        """End the turn: nothing begins from here on, since nobody waits for it."""
        self._order.setdefault(OVER)

    def is_cancelled(self) -> bool:
        """Asked anew each time, since another thread or a signal handler may have said so in between."""
        return self._cancelled

    def is_over(self) -> bool:
        """Whether nobody waits any more for what was begun in it."""
        return OVER in self._order


@frozen(eq=False)
class CancelRequest:
    """Somebody wants this turn, and no later one, to stop."""

    turn: Turn
    reason: str


@frozen(eq=False)
class LeaveRequest:
    """Somebody wants this turn's run to end. What a person or the program outside is asked stays pending; where nothing
    is, the turn is cancelled.
    """

    turn: Turn
    reason: str


@frozen(eq=False)
class Postponed:
    """The program answers this effect later."""

    turn: Turn
    effect_id: EffectId


@frozen(eq=False)
class Progress:
    """The progress that a tool reports."""

    turn: Turn
    said: ToolProgress


@frozen(eq=False)
class WorkerEvent:
    """An event of a worker, which is also a sign of life."""

    turn: Turn
    """The parent's turn."""
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
    """An error of the embedding program's own that was met on another thread: it ends the run."""

    turn: Turn
    error: BaseException


HandedIn = ModeChanged | ModelChosen | ApprovalsForgotten | CancelAsked
"""Inputs that answer no effect, so that they need no run."""

Letter = Input | CancelRequest | LeaveRequest | Postponed | Progress | WorkerEvent | Errand | Fault
