"""Turns whose results together are longer than the model's context: they end, and what was shown can be replayed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cognition import ToolMessage
from interpreters import Agent, AsyncAgent, RunResult, fakes, replay, tool
from interpreters.observing.events import ContextAssembled, Event

PAGES = 10


@tool(read_only=True)
def read_page(page: int) -> str:
    """Read a page of the report."""
    return f"Page {page}. ".ljust(980, ".") + f" Code {page * 7}."


ONE_BY_ONE: list[fakes.Script] = [fakes.call("read_page", page=page) for page in range(1, PAGES + 1)]
AT_ONCE: list[fakes.Script] = [fakes.Reply("", [fakes.call("read_page", page=page) for page in range(1, PAGES + 1)])]
ANSWER = "The last code is 70."


@pytest.mark.parametrize("script", [ONE_BY_ONE, AT_ONCE], ids=["one by one", "at once"])
@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.behaviour("K18c")
def test_ten_results_of_a_thousand_characters_at_4096_tokens_are_answered(
    script: list[fakes.Script], kind: str, tmp_path: Path
) -> None:
    model = fakes.ScriptedModel([*script, ANSWER, "Yes."], context_tokens=4096)
    journal = tmp_path / "long.jsonl"
    reports: list[ContextAssembled] = []

    def observe(event: Event) -> None:
        if isinstance(event.value, ContextAssembled):
            reports.append(event.value)

    def run() -> list[RunResult]:
        with Agent(model, tools=[read_page], journal=journal, observers=[observe], compact_at=None) as agent:
            return [agent.run("What is the last code?"), agent.run("Are you sure?")]

    async def run_async() -> list[RunResult]:
        async with AsyncAgent(model, tools=[read_page], journal=journal, observers=[observe], compact_at=None) as agent:
            return [await agent.run("What is the last code?"), await agent.run("Are you sure?")]

    results = run() if kind == "sync" else asyncio.run(run_async())

    assert [result.text for result in results] == [ANSWER, "Yes."]
    newest = model.requests[-2].messages[-1]
    assert isinstance(newest, ToolMessage)
    assert newest.content.endswith("Code 70.")
    assert max(report.shortened for report in reports) > 0
    assert all(report.tokens <= report.budget for report in reports)
    assert all(len(call.content or "") > 980 for call in results[0].calls)  # whoever keeps the result has all of it
    assert replay(journal).divergence is None
