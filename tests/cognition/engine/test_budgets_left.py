"""How much of each budget is used, what is left of it for a reply and for a worker, and which budget ends a turn."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import asdict, evolve
from hypothesis import example, given, strategies as st

from cognition import (
    AgentConfig,
    AgentState,
    AssistantMessage,
    GenerationOptions,
    History,
    LimitReached,
    Limits,
    ModelReplied,
    ProposedCall,
    ToolCall,
    ToolSpec,
    TurnFinished,
    UserMessage,
    UserSpoke,
)
from cognition.engine._setup import BUDGETS, Budget, Setup
from cognition.engine.draft import OF_SESSION, OUTPUT_BUDGETS, Draft
from cognition.engine.handlers.engine_calls import _remaining_limits
from cognition.steps.decisions import LimitHit, SpawnWorker
from cognition.steps.phases import FIRST_ATTEMPT, IDLE, Compacting, Phase, Thinking
from cognition.steps.state import Counters, Spent, Window
from cognition.values.messages import ToolMessage, Usage
from cognition.values.outcomes import FinishReason
from tests.cognition.session import Session, effect, engine_with, replied, worker

LOOK = ToolSpec("look", read_only=True)
TOTAL = Usage(1000, 100, cost=10.0)
"""The usage of the turns before."""
USAGE = Usage(70, 7, cost=0.5)
"""That of this turn."""
THINKING = Thinking(effect("1.1.0"), FIRST_ATTEMPT)
BETWEEN_TURNS: tuple[Phase, ...] = (IDLE, Compacting(effect("1.1.0"), None, 1))
IN_A_TURN: tuple[Phase, ...] = (THINKING, Compacting(effect("1.1.0"), FIRST_ATTEMPT, 1))
ALL_LIMITS = Limits(
    input_tokens=10**6,
    output_tokens=10**6,
    cost=1e6,
    session_input_tokens=10**6,
    session_output_tokens=10**6,
    session_cost=1e6,
    seconds=1e6,
)


def draft_of(limits: Limits, phase: Phase = THINKING, spent: Spent | None = None, **config: Any) -> Draft:
    """In a turn that began at 100 and used ``USAGE``, behind turns that used ``TOTAL``, at a message of 30 tokens."""
    state = AgentState(
        History((UserMessage("m1", "Go.", tokens=(30,)),)),
        phase,
        Counters(2, 1, 1, 1),
        Spent(100.0, usage=USAGE) if spent is None else spent,
        Window(0, 30.0),
        total=TOTAL,
    )
    return Draft(Setup(AgentConfig(limits=limits, **config)), state)


# --------------------------------------------------------------------------------------------------------- what is used


@pytest.mark.parametrize("phase", [*IN_A_TURN, *BETWEEN_TURNS])
def test_a_turns_budget_counts_the_turn_and_a_sessions_all_turns(phase: Phase) -> None:
    """Between two turns the usage of the last one is in the total already."""
    draft = draft_of(ALL_LIMITS, phase)
    all_turns = TOTAL if phase in BETWEEN_TURNS else TOTAL + USAGE

    used = {name: draft._used(name) for name in BUDGETS if name != "seconds"}

    assert used == {
        "input_tokens": 70,
        "output_tokens": 7,
        "cost": 0.5,
        "session_input_tokens": all_turns.input_tokens,
        "session_output_tokens": all_turns.output_tokens,
        "session_cost": all_turns.cost,
    }


USED: dict[Budget, float] = {
    "input_tokens": 70,
    "output_tokens": 7,
    "cost": 0.5,
    "session_input_tokens": 1070,
    "session_output_tokens": 107,
    "session_cost": 10.5,
    "seconds": 20.0,
}
"""At the time 120."""


def limits_of(**budgets: float) -> Limits:
    return Limits(**budgets)  # type: ignore[arg-type]  # names and numbers of a table


@pytest.mark.parametrize("name", BUDGETS)
def test_a_budget_ends_a_turn_when_it_is_used_up(name: Budget) -> None:
    """Exactly used up is used up: there is nothing for another call."""
    used, step = USED[name], 1 if isinstance(USED[name], int) else 0.25

    assert draft_of(limits_of(**{name: used})).exhausted_limit(120.0) == name
    assert draft_of(limits_of(**{name: used - step})).exhausted_limit(120.0) == name
    assert draft_of(limits_of(**{name: used + step})).exhausted_limit(120.0) is None


def test_of_several_budgets_that_are_used_up_the_first_is_named() -> None:
    for place, name in enumerate(BUDGETS):
        limits = limits_of(**{one: USED[one] for one in BUDGETS[place:]})
        assert draft_of(evolve(limits, tool_calls=None)).exhausted_limit(120.0) == name


@pytest.mark.parametrize(("refusals", "limit"), [(1, None), (2, "refusals"), (3, "refusals")])
def test_refusals_in_a_row_end_a_turn_before_any_budget_does(refusals: int, limit: str | None) -> None:
    spent = Spent(100.0, refusals=refusals, usage=USAGE)

    assert draft_of(Limits(refusals=2), spent=spent).exhausted_limit(0.0) == limit
    both = Limits(refusals=2, input_tokens=1)
    assert draft_of(both, spent=spent).exhausted_limit(0.0) == (limit or "input_tokens")


@pytest.mark.parametrize("name", BUDGETS)
def test_only_a_budget_of_the_session_prevents_a_summary_between_turns(name: Budget) -> None:
    used, step = USED[name], 1 if isinstance(USED[name], int) else 0.25
    expected = name if name in OF_SESSION else None

    assert draft_of(limits_of(**{name: used})).exhausted_session() == expected
    assert draft_of(limits_of(**{name: used + step})).exhausted_session() is None
    assert draft_of(limits_of(**{name: used}), IDLE).exhausted_session() is None, "the last turn is in the total"


def test_the_first_budget_of_the_session_is_named() -> None:
    for place, name in enumerate(OF_SESSION):
        limits = limits_of(**{one: USED[one] for one in OF_SESSION[place:]}, cost=0.1)
        assert draft_of(limits).exhausted_session() == name


# ------------------------------------------------------------------------------------------------------------ overdrawn


@pytest.mark.parametrize("name", BUDGETS)
def test_a_reply_overdraws_a_budget_of_tokens_or_cost_beyond_its_end(name: Budget) -> None:
    """A reply that was cut where the budget of its tokens ends was cut by it."""
    used, step = USED[name], 1 if isinstance(USED[name], int) else 0.25
    beyond = None if name == "seconds" else name

    for cut in (False, True):
        assert draft_of(limits_of(**{name: used - step})).overdrawn(cut=cut) == beyond
        assert draft_of(limits_of(**{name: used + step})).overdrawn(cut=cut) is None
    exact = limits_of(**{name: used})
    assert draft_of(exact).overdrawn(cut=False) is None
    assert draft_of(exact).overdrawn(cut=True) == (name if name in OUTPUT_BUDGETS else None)
    assert draft_of(limits_of(**{name: used - step}), edition=1).overdrawn(cut=True) is None


def test_the_first_budget_that_is_overdrawn_is_named() -> None:
    for place, name in enumerate(BUDGETS[:-1]):
        limits = limits_of(**{one: USED[one] / 2 if one.endswith("cost") else 1 for one in BUDGETS[place:]})
        assert draft_of(limits).overdrawn(cut=False) == name


def test_without_a_budget_of_tokens_or_cost_nothing_is_overdrawn() -> None:
    assert draft_of(Limits()).overdrawn(cut=True) is None
    assert draft_of(Limits(seconds=1.0)).overdrawn(cut=True) is None


# --------------------------------------------------------------------------------------------- what is left for a reply


@given(
    output=st.none() | st.integers(1, 5000),
    session=st.none() | st.integers(1, 6000),
    own=st.none() | st.integers(1, 4000),
)
@example(output=10, session=110, own=None)
@example(output=11, session=110, own=None)
@example(output=7, session=None, own=None)
@example(output=3, session=None, own=None)
@example(output=8, session=None, own=1)
@example(output=17, session=None, own=10)
@example(output=18, session=None, own=11)
@example(output=4096, session=None, own=None)
def test_a_reply_may_have_the_smallest_rest_of_the_budgets(
    output: int | None, session: int | None, own: int | None
) -> None:
    """At least one token, and no figure if the reply could not have more anyway."""
    options = GenerationOptions(max_tokens=own)
    draft = draft_of(Limits(output_tokens=output, session_output_tokens=session), options=options)
    rests = [limit - used for limit, used in ((output, 7), (session, 107)) if limit is not None]
    could = own if own is not None else max(4096 - draft.prompt_tokens(), 4096 - draft.setup.budget)

    most = draft.most_output()

    assert most == (max(min(rests), 1) if rests and min(rests) < could else None)
    edition = draft_of(Limits(output_tokens=output, session_output_tokens=session), options=options, edition=1)
    assert edition.most_output() is None


@pytest.mark.parametrize(("size", "could"), [(0.0, 4096), (100.0, 3996), (3584.0, 512), (3585.0, 512), (9000.0, 512)])
def test_a_reply_could_have_what_the_prompt_leaves_or_at_least_what_is_set_aside(size: float, could: int) -> None:
    """The prompt's 16 fixed tokens are among these."""
    for left, most in ((could - 1, could - 1), (could, None)):
        draft = draft_of(Limits(output_tokens=left + 7))
        draft.size = size - draft.fixed
        assert draft.most_output() == most


