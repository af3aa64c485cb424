"""Update a model's health after a failure or a reply, and fall back to another model."""

from __future__ import annotations

from attrs import evolve

from cognition.engine.draft import Draft
from cognition.steps.decisions import BreakerClosed, BreakerOpened, FellBack
from cognition.steps.inputs import ModelFailed
from cognition.steps.phases import Compacting, ModelAttempt, Waiting
from cognition.steps.retry import RETRIED, classify
from cognition.values.outcomes import ErrorKind
from cognition.values.routing import ModelTask, after_failure, after_reply, alternative, is_open


def note_failure(draft: Draft, model: str, kind: ErrorKind, event: ModelFailed) -> None:
    """Count a failure against the model; its breaker may open."""
    config = draft.setup.config
    if not config.models:
        return
    failure = event.failure
    draft.health, seconds = after_failure(draft.health, model, kind, failure.retry_after, config.breaker, event.at)
    if seconds is not None:
        draft.decide(BreakerOpened(model, seconds, kind, failure.message))


def note_reply(draft: Draft, model: str) -> None:
    """Count a reply for the model; an open breaker closes."""
    if draft.health:
        draft.health, opened = after_reply(draft.health, model)
        if opened:
            draft.decide(BreakerClosed(model))


def fall_back(draft: Draft, task: ModelTask, model: str, number: int, kind: ErrorKind, event: ModelFailed) -> bool:
    """Replace a failed model for the rest of the turn, if another model works; otherwise return False.

    If a retry may help and the breaker is closed, the same model is tried again first. A model with an open breaker is
    called if the turn would fail otherwise, but not for a summary, which is optional. ``number``: of the failed
    attempt.
    """
    config = draft.setup.config
    if not config.models:
        return False
    worth_another = kind in RETRIED and number < config.retry.attempts
    if worth_another and not is_open(draft.health, model, event.at):
        return False
    phase = draft.phase
    between_turns = isinstance(phase, Compacting) and phase.attempt is None
    if not between_turns and draft.exhausted_limit(event.at) is not None:
        return False
    given_up = (*draft.given_up, model)
    last = not worth_another and task != "summary"
    to = alternative(draft.order(task), draft.health, given_up, event.at, last=last)
    if to is None:
        return False
    draft.given_up = given_up
    draft.decide(FellBack(model, to, kind, event.failure.message))
    return True


def after_wait(draft: Draft, phase: Waiting, now: float) -> ModelAttempt:
    """Return the attempt after a wait.

    It is the first attempt with another model if that model works by now and the failed model's breaker is still open.
    """
    attempt, failure = phase.attempt, phase.failure
    if failure is None or not is_open(draft.health, attempt.model, now):
        return attempt
    given_up = (*draft.given_up, attempt.model)
    to = alternative(draft.order(draft.task), draft.health, given_up, now)
    if to is None:
        return attempt
    draft.given_up = given_up
    draft.decide(FellBack(attempt.model, to, classify(failure), failure.message))
    return evolve(attempt, number=1)
