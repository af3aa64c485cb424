"""Several models: which one is called, what a failure says of it, and what happens where none works."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings, strategies as st

from cognition import (
    AgentConfig,
    AgentState,
    Breaker,
    BreakerClosed,
    BreakerOpened,
    CallModel,
    CallTool,
    Compacting,
    CompactionAsked,
    ConfigError,
    FellBack,
    Idle,
    Limits,
    LLMEngine,
    ModeChanged,
    ModelChosen,
    ModelFailed,
    NotCompacted,
    ProposedCall,
    Rejected,
    RetryPlanned,
    RetryPolicy,
    StartTimer,
    Thinking,
    TimerFired,
    ToolReturned,
    ToolSpec,
    TurnFinished,
    Usage,
    UserSpoke,
    Waiting,
    from_data,
    to_data,
)
from cognition.engine.handlers.model import REFUSED
from cognition.steps.decisions import LimitHit
from cognition.testing import explore, laws
from cognition.testing._search import Walk
from cognition.values.outcomes import Completed, ErrorKind, Failed, Failure, LimitReached
from cognition.values.routing import (
    AT_ONCE,
    MOST_DOUBLINGS,
    OF_THE_MODEL,
    Health,
    HealthOf,
    after_failure,
    after_reply,
    alternative,
    choose,
    is_open,
    order_of,
)
from tests.cognition.session import Session, replied

pytestmark = pytest.mark.behaviour("K19a")

READ = ToolSpec("read", read_only=True)
CONFIG = AgentConfig(
    tools=(READ,),
    models=("b", "c"),
    fallback=("b", "c"),
    breaker=Breaker(failures=2, cooldown=10.0, longest=35.0),
    retry=RetryPolicy(attempts=3),
)
KINDS: tuple[ErrorKind, ...] = ("rate_limit", "transient", "offline", "auth", "bad_output", "fatal", "modality")


def session(config: AgentConfig = CONFIG, **changes: Any) -> Session:
    return Session(LLMEngine(evolve(config, **changes)))


def calls(of: Session) -> list[str]:
    """The models that the newest step calls."""
    return [decision.model for decision in of.decisions if isinstance(decision, CallModel)]


def told(of: Session, *kinds: type) -> list[Any]:
    return [decision for decision in of.decisions if isinstance(decision, kinds)]


def fail(of: Session, kind: ErrorKind, at: float = 0.0, **more: Any) -> None:
    """The model call in flight fails."""
    phase = of.state.phase
    assert isinstance(phase, Thinking | Compacting)
    of(ModelFailed(phase.effect_id, Failure(f"no: {kind}", kind=kind, **more), at=at))


def wait(of: Session, at: float = 0.0) -> None:
    phase = of.state.phase
    assert isinstance(phase, Waiting | Compacting)
    of(TimerFired(phase.effect_id, at=at))


def answer(of: Session, text: str = "Done.", at: float = 0.0) -> None:
    phase = of.state.phase
    assert isinstance(phase, Thinking | Compacting)
    of(evolve(replied(phase.effect_id, text), at=at))


# ----------------------------------------------------------------------------------------------------- falling back


def test_an_agent_of_one_model_knows_nothing_of_others() -> None:
    of = session(models=(), fallback=())
    of(UserSpoke("Hello"))
    fail(of, "offline")

    assert told(of, StartTimer)
    assert isinstance(of.state.phase, Waiting)
    assert of.state.phase.failure is None
    assert not told(of, FellBack, BreakerOpened)
    assert (of.state.health, of.state.spent.given_up) == ((), ())


def test_a_model_that_is_not_there_is_turned_away_from_at_once() -> None:
    of = session()
    of(UserSpoke("Hello"))
    assert calls(of) == [""]

    fail(of, "offline", at=5.0)

    assert told(of, BreakerOpened) == [BreakerOpened("", 10.0, "offline", "no: offline")]
    assert told(of, FellBack) == [FellBack("", "b", "offline", "no: offline")]
    assert calls(of) == ["b"]
    assert of.state.health == (Health("", 2, 1, 15.0),)
    fail(of, "auth", at=6.0)
    assert calls(of) == ["c"]
    answer(of)
    assert told(of, TurnFinished)[0].outcome == Completed("Done.")


def test_a_failure_that_may_pass_is_tried_again_until_the_breaker_opens() -> None:
    of = session()
    of(UserSpoke("Hello"))
    fail(of, "transient")
    assert isinstance(of.state.phase, Waiting)
    wait(of)
    assert calls(of) == [""]

    fail(of, "transient")

    assert calls(of) == ["b"]
    phase = of.state.phase
    assert isinstance(phase, Thinking)
    assert phase.attempt.number == 1, "each model has its own attempts"


def test_a_rate_limit_that_says_how_long_opens_the_breaker_for_that_time() -> None:
    of = session()
    of(UserSpoke("Hello"))

    fail(of, "rate_limit", at=100.0, retry_after=20.0)

    assert told(of, BreakerOpened)[0].seconds == 20.0
    assert calls(of) == ["b"]
    assert is_open(of.state.health, "", 119.0)
    assert not is_open(of.state.health, "", 120.0)


@pytest.mark.parametrize("kind", ["fatal", "modality", "bad_output"])
def test_what_says_nothing_of_the_model_opens_no_breaker(kind: ErrorKind) -> None:
    """Another one may be able to do it; the same one is not asked again in this turn."""
    of = session()
    of(UserSpoke("Hello"))
    fail(of, kind)
    while isinstance(of.state.phase, Waiting):  # unreadable output may be better the next time
        wait(of)
        fail(of, kind)

    assert calls(of) == ["b"]
    assert not told(of, BreakerOpened)
    assert of.state.health == ()
    assert of.state.spent.given_up == ("",)
    phase = of.state.phase
    assert isinstance(phase, Thinking)
    of(replied(phase.effect_id, "", ProposedCall("read")))
    of(ToolReturned(told(of, CallTool)[0].effect_id, "ok"))
    assert calls(of) == ["b"], "for the rest of the turn"
    answer(of)
    of(UserSpoke("And now?"))
    assert calls(of) == [""]


def test_a_breaker_lets_one_call_through_after_its_time_and_opens_for_longer() -> None:
    of = session()
    of(UserSpoke("Hello"))
    for at, seconds in ((0.0, 10.0), (10.0, 20.0), (30.0, 35.0), (65.0, 35.0)):
        fail(of, "transient", at=at)
        if at == 0.0:
            wait(of)
            fail(of, "transient")
        assert told(of, BreakerOpened) == [BreakerOpened("", seconds, "transient", "no: transient")]
        answer(of, at=at)
        of(UserSpoke("Again", at=at + seconds - 0.1))
        assert calls(of) == ["b"]
        answer(of, at=at + seconds - 0.1)
        of(UserSpoke("Again", at=at + seconds))
        assert calls(of) == [""]

    answer(of, at=100.0)

    assert told(of, BreakerClosed) == [BreakerClosed("")]
    assert of.state.health == ()


def test_where_no_other_model_works_the_plan_of_attempts_holds() -> None:
    of = session(fallback=())
    of(UserSpoke("Hello"))
    for _ in range(2):
        fail(of, "transient")
        assert told(of, StartTimer)
        wait(of)
    fail(of, "transient")

    assert told(of, TurnFinished)[0].outcome == Failed("transient", "no: transient")


def test_when_all_have_failed_the_turn_fails_and_the_next_one_tries_again() -> None:
    of = session()
    of(UserSpoke("Hello"))
    for model in ("", "b", "c"):
        assert calls(of) == [model]
        fail(of, "auth")
    assert told(of, TurnFinished)[0].outcome == Failed("auth", "no: auth")
    assert not told(of, FellBack)

    of(UserSpoke("Hello?", at=1.0))

    known = of.state.health
    for model in ("", "b", "c"):
        assert calls(of) == [model], "one of those that are open, rather than none"
        fail(of, "auth", at=1.0)
        assert not told(of, BreakerOpened), "what is called for want of another is no trial"
    assert isinstance(of.state.phase, Idle)
    assert of.state.health == known


def test_a_model_whose_breaker_is_open_answers_where_the_turn_would_fail_without_it() -> None:
    of = session(fallback=("b",))
    of(UserSpoke("Hello"))
    fail(of, "offline")
    fail(of, "rate_limit", retry_after=30.0)
    while isinstance(of.state.phase, Waiting):
        wait(of)
        assert calls(of) == ["b"]
        fail(of, "transient")
    of(UserSpoke("And now?", at=11.0))
    assert calls(of) == [""]

    fail(of, "fatal", at=11.0)

    assert told(of, FellBack) == [FellBack("", "b", "fatal", "no: fatal")]
    assert calls(of) == ["b"]
    answer(of, at=11.0)
    assert told(of, BreakerClosed) == [BreakerClosed("b")]


def test_what_may_pass_is_tried_again_before_a_model_whose_breaker_is_open() -> None:
    of = session(fallback=("b",), retry=RetryPolicy(attempts=2))
    of.state = AgentState(health=(Health("b", 2, 1, 100.0),))
    of(UserSpoke("Hello"))
    fail(of, "rate_limit", retry_after=2.0)
    wait(of, at=2.0)
    assert calls(of) == [""]

    fail(of, "rate_limit", at=2.0, retry_after=2.0)

    assert calls(of) == ["b"]


def test_a_model_that_works_again_by_the_end_of_a_wait_is_turned_to_and_named() -> None:
    of = session(fallback=("", "b"), routes=(("answer", "c"),))
    of.state = AgentState(health=(Health("b", 2, 1, 3.0),))
    of(UserSpoke("Hello"))
    fail(of, "fatal")
    fail(of, "offline")
    wait(of, at=2.0)
    assert (calls(of), told(of, FellBack)) == ([""], [])
    fail(of, "offline", at=2.0)

    wait(of, at=4.0)

    assert told(of, FellBack) == [FellBack("", "b", "offline", "no: offline")]
    assert calls(of) == ["b"]
    assert of.state.spent.given_up == ("c", "")
    phase = of.state.phase
    assert isinstance(phase, Thinking)
    assert phase.attempt.number == 1


def test_the_model_of_the_task_is_turned_to_where_its_breaker_closes_meanwhile() -> None:
    of = session(fallback=(), routes=(("answer", "c"),))
    for kind, later in (("fatal", False), ("offline", True)):
        of.state = AgentState(health=(Health("c", 2, 1, 3.0),))
        of(UserSpoke("Hello"))
        assert calls(of) == [""]

        fail(of, kind, at=0.0 if later else 4.0)  # type: ignore[arg-type]  # both are kinds
        if later:
            wait(of, at=4.0)

        assert [(one.model, one.to) for one in told(of, FellBack)] == [("", "c")]
        assert calls(of) == ["c"]


def test_a_breaker_keeps_to_its_own_time_where_no_rate_limit_says_how_long() -> None:
    health, seconds = after_failure((), "b", "offline", 3.0, CONFIG.breaker, 0.0)

    assert (health, seconds) == ((Health("b", 2, 1, 10.0),), 10.0)


def test_a_summary_is_done_without_before_a_model_is_called_whose_breaker_is_open() -> None:
    of = session(fallback=("b",), context_tokens=1200)
    of.state = AgentState(health=(Health("b", 2, 1, 100.0),))
    of(UserSpoke("Hello " * 100))
    answer(of)
    of(CompactionAsked())

    fail(of, "fatal")
    assert not told(of, NotCompacted), "the same model is asked in a prompt of its own"
    fail(of, "fatal")

    assert told(of, NotCompacted)
    assert not calls(of)


@pytest.mark.parametrize(("at", "model"), [(99.0, "b"), (100.0, "")])
def test_a_summary_between_turns_is_asked_for_where_a_breaker_is_closed_by_then(at: float, model: str) -> None:
    of = session()
    of(UserSpoke("Hello"))
    answer(of)
    of.state = evolve(of.state, health=(Health("", 2, 1, 100.0),))

    of(CompactionAsked(at=at))

    assert calls(of) == [model]


def test_a_model_that_says_how_long_while_its_breaker_is_open_is_believed_and_nothing_is_doubled() -> None:
    health, _ = after_failure((), "b", "offline", None, CONFIG.breaker, 0.0)

    said, seconds = after_failure(health, "b", "rate_limit", 3.0, CONFIG.breaker, 5.0)

    assert (said, seconds) == ((Health("b", 2, 1, 8.0),), 3.0)
    assert after_failure((), "b", "rate_limit", 0.0, CONFIG.breaker, 5.0) == ((Health("b", 1),), None), "says nothing"
    assert after_failure(health, "b", "auth", None, CONFIG.breaker, 9.0) == (health, None)
    trial, _ = after_failure(health, "b", "auth", None, CONFIG.breaker, 10.0)
    assert trial == (Health("b", 2, 2, 30.0),)


def test_a_model_that_is_asked_since_another_has_no_room_has_attempts_of_its_own() -> None:
    of = session(context_tokens=1200)
    of(UserSpoke("Hello"))
    fail(of, "transient")
    wait(of)

    fail(of, "context_overflow", needed_tokens=5000)

    phase = of.state.phase
    assert isinstance(phase, Thinking)
    assert (phase.attempt.model, phase.attempt.number) == ("b", 1)


def test_a_summary_between_turns_falls_back_whatever_the_turn_before_has_used_up() -> None:
    of = session(context_tokens=1200, limits=Limits(cost=1.0))
    of(UserSpoke("Hello " * 100))
    phase = of.state.phase
    assert isinstance(phase, Thinking)
    of(replied(phase.effect_id, "Done.", usage=Usage(cost=2.0)))
    of(CompactionAsked())

    fail(of, "offline")

    assert calls(of) == ["b"]


@pytest.mark.parametrize("edition", [1, 2])
def test_where_a_prompt_has_no_room_in_one_model_the_next_one_is_asked(edition: int) -> None:
    """Nothing can be left out of it; but another model may have a longer context, or count otherwise."""
    of = session(context_tokens=1200, edition=edition)
    of(UserSpoke("word " * 300))
    window = of.state.window
    slack = 0.99 * window.size  # as where exact sizes have been found to be too high
    of.state = evolve(of.state, window=evolve(window, slack=slack))

    fail(of, "context_overflow", needed_tokens=5000)

    assert told(of, FellBack) == [FellBack("", "b", "context_overflow", "no: context_overflow")]
    assert calls(of) == ["b"]
    assert not told(of, RetryPlanned)
    after = of.state.window
    assert (after.scale, after.slack) == (window.scale, slack), "what one model counts says nothing of another"
    fail(of, "context_overflow", needed_tokens=5000)
    fail(of, "context_overflow", needed_tokens=5000)
    (finished,) = told(of, TurnFinished)
    if edition == 1:
        assert "needs about 5000 tokens" in finished.outcome.message
    else:
        assert finished.outcome == Failed("context_overflow", REFUSED.format(message="no: context_overflow"))


def test_a_text_that_the_user_has_read_is_not_begun_anew_elsewhere() -> None:
    of = session()
    of(UserSpoke("Hello"))
    phase = of.state.phase
    assert isinstance(phase, Thinking)

    of(ModelFailed(phase.effect_id, Failure("gone", kind="offline"), "Hel"))

    assert told(of, TurnFinished)[0].outcome == Failed("offline", "gone", "Hel")
    assert told(of, BreakerOpened)
    assert not calls(of)


def test_a_budget_that_is_used_up_leaves_no_room_for_another_model() -> None:
    of = session(limits=Limits(cost=1.0))
    of(UserSpoke("Hello"))
    phase = of.state.phase
    assert isinstance(phase, Thinking)

    of(ModelFailed(phase.effect_id, Failure("gone", kind="offline"), usage=Usage(cost=2.0)))

    assert not told(of, FellBack)
    wait(of)
    assert isinstance(told(of, TurnFinished)[0].outcome, LimitReached)
    slow = session(limits=Limits(seconds=5.0))
    slow(UserSpoke("Hello"))
    fail(slow, "auth", at=6.0)
    assert not told(slow, FellBack)


# ---------------------------------------------------------------------------------------------------- who is called


def test_a_model_is_chosen_from_the_next_call_on() -> None:
    of = session()
    of(UserSpoke("Hello"))
    of(ModelChosen("c"))
    phase = of.state.phase
    assert isinstance(phase, Thinking)
    of(replied(phase.effect_id, "", ProposedCall("read")))
    of(ToolReturned(told(of, CallTool)[0].effect_id, "ok"))
    assert calls(of) == ["c"]

    fail(of, "offline")

    assert calls(of) == ["b"]
    (rejected,) = of(ModelChosen("d"))
    assert isinstance(rejected, Rejected)
    assert "'b', 'c'" in rejected.detail
    of(ModelChosen(""))
    assert of.state.model == ""


def test_without_other_models_only_the_agents_own_can_be_chosen() -> None:
    of = session(models=(), fallback=())
    (rejected,) = of(ModelChosen("d"))
    assert isinstance(rejected, Rejected)
    assert (rejected.input, rejected.detail) == ("ModelChosen", "there is no model 'd'; beside the agent's own: none")


@pytest.mark.parametrize("kind", ["offline", "context_overflow"])
def test_another_model_goes_on_with_the_last_step(kind: ErrorKind) -> None:
    """It is the same step, by its ids as well; its limits were checked when it began."""
    of = session(limits=Limits(steps=1))
    of(UserSpoke("Hello"))
    while calls(of) == [""]:
        fail(of, kind)

    assert calls(of) == ["b"]
    assert not told(of, LimitHit)
    phase = of.state.phase
    assert isinstance(phase, Thinking)
    assert phase.effect_id.rpartition(".")[0] == "1.1"


def test_who_is_chosen_has_a_trial_at_once_even_in_a_turn_that_has_turned_away_from_it() -> None:
    of = session()
    of(UserSpoke("Hello"))
    fail(of, "auth")
    assert calls(of) == ["b"]
    fail(of, "auth")
    assert calls(of) == ["c"]
    of(ModelChosen(""))
    assert of.state.health == (Health("", 2, 1, None), Health("b", 2, 1, 10.0))

    fail(of, "fatal", at=1.0)

    assert calls(of) == [""]
    fail(of, "auth", at=1.0)
    assert told(of, BreakerOpened) == [BreakerOpened("", 20.0, "auth", "no: auth")]
    assert isinstance(of.state.phase, Idle), "the turn has turned away from the others, and goes on to do so"


def test_what_somebody_chose_answers_in_place_of_what_the_program_says_of_answers() -> None:
    of = session(routes=(("answer", "b"), ("plan", "c")), features=("plan",), fallback=())
    of(UserSpoke("Hello"))
    assert calls(of) == ["b"]
    answer(of)
    for name in ("c", "", "b"):
        of(ModelChosen(name))
        of(UserSpoke("Hello"))
        assert calls(of) == [name]
        answer(of)
    of(ModeChanged("plan"))
    of(UserSpoke("Plan"))
    assert calls(of) == ["c"], "other tasks have their own"


def test_each_task_has_its_own_model() -> None:
    of = session(
        fallback=(), routes=(("summary", "b"), ("plan", "c")), features=("plan",), compact_at=0.5, context_tokens=1200
    )
    of(UserSpoke("Hello " * 200))
    assert calls(of) == [""]
    answer(of)
    of(CompactionAsked())
    assert calls(of) == ["b"]
    fail(of, "offline")
    assert (told(of, FellBack), calls(of)) == ([FellBack("b", "", "offline", "no: offline")], [""])
    fail(of, "fatal")
    assert told(of, NotCompacted)
    of(ModeChanged("plan"))
    of(UserSpoke("Plan."))
    assert calls(of) == ["c"]


def summarising(limits: Limits) -> Session:
    """A session that waits for a summary within a turn."""
    of = session(compact_at=0.3, context_tokens=1200, limits=limits)
    of(UserSpoke("word " * 100))
    while not isinstance(of.state.phase, Compacting):
        phase = of.state.phase
        assert isinstance(phase, Thinking)
        of(replied(phase.effect_id, "", ProposedCall("read", f'{{"n": {of.state.counters.step}}}')))
        of(ToolReturned(told(of, CallTool)[0].effect_id, "x" * 300))
    assert calls(of) == [""]
    return of


def test_a_summary_that_has_used_a_budget_up_is_not_asked_for_elsewhere() -> None:
    of = summarising(Limits(steps=20, cost=1.0))
    phase = of.state.phase
    assert isinstance(phase, Compacting)

    of(ModelFailed(phase.effect_id, Failure("gone", kind="auth"), usage=Usage(cost=2.0)))

    assert not told(of, FellBack)
    assert isinstance(told(of, TurnFinished)[0].outcome, LimitReached)


def test_a_summary_within_a_turn_is_made_by_another_model_where_one_fails() -> None:
    of = summarising(Limits(steps=20))
    fail(of, "transient")
    wait(of)
    fail(of, "transient")
    assert calls(of) == ["b"]
    assert isinstance(of.state.phase, Compacting)
    answer(of, "TASK: read.")
    assert calls(of) == ["b"], "the turn has turned away from the other one"
    assert isinstance(of.state.phase, Thinking)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"models": ("",)}, "a name has 1 to 200 printable characters"),
        ({"models": ("a" * 201,)}, "a name has 1 to 200 printable characters"),
        ({"models": ("a\nb",)}, "a name has 1 to 200 printable characters"),
        ({"models": ("a", "a")}, "models: 'a' is there twice"),
        ({"fallback": ("b",)}, "fallback: there is no model 'b'.*models has none"),
        ({"models": ("a",), "fallback": ("a", "a")}, "fallback: 'a' is there twice"),
        ({"models": ("a", "c"), "routes": (("summary", "b"),)}, "routes: there is no model 'b'.*models has 'a', 'c'"),
        ({"models": ("a",), "routes": (("summary", "a"), ("summary", ""))}, "routes: 'summary' is there twice"),
    ],
)
def test_what_refers_to_no_model_is_a_mistake(fields: dict[str, Any], message: str) -> None:
    assert AgentConfig(models=("a" * 200,)).models
    with pytest.raises(ConfigError, match=message):
        AgentConfig(**fields)


@pytest.mark.parametrize("fields", [{"failures": 0}, {"failures": 1001}, {"cooldown": 0.0}, {"longest": float("inf")}])
def test_a_breaker_has_numbers_that_mean_something(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"Breaker.{next(iter(fields))} must be"):
        Breaker(**fields)


# ------------------------------------------------------------------------------------------------- the parts, by laws

NAMES = st.sampled_from(("", "b", "c", "d"))
FAILURES = st.lists(st.tuples(NAMES, st.sampled_from(KINDS), st.none() | st.floats(0, 1000), st.floats(0, 50)))


@given(FAILURES, st.integers(1, 4))
def test_a_breaker_opens_exactly_where_it_has_to(
    failed: list[tuple[str, ErrorKind, float | None, float]], failures: int
) -> None:
    """Held to a plain account of what happened to each model."""
    breaker, now = Breaker(failures, 10.0, 35.0), 0.0
    health: HealthOf = ()
    account: dict[str, list[ErrorKind]] = {}
    until: dict[str, float] = {}
    for model, kind, retry_after, later in failed:
        now += later
        health, seconds = after_failure(health, model, kind, retry_after, breaker, now)
        if kind not in OF_THE_MODEL:
            assert seconds is None
            continue
        account.setdefault(model, []).append(kind)
        said = bool(kind == "rate_limit" and retry_after)
        resting = now < until.get(model, 0.0)
        opens = said or (not resting and (kind in AT_ONCE or model in until or len(account[model]) >= failures))
        assert (seconds is not None) == opens
        if seconds is not None:
            assert 0 < seconds <= breaker.longest
            until[model] = now + seconds
        for name in account:
            for when in (now, now + 5, now + 40):
                assert is_open(health, name, when) == (when < until.get(name, 0.0))
    assert [one.model for one in health] == sorted(account)
    assert all(one.opened <= MOST_DOUBLINGS for one in health)
    for name in account:
        rest, opened = after_reply(health, name)
        assert opened == (name in until)
        assert [one for one in health if one.model != name] == list(rest)


@given(NAMES | st.none(), st.lists(NAMES, unique=True), st.lists(NAMES, unique=True), FAILURES, st.floats(0, 100))
def test_the_first_one_that_works_is_called(
    active: str | None, fallback: list[str], given_up: list[str], failed: list[Any], now: float
) -> None:
    health: HealthOf = ()
    for model, kind, retry_after, at in failed:
        health, _ = after_failure(health, model, kind, retry_after, Breaker(), at)
    order = order_of(active, (("summary", "d"),), fallback, "summary")

    chosen, other = choose(order, health, given_up, now), alternative(order, health, given_up, now)

    assert order[:2] == ("d", active or "")[: len(order)] or active == "d"
    assert len(set(order)) == len(order)
    assert chosen in order
    left = [name for name in order if name not in given_up]
    works = [name for name in left if not is_open(health, name, now)]
    assert other == (works[0] if works else None)
    assert alternative(order, health, given_up, now, last=True) == ((works or left or [None])[0])
    assert not works or chosen == works[0]


@settings(max_examples=25)
@given(st.data())
def test_every_law_holds_of_sessions_whose_models_fail(data: st.DataObject) -> None:
    """And no turn goes on without end: each model has its attempts, and is given up once."""
    engine = LLMEngine(evolve(CONFIG, compact_at=0.4, context_tokens=1200, routes=(("summary", "c"),)))
    walk, of = Walk(laws(engine)), Session(engine)

    def take(event: Any) -> None:
        of(event)
        walk.take(event)

    now = 0.0
    for _ in range(data.draw(st.integers(1, 5))):
        now += data.draw(st.sampled_from((0.0, 8.0, 50.0)))
        if data.draw(st.booleans()):
            take(ModelChosen(data.draw(st.sampled_from(("", "b", "c"))), at=now))
        take(UserSpoke("word " * data.draw(st.sampled_from((1, 150))), at=now))
        failures = 0
        while not isinstance(phase := of.state.phase, Idle):
            if isinstance(phase, Waiting) or (isinstance(phase, Compacting) and phase.waiting):
                take(TimerFired(phase.effect_id, at=now))
            elif isinstance(phase, Thinking | Compacting) and data.draw(st.integers(0, 3)):
                kind = data.draw(st.sampled_from((*KINDS, "context_overflow")))
                failure = Failure("no", kind=kind, retry_after=data.draw(st.sampled_from((None, 3.0))))
                take(ModelFailed(phase.effect_id, failure, at=now))
                failures += 1
            elif isinstance(phase, Thinking) and data.draw(st.booleans()):
                take(evolve(replied(phase.effect_id, "", ProposedCall("read")), at=now))
                for running in told(of, CallTool):
                    take(ToolReturned(running.effect_id, "x" * 400, at=now))
            else:
                assert isinstance(phase, Thinking | Compacting)
                take(evolve(replied(phase.effect_id, "Done."), at=now))
            assert failures <= 3 * (CONFIG.retry.attempts + 1) * (of.state.counters.step + 1)
    assert from_data(to_data(of.state), AgentState) == of.state


def test_a_neighbourhood_with_several_models_keeps_every_law() -> None:
    config = AgentConfig(
        tools=(ToolSpec("look", read_only=True),),
        limits=Limits(steps=2, tool_calls=1, refusals=1),
        models=("b",),
        fallback=("b", ""),
        breaker=Breaker(failures=1),
        retry=RetryPolicy(attempts=2),
    )

    found = explore(LLMEngine(config), limit=600)

    assert found.violation is None
    assert found.states >= 600


def test_what_was_recorded_before_there_were_several_models_reads_as_it_did() -> None:
    data = to_data(AgentConfig())

    assert not {"models", "fallback", "routes", "breaker"} & data.keys()
    assert not {"model", "health"} & to_data(AgentState()).keys()
    assert from_data(to_data(CONFIG), AgentConfig) == CONFIG
