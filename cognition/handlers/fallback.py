"""What a failure or a reply says of a model, and the turn to another one."""

from __future__ import annotations

from attrs import evolve

from cognition.decisions import BreakerClosed, BreakerOpened, FellBack
from cognition.draft import Draft
from cognition.inputs import ModelFailed
from cognition.outcomes import ErrorKind
from cognition.phases import Compacting, ModelAttempt, Waiting
from cognition.retry import RETRIED, classify
from cognition.routing import ModelTask, after_failure, after_reply, alternative, is_open


def note_failure(draft: Draft, model: str, kind: ErrorKind, event: ModelFailed) -> None:
    """Count a failure against the model, whose breaker may open by that."""
    config = draft.setup.config
    if not config.models:
        return
    failure = event.failure
    draft.health, seconds = after_failure(draft.health, model, kind, failure.retry_after, config.breaker, event.at)
    if seconds is not None:
        draft.decide(BreakerOpened(model, seconds, kind, failure.message))


def note_reply(draft: Draft, model: str) -> None:
    """Count a reply for the model, whose breaker closes if it had opened."""
    if draft.health:
        draft.health, opened = after_reply(draft.health, model)
        if opened:
            draft.decide(BreakerClosed(model))


def fall_back(draft: Draft, task: ModelTask, model: str, number: int, kind: ErrorKind, event: ModelFailed) -> bool:
    """Turn away from a model that has failed, for the rest of the turn, if another one works; else False.

    One whose breaker has not opened is tried again first, where that may help. One whose breaker is open is called
    where the turn would fail without it, but not for a summary, which a turn can do without. ``number``: of the attempt
    that failed.
    """
    config = draft.setup.config
    if not config.models:
        return False
    worth_another = kind in RETRIED and number < config.retry.attempts
    if worth_another and not is_open(draft.health, model, event.at):
        return False
    phase = draft.phase
    between_turns = isinstance(phase, Compacting) and phase.attempt is None
    if not between_turns and draft.exhausted(event.at) is not None:
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
    """The attempt that follows a wait: the first one of another model, where one works by now and the breaker of the
    model that has failed is still open.
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
