"""What the end-to-end tests ask the shipped model, and how a session is set up for it.

Greedy decoding of one file on one backend gives the same text each time, so every answer is pinned in ``pins.json``:
for each backend and weights file. ``python -m tests.end_to_end.pin`` writes that file anew after a training; look at
its difference before you commit it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from attrs import frozen

from interpreters import Agent, RunResult, Tool, tool
from interpreters.toolbox import standard_tools
from runtime.protocol.model import Runtime

FILES = {
    "notes.txt": "friday at noon",
    "reports.txt": "milk and bread",
    "a.md": "hello world",
    "b.md": "buy milk",
}
"""The working directory of each scenario."""

NOW = datetime(2026, 11, 21, 14, 5, 9)


@tool(read_only=True)
def multiply(a: int, b: int) -> int:
    """Multiply two whole numbers."""
    return a * b


@frozen
class Scenario:
    """A conversation and what it is there to show."""

    name: str
    prompts: tuple[str, ...]
    shows: Callable[[tuple[RunResult, ...]], bool]
    """Whether the run shows it; independent of the exact words, which are pinned beside."""
    tools: str = "standard"


def names(result: RunResult) -> list[str]:
    return [call.name for call in result.calls]


def one_reply_has_two_calls(results: tuple[RunResult, ...]) -> bool:
    """Both calls stand in the same assistant message."""
    messages = results[0].messages
    return any(len(getattr(message, "calls", ())) == 2 for message in messages)


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "one call of a tool of the program's own",
        ("What is 17 * 23?",),
        lambda r: names(r[0]) == ["multiply"] and r[0].calls[0].content == "391" and "391" in r[0].text,
        tools="multiply",
    ),
    Scenario(
        "one call of the command line's tools",
        ("What is 17 * 23?",),
        lambda r: names(r[0]) == ["calculate"] and "391" in r[0].text,
    ),
    Scenario(
        "two calls in one reply",
        ("What is 17 * 23 and what time is it?",),
        lambda r: (
            sorted(names(r[0])) == ["calculate", "current_time"]
            and one_reply_has_two_calls(r)
            and "391" in r[0].text
            and "14:05:09" in r[0].text
        ),
    ),
    Scenario(
        "two steps, the second needs the first",
        ("Find all *.md files and read the first one",),
        lambda r: (
            names(r[0]) == ["Glob", "Read"] and r[0].calls[1].arguments["path"] == "a.md" and "hello world" in r[0].text
        ),
    ),
    Scenario(
        "an error that the model recovers from",
        ("Read report.txt",),
        lambda r: (
            [(c.name, c.status) for c in r[0].calls] == [("Read", "error"), ("Read", "ok")]
            and r[0].calls[1].arguments["path"] == "reports.txt"
            and "milk and bread" in r[0].text
        ),
    ),
    Scenario(
        "a request for which no tool fits",
        ("Book a flight to Paris",),
        lambda r: names(r[0]) == [] and "no tool" in r[0].text,
    ),
    Scenario(
        "a conversation of several turns",
        ("hello", "What is 12 + 30?", "What does notes.txt say?"),
        lambda r: names(r[0]) == [] and "42" in r[1].text and "friday" in r[2].text,
    ),
)


def tools_for(scenario: Scenario, directory: Path) -> tuple[Tool[..., Any], ...]:
    """The scenario's tools, over a directory that holds ``FILES``, at a time that stands still."""
    for name, content in FILES.items():
        (directory / name).write_text(content, encoding="utf-8")
    return (multiply,) if scenario.tools == "multiply" else standard_tools(directory, now=lambda: NOW)


def run(scenario: Scenario, model: Runtime, directory: Path, **options: Any) -> tuple[RunResult, ...]:
    """The results of the scenario's prompts, one after the other in one session."""
    with Agent(model, tools=tools_for(scenario, directory), **options) as agent:
        return tuple(agent.run(prompt) for prompt in scenario.prompts)


def transcript(results: tuple[RunResult, ...]) -> list[dict[str, Any]]:
    """What is pinned of a run: each call with its result, and each answer."""
    return [
        {"calls": [[c.name, c.call.arguments_json, c.content] for c in result.calls], "text": result.text}
        for result in results
    ]


def fingerprint(path: str) -> str:
    """SHA-256 of a weights file, or of the weights in a directory."""
    weights = Path(path)
    if weights.is_dir():
        weights /= "model.safetensors"
    return hashlib.sha256(weights.read_bytes()).hexdigest()
