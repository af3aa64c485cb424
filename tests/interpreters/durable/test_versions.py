"""A session goes on by what it was begun with, or is refused with the difference shown."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from attrs import evolve

from cognition import AgentConfig, CogstepError, Completed, ConfigError, LLMEngine, UserSpoke
from interpreters import tool
from interpreters.durable.definition import DurableAgent
from interpreters.durable.errors import DurableDivergedError
from interpreters.testing.durable import MemoryEngine
from interpreters.testing.fakes import FunctionModel


@tool(read_only=True)
def look() -> str:
    """Look."""
    return "seen"


def agent(system: str = "Be brief.", **given: Any) -> DurableAgent:
    tools = given.pop("tools", [look])
    return DurableAgent("helper", FunctionModel(lambda request: request.system), tools, system, **given)


def said(engine: MemoryEngine, own: DurableAgent, session: str = "ada") -> Any:
    finished = asyncio.run(engine.run(own, session, UserSpoke("Hi!"))).finished
    return finished and finished.outcome


def shouting(config: AgentConfig) -> LLMEngine:
    return LLMEngine(evolve(config, system=config.system.upper()))


def test_a_session_keeps_the_prompt_that_it_was_begun_with_and_a_new_one_has_the_new() -> None:
    engine = MemoryEngine()
    said(engine, agent())

    changed = agent("Be thorough.")
    assert said(engine, changed) == Completed("Be brief.")
    assert said(engine, changed, "bob") == Completed("Be thorough.")


@pytest.mark.parametrize(
    ("changed", "error", "shown"),
    [
        (agent(tools=[]), ConfigError, r"recorded with other tools \(look is missing\)"),
        (agent(engine=shouting), DurableDivergedError, r'record 1 .*system\\n.*"Be brief\."\\n.*"BE BRIEF\."'),
    ],
)
def test_other_logic_is_refused_with_the_difference_and_the_old_one_goes_on(
    changed: DurableAgent, error: type[CogstepError], shown: str
) -> None:
    engine = MemoryEngine()
    said(engine, agent())
    before = list(engine.sessions["ada"])

    with pytest.raises(error, match=shown):
        said(engine, changed)

    assert engine.sessions["ada"] == before
    assert said(engine, agent()) == Completed("Be brief.")
