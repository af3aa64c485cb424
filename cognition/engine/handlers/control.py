"""The user's side: a message, a cancellation, a reset, the end."""

from __future__ import annotations

from cognition.base.display import shown_name
from cognition.engine.draft import UNSPENT, Draft, Setup
from cognition.engine.handlers._context_choice import choose_context
from cognition.engine.handlers._counting import count_by
from cognition.engine.handlers.compaction import count_usage, end_without
from cognition.engine.handlers.engine_calls import set_mode
from cognition.engine.handlers.hooks import open_turn
from cognition.engine.handlers.rejection import reject
from cognition.parsing.text_protocol import answer_so_far
from cognition.steps.decisions import CancelEffect, PlanChanged, RulesForgotten, SessionClosed, TasksChanged
from cognition.steps.inputs import (
    ApprovalsForgotten,
    CancelAsked,
    ModeChanged,
    ModelChosen,
    SessionReset,
    ShutdownAsked,
    UserSpoke,
)
from cognition.steps.phases import (
    FIRST_ATTEMPT,
    Acting,
    AwaitingHook,
    CallSlot,
    Closed,
    Compacting,
    Idle,
    Running,
    Settled,
    Thinking,
    in_flight,
)
from cognition.steps.state import AgentState
from cognition.steps.transition import Transition
from cognition.values.messages import ToolResult, UserMessage
from cognition.values.outcomes import Cancelled
from cognition.values.routing import OWN, after_choice

RETURNS_NOTE = "Give your answer as JSON, and as nothing else, that follows this JSON Schema: {schema}"
NOT_RUN = ToolResult("The call was cancelled before it ran.", "cancelled")
STOPPED = ToolResult("The call was cancelled while it ran; it changes nothing.", "cancelled")
MAY_HAVE_HAPPENED = ToolResult(
    "The call was cancelled while it ran. It may have happened, in part or in whole: look before you call it again.",
    "cancelled",
)
RAN = ToolResult(
    "The call ran to its end, and its result was lost by a cancellation. Look before you call it again.", "cancelled"
)
FAILED = ToolResult(
    "The call failed, and its error was lost by a cancellation. It may have happened in part: look before you call "
    "it again.",
    "cancelled",
)
HAD_FAILED = ToolResult(
    "The call had failed, and was cancelled before it was tried again. It may have happened in part: look before you "
    "call it again.",
    "cancelled",
)
READING_HAD_FAILED = ToolResult(
    "The call had failed, and was cancelled before it was tried again; it changes nothing.", "cancelled"
)
NOTHING_KNOWN = CancelAsked()


def on_user_spoke(setup: Setup, state: AgentState, event: UserSpoke) -> Transition:
    draft = Draft(setup, state, UNSPENT)
    draft.begin_turn(event.at)
    if event.system is not None:
        draft.change_system(event.system)
    if event.costs is not None:
        count_by(draft, event.costs, event.earlier)
    draft.append(UserMessage(draft.new_message_id(), event.text, "user", event.parts, event.tokens))
    draft.returns = event.returns or setup.config.options.response_format
    if draft.returns:
        draft.note(RETURNS_NOTE.format(schema=draft.returns))
    if (event.context or draft.briefing is not None) and not choose_context(draft, event):
        return draft.seal()
    config = setup.config
    if config.hooks or config.recall_first:
        open_turn(draft, event.text, event.at)
    else:
        draft.next_model_call(event.at, FIRST_ATTEMPT)
    return draft.seal()


def on_cancel(setup: Setup, state: AgentState, event: CancelAsked) -> Transition:
    draft = Draft(setup, state)
    if isinstance(state.phase, Compacting):  # what there is of a summary is no answer
        count_usage(draft, state.phase, event.usage)
        text = ""
    else:
        draft.usage += event.usage
        text = answer_so_far(setup.config.protocol, event.partial_text, setup.tools)
    _stop(draft, Cancelled(event.reason, text), event)
    return draft.seal()


def on_reset(setup: Setup, state: AgentState, event: SessionReset) -> Transition:
    draft = Draft(setup, state)
    if not isinstance(draft.phase, Idle):
        _stop(draft, Cancelled("the session was reset"))
    draft.empty()
    if draft.tasks:
        draft.tasks = ()
        draft.decide(TasksChanged(()))
    if draft.plan is not None:
        draft.plan = None
        draft.decide(PlanChanged(None))
    if draft.mode == "plan":
        set_mode(draft, draft.resume_mode)
    return draft.seal()


def on_mode_changed(setup: Setup, state: AgentState, event: ModeChanged) -> Transition:
    draft = Draft(setup, state)
    if event.mode == "plan" and draft.mode != "plan":
        draft.resume_mode = draft.mode
    set_mode(draft, event.mode)
    return draft.seal()


def on_model_chosen(setup: Setup, state: AgentState, event: ModelChosen) -> Transition:
    known = setup.config.models
    if event.model != OWN and event.model not in known:
        named = ", ".join(map(repr, known)) or "none"
        return reject(state, event, f"there is no model {shown_name(event.model)!r}; beside the agent's own: {named}")
    draft = Draft(setup, state)
    draft.model, draft.health = event.model, after_choice(draft.health, event.model)
    draft.given_up = tuple([name for name in draft.given_up if name != event.model])
    return draft.seal()


def on_approvals_forgotten(setup: Setup, state: AgentState, event: ApprovalsForgotten) -> Transition:
    draft = Draft(setup, state)
    draft.remembered = tuple([rule for rule in draft.remembered if event.rules and rule.tool not in event.rules])
    draft.decide(RulesForgotten(event.rules))
    return draft.seal()


def on_shutdown(setup: Setup, state: AgentState, event: ShutdownAsked) -> Transition:
    draft = Draft(setup, state)
    if not isinstance(draft.phase, Idle):
        _stop(draft, Cancelled("the session was closed"))
    draft.decide(SessionClosed())
    draft.phase = Closed()
    return draft.seal()


def _stop(draft: Draft, outcome: Cancelled, known: CancelAsked = NOTHING_KNOWN) -> None:
    """End the turn, or a summary between turns, immediately.

    Cancel effects in flight, give every open call a result, and keep the text that the user has read. ``known`` is the
    interpreter's knowledge of the effects in flight.
    """
    phase = draft.phase
    for effect_id in in_flight(phase):
        draft.decide(CancelEffect(effect_id))
    if isinstance(phase, Compacting) and phase.attempt is None:
        end_without(draft, outcome.reason or "it was cancelled")
        return
    if isinstance(phase, Thinking):
        draft.keep_partial(known.partial_text)
    elif isinstance(phase, Acting):
        draft.record_results([(slot.call, _result(draft.setup, slot, known), "") for slot in phase.slots])
    draft.finish(outcome)


def _result(setup: Setup, slot: CallSlot, known: CancelAsked) -> ToolResult:
    """Return a cancelled call's result, with the known facts, since the model may want to repeat the call."""
    tool = setup.tools.get(slot.call.name)
    reading = tool is not None and tool.read_only
    match slot.status:
        case Settled(result=result):
            return result
        case Running(effect_id=effect_id) if effect_id not in known.not_begun:
            if reading:
                return STOPPED
            return RAN if effect_id in known.returned else MAY_HAVE_HAPPENED
        case AwaitingHook(result=result) if result is not None:  # and the hook has not let it be shown
            return RAN if result.status == "ok" else FAILED
        case _ if slot.failed:
            return READING_HAD_FAILED if reading else HAD_FAILED
        case _:
            return NOT_RUN
