"""Sessions that earlier versions recorded: they replay with the same decisions, and their conversation goes on.

They have no seals, so that nothing shows who wrote them.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cognition import Completed, UserMessage
from interpreters import Agent, replay, tool
from interpreters.recording.journal import ForeignRecordingError
from interpreters.recording.sessions import read_transcript
from interpreters.testing.fakes import ScriptedModel
from runtime import Notes

EARLIER = sorted((Path(__file__).parent / "earlier").glob("*.jsonl"))
"""Calls, approvals, refusals, retries, notes, hooks, questions, plans and workers, recorded at commit 63bdecc.

Results that were cut and shortened, from before ``ToolMessage.left_out``, at commit 24ebf36.
"""


@tool(read_only=True)
def look(n: int) -> str:
    """Look."""
    return f"saw {n}"


@tool(approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def test_there_are_recordings() -> None:
    assert len(EARLIER) == 9


@pytest.mark.parametrize("path", EARLIER, ids=lambda path: path.stem)
def test_it_replays(path: Path) -> None:
    """Each decision is the one that stands on file, and the conversation can be read."""
    report = replay(path)

    assert report.same
    assert report.turns == 2
    assert [type(turn.outcome) for turn in read_transcript(path).turns] == [Completed, Completed]


@pytest.mark.parametrize("path", EARLIER, ids=lambda path: path.stem)
def test_it_goes_on(path: Path, tmp_path: Path) -> None:
    copy = shutil.copy(path, tmp_path / "session.jsonl")
    asked = {"ask": lambda request: ["a"], "review": lambda request: True, "memory": Notes()}
    hooks = {"before_tool": lambda request: None, "stop": lambda request: None}

    with pytest.raises(ForeignRecordingError, match="no seal"):
        Agent.resume(copy, ScriptedModel(["Here again."]), [look, pay], hooks=hooks, **asked)
    recorded = replay(path).state.history
    new = tmp_path / "new.jsonl"
    forked = Agent.fork(
        copy, ScriptedModel(["Here again."]), [look, pay], foreign=True, hooks=hooks, journal=new, **asked
    )
    with forked as agent:
        assert [message.text for message in agent.state.history if isinstance(message, UserMessage)] == [
            message.text for message in recorded if isinstance(message, UserMessage)
        ]
        assert agent.run("Still there?").text == "Here again."
    assert replay(new).same
    assert not replay(new).foreign
