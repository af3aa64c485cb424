"""The four outcomes of a turn, and the failures of a model call."""

from __future__ import annotations

from typing import ClassVar, Literal

from attrs import frozen

from cognition.base.checking import checked

FinishReason = Literal["stop", "tool_calls", "length", "cancelled", "error"]
"""Why a model stopped writing: it ended its turn, ended with tool calls, hit the token limit, was cancelled, or failed.
"""

LimitKind = Literal[
    "steps",
    "tool_calls",
    "refusals",
    "input_tokens",
    "output_tokens",
    "cost",
    "session_input_tokens",
    "session_output_tokens",
    "session_cost",
    "seconds",
    "loop",
    "workers",
    "max_tokens",
]
"""The budget that ended a turn. ``loop`` is the loop guard. ``max_tokens``: the reply was cut at
``GenerationOptions.max_tokens``, or at the end of the context if that is None. The others are named as in ``Limits``.
"""

ErrorKind = Literal["rate_limit", "context_overflow", "auth", "transient", "fatal", "offline", "modality", "bad_output"]
"""The kind of a failed model call; it decides whether and when the call is repeated."""


@checked
@frozen
class Failure:
    """A failed model call, as a runtime or provider reported it.

    Raises ``ConfigError`` for an unknown kind or a value of the wrong type, since no recording could be read with it.
    """

    message: str
    kind: ErrorKind | None = None
    """The kind, if the runtime knows it; otherwise ``classify`` derives it from status, code and message."""
    status: int | None = None
    """An HTTP status."""
    code: str = ""
    """The provider's own code, such as ``context_length_exceeded``."""
    retry_after: float | None = None
    """The wait in seconds that the provider asked for."""
    needed_tokens: int | None = None
    """For a context overflow: the tokens of the prompt."""
    available_tokens: int | None = None
    """For a context overflow: the tokens that would fit."""


@frozen
class Completed:
    """The model answered."""

    tag: ClassVar[str] = "completed"
    text: str
    finish_reason: FinishReason = "stop"
    """Never ``length``: a cut answer is ``LimitReached("max_tokens")``."""


@frozen
class LimitReached:
    """A budget was used up, or a reply was cut at its token limit."""

    tag: ClassVar[str] = "limit_reached"
    limit: LimitKind
    text: str = ""
    """The final answer, if the limit left room for one. With the limits ``max_tokens``, ``output_tokens``,
    ``session_output_tokens`` and ``seconds``, which may cut a reply, its partial text.
    """

    @property
    def cut(self) -> bool:
        """Whether the text may be a partial answer, because the limit is of a kind that cuts replies."""
        return self.limit in ("max_tokens", "output_tokens", "session_output_tokens", "seconds")


@frozen
class Cancelled:
    """The turn was cancelled on request."""

    tag: ClassVar[str] = "cancelled"
    reason: str = ""
    text: str = ""
    """The partial answer."""


@frozen
class Failed:
    """The turn could not continue."""

    tag: ClassVar[str] = "failed"
    kind: ErrorKind
    message: str
    text: str = ""
    """The partial answer."""


Outcome = Completed | LimitReached | Cancelled | Failed
