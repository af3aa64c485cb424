"""Requests for summaries, exactly: their texts and sizes, whom they are asked of, and what follows a failed one."""

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
    Failure,
    FellBack,
    GenerationOptions,
    History,
    Input,
    Limits,
    LLMEngine,
    Message,
    ModelFailed,
    NotCompacted,
    ProposedCall,
    ToolCall,
    ToolMessage,
    ToolSpec,
    Transition,
    UserMessage,
)
from cognition.context import fixed_size, message_size
from cognition.context.cut_note import SKIPPED
from cognition.context.summaries import ANOTHER_WORD, INSTRUCTION_BEHIND, REQUEST_ID, summary_instruction
from cognition.engine._setup import Setup
from cognition.engine.draft import Draft
from cognition.engine.handlers.compaction import NOTHING, WAS_EMPTY, _ask_again, _is_anothers, _rebuild
from cognition.steps.phases import FIRST_ATTEMPT, ModelAttempt
from cognition.steps.state import Counters, Spent, Summary, Window
from cognition.values.candidates import Briefing
from cognition.values.counts import EDGE, TemplateCosts
from cognition.values.routing import OWN, Health
from tests.cognition.session import effect, replied

CONFIG = AgentConfig(
    system="Be brief.",
    tools=(ToolSpec("read", read_only=True), ToolSpec("again", rereads=True)),
    context_tokens=1100,
    options=GenerationOptions(max_tokens=100),
)
"""Prompts have 1,000 tokens, and a request for a summary 850, since a summary may take a quarter of the budget."""
ROOM = 850
COSTS = TemplateCosts(
    fixed=90,
    user=5,
    reply=6,
    call=7,
    result=8,
    cut=30,
    bare=40,
    asking=260,
    estimate=fixed_size(CONFIG),
    model="a",
    skipped=21,
)
INSTRUCTION = COSTS.user + COSTS.asking + ANOTHER_WORD
SEVERAL = evolve(
    CONFIG,
    models=("b",),
    routes=(("summary", "b"), ("answer", "b")),
    limits=Limits(steps=9, seconds=60.0),
)
"""Of two models, ``b`` comes first for everything."""
RESTING = (Health("b", 1, 1, 50.0),)
"""``b`` rests until 50."""
TASK = "TASK: buy plums."


def turns(*sizes: int) -> tuple[Message, ...]:
    """Messages of the user and of the model in turn, with these tokens."""
    return tuple(
        [
            AssistantMessage(f"m{place}", "Done.", tokens=(size,))
            if place % 2
            else UserMessage(f"m{place}", "Go.", tokens=(size,))
            for place, size in enumerate(sizes)
        ]
    )


def state_of(*messages: Message, **state: Any) -> AgentState:
    """In the third step of the second turn, which began at 5."""
    size = float(sum(sum(message.tokens) for message in messages))
    given = {
        "window": Window(0, size),
        "counters": Counters(2, 3, 1, len(messages)),
        "spent": Spent(5.0, 2),
        "costs": COSTS,
        **state,
    }
    return AgentState(History(messages), **given)


def draft_of(*messages: Message, config: AgentConfig = CONFIG, **state: Any) -> Draft:
    return Draft(Setup(config), state_of(*messages, **state))


def asked(decisions: Any) -> CallModel:
    (call,) = [decision for decision in decisions if isinstance(decision, CallModel)]
    return call


# ------------------------------------------------------------------------------------------ behind the own prompt


def test_a_request_behind_the_prompt_may_take_exactly_the_room_of_a_summary() -> None:
    most = ROOM - COSTS.fixed - INSTRUCTION

    fitting = draft_of(*turns(most - 50, 50, 10)).prefix_request(2)

    assert fitting is not None
    assert fitting[1] == ROOM
    assert draft_of(*turns(most - 49, 50, 10)).prefix_request(2) is None


def test_a_request_behind_the_prompt_is_measured_in_scaled_tokens() -> None:
    most = ROOM // 2 - COSTS.fixed - INSTRUCTION

    assert draft_of(*turns(most - 10, 10, 10), window=Window(0, most + 10.0, 2.0)).prefix_request(2) is not None
    assert draft_of(*turns(most - 9, 10, 10), window=Window(0, most + 11.0, 2.0)).prefix_request(2) is None


