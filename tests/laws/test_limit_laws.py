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
from tests.laws.tampering import CONFIG, ENGINE, HELLO, LOOKED, Change, calling, edge_after, effect, only

MINUTE = LLMEngine(evolve(CONFIG, limits=Limits(seconds=60.0)))
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
            ENGINE,
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
