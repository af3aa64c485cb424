"""Recordings: made for tests, read, and changed by hand, with sums that fit again, as another program writes them.

With seals that fit, too: as the user writes them who has the key. What a stranger can write stands in ``forged``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cognition import AgentState, Input
from interpreters import Agent, fakes
from interpreters.recording.journal import JournalReader
from interpreters.recording.journal.format import line_of
from interpreters.recording.journal.seals import key_for_writing, start_hash
from interpreters.testing.fakes import Reply, ScriptedModel, call
from tests.interpreters.simple_tools import multiply


def rewritten(path: Path, change: Callable[[int, Any], Any], to: Path | None = None) -> Path:
    """Change the lines of a journal as data, counted from 1, and seal them anew; the file that was written."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    content, total, seal = [], 0, start_hash(key_for_writing())
    for number, data in enumerate(lines, 1):
        data.pop("sum")
        data.pop("seal", None)
        changed = change(number, data)
        line, total, seal = line_of(data if changed is None else changed, total, seal)
        content.append(line)
    to = path if to is None else to
    to.write_bytes(b"".join(content))
    return to


def replaced(path: Path, before: str, after: str, to: Path | None = None) -> Path:
    """Replace a text in a journal and seal its lines anew."""

    def change(_number: int, data: Any) -> Any:
        return json.loads(json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace(before, after))

    return rewritten(path, change, to)


def record_session(path: Path, turns: int = 2, **options: Any) -> AgentState:
    """A recorded session of so many turns, each with one call; its last state."""
    replies: list[fakes.Script] = []
    for turn in range(turns):
        replies += [call("multiply", a=turn, b=23), Reply(f"It is {turn * 23}.", reasoning="Easy. \ud83d")]
    with Agent(ScriptedModel(replies), tools=[multiply], system="Be brief.", journal=path, **options) as agent:
        for turn in range(turns):
            agent.run(f"What is {turn} * 23? «é»")
        return agent.state


def read(path: Path) -> tuple[list[Input], list[str]]:
    with JournalReader(path) as reader:
        return [record.input for record in reader], reader.warnings


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def small(path: Path, text: str = "Hi!", answer: str = "Hello!", **options: Any) -> Path:
    """A recorded session of one turn."""
    with Agent(ScriptedModel([answer]), journal=path, fsync="never", **options) as agent:
        agent.run(text)
    return path
