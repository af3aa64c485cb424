"""Compaction: the model summarises older messages, and requests show the summary. The originals stay in history.

It happens before a model call of a turn, which follows in any case, or on request between two turns. A summary that
fails, is empty, is cut, or is not shorter than the summarised messages is discarded; the window alone then makes room.
"""

from __future__ import annotations

from attrs import evolve

from cognition.context.summaries import summarised_until, with_earlier_summary, with_summary
from cognition.context.window import message_size, scale_after_overflow, scale_after_refusal
from cognition.engine.draft import Draft, Setup
from cognition.engine.handlers._fallback import fall_back, note_failure, note_reply
from cognition.engine.handlers.model import (
    ANOTHER_CALL,
    ANOTHER_TIMER,
    REBUILDS,
    learn_from_refusal,
    wait_before,
)
from cognition.engine.handlers.rejection import reject
from cognition.parsing.text_protocol import answer_so_far, read_text
from cognition.steps.decisions import Compacted, NotCompacted
from cognition.steps.inputs import CompactionAsked, ModelFailed, ModelInterrupted, ModelReplied, TimerFired
from cognition.steps.phases import IDLE, Compacting
from cognition.steps.retry import RETRIED, classify
from cognition.steps.state import AgentState, Summary
from cognition.steps.transition import Transition
from cognition.values.messages import Usage
from cognition.values.outcomes import Cancelled, ErrorKind

NOTHING = "there is nothing to summarise"
NOTHING_NEW = "there is nothing to summarise since the summary before"
NO_ROOM = "the request for a summary would not fit the prompt's budget of {budget} tokens"
WAS_CUT = "the summary was cut before its end"
WAS_EMPTY = "the model wrote no summary"
CALLED = "the model called a tool in place of writing a summary"
NO_SHORTER = "the summary is no shorter than what it would stand for"


def on_compaction_asked(setup: Setup, state: AgentState, event: CompactionAsked) -> Transition:
    draft = Draft(setup, state)
    draft.given_up = ()  # those of the turn before
    until, exhausted = len(draft.history), draft.exhausted_session()
    begin = draft.first if setup.config.edition == 1 else summarised_until(draft.window())
    if exhausted is not None and setup.config.edition != 1:
        _report_failure(draft, draft.limit_detail(exhausted))
    elif begin == until:
        _report_failure(draft, NOTHING_NEW if draft.summary.text else NOTHING)
    elif not draft.ask_summary(None, until, setup.config.limits.seconds, event.at):
        _report_failure(draft, NO_ROOM.format(budget=setup.budget))
    return draft.seal()


def on_summary(setup: Setup, state: AgentState, event: ModelReplied) -> Transition:
    phase = _awaiting_phase(state, event)
    if phase is None:
        return reject(state, event, ANOTHER_CALL)
    draft = Draft(setup, state)
    draft.steps += phase.attempt is not None
    note_reply(draft, phase.model)
    count_usage(draft, phase, event.usage)
    problem = _apply_summary(draft, phase, event)
    if problem == CALLED and _has_step(draft, phase, event.at) and _ask_again(draft, phase, 1, event.at, apart=True):
        return draft.seal()
    if problem:
        _note_failure(draft, problem)
    elif phase.target is not None and _has_step(draft, phase, event.at) and _ask_again(draft, phase, 1, event.at):
        return draft.seal()
    _continue_turn(draft, phase, event.at)
    return draft.seal()


def _has_step(draft: Draft, phase: Compacting, now: float) -> bool:
    """Return whether the turn may take another step for a summary, beside one for its own call."""
    left = phase.attempt is None or draft.steps + 1 < draft.setup.config.limits.steps
    return left and not _exhausted(draft, phase, now)


def _exhausted(draft: Draft, phase: Compacting, now: float) -> bool:
    """Return whether a budget prevents another call for the summary."""
    return (draft.exhausted_session() if phase.attempt is None else draft.exhausted_limit(now)) is not None


