"""Each law can fail: it catches the engine that breaks it, and tells how in a story."""

from __future__ import annotations

import pytest

from cognition import AgentConfig, EffectId, LLMEngine, ModelReplied, ProposedCall, UserSpoke
from cognition.testing import LawViolation, explore, laws, trace
from cognition.testing._world import World, take
from cognition.testing.machine import machine
from examples.faulty_engines import FAULTY


def violation_of(name: str) -> LawViolation:
    engine = FAULTY[name]()
    law = next(law for law in laws(engine) if law.name == name)
    with pytest.raises(LawViolation) as raised:
        law.check(max_examples=300)
    return raised.value


@pytest.mark.parametrize("name", FAULTY)
def test_each_law_catches_its_faulty_engine_with_a_short_story(name: str) -> None:
    """The story names the law, has few inputs, and leads to the fault again when it is told again.

    It is told to the engine that was searched: L5 is also searched with a policy that is stricter by one rule.
    """
    violation = violation_of(name)

    assert name == violation.law.name
    assert str(violation).startswith(f"{name} ({violation.law.title}) is broken: {violation.problem}")
    assert str(violation.story) in str(violation)
    assert violation.law.statement in str(violation)
    assert len(violation.story.inputs) <= 3
    if name != "L1":  # an engine that is not pure tells no story twice
        assert violation.story == trace(violation.law.subject.engine, violation.story.inputs)


@pytest.mark.parametrize("name", FAULTY)
def test_an_exploration_finds_each_fault_by_a_shortest_way(name: str) -> None:
    """The search stops at the first violation, which no shorter run has."""
    others = tuple(law.name for law in laws(LLMEngine(AgentConfig())) if law.name != name)

    found = explore(FAULTY[name](), limit=300, leave_out=others)

    assert found.violation is not None
    assert name == found.violation.law.name
    assert len(found.violation.story.inputs) <= 4
    assert not found.complete


@pytest.mark.parametrize("name", ["L2", "L7"])
def test_the_state_machine_finds_faults_too(name: str) -> None:
    from hypothesis import settings
    from hypothesis.stateful import run_state_machine_as_test

    with pytest.raises(LawViolation) as raised:
        run_state_machine_as_test(
            machine(FAULTY[name]()), settings=settings(max_examples=100, deadline=None, database=None)
        )

    assert name == raised.value.law.name


def test_a_story_can_be_read() -> None:
    """One numbered line for each input, one for each decision under it, ids in a column, long texts cut."""
    inputs = [UserSpoke("Hello"), ModelReplied(EffectId("1.1.0"), calls=(ProposedCall("write"),))]

    assert str(trace(FAULTY["L5"](), inputs)).splitlines() == [
        '  1     UserSpoke                 "Hello"',
        "     -> ContextAssembled          messages=1, dropped=0, tokens=173, budget=900",
        '     -> CallModel         1.1.0   answer: user "Hello"',
        "  2     ModelReplied      1.1.0   [write({})]",
        '     -> AskApproval       1.1.1   write({}) as call-1-1-1, reason="the tool asks for approval"',
        "     -> CallTool          1.1.1.now write({}) as call-1-1-1",
    ]


def test_what_an_engine_raises_is_part_of_the_story() -> None:
    violation = violation_of("L2")
    engine = FAULTY["L2"]()

    edge = take(engine, World(), violation.story.inputs[0])

    assert edge.error is not None
    assert edge.error.startswith("KeyError")
    assert f"-> raised {edge.error}" in str(violation.story)
