"""Where a turn has little room: what fits finishes, and what can't fit ends before a tool runs."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from cognition import (
    AgentConfig,
    AgentState,
    CallModel,
    CallTool,
    Completed,
    Failed,
    GenerationOptions,
    LimitReached,
    Limits,
    LLMEngine,
    ModelReplied,
    ProposedCall,
    ToolReturned,
    ToolSpec,
    TurnFinished,
    Usage,
    UserSpoke,
)
from cognition.base.ids import EffectId
from cognition.context import longest_prompt, message_size, prompt_budget
from cognition.engine.handlers.model import CUT_IN_CONTEXT
from cognition.steps.decisions import RetryPlanned
from cognition.steps.phases import ModelAttempt, Thinking
from cognition.testing import World, laws
from cognition.testing._world import take
from cognition.values.counts import TemplateCosts
from cognition.values.messages import ToolMessage
from tests.cognition.session import Session, engine_with, replied

READ = ToolSpec("read", read_only=True)
CONTEXT = 4096


def costs(fixed: int) -> TemplateCosts:
    return TemplateCosts(
        fixed, user=5, reply=6, call=7, result=8, cut=30, bare=fixed, asking=250, estimate=4000.0, model="a", skipped=20
    )


def test_an_engine_tells_the_prompt_of_an_empty_session_whose_fixed_part_is_too_long() -> None:
    request = LLMEngine(AgentConfig("word " * 4000, context_tokens=CONTEXT)).build_prompt(AgentState())

    assert list(request.messages) == []


def test_what_was_counted_too_high_counts_for_no_prompt_that_takes_the_reply_s_part() -> None:
    """The slack is what the last prompt was smaller than its messages' counts."""
    session = Session(engine_with(context_tokens=CONTEXT, compact_at=None))
    session(UserSpoke("a", costs=costs(3300), tokens=(200,)))
    session(ModelReplied(asked(session).effect_id, "Yes.", usage=Usage(3300, 5), tokens=(10,)))
    assert session.state.window.slack == 200

    session(UserSpoke("b", tokens=(500,)))

    assert asked(session).purpose == "answer"


def asked(session: Session) -> CallModel:
    (call,) = [decision for decision in session.decisions if isinstance(decision, CallModel)]
    return call


@given(
    st.integers(3000, 3900),
    st.lists(st.integers(0, 300), min_size=1, max_size=4),
    st.integers(0, 3000),
)
def test_a_counted_turn_that_runs_a_tool_can_show_its_result(fixed: int, arguments: list[int], result: int) -> None:
    """However long a result is: each has the tokens of its bytes. Else no call runs, and each has an answer."""
    session = Session(engine_with(READ, context_tokens=CONTEXT, limits=Limits(steps=9, tool_calls=None)))
    session(UserSpoke("Go!", costs=costs(fixed), tokens=(8,)))
    calls = [ProposedCall("read", {"n": number, "x": "y" * length}) for number, length in enumerate(arguments)]
    session(ModelReplied(asked(session).effect_id, "", calls=tuple(calls), tokens=(sum(arguments) + 40,)))

    running = [decision for decision in session.decisions if isinstance(decision, CallTool)]
    for number, call in enumerate(running):
        session(ToolReturned(call.effect_id, "" if number else "z" * result))
        running += [decision for decision in session.decisions if isinstance(decision, CallTool)]

    history = list(session.state.history)
    assert len([message for message in history if isinstance(message, ToolMessage)]) == len(calls)
    if running:
        assert asked(session).purpose == "answer"
        assert fixed + 8 <= CONTEXT - 512
        return
    (finished,) = [decision for decision in session.decisions if isinstance(decision, TurnFinished)]
    assert isinstance(finished.outcome, Failed)
    assert finished.outcome.kind == "context_overflow"
    if fixed + message_size(history[0]) > CONTEXT - 512:
        assert f"take about {fixed + 8} of the 4096 tokens of the context" in finished.outcome.message
        return
    assert "and the prompt may have" in finished.outcome.message
    whole = sum(map(message_size, history[:2])) + 8 * len(calls) + 2 * 30
    assert fixed + whole > longest_prompt(session.engine.config), "nothing had to be left out"


