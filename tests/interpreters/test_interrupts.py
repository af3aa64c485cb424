"""Ctrl-C at any line: the agent can be used and closed afterwards, and nothing of it stays behind.

A tracing function raises ``KeyboardInterrupt`` where a line of the interpreters is about to be executed, on the thread
that a terminal's interrupts come to; each line is met twice, the first time that it is come to and the last.
"""

from __future__ import annotations

import dis
import sys
import threading
from collections import Counter
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from attrs import define, field

import interpreters
from cognition import Idle
from interpreters import Agent, ApprovalRequest, events, replay, tool
from interpreters.observing.events import Event
from interpreters.recording.journal.locking import is_being_written
from interpreters.testing.fakes import Reply, ScriptedModel, call
from runtime.threads.pool import ThreadPool
from tests.interpreters.signs import PATIENCE

ROOT = str(Path(interpreters.__file__).parent)
NOT_OURS = (f"{ROOT}/fakes",)
"""Fakes stand for the program's own code."""

Line = tuple[str, int]


@cache
def ends_of_with(code: CodeType) -> frozenset[int]:
    """Where ``__exit__(None, None, None)`` is about to be called.

    A tracing function can raise there, and a lock stays locked. A signal can't: the interpreter looks for signals
    behind calls and at jumps, so it finds one when ``__exit__`` is over.
    """
    told = list(dis.get_instructions(code))
    nothing = [one.opname == "LOAD_CONST" and one.argval is None for one in told]
    return frozenset(told[at].offset for at in range(len(told) - 3) if all(nothing[at : at + 3]))


@define
class Tracer:
    """Counts the lines that are come to, and interrupts at one of them."""

    at: tuple[Line, int] | None = None
    """A line, and how often it was come to before."""
    met: Counter[Line] = field(factory=Counter)
    struck: bool = False

    def __enter__(self) -> Tracer:
        sys.settrace(self._enter)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        return self._line if name.startswith(ROOT) and not name.startswith(NOT_OURS) else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line" and frame.f_lasti not in ends_of_with(frame.f_code):
            line = frame.f_code.co_filename, frame.f_lineno
            if self.at == (line, self.met[line]):
                self.struck = True
                sys.settrace(None)
                raise KeyboardInterrupt(f"{line[0].removeprefix(ROOT)}:{line[1]}")
            self.met[line] += 1
        return self._line


@tool
def work() -> str:
    """Work."""
    return "done"


@tool(read_only=True)
def look() -> str:
    """Look."""
    return "seen"


@tool(approval=True)
def pay() -> str:
    """Pay."""
    return "paid"


SCRIPTS: dict[str, list[Any]] = {
    "an answer": [],
    "a tool on a thread": [call("work")],
    "a tool right here": [call("look")],
    "two tools at once": [[call("look"), call("look")]],
    "an approval": [call("pay")],
    "a worker": [call("spawn_worker", name="ann", objective="work")],
}


def model_of(script: str) -> ScriptedModel:
    replies = iter(SCRIPTS[script])

    def reply(request: Any) -> Any:
        if request.messages[0].text.startswith("work"):
            return "Found."
        said = [getattr(message, "text", "") for message in request.messages]
        return "Hello again." if "Hi!" in said else next(replies, Reply("All is done.", chunk=6))

    return ScriptedModel(iter(lambda: reply, None))


