"""The result of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

from attrs import frozen

from cognition import (
    AssistantMessage,
    Cancelled,
    Completed,
    Failed,
    LimitReached,
    Message,
    Outcome,
    ToolCall,
    ToolMessage,
    Usage,
)
from cognition.values.messages import ResultStatus
from interpreters.loop.errors import PendingError, TurnFailedError
from interpreters.loop.program.pending import Postponable, format_pending


@frozen
class FinishedCall:
    """A tool call of a turn with its result."""

    call: ToolCall
    content: str
    """The result as shown to the model."""
    status: ResultStatus

    @property
    def name(self) -> str:
        return self.call.name

    @property
    def arguments(self) -> dict[str, Any]:
        return self.call.arguments


@frozen
class Suspended:
    """The turn has not ended: it waits for answers. See ``Agent.answer``."""

    tag: ClassVar[str] = "suspended"
    pending: tuple[Postponable, ...]
    """The open effects, oldest first: approvals, questions, plans, calls of external tools."""


@frozen
class RunResult:
    """The result of a turn: the answer, its outcome and its usage."""

    outcome: Outcome | Suspended
    usage: Usage
    """Usage of all model calls of this turn and its workers."""
    messages: tuple[Message, ...]
    """The messages this turn added to the history, the user's message first."""
    turn: int

    @property
    def pending(self) -> tuple[Postponable, ...]:
        """The effects the turn waits for, oldest first; empty if it has ended."""
        return self.outcome.pending if isinstance(self.outcome, Suspended) else ()

    @property
    def ok(self) -> bool:
        """Whether the model answered and no limit was hit."""
        return isinstance(self.outcome, Completed)

    @property
    def text(self) -> str:
        """The answer; empty while the turn waits, and if it was cancelled or failed (``outcome.text`` has the partial
        text).

        If a limit cut the answer (``max_tokens``, ``seconds``), this is the partial text and ``ok`` is False.
        """
        return self.outcome.text if isinstance(self.outcome, Completed | LimitReached) else ""

    @property
    def calls(self) -> tuple[FinishedCall, ...]:
        """The tool calls of this turn, in order."""
        asked = {call.id: call for item in self.messages if isinstance(item, AssistantMessage) for call in item.calls}
        return tuple(
            FinishedCall(asked[item.call_id], item.content, item.status)
            for item in self.messages
            if isinstance(item, ToolMessage)
        )

    if not TYPE_CHECKING:  # type checkers know which attributes there are

        def __getattr__(self, name: str) -> NoReturn:
            from interpreters.agents._other_words import RESULTS  # read after a mistake only

            told = f"; {RESULTS[name]}" if name in RESULTS else ""
            raise AttributeError(f"a {type(self).__name__} has no attribute {name!r}{told}", name=name, obj=self)

    def raise_for_failure(self) -> Self:
        """Return this result if it contains an answer.

        Raises:
            TurnFailedError: the turn failed, was cancelled, or hit a limit that cut or prevented the answer.
            PendingError: the turn waits for answers.
        """
        match self.outcome:
            case Suspended(pending=pending):
                raise PendingError(
                    f"the turn waits for answers ({format_pending(pending)}); hand them in with answer()"
                )
            case Failed(kind=kind, message=message):
                raise TurnFailedError(f"the turn failed ({kind}): {message}", self.outcome)
            case Cancelled(reason=reason):
                raise TurnFailedError(f"the turn was cancelled{': ' + reason if reason else ''}", self.outcome)
            case LimitReached(limit="max_tokens"):
                raise TurnFailedError(
                    "the reply was cut at its token limit: GenerationOptions(max_tokens=) raises it, up to the end of "
                    "the context; outcome.text holds what had arrived",
                    self.outcome,
                )
            case LimitReached(limit=limit, text=text, cut=cut) if cut or not text:
                how = "in the midst of its answer" if text else "without an answer"
                raise TurnFailedError(f"the limit of {limit} ended the turn {how}", self.outcome)
            case _:
                return self


if TYPE_CHECKING:  # a default needs Python 3.13, or a package that only type checkers have by themselves
    from typing_extensions import TypeVar

    ResultT_co = TypeVar("ResultT_co", bound=RunResult, default=RunResult, covariant=True)
    """The result of a stream; ``RunResult`` if not given."""
else:
    from typing import TypeVar

    ResultT_co = TypeVar("ResultT_co", bound=RunResult, covariant=True)
