"""The workflow that wraps the core, on histories that were recorded without a server, by Temporal's own Replayer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from temporalio import workflow
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from cognition import (
    AgentConfig,
    AgentState,
    CallModel,
    Cancelled,
    CognitiveEngine,
    Completed,
    Decision,
    GenerationOptions,
    History as Messages,
    Input,
    LLMEngine,
    ModelRequest,
    ToolMessage,
    Transition,
    UserSpoke,
    to_data,
)
from cognition.base.ids import effect_id
from interpreters import AsyncAgent
from interpreters.durable.definition import DurableAgent
from interpreters.durable.serialization import RunOutcome, encode_json, input_text
from interpreters.durable.temporal.workflow import (
    SessionWorkflow,
    _encode,
    activities,
    beginning,
    cancellation,
    message,
    reply,
)
from interpreters.loop.performers import CALL_UNKNOWN
from interpreters.testing.durable import MemoryEngine
from tests.interpreters.durable.outside import agent_of, answer_to
from tests.interpreters.durable.temporal_histories import History


def run(story: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    return asyncio.run(story())


async def standing(history: History) -> RunOutcome:
    return RunOutcome.read(await history.query("status"))


async def whole(agent: DurableAgent, history: History) -> RunOutcome:
    """A turn with everything in it: a retry, calls side by side, a worker, an approval, a call outside."""
    await history.signal("put", message(agent, "Do it."))
    while (now := await standing(history)).pending:
        await history.signal("put", reply(agent, now.pending[0], answer_to(now.pending[0])))
    return now


def test_a_session_ends_as_anywhere_else_and_its_history_replays(tmp_path: Path) -> None:
    async def story() -> tuple[History, RunOutcome]:
        agent = agent_of(tmp_path)
        history = History(SessionWorkflow, beginning(agent), activities(agent))
        ended = await whole(agent, history)
        await history.signal("end")
        await history.replay()
        return history, ended

    history, ended = run(story)

    assert ended.finished is not None
    assert ended.finished.outcome == Completed("Done.")
    assert history.result is not None
    assert RunOutcome.read(history.result) == ended
    done = (tmp_path / "done").read_text().splitlines()
    assert done == ["send ada 1.1.5", "send ada 1.2.2", "pay ada 1.3.2"]


def test_what_is_left_out_of_a_result_changes_no_activity() -> None:
    """The ids of activities depend on their arguments, and workflows of versions that did not count it go on."""
    call = CallModel(effect_id(1, 2, 0), "answer", ModelRequest("", Messages(), (), GenerationOptions()))
    counted, uncounted = (
        evolve(
            call, request=evolve(call.request, messages=Messages([ToolMessage("m3", "c", "look", "x", left_out=many)]))
        )
        for many in (9, 0)
    )

    assert counted != uncounted
    assert _encode(counted) == _encode(uncounted) == encode_json(to_data(uncounted, Decision))


ASKED = ("call_model", "call_tool", "ask_approval")


def test_the_workflow_asks_for_what_an_agent_on_asyncio_decides(tmp_path: Path) -> None:
    async def on_temporal() -> list[str]:
        agent = agent_of(tmp_path)
        history = History(SessionWorkflow, beginning(agent), activities(agent))
        await whole(agent, history)
        return [one.partition("-")[0] for one in history.performed if not one.startswith("hear")]

    async def on_asyncio() -> list[str]:
        own, engine = agent_of(tmp_path), MemoryEngine()
        given: Any = {**own.given, "journal": engine.recorder("ada"), "session": "ada"}
        async with AsyncAgent(own.model, own.tools, "Be brief.", **given) as agent:
            await agent.run("Do it.")
            while agent.pending:
                await agent.answer(agent.pending[0].effect_id, answer_to(agent.pending[0]))
        records = [json.loads(line) for line in engine.sessions["ada"][1:]]
        decided = [one for record in records for one in record["decisions"] if one["type"] in ASKED]
        return [one["effect_id"] for one in decided]

    assert run(on_temporal) == run(on_asyncio)


class Hasty:
    """Other agent logic: it asks the model again in place of each retry's timer."""

    def __init__(self, config: AgentConfig) -> None:
        self.config = config
        self._engine = LLMEngine(config)

    def step(self, state: AgentState, event: Input | None) -> Transition:
        transition = self._engine.step(state, event)
        kept = tuple(one for one in transition.decisions if type(one).__name__ != "StartTimer")
        return Transition(transition.next_state, kept)


@workflow.defn(name="cogstep.session", sandboxed=False)
class OtherLogic(SessionWorkflow):
    @workflow.init
    def __init__(self, given: str) -> None:
        super().__init__(given)

    def engine(self, config: AgentConfig) -> CognitiveEngine:
        return Hasty(config)

    @workflow.run
    async def run(self, given: str) -> str:
        return await super().run(given)


@workflow.defn(name="cogstep.session", sandboxed=False)
class OtherPrompt(SessionWorkflow):
    @workflow.init
    def __init__(self, given: str) -> None:
        super().__init__(given.replace("Be brief.", "Be thorough."))

    @workflow.run
    async def run(self, given: str) -> str:
        return await super().run(given)


@pytest.mark.parametrize("other", [OtherLogic, OtherPrompt])
def test_a_history_of_other_logic_does_not_replay(other: type, tmp_path: Path) -> None:
    async def story() -> None:
        agent = agent_of(tmp_path)
        history = History(SessionWorkflow, beginning(agent), activities(agent))
        await whole(agent, history)
        await history.replay(other)

    with pytest.raises(workflow.NondeterminismError):
        run(story)


def test_a_call_whose_process_died_is_not_made_again_unless_it_may_be(tmp_path: Path) -> None:
    async def story() -> RunOutcome:
        agent = agent_of(tmp_path)
        history = History(SessionWorkflow, beginning(agent), activities(agent))
        history.lost = {"1.1.3", "1.1.5"}
        ended = await whole(agent, history)
        await history.replay()
        assert CALL_UNKNOWN in str(history.events)
        return ended

    ended = run(story)

    assert ended.finished is not None
    assert ended.finished.outcome == Completed("Done.")
    assert (tmp_path / "done").read_text().splitlines() == ["send ada 1.2.2", "pay ada 1.3.2"]


def test_a_cancellation_ends_the_turn_and_the_next_message_is_heard(tmp_path: Path) -> None:
    async def story() -> tuple[RunOutcome, RunOutcome]:
        agent = agent_of(tmp_path)
        history = History(SessionWorkflow, beginning(agent), activities(agent))
        await history.signal("put", message(agent, "Do it."))
        await history.signal("put", cancellation(agent, "enough"))
        cancelled = await standing(history)
        await whole(agent, history)
        await history.replay()
        return cancelled, await standing(history)

    cancelled, ended = run(story)

    assert cancelled.finished is not None
    assert cancelled.finished.outcome == Cancelled("enough")
    assert ended.finished is not None
    assert ended.finished.outcome == Completed("Done.")
    assert ended.turn == 2


def test_an_activity_that_fails_is_told_without_secrets() -> None:
    secret = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"

    def load() -> Any:
        raise RuntimeError(f"no model with {secret}")

    hear = activities(DurableAgent("greeter", load))[0]
    with pytest.raises(ApplicationError, match=r"RuntimeError: no model with \[redacted:api_key:1\]") as caught:
        asyncio.run(ActivityEnvironment().run(hear, "greeter", "ada", input_text(UserSpoke("Hi!"))))

    assert caught.value.__cause__ is None
    assert secret not in str(caught.value)
