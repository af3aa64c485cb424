"""What a sender has hidden comes to a process that knows none of its secrets: they stay secrets of their kind."""

from __future__ import annotations

import asyncio
from typing import Any

from cognition import ToolSpec, UserMessage, UserSpoke
from interpreters import replay, tool
from interpreters.durable.definition import DurableAgent, answer_input
from interpreters.loop.driver import SECRET_LOST
from interpreters.recording.journal import JournalReader
from interpreters.recording.redaction import Redaction
from interpreters.testing.durable import MemoryEngine
from interpreters.testing.fakes import FunctionModel, call

OWN = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"
GIVEN = "sk-ant-api03-0123456789abcdefghijklmnopqrstuvwxyz"


def test_a_secret_in_an_answer_is_told_by_its_kind_and_under_a_number_that_is_no_other_secrets() -> None:
    used: list[str] = []
    seen: list[str] = []

    @tool(read_only=True)
    def read() -> str:
        """Read."""
        return f"it is {OWN}"

    @tool
    def log_in(key: str) -> str:
        """Log in."""
        used.append(key)
        return "logged in"

    def reply(request: Any) -> Any:
        newest = request.messages[-1]
        if isinstance(newest, UserMessage):
            return (call("read"), call("fetch"))
        seen.append(newest.content)
        return call("log_in", key=newest.content) if newest.content.startswith("[redacted:") else newest.content

    def agent(**secrets: str) -> DurableAgent:
        tools = [read, log_in, ToolSpec("fetch", "Fetch a key.")]
        return DurableAgent("helper", FunctionModel(reply), tools, redact=Redaction(secrets=secrets))

    async def main() -> MemoryEngine:
        engine = MemoryEngine()
        await engine.run(agent(), "ada", UserSpoke("Log in."))
        sender = agent(PASSWORD="correct-horse")
        event = answer_input(sender, engine.recorder("ada"), "1.1.2", GIVEN)
        hidden, _ = sender.redactor().hide(event)
        assert "[redacted:api_key:1]" in str(hidden)
        ended = await engine.run(agent(), "ada", hidden)
        assert ended.finished is not None
        return engine

    engine = asyncio.run(main())
    with JournalReader(engine.recorder("ada")) as reader:
        records = list(reader)
    text = str(records)
    assert "literal" not in text
    assert "[redacted:api_key:2]" in text
    assert {one["kind"] for record in records for one in record.redacted} == {"api_key"}
    assert any(SECRET_LOST in one for one in seen)
    assert not used
    assert not any(OWN in one for one in seen)
    assert replay(engine.recorder("ada")).same