@pytest.mark.parametrize(
    ("output", "session", "name"),
    [
        (None, None, None),
        (9, None, "output_tokens"),
        (None, 9, "session_output_tokens"),
        (10, 110, "output_tokens"),
        (10, 109, "session_output_tokens"),
        (9, 110, "output_tokens"),
    ],
)
def test_the_budget_that_leaves_the_fewest_tokens_bounds_a_reply(
    output: int | None, session: int | None, name: str | None
) -> None:
    """Of two that leave as many, the turn's."""
    limits = Limits(output_tokens=output, session_output_tokens=session, input_tokens=1, cost=0.1)

    assert draft_of(limits).tightest_output() == name


# -------------------------------------------------------------------------------------------- what is left for a worker


def rest_of(limits: Limits, now: float = 120.0, phase: Phase = THINKING) -> Limits:
    draft = draft_of(limits, phase, Spent(100.0, tool_calls=5, usage=USAGE, workers=3))
    draft.now = now
    return _remaining_limits(draft)


def test_a_worker_has_the_rest_of_each_budget() -> None:
    limits = Limits(
        steps=9,
        tool_calls=25,
        refusals=4,
        input_tokens=170,
        output_tokens=37,
        cost=0.75,
        seconds=60.0,
        workers=8,
        hook_continuations=5,
        corrections=6,
        repeats=7,
        session_input_tokens=1570,
        session_output_tokens=167,
        session_cost=12.0,
    )

    assert rest_of(limits) == Limits(
        steps=9,
        tool_calls=20,
        refusals=4,
        input_tokens=100,
        output_tokens=30,
        cost=0.25,
        seconds=40.0,
        workers=5,
        hook_continuations=5,
        corrections=6,
        repeats=7,
        session_input_tokens=500,
        session_output_tokens=60,
        session_cost=1.5,
    )


