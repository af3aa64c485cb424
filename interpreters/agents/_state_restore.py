"""Starts of a session from a state that the program stored, or from a conversation that another user recorded.

A stored state is checked: whether a session can continue from it. It contains no effects. They follow from the phase,
the history and the configuration.

Of another user's recording, only the conversation is taken over. The other user chose the policy, limits, tools,
remembered approvals, mode, plan, counters and open effects, so none of them can be trusted. The new state has its own
message ids and exactly one result for each call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isfinite

from attrs import astuple, evolve

from cognition import (
    AgentState,
    AskApproval,
    AssistantMessage,
    CallModel,
    CallTool,
    CognitiveEngine,
    ConfigError,
    EffectId,
    LLMEngine,
    Message,
    Recall,
    RunHook,
    StartTimer,
    ToolCall,
    ToolMessage,
    UserMessage,
    in_flight,
)
from cognition.base.ids import parse_effect_id
from cognition.base.strict_json import DECODER
from cognition.context import before_window, end_of_asking
from cognition.context.window import message_size
from cognition.engine.draft import Draft, Setup
from cognition.engine.handlers.engine_calls import start_engine_call
from cognition.steps.decisions import EFFECT_TYPES, Effect
from cognition.steps.engine_tools import SPAWN_WORKER
from cognition.steps.phases import (
    Acting,
    AwaitingAnswer,
    AwaitingApproval,
    AwaitingHook,
    CallSlot,
    Closed,
    Compacting,
    Hooked,
    Proposed,
    Recalling,
    Retrying,
    Running,
    Settled,
    Thinking,
    Waiting,
)
from cognition.steps.state import Counters, Window
from cognition.values.history import History

NO_RESULT = "The recording has no result of this call. It may have happened: look before you call it again."
AS_IT_WAS = "give the agent the tools, features and hooks that it had then, or keep the state between turns"
MADE_BY_HAND = "keep what agent.state gave, or make a state of messages by import_messages"


def check_state(state: AgentState) -> None:
    """Check that a session can continue from a state: its parts must be consistent.

    Raises:
        ConfigError: they are not, or the session is closed.
    """
    if isinstance(state.phase, Closed):
        raise ConfigError("state: this session was closed for good; begin a new one")
    for problem in _problems(state):
        raise ConfigError(f"state: {problem}; {MADE_BY_HAND}")


def _problems(state: AgentState) -> Iterator[str]:
    history, counters = state.history, state.counters
    if not 0 <= state.window.first <= len(history):
        yield f"its window begins at message {state.window.first} of {len(history)}"
    ends, limits = [end for end, _ in state.window.cuts], [limit for _, limit in state.window.cuts]
    if ends != sorted(set(ends)) or not all(0 < end <= len(history) for end in ends) or min(limits, default=0) < 0:
        yield f"its window shortens results at places or to lengths that can't be: {state.window.cuts}"
    yield from _summary_problems(state)
    ids = [message.id for message in history]
    if len(set(ids)) < len(ids):
        yield "two of its messages have the same id"
    numbers = [int(one[1:]) for one in ids if one[:1] == "m" and one[1:].isdecimal() and len(one) < 20]
    if max(numbers, default=0) > counters.messages:
        yield f"it counts {counters.messages} messages and has one with the id m{max(numbers)}"
    yield from _number_problems(state)
    open_calls: list[tuple[str, str]] = []
    for message in history:
        if isinstance(message, ToolMessage):
            if not open_calls or open_calls.pop(0)[0] != message.call_id:
                yield f"the result {message.id} stands behind no reply with its call, or in another order"
        elif open_calls:
            yield f"the call {open_calls[0][0]!r} has no result"
        elif isinstance(message, AssistantMessage):
            open_calls = [(call.id, call.name) for call in message.calls]
    phase = state.phase
    acting = [slot.call for slot in phase.slots] if isinstance(phase, Acting) else []
    if open_calls != [(call.id, call.name) for call in acting]:
        yield "the calls that its newest reply leaves open are not those of its phase"
    if not all(map(is_readable, acting)):
        yield "the arguments of an open call are no JSON object"
    waited = in_flight(phase)
    if len(set(waited)) < len(waited) or not all(_was_decided(one, state) for one in waited):
        yield "what its phase waits for has ids that it did not give"


def _summary_problems(state: AgentState) -> Iterator[str]:
    history, window, phase = state.history, state.window, state.phase
    summary = window.summary
    asked, first = summary.asked, window.first
    in_a_turn = 0 <= first < len(history) and isinstance(history[first], AssistantMessage)
    places = (summary.messages, summary.tried or 0, phase.until if isinstance(phase, Compacting) else first)
    if not all(0 <= place <= len(history) for place in places):
        yield f"its summary is of messages {places} of {len(history)}"
    elif asked is not None and not (in_a_turn and asked >= 0 and end_of_asking(history, asked) <= first):
        yield f"its window begins at message {first}, which can't be in the middle of a turn that begins at {asked}"
    elif len(before_window(history, window)) > first:
        yield "its summary stands for fewer messages than there are in its place"


def _number_problems(state: AgentState) -> Iterator[str]:
    """Yield the numbers that no session can have but stored data may."""
    spent, window, phase = state.spent, state.window, state.phase
    asked_at = phase.asked_at if isinstance(phase, Acting) else None
    floats = (spent.started_at, asked_at or 0.0, window.size, window.scale, spent.usage.cost, state.total.cost)
    if not (all(map(isfinite, floats)) and window.scale > 0.0):
        yield "one of its numbers can't be counted with"
    spends = (spent.steps, spent.tool_calls, spent.refusals, spent.nudges, spent.repairs, spent.workers)
    failed = [slot.failed for slot in phase.slots] if isinstance(phase, Acting) else []
    if min(*spends, *failed, spent.hook_continuations, *astuple(state.counters)) < 0:
        yield "one of its counts is below zero"


def _was_decided(effect_id: EffectId, state: AgentState) -> bool:
    """Whether the counters have passed an effect's id, as after every effect decided in this turn."""
    place, counters = parse_effect_id(effect_id), state.counters
    return place is not None and (counters.turn, 0, 0) <= place < (counters.turn, counters.step, counters.index)


