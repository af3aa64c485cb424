"""A transition under construction: the request for a summary, its effect and its size."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from cognition import (
    AgentConfig,
    AgentState,
    AssistantMessage,
    CallModel,
    Compacting,
    GenerationOptions,
    History,
    Limits,
    Message,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from cognition.context import fixed_size, message_size
from cognition.context.window import system_size
from cognition.engine._setup import Setup
from cognition.engine.draft import IMAGES_NOTE, Draft
from cognition.steps.phases import ModelAttempt
from cognition.steps.requests import Purpose
from cognition.steps.state import Counters, Spent, Summary, Window
from cognition.values.candidates import Briefing
from cognition.values.content import Image, TextPart
from cognition.values.counts import TemplateCosts
from cognition.values.messages import ToolResult
from cognition.values.routing import OWN
from tests.cognition.context.test_summary_texts import LONG_RESULT

CONFIG = AgentConfig(system="Be brief.", tools=(ToolSpec("read", read_only=True),))
ESTIMATE = fixed_size(CONFIG)
COSTS = TemplateCosts(
    fixed=90, user=5, reply=6, call=7, result=8, cut=30, bare=40, asking=260, estimate=ESTIMATE, model="a"
)
MESSAGES = (UserMessage("m1", "Buy plums.", tokens=(9,)), AssistantMessage("m2", "Done.", tokens=(8,)))
ENTRIES = "## user\nBuy plums.\n\n## assistant\nDone.\n"


def draft_of(config: AgentConfig = CONFIG, **state: Any) -> Draft:
    """After two messages of 17 tokens, in the third step of the first turn, which has decided two effects."""
    given = {"window": Window(0, 17.0), "counters": Counters(1, 3, 2, 2), **state}
    return Draft(Setup(config), AgentState(History(MESSAGES), **given))


def called(draft: Draft) -> str:
    (call,) = draft.decisions
    assert isinstance(call, CallModel)
    number = draft.phase.number  # type: ignore[union-attr]  # a summary
    assert draft.phase == Compacting(call.effect_id, None, 2, number, shares_prefix=True)
    return call.effect_id


@pytest.mark.parametrize(("number", "effect_id"), [(1, "1.4.0"), (2, "1.3.2"), (3, "1.3.2")])
def test_a_summary_is_a_step_of_its_own_and_further_attempts_belong_to_it(number: int, effect_id: str) -> None:
    draft = draft_of()

    assert draft.ask_summary(None, 2, None, 0.0, number)

    assert called(draft) == effect_id


def test_a_summary_is_asked_for_with_the_system_prompt_of_the_other_requests() -> None:
    """Its size without counts is an estimate of the prompt and the one message, without tools."""
    draft = draft_of(system="Be kind.", briefing=Briefing("News."))

    asking = draft.summary_request(2)

    assert asking is not None
    request, size = asking
    (message,) = request.messages
    assert request.system == "Be kind.\n\nNews."
    assert size == system_size("Be kind.\n\nNews.") + message_size(message)


def test_a_counted_request_for_a_summary_has_the_prompt_without_tools_and_its_message() -> None:
    draft = draft_of(costs=COSTS)

    asking = draft.summary_request(2)

    assert asking is not None
    request, size = asking
    (message,) = request.messages
    assert message.tokens == (COSTS.user + COSTS.asking + len(ENTRIES) + 1,)
    assert size == COSTS.bare + sum(message.tokens)


def test_what_has_come_to_the_prompt_since_counts_for_the_summary_too() -> None:
    """Nine characters more than the prompt that was counted."""
    draft = draft_of(costs=COSTS, system="Be brief. And kind")

    asking = draft.summary_request(2)

    assert asking is not None
    assert asking[1] == COSTS.bare + 9 + sum(asking[0].messages[0].tokens)


def test_the_words_of_a_summary_are_fewer_where_a_token_has_fewer_characters() -> None:
    """They are an eighth of the budget in unscaled tokens."""
    config = evolve(CONFIG, context_tokens=8000)
    budget = Setup(config).budget

    asking = draft_of(config, window=Window(0, 17.0, 2.0)).summary_request(2)

    assert asking is not None
    assert f"in fewer than {budget // 16} words" in asking[0].messages[0].text  # type: ignore[union-attr]  # a user's


def test_a_summary_has_no_more_tokens_than_the_budgets_leave() -> None:
    """Without a budget it has those of its own."""
    own = Setup(CONFIG).summary_options.max_tokens
    limited = evolve(CONFIG, limits=Limits(output_tokens=20))

    free = draft_of().summary_request(2)
    bound = draft_of(limited).summary_request(2)

    assert free is not None
    assert bound is not None
    assert (free[0].options.max_tokens, bound[0].options.max_tokens) == (own, 20)
    assert bound[0].options == evolve(free[0].options, max_tokens=20)


def test_behind_the_prompt_a_summary_s_request_has_the_room_that_prompt_and_instruction_leave() -> None:
    draft = draft_of(costs=COSTS, window=Window(0, 17.0, scale=2.0))

    room = draft._prefix_room()

    assert room == draft.setup.summary_room / 2.0 - draft.fixed - message_size(draft._instruction())
    assert 0 < room < draft.setup.summary_room / 2.0 - COSTS.fixed


def test_what_was_too_high_is_no_part_of_a_prompts_tokens() -> None:
    draft = draft_of(costs=COSTS, window=Window(0, 17.0, slack=5.0))

    assert draft.prompt_tokens() == COSTS.fixed + 17 - 5


def test_without_a_conversation_the_prompt_is_the_configured_one() -> None:
    draft = draft_of(system="Be kind to everybody.", costs=COSTS, briefing=Briefing("News."))

    draft.empty()

    assert (draft.fixed, draft.size) == (ESTIMATE, 0.0)
    assert draft.prompt_tokens() == int(ESTIMATE)


def test_an_agent_of_one_model_calls_its_own_whatever_was_chosen_when_it_had_others() -> None:
    assert draft_of(model="b").model_for("answer", 0.0) == OWN
    assert draft_of(evolve(CONFIG, models=("b",)), model="b").model_for("answer", 0.0) == "b"


@pytest.mark.parametrize(
    ("purpose", "steps", "asked"), [("answer", 1, True), ("answer", 2, False), ("final_answer", 1, False)]
)
def test_a_summary_is_asked_for_if_a_step_is_left_for_it_beside_the_next(
    purpose: Purpose, steps: int, asked: bool
) -> None:
    """Of three steps. A final answer is the last one, even where steps are left."""
    config = evolve(CONFIG, context_tokens=3000, compact_at=0.5, limits=Limits(steps=3))
    messages = (*MESSAGES, UserMessage("m3", "Thanks.", tokens=(9,)))
    draft = Draft(
        Setup(config),
        AgentState(
            History(evolve(message, tokens=(500,)) for message in messages),
            counters=Counters(1, steps, 0, 3),
            spent=Spent(steps=steps),
            window=Window(0, 1500.0),
            costs=COSTS,
        ),
    )

    assert draft._begin_summary(ModelAttempt(purpose), 0.0) is asked
    assert len(draft.decisions) == asked


def draft_before_summary(window: Window, *messages: Message, room: int) -> Draft:
    """Of a turn that has just begun, with this budget for prompts."""
    config = evolve(CONFIG, context_tokens=room + 600, options=GenerationOptions(max_tokens=600), compact_at=0.2)
    return Draft(Setup(config), AgentState(History(messages), window=window, costs=COSTS))


def until_of(draft: Draft) -> int:
    """The first message that a summary would leave."""
    assert draft._begin_summary(ModelAttempt(), 0.0)
    assert isinstance(draft.phase, Compacting)
    return draft.phase.until


def test_what_stays_behind_a_summary_is_a_fifth_of_the_budget_by_the_scale() -> None:
    """At twice the tokens, 140 of 1400 stay at most, and the second turn with the question has 220."""
    sizes = (200, 200, 10, 190, 20)
    messages = [evolve(MESSAGES[place % 2], id=f"m{place}", tokens=(size,)) for place, size in enumerate(sizes)]

    assert until_of(draft_before_summary(Window(0, 620.0, 2.0), *messages, room=1400)) == 4
    assert until_of(draft_before_summary(Window(0, 620.0), *messages, room=1400)) == 2


def test_a_shortened_result_stays_behind_a_summary_by_what_is_shown_of_it() -> None:
    """Of 140 tokens it has 134 with the counted note, and 180 if the note had a token for each byte."""
    assert until_of(draft_before_summary(Window(0, 290.0, cuts=((5, 400),)), *LONG_RESULT, room=700)) == 2


def test_a_draft_has_the_window_of_its_state() -> None:
    window = Window(1, 17.0, 2.0, ((1, 400),), Summary("TASK: all.", 1, tried=2), 3, 5.0)

    assert draft_of(window=window).window() == window


def test_a_result_without_a_note_is_kept_as_it_is() -> None:
    draft = draft_of()

    draft.record_result(ToolCall("c", "read"), ToolResult("Plums."))

    assert draft.history[-1] == ToolMessage("m3", "c", "read", "Plums.")


def test_the_tool_that_reads_results_again_is_named_where_it_can_read_them() -> None:
    """The engine itself answers questions to the user, and nothing keeps the answers."""
    config = evolve(CONFIG, tools=(ToolSpec("read"), ToolSpec("again", rereads=True)), features=("questions",))
    draft = draft_of(config)
    (own, *_) = draft.setup.engine_tools

    for name in (own, "read"):
        draft.record_result(ToolCall("c", name), ToolResult("x" * 100_000))

    asked, read = (message.content for message in list(draft.history)[-2:] if isinstance(message, ToolMessage))
    assert 'again(call="c") reads them' in read
    assert 'again(call="c")' not in asked


def test_pictures_of_results_follow_all_results_each_in_a_message_of_its_own() -> None:
    picture = Image.of(b"GIF89a")
    draft = draft_of()
    results = [(ToolCall(f"c{place}", "look"), ToolResult("Look.", images=(picture,)), "") for place in (1, 2)]

    draft.record_results(results)

    assert list(draft.history)[2:] == [
        ToolMessage("m3", "c1", "look", "Look."),
        ToolMessage("m4", "c2", "look", "Look."),
        UserMessage("m5", "", "engine", (TextPart(IMAGES_NOTE.format(name="look", id="c1")), picture)),
        UserMessage("m6", "", "engine", (TextPart(IMAGES_NOTE.format(name="look", id="c2")), picture)),
    ]
