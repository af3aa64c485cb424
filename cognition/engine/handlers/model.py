"""The model's side: a reply, a failure, an interruption, and the timer before another attempt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve

from cognition.base.ids import EffectId
from cognition.base.repetition import digest, fingerprint
from cognition.base.strict_json import DECODER
from cognition.context.window import scale_after_overflow, scale_after_refusal, shorten
from cognition.engine.draft import Draft, Setup
from cognition.engine.handlers._batch import ReadCall, begin_calls, refuse_over_limit, report_malformed
from cognition.engine.handlers._counting import apply_measurement
from cognition.engine.handlers._fallback import after_wait, fall_back, note_failure, note_reply
from cognition.engine.handlers.rejection import reject
from cognition.parsing.text_protocol import RETRY_NOTE, answer_so_far, read_text
from cognition.steps.decisions import Remember, RetryPlanned, StartTimer
from cognition.steps.inputs import ModelFailed, ModelInterrupted, ModelReplied, TimerFired
from cognition.steps.phases import FIRST_ATTEMPT, ModelAttempt, Thinking, Waiting
from cognition.steps.retry import RETRIED, classify, delay
from cognition.steps.state import AgentState
from cognition.steps.transition import Transition
from cognition.values.messages import AssistantMessage, MalformedToolCall, ToolCall, ToolResult, Usage, read_arguments
from cognition.values.outcomes import Cancelled, Completed, ErrorKind, Failed, Failure, LimitKind, LimitReached

NUDGES = 2
"""How often a reply without text and calls gets a reminder before the turn fails."""
REBUILDS = 3
"""How often a request that a runtime refuses as too long is built smaller."""
CUT_IN_CONTEXT = "the reply was cut because its prompt left too little of the context"
LONGEST_REASON = 1_000
"""Characters of the reason why a call is unreadable, which may name a key of any length."""
LONGEST_MARK = 1_000
"""Characters of a fingerprint; a digest stands for a longer one."""
NO_RESULT_FITS = "The call did not run: a result of it might not fit the prompt."
REFUSED = (
    "{message}; nothing more can be left out of this turn's request, so ask for less at once, or use a model with a "
    "longer context"
)
REPAIRS = 2
"""How often in a row unreadable output is sent back before the turn fails."""
CORRECTION_NOTE = "Your answer is not what was asked for: {objection}. Give the whole answer again, with that mended."
ANOTHER_CALL = "another model call is in flight"
ANOTHER_TIMER = "another timer is running"
NUDGE_NOTE = "Your reply was empty. Answer in text, or call a tool."


def on_model_replied(setup: Setup, state: AgentState, event: ModelReplied) -> Transition:
    phase = state.phase
    if not isinstance(phase, Thinking) or phase.effect_id != event.effect_id:
        return reject(state, event, ANOTHER_CALL)
    draft = Draft(setup, state)
    attempt, cut = phase.attempt, event.finish_reason == "length"
    note_reply(draft, attempt.model)
    cut_by = _uncounted_cut(draft, event) if cut and setup.budgets else None
    _count_reply(draft, event.usage, calibrate=attempt.purpose != "final_answer")
    over = (cut_by or draft.overdrawn(cut=cut)) if setup.budgets else None
    final = attempt.limit is not None  # tools were not offered, so calls in it mean nothing
    if attempt.limit is not None and over is None:
        _append_reply(draft, event, event.reasoning, cut=cut)
        if cut:
            draft.stop_truncated(_cut_detail(draft, event), _readable_answer(draft, event.text))
        else:
            draft.finish(LimitReached(attempt.limit, _readable_answer(draft, event.text)))
        return draft.seal()
    if final or setup.config.options.tool_choice == "none":  # nor do they where the program wants none
        event = evolve(event, calls=(), malformed=())
    if cut and over is None and _ask_in_less(draft, attempt, event):
        return draft.seal()
    native = final or setup.config.protocol == "native"
    reply = event if native else _parse_protocol(draft, event)
    calls, malformed = _parse_calls(draft, reply) if reply.calls or reply.malformed else ((), ())
    if over is not None:
        _stop_overdrawn(draft, event, reply, tuple([call for call, _, _ in calls]), over)
    elif calls:
        draft.repairs = 0
        asked = tuple([call for call, _, _ in calls])
        _append_reply(draft, event, reply.reasoning, asked, cut=cut)
        if why := draft.why_no_room(asked):
            _stop_without_room(draft, event, asked, why)
            return draft.seal()
        answer = "" if native and not cut else reply.text  # a text protocol may give one beside its calls
        begin_calls(draft, calls, malformed, answer, event.at, _cut_detail(draft, event) if cut else "")
    elif cut:
        _stop_truncated(draft, event, reply, malformed)
    elif malformed:
        _send_back(draft, reply, malformed)
    elif reply.text.strip():
        _append_reply(draft, event, reply.reasoning)
        if event.objection and draft.corrections < setup.config.limits.corrections:
            draft.corrections += 1
            draft.note(CORRECTION_NOTE.format(objection=event.objection))
            draft.next_model_call(event.at, ModelAttempt("repair"))
        else:
            draft.complete(Completed(reply.text, event.finish_reason))
    else:
        _nudge(draft, reply)
    return draft.seal()


def on_model_failed(setup: Setup, state: AgentState, event: ModelFailed) -> Transition:
    phase = state.phase
    if not isinstance(phase, Thinking) or phase.effect_id != event.effect_id:
        return reject(state, event, ANOTHER_CALL)
    draft = Draft(setup, state)
    draft.usage += event.usage
    attempt, kind = phase.attempt, classify(event.failure)
    note_failure(draft, attempt.model, kind, event)
    if event.partial_text:  # the user has read it; a second, different answer would contradict it
        draft.keep_partial(event.partial_text)
        draft.finish(Failed(kind, event.failure.message, _readable_answer(draft, event.partial_text)))
    elif kind == "context_overflow" and setup.config.edition != 1:
        _rebuild_and_retry(draft, attempt, event)
    elif kind == "context_overflow" and not attempt.trimmed:
        _trim_and_retry(draft, attempt, event)
    elif fall_back(draft, draft.task, attempt.model, attempt.number, kind, event):
        draft.next_model_call(event.at, evolve(attempt, number=1), again=True)
    elif kind in RETRIED and attempt.number < setup.config.retry.attempts:
        _plan_retry(draft, attempt, kind, event)
    else:
        draft.finish(Failed(kind, event.failure.message))
        if kind == "context_overflow":
            draft.trust_estimates()
    return draft.seal()


def on_model_interrupted(setup: Setup, state: AgentState, event: ModelInterrupted) -> Transition:
    phase = state.phase
    if not isinstance(phase, Thinking) or phase.effect_id != event.effect_id:
        return reject(state, event, ANOTHER_CALL)
    draft = Draft(setup, state)
    draft.usage += event.usage
    draft.keep_partial(event.partial_text)
    if event.late and setup.config.limits.seconds is not None:
        draft.stop_at("seconds", _readable_answer(draft, event.partial_text))
    else:
        draft.finish(Cancelled("the model call was interrupted", _readable_answer(draft, event.partial_text)))
    return draft.seal()


def on_timer_fired(setup: Setup, state: AgentState, event: TimerFired) -> Transition:
    phase = state.phase
    if not isinstance(phase, Waiting) or phase.effect_id != event.effect_id:
        return reject(state, event, ANOTHER_TIMER)
    draft = Draft(setup, state)
    exhausted = draft.exhausted_limit(event.at)
    if exhausted is not None:
        draft.stop_at(exhausted)
    else:
        draft.next_model_call(event.at, after_wait(draft, phase, event.at), again=True)
    return draft.seal()


def _append_reply(
    draft: Draft, event: ModelReplied, reasoning: str, calls: tuple[ToolCall, ...] = (), *, cut: bool = False
) -> None:
    draft.append(
        AssistantMessage(draft.new_message_id(), event.text, reasoning, calls, cut, event.tokens, event.continuation)
    )


def _stop_truncated(
    draft: Draft, event: ModelReplied, reply: ModelReplied, malformed: tuple[MalformedToolCall, ...]
) -> None:
    """End the turn with the partial text of a reply without calls, cut at its token limit.

    The model is not called again: the next reply would be cut too.
    """
    if event.text or reply.reasoning:
        _append_reply(draft, event, reply.reasoning, cut=True)
    report_malformed(draft, malformed)
    draft.stop_truncated(_cut_detail(draft, event), _readable_answer(draft, event.text))


def _stop_overdrawn(
    draft: Draft, event: ModelReplied, reply: ModelReplied, calls: tuple[ToolCall, ...], limit: LimitKind
) -> None:
    """End the turn at a budget that the reply used up. Its text stays in history, and none of its calls runs."""
    if event.text or reply.reasoning or calls:
        _append_reply(draft, event, reply.reasoning, calls, cut=event.finish_reason == "length")
    draft.record_results([(call, refuse_over_limit(draft, limit).result, "") for call in calls])
    whole = not calls and not reply.malformed
    draft.stop_at(limit, _readable_answer(draft, event.text) if whole or LimitReached(limit).cut else "")


def _stop_without_room(draft: Draft, event: ModelReplied, calls: tuple[ToolCall, ...], why: str) -> None:
    """End the turn before any of the calls runs."""
    draft.record_results([(call, ToolResult(NO_RESULT_FITS, "error"), "") for call in calls])
    draft.finish(Failed("context_overflow", why, _readable_answer(draft, event.text)))


def _ask_in_less(draft: Draft, attempt: ModelAttempt, event: ModelReplied) -> bool:
    """Repeat a call whose reply was cut because its prompt, estimated too small, took the reply's part of the context.

    The cut reply is a step of the turn and is not shown again. Return False if it was cut for another reason, if
    nothing more can be left out, or if the turn has no step or budget left.
    """
    setup, most = draft.setup, draft.setup.config.options.max_tokens
    if setup.config.edition == 1 or draft.costs is not None or event.usage.input_tokens <= setup.budget:
        return False
    if (most is not None and event.usage.output_tokens >= most) or attempt.rebuilt >= REBUILDS:
        return False
    if draft.steps >= setup.config.limits.steps or draft.exhausted_limit(event.at) is not None:
        return False
    window = draft.fitting_window()
    if window is None or window.size >= draft.size:
        return False
    draft.move(window)
    draft.decide(RetryPlanned("context_overflow", CUT_IN_CONTEXT, attempt.number + 1, 0.0))
    again = evolve(attempt, number=attempt.number + 1, rebuilt=attempt.rebuilt + 1)
    draft.next_model_call(event.at, again, again=True)
    return True


def _uncounted_cut(draft: Draft, event: ModelReplied) -> LimitKind | None:
    """Return the budget whose rest cut a reply, if the runtime reports no tokens."""
    return draft.tightest_output() if not event.usage.output_tokens and draft.most_output() is not None else None


def _cut_detail(draft: Draft, event: ModelReplied) -> str:
    config = draft.setup.config
    most = config.options.max_tokens
    if most is not None and not 0 < event.usage.output_tokens < most:
        return f"the reply was cut at its limit of {most} tokens; raise max_tokens, or ask for less at once"
    return (
        f"the reply was cut where the context of {config.context_tokens} tokens was full, whatever max_tokens says; "
        "use a longer context, or ask for less at once"
    )


def _readable_answer(draft: Draft, text: str) -> str:
    setup = draft.setup
    return answer_so_far(setup.config.protocol, text, setup.tools)


def _count_reply(draft: Draft, usage: Usage, *, calibrate: bool) -> None:
    draft.steps += 1
    draft.usage += usage
    if calibrate and usage.input_tokens > 0:
        apply_measurement(draft, usage.input_tokens)


def _parse_protocol(draft: Draft, event: ModelReplied) -> ModelReplied:
    reading = read_text(draft.setup.config.protocol, event.text, draft.setup.tools, event.finish_reason)
    for text in reading.remember:
        draft.decide(Remember(text))
    reasoning = "\n".join(part for part in (event.reasoning, reading.reasoning) if part)
    return evolve(event, text=reading.answer, reasoning=reasoning, calls=reading.calls, malformed=reading.malformed)


def _parse_calls(draft: Draft, event: ModelReplied) -> tuple[tuple[ReadCall, ...], tuple[MalformedToolCall, ...]]:
    """Return the reply's calls with their ids and fingerprints, and its unreadable calls as the model is shown them.

    Arguments that are not a JSON object, or that repeat a key, count as unreadable under every parser.
    """
    calls: list[ReadCall] = []
    limit = draft.setup.result_limit
    malformed = [evolve(item, raw=shorten(item.raw, limit)) for item in event.malformed]
    for proposed in event.calls:
        name, text = proposed.name, proposed.arguments_json
        try:
            arguments = read_arguments(name, text, DECODER)
            mark = _mark(name, arguments) if draft.setup.config.edition == 1 else ""
        except (ValueError, RecursionError) as error:  # RecursionError: arguments nested thousands deep
            reason = shorten(str(error), LONGEST_REASON)
            malformed.append(MalformedToolCall(shorten(f"{name} {text}", limit), reason))
        else:
            calls.append((ToolCall(draft.new_call_id(len(calls) + 1), name, text), mark, proposed.confirm))
    return tuple(calls), tuple(malformed)


def _mark(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a fingerprint of a call that is short, however long the arguments that many calls may share."""
    mark = fingerprint(name, arguments)
    return mark if len(mark) <= LONGEST_MARK else digest(mark)


