"""Summaries in pieces, and prompts that a server refuses: with an agent, its recording and its replay."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cognition import Compacted, ModelRequest, ProposedCall
from interpreters import Agent, replay, tool
from interpreters.testing.fakes import ScriptedModel

FACT = re.compile(r"FACT-\d+")


@tool
def write(path: str, text: str) -> str:
    """Write a file."""
    return f"wrote {len(text)} characters to {path}"


class Faithful(ScriptedModel):
    """A model that answers each message, and writes summaries with all facts that it is shown."""

    def submit(self, request: ModelRequest) -> Any:
        text = "".join(getattr(message, "text", "") for message in request.messages)
        self._summary = "TASK: " + " ".join(dict.fromkeys(FACT.findall(text))) + "."
        return super().submit(request)


def test_a_summary_on_request_covers_the_whole_conversation_and_replays(tmp_path: Path) -> None:
    path, told = tmp_path / "s.jsonl", list[Any]()
    model = Faithful(["Noted. " * 40] * 21)
    with Agent(
        model,
        context_tokens=2048,
        compact_at=None,
        journal=path,
        observers=[lambda event: told.append(event.value) if isinstance(event.value, Compacted) else None],
    ) as agent:
        for number in range(20):
            agent.run(f"FACT-{number} " + "word " * 150)

        done = agent.compact()

        assert isinstance(done, Compacted)
        assert FACT.findall(agent.state.window.summary.text) == [f"FACT-{number}" for number in range(20)]
        assert agent.run("Go on.").ok
    assert len(told) > 1
    assert told[-1] == done
    assert replay(path).same


def test_a_long_call_ends_no_turn_and_the_tool_gets_all_of_it(tmp_path: Path) -> None:
    text, path = "word " * 2400, tmp_path / "s.jsonl"

    def script() -> Iterator[Any]:
        yield [ProposedCall("write", {"path": "a.txt", "text": text})]
        yield "It is written."

    model = ScriptedModel(list(script()))
    with Agent(model, [write], system="x" * 3000, context_tokens=4096, journal=path, compact_at=None) as agent:
        assert agent.run("Write it.").text == "It is written."
        (result,) = [message.content for message in agent.state.history if hasattr(message, "content")]
    assert result == "wrote 12000 characters to a.txt"
    shown = [len(call.arguments_json) for one in model.requests[-1].messages for call in getattr(one, "calls", ())]
    assert shown[0] <= 400
    assert replay(path).same
