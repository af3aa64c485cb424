"""A session goes on by what it was begun with, or is refused with the difference shown."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from attrs import evolve

from cognition import (
    AgentConfig,
    CogstepError,
    Completed,
    ConfigError,
    LLMEngine,
    Policy,
    Rule,
    TurnFinished,
    UserMessage,
    UserSpoke,
)
from interpreters import LATER, tool
from interpreters.durable._errors import DurableDivergedError, DurableError, run_error
from interpreters.durable.definition import DurableAgent, answer_input, pending_of
from interpreters.testing.durable import MemoryEngine
from interpreters.testing.fakes import FunctionModel, call


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
        (agent(engine=shouting), DurableDivergedError, r'record 1 .*system\n.*"Be brief\."\n.*"BE BRIEF\."'),
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


def test_a_run_that_diverged_says_so_by_its_class_and_on_lines_of_their_own() -> None:
    """As it comes back from an engine, which keeps a text."""
    engine = MemoryEngine()
    said(engine, agent())
    with pytest.raises(DurableDivergedError) as caught:
        said(engine, agent(engine=shouting))

    again = run_error(f"{type(caught.value).__name__}: {caught.value}")
    assert (type(again), str(again)) == (DurableDivergedError, str(caught.value))
    assert str(again).splitlines()[1:] == ['  recorded: "Be brief."', '  decided:  "BE BRIEF."']
    assert type(run_error("ConfigError: no")) is DurableError


@tool
def pay() -> str:
    """Pay."""
    return "paid"


@tool
def fetch(path: str, again: bool = False) -> str:
    """Fetch."""
    return path


def test_an_answer_is_handed_in_by_a_process_of_any_logic() -> None:
    """Whoever answers need not know the version that began the session: only that one goes on with it."""

    def reply(request: Any) -> Any:
        return call("pay") if isinstance(request.messages[-1], UserMessage) else "It is paid."

    async def ask_later(_request: Any) -> Any:
        return LATER

    def payer(**given: Any) -> DurableAgent:
        policy = Policy(rules=(Rule("ask", "pay"),))
        given = {"tools": [pay], "policy": policy, "approve": ask_later} | given
        return DurableAgent("payer", FunctionModel(reply), given.pop("tools"), "Be brief.", **given)

    engine = MemoryEngine()
    old = payer()
    asked = asyncio.run(engine.run(old, "ada", UserSpoke("Pay!"))).pending

    for new in (payer(engine=shouting), payer(tools=[fetch]), payer(policy=Policy())):
        assert pending_of(new, engine.recorder("ada")) == asked
        approved = answer_input(new, engine.recorder("ada"), "1.1.1", True)
    ended = asyncio.run(engine.run(old, "ada", approved))
    assert ended.finished == TurnFinished(Completed("It is paid."), ended.finished.usage)
    assert pending_of(payer(engine=shouting), engine.recorder("ada")) == ()
