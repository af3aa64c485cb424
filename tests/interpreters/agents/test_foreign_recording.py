"""The conversation of a recording, whatever stands in it, as a session may begin with it."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st

from cognition import AgentConfig, AgentState, AssistantMessage, History, LLMEngine, ToolCall, ToolMessage, UserMessage
from cognition.steps.decisions import CallModel
from cognition.steps.inputs import UserSpoke
from interpreters import Agent
from interpreters.agents._state_restore import NO_RESULT, conversation_of
from interpreters.testing.fakes import ScriptedModel

ids = st.sampled_from(["a", "b", "call-1-1-1", "m1", ""])
texts = st.sampled_from(["", "x", "[redacted:DB]", "\ud83d"])
arguments = st.sampled_from(["{}", '{"a": 1}', "[]", "{", '{"a": 1, "a": 2}', "1", "NaN", "[" * 5000])
calls = st.builds(ToolCall, ids, st.sampled_from(["look", "pay", "a b"]), arguments)
messages: Any = st.one_of(
    st.builds(UserMessage, ids, texts, st.sampled_from(["user", "engine"])),
    st.builds(AssistantMessage, ids, texts, texts, st.lists(calls, max_size=3).map(tuple), st.booleans()),
    st.builds(ToolMessage, ids, ids, st.just("other"), texts, st.sampled_from(["ok", "error"])),
)


@given(st.lists(messages, max_size=12))
def test_any_messages_become_a_conversation_that_a_model_accepts(found: list[Any]) -> None:
    """Every call has one result, right behind the reply and in its order; no id stands there twice; nothing is open."""
    state = conversation_of(found)
    history = list(state.history)

    assert state == AgentState(state.history, counters=state.counters, window=state.window)
    assert [message.id for message in history] == [f"m{number}" for number in range(1, len(history) + 1)]
    asked = [call for message in history if isinstance(message, AssistantMessage) for call in message.calls]
    assert len({call.id for call in asked}) == len(asked)
    for position, message in enumerate(history):
        if isinstance(message, AssistantMessage):
            behind = history[position + 1 : position + 1 + len(message.calls)]
            assert [(call.id, call.name) for call in message.calls] == [
                (result.call_id, result.name) for result in behind if isinstance(result, ToolMessage)
            ]
    assert len(asked) == sum(isinstance(message, ToolMessage) for message in history)
    assert all(isinstance(call.arguments, dict) for call in asked)
    said = [message for message in found if not isinstance(message, ToolMessage)]
    assert len(said) == len(history) - len(asked)


@given(st.lists(messages, max_size=8))
def test_a_session_goes_on_from_it(found: list[Any]) -> None:
    """Its first turn is turn 1, with all that a first turn has, and shows the model the whole conversation."""
    state = conversation_of(found)
    engine = LLMEngine(AgentConfig(context_tokens=10**6))
    *_, asked = engine.step(state, UserSpoke("Go on!")).decisions
    assert isinstance(asked, CallModel)
    assert asked.effect_id == "1.1.0"
    assert History(asked.request.messages[:-1]) == state.history


def test_what_a_call_gave_is_kept_and_what_is_not_known_is_said() -> None:
    reply = AssistantMessage("m1", "", calls=(ToolCall("c1", "look"), ToolCall("c2", "pay")))
    _, first, second = conversation_of([reply, ToolMessage("m2", "c2", "pay", "paid")]).history
    assert isinstance(first, ToolMessage)
    assert isinstance(second, ToolMessage)
    assert (first.content, first.status) == (NO_RESULT, "cancelled")
    assert (second.content, second.status) == ("paid", "ok")


def test_a_new_session_begins_as_from_nothing() -> None:
    with Agent(ScriptedModel([])) as agent:
        assert conversation_of([]) == agent.state
