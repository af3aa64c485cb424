"""Candidates that come with a message: what of them the model is shown, for how long, and what it costs."""

from __future__ import annotations

import json

import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from cognition import (
    AgentConfig,
    AgentState,
    CallModel,
    Candidate,
    ConfigError,
    ContextAssembled,
    ContextChosen,
    EffectId,
    Failed,
    Input,
    LLMEngine,
    ModelReplied,
    ModelRequest,
    ProposedCall,
    Section,
    SessionReset,
    ToolReturned,
    ToolSpec,
    Transition,
    TurnFinished,
    UserMessage,
    UserSpoke,
    fold,
    from_data,
    to_data,
    transitions,
)
from cognition.context.window import fixed_size, message_size, prompt_budget
from cognition.steps.state import Window
from cognition.testing.strategies import MESSAGES
from cognition.values.candidates import CONVERSATION, Briefing

ADA = Candidate("identity", "You are Ada.", "BOOTSTRAP.md")
PLUMS = Candidate("memory", "Ada likes plums.", "MEMORY.md")
PASSING = '<memory>\n<source path="MEMORY.md">\nAda likes plums.\n</source>\n</memory>\n\n'
STANDING = '<identity>\n<source path="BOOTSTRAP.md">\nYou are Ada.\n</source>\n</identity>'
LOOK = ToolSpec("look", "Look.")


def requests(engine: LLMEngine, inputs: list[Input]) -> list[ModelRequest]:
    steps = transitions(engine, inputs)
    return [one.request for step in steps for one in step.decisions if isinstance(one, CallModel)]


def texts(request: ModelRequest) -> list[str]:
    return [getattr(message, "text", "") for message in request.messages]


def test_they_stand_in_all_requests_of_their_turn_and_in_no_later_one() -> None:
    inputs: list[Input] = [
        UserSpoke("What plums?", context=(ADA, PLUMS)),
        ModelReplied(EffectId("1.1.0"), calls=(ProposedCall("look"),)),
        ToolReturned(EffectId("1.1.1"), "seen"),
        ModelReplied(EffectId("1.2.0"), "Blue ones."),
        UserSpoke("Which plums?", context=(PLUMS,)),
        ModelReplied(EffectId("2.1.0"), "Red ones."),
        UserSpoke("Why?"),
    ]
    engine = LLMEngine(AgentConfig(system="Be brief.", tools=(LOOK,)))
    first, second, third, fourth = requests(engine, inputs)

    assert first.system == second.system == f"Be brief.\n\n{STANDING}"
    assert third.system == fourth.system == "Be brief."
    assert texts(first) == [f"{PASSING}What plums?"]
    assert texts(second)[:1] == texts(first)
    assert texts(third)[0] == "What plums?"
    assert texts(third)[-1] == f"{PASSING}Which plums?"
    assert texts(fourth)[-1] == "Why?"
    assert fold(engine, inputs).briefing is None
    assert texts(engine.build_prompt(fold(engine, inputs[:2])))[0] == f"{PASSING}What plums?"
    assert engine.build_prompt(fold(engine, inputs[:2])).system == first.system


def test_what_was_chosen_is_told_before_anything_else() -> None:
    step = LLMEngine().step(AgentState(), UserSpoke("plums", context=(PLUMS, Candidate("skills", "pears"))))
    chosen, assembled, _ = step.decisions

    assert isinstance(chosen, ContextChosen)
    assert [(one.section, one.source, one.fate) for one in chosen.choices] == [
        ("memory", "MEMORY.md", "included"),
        ("skills", "", "left_out"),
    ]
    assert [use.name for use in chosen.sections] == ["identity", "instructions", "memory", "skills", "history"]
    assert isinstance(assembled, ContextAssembled)


def test_without_candidates_nothing_is_told() -> None:
    step = LLMEngine().step(AgentState(), UserSpoke("plums"))

    assert [type(one) for one in step.decisions] == [ContextAssembled, CallModel]


def test_the_budget_counts_them_like_a_system_prompt() -> None:
    plain = LLMEngine().step(AgentState(), UserSpoke("plums")).decisions[-2]
    more = LLMEngine().step(AgentState(), UserSpoke("plums", context=(ADA, PLUMS))).decisions[-2]

    assert isinstance(plain, ContextAssembled)
    assert isinstance(more, ContextAssembled)
    assert 0 <= more.tokens - plain.tokens - (len(STANDING) + len(PASSING)) / 3 <= 4


