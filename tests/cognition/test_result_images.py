"""Pictures of results: shown behind all results of a reply, and to no model that is not to see them."""

from __future__ import annotations

from cognition import (
    AgentConfig,
    AgentState,
    CallModel,
    CancelAsked,
    Image,
    LLMEngine,
    ModelReplied,
    ProposedCall,
    TextPart,
    ToolFailed,
    ToolMessage,
    ToolReturned,
    ToolSpec,
    UserMessage,
    UserSpoke,
)
from cognition.base.ids import effect_id

DOT = Image.of(b"GIF89a\x01\x00\x01\x00\x00\x00\x00;")
ENGINE = LLMEngine(AgentConfig(tools=(ToolSpec("look", read_only=True), ToolSpec("act"))))


def called(*names: str) -> AgentState:
    asked = ENGINE.step(AgentState(), UserSpoke("Look."))
    calls = tuple(ProposedCall(name, {}) for name in names)
    return ENGINE.step(asked.next_state, ModelReplied(asked.decisions[-1].effect_id, calls=calls)).next_state


def test_pictures_stand_behind_all_results_in_the_order_of_their_calls() -> None:
    """Whichever came first: a template wants the results of one reply together."""
    state = called("look", "look")
    state = ENGINE.step(state, ToolReturned(effect_id(1, 1, 2), "second", images=(DOT, DOT))).next_state
    done = ENGINE.step(state, ToolReturned(effect_id(1, 1, 1), "first", images=(DOT,)))
    asked = done.decisions[-1]
    assert isinstance(asked, CallModel)
    *_, first, second, one, two = asked.request.messages

    assert [message.content for message in (first, second) if isinstance(message, ToolMessage)] == ["first", "second"]
    assert isinstance(one, UserMessage)
    assert isinstance(two, UserMessage)
    assert one.parts == (TextPart("The images of the result of look (call-1-1-1):"), DOT)
    assert two.parts == (TextPart("The images of the result of look (call-1-1-2):"), DOT, DOT)
    assert (one.origin, two.origin) == ("engine", "engine")


def test_a_result_without_pictures_brings_no_note() -> None:
    state = called("look", "look")
    state = ENGINE.step(state, ToolFailed(effect_id(1, 1, 1), "gone")).next_state
    done = ENGINE.step(state, ToolReturned(effect_id(1, 1, 2), "seen"))

    assert isinstance(done.next_state.history[-1], ToolMessage)


def test_a_cancelled_turn_keeps_results_and_their_pictures() -> None:
    """The model sees in the next turn what had come before the cancellation: behind all results here too."""
    state = called("act", "act")
    state = ENGINE.step(state, ToolReturned(effect_id(1, 1, 1), "seen", images=(DOT,))).next_state
    done = ENGINE.step(state, CancelAsked("enough")).next_state
    *_, first, second, shown = done.history

    assert [message.status for message in (first, second) if isinstance(message, ToolMessage)] == ["ok", "cancelled"]
    assert isinstance(shown, UserMessage)
    assert shown.parts == (TextPart("The images of the result of act (call-1-1-1):"), DOT)


def test_pictures_have_a_size() -> None:
    state = called("look")
    plain = ENGINE.step(state, ToolReturned(effect_id(1, 1, 1), "seen")).next_state
    shown = ENGINE.step(state, ToolReturned(effect_id(1, 1, 1), "seen", images=(DOT,))).next_state

    assert shown.window.size - plain.window.size > 600