def _send_back(draft: Draft, event: ModelReplied, malformed: tuple[MalformedToolCall, ...]) -> None:
    """Answer a reply with only unreadable calls: send the model its calls and their errors."""
    draft.repairs += 1
    if draft.repairs > REPAIRS:
        _append_reply(draft, event, event.reasoning)
        draft.finish(
            Failed("bad_output", f"the model's tool calls stayed unreadable: {malformed[0].reason}", event.text)
        )
        return
    if draft.setup.config.protocol == "native":
        _append_reply(draft, event, event.reasoning)
        report_malformed(draft, malformed)
    else:  # the convention itself was missed: repeating the bad reply would teach it
        draft.note(RETRY_NOTE.format(reason=malformed[0].reason))
    draft.next_model_call(event.at, ModelAttempt("repair"))


def _nudge(draft: Draft, event: ModelReplied) -> None:
    if event.reasoning:
        draft.append(AssistantMessage(draft.new_message_id(), "", event.reasoning, tokens=event.tokens))
    draft.nudges += 1
    if draft.nudges > NUDGES:
        draft.finish(Failed("bad_output", f"the model gave no answer in {draft.nudges} replies"))
        return
    draft.note(NUDGE_NOTE)
    draft.next_model_call(event.at, FIRST_ATTEMPT)