def test_a_turn_that_ends_for_want_of_room_keeps_every_law() -> None:
    engine = engine_with(READ, context_tokens=CONTEXT)
    world = World()
    checked = laws(engine)
    for event in (
        UserSpoke("Go!", costs=costs(3930), tokens=(8,)),
        ModelReplied("1.1.0", "Let me see.", calls=(ProposedCall("read"),), tokens=(10,)),  # type: ignore[arg-type]
    ):
        edge = take(engine, world, event)
        world = edge.after
        assert [problem for law in checked if (problem := law.step(edge)) is not None] == []

    assert not world.in_turn
    (finished,) = [one for one in edge.transition.decisions if isinstance(one, TurnFinished)]
    assert isinstance(finished.outcome, Failed)
    assert finished.outcome.text == "Let me see."


def squeezed(**config: object) -> Session:
    """A session with an estimated prompt that took the reply's part of the context, by its reply's report."""
    session = Session(engine_with(READ, context_tokens=CONTEXT, compact_at=None, system="x" * 8000, **config))
    session(UserSpoke("Look."))
    session(replied(asked(session).effect_id, "", ProposedCall("read"), usage=Usage(2700, 20)))
    (call,) = [decision for decision in session.decisions if isinstance(decision, CallTool)]
    session(ToolReturned(call.effect_id, "z" * 4000))
    return session


def cut(session: Session, tokens: int, output: int = 30, text: str = "So far") -> None:
    usage = Usage(tokens, output)
    session(ModelReplied(asked(session).effect_id, text, usage=usage, finish_reason="length"))


def outcomes(session: Session) -> list[object]:
    return [decision.outcome for decision in session.decisions if isinstance(decision, TurnFinished)]


def test_a_reply_that_was_cut_where_the_context_was_full_is_asked_for_with_a_shorter_prompt() -> None:
    session = squeezed()
    before = sum(map(message_size, asked(session).request.messages))

    cut(session, 4060)

    planned = [one for one in session.decisions if isinstance(one, RetryPlanned)]
    assert planned == [RetryPlanned("context_overflow", CUT_IN_CONTEXT, 2, 0.0)]
    assert session.state.phase == Thinking(EffectId("1.2.1"), ModelAttempt(number=2, rebuilt=1))
    assert sum(map(message_size, asked(session).request.messages)) < before
    session(replied(asked(session).effect_id, "Done."))
    assert outcomes(session) == [Completed("Done.")]
    assert "So far" not in str(session.state.history)


@pytest.mark.parametrize(
    ("config", "tokens", "output"),
    [
        ({}, prompt_budget(AgentConfig(context_tokens=CONTEXT)), 30),
        ({"options": GenerationOptions(max_tokens=1024)}, 4060, 1024),
        ({"limits": Limits(steps=2)}, 4060, 30),
        ({"limits": Limits(input_tokens=6000)}, 4060, 30),
        ({"edition": 1}, 4060, 30),
    ],
    ids=["a prompt that leaves the reply its part", "max_tokens", "the last step", "a budget", "edition 1"],
)
def test_a_reply_that_was_cut_for_another_reason_ends_its_turn(
    config: dict[str, object], tokens: int, output: int
) -> None:
    session = squeezed(**config)

    cut(session, tokens, output)

    assert isinstance(outcomes(session)[0], LimitReached)


def test_a_reply_is_asked_for_so_at_most_three_times() -> None:
    session = squeezed()

    for number in (2, 3, 4):
        cut(session, 3600)
        assert session.state.phase == Thinking(
            EffectId(f"1.2.{number - 1}"), ModelAttempt(number=number, rebuilt=number - 1)
        )
    cut(session, 3600)

    assert outcomes(session) == [LimitReached("max_tokens", "So far")]


def test_where_nothing_more_can_be_left_out_a_cut_reply_ends_its_turn() -> None:
    session = squeezed()

    for tokens in (4060, 8120, 16240):
        cut(session, tokens)

    assert outcomes(session) == [LimitReached("max_tokens", "So far")]


def test_a_reply_is_asked_for_so_in_the_last_step_of_the_budget_too() -> None:
    """Its budget was checked before: what the cut reply took is a step, and there is another one."""
    session = squeezed(limits=Limits(steps=3))

    cut(session, 4060)

    assert isinstance(session.state.phase, Thinking)
    assert session.state.phase.attempt == ModelAttempt(number=2, rebuilt=1)
