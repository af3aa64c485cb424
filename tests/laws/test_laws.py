"""The ten laws hold: searched with Hypothesis, walked by a state machine, and explored breadth-first."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from cognition import (
    AgentConfig,
    CognitiveEngine,
    EchoEngine,
    GenerationOptions,
    Limits,
    LLMEngine,
    Policy,
    RetryPolicy,
    Rule,
    ToolSpec,
)
from cognition.testing import Law, explore, laws
from cognition.testing._search import Walk
from cognition.testing.machine import machine
from cognition.testing.strategies import configs, inputs

LOOK = ToolSpec("look", read_only=True)
PEEK = ToolSpec("peek", read_only=True, approval=True)
WRITE = ToolSpec("write", approval=True)
SORT = ToolSpec("sort")
SHORT = GenerationOptions(max_tokens=100)

PLAIN = LLMEngine(AgentConfig(system="Be brief.", tools=(LOOK, WRITE, SORT)))
TIGHT = LLMEngine(
    AgentConfig(
        system="Be brief.",
        tools=(LOOK, PEEK, WRITE),
        limits=Limits(steps=3, tool_calls=2, refusals=2, input_tokens=2000, output_tokens=2000, seconds=60.0),
        policy=Policy((Rule("ask", "look"),)),
        retry=RetryPolicy(attempts=2),
        context_tokens=500,
        options=SHORT,
    )
)
FULL = LLMEngine(
    AgentConfig(
        tools=(LOOK, WRITE),
        limits=Limits(steps=4, tool_calls=4, refusals=2, workers=2, hook_continuations=1),
        retry=RetryPolicy(attempts=2),
        context_tokens=4000,
        options=SHORT,
        features=("questions", "tasks", "plan", "memory", "workers"),
        hooks=("session_start", "user_message", "before_tool", "after_tool", "worker_stop", "stop"),
        recall_first=True,
    )
)
TEXTUAL = LLMEngine(AgentConfig(tools=(LOOK, WRITE), protocol="short_keys", context_tokens=2000, options=SHORT))

ENGINES: dict[str, CognitiveEngine] = {"plain": PLAIN, "tight": TIGHT, "full": FULL, "textual": TEXTUAL}

EVERY_LAW = [pytest.param(law, id=f"{name}-{law.name}") for name, engine in ENGINES.items() for law in laws(engine)]


@pytest.mark.behaviour("I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8")  # by the laws L3, L4, L5, L2, L6, L8, L6, L5
@pytest.mark.parametrize("law", EVERY_LAW)
def test_the_llm_engine_keeps_every_law(law: Law) -> None:
    """For four configurations: few tools, tight budgets, everything turned on, calls written as text.

    Each reaches every premise of every law.
    """
    report = law.check(max_examples=30)

    assert report.status == "held"
    assert all(report.counts)


@pytest.mark.parametrize("law", laws(EchoEngine(), without=("model", "tools")), ids=lambda law: law.name)
def test_the_echo_engine_keeps_every_law(law: Law) -> None:
    """An engine needs no configuration to be held to the laws, and says what it has not."""
    report = law.check(max_examples=30)

    assert report.status == ("not applicable" if law.name in ("L3", "L4", "L5", "L7", "L9") else "held")


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(configs(), st.data())
def test_every_configuration_keeps_every_law(config: AgentConfig, data: st.DataObject) -> None:
    """Configurations are drawn as well as runs; each step and each situation is held to all ten laws."""
    walk = Walk(laws(LLMEngine(config)))
    for _ in range(data.draw(st.integers(0, 15))):
        walk.take(data.draw(inputs(walk.world, config)))


@pytest.mark.parametrize(("name", "limit"), [("plain", 500), ("tight", 500), ("full", 400)])
def test_a_neighbourhood_of_the_beginning_keeps_every_law(name: str, limit: int) -> None:
    """Breadth-first: all that a small alphabet can do in the first steps of a session."""
    found = explore(ENGINES[name], limit=limit)

    assert found.violation is None
    assert (limit, False) == (found.states, found.complete)
    assert found.transitions > 5 * found.states


def test_a_neighbourhood_of_the_echo_engine_keeps_every_law() -> None:
    """Answers to what never was and a cancellation between turns are told to be out of place."""
    found = explore(EchoEngine(), limit=200)

    assert (found.violation, found.states, found.inconclusive) == (None, 200, False)


@pytest.mark.slow
def test_a_few_thousand_situations_keep_every_law() -> None:
    """The exploration of ``make prove``, as far as a test-suite may take it."""
    found = explore(TIGHT, limit=3000)

    assert found.violation is None
    assert found.states == 3000
    assert found.depth >= 5


SHORT_RUNS = settings(
    max_examples=30, stateful_step_count=20, derandomize=True, suppress_health_check=list(HealthCheck)
)
TestTightMachine = machine(TIGHT).TestCase
TestTightMachine.settings = SHORT_RUNS
TestFullMachine = machine(FULL).TestCase
TestFullMachine.settings = SHORT_RUNS
TestEchoMachine = machine(EchoEngine()).TestCase
TestEchoMachine.settings = SHORT_RUNS
