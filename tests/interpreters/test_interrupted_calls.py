"""What the model is told of a call whose turn was broken off: what is known of it, since it may send it again."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cognition import (
    CallTool,
    CancelAsked,
    Completed,
    Input,
    ModelReplied,
    ToolMessage,
    ToolReturned,
    Transition,
    WorkerFinished,
    from_data,
)
from interpreters import Agent, AsyncAgent, PendingError, replay, tool
from interpreters.recording.journal import Journal, JournalWriteError
from interpreters.recording.journal.errors import unwritten_error
from interpreters.testing.fakes import ScriptedModel, call
from tests.cognition.told import MAY_HAVE_HAPPENED, NOT_RUN, RAN, STOPPED
from tests.interpreters.journals import lines_of, record_session
from tests.interpreters.loops import run
from tests.interpreters.signs import PATIENCE
from tests.interpreters.simple_tools import multiply
from tests.interpreters.test_workers import Cast, spawn
from tests.interpreters.ways import resumed_in_asyncio, resumed_in_sync


def killed(session: Callable[[], object]) -> None:
    """Run a session in a process that does not come to its end."""
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(PATIENCE)
            session()
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL


def die(*_: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


@tool
def pay() -> str:
    """Pay."""
    return die()  # type: ignore[no-any-return]  # it returns nothing, ever


@tool(read_only=True)
def look() -> str:
    """Look."""
    return die()  # type: ignore[no-any-return]  # as above


@tool(approval=True)
def wipe() -> str:
    """Wipe."""
    raise AssertionError("nobody approved it")


@pytest.mark.behaviour("C13a")
@pytest.mark.parametrize("resumed", [resumed_in_sync, resumed_in_asyncio])
@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([call("pay")], [MAY_HAVE_HAPPENED]),
        ([call("pay"), call("wipe")], [MAY_HAVE_HAPPENED, NOT_RUN]),
        ([call("look")], [STOPPED]),
        ([spawn("ann")], [MAY_HAVE_HAPPENED]),
    ],
)
def test_a_session_that_was_killed_and_goes_on_with_a_new_message_tells_what_may_have_happened(
    resumed: Any, calls: list[Any], expected: list[str], tmp_path: Path
) -> None:
    """``run`` instead of ``go_on``: the interrupted turn is cancelled, and nobody knows how far the call had come."""
    path = tmp_path / "s.jsonl"
    options: dict[str, Any] = {"approve": die, "worker_patience": None}

    def session() -> None:
        def reply(request: Any) -> Any:
            return die() if request.messages[0].text.startswith("ann") else calls

        with Agent(
            ScriptedModel(iter([reply, reply])), [pay, look, wipe], features=["workers"], journal=path, **options
        ) as agent:
            agent.run("Go!")

    killed(session)
    said = resumed(path, ScriptedModel(["Well."]), "And now?", tools=[pay, look, wipe], **options)

    assert [Completed("Well.")] == [result.outcome for result in said.results]
    assert [(text, "cancelled") for text in expected] == said.tool_results
    assert replay(path).raise_for_divergence().state == said.state


@pytest.mark.behaviour("C13a")
@pytest.mark.parametrize("resumed", [resumed_in_sync, resumed_in_asyncio])
def test_an_approval_that_was_asked_for_when_the_program_was_killed_is_not_given_up_by_a_new_message(
    resumed: Any, tmp_path: Path
) -> None:
    path = tmp_path / "s.jsonl"

    def session() -> None:
        with Agent(ScriptedModel([call("wipe")]), [wipe], journal=path, approve=die) as agent:
            agent.run("Go!")

    killed(session)
    with pytest.raises(PendingError, match=r"waits for answers \(AskApproval 1.1.1\)"):
        resumed(path, ScriptedModel([]), "And now?", tools=[wipe])

    with Agent.resume(path, ScriptedModel(["Well."]), [wipe]) as agent:
        assert [effect.effect_id for effect in agent.pending] == ["1.1.1"]
        assert agent.cancel()
        assert agent.run("And now?").text == "Well."
    assert (NOT_RUN, "cancelled") in [
        (message.content, message.status) for message in agent.state.history if isinstance(message, ToolMessage)
    ]


@pytest.mark.parametrize("resumed", [resumed_in_sync, resumed_in_asyncio])
def test_a_turn_s_result_holds_nothing_of_the_one_that_was_interrupted(resumed: Any, tmp_path: Path) -> None:
    """Wherever a crash came: what closes the interrupted turn is none of the new one's messages and calls."""
    whole = tmp_path / "whole.jsonl"
    record_session(whole, turns=2)
    lines = lines_of(whole)
    for count in range(1, len(lines) + 1):
        path = tmp_path / f"{count}.jsonl"
        path.write_bytes(b"".join(lines[:count]))
        model = ScriptedModel([call("multiply", a=5, b=7), "It is 35."])

        (result,) = resumed(path, model, "What is 5 * 7?", tools=[multiply]).results

        assert getattr(result.messages[0], "text", "") == "What is 5 * 7?", count
        assert [(one.arguments, one.content) for one in result.calls] == [({"a": 5, "b": 7}, "35")], count
        assert len(result.messages) == 4