def in_flight_of(engine: CognitiveEngine, state: AgentState) -> dict[EffectId, Effect]:
    """Return the effects that a state waits for, as they were decided, oldest first.

    A timer ends immediately, since its elapsed time is unknown. A model call gets the turn's full time again.

    Raises:
        ConfigError: a turn is open, and the engine is not an ``LLMEngine`` or lacks the tools or hooks for it.
    """
    if not in_flight(state.phase):
        return {}
    if not isinstance(engine, LLMEngine):
        raise ConfigError(
            "state: a turn is open in it, and only an LLMEngine's can be gone on with; keep the state between turns, "
            "or record the session and resume it"
        )
    hooks, known = engine.config.hooks, engine.effects
    effects = list(_effects(engine, state))
    for effect in effects:
        if type(effect) not in known or (isinstance(effect, RunHook) and effect.point not in hooks):
            raise ConfigError(f"state: it waits for a {type(effect).__name__}; {AS_IT_WAS}")
    decided = sorted(effects, key=lambda effect: parse_effect_id(effect.effect_id) or ())
    return {effect.effect_id: effect for effect in decided}


def _effects(engine: LLMEngine, state: AgentState) -> Iterator[Effect]:
    seconds = engine.config.limits.seconds
    match state.phase:
        case Thinking(effect_id=effect_id, attempt=attempt):
            yield CallModel(effect_id, attempt.purpose, engine.build_prompt(state), seconds, attempt.model)
        case Waiting(effect_id=effect_id) | Compacting(effect_id=effect_id, waiting=True):
            yield StartTimer(effect_id, 0.0)
        case Compacting(effect_id=effect_id, model=model):
            yield CallModel(effect_id, "summary", engine.build_prompt(state), seconds, model)
        case Recalling(effect_id=effect_id):
            yield Recall(effect_id, _describe_state(state))
        case Hooked(effect_id=effect_id, point=point, outcome=outcome):
            yield RunHook(effect_id, point, _describe_state(state) if outcome is None else outcome.text)
        case Acting(slots=slots):
            for position, slot in enumerate(slots):
                status = slot.status
                if not isinstance(status, Proposed | Settled):
                    yield _effect_of(engine, state, slots, position, status)
        case _:  # a session that rests
            pass


