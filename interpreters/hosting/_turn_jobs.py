"""The items of a turn's stream apart from its events: effects carried out on the handle's side, and the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field, frozen

from cognition import CallTool, ConfigError, EffectId, ToolFailed, ToolReturned
from cognition.base.checking import shown
from cognition.base.ids import parse_effect_id
from interpreters.agents.results import RunResult
from interpreters.hosting import _protocol as say
from interpreters.loop.mailbox_messages import Turn
from interpreters.loop.performers import Answered
from interpreters.loop.program.pending import LATER
from interpreters.tools.context import ToolContext


def _leave_it() -> None:
    """Do nothing: the default of ``Job.withdraw``."""


def spawned_by(owner: str, key: str) -> EffectId | None:
    """Return the id of the effect that spawned a worker, the last part of its name; None for the session itself.

    Args:
        owner: the session that decided an effect.
        key: the session's name here. The recording, and so ``owner``, may have another name.
    """
    parent, _, name = owner.rpartition("/")
    return EffectId(name) if owner != key and parent and parse_effect_id(name) is not None else None


@frozen
class End:
    """The last item in a stream's queue."""

    result: RunResult | None = None
    error: BaseException | None = None


class Job(Turn):
    """An effect that is carried out here, and its performer's view of the turn.

    For the performer, dropping this effect also ends the turn. Effects of workers may have the same ids as effects of
    their parent, so the whole turn registers them by owner and id.
    """

    def __init__(self, asked: say.Perform, whole: Turn) -> None:
        super().__init__()
        self.asked = asked
        self.effect = asked.effect
        self.key = (asked.owner, asked.effect.effect_id)
        self.context: ToolContext[Any] | None = None
        self.dropped = False
        self.withdraw: Callable[[], object] = _leave_it
        """Withdraws a question to the program; called by the stream's reader."""
        self._whole = whole
        self._name = EffectId(" ".join(self.key))

    def begins(self, effect_id: EffectId) -> bool:
        return super().begins(effect_id) and self._whole.begins(self._name)

    def has_begun(self, effect_id: EffectId) -> bool:
        return self._whole.has_begun(self._name)

    def is_over(self) -> bool:
        return super().is_over() or self._whole.is_over()

    def stop(self) -> None:
        """Signal the tool to stop, since nothing awaits its result."""
        if self.context is not None:
            self.context.cancel()


@define(eq=False)
class ToolWait:
    """A call whose result the program provides: it arrives in the stream if the tool is a ``ToolSpec``."""

    effect: CallTool
    session: str
    """The session that makes the call: the handle's, or a worker's."""
    _answer: Callable[[Answered], object] = field(repr=False)

    @property
    def name(self) -> str:
        return self.effect.call.name

    @property
    def arguments(self) -> dict[str, Any]:
        return self.effect.call.arguments

    def give(self, content: str) -> None:
        """Return this result to the model. A second call, or a call after the turn's end, does nothing.

        Raises:
            ConfigError: ``content`` is not a text.
        """
        self._answer(ToolReturned(self.effect.effect_id, _text("give", content)))

    def fail(self, message: str) -> None:
        """Report the call as failed; the model is sent the message. Otherwise as ``give``."""
        self._answer(ToolFailed(self.effect.effect_id, _text("fail", message)))

    def later(self) -> None:
        """Postpone the result: ``handle.answer`` provides it after this turn. Calls of workers are refused."""
        self._answer(LATER)


def _text(what: str, given: object) -> str:
    if not isinstance(given, str):  # the host could not read it, and would wait on
        raise ConfigError(f"{what} takes a text, not {shown(given)}")
    return given