def test_a_request_behind_the_prompt_begins_as_the_turns_own_do() -> None:
    """With the turn's system prompt and sections, and with the tools."""
    briefing = Briefing("News.", "Now.")
    draft = draft_of(*turns(20, 20, 20), system="Be kind.", briefing=briefing)

    asking = draft.prefix_request(3)

    assert asking is not None
    request, size = asking
    own = draft.setup.request(draft.history, "answer", system="Be kind.", briefing=briefing)
    assert request.system == own.system == "Be kind.\n\nNews."
    assert list(request.messages)[:3] == list(own.messages)
    assert request.messages[2].text != "Go."  # type: ignore[union-attr]  # a user's
    assert request.messages[3] == summary_instruction(draft.setup.budget, COSTS)
    assert (request.tools, request.protocol) == (own.tools, "native")
    assert size == draft.fixed + 60 + INSTRUCTION


def test_a_text_protocol_writes_its_tools_in_the_prompt_of_a_summary_too() -> None:
    config = evolve(CONFIG, protocol="short_keys", context_tokens=4000)

    asking = draft_of(*turns(20, 20, 20), config=config).prefix_request(2)

    assert asking is not None
    assert (asking[0].tools, asking[0].protocol) == ((), "short_keys")


def test_the_instruction_behind_a_prompt_has_its_words_and_its_tokens() -> None:
    assert summary_instruction(800.0, COSTS) == UserMessage(
        REQUEST_ID, INSTRUCTION_BEHIND.format(words=100), "engine", tokens=(INSTRUCTION,)
    )
    assert summary_instruction(800.0) == UserMessage(REQUEST_ID, INSTRUCTION_BEHIND.format(words=100), "engine")


def test_a_shortened_result_has_the_same_form_and_size_behind_the_prompt() -> None:
    """Four of its pieces and a note, which says how to read it again and has the tokens that were counted."""
    messages = (
        UserMessage("m0", "Read.", tokens=(10,)),
        AssistantMessage("m1", "", "", (ToolCall("c", "read"),), tokens=(10,)),
        ToolMessage("m2", "c", "read", "x" * 1000, tokens=(8, *[20] * 10)),
        *turns(10, 10),
    )
    shown = 8 + 4 * 20 + COSTS.cut + 2 * EDGE
    draft = draft_of(*messages, window=Window(0, 40.0 + shown, cuts=((3, 400),)))

    asking = draft.prefix_request(3)

    assert asking is not None
    request, size = asking
    assert size == COSTS.fixed + 20 + shown + INSTRUCTION
    result = request.messages[2]
    assert isinstance(result, ToolMessage)
    assert result.tokens == (shown,)
    assert 'again(call="c") reads them' in result.content


@pytest.mark.parametrize(("limits", "most"), [(Limits(), 250), (Limits(output_tokens=20), 20)])
def test_a_summary_behind_the_prompt_has_no_more_tokens_than_the_budgets_leave(limits: Limits, most: int) -> None:
    asking = draft_of(*turns(20, 20, 20), config=evolve(CONFIG, limits=limits)).prefix_request(2)

    assert asking is not None
    assert asking[0].options == evolve(Setup(CONFIG).prefix_options, max_tokens=most)


def test_counted_notes_have_all_the_costs_of_the_template() -> None:
    setup = Setup(CONFIG)

    note = setup.note_with(COSTS)

    assert note == evolve(setup.note, tokens=30, user=5, skipped=21, reply=6, call=7)
    assert note.skipping(3) == (5 + 21,)
    assert setup.note.skipping(3) == ()
    assert evolve(note, skipped=0).skipping(3) == (5 + len(SKIPPED.format(3)),)


# --------------------------------------------------------------------------------------------- what is summarised


def begun(*sizes: int, now: float = 0.0, config: AgentConfig = CONFIG, **state: Any) -> tuple[int, bool, str]:
    """The first message that a summary would leave, whether its request is behind the prompt, and its model."""
    draft = draft_of(*turns(*sizes), config=evolve(config, compact_at=0.5), **state)
    assert draft._begin_summary(ModelAttempt(), now)
    assert isinstance(draft.phase, Compacting)
    assert asked(draft.decisions).model == draft.phase.model
    return draft.phase.until, draft.phase.shares_prefix, draft.phase.model


