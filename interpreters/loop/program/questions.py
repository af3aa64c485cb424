"""Ask the program questions, and call its plan reviews and hooks. For approvals see ``approvals``.

Each callable runs where the interpreter decides (see ``docs/concepts/architecture.md``). It returns its answer, a
``concurrent.futures.Future``, or under asyncio any awaitable.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Literal

from attrs import Attribute, field, frozen

from cognition import ConfigError, EffectId, Plan, Question, ToolCall
from cognition.base.checking import checked
from cognition.values.features import HookPoint
from cognition.values.messages import json_object_text
from interpreters.loop.program.pending import Later


@frozen
class Request:
    """The common part of all requests."""

    session: str = field(default="", kw_only=True)
    """The session that asks. A worker's session is named ``<parent's>/<effect id>``."""
    effect_id: EffectId = field(default=EffectId(""), kw_only=True)
    """The id of the question, for ``agent.answer`` if the answer comes later."""
    _is_cancelled: Callable[[], bool] = field(
        default=lambda: False, alias="is_cancelled", repr=False, eq=False, kw_only=True
    )

    @property
    def cancelled(self) -> bool:
        """Whether the turn was cancelled. The answer is then no longer needed."""
        return self._is_cancelled()


@frozen
class QuestionRequest(Request):
    """The model asks the user something."""

    questions: tuple[Question, ...]
    """1 to 4, each with 2 to 4 options."""


@frozen
class PlanRequest(Request):
    """The model proposes a plan."""

    plan: Plan


@checked
@frozen
class PlanAnswer:
    """A detailed answer. A plain True or False is enough otherwise."""

    approved: bool
    """Whether the model may carry the plan out."""
    feedback: str = ""
    """Sent to the model."""


def check_arguments(instance: object, _attribute: Attribute[Any], value: Mapping[str, Any] | None) -> None:
    """Check that arguments from the program, in place of the model's, have a JSON form."""
    if value is None:
        return
    try:
        json_object_text(value)
    except (ConfigError, TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{type(instance).__name__}: arguments have no form in JSON: {error}") from error


@frozen
class HookRequest(Request):
    """The session has reached a hook point."""

    point: HookPoint
    text: str = ""
    """The user's message, the result, or the answer that the hook is about."""
    call: ToolCall | None = None
    """The call that the hook is about."""


@checked
@frozen
class HookAnswer:
    """The answer of a hook. Return None from the hook to continue without a change."""

    verdict: Literal["continue", "refuse", "go_on"] = "continue"
    """``refuse`` stops the message or the call. ``go_on``, at the point ``stop``, makes another model call instead of
    ending the turn.
    """
    reason: str = ""
    """Sent to the model, or shown to the user whose message is refused."""
    arguments: Mapping[str, Any] | None = field(default=None, kw_only=True, validator=check_arguments)
    """At ``before_tool``: arguments to run the tool with instead of the model's. The policy checks them again."""
    context: str = field(default="", kw_only=True)
    """A note to the model."""


Chosen = Sequence[str | Sequence[str]] | None
"""For each question the chosen option, or several options if the question allows it. None: the user declines to answer,
and the turn is cancelled.
"""

Asked = Chosen | Later
Reviewed = bool | PlanAnswer | Later
AskQuestions = Callable[[QuestionRequest], Asked | Future[Asked] | Awaitable[Asked]]
ReviewPlans = Callable[[PlanRequest], Reviewed | Future[Reviewed] | Awaitable[Reviewed]]
Hook = Callable[[HookRequest], HookAnswer | Future[HookAnswer | None] | Awaitable[HookAnswer | None] | None]
Hooks = Mapping[HookPoint, Hook]


def chosen_options(questions: tuple[Question, ...], chosen: Any) -> tuple[tuple[str, ...], ...]:
    """Return the answers in the form that the engine takes.

    Raises:
        ConfigError: they don't fit the questions.
    """
    if isinstance(chosen, str) or not isinstance(chosen, Sequence) or len(chosen) != len(questions):
        raise ConfigError(f"ask has to return one answer for each of {len(questions)} questions, not {chosen!r}")
    answers: list[tuple[str, ...]] = []
    for question, entry in zip(questions, chosen, strict=True):
        picked: tuple[Any, ...] = (
            (entry,) if isinstance(entry, str) or not isinstance(entry, Sequence) else tuple(entry)
        )
        if not picked or (len(picked) > 1 and not question.multiple) or not all(isinstance(p, str) for p in picked):
            allowed = "one or more" if question.multiple else "exactly one"
            raise ConfigError(f"{question.text!r} takes {allowed} of its options, not {entry!r}")
        answers.append(picked)
    return tuple(answers)
