"""What the laws say of summaries can fail too: real steps, tampered with in one place."""

from __future__ import annotations

import pytest
from attrs import evolve

from cognition import (
    AgentConfig,
    AgentState,
    CallModel,
    CancelAsked,
    CancelEffect,
    Compacted,
    CompactionAsked,
    History,
    Input,
    Limits,
    LLMEngine,
    ModelFailed,
    ModelReplied,
    NotCompacted,
    ProposedCall,
    TimerFired,
    ToolReturned,
    ToolSpec,
    Transition,
    UserMessage,
    UserSpoke,
)
from cognition.context.window import SKIPPED_ID
from cognition.steps.phases import Compacting
from cognition.testing import World, default_alphabet, explore, laws
from cognition.testing._situations import COUNTED, LONG, WITH_CONTEXT, situation
from cognition.testing._world import advance, count, take
from cognition.values.candidates import Section
from cognition.values.counts import TemplateCosts
from cognition.values.outcomes import Failure
from tests.laws.tampering import Change, add, edge_after, effect, only, request, same, without

CONFIG = AgentConfig(
    system="Be brief.",
    tools=(ToolSpec("read", read_only=True),),
    limits=Limits(steps=30, tool_calls=None),
    context_tokens=2048,
    compact_at=0.5,
)
ENGINE = LLMEngine(CONFIG)
PAGE = "x" * 300
TASK = "TASK: read."


def until_summary(engine: LLMEngine = ENGINE, times: int = 1) -> tuple[Input, ...]:
    """Inputs of a turn up to the one that leads to a summary, for the ``times``th time."""
    inputs: list[Input] = [UserSpoke("Read all of it.")]
    world = take(engine, World(), inputs[0]).after
    while True:
        (open_,) = world.open
        if isinstance(open_, CallModel) and open_.purpose == "summary":
            times -= 1
            if not times:
                return tuple(inputs)
            event: Input = ModelReplied(open_.effect_id, TASK)
        elif isinstance(open_, CallModel):
            event = ModelReplied(open_.effect_id, calls=(ProposedCall("read", f'{{"n": {len(inputs)}}}'),))
        else:
            event = ToolReturned(open_.effect_id, PAGE)
        inputs.append(event)
        world = take(engine, world, event).after


ASKED = until_summary()
AGAIN = until_summary(times=2)
WRITTEN = (*ASKED, ModelReplied(effect(f"1.{len(ASKED) // 2 + 1}.0"), TASK))


def call_of(change: dict[str, object]) -> Change:
    def changed(decision: object) -> object:
        return evolve(decision, **change) if isinstance(decision, CallModel) else decision  # type: ignore[arg-type]

    return lambda t: evolve(t, decisions=tuple(map(changed, t.decisions)))  # type: ignore[arg-type]


AS_SUMMARY = call_of({"purpose": "summary"})


def apart(state: AgentState) -> AgentState:
    return evolve(state, phase=evolve(state.phase, shares_prefix=False))  # type: ignore[call-arg]  # a summary's


def hiding(state: AgentState) -> AgentState:
    return evolve(state, window=evolve(state.window, first=2))


CASES: list[tuple[str, tuple[Input, ...], Change, str]] = [
    (
        "L6",
        ASKED,
        lambda t: evolve(t, next_state=apart(t.next_state)),
        "a summary is asked for with tools, in a prompt",
    ),
    ("L6", WRITTEN, AS_SUMMARY, "a summary is asked for with tools, in a prompt"),
    (
        "L6",
        WRITTEN,
        lambda t: AS_SUMMARY(request(same, tools=())(t)),
        "a summary is asked for 1 replies after the one before",
    ),
    ("L6", WRITTEN, add(Compacted(1, 5, 5)), "a summary makes a prompt of 5 tokens one of 5"),
    ("L9", ASKED, request(same, system="Be long."), "another system prompt"),
    ("L9", ASKED, request(lambda m: History([*m[:-1], UserMessage("m", "x" * 9000, "engine")])), "tokens, and"),
    ("L9", ASKED, request(lambda m: m.drop(1)), "does not show the messages that the summary is to replace"),
    ("L9", ASKED, request(lambda m: History([m[0], m[2], *m[2:]])), "does not show the messages that the summary"),
    (
        "L9",
        ASKED,
        request(lambda m: History([*m[:-1], UserMessage("m", "Go on.")])),
        "does not end with the instruction",
    ),
    ("L9", ASKED, request(lambda m: History([*m[:-1], m[0]])), "does not end with the instruction"),
    (
        "L9",
        ASKED,
        lambda t: evolve(t, next_state=hiding(t.next_state)),
        "asks behind a prompt for a summary of messages",
    ),
    ("L9", AGAIN, request(lambda m: m.drop(1)), "does not begin with what the prompt shows before the window"),
    ("L9", WRITTEN, request(lambda m: m.drop(1)), "does not begin with the summary of what it leaves out"),
    ("L9", WRITTEN, request(lambda m: History()), "lacks the newest user message"),
    (
        "L9",
        WRITTEN,
        request(lambda m: History([m[0], UserMessage("m0", "Read."), *m[1:]])),
        "shows a part of a turn without the message that began it",
    ),
    ("L9", WRITTEN, request(lambda m: History([*m[:2], *m[4:]])), ""),
]


