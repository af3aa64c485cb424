"""The model's side: a reply, a failure, an interruption, and the timer before another attempt."""

from __future__ import annotations

from attrs import evolve

from cognition.context import measured
from cognition.decisions import RetryPlanned, StartTimer
from cognition.draft import Draft, Setup
from cognition.handlers.rejection import reject
from cognition.handlers.tools import begin_calls, tell_malformed
from cognition.inputs import ModelFailed, ModelInterrupted, ModelReplied, TimerFired
from cognition.messages import AssistantMessage, MalformedToolCall, ProposedCall, ToolCall, Usage
from cognition.outcomes import Cancelled, Completed, ErrorKind, Failed, Failure, LimitReached
from cognition.phases import ModelAttempt, Thinking, Waiting
from cognition.retry import RETRIED, classify, delay
from cognition.state import AgentState
from cognition.transition import Transition

NUDGES = 2
"""How often a reply without text and calls is answered with a reminder before the turn fails."""
REPAIRS = 2
"""How often in a row unreadable output is sent back before the turn fails."""
NUDGE_NOTE = "Your reply was empty. Answer in text, or call a tool."


def on_model_replied(setup: Setup, state: AgentState, event: ModelReplied) -> Transition:
    phase = state.phase
    if not isinstance(phase, Thinking) or phase.effect_id != event.effect_id:
        return reject(state, event, "another model call is in flight")
    draft = Draft(setup, state)
    attempt = phase.attempt
    _count_reply(draft, event.usage, calibrate=attempt.purpose != "final_answer")
    if attempt.limit is not None:  # the final answer: tools were not offered, so calls in it mean nothing
        draft.append(AssistantMessage(draft.new_message_id(), event.text, event.reasoning))
        draft.finish(LimitReached(attempt.limit, event.text))
        return draft.seal()
    calls, malformed = _readable(draft, event)
    if calls:
        _count_repairs(draft, 0)
        draft.append(AssistantMessage(draft.new_message_id(), event.text, event.reasoning, calls))
        begin_calls(draft, calls, malformed, event.at)
    elif malformed:
        _send_back(draft, event, malformed)
    elif event.text.strip():
        draft.append(AssistantMessage(draft.new_message_id(), event.text, event.reasoning))
        draft.finish(Completed(event.text, event.finish_reason))
    else:
        _nudge(draft, event)
    return draft.seal()


def on_model_failed(setup: Setup, state: AgentState, event: ModelFailed) -> Transition:
    phase = state.phase
    if not isinstance(phase, Thinking) or phase.effect_id != event.effect_id:
        return reject(state, event, "another model call is in flight")
    draft = Draft(setup, state)
    draft.count(usage=draft.spent.usage + event.usage)
    kind = classify(event.failure)
    if event.partial_text:  # the user has read it; a second, different answer would contradict it
        draft.keep_partial(event.partial_text)
        draft.finish(Failed(kind, event.failure.message, event.partial_text))
    elif kind == "context_overflow" and not phase.attempt.trimmed:
        _trim_and_retry(draft, phase.attempt, event.failure)
    elif kind in RETRIED and phase.attempt.number < setup.config.retry.attempts:
        _plan_retry(draft, phase.attempt, kind, event)
    else:
        draft.finish(Failed(kind, event.failure.message))
    return draft.seal()


def on_model_interrupted(setup: Setup, state: AgentState, event: ModelInterrupted) -> Transition:
    phase = state.phase
    if not isinstance(phase, Thinking) or phase.effect_id != event.effect_id:
        return reject(state, event, "another model call is in flight")
    draft = Draft(setup, state)
    draft.count(usage=draft.spent.usage + event.usage)
    draft.keep_partial(event.partial_text)
    draft.finish(Cancelled("the model call was interrupted", event.partial_text))
    return draft.seal()


def on_timer_fired(setup: Setup, state: AgentState, event: TimerFired) -> Transition:
    phase = state.phase
    if not isinstance(phase, Waiting) or phase.effect_id != event.effect_id:
        return reject(state, event, "another timer is running")
    draft = Draft(setup, state)
    exhausted = draft.exhausted(event.at)
    if exhausted is not None:
        draft.stop_at(exhausted)
    else:
        draft.ask_model(phase.attempt, new_step=False)
    return draft.seal()


