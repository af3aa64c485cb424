"""The same undo wherever a session runs: both agents, hosts in threads and processes, recorders that are no files."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cognition import ProposedCall
from interpreters import Agent, AsyncAgent, ToolContext, UndoError, replay, tool, undo
from interpreters.hosting import AgentHost, HostDiedError, ModelChoice
from interpreters.hosting._channels import QueueChannel
from interpreters.hosting._host import Host
from interpreters.loop.errors import BusyError
from interpreters.recording.journal import FileRecorder
from interpreters.recording.journal.content_files import undo_files
from interpreters.testing.fakes import ScriptedModel, call
from interpreters.toolbox import file_tools

ROOT = Path(__file__).resolve().parents[4]
Run = Callable[[Any], Any]
"""Says something, in a session of some kind."""


@pytest.fixture
def place(tmp_path: Path) -> tuple[Path, Path]:
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.py").write_bytes(b"x = 1\n")
    return root, tmp_path / "s.jsonl"


def write(content: str, path: str = "a.py") -> list[Any]:
    return [call("Read", path=path), call("Write", path=path, content=content)]


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


# ---------------------------------------------------------------------------------------------------- kinds of sessions


class Kind:
    """A way to run sessions, in which a test says the same whatever it is."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name

    @contextmanager
    def session(
        self, replies: list[Any], tools: Any, journal: Path, *, resume: bool = False, **given: Any
    ) -> Iterator[Any]:
        given = {"approve": lambda request: True, **given}
        if self.name == "agent":
            model = ScriptedModel(replies)
            with (
                Agent.resume(journal, model, tools, **given)
                if resume
                else Agent(model, tools, journal=journal, **given)
            ) as agent:
                yield agent
        elif self.name == "async agent":
            with _Awaited(replies, tools, journal, resume, given) as awaited:
                yield awaited
        else:
            with self.host(replies) as host:
                yield host.open("s", tools, journal=journal, resume=resume, **given)

    def host(self, replies: list[Any]) -> AgentHost:
        if self.name == "thread":
            return AgentHost.in_thread(ScriptedModel(replies))
        said = [[one.name, one.arguments_json] if isinstance(one, ProposedCall) else one for one in replies]
        return AgentHost.in_process(
            ModelChoice(factory="scripted", arguments={"replies": said}),
            factories={"scripted": "tests.interpreters.hosting.models:scripted"},
        )


class _Awaited:
    """An ``AsyncAgent`` as one that blocks."""

    def __init__(self, replies: list[Any], tools: Any, journal: Path, resume: bool, given: dict[str, Any]) -> None:
        self._loop = asyncio.new_event_loop()
        self._replies, self._tools, self._journal = replies, tools, journal
        self._resume, self._given = resume, given

    def __enter__(self) -> Any:
        model = ScriptedModel(self._replies)
        if self._resume:
            self._agent = AsyncAgent.resume(self._journal, model, self._tools, **self._given)
        else:
            self._agent = AsyncAgent(model, self._tools, journal=self._journal, **self._given)
        return self

    def run(self, text: str) -> Any:
        return self._loop.run_until_complete(self._agent.run(text))

    def undo(self, *given: Any, **named: Any) -> Any:
        return self._agent.undo(*given, **named)

    def __exit__(self, *_: object) -> None:
        self._loop.run_until_complete(self._agent.close())
        self._loop.close()


KINDS = [
    pytest.param(Kind("agent"), id="agent"),
    pytest.param(Kind("async agent"), id="async-agent"),
    pytest.param(Kind("thread"), id="thread"),
    pytest.param(Kind("process"), id="process", marks=pytest.mark.slow),
]
HOSTS = KINDS[2:]


