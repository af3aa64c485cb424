"""Replies and failures of models where tokens are counted, and what they leave in the state."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from cognition import (
    AgentConfig,
    AgentState,
    AssistantMessage,
    CallModel,
    Compacted,
    Compacting,
    CompactionAsked,
    FellBack,
    History,
    Limits,
    LLMEngine,
    Message,
    ModelFailed,
    NotCompacted,
    ProposedCall,
    RetryPlanned,
    ToolCall,
    ToolMessage,
    ToolReturned,
    ToolSpec,
    Transition,
    Usage,
    UserMessage,
    UserSpoke,
)
from cognition.context import message_size, prompt_budget, visible_messages
from cognition.context.window import SUMMARY_NOTE
from cognition.engine._setup import Setup
from cognition.engine.draft import Draft
from cognition.engine.handlers.compaction import NO_SHORTER, WAS_EMPTY
from cognition.engine.handlers.model import learn_from_refusal
from cognition.steps.phases import ModelAttempt
from cognition.steps.state import Counters, Window
from cognition.values.counts import EDGE, TemplateCosts
from cognition.values.outcomes import Failure
from cognition.values.routing import Health
from tests.cognition.session import Session, effect, engine_with, replied

COSTS = TemplateCosts(50, user=5, reply=6, call=7, result=8, cut=30, bare=40, asking=250, estimate=16.0, model="a")
FREE = TemplateCosts(0, user=0, reply=0, call=0, result=0, cut=0, bare=0, asking=0, estimate=16.0, model="a")
TOO_LONG = Failure("too long", kind="context_overflow")
READ = ToolSpec("read", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}}, read_only=True)
TASK = "TASK: all."


# ------------------------------------------------------------------------------------------------------ the summary


def summarised(text: str, config: AgentConfig, messages: tuple[Message, ...], **state: Any) -> Transition:
    """The step that takes a summary of all messages, asked for between two turns."""
    window = Window(0, sum(map(message_size, messages)))
    phase = Compacting(effect("1.2.0"), None, len(messages))
    given = {"phase": phase, "window": window, "counters": Counters(1, 2, 1, len(messages)), **state}
    return LLMEngine(config).step(AgentState(History(messages), **given), replied("1.2.0", text))


def turn(tokens: int = 900) -> tuple[Message, ...]:
    return UserMessage("m1", "Go.", tokens=(9,)), AssistantMessage("m2", "Done.", tokens=(tokens - 9,))


def test_a_summary_of_a_model_with_native_calls_is_its_text_whatever_it_looks_like() -> None:
    text = "<response>TASK: all.</response>"

    after = summarised(text, AgentConfig(), turn(), costs=COSTS).next_state

    assert after.window.summary.text == text


def test_a_call_in_place_of_a_summary_is_none() -> None:
    """The plain text is the input of the tool's one parameter."""
    call = '{"a": "read", "i": "plums"}'

    transition = summarised(call, AgentConfig(tools=(READ,), protocol="short_keys"), turn(), costs=COSTS)

    assert transition.decisions == (NotCompacted(WAS_EMPTY),)


@pytest.mark.parametrize(("more", "kind"), [(0, NotCompacted), (1, Compacted)])
def test_a_summary_has_to_be_shorter_than_what_it_stands_for(more: int, kind: type) -> None:
    """Its message has a token for each byte, and five around it."""
    size = COSTS.user + len(SUMMARY_NOTE.format(text=TASK))

    transition = summarised(TASK, AgentConfig(), turn(size + more), costs=COSTS)

    assert [type(one) for one in transition.decisions] == [kind]
    if kind is NotCompacted:
        assert transition.decisions == (NotCompacted(NO_SHORTER),)
        assert transition.next_state.window.size == size
    else:
        assert transition.decisions == (Compacted(2, COSTS.fixed + size + 1, COSTS.fixed + size),)


def test_a_model_that_wrote_a_summary_works_again() -> None:
    """What others have failed is still known of them."""
    config = AgentConfig(models=("b", "c"), fallback=("b", "c"))
    phase = Compacting(effect("1.2.0"), None, 2, model="b")

    after = summarised(TASK, config, turn(), phase=phase, health=(Health("b", 1), Health("c", 1))).next_state

    assert after.health == (Health("c", 1),)


def test_results_behind_a_summary_count_with_the_note_that_they_are_shown_with() -> None:
    """Cut to 400 characters, the result has four of its pieces, and a note of 30 tokens."""
    config = AgentConfig(tools=(READ,))
    messages = (
        *turn(),
        UserMessage("m3", "Read.", tokens=(2,)),
        AssistantMessage("m4", "", "", (ToolCall("c", "read"),), tokens=(3,)),
        ToolMessage("m5", "c", "read", "x" * 1000, tokens=(8, *[20] * 10)),
    )
    shown = 8 + 4 * 20 + COSTS.cut + 2 * EDGE
    window = Window(0, 900.0 + 2 + 3 + shown, cuts=((5, 400),))

    after = summarised(
        TASK,
        config,
        messages,
        costs=COSTS,
        window=window,
        phase=Compacting(effect("1.2.0"), ModelAttempt(), 2),
    ).next_state

    assert after.window.first == 2
    assert after.window.size == COSTS.user + len(SUMMARY_NOTE.format(text=TASK)) + 2 + 3 + shown
    note = Setup(config).note_with(COSTS)
    assert after.window.size == sum(map(message_size, visible_messages(after.history, after.window, note)))