def test_a_message_without_any_that_fit_has_no_sections() -> None:
    state = LLMEngine().step(AgentState(), UserSpoke("pears", context=(PLUMS,))).next_state

    assert state.briefing is None


def test_the_turn_ends_in_plain_words_where_what_has_to_be_in_does_not_fit() -> None:
    engine = LLMEngine(AgentConfig(context_tokens=600, edition=1))
    candidate = Candidate("instructions", "x" * 2000, "AGENTS.md")
    step = engine.step(AgentState(), UserSpoke("Hello", context=(candidate,)))
    finished = step.decisions[-1]

    assert isinstance(finished, TurnFinished)
    assert finished.outcome == Failed(
        "context_overflow",
        "the texts that have to be in the prompt need about 690 tokens, and 274 are left for them beside "
        "the message; shorten 'AGENTS.md' (679 tokens), or use a model with a longer context",
    )
    after = engine.step(step.next_state, UserSpoke("Hello"))
    assert isinstance(after.decisions[-1], CallModel), "the session goes on"


def test_what_has_to_be_in_is_sent_if_only_an_estimate_says_that_it_does_not_fit() -> None:
    """And nothing beside it that may be left out."""
    engine = LLMEngine(AgentConfig(context_tokens=600))
    candidate = Candidate("instructions", "x" * 2000, "AGENTS.md")
    step = engine.step(AgentState(), UserSpoke("plums", context=(candidate, PLUMS)))

    (asked,) = [one for one in step.decisions if isinstance(one, CallModel)]
    assert "x" * 2000 in asked.request.system
    assert texts(asked.request) == ["plums"]


def conversation_use(step: Transition) -> tuple[int, int]:
    """Return the tokens that the conversation may have beside the sections, and those that it has."""
    (chosen,) = [one for one in step.decisions if isinstance(one, ContextChosen)]
    (use,) = [use for use in chosen.sections if use.name == CONVERSATION]
    return use.budget, use.tokens


@pytest.mark.parametrize("length", [30, 31, 32])
@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0])
def test_the_room_is_told_in_tokens_as_the_runtime_measured_them(length: int, scale: float) -> None:
    """Three characters are a token that nobody has measured, and a begun one counts."""
    engine, message = LLMEngine(), "x" * length
    step = engine.step(AgentState(window=Window(scale=scale)), UserSpoke(message, context=(ADA,)))

    held = int(message_size(UserMessage("m1", message)) * 3) + 1
    room = int((prompt_budget(engine.config) / scale - fixed_size(engine.config)) * 3) - len(STANDING)
    assert conversation_use(step) == (int(room / 3 * scale), int(held / 3 * scale))


@pytest.mark.parametrize("length", [30, 31, 32])
def test_what_is_left_beside_a_message_is_told_to_the_token(length: int) -> None:
    engine = LLMEngine(AgentConfig(context_tokens=600, edition=1))
    candidate = Candidate("instructions", "x" * 2000, "AGENTS.md")
    finished = engine.step(AgentState(), UserSpoke("x" * length, context=(candidate,))).decisions[-1]

    left = int((prompt_budget(engine.config) - fixed_size(engine.config)) * 3)
    left -= int(message_size(UserMessage("m1", "x" * length)) * 3) + 1
    assert isinstance(finished, TurnFinished)
    assert isinstance(finished.outcome, Failed)
    assert f", and {left // 3} are left for them beside the message;" in finished.outcome.message


def test_the_age_of_a_text_is_counted_up_to_the_message() -> None:
    """After thirty days half of its relevance is left."""
    engine = LLMEngine(AgentConfig(sections=(Section("memory", 0.3, recency=1.0), Section(CONVERSATION, 0.5))))
    note = evolve(PLUMS, at=1000.0)

    def score(at: float) -> float:
        step = engine.step(AgentState(), UserSpoke("plums", context=(note,), at=at))
        (chosen,) = [one for one in step.decisions if isinstance(one, ContextChosen)]
        return chosen.choices[0].score

    assert score(1000.0 + 30 * 86_400) == pytest.approx(score(1000.0) / 2)


