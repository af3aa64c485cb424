"""Choose the model of a call: by its task, by the user's choice, and by which models work at the moment.

An agent has its own model and may have others, by name (``AgentConfig.models``). Each has a circuit breaker. After some
failures in a row the breaker opens, and calls to that model pause if there is another model. The first call after the
pause is a trial: it closes the breaker, or opens it for twice as long.
(https://martinfowler.com/bliki/CircuitBreaker.html)
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any, Literal, get_args

from attrs import Attribute, evolve, field, frozen

from cognition.base.checking import checked
from cognition.base.display import shown_name
from cognition.base.errors import ConfigError
from cognition.values.outcomes import ErrorKind

ModelTask = Literal["answer", "plan", "summary", "worker"]
"""The purpose of a model call: to answer, to plan (in the mode ``plan``), to summarise, to answer as a worker."""

TASKS: tuple[ModelTask, ...] = get_args(ModelTask)

OWN = ""
"""The name of the agent's own model in ``AgentConfig.fallback`` and ``routes``."""

LONGEST_NAME = 200

OF_THE_MODEL: frozenset[ErrorKind] = frozenset({"rate_limit", "transient", "offline", "auth"})
"""Kinds of failure caused by the model, not by the request."""

AT_ONCE: frozenset[ErrorKind] = frozenset({"offline", "auth"})
"""The kinds among these that open the breaker at the first failure: the next call would fail as well."""

MOST_DOUBLINGS = 16
"""The most doublings of a breaker's time; ``Breaker.longest`` applies long before."""

Routes = tuple[tuple[ModelTask, str], ...]
"""For a task, the name of the model to call first; ``OWN`` for the agent's own."""


def _seconds(instance: object, attribute: Attribute[Any], value: float) -> None:
    if not (isfinite(value) and value > 0):
        raise ConfigError(f"{type(instance).__name__}.{attribute.name} must be seconds above 0, not {value!r}")


@checked
@frozen
class Breaker:
    """When calls to a failing model pause, if there is another model."""

    failures: int = field(default=3)
    """Failures in a row that open the breaker. A failed sign-in, an unreachable model and a failure with Retry-After
    open it immediately.
    """
    cooldown: float = field(default=30.0, validator=_seconds)
    """Seconds that it stays open: the model's Retry-After, else this, doubled each further time in a row."""
    longest: float = field(default=600.0, validator=_seconds)
    """The most seconds that it stays open."""

    @failures.validator
    def _check_failures(self, _attribute: Attribute[int], value: int) -> None:
        if not 1 <= value <= 1000:
            raise ConfigError(f"Breaker.failures must be between 1 and 1000, not {value!r}")


@frozen
class Health:
    """The record of a model that has failed and not answered since."""

    model: str
    failures: int = 0
    """Failures in a row caused by the model, counted up to ``Breaker.failures``."""
    opened: int = 0
    """How often its breaker has opened in a row."""
    open_until: float | None = None
    """The end of the pause, by the inputs' ``at``; None if the breaker is closed. After it, one call tries."""

    def is_open(self, now: float) -> bool:
        return self.open_until is not None and now < self.open_until


HealthOf = tuple[Health, ...]
"""The models that have failed lately, ordered by name."""


def check_models(models: Sequence[str], fallback: Sequence[str], routes: Routes) -> None:
    """Check that every reference to a model names an existing model.

    Raises:
        ConfigError: a name is empty, too long, repeated or unknown.
    """
    for name in models:
        if not name or len(name) > LONGEST_NAME or not name.isprintable():
            raise ConfigError(f"models: a name has 1 to {LONGEST_NAME} printable characters, not {name!r}")
    for what, names in (("models", models), ("fallback", fallback), ("routes", [task for task, _ in routes])):
        twice = next((name for name in names if list(names).count(name) > 1), None)
        if twice is not None:
            raise ConfigError(f"{what}: {twice!r} is there twice")
    for what, name in [*(("fallback", name) for name in fallback), *(("routes", name) for _, name in routes)]:
        if name != OWN and name not in models:
            known = ", ".join(map(repr, models)) or "none"
            raise ConfigError(
                f"{what}: there is no model {shown_name(name)!r} beside the agent's own; models has {known}"
            )


def order_of(chosen: str | None, routes: Routes, fallback: Sequence[str], task: ModelTask) -> tuple[str, ...]:
    """Return the models allowed for a task, in the order of trying.

    ``chosen`` is the user's choice of a model to answer, which outranks the routes for answers; None without a choice.
    """
    chosen_to_answer = task == "answer" and chosen is not None
    routed = [name for routed_task, name in routes if routed_task == task and not chosen_to_answer]
    return tuple(dict.fromkeys([*routed, chosen or OWN, *fallback]))


def choose(order: Sequence[str], health: HealthOf, given_up: Sequence[str], now: float) -> str:
    """Return the model to call: the first with a closed breaker, else the first allowed.

    ``given_up``: models that the turn has abandoned.
    """
    left = [name for name in order if name not in given_up] or list(order)
    return next((name for name in left if not is_open(health, name, now)), left[0])


def alternative(
    order: Sequence[str], health: HealthOf, given_up: Sequence[str], now: float, *, last: bool = False
) -> str | None:
    """Return the model to try after those the turn has abandoned; None if no other model works.

    ``last``: whether nothing else is left to try. Then a model with an open breaker is better than no model.
    """
    left = [name for name in order if name not in given_up]
    works = next((name for name in left if not is_open(health, name, now)), None)
    return left[0] if works is None and last and left else works


def is_open(health: HealthOf, model: str, now: float) -> bool:
    return any(one.model == model and one.is_open(now) for one in health)


def after_failure(
    health: HealthOf, model: str, kind: ErrorKind, retry_after: float | None, breaker: Breaker, now: float
) -> tuple[HealthOf, float | None]:
    """Return the health after a model has failed, and the seconds its breaker has opened for; None if it has not.

    A failure while the breaker is open does not double the time: the model was called only because no other model was
    left. Otherwise a short outage of all models would lock each of them out for very long.
    """
    if kind not in OF_THE_MODEL:
        return health, None
    known = next((one for one in health if one.model == model), Health(model))
    said = kind == "rate_limit" and retry_after is not None and retry_after > 0
    resting = known.is_open(now)
    if resting and not said:
        return health, None
    failures = breaker.failures if said or kind in AT_ONCE else known.failures + 1
    failed, seconds = evolve(known, failures=min(failures, breaker.failures)), None
    if failed.failures == breaker.failures:
        seconds = breaker.cooldown * 2.0**known.opened if retry_after is None or not said else retry_after
        seconds = min(seconds, breaker.longest)
        opened = known.opened if resting else min(known.opened + 1, MOST_DOUBLINGS)
        failed = evolve(failed, opened=opened, open_until=now + seconds)
    rest = [one for one in health if one.model != model]
    return tuple(sorted([*rest, failed], key=lambda one: one.model)), seconds


def after_choice(health: HealthOf, model: str) -> HealthOf:
    """Return the health after the user chose a model: its next call is a trial, without waiting."""
    return tuple([evolve(one, open_until=None) if one.model == model else one for one in health])


def after_reply(health: HealthOf, model: str) -> tuple[HealthOf, bool]:
    """Return the health after a model has answered, and whether its breaker had been open."""
    opened = any(one.model == model and one.opened for one in health)
    return tuple([one for one in health if one.model != model]), opened