USED_UP = {
    "tool_calls": 5,
    "input_tokens": 70,
    "output_tokens": 7,
    "workers": 3,
    "session_input_tokens": 1070,
    "session_output_tokens": 107,
}


@pytest.mark.parametrize("name", USED_UP)
@pytest.mark.parametrize(("more", "rest"), [(-1, 1), (0, 1), (1, 1), (2, 2)])
def test_of_a_number_that_is_used_up_a_worker_has_one(name: str, more: int, rest: int) -> None:
    """No limit is below its smallest amount."""
    limits = limits_of(**{name: USED_UP[name] + more})

    assert rest_of(limits) == evolve(limits, **{"workers": 5, "tool_calls": 59, name: rest})


@pytest.mark.parametrize("name", ["cost", "session_cost", "seconds"])
@pytest.mark.parametrize(("more", "rest"), [(-0.25, 1e-9), (0.0, 1e-9), (0.25, 0.25)])
def test_of_an_amount_that_is_used_up_a_worker_has_hardly_any(name: Budget, more: float, rest: float) -> None:
    limits = limits_of(**{name: USED[name] + more})

    assert rest_of(limits) == limits_of(**{"workers": 5, "tool_calls": 59, name: rest})


def test_what_has_no_limit_has_none_for_a_worker() -> None:
    limits = Limits(tool_calls=None, workers=None)

    assert rest_of(limits) == limits
    assert asdict(rest_of(limits)) == asdict(limits)


def test_a_worker_is_spawned_with_the_rest_at_that_moment() -> None:
    session = Session(engine_with(features=("workers",), limits=Limits(seconds=50.0, tool_calls=9, output_tokens=20)))
    session(UserSpoke("Work", at=100.0))

    decisions = session(replied("1.1.0", "", worker("a"), worker("b"), usage=Usage(10, 4), at=110.0))

    spawned = [one.limits for one in decisions if isinstance(one, SpawnWorker)]
    rest = Limits(seconds=40.0, tool_calls=9, output_tokens=16)
    assert spawned == [evolve(rest, tool_calls=calls, workers=left) for calls, left in ((8, 7), (7, 6))]


@pytest.mark.parametrize("finish", ["stop", "length"])
@pytest.mark.parametrize(
    ("text", "reasoning", "calls", "is_kept"),
    [
        ("Hi", "", 0, True),
        ("", "Hm", 0, True),
        ("", "", 1, True),
        ("Hi", "Hm", 1, True),
        ("", "", 0, False),
    ],
)
@pytest.mark.parametrize("budget", ["input_tokens", "output_tokens"])
def test_a_reply_that_overdraws_a_budget_is_kept_and_none_of_its_calls_runs(
    text: str, reasoning: str, calls: int, is_kept: bool, finish: FinishReason, budget: Any
) -> None:
    """Its text is the answer so far where the budget may have cut it, or where it is a whole answer."""
    session = Session(engine_with(LOOK, limits=evolve(Limits(), **{budget: 8})))
    session(UserSpoke("Go."))
    proposed = (ProposedCall("look"),) * calls

    session(
        ModelReplied(
            effect("1.1.0"), text, reasoning, calls=proposed, usage=Usage(30, 30, cost=2.0), finish_reason=finish
        )
    )

    detail = f"the limit of 8 {budget.partition('_')[0]} tokens is reached"
    call = ToolCall("call-1-1-1", "look")
    kept = [AssistantMessage("m2", text, reasoning, (call,) * calls, finish == "length")] * is_kept
    results = [ToolMessage("m3", call.id, "look", f"Not run: {detail}.", "error")] * calls
    assert list(session.state.history[1:]) == kept + results
    *_, hit, end = session.decisions
    assert hit == LimitHit(budget, detail)
    answer = text if not calls or budget == "output_tokens" else ""
    assert end == TurnFinished(LimitReached(budget, answer), Usage(30, 30, cost=2.0))