# -------------------------------------------------------------------------------------------------------- the model


@pytest.mark.parametrize(("tokens", "kept"), [((7,), (7,)), ((), (COSTS.reply + len("Hmm."),))])
def test_a_reply_of_only_reasoning_keeps_its_tokens(tokens: tuple[int, ...], kept: tuple[int, ...]) -> None:
    session = Session(engine_with())
    session(UserSpoke("Go", costs=COSTS, tokens=(9,)))

    session(replied("1.1.0", "", reasoning="Hmm.", tokens=tokens))

    assert session.state.history[1] == AssistantMessage("m2", "", "Hmm.", tokens=kept)


def test_a_reply_keeps_what_the_models_server_needs_back_with_it() -> None:
    """Such as signed thoughts; with and without calls."""
    session = Session(engine_with(READ))
    session(UserSpoke("Go"))

    session(replied("1.1.0", "", ProposedCall("read"), continuation="signed"))
    session(ToolReturned(effect("1.1.1"), "Plums."))
    session(replied("1.2.0", "Done.", continuation="signed too"))

    replies = [message for message in session.state.history if isinstance(message, AssistantMessage)]
    assert [reply.continuation for reply in replies] == ["signed", "signed too"]


def test_the_scale_after_an_overflow_is_what_the_prompt_had_for_what_was_counted() -> None:
    """Here for one token, the least that a prompt counts as."""
    session = Session(engine_with(context_tokens=4096, system="", edition=1))
    session(UserSpoke("Go", costs=FREE, tokens=(1,)))

    session(ModelFailed(effect("1.1.0"), evolve(TOO_LONG, needed_tokens=1500)))

    assert session.state.window.scale == 1500.0
    assert [type(one) for one in session.decisions if isinstance(one, RetryPlanned)] == [RetryPlanned]


BUDGET = prompt_budget(AgentConfig())


@pytest.mark.parametrize(
    ("costs", "estimate", "scale"),
    [(None, 8.0 * BUDGET, 0.25), (None, 0.5, 2.0 * BUDGET), (COSTS, 8.0 * BUDGET, 2.0), (COSTS, 0.5 * BUDGET, 4.0)],
    ids=["an estimate", "at least one token", "counted", "counted too low"],
)
def test_a_refusal_corrects_an_estimate_in_either_way_and_a_count_upwards(
    costs: TemplateCosts | None, estimate: float, scale: float
) -> None:
    draft = Draft(Setup(AgentConfig()), AgentState(window=Window(0, 0.0, scale=2.0, slack=3.0), costs=costs))

    learn_from_refusal(draft, estimate, evolve(TOO_LONG, needed_tokens=2 * BUDGET))

    assert (draft.scale, draft.slack) == (scale, 0.0)


def test_a_prompt_that_was_refused_had_nothing_too_much() -> None:
    session = Session(engine_with())
    session(UserSpoke("Go", costs=COSTS, tokens=(9,)))
    session.state = evolve(session.state, window=evolve(session.state.window, slack=5.0))

    session(ModelFailed(effect("1.1.0"), evolve(TOO_LONG, needed_tokens=9)))

    assert (session.state.window.scale, session.state.window.slack) == (1.0, 0.0)


def test_a_turn_that_a_model_has_no_room_for_goes_to_the_first_that_works_by_now_of_its_task() -> None:
    """``c`` comes first for answers. It rested when the turn began, and ``b`` is only the fallback."""
    config = AgentConfig(models=("b", "c"), fallback=("b",), routes=(("answer", "c"),), context_tokens=2048)
    session = Session(LLMEngine(config))
    session.state = AgentState(health=(Health("c", 1, 1, 10.0),))
    session(UserSpoke("x" * 1500))

    session(ModelFailed(effect("1.1.0"), evolve(TOO_LONG, needed_tokens=10**6), at=20.0))

    assert [one for one in session.decisions if isinstance(one, FellBack)] == [
        FellBack("", "c", "context_overflow", "too long")
    ]


@pytest.mark.parametrize(("edition", "kind"), [(1, CallModel), (2, NotCompacted), (3, NotCompacted)])
def test_since_edition_2_a_summary_between_turns_is_not_asked_for_beyond_the_sessions_budget(
    edition: int, kind: type
) -> None:
    config = AgentConfig(edition=edition, limits=Limits(session_output_tokens=10))
    messages = (UserMessage("m1", "Buy plums. " * 50), AssistantMessage("m2", "Done. " * 50))
    window = Window(0, sum(map(message_size, messages)))
    state = AgentState(History(messages), window=window, counters=Counters(1, 1, 0, 2), total=Usage(10, 10))

    step = LLMEngine(config).step(state, CompactionAsked())

    assert [type(one) for one in step.decisions] == [kind]
