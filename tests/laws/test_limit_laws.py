"""L6 of replies that are cut and of calls that take time: an engine that breaks it is found."""

from __future__ import annotations

import pytest
from attrs import evolve

from cognition import (
    CallModel,
    Completed,
    Decision,
    GenerationOptions,
    Input,
    LimitReached,
    Limits,
    LLMEngine,
    ModelInterrupted,
    ToolReturned,
    Transition,
    TurnFinished,
    Usage,
)
from cognition.steps.phases import ModelAttempt, Thinking
from cognition.testing import laws
from cognition.testing._budget_laws import _reached_by_session
from cognition.testing._world import Turn
from tests.laws.tampering import CONFIG, ENGINE, HELLO, LOOKED, Change, calling, edge_after, effect, only

MINUTE = LLMEngine(evolve(CONFIG, limits=Limits(seconds=60.0)))
UNCOUNTED = LLMEngine(evolve(CONFIG, limits=evolve(CONFIG.limits, output_tokens=None)))
CUT = evolve(calling("1.1.0"), text="Do", finish_reason="length")
LATE = ModelInterrupted(effect("1.1.0"), "Do", late=True)


def within(seconds: float | None) -> Change:
    def changed(decision: Decision) -> Decision:
        return evolve(decision, seconds=seconds) if isinstance(decision, CallModel) else decision

    return lambda transition: evolve(transition, decisions=tuple(map(changed, transition.decisions)))


def asks_again(options: GenerationOptions) -> Change:
    def changed(transition: Transition) -> Transition:
        after = transition.next_state
        request = evolve(ENGINE.build_prompt(after), options=options)
        again = CallModel(effect("1.2.0"), "answer", request)
        return Transition(evolve(after, phase=Thinking(effect("1.2.0"), ModelAttempt())), (again,))

    return changed


@pytest.mark.parametrize(
    ("engine", "inputs", "change", "expected"),
    [
        (MINUTE, (HELLO,), within(None), "the model may take None seconds, and the turn has 60 left"),
        (MINUTE, (HELLO,), within(60.1), "the model may take 60.1 seconds"),
        (MINUTE, (evolve(HELLO, at=5.0), evolve(calling("1.1.0", "nowhere"), at=15.0)), within(50.1), "50.1 seconds"),
        (ENGINE, (HELLO, CUT), asks_again(CONFIG.options), "asked again at the token limit that cut its reply"),
        (
            UNCOUNTED,
            (HELLO, evolve(calling("1.1.0", "look"), finish_reason="length"), ToolReturned(effect("1.1.1"), "ok")),
            asks_again(CONFIG.options),
            "asked again at the token limit that cut its reply",
        ),
        (ENGINE, (HELLO, CUT), only(TurnFinished(Completed("Do"), Usage())), "is taken for an answer"),
        (
            ENGINE,
            (*LOOKED, evolve(CUT, effect_id=effect("1.2.0"), finish_reason="stop")),
            only(TurnFinished(LimitReached("max_tokens", "Do"), Usage())),
            "the limit of max_tokens, which was not reached",
        ),
        (
            ENGINE,
            (HELLO, LATE),
            only(TurnFinished(LimitReached("seconds", "Do"), Usage())),
            "the limit of seconds, which was not reached",
        ),
    ],
)
def test_a_step_that_goes_beyond_its_limit_or_names_another_is_found(
    engine: LLMEngine, inputs: tuple[Input, ...], change: Change, expected: str
) -> None:
    law = next(law for law in laws(engine) if law.name == "L6")

    problem = law.step(edge_after(engine, inputs, change))

    assert problem is not None
    assert expected in problem.text
    assert law.step(edge_after(engine, inputs, lambda transition: transition)) is None


@pytest.mark.parametrize(
    ("engine", "inputs", "change"),
    [
        (ENGINE, (HELLO, CUT), asks_again(GenerationOptions(max_tokens=2000))),  # at another limit
        (MINUTE, (HELLO,), within(0.5)),
        (MINUTE, (HELLO, LATE), only(TurnFinished(LimitReached("seconds", "Do"), Usage()))),
    ],
)
def test_a_step_that_keeps_within_them_is_in_order(
    engine: LLMEngine, inputs: tuple[Input, ...], change: Change
) -> None:
    law = next(law for law in laws(engine) if law.name == "L6")

    assert law.step(edge_after(engine, inputs, change)) is None


@pytest.mark.parametrize(
    ("limits", "usage", "outcome", "expected"),
    [
        (Limits(output_tokens=8), Usage(0, 9), Completed("Do"), "exceeds output_tokens is taken for an answer"),
        (Limits(input_tokens=8), Usage(9), Completed("Do"), "exceeds input_tokens is taken for an answer"),
        (Limits(cost=8.0), Usage(cost=9.0), Completed("Do"), "exceeds cost is taken for an answer"),
        (Limits(session_cost=8.0), Usage(cost=7.0), LimitReached("session_cost", "Do"), "session_cost, which was not"),
        (Limits(), Usage(0, 9), LimitReached("session_output_tokens", "Do"), "session_output_tokens, which was not"),
    ],
)
def test_a_budget_that_is_exceeded_unseen_or_named_too_early_is_found(
    limits: Limits, usage: Usage, outcome: Completed | LimitReached, expected: str
) -> None:
    engine = LLMEngine(evolve(CONFIG, limits=limits))
    law = next(law for law in laws(engine) if law.name == "L6")
    answer = evolve(calling("1.1.0"), text="Do", usage=usage)

    problem = law.step(edge_after(engine, (HELLO, answer), only(TurnFinished(outcome, usage))))

    assert problem is not None
    assert expected in problem.text
    assert law.step(edge_after(engine, (HELLO, answer), lambda transition: transition)) is None


def test_a_state_without_usage_says_nothing_of_a_budget_of_the_session() -> None:
    """An engine of one's own may keep it elsewhere."""
    assert _reached_by_session(Limits(session_cost=1.0), Turn(), object()) == {}
