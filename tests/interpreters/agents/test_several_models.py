"""Agents that have several models: each call reaches the one that the engine says, in either way of running."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cognition import (
    AgentConfig,
    AgentState,
    Breaker,
    CallModel,
    CompactionAsked,
    ConfigError,
    EffectId,
    Failure,
    FellBack,
    LLMEngine,
    ModelReplied,
    UserSpoke,
)
from interpreters import Agent, AsyncAgent, events, replay
from interpreters.agents.results import RunResult
from interpreters.agents.standing import in_flight_of
from interpreters.testing.fakes import FakeClock, FunctionModel, ScriptedModel, call
from runtime import Runtime

AWAY = Failure("connection refused", kind="offline")


def saying(text: str, *, tokens: int = 4096) -> FunctionModel:
    return FunctionModel(lambda request: text, context_tokens=tokens, name=text)


def failing(kind: Any = "offline") -> FunctionModel:
    return FunctionModel(lambda request: Failure("no", kind=kind), name="failing")


def said(model: Runtime, *texts: str, asynchronous: bool, **options: Any) -> list[RunResult]:
    """What an agent answers to each of these texts."""
    if not asynchronous:
        with Agent(model, **options) as agent:
            return [agent.run(text) for text in texts]

    async def main() -> list[RunResult]:
        async with AsyncAgent(model, **options) as agent:
            return [await agent.run(text) for text in texts]

    return asyncio.run(main())


@pytest.mark.parametrize("asynchronous", [False, True])
def test_another_model_answers_where_one_is_away_and_the_recording_replays(tmp_path: Path, asynchronous: bool) -> None:
    told: list[Any] = []
    own, other = failing(), saying("I am here.")

    first, second = said(
        own,
        "Hello",
        "And now?",
        asynchronous=asynchronous,
        models={"other": other},
        fallback=["other"],
        journal=tmp_path / "s.jsonl",
        observers=[events.Inline(lambda event: told.append(event.value))],
        clock=FakeClock(),
    )

    assert (first.text, second.text) == ("I am here.", "I am here.")
    assert [one.to for one in told if isinstance(one, FellBack)] == ["other"]
    assert [one.model for one in told if isinstance(one, events.ModelCalled)] == ["", "other", "other"]
    assert (len(own.requests), len(other.requests)) == (1, 2)
    assert replay(tmp_path / "s.jsonl").raise_for_divergence().turns == 2


def test_a_session_is_resumed_with_what_it_knows_of_its_models(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    with Agent(
        failing(), models={"other": saying("Here.")}, fallback=["other"], journal=path, breaker=Breaker(cooldown=500.0)
    ) as agent:
        agent.run("Hello")
        health = agent.state.health
        assert health

    with pytest.raises(ConfigError, match=r"missing models\['other'\]"):
        Agent.resume(path, saying("Back."))
    own, other = saying("Back."), saying("Still here.")
    with Agent.resume(path, own, models={"other": other}) as agent:
        assert agent.state.health == health
        assert agent.run("Again").text == "Still here."
        agent.use_model("other")
        assert agent.active_model == "other"
    assert not own.requests
    with Agent.fork(path, saying("A fork.")) as fork:
        assert fork.active_model == ""
        assert fork.run("Hello").text == "A fork."


def test_workers_and_summaries_have_their_own_models() -> None:
    own = ScriptedModel([call("spawn_worker", name="w", objective="look"), "Done."], summary=None)
    worker, summary = saying("Found."), saying("TASK: look.")
    with Agent(
        own,
        features=["workers"],
        models={"worker": worker, "summary": summary},
        routes={"worker": "worker", "summary": "summary"},
    ) as agent:
        assert agent.run("Look. " * 200).text == "Done."
        agent.compact()

    assert [request.messages[-1].text for request in worker.requests] == ["look"]  # type: ignore[union-attr]
    assert len(summary.requests) == 1


def test_the_context_is_that_of_the_smallest_model() -> None:
    with Agent(saying("a", tokens=8192), models={"b": saying("b", tokens=2048)}) as agent:
        assert agent.config.context_tokens == 2048
    with Agent(saying("a", tokens=8192), models={"b": saying("b", tokens=2048)}, context_tokens=4096) as agent:
        assert agent.config.context_tokens == 4096


def test_a_model_is_chosen_by_name_and_a_misspelt_one_is_refused() -> None:
    with Agent(saying("own"), models={"other": saying("other")}) as agent:
        agent.use_model("other")
        assert agent.run("Hello").text == "other"
        with pytest.raises(ConfigError, match="no model 'othr' beside the agent's own; did you mean 'other'"):
            agent.use_model("othr")
        agent.use_model("")
        assert agent.run("Hello").text == "own"
    with pytest.raises(ConfigError, match="fallback: there is no model 'nowhere'"):
        Agent(saying("own"), fallback=["nowhere"])
    with pytest.raises(ConfigError, match="models"):
        Agent(saying("own"), models={"other": "a name"})  # type: ignore[dict-item]  # no model


@pytest.mark.parametrize("summary", [False, True])
def test_a_state_that_waits_for_another_model_goes_on_with_it(summary: bool) -> None:
    """As somebody kept it while that model wrote."""
    engine = LLMEngine(AgentConfig(models=("other",), routes=(("summary", "other"), ("answer", "other"))))
    state = engine.step(AgentState(), UserSpoke("Hello")).next_state
    if summary:
        state = engine.step(state, ModelReplied(EffectId("1.1.0"), "Hi. " * 200)).next_state
        state = engine.step(state, CompactionAsked()).next_state

    (effect,) = in_flight_of(engine, state).values()

    assert isinstance(effect, CallModel)
    assert (effect.purpose, effect.model) == ("summary" if summary else "answer", "other")
    if not summary:  # which leads on to no turn
        other = saying("Here I am.")
        with Agent(failing(), models={"other": other}, routes={"answer": "other"}, state=state) as agent:
            assert agent.go_on().text == "Here I am."
        assert len(other.requests) == 1
