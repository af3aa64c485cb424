"""What a run gives."""

from __future__ import annotations

from typing import Any, ClassVar

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
from cognition.messages import ResultStatus
from interpreters.loop.errors import PendingError, TurnFailedError
from interpreters.program.later import Postponable, told


@frozen
class FinishedCall:
    """One tool call of a turn with its result."""

    call: ToolCall
    content: str
    """The result as the model saw it."""
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
    """What is waited for, oldest first: approvals, questions, plans, calls of external tools."""


@frozen
class RunResult:
    """One turn: the answer, how it ended, what it took."""

    outcome: Outcome | Suspended
    usage: Usage
    """What all model calls of this turn and its workers used."""
    messages: tuple[Message, ...]
    """What this turn added to the history, the user's message first."""
    turn: int

    @property
    def pending(self) -> tuple[Postponable, ...]:
        """What the turn waits for, oldest first; empty where it has ended."""
        return self.outcome.pending if isinstance(self.outcome, Suspended) else ()

    @property
    def ok(self) -> bool:
        """Whether the model answered and no limit was hit."""
        return isinstance(self.outcome, Completed)

    @property
    def text(self) -> str:
        """The answer; empty while the turn waits, and when it was cancelled or failed (``outcome.text`` holds what had
        arrived). Where a limit cut the answer (``max_tokens``, ``seconds``), what had arrived of it; ``ok`` is False.
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

    def raise_for_failure(self) -> RunResult:
        """This result, if there is an answer in it.

        Raises:
            TurnFailedError: the turn failed, was cancelled, or hit a limit that cut the answer or left no room for one.
            PendingError: it waits for answers.
        """
        match self.outcome:
            case Suspended(pending=pending):
                raise PendingError(f"the turn waits for answers ({told(pending)}); hand them in with answer()")
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