def test_more_stays_behind_a_summary_where_the_request_has_no_room_behind_the_prompt() -> None:
    """It has 482 tokens there: the three turns before the newest question have 600, and two of them 400."""
    assert ROOM - COSTS.fixed - INSTRUCTION == 482

    assert begun(100, 100, 100, 100, 100, 100, 10) == (4, True, OWN)
    assert begun(60, 60, 60, 60, 120, 122, 10) == (6, True, OWN)
    assert begun(60, 60, 60, 60, 120, 123, 10) == (4, True, OWN)


def test_all_that_is_old_is_summarised_apart_where_not_even_the_first_turn_has_room_behind_the_prompt() -> None:
    until, shares, _ = begun(450, 40, 60, 200, 10)

    assert (until, shares) == (4, False)


@pytest.mark.parametrize(("now", "model"), [(20.0, OWN), (50.0, "b")])
def test_a_summary_is_asked_of_the_model_that_works_by_then(now: float, model: str) -> None:
    """As the turn's answers are, so behind the same prompt."""
    assert begun(100, 100, 100, 100, 100, 100, 10, now=now, config=SEVERAL, health=RESTING) == (4, True, model)


def test_a_summary_of_another_model_is_asked_for_apart_while_that_model_works() -> None:
    """Until then the turn's own writes it, which knows the prompt."""
    config = evolve(SEVERAL, routes=(("summary", "b"),))
    sizes = (100, 100, 100, 100, 100, 100, 10)

    assert begun(*sizes, now=20.0, config=config, health=RESTING) == (4, True, OWN)
    assert begun(*sizes, now=50.0, config=config, health=RESTING) == (6, False, "b")


# ------------------------------------------------------------------------------------------- what follows a reply


def step(
    event: Input, phase: Compacting, *messages: Message, config: AgentConfig = SEVERAL, **state: Any
) -> Transition:
    return LLMEngine(config).step(state_of(*messages, phase=phase, **state), event)


def writing(until: int, attempt: ModelAttempt | None = FIRST_ATTEMPT, **more: Any) -> Compacting:
    return Compacting(effect("2.3.0"), attempt, until, **more)


def test_a_call_in_place_of_a_summary_is_answered_by_a_request_apart_with_a_step_of_its_own() -> None:
    event = replied("2.3.0", "", ProposedCall("read"), finish_reason="tool_calls", at=20.0)
    phase = writing(2, number=2, shares_prefix=True)

    after = step(event, phase, *turns(200, 200, 10), health=RESTING)

    call = asked(after.decisions)
    assert (call.effect_id, call.purpose, call.seconds, call.model) == ("2.4.0", "summary", 45.0, OWN)
    assert [message.id for message in call.request.messages] == [REQUEST_ID]
    assert after.next_state.phase == Compacting(effect("2.4.0"), ModelAttempt(), 2)
    assert after.next_state.spent.steps == 3


def test_the_next_piece_of_a_summary_is_asked_for_with_a_step_of_its_own() -> None:
    event = replied("2.3.0", TASK, at=20.0)
    phase = writing(2, number=2, target=4)

    after = step(event, phase, *turns(200, 200, 100, 100, 10), health=RESTING)

    call = asked(after.decisions)
    assert (call.effect_id, call.purpose, call.seconds, call.model) == ("2.4.0", "summary", 45.0, OWN)
    assert after.next_state.phase == Compacting(effect("2.4.0"), ModelAttempt(), 4)
    assert after.next_state.window.summary.messages == 2


@pytest.mark.parametrize(("at", "model"), [(20.0, OWN), (50.0, "b")])
def test_a_turn_goes_on_behind_its_summary_with_the_model_that_works_by_then(at: float, model: str) -> None:
    after = step(replied("2.3.0", TASK, at=at), writing(2), *turns(200, 200, 10), health=RESTING)

    call = asked(after.decisions)
    assert (call.effect_id, call.purpose, call.seconds, call.model) == ("2.4.0", "answer", 65.0 - at, model)