def _count_reply(draft: Draft, usage: Usage, *, calibrate: bool) -> None:
    spent = draft.spent
    draft.count(steps=spent.steps + 1, usage=spent.usage + usage)
    if calibrate and usage.input_tokens > 0:
        draft.window = measured(draft.window, draft.setup.fixed, usage.input_tokens)


def _count_repairs(draft: Draft, repairs: int) -> None:
    if draft.spent.repairs != repairs:
        draft.count(repairs=repairs)


def _readable(draft: Draft, event: ModelReplied) -> tuple[tuple[ToolCall, ...], tuple[MalformedToolCall, ...]]:
    """The reply's calls with ids of ours; a call whose arguments are no JSON object counts as malformed."""
    calls: list[ToolCall] = []
    malformed = list(event.malformed)
    for proposed in event.calls:
        call = ToolCall(draft.new_call_id(len(calls) + 1), proposed.name, proposed.arguments_json)
        problem = _problem_with(call)
        if problem:
            malformed.append(_unreadable(proposed, problem))
        else:
            calls.append(call)
    return tuple(calls), tuple(malformed)


def _problem_with(call: ToolCall) -> str:
    try:
        call.arguments  # noqa: B018 - decoding is the check
    except (ValueError, RecursionError) as error:  # RecursionError: arguments nested thousands deep
        return str(error)
    return ""


def _unreadable(proposed: ProposedCall, problem: str) -> MalformedToolCall:
    return MalformedToolCall(f"{proposed.name} {proposed.arguments_json}", problem)


def _send_back(draft: Draft, event: ModelReplied, malformed: tuple[MalformedToolCall, ...]) -> None:
    """Nothing but unreadable calls: show the model what it wrote and what is wrong with it."""
    repairs = draft.spent.repairs + 1
    if repairs > REPAIRS:
        draft.append(AssistantMessage(draft.new_message_id(), event.text, event.reasoning))
        draft.finish(
            Failed("bad_output", f"the model's tool calls stayed unreadable: {malformed[0].reason}", event.text)
        )
        return
    draft.count(repairs=repairs)
    written = "\n".join(part for part in (event.text, *(item.raw for item in malformed)) if part)
    draft.append(AssistantMessage(draft.new_message_id(), written, event.reasoning))
    tell_malformed(draft, malformed)
    draft.go_on(event.at, ModelAttempt("repair"))


def _nudge(draft: Draft, event: ModelReplied) -> None:
    if event.reasoning:
        draft.append(AssistantMessage(draft.new_message_id(), "", event.reasoning))
    nudges = draft.spent.nudges + 1
    if nudges > NUDGES:
        draft.finish(Failed("bad_output", f"the model gave no answer in {nudges} replies"))
        return
    draft.count(nudges=nudges)
    draft.note(NUDGE_NOTE)
    draft.go_on(event.at, ModelAttempt())


def _trim_and_retry(draft: Draft, attempt: ModelAttempt, failure: Failure) -> None:
    """The estimate was too low: correct it by what the runtime says, so that ``fit`` drops turns, and try once more."""
    setup, window = draft.setup, draft.window
    estimated = (setup.fixed + window.size) * window.scale
    needed = failure.needed_tokens or 1.5 * max(estimated, setup.budget)
    share = failure.available_tokens / setup.budget if failure.available_tokens else 1.0
    scale = max(needed / (setup.fixed + window.size) / min(share, 1.0), window.scale)
    draft.window = evolve(window, scale=scale)
    draft.decide(RetryPlanned("context_overflow", failure.message, attempt.number + 1, 0.0))
    draft.ask_model(evolve(attempt, number=attempt.number + 1, trimmed=True), new_step=False)


def _plan_retry(draft: Draft, attempt: ModelAttempt, kind: ErrorKind, event: ModelFailed) -> None:
    number = attempt.number + 1
    seconds = delay(draft.setup.config.retry, kind, number, draft.turn, event.failure.retry_after)
    draft.decide(RetryPlanned(kind, event.failure.message, number, seconds))
    identity = draft.new_effect()
    draft.decide(StartTimer(identity, seconds))
    draft.phase = Waiting(identity, evolve(attempt, number=number))
