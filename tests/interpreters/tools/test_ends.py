"""What a tool wants called at its cancellation, and what becomes of an error in that."""

from __future__ import annotations

import logging
import threading

import pytest

from cognition import Cancelled
from interpreters import AgentHost, ToolContext, fakes, tool
from interpreters.testing.fakes import ScriptedModel, call
from tests.interpreters.signs import PATIENCE
from tests.interpreters.ways import Way, every_way


@every_way
def test_an_error_at_a_cancellation_is_logged_and_ends_nothing_else(
    talk: Way, caplog: pytest.LogCaptureFixture
) -> None:
    agents: list[object] = []
    told: list[str] = []

    @tool(read_only=True, parallel=True)
    def wait(name: str, context: ToolContext[None]) -> str:
        over = threading.Event()

        def end() -> None:
            told.append(name)
            over.set()
            raise ValueError("not so")

        context.when_cancelled(end)
        if name == "b":
            agents[0].cancel("enough")  # type: ignore[attr-defined]  # an agent of either kind
        assert over.wait(PATIENCE)
        return "ended"

    with caplog.at_level(logging.ERROR, "cogstep"):
        said = talk(
            ScriptedModel([[call("wait", name="a"), call("wait", name="b")], "Hello again."]),
            "Wait!",
            "Hi!",
            tools=[wait],
            use=agents.append,
        )

    assert said.results[0].outcome == Cancelled("enough")
    assert said.texts[-1] == "Hello again."
    assert sorted(told) == ["a", "b"]
    assert "what wait wanted called at its cancellation has failed" in caplog.text


def test_the_stream_of_a_handle_ends_whatever_its_tools_do_then() -> None:
    began = threading.Event()

    @tool(read_only=True)
    def wait(context: ToolContext[None]) -> str:
        over = threading.Event()

        def end() -> None:
            over.set()
            raise KeyboardInterrupt  # no `Exception`, which would be logged

        context.when_cancelled(end)
        began.set()
        over.wait(PATIENCE)
        return "ended"

    with AgentHost.in_thread(ScriptedModel([call("wait")]), clock=fakes.FakeClock()) as host:
        handle = host.open("s", [wait])
        stream = handle.stream("Wait!")
        assert began.wait(PATIENCE)
        with pytest.raises(KeyboardInterrupt):
            stream.cancel("enough")
        with stream:
            for _ in stream:
                pass
        assert stream.result.outcome == Cancelled("enough")