def test_what_was_left_out_counts_for_a_summary_once() -> None:
    """Not what an earlier summary stands for: at twice the tokens, two messages of 100 and a prompt of 120."""
    window = Window(4, 30.0, 2.0, summary=Summary("Old.", 2, tokens=(20,)))

    after = step(replied("2.3.0", "New."), writing(4), *turns(300, 300, 100, 100, 10), window=window, config=CONFIG)

    size = after.next_state.window.size
    compacted = after.decisions[0]
    assert compacted == Compacted(2, 2 * 120 + 2 * 200, int(2 * (COSTS.fixed + size)))


@pytest.mark.parametrize(("edition", "failures"), [(1, 0), (2, 1), (3, 1)])
def test_failed_summaries_are_counted_since_edition_2(edition: int, failures: int) -> None:
    after = step(replied("2.3.0", ""), writing(2), *turns(200, 200, 10), config=evolve(CONFIG, edition=edition))

    assert after.decisions[0] == NotCompacted(WAS_EMPTY)
    assert after.next_state.window.summary.failures == failures


@pytest.mark.parametrize(("shares", "kind"), [(True, CallModel), (False, NotCompacted)])
def test_a_call_in_a_text_protocol_is_one_behind_the_prompt_only(shares: bool, kind: type) -> None:
    """In a prompt of its own the model sees no tools, and its text is no summary either."""
    config = evolve(CONFIG, protocol="short_keys", context_tokens=8000)
    event = replied("2.3.0", '{"a": "read", "i": "plums"}')

    after = step(event, writing(2, shares_prefix=shares), *turns(400, 400, 10), config=config)

    assert isinstance(after.decisions[0], kind)
    assert isinstance(after.next_state.phase, Compacting) is shares


def test_between_turns_the_time_of_the_last_turn_ends_no_summary() -> None:
    event = replied("2.3.0", TASK, at=1000.0)

    after = step(event, writing(2, None, target=4), *turns(200, 200, 100, 100))

    call = asked(after.decisions)
    assert (call.purpose, call.seconds) == ("summary", 60.0)
    assert isinstance(after.next_state.phase, Compacting)
    assert (after.next_state.phase.until, after.next_state.phase.attempt) == (4, None)


# ----------------------------------------------------------------------------------------- what follows a failure


def again(phase: Compacting, now: float, **more: Any) -> tuple[bool, str]:
    """Whether the summary is asked for behind the prompt once more, and the model."""
    draft = draft_of(*turns(100, 100, 10), phase=phase, **{"config": SEVERAL, **more})
    assert _ask_again(draft, phase, 2, now)
    assert isinstance(draft.phase, Compacting)
    assert draft.phase.number == 2
    return draft.phase.shares_prefix, draft.phase.model


@pytest.mark.parametrize("shares", [True, False])
def test_the_same_model_is_asked_again_in_the_same_form(shares: bool) -> None:
    assert again(writing(2, model="b", shares_prefix=shares), 0.0) == (shares, "b")
    assert again(writing(2, model=OWN, shares_prefix=shares), 0.0, health=RESTING) == (shares, OWN)


@pytest.mark.parametrize("shares", [True, False])
def test_another_model_is_asked_behind_the_prompt_if_it_answers_too(shares: bool) -> None:
    assert again(writing(2, model=OWN, shares_prefix=shares), 50.0, health=RESTING) == (True, "b")
    assert again(writing(2, model="b", shares_prefix=shares), 49.0, health=RESTING) == (True, OWN)


def test_a_summary_is_anothers_if_the_turn_is_answered_by_another_model_by_now() -> None:
    draft = draft_of(*turns(100, 100, 10), config=SEVERAL, health=RESTING)

    assert not _is_anothers(draft, writing(2), 20.0)
    assert _is_anothers(draft, writing(2), 50.0)
    assert _is_anothers(draft, writing(2, model="b"), 20.0)
    assert not _is_anothers(draft, writing(2, model="b"), 50.0)


