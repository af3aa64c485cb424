"""What law L6 says of several models can fail too: real steps, tampered with in one place."""

from __future__ import annotations

import pytest
from attrs import evolve

from cognition import (
    AgentConfig,
    BreakerOpened,
    CallModel,
    FellBack,
    Input,
    Limits,
    LLMEngine,
    ModeChanged,
    ModelChosen,
    ModelFailed,
    ModelReplied,
    ToolSpec,
    Transition,
    Usage,
    UserSpoke,
)
from cognition.steps.state import Spent
from cognition.testing import Law, default_alphabet, laws
from cognition.testing._situations import GONE, MUCH_LATER
from cognition.values.outcomes import Failure
from tests.laws.tampering import Change, edge_after, effect, state, without

CONFIG = AgentConfig(tools=(ToolSpec("look"),), models=("b", "c"), fallback=("b",), routes=(("plan", "c"),))
ENGINE = LLMEngine(CONFIG)
HELLO = UserSpoke("Hello")
UNSPENT = Spent()
GONE_NOW = ModelFailed(effect("1.1.0"), Failure("gone", kind="offline"))
TURNED = (HELLO, GONE_NOW)


def law_of(engine: LLMEngine) -> Law:
    return next(law for law in laws(engine) if law.name == "L6")


def problem(change: Change, inputs: tuple[Input, ...] = (HELLO,), engine: LLMEngine = ENGINE) -> str:
    assert law_of(engine).step(edge_after(engine, inputs, lambda transition: transition)) is None
    found = law_of(engine).step(edge_after(engine, inputs, change))
    return "" if found is None else found.text


def calling(model: str) -> Change:
    def changed(transition: Transition) -> Transition:
        made = [evolve(one, model=model) if isinstance(one, CallModel) else one for one in transition.decisions]
        return evolve(transition, decisions=tuple(made))

    return changed


def test_a_call_to_a_model_that_is_not_in_its_order_is_found() -> None:
    assert problem(calling("c")) == "1.1.0 goes to 'c', which is none of ('', 'b')"
    assert problem(calling("b")) == "1.1.0 goes to 'b', and of ('', 'b') ['', 'b'] work and [] were given up"
    plain = LLMEngine(evolve(CONFIG, models=(), fallback=(), routes=()))
    assert problem(calling("b"), engine=plain) == "1.1.0 goes to 'b', and there are no other models"


def test_a_call_to_one_that_is_known_not_to_work_is_found() -> None:
    assert problem(calling(""), TURNED).startswith("1.1.1 goes to '', and of ('', 'b') ['b'] work and [''] were given")
    planning: tuple[Input, ...] = (ModeChanged("plan"), HELLO)
    assert problem(calling("b"), planning).startswith("1.1.0 goes to 'b', and of ('c', '', 'b') ['c', '', 'b'] work")


def test_a_turn_to_another_model_that_does_not_happen_is_found() -> None:
    assert problem(without(CallModel), TURNED) == "it turns to 'b', and calls no model"

    def elsewhere(transition: Transition) -> Transition:
        made = [evolve(one, to="c") if isinstance(one, FellBack) else one for one in transition.decisions]
        return evolve(transition, decisions=tuple(made))

    assert problem(elsewhere, TURNED) == "it is told to turn from '' to 'c', and 'b' is called"


def test_what_a_call_came_to_and_nobody_counted_is_found() -> None:
    assert "has failed (offline), and nothing is known of it" in problem(
        lambda t: state(health=(), spent=UNSPENT)(without(CallModel)(without(FellBack)(t))), TURNED
    )
    back = (*TURNED, ModelReplied(effect("1.1.1"), "Hi."))
    known = "'b' has answered, and counts as one that has failed"
    health = edge_after(ENGINE, TURNED, lambda transition: transition).transition.next_state.health
    assert problem(state(health=(evolve(health[0], model="b"),)), back).startswith(known)


def test_a_turn_that_fails_while_a_model_is_left_is_found() -> None:
    failed = (*TURNED, ModelFailed(effect("1.1.1"), Failure("no", kind="fatal")))

    assert problem(state(spent=UNSPENT), failed) == "the turn fails where 'b' has failed, and [''] were not asked"
    read = (*TURNED, ModelFailed(effect("1.1.1"), Failure("no", kind="fatal"), "Hel"))
    assert problem(state(spent=UNSPENT), read) == ""
    poor = LLMEngine(evolve(CONFIG, limits=Limits(cost=1.0)))
    costly = (*TURNED, ModelFailed(effect("1.1.1"), Failure("no", kind="fatal"), usage=Usage(cost=1.0)))
    assert problem(state(spent=evolve(UNSPENT, usage=Usage(cost=1.0))), costly, poor) == ""


@pytest.mark.parametrize("kind", ["fatal", "bad_output"])
def test_what_says_nothing_of_a_model_need_not_be_counted(kind: str) -> None:
    failed = ModelFailed(effect("1.1.0"), Failure("no", kind=kind))  # type: ignore[arg-type]  # one of the kinds

    assert problem(without(BreakerOpened), (HELLO, failed)) == ""


def test_the_alphabet_has_what_leads_to_other_models_where_there_are_any() -> None:
    plain, several = default_alphabet(evolve(CONFIG, models=(), fallback=(), routes=())), default_alphabet(CONFIG)

    assert [one for one in several if one not in plain] == [MUCH_LATER, GONE, ModelChosen(""), ModelChosen("b")]