def _effect_of(
    engine: LLMEngine,
    state: AgentState,
    slots: tuple[CallSlot, ...],
    position: int,
    status: AwaitingHook | AwaitingApproval | AwaitingAnswer | Running | Retrying,
) -> Effect:
    call, setup, effect_id = slots[position].call, Setup(engine.config), status.effect_id
    policy = engine.config.policy
    match status:
        case AwaitingApproval():
            tool = setup.tools.get(call.name)
            if tool is None:
                raise ConfigError(f"state: {call.name!r} waits for an approval in it; {AS_IT_WAS}")
            reason = policy.judge(call, tool, state.remembered, state.mode).reason
            return AskApproval(
                effect_id, call, reason, policy.access_rules(call, setup.tools, state.remembered, state.mode)
            )
        case AwaitingHook(result=result):
            if result is None:
                return RunHook(effect_id, "before_tool", "", call)
            of_worker = setup.engine_tools.get(call.name) == SPAWN_WORKER.name
            return RunHook(effect_id, "worker_stop" if of_worker else "after_tool", result.content, call)
        case Retrying():
            return StartTimer(effect_id, 0.0)
        case AwaitingAnswer() | Running():
            if call.name in setup.engine_tools:  # what its own start decides, is what is in flight
                draft = Draft(setup, state)
                start_engine_call(draft, call, slots[:position])
                for decision in draft.decisions:
                    if isinstance(decision, EFFECT_TYPES):
                        return evolve(decision, effect_id=effect_id)
            if isinstance(status, AwaitingAnswer):
                raise ConfigError(f"state: {call.name!r} waits for an answer in it; {AS_IT_WAS}")
            if call.name not in setup.tools:
                raise ConfigError(f"state: {call.name!r} runs in it; {AS_IT_WAS}")
            return CallTool(effect_id, call, policy.access_rules(call, setup.tools, state.remembered, state.mode))


def _describe_state(state: AgentState) -> str:
    said = (one.text for one in reversed(state.history) if isinstance(one, UserMessage) and one.origin == "user")
    return next(said, "")


# ------------------------------------------------------------------------------ the conversation of another's recording


def conversation_of(messages: Iterable[Message]) -> AgentState:
    """Return an idle state before its first turn, with these messages as its history."""
    history = History(evolve(message, id=f"m{number}") for number, message in enumerate(_order_results(messages), 1))
    size = sum((message_size(message) for message in history), 0.0)
    return AgentState(history, counters=Counters(messages=len(history)), window=Window(size=size))


def _order_results(messages: Iterable[Message]) -> Iterator[Message]:
    """Yield the messages; the results of each reply's calls follow it directly, in the order of the calls."""
    calls: dict[str, ToolCall] = {}
    """The open calls of the newest reply, by their ids in the recording."""
    results: dict[str, ToolMessage] = {}
    replies = 0
    for message in messages:
        if isinstance(message, ToolMessage):
            results.setdefault(message.call_id, message)
            continue
        yield from _results(calls, results)
        calls, results = {}, {}
        if isinstance(message, AssistantMessage):
            replies += 1
            for call in filter(is_readable, message.calls):
                # Of turn 0, which no session has: no call of the new one gets such an id.
                calls.setdefault(call.id, evolve(call, id=f"call-0-{replies}-{len(calls) + 1}"))
            message = evolve(message, calls=tuple(calls.values()))
        yield message
    yield from _results(calls, results)


def _results(calls: dict[str, ToolCall], results: dict[str, ToolMessage]) -> Iterator[Message]:
    for recorded, call in calls.items():
        result = results.get(recorded, ToolMessage("", call.id, call.name, NO_RESULT, "cancelled"))
        yield evolve(result, call_id=call.id, name=call.name)


def is_readable(call: ToolCall) -> bool:
    """Whether the call's arguments are the text of a JSON object without duplicate keys, as an engine requires."""
    try:
        return isinstance(DECODER.decode(call.arguments_json), dict)
    except (ValueError, RecursionError):
        return False
