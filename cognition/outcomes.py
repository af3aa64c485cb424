"""How a turn ended: exactly one of four. And how a model call can fail."""

from __future__ import annotations

from typing import ClassVar, Literal

from attrs import frozen

FinishReason = Literal["stop", "tool_calls", "length", "cancelled", "error"]
"""Why a model stopped writing: it ended its turn, ended with tool calls, hit the token limit, was cancelled, failed."""

LimitKind = Literal[
    "steps",
    "tool_calls",
    "refusals",
    "input_tokens",
    "output_tokens",
    "cost",
    "seconds",
    "loop",
    "workers",
    "max_tokens",
]
"""Which budget ended a turn; ``loop`` is the loop guard. ``max_tokens`` is ``GenerationOptions.max_tokens``, at which a
reply was cut, or the end of the context where that is None; the others are named as in ``Limits``."""

ErrorKind = Literal["rate_limit", "context_overflow", "auth", "transient", "fatal", "offline", "modality", "bad_output"]
"""What sort of failure a model call met; decides whether and when it is tried again."""


@frozen
class Failure:
    """A failed model call, as a runtime or provider reported it."""

    message: str
    kind: ErrorKind | None = None
    """The kind, where the runtime knows it; otherwise ``classify`` derives it from status, code and message."""
    status: int | None = None
    """An HTTP status."""
    code: str = ""
    """The provider's own code, such as ``context_length_exceeded``."""
    retry_after: float | None = None
    """Seconds that the provider asked to wait."""
    needed_tokens: int | None = None
    """With a context overflow: how many tokens the prompt has."""
    available_tokens: int | None = None
    """With a context overflow: how many would fit."""


@frozen
class Completed:
    """The model answered."""

    tag: ClassVar[str] = "completed"
    text: str
    finish_reason: FinishReason = "stop"
    """Never ``length``: an answer that was cut is ``LimitReached("max_tokens")``."""


@frozen
class LimitReached:
    """A budget was used up, or a reply was cut at its token limit."""

    tag: ClassVar[str] = "limit_reached"
    limit: LimitKind
    text: str = ""
    """The final answer, if the limit left room for one. With the limits ``max_tokens`` and ``seconds``, which may cut a
    reply, what had arrived of it."""

    @property
    def cut(self) -> bool:
        """Whether the text is no whole answer, since the limit is one that cuts replies."""
        return self.limit in ("max_tokens", "seconds")


@frozen
class Cancelled:
    """Somebody asked to stop."""

    tag: ClassVar[str] = "cancelled"
    reason: str = ""
    text: str = ""
    """The part of the answer that had arrived."""


@frozen
class Failed:
    """The turn could not be carried on."""

    tag: ClassVar[str] = "failed"
    kind: ErrorKind
    message: str
    text: str = ""
    """The part of the answer that had arrived."""


Outcome = Completed | LimitReached | Cancelled | Failed
