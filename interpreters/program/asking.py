"""How the program is asked questions, plans and hooks; approvals have a module of their own (``approvals``).

Each callable runs where the interpreter says (see ``docs/architecture.md``) and gives its answer, or something that
will have it: a ``concurrent.futures.Future``, or under asyncio any awaitable.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Literal

from attrs import Attribute, field, frozen

from cognition import ConfigError, EffectId, Plan, Question, ToolCall
from cognition.checking import checked
from cognition.features import HookPoint
from cognition.messages import json_object_text
from interpreters.program.later import Later


@frozen
class Request:
    """What all requests have: the session that asks, and whether it still waits."""

    session: str = field(default="", kw_only=True)
    """The session that asks; a worker's is called ``<parent's>/<effect id>``."""
    effect_id: EffectId = field(default=EffectId(""), kw_only=True)
    """Of the question; ``agent.answer`` takes it, where the answer comes later."""
    _is_cancelled: Callable[[], bool] = field(
        default=lambda: False, alias="is_cancelled", repr=False, eq=False, kw_only=True
    )

    @property
    def cancelled(self) -> bool:
        """Whether the turn was cancelled, so that nobody waits for the answer any more."""
        return self._is_cancelled()


@frozen
class QuestionRequest(Request):
    """The model wants to know something of the user."""

    questions: tuple[Question, ...]
    """1 to 4, each with 2 to 4 options."""


@frozen
class PlanRequest(Request):
    """The model proposes a plan."""

    plan: Plan


@checked
@frozen
class PlanAnswer:
    """An answer in full; a plain True or False will do where there is no more to say."""

    approved: bool
    """Whether the model may carry the plan out."""
    feedback: str = ""
    """Told to the model."""


def check_arguments(instance: object, _attribute: Attribute[Any], value: Mapping[str, Any] | None) -> None:
    """Of arguments that a program gives in place of the model's: they have to be JSON."""
    if value is None:
        return
    try:
        json_object_text(value)
    except (ConfigError, TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{type(instance).__name__}: arguments have no form in JSON: {error}") from error


@frozen
class HookRequest(Request):
    """The session has come to a point where the program wants to be asked."""

    point: HookPoint
    text: str = ""
    """The user's message, the result, or the answer that the hook is about."""
    call: ToolCall | None = None
    """The call that the hook is about."""


@checked
@frozen
class HookAnswer:
    """What a hook wants. A hook that returns None lets everything go on as if it were not there."""

    verdict: Literal["continue", "refuse", "go_on"] = "continue"
    """``refuse`` stops the message or the call; ``go_on``, at the point ``stop``, makes another model call in place of
    the turn's end."""
    reason: str = ""
    """Told to the model, or to the user whose message is refused."""
    arguments: Mapping[str, Any] | None = field(default=None, kw_only=True, validator=check_arguments)
    """At ``before_tool``: arguments to run the tool with instead of the model's. They are judged again."""
    context: str = field(default="", kw_only=True)
    """A note to the model."""


Chosen = Sequence[str | Sequence[str]] | None
"""For each question the chosen option, or options where several are allowed. None: the user will not answer, and the
turn is cancelled."""

Asked = Chosen | Later
Reviewed = bool | PlanAnswer | Later
AskQuestions = Callable[[QuestionRequest], Asked | Future[Asked] | Awaitable[Asked]]
ReviewPlans = Callable[[PlanRequest], Reviewed | Future[Reviewed] | Awaitable[Reviewed]]
Hook = Callable[[HookRequest], HookAnswer | Future[HookAnswer | None] | Awaitable[HookAnswer | None] | None]
Hooks = Mapping[HookPoint, Hook]


def chosen_options(questions: tuple[Question, ...], chosen: Any) -> tuple[tuple[str, ...], ...]:
    """The answers as the engine takes them.

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