def _rebuild_and_retry(draft: Draft, attempt: ModelAttempt, event: ModelFailed) -> None:
    """Learn from the runtime's report, and build the request smaller, at most ``REBUILDS`` times.

    If there is nothing left to leave out, try the next model: it may have a longer context or count differently.
    """
    exhausted = draft.exhausted_limit(event.at)
    if exhausted is not None:
        draft.stop_at(exhausted)
        return
    failure, size, scale, slack = event.failure, draft.size, draft.scale, draft.slack
    learn_from_refusal(draft, draft.fixed + size, failure)
    corrected, window = draft.scale, draft.fitting_window() if attempt.rebuilt < REBUILDS else None
    if window is not None and window.size < size:
        draft.decide(RetryPlanned("context_overflow", failure.message, attempt.number + 1, 0.0))
        again = evolve(attempt, number=attempt.number + 1, rebuilt=attempt.rebuilt + 1)
        draft.next_model_call(event.at, again, again=True)
        return
    draft.scale, draft.slack = scale, slack
    if fall_back(draft, draft.task, attempt.model, attempt.number, "context_overflow", event):
        draft.next_model_call(event.at, evolve(attempt, number=1, rebuilt=0), again=True)
        return
    draft.scale, draft.slack = corrected, 0.0
    draft.finish(Failed("context_overflow", REFUSED.format(message=failure.message)))
    if draft.costs is not None:  # by estimates a prompt is sent in any case, and the next reply corrects them
        draft.trust_estimates()


