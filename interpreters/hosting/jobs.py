"""What stands in a turn's stream beside its events: effects that are carried out on the handle's side, and the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field, frozen

from cognition import CallTool, ConfigError, EffectId, ToolFailed, ToolReturned
from cognition.checking import shown
from cognition.ids import parse_effect_id
from interpreters.agents.results import RunResult
from interpreters.hosting import messages as say
from interpreters.loop.letters import Turn
from interpreters.performers import Answered
from interpreters.program.later import LATER
from interpreters.tools.context import ToolContext


def _leave_it() -> None:
    """The usual ``Job.withdraw``: nothing was asked."""


def spawned_by(owner: str, key: str) -> EffectId | None:
    """The effect by which a worker was spawned, with which its name ends; None for the session itself.

    Args:
        owner: who decided an effect.
        key: the session's name here. A recording may have another one, which is its owner then.
    """
    parent, _, name = owner.rpartition("/")
    return EffectId(name) if owner != key and parent and parse_effect_id(name) is not None else None


@frozen
class End:
    """The last thing in a stream's queue."""

    result: RunResult | None = None
    error: BaseException | None = None


class Job(Turn):
    """One effect that is carried out here, and the turn as its performer sees it.

    That is over also when nobody waits for this effect any more. Effects of workers may have the ids of their parent's,
    so that in the whole turn each stands with its owner.
    """

    def __init__(self, asked: say.Perform, whole: Turn) -> None:
        super().__init__()
        self.asked = asked
        self.effect = asked.effect
        self.key = (asked.owner, asked.effect.effect_id)
        self.context: ToolContext[Any] | None = None
        self.dropped = False
        self.withdraw: Callable[[], object] = _leave_it
        """Takes back what the program was asked; called where the stream is read."""
        self._whole = whole
        self._name = EffectId(" ".join(self.key))

    def begins(self, effect_id: EffectId) -> bool:
        return super().begins(effect_id) and self._whole.begins(self._name)

    def has_begun(self, effect_id: EffectId) -> bool:
        return self._whole.has_begun(self._name)

    def is_over(self) -> bool:
        return super().is_over() or self._whole.is_over()

    def stop(self) -> None:
        """Tell a tool that nobody waits for it any more."""
        if self.context is not None:
            self.context.cancel()


@define(eq=False)
class ToolWait:
    """A call whose result the program gives by hand: it comes in the stream where the tool is a ``ToolSpec``."""

    effect: CallTool
    session: str
    """The one that makes the call: the handle's, or that of a worker."""
    _answer: Callable[[Answered], object] = field(repr=False)

    @property
    def name(self) -> str:
        return self.effect.call.name

    @property
    def arguments(self) -> dict[str, Any]:
        return self.effect.call.arguments

    def give(self, content: str) -> None:
        """The call gave this. Once the turn is over, or for the second time, it does nothing.

        Raises:
            ConfigError: it is no text.
        """
        self._answer(ToolReturned(self.effect.effect_id, _text("give", content)))

    def fail(self, message: str) -> None:
        """The call failed; the model is told why. As ``give``."""
        self._answer(ToolFailed(self.effect.effect_id, _text("fail", message)))

    def later(self) -> None:
        """The result will be handed in by ``handle.answer``, after this turn. A worker's call is refused then."""
        self._answer(LATER)


def _text(what: str, given: object) -> str:
    if not isinstance(given, str):  # the host could not read it, and would wait on
        raise ConfigError(f"{what} takes a text, not {shown(given)}")
    return given