@pytest.mark.parametrize(("name", "inputs", "change", "expected"), CASES, ids=lambda value: None)
def test_a_step_that_was_tampered_with_is_found(
    name: str, inputs: tuple[Input, ...], change: Change, expected: str
) -> None:
    law = next(law for law in laws(ENGINE) if law.name == name)

    problem = law.step(edge_after(ENGINE, inputs, change))

    assert law.step(edge_after(ENGINE, inputs, lambda transition: transition)) is None
    if expected:
        assert problem is not None
        assert expected in problem.text


def test_a_summary_in_the_place_of_the_last_step_is_found() -> None:
    law = next(law for law in laws(LLMEngine(evolve(CONFIG, limits=Limits(steps=2)))) if law.name == "L6")
    hello = UserSpoke("Hello")
    reply = ModelReplied(effect("1.1.0"), calls=(ProposedCall("read"),))
    inputs = (hello, reply, ToolReturned(effect("1.1.1"), "ok"))

    problem = law.step(
        edge_after(ENGINE, inputs, lambda t: call_of({"purpose": "summary"})(request(same, tools=())(t)))
    )

    assert problem is not None
    assert problem.text == "a summary is asked for after 1 replies of 2: it takes the last step"


def test_a_retry_is_no_second_summary() -> None:
    """After a timer the same one is asked for again (law L6)."""
    engine = ENGINE
    world = World()
    for event in ASKED:
        world = take(engine, world, event).after
    (call,) = world.open
    assert world.turn is not None
    assert world.turn.summarised == world.turn.replies
    failed = take(engine, world, ModelFailed(call.effect_id, Failure("busy", kind="transient"))).after
    (timer,) = failed.open
    edge = take(engine, failed, TimerFired(timer.effect_id))

    assert all(law.step(edge) is None for law in laws(engine))
    assert edge.after.turn is not None
    assert edge.after.turn.summarised == world.turn.summarised


def test_a_reply_to_the_question_for_a_summary_is_no_answer_of_the_turn() -> None:
    """It may be cut, or be objected to, without the turn having been."""
    world = World()
    for event in ASKED:
        world = take(ENGINE, world, event).after
    (call,) = world.open
    cut = ModelReplied(call.effect_id, "TASK", finish_reason="length", objection="no JSON")

    turn = count(world, cut)

    assert turn is not None
    assert world.turn is not None
    assert (turn.cut, turn.objected, turn.replies) == (False, 0, world.turn.replies + 1)
    assert situation(world) != situation(evolve(world, turn=evolve(world.turn, summarised=None)))


def test_a_cancelled_summary_between_turns_ends_as_it_has_to() -> None:
    """No turn is finished by it; what was asked for is told of (law L7)."""

    class Silent(LLMEngine):
        def step(self, state, input):  # type: ignore[no-untyped-def]  # as its base
            transition = super().step(state, input)
            return without(NotCompacted)(transition) if isinstance(input, CancelAsked) else transition

    for engine, expected in ((ENGINE, None), (Silent(CONFIG), "a summary between turns is cancelled and ends as ")):
        law = next(law for law in laws(engine) if law.name == "L7")
        world = World()
        for event in (UserSpoke("Hello"), ModelReplied(effect("1.1.0"), "Hi."), CompactionAsked()):
            world = take(engine, world, event).after
        assert isinstance(world.state.phase, Compacting)
        assert world.in_turn

        problem = law.state(world)

        assert (problem is None) == (expected is None)
        if problem is not None and expected is not None:
            assert problem.text.startswith(expected)
            assert "CancelEffect" in problem.text


def test_a_model_that_says_nothing_may_be_asked_for_a_summary_on_the_way() -> None:
    """Its silence then is no reply of the turn (law L10)."""
    law = next(law for law in laws(ENGINE) if law.name == "L10")
    world = World()
    for event in ASKED[:-2]:
        world = take(ENGINE, world, event).after
    while not isinstance(world.state.phase, Compacting):
        assert law.state(world) is None
        (open_,) = world.open
        event = (
            ModelReplied(open_.effect_id, calls=(ProposedCall("read"),))
            if isinstance(open_, CallModel)
            else ToolReturned(open_.effect_id, PAGE)
        )
        world = take(ENGINE, world, event).after
    assert law.state(world) is None


def test_the_alphabet_has_what_leads_to_summaries_where_there_are_any() -> None:
    plain, with_summaries = default_alphabet(evolve(CONFIG, compact_at=None)), default_alphabet(CONFIG)

    assert set(map(repr, with_summaries)) - set(map(repr, plain)) == {repr(CompactionAsked()), repr(LONG)}


def test_a_neighbourhood_with_summaries_keeps_every_law() -> None:
    config = AgentConfig(
        tools=(ToolSpec("look", read_only=True),),
        limits=Limits(steps=8, tool_calls=3, refusals=2),
        context_tokens=1200,
        compact_at=0.1,
    )
    found = explore(LLMEngine(config), limit=300)

    assert found.violation is None
    assert found.states >= 300


