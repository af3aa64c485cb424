"""Which model a call goes to: by its task, by what was chosen, and by which models answer at the moment.

An agent has its own model and may have others, by name (``AgentConfig.models``). A circuit breaker for each of them
says which ones are called: after some failures in a row it opens, and no call goes to that model for a while, if there
is another one. The first call after that is a trial: it closes the breaker, or opens it for twice as long.
(https://martinfowler.com/bliki/CircuitBreaker.html)
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any, Literal, get_args

from attrs import Attribute, evolve, field, frozen

from cognition.checking import checked
from cognition.errors import ConfigError
from cognition.outcomes import ErrorKind
from cognition.shown import shown_name

ModelTask = Literal["answer", "plan", "summary", "worker"]
"""What a model is called for: to answer, to plan (in the mode ``plan``), to summarise, to answer as a worker."""

TASKS: tuple[ModelTask, ...] = get_args(ModelTask)

OWN = ""
"""The name of the agent's own model among ``AgentConfig.fallback`` and ``routes``."""

LONGEST_NAME = 200

OF_THE_MODEL: frozenset[ErrorKind] = frozenset({"rate_limit", "transient", "offline", "auth"})
"""Kinds of failure that say something of the model, and not of what it was asked."""

AT_ONCE: frozenset[ErrorKind] = frozenset({"offline", "auth"})
"""Of these, those of which one is enough: the next call would fail as well."""

MOST_DOUBLINGS = 16
"""How often the time of a breaker is doubled at most; ``Breaker.longest`` holds long before."""

Routes = tuple[tuple[ModelTask, str], ...]
"""For tasks, the name of the model that is called first; ``OWN`` for the agent's own."""


def _seconds(instance: object, attribute: Attribute[Any], value: float) -> None:
    if not (isfinite(value) and value > 0):
        raise ConfigError(f"{type(instance).__name__}.{attribute.name} must be seconds above 0, not {value!r}")


@checked
@frozen
class Breaker:
    """When no calls go to a model for a while, where there is another one."""

    failures: int = field(default=3)
    """Failures in a row at which it opens; one that can't sign in or is not there opens it at once, and so does one
    that says how long to wait (Retry-After)."""
    cooldown: float = field(default=30.0, validator=_seconds)
    """Seconds that it stays open: what the model has said, else this, and twice as long each further time in a row."""
    longest: float = field(default=600.0, validator=_seconds)
    """Seconds that it stays open at most."""

    @failures.validator
    def _check_failures(self, _attribute: Attribute[int], value: int) -> None:
        if not 1 <= value <= 1000:
            raise ConfigError(f"Breaker.failures must be between 1 and 1000, not {value!r}")


@frozen
class Health:
    """What is known of a model that has failed and not answered since."""

    model: str
    failures: int = 0
    """In a row, of kinds that say something of the model; no more than open the breaker are counted."""
    opened: int = 0
    """How often its breaker opened in a row."""
    open_until: float | None = None
    """Until when it is open, by the inputs' ``at``; None where it is closed. After that, one call tries."""

    def is_open(self, now: float) -> bool:
        """Whether no call is to go to this model now."""
        return self.open_until is not None and now < self.open_until


HealthOf = tuple[Health, ...]
"""Of each model that has failed lately, ordered by name."""


def check_models(models: Sequence[str], fallback: Sequence[str], routes: Routes) -> None:
    """See that what refers to models refers to some that there are.

    Raises:
        ConfigError: a name is empty, too long, there twice, or of no model.
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
    """The models that may be called for a task, in the order in which they are tried.

    ``chosen``: the one that somebody chose to answer, which counts for more than what the program says of answers; None
    where nobody did.
    """
    chosen_to_answer = task == "answer" and chosen is not None
    routed = [name for routed_task, name in routes if routed_task == task and not chosen_to_answer]
    return tuple(dict.fromkeys([*routed, chosen or OWN, *fallback]))


def choose(order: Sequence[str], health: HealthOf, given_up: Sequence[str], now: float) -> str:
    """The model that is called: the first one that works, as far as is known; else the first that may.

    ``given_up``: models that the turn has turned away from.
    """
    left = [name for name in order if name not in given_up] or list(order)
    return next((name for name in left if not is_open(health, name, now)), left[0])


def alternative(
    order: Sequence[str], health: HealthOf, given_up: Sequence[str], now: float, *, last: bool = False
) -> str | None:
    """The model to turn to, where the turn has turned away from these; None where no other one works.

    ``last``: whether there is nothing else to try, so that one whose breaker is open is better than none.
    """
    left = [name for name in order if name not in given_up]
    works = next((name for name in left if not is_open(health, name, now)), None)
    return left[0] if works is None and last and left else works


def is_open(health: HealthOf, model: str, now: float) -> bool:
    """Whether a model's breaker is open."""
    return any(one.model == model and one.is_open(now) for one in health)


def after_failure(
    health: HealthOf, model: str, kind: ErrorKind, retry_after: float | None, breaker: Breaker, now: float
) -> tuple[HealthOf, float | None]:
    """The health after a model has failed, and for how many seconds its breaker has opened by that; None: not.

    A model that is called while its breaker is open was called for want of another one. That is no trial, so it doesn't
    double the time: else a short outage of all models would keep each of them from being called for very long.
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
    """The health after somebody has chosen a model, of which the next call is a trial at once."""
    return tuple([evolve(one, open_until=None) if one.model == model else one for one in health])


def after_reply(health: HealthOf, model: str) -> tuple[HealthOf, bool]:
    """The health after a model has answered, and whether its breaker had been open."""
    opened = any(one.model == model and one.opened for one in health)
    return tuple([one for one in health if one.model != model]), opened
