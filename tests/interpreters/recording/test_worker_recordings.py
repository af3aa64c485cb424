"""Sessions whose workers wait for one another, on file: they replay the same, and go on when they were killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from cognition import ModelRequest, UserMessage
from interpreters import Agent, AsyncAgent, RunResult, replay
from interpreters.testing.fakes import Scripted, ScriptedModel, call
from tests.interpreters.journals import lines_of
from tests.interpreters.ways import Way, every_way

SPAWN = [
    call("spawn_worker", name="w1", objective="w1 works"),
    call("spawn_worker", name="w2", objective="w2 works", after=["w1"]),
]


class Crew(ScriptedModel):
    """The parent spawns both workers and then answers; ``second`` is what the second one does."""

    def __init__(self, second: Any = "Two.") -> None:
        self._second = second
        self._parent = iter([SPAWN, "All done."])
        super().__init__(iter(lambda: self._reply, None))

    def _reply(self, request: ModelRequest) -> Scripted:
        first = request.messages[0]
        assert isinstance(first, UserMessage)
        if first.text.startswith("w1"):
            return "One."
        if first.text.startswith("w2"):
            reply: Scripted = self._second() if callable(self._second) else self._second
            return reply
        return next(self._parent)


@every_way
@pytest.mark.behaviour("R13a")
def test_a_session_with_workers_that_wait_for_one_another_replays_the_same(talk: Way, tmp_path: Path) -> None:
    """What the second worker is given stands in a decision, as a text and its name."""
    path = tmp_path / "s.jsonl"
    done = talk(Crew(), "Go!", features=["workers"], journal=path)

    spawned = [d for line in lines_of(path)[1:] for d in json.loads(line)["decisions"] if d["type"] == "spawn_worker"]
    assert [one["context"] for one in spawned] == [[], [["w1", "One."]]]
    assert done.texts == ["All done."]
    assert replay(path).raise_for_divergence().state == done.state


def resume_in_sync(path: Path, model: ScriptedModel) -> RunResult:
    with Agent.resume(path, model) as agent:
        return agent.resume_turn()


def resume_in_asyncio(path: Path, model: ScriptedModel) -> RunResult:
    async def main() -> RunResult:
        async with AsyncAgent.resume(path, model) as agent:
            return await agent.resume_turn()

    return asyncio.run(main())


@every_way
@pytest.mark.parametrize("resume", [resume_in_sync, resume_in_asyncio])
@pytest.mark.behaviour("R13a")
def test_a_session_killed_while_the_second_worker_works_goes_on(talk: Way, resume: Any, tmp_path: Path) -> None:
    """By SIGKILL, in the worker's own model call: the worker counts as failed, and the turn comes to its end."""
    path = tmp_path / "s.jsonl"
    child = os.fork()
    if child == 0:
        try:
            talk(Crew(lambda: os.kill(os.getpid(), signal.SIGKILL)), "Go!", features=["workers"], journal=path)
        finally:
            os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL

    result = resume(path, ScriptedModel(["One is done."]))
    assert result.text == "One is done."
    assert (result.calls[0].status, result.calls[0].content) == ("ok", "One.")
    assert result.calls[1].status == "error"
    assert replay(path).same