class FullDisk:
    """A journal that has no room for a record that holds such an input; or for no other after it either."""

    def __init__(self, kind: type[Input], *, stays: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full, self.met = False, 0
        write = Journal.write

        def limited(journal: Journal, event: Input, transition: Transition, *rest: Any) -> None:
            meant = isinstance(event, kind) and not self.met
            if self.full or meant:
                self.met += 1
                self.full = stays
                raise unwritten_error(OSError(errno.ENOSPC, "there is no room"), journal.path)
            write(journal, event, transition, *rest)

        monkeypatch.setattr(Journal, "write", limited)


def full_disk_in_sync(disk: FullDisk, path: Path, model: Any, tools: list[Any]) -> Any:
    with Agent(model, tools, features=["workers"], journal=path) as agent:
        with pytest.raises(JournalWriteError, match="no room"):
            agent.run("Go!")
        disk.full = False
        return agent.run("And now?"), agent.state


def full_disk_in_asyncio(disk: FullDisk, path: Path, model: Any, tools: list[Any]) -> Any:
    async def main() -> Any:
        async with AsyncAgent(model, tools, features=["workers"], journal=path) as agent:
            with pytest.raises(JournalWriteError, match="no room"):
                await agent.run("Go!")
            disk.full = False
            return await agent.run("And now?"), agent.state

    return run(main())


@pytest.mark.behaviour("C13a")
@pytest.mark.parametrize("session", [full_disk_in_sync, full_disk_in_asyncio])
@pytest.mark.parametrize("stays", [False, True])
@pytest.mark.parametrize(
    ("first", "lost", "expected"),
    [
        (call("buy"), ToolReturned, RAN),
        (call("see"), ToolReturned, STOPPED),
        (spawn("ann"), WorkerFinished, RAN),
    ],
)
def test_a_result_that_could_not_be_written_is_known_to_have_come(
    session: Any, stays: bool, first: Any, lost: type[Input], expected: str, tmp_path: Path, monkeypatch: Any
) -> None:
    """The call ran, and the disk had no room for what it gave."""

    @tool
    def buy() -> str:
        return "bought"

    @tool(read_only=True)
    def see() -> str:
        return "seen"

    path, disk = tmp_path / "s.jsonl", FullDisk(lost, stays=stays, monkeypatch=monkeypatch)

    result, state = session(disk, path, Cast(Go=[first, "Well."], ann=["Found."]), [buy, see])

    assert (Completed("Well."), disk.met >= 1) == (result.outcome, True)
    assert [(expected, "cancelled")] == [(m.content, m.status) for m in state.history if isinstance(m, ToolMessage)]
    assert replay(path).raise_for_divergence().state == state


@pytest.mark.behaviour("C13a")
@pytest.mark.parametrize("session", [full_disk_in_sync, full_disk_in_asyncio])
def test_a_call_whose_decision_could_not_be_written_has_not_begun(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not on file is not carried out, and there is no call to tell of."""

    @tool
    def buy() -> str:
        raise AssertionError("this must not run")

    disk = FullDisk(ModelReplied, stays=True, monkeypatch=monkeypatch)

    result, state = session(disk, tmp_path / "s.jsonl", Cast(Go=[call("buy"), "Well."]), [buy])

    assert Completed("Well.") == result.outcome
    assert [m for m in state.history if isinstance(m, ToolMessage)] == []


@pytest.mark.behaviour("C13a")
def test_a_call_that_an_interrupt_kept_from_beginning_has_not_begun(tmp_path: Path, monkeypatch: Any) -> None:
    """Ctrl-C comes when the decision is on file, and before it is carried out."""
    write, asked = Journal.write, []

    def interrupted(journal: Journal, event: Input, transition: Transition, *rest: Any) -> None:
        write(journal, event, transition, *rest)
        if not asked and any(isinstance(decision, CallTool) for decision in transition.decisions):
            asked.append(event)
            raise KeyboardInterrupt

    @tool
    def buy() -> str:
        raise AssertionError("this must not run")

    monkeypatch.setattr(Journal, "write", interrupted)
    path = tmp_path / "s.jsonl"
    with Agent(ScriptedModel([call("buy"), "Well."]), [buy], journal=path) as agent:
        with pytest.raises(KeyboardInterrupt):
            agent.run("Go!")
        assert agent.run("And now?").text == "Well."
        assert [m.content for m in agent.state.history if isinstance(m, ToolMessage)] == [NOT_RUN]
        assert replay(path).raise_for_divergence().state == agent.state


def test_old_recordings_without_what_is_known_are_read() -> None:
    assert CancelAsked("enough") == from_data({"type": "cancel_asked", "reason": "enough"}, Input)