@pytest.fixture(autouse=True)
def _from_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children find the tests as modules."""
    monkeypatch.syspath_prepend(str(ROOT))


@pytest.mark.parametrize("kind", KINDS)
def test_turns_are_undone_and_redone_in_every_kind_of_session_and_after_a_resume(
    kind: Kind, place: tuple[Path, Path]
) -> None:
    root, journal = place
    replies = [*write("x = 2\n"), "ok", *write("x = 3\n"), call("Write", path="n/b", content="b\n"), "ok"]
    with kind.session(replies, file_tools(root), journal) as session:
        assert [session.run("go").ok, session.run("go").ok] == [True, True]
        assert session.undo(dry_run=True).turn == 2
        assert session.undo().turn == 2
        assert tree(root) == {"a.py": b"x = 2\n"}
        assert session.undo(redo=True).turn is None
        assert tree(root) == {"a.py": b"x = 3\n", "n/b": b"b\n"}

    with kind.session([*write("x = 4\n"), "ok"], file_tools(root), journal, resume=True) as session:
        session.run("go")
        assert session.undo().turn == 3
        assert tree(root)["a.py"] == b"x = 3\n"
        session.undo(1)
    assert tree(root) == {"a.py": b"x = 1\n"}
    assert replay(journal).same


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_worker_changes_belongs_to_its_parent_s_turn(kind: Kind, place: tuple[Path, Path]) -> None:
    """Though its own turns are counted from 1."""
    root, journal = place
    spawn = call("spawn_worker", name="w", objective="write", tools=["Read", "Write"])
    replies = ["first", *write("x = 2\n"), "second", spawn, *write("x = 3\n"), "written", "third"]
    with kind.session(replies, file_tools(root), journal, features=["workers"]) as session:
        for text in ("first", "second", "third"):
            assert session.run("go").text == text
        assert tree(root) == {"a.py": b"x = 3\n"}
        assert session.undo().turn == 3
    assert tree(root) == {"a.py": b"x = 2\n"}
    undo(journal, 2)
    assert tree(root) == {"a.py": b"x = 1\n"}


@pytest.mark.parametrize("kind", HOSTS)
def test_a_fork_of_a_handle_has_the_files_as_they_were_and_changes_of_its_own(
    kind: Kind, place: tuple[Path, Path]
) -> None:
    root, journal = place
    replies = [*write("x = 2\n"), "ok", *write("x = 3\n"), "ok", *write("y\n"), "ok", "ok"]
    with kind.host(replies) as host:
        first = host.open("s", file_tools(root), journal=journal, approve=lambda request: True)
        first.run("go")
        first.run("go")
        (root / "a.py").write_bytes(b"mine\n")
        with pytest.raises(UndoError, match="was changed since"):
            first.fork("f", after=1, files=True, journal=root.parent / "f.jsonl")
        assert list(host) == ["s"]
        (root / "a.py").write_bytes(b"x = 3\n")

        fork = first.fork("f", after=1, files=True, journal=root.parent / "f.jsonl")
        assert tree(root) == {"a.py": b"x = 2\n"}
        assert fork.run("go").ok
        with pytest.raises(UndoError, match="turn 1 is not recorded here"):
            fork.undo(1)
        assert fork.undo().turn == 2
        assert tree(root) == {"a.py": b"x = 2\n"}
        with pytest.raises(UndoError, match="without a recording"):
            first.fork("g").undo()


def test_a_session_that_is_resumed_under_another_name_keeps_in_its_recording(place: tuple[Path, Path]) -> None:
    root, journal = place
    spawn = call("spawn_worker", name="w", objective="write", tools=["Read", "Write"])
    with Kind("agent").session([*write("x = 2\n"), "ok"], file_tools(root), journal, features=["workers"]) as agent:
        agent.run("go")
    with AgentHost.in_thread(ScriptedModel(["ok", spawn, *write("x = 3\n"), "w", "ok"])) as host:
        handle = host.open("other", file_tools(root), journal=journal, resume=True, approve=lambda request: True)
        handle.run("go")
        handle.run("go")
        assert handle.undo().turn == 3
    assert tree(root) == {"a.py": b"x = 2\n"}


def test_a_handle_undoes_nothing_while_its_turn_is_under_way(place: tuple[Path, Path]) -> None:
    root, journal = place
    said: list[BaseException] = []

    @tool
    def hold() -> str:
        """Hold."""
        with pytest.raises(BusyError) as caught:
            handle.undo()
        said.append(caught.value)
        return "held"

    with AgentHost.in_thread(ScriptedModel([call("hold"), "ok"])) as host:
        handle = host.open("s", [hold, *file_tools(root)], journal=journal)
        handle.run("go")
    assert len(said) == 1


def test_tools_of_a_program_s_own_keep_behind_a_handle_too(place: tuple[Path, Path]) -> None:
    root, journal = place

    @tool
    def bump(context: ToolContext[Any]) -> str:
        """Bump it."""
        with context.keeping("a.py", root=root):
            (root / "a.py").write_bytes(b"bumped\n")
        return "bumped"

    with AgentHost.in_thread(ScriptedModel([call("bump"), "ok"])) as host:
        host.open("s", [bump], journal=journal).run("go")
    assert tree(root) == {"a.py": b"bumped\n"}
    undo(journal)
    assert tree(root) == {"a.py": b"x = 1\n"}


@pytest.mark.slow
def test_a_host_that_is_killed_takes_nothing_along_that_was_kept(place: tuple[Path, Path]) -> None:
    root, journal = place
    kind = Kind("process")
    writes = {one.spec.name: one for one in file_tools(root)}["Write"]

    @tool
    def fatal(context: ToolContext[Any]) -> str:
        """Write, and kill the host."""
        writes.call({"path": "b", "content": "b\n"}, context)
        assert host.process is not None
        os.kill(host.process.pid, signal.SIGKILL)
        return "written"

    with kind.host([*write("x = 2\n"), call("fatal"), "never"]) as host:
        handle = host.open("s", [fatal, *file_tools(root)], journal=journal, approve=lambda request: True)
        with pytest.raises(HostDiedError):
            handle.run("go")
        with pytest.raises(HostDiedError):
            handle.undo()
    assert tree(root) == {"a.py": b"x = 2\n", "b": b"b\n"}

    assert undo(journal).turn == 1
    assert tree(root) == {"a.py": b"x = 1\n"}


# --------------------------------------------------------------------------------------------- hosts that are elsewhere


@contextmanager
def over_a_channel(model: Any, folder: Path, **given: Any) -> Iterator[AgentHost]:
    """A host that lets messages name files in a folder alone."""
    ours, theirs = QueueChannel.pair()
    serving = threading.Thread(target=Host(theirs, model, files=folder).serve)
    serving.start()
    with AgentHost(ours, **given) as host:
        yield host
    serving.join()


def test_over_a_channel_the_program_says_where_the_recordings_are(place: tuple[Path, Path]) -> None:
    root, journal = place
    replies = [*write("x = 2\n"), "ok"]
    with over_a_channel(ScriptedModel(replies), journal.parent) as host:
        handle = host.open("s", file_tools(root), journal=journal.name, approve=lambda request: True)
        assert handle.run("go").ok
        with pytest.raises(UndoError, match="files="):
            handle.undo()
    assert not undo_files(journal).directory.exists()

    journal.unlink()
    with over_a_channel(ScriptedModel([*write("x = 3\n"), "ok"]), journal.parent, files=journal.parent) as host:
        handle = host.open("s", file_tools(root), journal=journal.name, approve=lambda request: True)
        assert handle.run("go").ok
        handle.undo()
    assert tree(root) == {"a.py": b"x = 2\n"}


def test_beside_another_session_s_recording_of_that_name_nothing_is_kept(place: tuple[Path, Path]) -> None:
    root, journal = place
    there = journal.parent / "there"
    there.mkdir()
    with Agent(ScriptedModel(["ok"]), journal=journal, session="another") as agent:
        agent.run("go")
    with over_a_channel(ScriptedModel([*write("x = 2\n"), "ok"]), there, files=journal.parent) as host:
        handle = host.open("s", file_tools(root), journal=journal.name, approve=lambda request: True)
        assert handle.run("go").ok
    assert not undo_files(journal).directory.exists()


@pytest.mark.slow
def test_a_host_s_own_program_may_run_anywhere(place: tuple[Path, Path]) -> None:
    root, journal = place
    host = "import sys; from interpreters.hosting.host_main import serve; from interpreters import fakes; "
    replies = json.dumps([["Write", {"path": "b", "content": "b\n"}]])
    serve = f"serve(fakes.ScriptedModel([*(fakes.call(n, **a) for n, a in {replies}), 'ok']), files='/')"
    command = [sys.executable, "-c", host + serve]
    with AgentHost.in_process(command=command) as elsewhere:
        handle = elsewhere.open("s", file_tools(root), journal=journal, approve=lambda request: True)
        assert handle.run("go").ok
        with pytest.raises(UndoError, match="files="):
            handle.undo()
    (root / "b").unlink()
    journal.unlink()
    with AgentHost.in_process(command=command, files=journal.parent) as here:
        handle = here.open("s", file_tools(root), journal=journal, approve=lambda request: True)
        assert handle.run("go").ok
        assert handle.undo().turn == 1
    assert tree(root) == {"a.py": b"x = 1\n"}


# ------------------------------------------------------------------------------------------------------------ recorders


class Lines:
    """A recorder that keeps its lines in memory; ``beside`` as a program says it."""

    def __init__(self) -> None:
        self.name = "in memory"
        self.kept: list[bytes] = []

    def lock(self, new: bool) -> bool:
        return True

    def append(self, number: int, line: bytes, force: bool) -> None:
        del self.kept[number:]
        self.kept.append(line)

    def lines(self) -> list[bytes]:
        return list(self.kept)

    def close(self) -> None: ...


class LinesBeside(Lines):
    def __init__(self, beside: Path | None) -> None:
        super().__init__()
        self.beside = beside


@pytest.mark.parametrize("recorder", [Lines(), LinesBeside(None)])
def test_a_recorder_without_a_place_keeps_nothing_and_it_is_said(recorder: Lines, place: tuple[Path, Path]) -> None:
    root, _ = place
    with Agent(
        ScriptedModel([*write("x = 2\n"), "ok"]), file_tools(root), journal=recorder, approve=lambda request: True
    ) as agent:
        assert agent.run("go").ok
        with pytest.raises(UndoError, match="nothing was kept, because its recorder has no place"):
            agent.undo()
    with pytest.raises(UndoError, match="nothing was kept, because"):
        undo(recorder)
    with pytest.raises(UndoError, match="nothing was kept, because"):
        Agent.fork(recorder, ScriptedModel([]), file_tools(root), turn=0, files=True)
    assert sorted(root.parent.iterdir()) == [root]


def test_a_recorder_with_a_place_keeps_there(place: tuple[Path, Path]) -> None:
    root, _ = place
    recorder = LinesBeside(root.parent / "sessions" / "ada")
    given: Any = {"approve": lambda request: True}
    with Agent(ScriptedModel([*write("x = 2\n"), "ok"]), file_tools(root), journal=recorder, **given) as agent:
        agent.run("go")
    with Agent.resume(recorder, ScriptedModel([*write("x = 3\n"), "ok"]), file_tools(root), **given) as agent:
        agent.run("go")
        assert agent.undo().turn == 2
        assert agent.undo(redo=True).turn is None
    with Agent.fork(recorder, ScriptedModel([]), file_tools(root), turn=1, files=True):
        assert tree(root) == {"a.py": b"x = 2\n"}
    undo(recorder, 1)
    assert tree(root) == {"a.py": b"x = 1\n"}
    assert [path.name for path in (root.parent / "sessions").iterdir()] == ["ada.files"]


def test_a_file_recorder_is_a_file(place: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the program goes afterwards."""
    root, journal = place
    monkeypatch.chdir(journal.parent)
    replies = [*write("x = 2\n"), "ok"]
    with Agent(
        ScriptedModel(replies), file_tools(root), journal=FileRecorder(journal.name), approve=lambda request: True
    ) as agent:
        monkeypatch.chdir("/")
        agent.run("go")
        agent.undo()
    assert tree(root) == {"a.py": b"x = 1\n"}