def learn_from_refusal(draft: Draft, estimate: float, failure: Failure) -> None:
    """Correct the scale after the runtime refused a prompt of this unscaled size as too long."""
    corrected = scale_after_refusal(draft.scale, max(estimate, 1.0), draft.setup.budget, failure)
    draft.scale = corrected if draft.costs is None else max(corrected, draft.scale)
    draft.slack = 0.0


def _trim_and_retry(draft: Draft, attempt: ModelAttempt, event: ModelFailed) -> None:
    """In edition 1: correct an estimate that was too low by the runtime's report, and retry once.

    If there is nothing left to leave out, try the next model: it may have a longer context or count differently.
    """
    exhausted = draft.exhausted_limit(event.at)
    if exhausted is not None:
        draft.stop_at(exhausted)
        return
    failure, scale, slack = event.failure, draft.scale, draft.slack
    corrected = scale_after_overflow(scale, max(draft.fixed + draft.size, 1.0), draft.setup.budget, failure)
    draft.scale, draft.slack = corrected, 0.0
    if draft.fitting_window() is None:
        draft.scale, draft.slack = scale, slack
        if fall_back(draft, draft.task, attempt.model, attempt.number, "context_overflow", event):
            draft.next_model_call(event.at, evolve(attempt, number=1), again=True)
            return
        draft.scale, draft.slack = corrected, 0.0
    draft.decide(RetryPlanned("context_overflow", failure.message, attempt.number + 1, 0.0))
    draft.next_model_call(event.at, evolve(attempt, number=attempt.number + 1, trimmed=True), again=True)


def _plan_retry(draft: Draft, attempt: ModelAttempt, kind: ErrorKind, event: ModelFailed) -> None:
    number = attempt.number + 1
    effect_id = wait_before(draft, number, kind, event, draft.seconds_left(event.at))
    failure = event.failure if draft.setup.config.models else None
    draft.phase = Waiting(effect_id, evolve(attempt, number=number), failure)


def wait_before(draft: Draft, number: int, kind: ErrorKind, event: ModelFailed, left: float | None) -> EffectId:
    """Start the timer before attempt ``number`` of a failed model call. ``left``: the rest of the turn's time in
    seconds.
    """
    seconds = delay(draft.setup.config.retry, kind, number, draft.turn, event.failure.retry_after)
    if left is not None:
        seconds = min(seconds, left)  # when it has passed, the turn's time has too
    draft.decide(RetryPlanned(kind, event.failure.message, number, seconds))
    effect_id = draft.new_effect()
    draft.decide(StartTimer(effect_id, seconds))
    return effect_id