def test_the_wish_for_a_summary_belongs_between_turns() -> None:
    transition, world = advance(ENGINE, World(), UserSpoke("Hello"))
    assert transition.decisions
    problem = next(law for law in laws(ENGINE) if law.name == "L2").step(
        edge_after(ENGINE, (UserSpoke("Hello"), CompactionAsked()), only(CancelEffect(effect("1.1.0"))))
    )

    assert world.in_turn
    assert problem is not None


def test_steps_that_are_left_out_in_silence_are_found() -> None:
    engine = LLMEngine(evolve(CONFIG, compact_at=None, limits=Limits(steps=100, tool_calls=None)))
    inputs: list[Input] = [UserSpoke("Read all of it.")]
    world = take(engine, World(), inputs[0]).after
    while True:
        (open_,) = world.open
        if isinstance(open_, CallModel) and any(one.id == SKIPPED_ID for one in open_.request.messages):
            break
        if isinstance(open_, CallModel):
            event: Input = ModelReplied(open_.effect_id, calls=(ProposedCall("read", f'{{"n": {len(inputs)}}}'),))
        else:
            event = ToolReturned(open_.effect_id, PAGE)
        inputs.append(event)
        world = take(engine, world, event).after
    law = next(law for law in laws(engine) if law.name == "L9")

    assert law.step(edge_after(engine, tuple(inputs), lambda transition: transition)) is None
    problem = law.step(
        edge_after(engine, tuple(inputs), request(lambda m: History([one for one in m if one.id != SKIPPED_ID])))
    )
    assert problem is not None
    assert "does not say that it leaves out" in problem.text

    def silent(transition: Transition) -> Transition:
        """Nothing is told, and the state knows of nothing."""
        state = transition.next_state
        summary = evolve(state.window.summary, skipped=0, skipped_tokens=())
        state = evolve(state, window=evolve(state.window, summary=summary))
        shorter = request(lambda m: History([one for one in m if one.id != SKIPPED_ID]))(transition)
        return evolve(shorter, next_state=state)

    problem = law.step(edge_after(engine, tuple(inputs), silent))
    assert problem is not None
    assert problem.text.endswith("messages of the turn, and counts 0")


def test_a_request_for_a_summary_that_is_too_large_by_its_counts_is_found() -> None:
    costs = TemplateCosts(40, user=4, reply=4, call=8, result=6, cut=20, bare=30, asking=200, estimate=500.0)
    inputs = (evolve(ASKED[0], costs=costs, tokens=(9,)), *ASKED[1:])
    world = World()
    for place, event in enumerate(inputs):
        world = take(ENGINE, world, event).after
        if any(isinstance(one, CallModel) and one.purpose == "summary" for one in world.open):
            inputs = inputs[: place + 1]
            break
    law = next(law for law in laws(ENGINE) if law.name == "L9")

    def swollen(messages: History) -> History:
        return History([*messages[:-1], evolve(messages[-1], tokens=(5000,))])

    assert law.step(edge_after(ENGINE, inputs, lambda transition: transition)) is None
    problem = law.step(edge_after(ENGINE, inputs, request(swollen)))
    assert problem is not None
    assert "tokens, and" in problem.text


def test_a_turn_that_has_no_room_for_a_nudge_ends_and_breaks_no_law() -> None:
    """Nor is there room once the model has written no summary either, on the way to the reminder."""
    engine = LLMEngine(evolve(CONFIG, compact_at=1.0, context_tokens=600, edition=1))

    def near(length: int) -> World:
        """A turn whose second call has arguments of this length, which stay whole."""
        world = take(engine, World(), UserSpoke("x" * 300)).after
        for arguments in ('{"n": 1}', f'{{"n": "{"y" * length}"}}'):
            call = ModelReplied(world.open[0].effect_id, calls=(ProposedCall("read", arguments),))
            world = take(engine, world, call).after
            world = take(engine, world, ToolReturned(world.open[0].effect_id, "ok")).after
            if not world.open or world.open[0].purpose == "summary":  # type: ignore[union-attr]  # a model call
                return World()
        return world

    world = next(world for world in map(near, range(500, 0, -1)) if world.open)
    law = next(law for law in laws(engine) if law.name == "L10")
    silent = take(engine, world, ModelReplied(world.open[0].effect_id))

    assert [one.purpose for one in silent.after.open if isinstance(one, CallModel)] == ["summary"]
    ended = take(engine, silent.after, ModelReplied(silent.after.open[0].effect_id))
    assert not ended.after.in_turn
    assert law.state(world) is None


def test_the_alphabet_has_texts_for_the_programs_own_sections_and_counts() -> None:
    config = evolve(CONFIG, sections=(Section("memory", 0.4),))

    usual = default_alphabet(CONFIG)
    added = [letter for letter in default_alphabet(config) if letter not in usual]

    assert added == [WITH_CONTEXT, COUNTED]