def interrupted(script: str, journal: Path, at: tuple[Line, int] | None) -> Tracer:
    """One session, interrupted at one line, and used and closed afterwards."""
    before = set(threading.enumerate())
    where = f"interrupted at {at}"

    def approve(request: ApprovalRequest) -> bool:
        return True

    def watch(event: Event) -> None:
        """On a thread of its own."""

    options: dict[str, Any] = {
        "approve": approve,
        "features": ["workers"] if script == "a worker" else [],
        "observers": [watch, events.Inline(watch)],
        "journal": journal,
        "fsync": "never",
    }
    agent = Agent(model_of(script), [work, look, pay], **options)
    tracer = Tracer(at)
    try:
        with tracer:
            agent.run("Go!")
            agent.close()
    except KeyboardInterrupt:
        assert tracer.struck, where
    sys.settrace(None)
    if not agent._closed:
        assert agent.run("Hi!").text == "Hello again.", where
        assert Idle() == agent.state.phase, where
        assert agent.cancel() is False, where
    agent.close()
    for thread in set(threading.enumerate()) - before:
        thread._started.wait(PATIENCE)  # type: ignore[attr-defined]  # what was interrupted may have left it to begin
        thread.join(PATIENCE)
    assert set(threading.enumerate()) <= before, where
    assert not is_being_written(journal), where
    report = replay(journal).raise_for_divergence()
    assert report.state == agent.state, where
    return tracer


def interrupted_at_lines(script: str, folder: Path, step: int) -> int:
    """Interrupt at every so manieth line, the first time that it is come to and the last; how many there were."""
    lines = sorted(interrupted(script, folder / "whole.jsonl", None).met.items())
    places = [(line, before) for line, count in lines[::step] for before in {0, count - 1}]
    return sum(interrupted(script, folder / f"{n}.jsonl", place).struck for n, place in enumerate(places))


@pytest.mark.slow
@pytest.mark.behaviour("C13d")
@pytest.mark.parametrize("script", SCRIPTS)
def test_an_agent_survives_an_interrupt_at_any_line(script: str, tmp_path: Path) -> None:
    """It is free for the next message, closes, and leaves no thread, no lock and a recording that replays."""
    assert interrupted_at_lines(script, tmp_path, 1) > 400


@pytest.mark.behaviour("C13d")
@pytest.mark.parametrize("script", SCRIPTS)
def test_an_agent_survives_an_interrupt_at_some_lines(script: str, tmp_path: Path) -> None:
    assert interrupted_at_lines(script, tmp_path, 29) > 10


@pytest.mark.behaviour("C13d")
@pytest.mark.parametrize("started", [False, True])
def test_a_pool_closes_though_a_thread_of_it_never_began(started: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt came before it was started, or right after; or there can be no more of them."""
    pool, ran = ThreadPool(), threading.Event()
    start = threading.Thread.start

    def interrupt(thread: threading.Thread) -> None:
        if started:
            start(thread)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupt)
        with pytest.raises(KeyboardInterrupt):
            pool.start(ran.set)

    assert pool.close(PATIENCE) == 0
    assert ran.is_set() == started
    pool.start(ran.set)  # a job that comes later still gets its thread
    assert ran.wait(PATIENCE)
    assert pool.close(PATIENCE) == 0


@pytest.mark.behaviour("C13d")
def test_ctrl_c_while_close_waits_for_a_tool_ends_it_in_order(tmp_path: Path) -> None:
    """The turn stands closed on file, and the tool that heeds nothing is left alone."""
    running, release = threading.Event(), threading.Event()

    @tool
    def stubborn() -> None:
        running.set()
        assert release.wait(PATIENCE)

    path = tmp_path / "s.jsonl"
    agent = Agent(ScriptedModel([call("stubborn")]), [stubborn], journal=path)
    turn = threading.Thread(target=agent.run, args=("Go!",))
    turn.start()
    assert running.wait(PATIENCE)
    pool, close = agent._interpreter._threads, agent._interpreter._threads.close

    def interrupted_close(seconds: float) -> int:
        if seconds > 1.0:
            raise KeyboardInterrupt
        return close(0.0)

    pool.close = interrupted_close  # type: ignore[method-assign]  # where a close waits
    with pytest.raises(KeyboardInterrupt):
        agent.close()
    turn.join(PATIENCE)

    assert not is_being_written(path)
    assert replay(path).raise_for_divergence().turns == 1
    pool.close = close  # type: ignore[method-assign]  # as it was
    release.set()
    agent.close()
