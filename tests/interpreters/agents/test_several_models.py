"""Agents that have several models: each call reaches the one that the engine says, in either way of running."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

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
    GenerationOptions,
    Image,
    LLMEngine,
    ModelReplied,
    UserSpoke,
)
from interpreters import Agent, AsyncAgent, events, replay, tool
from interpreters.agents._state_restore import in_flight_of
from interpreters.agents.results import RunResult
from interpreters.testing.fakes import FakeClock, FunctionModel, ScriptedModel, call
from runtime import MediaError, Runtime

AWAY = Failure("connection refused", kind="offline")
PICTURE = Image("image/png", "iVBORw0KGgo=")


@tool(read_only=True)
def look() -> str:
    """Look around."""
    return "a wall"


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


def test_workers_begin_with_what_their_parent_knows_of_its_models() -> None:
    """Without that each worker would wait for a model that is known not to be there."""
    own = failing()
    other = FunctionModel(
        lambda request: (
            [call("spawn_worker", name="a", objective="look"), call("spawn_worker", name="b", objective="look")]
            if request.tools and len(request.messages) == 1
            else "Done."
        )
    )
    with Agent(own, models={"other": other}, fallback=["other"], features=["workers"], clock=FakeClock()) as agent:
        assert agent.run("Look.").text == "Done."

    assert len(own.requests) == 1
    assert len(other.requests) == 4


def test_where_the_model_of_workers_fails_the_one_answers_that_answers_their_parent() -> None:
    own, chosen = saying("own"), ScriptedModel([call("spawn_worker", name="w", objective="look"), "Found.", "Done."])
    with Agent(
        own,
        features=["workers"],
        models={"worker": failing(), "chosen": chosen},
        routes={"worker": "worker"},
        clock=FakeClock(),
    ) as agent:
        agent.use_model("chosen")
        result = agent.run("Look.")

    assert result.text == "Done."
    assert [one.content for one in result.calls] == ["Found."]
    assert not own.requests
    chosen.close()


def test_the_model_that_is_active_is_the_one_that_answers() -> None:
    models = {"routed": saying("routed"), "other": saying("other")}
    with Agent(saying("own"), models=models, routes={"answer": "routed"}) as agent:
        assert (agent.active_model, agent.run("Hello").text) == ("routed", "routed")
        for name in ("other", "", "routed"):
            agent.use_model(name)
            assert (agent.active_model, agent.run("Hello").text) == (name, name or "own")


def test_a_picture_is_refused_only_where_no_model_takes_it() -> None:
    def blind(text: str) -> FunctionModel:
        return FunctionModel(lambda request: text, name=text, media=())

    picture = ["What is this?", PICTURE]
    agent = Agent(blind("own"), models={"other": blind("other")}, fallback=["other"])
    with agent, pytest.raises(MediaError, match="the model 'own' takes text alone"):
        agent.run(picture)
    with Agent(blind("own"), models={"sees": saying("A dot.")}, fallback=["sees"]) as agent:
        assert agent.run(picture).text == "A dot."
        assert agent.run("And now?").text == "A dot."
    with Agent(blind("own"), models={"sees": saying("A dot.")}) as agent:
        with pytest.raises(MediaError, match="the model 'own' takes text alone"):
            agent.run(picture)
        agent.use_model("sees")
        assert agent.run(picture).text == "A dot."


def test_a_fork_has_the_fallback_and_the_routes_of_its_recording_but_nothing_of_their_health(tmp_path: Path) -> None:
    path, models = tmp_path / "s.jsonl", {"a": saying("a"), "b": saying("b")}
    with Agent(
        failing(), models=models, fallback=["b", "a"], routes={"summary": "b"}, breaker=Breaker(9), journal=path
    ) as agent:
        agent.run("Hello")
        assert agent.state.health
    with Agent.fork(path, saying("own"), models=models) as fork:
        assert (fork.config.fallback, fork.config.routes) == (("b", "a"), (("summary", "b"),))
        assert fork.config.breaker == Breaker(9)
        assert fork.run("Hello").text == "own"
    with Agent.fork(path, saying("own"), models={"a": saying("a")}) as fork:
        assert (fork.config.fallback, fork.config.routes) == (("a",), ())
    with Agent.fork(path, saying("own"), models=models, fallback=["a"], routes={}) as fork:
        assert (fork.config.fallback, fork.config.routes) == (("a",), ())


def test_what_the_files_of_one_model_say_of_sampling_is_not_said_to_another() -> None:
    """A remote one may refuse it; each has its own where the program says nothing."""
    own = saying("own")
    own._info = evolve(own._info, sampling=GenerationOptions(temperature=0.6, top_k=20))
    with Agent(own) as agent:
        assert agent.config.options.temperature == 0.6
    with Agent(own, models={"other": saying("other")}, options=GenerationOptions(top_p=0.9)) as agent:
        assert agent.config.options == GenerationOptions(top_p=0.9)


def test_a_model_that_is_not_told_of_the_tools_is_named_before_it_has_to_answer() -> None:
    told: list[str] = []

    def see(event: events.Event) -> None:
        if isinstance(event.value, events.WarningRaised):
            told.append(event.value.message)

    deaf = saying("deaf")
    deaf._info = evolve(deaf._info, features=("system",))
    with Agent(
        saying("own"), [look], models={"deaf": deaf}, fallback=["deaf"], observers=[events.Inline(see)]
    ) as agent:
        agent.run("Hello")

    assert [message for message in told if "'deaf' has no place for tools" in message]


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
            assert agent.resume_turn().text == "Here I am."
        assert len(other.requests) == 1