@pytest.mark.parametrize(("edition", "anothers"), [(1, False), (2, True), (3, True)])
def test_in_the_first_edition_each_refusal_of_a_summary_is_the_turns(edition: int, anothers: bool) -> None:
    draft = draft_of(*turns(100, 100, 10), config=evolve(SEVERAL, edition=edition))

    assert _is_anothers(draft, writing(2), 0.0) is anothers


def too_long(at: float = 20.0, **failure: Any) -> ModelFailed:
    return ModelFailed(effect("2.3.0"), Failure("too long", kind="context_overflow", **failure), at=at)


@pytest.mark.parametrize(("known", "length", "scale"), [(3.0, 2000, 6.0), (None, 3000, 4.0)])
def test_half_the_room_doubles_the_scale_of_another_models_summaries(
    known: float | None, length: int, scale: float
) -> None:
    """The one that is known of summaries, else the turn's, which stays as it is."""
    config = evolve(SEVERAL, context_tokens=10_000, options=GenerationOptions(max_tokens=2000))
    messages = UserMessage("m0", "x" * length, tokens=(length,)), *turns(10, 10)[1:], *turns(10)
    phase = writing(1, model="b")
    window = Window(0, length + 20.0, 2.0, summary=Summary(scale=known) if known else Summary())
    draft = draft_of(*messages, config=config, phase=phase, window=window, health=RESTING)

    _rebuild(draft, phase, too_long(available_tokens=4000))

    assert (draft.summary.scale, draft.scale) == (scale, 2.0)


def test_a_refused_request_for_a_summary_is_asked_for_in_less_with_the_seconds_that_are_left() -> None:
    """It is the next attempt within the same step."""
    phase = writing(2, shares_prefix=True)

    after = step(too_long(needed_tokens=1300), phase, *turns(300, 150, 10), health=RESTING)

    call = asked(after.decisions)
    assert (call.effect_id, call.purpose, call.seconds, call.model) == ("2.3.1", "summary", 45.0, OWN)
    assert isinstance(after.next_state.phase, Compacting)
    assert after.next_state.phase.number == 2
    assert after.next_state.window.scale > 1.0


def test_a_request_that_another_model_refused_leaves_the_turns_scale() -> None:
    """``b`` was asked before it rested, and the turn's answers are the own model's by now."""
    after = step(too_long(needed_tokens=1300), writing(2, model="b"), *turns(300, 150, 10), health=RESTING)

    call = asked(after.decisions)
    assert (call.effect_id, call.purpose, call.seconds, call.model) == ("2.3.1", "summary", 45.0, OWN)
    assert after.next_state.window.scale == 1.0
    assert after.next_state.window.summary.scale is not None
    assert not [decision for decision in after.decisions if isinstance(decision, FellBack)]


# ------------------------------------------------------------------------------------------------ between two turns


@pytest.mark.parametrize(("edition", "asks"), [(1, False), (2, True), (3, True)])
def test_since_edition_2_a_summary_covers_what_the_window_has_left_out(edition: int, asks: bool) -> None:
    """Here it has left out everything."""
    config = evolve(CONFIG, edition=edition, context_tokens=4100)

    after = LLMEngine(config).step(state_of(*turns(100, 100), window=Window(2, 0.0)), CompactionAsked())

    if asks:
        assert asked(after.decisions).purpose == "summary"
    else:
        assert after.decisions == (NotCompacted(NOTHING),)


# ----------------------------------------------------------------------------------------------------- other requests


def test_a_request_has_the_configured_options_unless_it_is_told_more() -> None:
    options = GenerationOptions(tool_choice="required")

    assert Setup(evolve(CONFIG, options=options)).request(History(()), "answer").options == options


@pytest.mark.parametrize(("choice", "later"), [("none", "none"), ("auto", "auto"), ("required", "auto")])
def test_behind_a_call_no_choice_of_tools_forces_another_one(choice: Any, later: str) -> None:
    setup = Setup(evolve(CONFIG, options=GenerationOptions(tool_choice=choice)))

    assert setup.request(History(()), "answer", called=True).options.tool_choice == later


def test_the_size_of_a_request_apart_is_that_of_its_prompt_and_its_message() -> None:
    asking = draft_of(*turns(100, 100, 10)).summary_request(2)

    assert asking is not None
    assert asking[1] == COSTS.bare + message_size(asking[0].messages[0])
