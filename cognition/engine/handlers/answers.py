"""Answers to the calls that the engine itself executes: from the user, the memory and the workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cognition.context.recalled_memory import fit_notes, share_of_memory
from cognition.engine.draft import Draft, Setup
from cognition.engine.handlers._batch import Awaiting, Found, call_at, draft_for_person, find, settle
from cognition.engine.handlers._context_choice import newest_size
from cognition.engine.handlers.engine_calls import set_mode
from cognition.engine.handlers.rejection import reject
from cognition.steps.decisions import PlanChanged
from cognition.steps.engine_tools import ASK_USER, RECALL, SPAWN_WORKER, SUBMIT_PLAN, read_plan, read_questions
from cognition.steps.inputs import (
    EffectAnswer,
    MemoryRecalled,
    PlanReviewed,
    QuestionAnswered,
    WorkerFailed,
    WorkerFinished,
    WorkerStalled,
)
from cognition.steps.phases import FIRST_ATTEMPT, AwaitingAnswer, Recalling, Running
from cognition.steps.state import AgentState
from cognition.steps.transition import Transition
from cognition.steps.vocabulary import own_arguments
from cognition.values.counts import MOST_TOKENS
from cognition.values.messages import ToolResult

APPROVED = "The plan is approved. Carry it out step by step and call finish_step after each."


def on_question_answered(setup: Setup, state: AgentState, event: QuestionAnswered) -> Transition:
    found = _find(setup, state, AwaitingAnswer, ASK_USER.name, event)
    if found is None:
        return reject(state, event, "no question awaits this answer")
    questions = read_questions(_arguments(setup, found))
    fits = len(event.answers) == len(questions) and all(
        chosen and (question.multiple or len(chosen) == 1)
        for question, chosen in zip(questions, event.answers, strict=False)
    )
    if not fits:
        return reject(
            state, event, f"{len(questions)} answers are expected, one choice each unless several are allowed"
        )
    lines = (f"{q.text} {', '.join(chosen)}" for q, chosen in zip(questions, event.answers, strict=True))
    return _settle(setup, state, found, ToolResult("\n".join(lines)), event)


def on_plan_reviewed(setup: Setup, state: AgentState, event: PlanReviewed) -> Transition:
    found = _find(setup, state, AwaitingAnswer, SUBMIT_PLAN.name, event)
    if found is None:
        return reject(state, event, "no plan awaits a review")
    draft = draft_for_person(setup, state, found[0], event.at)
    if event.approved:
        draft.plan = read_plan(_arguments(setup, found))
        draft.decide(PlanChanged(draft.plan))
        if draft.mode == "plan":
            set_mode(draft, draft.resume_mode)
        result = ToolResult(f"{APPROVED} {event.feedback}".rstrip())
    else:
        result = ToolResult(f"The user wants another plan: {event.feedback or 'no reason given'}", "refused")
    settle(draft, *found, result, event.at)
    return draft.seal()


def on_memory_recalled(setup: Setup, state: AgentState, event: MemoryRecalled) -> Transition:
    if isinstance(state.phase, Recalling) and state.phase.effect_id == event.effect_id:
        draft = Draft(setup, state)
        if event.items:
            _note_memory(draft, event)
        draft.next_model_call(event.at, FIRST_ATTEMPT)
        return draft.seal()
    found = _find(setup, state, Running, RECALL.name, event)
    if found is None:
        return reject(state, event, "nothing is being recalled under this id")
    text = "\n".join(event.items)
    result = ToolResult(text, tokens=event.tokens) if text else ToolResult("Nothing found.")
    return _settle(setup, state, found, result, event)


def _note_memory(draft: Draft, event: MemoryRecalled) -> None:
    """Add a note with the memory's findings for the user's message, within its room and the memory's share."""
    setup = draft.setup
    room = min(setup.budget, MOST_TOKENS) / draft.scale - draft.fixed
    most = min(room * share_of_memory(setup.config.sections), room - newest_size(draft))
    told = fit_notes(event.items, event.tokens, draft.costs, most)
    if told is not None:
        draft.note(*told)


def on_worker_finished(setup: Setup, state: AgentState, event: WorkerFinished) -> Transition:
    return _end_worker(setup, state, event, ToolResult(event.text, tokens=event.tokens))


def on_worker_failed(setup: Setup, state: AgentState, event: WorkerFailed) -> Transition:
    return _end_worker(setup, state, event, ToolResult(f"Error: the worker failed: {event.message}", "error"))


def on_worker_stalled(setup: Setup, state: AgentState, event: WorkerStalled) -> Transition:
    message = event.message or "it made no progress"
    return _end_worker(setup, state, event, ToolResult(f"Error: the worker stalled: {message}", "error"))


def _end_worker(
    setup: Setup, state: AgentState, event: WorkerFinished | WorkerFailed | WorkerStalled, result: ToolResult
) -> Transition:
    found = _find(setup, state, Running, SPAWN_WORKER.name, event)
    if found is None:
        return reject(state, event, "no worker is at work under this id")
    draft = Draft(setup, state)
    draft.usage += event.usage
    settle(draft, *found, result, event.at)
    return draft.seal()


def _find(setup: Setup, state: AgentState, status: Awaiting, name: str, event: EffectAnswer) -> Found | None:
    found = find(state.phase, status, event.effect_id)
    fits = found is not None and setup.engine_tools.get(call_at(found).name) == name
    return found if fits else None


def _arguments(setup: Setup, found: Found) -> Mapping[str, Any]:
    """Return the arguments of a started call, which are therefore readable."""
    call = call_at(found)
    return own_arguments(call.name, call.arguments, setup.config.names)


def _settle(setup: Setup, state: AgentState, found: Found, result: ToolResult, event: EffectAnswer) -> Transition:
    draft = draft_for_person(setup, state, found[0], event.at)
    settle(draft, *found, result, event.at)
    return draft.seal()