def on_summary_failed(setup: Setup, state: AgentState, event: ModelFailed) -> Transition:
    """Repeat the call if the failure may pass; otherwise continue without a summary. The turn will meet the model's
    problem.
    """
    phase = _awaiting_phase(state, event)
    if phase is None:
        return reject(state, event, ANOTHER_CALL)
    draft = Draft(setup, state)
    count_usage(draft, phase, event.usage)
    kind, number, left = classify(event.failure), phase.number + 1, _seconds_left(draft, phase, event.at)
    note_failure(draft, phase.model, kind, event)
    if kind == "context_overflow" and _is_anothers(draft, phase, event.at) and _rebuild(draft, phase, event):
        return draft.seal()
    if fall_back(draft, "summary", phase.model, phase.number, kind, event) and _ask_again(
        draft, phase, number, event.at
    ):
        return draft.seal()
    if kind in RETRIED and phase.number < setup.config.retry.attempts:
        effect_id = wait_before(draft, number, kind, event, left)
        draft.phase = evolve(phase, effect_id=effect_id, number=number, waiting=True)
        return draft.seal()
    if _ask_otherwise(draft, phase, kind, event):
        return draft.seal()
    _note_failure(draft, f"the model call for the summary failed: {event.failure.message}")
    _continue_turn(draft, phase, event.at)
    return draft.seal()


def _ask_otherwise(draft: Draft, phase: Compacting, kind: ErrorKind, event: ModelFailed) -> bool:
    """Ask with a smaller request if this one was too long, or in a prompt of its own if this one was refused: a chat
    template may not take an instruction behind such a conversation. Return False if nothing is asked.
    """
    if kind == "fatal" and phase.shares_prefix and not _exhausted(draft, phase, event.at):
        return _ask_again(draft, phase, phase.number + 1, event.at, apart=True)
    if kind != "context_overflow" or _is_anothers(draft, phase, event.at):
        return False
    if draft.setup.config.edition != 1:
        return _rebuild(draft, phase, event)
    asking = draft.request_of(phase)
    if asking is not None:
        draft.scale = scale_after_overflow(draft.scale, asking[1], draft.setup.budget, event.failure)
    return False


def _is_anothers(draft: Draft, phase: Compacting, now: float) -> bool:
    """Return whether the summary was asked of another model than the turn's, whose context may be smaller."""
    return draft.setup.config.edition != 1 and phase.model != draft.model_for(draft.task, now)


def _rebuild(draft: Draft, phase: Compacting, event: ModelFailed) -> bool:
    """Learn from a refusal as too long, and ask with a smaller request, at most ``REBUILDS`` times. Return False if
    nothing is asked.

    A refusal by another model than the turn's does not shrink the turn's prompts.
    """
    asking = draft.request_of(phase)
    if asking is None:
        return False
    if not _is_anothers(draft, phase, event.at):
        learn_from_refusal(draft, asking[1], event.failure)
    else:
        scale = draft.summary.scale or draft.scale
        learned = scale_after_refusal(scale, max(asking[1], 1.0), draft.setup.budget, event.failure)
        draft.summary = evolve(draft.summary, scale=max(learned, scale))
    if phase.number > REBUILDS or _exhausted(draft, phase, event.at):
        return False
    return _ask_again(draft, phase, phase.number + 1, event.at)


def on_summary_interrupted(setup: Setup, state: AgentState, event: ModelInterrupted) -> Transition:
    phase = _awaiting_phase(state, event)
    if phase is None:
        return reject(state, event, ANOTHER_CALL)
    draft = Draft(setup, state)
    count_usage(draft, phase, event.usage)
    if phase.attempt is None:
        end_without(draft, "the model call for the summary was interrupted")
    elif event.late and setup.config.limits.seconds is not None:
        draft.stop_at("seconds")
    else:
        draft.finish(Cancelled("the model call was interrupted"))
    return draft.seal()


def on_summary_due(setup: Setup, state: AgentState, event: TimerFired) -> Transition:
    phase = _awaiting_phase(state, event)
    if phase is None:
        return reject(state, event, ANOTHER_TIMER)
    draft = Draft(setup, state)
    exhausted = None if phase.attempt is None else draft.exhausted_limit(event.at)
    if exhausted is not None:
        draft.stop_at(exhausted)
    elif not _ask_again(draft, phase, phase.number, event.at):
        _report_failure(draft, NO_ROOM.format(budget=setup.budget))
        _continue_turn(draft, phase, event.at)
    return draft.seal()