@pytest.mark.parametrize(("edition", "fate"), [(1, "left_out"), (2, "left_out"), (3, "included")])
def test_since_edition_3_all_of_a_long_message_is_compared(edition: int, fate: str) -> None:
    """Before, what stood behind its first 24 words was not."""
    engine = LLMEngine(AgentConfig(edition=edition))
    message = f"{' '.join(f'w{number}' for number in range(30))} plums Ada"

    step = engine.step(AgentState(), UserSpoke(message, context=(PLUMS,)))

    assert isinstance(chosen := step.decisions[0], ContextChosen)
    assert [choice.fate for choice in chosen.choices] == [fate]


def test_a_message_that_is_too_long_is_the_messages_fault() -> None:
    engine = LLMEngine(AgentConfig(context_tokens=600, edition=1))
    step = engine.step(AgentState(), UserSpoke("plums " * 1000, context=(PLUMS,)))
    finished = step.decisions[-1]

    assert isinstance(finished, TurnFinished)
    assert isinstance(finished.outcome, Failed)
    assert finished.outcome.message.startswith("this turn needs about")


def test_a_reset_forgets_them() -> None:
    engine = LLMEngine()
    inputs: list[Input] = [UserSpoke("plums", context=(ADA,)), ModelReplied(EffectId("1.1.0"), "A"), SessionReset()]

    assert fold(engine, inputs).briefing is None
    assert requests(engine, [*inputs, UserSpoke("plums")])[-1].system == ""


def test_a_new_system_prompt_and_the_schema_of_the_answer_leave_them_where_they_are() -> None:
    event = UserSpoke("plums", returns={"type": "object"}, system="Be kind.", context=(ADA, PLUMS))
    (request,) = requests(LLMEngine(), [event])

    assert request.system == f"Be kind.\n\n{STANDING}"
    assert texts(request)[0] == f"{PASSING}plums"
    assert len(request.messages) == 2


def test_sections_are_part_of_the_configuration() -> None:
    config = AgentConfig(sections=(Section("style", 0.2, changes="seldom"),))
    (request,) = requests(LLMEngine(config), [UserSpoke("Hello", context=(Candidate("style", "Rhyme."),))])

    assert request.system == "<style>\nRhyme.\n</style>"
    assert from_data(to_data(config), AgentConfig) == config
    assert "sections" not in to_data(AgentConfig())


@given(st.lists(MESSAGES, min_size=1, max_size=4), st.sampled_from([200, 600, 4096]), st.sampled_from([0.3, 1.0, 2.5]))
def test_requests_fit_and_the_user_is_heard_whatever_comes_with_messages(
    events: list[UserSpoke], room: int, scale: float
) -> None:
    """In the first edition. Since then a request is sent in any case if its size is an estimate."""
    engine, state = LLMEngine(AgentConfig(system="Be brief.", context_tokens=room, edition=1)), AgentState()
    state = evolve(state, window=evolve(state.window, scale=scale))
    for event in events:
        step = engine.step(state, event)
        state = step.next_state
        if isinstance(step.decisions[-1], CallModel):
            report, call = step.decisions[-2:]
            assert isinstance(report, ContextAssembled)
            assert report.tokens <= report.budget == prompt_budget(engine.config)
            newest = next(one for one in reversed(call.request.messages) if getattr(one, "origin", "") == "user")
            assert newest.text.endswith(event.text)  # type: ignore[union-attr]  # it is the user's
            assert from_data(json.loads(json.dumps(to_data(state))), AgentState) == state
            state = engine.step(state, ModelReplied(call.effect_id, "Yes.")).next_state


def test_a_briefing_is_recorded_with_the_state() -> None:
    state = LLMEngine().step(AgentState(), UserSpoke("plums", context=(PLUMS,))).next_state

    assert state.briefing == Briefing("", PASSING.rstrip("\n"))
    assert from_data(to_data(state), AgentState) == state


@pytest.mark.parametrize("event", [UserSpoke("plums", context=(ADA, evolve(PLUMS, at=3.0, mandatory=True)))])
def test_candidates_are_recorded_with_their_message(event: UserSpoke) -> None:
    assert from_data(json.loads(json.dumps(to_data(event))), UserSpoke) == event


@pytest.mark.parametrize("at", [float("nan"), float("inf")])
def test_a_time_that_is_none_is_refused(at: float) -> None:
    with pytest.raises(ConfigError, match="at must be a number of seconds"):
        Candidate("memory", "plums", at=at)