def _awaiting_phase(
    state: AgentState, event: ModelReplied | ModelFailed | ModelInterrupted | TimerFired
) -> Compacting | None:
    """Return the phase if a summary awaits this event: the end of its model call, or of the wait before a retry."""
    phase = state.phase
    if not isinstance(phase, Compacting) or phase.effect_id != event.effect_id:
        return None
    return phase if phase.waiting == isinstance(event, TimerFired) else None


def count_usage(draft: Draft, phase: Compacting, usage: Usage) -> None:
    """Count a summary's usage for the turn, or between turns for the session."""
    if phase.attempt is None:
        draft.total += usage
    else:
        draft.usage += usage


def end_without(draft: Draft, reason: str) -> None:
    _report_failure(draft, reason)
    draft.phase = IDLE


def _seconds_left(draft: Draft, phase: Compacting, now: float) -> float | None:
    """Return the rest of the turn's time; between turns the time of a whole turn."""
    return draft.setup.config.limits.seconds if phase.attempt is None else draft.seconds_left(now)


def _ask_again(draft: Draft, phase: Compacting, number: int, now: float, *, apart: bool = False) -> bool:
    """Ask for the summary once more: behind the conversation's prompt only if the same model was asked so before, or
    if another model now writes it.
    """
    seconds, same = _seconds_left(draft, phase, now), phase.model == draft.model_for("summary", now)
    apart = apart or (same and not phase.shares_prefix)
    return draft.ask_summary(phase.attempt, phase.end, seconds, now, number, apart=apart)


def _apply_summary(draft: Draft, phase: Compacting, event: ModelReplied) -> str:
    """Show the summary from now on; return the reason if that is impossible, else an empty text."""
    if event.finish_reason not in ("stop", "tool_calls"):
        return WAS_CUT
    if phase.shares_prefix and _has_calls(draft, event):
        return CALLED
    text = answer_so_far(draft.setup.config.protocol, event.text, draft.setup.tools).strip()
    if not text:
        return WAS_EMPTY
    summary, note = Summary(text, tokens=event.tokens), draft.setup.note_with(draft.costs)
    now, then, begin = draft.window(), draft.prompt_tokens(), draft.first
    earlier = draft.setup.config.edition != 1 and phase.until <= now.first
    window = (with_earlier_summary if earlier else with_summary)(
        draft.history, now, phase.until, summary, draft.costs, note
    )
    if draft.setup.config.edition != 1:  # what was left out counts too
        begin = summarised_until(now)
        hidden = sum(message_size(draft.history[index]) for index in range(begin, min(phase.until, now.first)))
        then += int(hidden * draft.scale)
    draft.move(window)
    if draft.prompt_tokens() >= then:
        if phase.target is not None:  # the beginning of a turn, whose question is still shown: the next piece saves it
            return ""
        draft.move(now)
        return NO_SHORTER
    draft.decide(Compacted(phase.until - begin, then, draft.prompt_tokens()))
    return ""


def _has_calls(draft: Draft, event: ModelReplied) -> bool:
    """Return whether the reply continues the conversation with calls."""
    protocol = draft.setup.config.protocol
    reply = event if protocol == "native" else read_text(protocol, event.text, draft.setup.tools)
    return bool(reply.calls or reply.malformed)


def _note_failure(draft: Draft, reason: str) -> None:
    """Report a failed summary; the more in a row, the later the next automatic request."""
    if draft.setup.config.edition != 1:
        draft.summary = evolve(draft.summary, failures=draft.summary.failures + 1)
    _report_failure(draft, reason)


def _report_failure(draft: Draft, reason: str) -> None:
    """Report that there is no summary, and delay the next automatic request."""
    draft.summary = evolve(draft.summary, tried=len(draft.history))
    draft.decide(NotCompacted(reason))


def _continue_turn(draft: Draft, phase: Compacting, now: float) -> None:
    if phase.attempt is None:
        draft.phase = IDLE
    else:
        draft.next_model_call(now, phase.attempt)
