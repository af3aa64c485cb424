"""Writing a journal: who may, what is left by a full disk and by an interrupt, and what is never written."""

import contextlib
import errno
import os
import signal
import subprocess
import sys
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest

from cognition import (
    AgentState,
    CogstepError,
    EchoEngine,
    Input,
    ModelRequest,
    Transition,
    TurnFinished,
    UserSpoke,
)
from interpreters import Agent, replay
from interpreters.recording.journal import (
    Journal,
    JournalDamagedError,
    JournalError,
    JournalExistsError,
    JournalLockedError,
    JournalVersionError,
    JournalWriteError,
    NotAJournalError,
    UnknownTagError,
)
from interpreters.testing.fakes import ScriptedModel
from tests.interpreters.journals import read, record_session

ROOT = Path(__file__).resolve().parents[3]


def test_a_recording_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("dear diary")

    with pytest.raises(JournalExistsError, match="choose another name"):
        Agent(ScriptedModel([]), journal=path)
    assert path.read_text() == "dear diary"


@pytest.mark.parametrize("place", ["missing/a.jsonl", "."])
def test_a_place_that_can_not_be_written_says_so(tmp_path: Path, place: str) -> None:
    with pytest.raises(JournalWriteError, match="choose another place"):
        Agent(ScriptedModel([]), journal=tmp_path / place)


def test_a_journal_has_one_writer(tmp_path: Path) -> None:
    """A second one is refused while the first one is open, whatever it has written, and in whatever process."""
    path = tmp_path / "a.jsonl"
    with (
        Journal.create(path, session="s1", engine=EchoEngine()),
        pytest.raises(JournalLockedError, match="another session"),
    ):
        Journal.create(path, session="s2", engine=EchoEngine())


def test_a_crash_releases_the_lock(tmp_path: Path) -> None:
    """A killed process leaves its records and no lock: what it had put on file is read."""
    path = tmp_path / "a.jsonl"
    script = f"""
import os, signal
from interpreters import Agent, fakes
def die(request):
    os.kill(os.getpid(), signal.SIGKILL)
agent = Agent(fakes.ScriptedModel(["Hello!", die]), journal={str(path)!r})
agent.run("Hi!")
agent.run("Die!")
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=False)

    assert done.returncode == -signal.SIGKILL
    inputs, warnings = read(path)
    assert ([type(i).__name__ for i in inputs], warnings) == (["UserSpoke", "ModelReplied", "UserSpoke"], [])
    with pytest.raises(JournalExistsError):
        Journal.create(path, session="s2", engine=EchoEngine())


HOLDING = """
import sys
from interpreters import Agent, fakes
agent = Agent.resume(sys.argv[1], fakes.ScriptedModel(["Hello!"]))
print("open", flush=True)
sys.stdin.read()
"""


def test_two_processes_never_write_one_journal(tmp_path: Path) -> None:
    """While one holds it another is refused at once, whether it begins, resumes or wants to delete; reading is free.
    When the first is killed, nothing has to be cleaned up.
    """
    path = tmp_path / "a.jsonl"
    with Agent(ScriptedModel(["Hi!"]), journal=path) as agent:
        agent.run("Hi?")
    command = [sys.executable, "-c", HOLDING, str(path)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        with pytest.raises(JournalLockedError, match="another session is writing this journal"):
            Agent.resume(path, ScriptedModel([]))
        with pytest.raises(JournalLockedError, match="another session is being recorded here"):
            Agent(ScriptedModel([]), journal=path)
        second = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
        assert (second.returncode, "JournalLockedError" in second.stderr) == (1, True)
        assert replay(path).turns == 1
        holder.send_signal(signal.SIGKILL)
    with Agent.resume(path, ScriptedModel(["Hello again!"])) as agent:
        assert agent.run("Hi?").text == "Hello again!"


def test_a_journal_that_was_deleted_while_it_was_opened_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records would go to a file without a name."""
    path = tmp_path / "a.jsonl"
    record_session(path)
    open_file = os.open

    def late(*arguments: Any, **options: Any) -> int:
        descriptor = open_file(*arguments, **options)
        path.unlink()
        return descriptor

    monkeypatch.setattr(os, "open", late)
    with pytest.raises(JournalError, match="the file was deleted"):
        Journal.reopen(path)


class FullDisk:
    """``os.write`` of a disk with so many bytes left: it takes what fits and fails then, as disks do."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.write = os.write

    def __call__(self, descriptor: int, data: bytes) -> int:
        if self.left == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = self.write(descriptor, data[: self.left])
        self.left -= written
        return written


NO_ROOM = r"No space left on device.*everything before it is kept"


@pytest.mark.parametrize("left", [0, 1, 100, 400])
def test_a_full_disk_loses_nothing_and_the_session_goes_on_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    """The run raises, nothing of the unwritten record is carried out, and the file ends with a whole record."""
    path = tmp_path / "a.jsonl"
    with Agent(ScriptedModel(["Hello!", "Hello again!"]), journal=path) as agent:
        agent.run("Hi!")
        before, written = agent.state, path.read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", FullDisk(left))
            with pytest.raises(JournalWriteError, match=NO_ROOM):
                agent.run("Hi again! " * 50)
        assert (before, written) == (agent.state, path.read_bytes())
        assert agent.run("Is there room?").text == "Hello again!"
        assert agent.state == replay(path).raise_for_divergence().state


def test_a_disk_that_fills_up_in_a_turn_leaves_a_turn_that_can_be_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reply can't be written, so that it never happened; once there is room the open turn ends as cancelled."""
    path = tmp_path / "a.jsonl"

    with monkeypatch.context() as patch:

        def fill(request: ModelRequest) -> str:
            patch.setattr(os, "write", FullDisk(10))
            return "This is not on file."

        agent = Agent(ScriptedModel([fill, "There is."]), journal=path)
        with pytest.raises(JournalWriteError, match=NO_ROOM):
            agent.run("Hi!")
        with pytest.raises(JournalWriteError, match=NO_ROOM):
            agent.run("Is there room?")
    assert agent.run("Is there room now?").text == "There is."
    agent.close()

    report = replay(path).raise_for_divergence()
    assert agent.state == report.state
    assert [type(event).__name__ for event in read(path)[0]] == [
        "UserSpoke",
        "CancelAsked",
        "UserSpoke",
        "ModelReplied",
    ]


@pytest.mark.parametrize("place", range(12))
def test_an_interrupt_while_writing_leaves_journal_and_session_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    """Ctrl-C before, in and after the system calls of each record: whatever stands on file is what has happened."""
    path, calls = tmp_path / "a.jsonl", 0

    def interrupted(call: Any, *arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == place:
            raise KeyboardInterrupt
        result = call(*arguments)
        if calls == place - 1 and call is not fstat:
            calls += 1
            raise KeyboardInterrupt
        return result

    fstat, write = os.fstat, os.write
    agent = Agent(ScriptedModel(repeat("Hello!")), journal=path, fsync="never")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", partial(interrupted, fstat))
        patch.setattr(os, "write", partial(interrupted, write))
        with contextlib.suppress(KeyboardInterrupt):
            for _ in range(3):
                agent.run("Hi!")
    assert agent.run("Hi again!").text == "Hello!"
    agent.close()

    report = replay(path).raise_for_divergence()
    assert (agent.state, ()) == (report.state, report.warnings)


def test_an_interrupt_right_behind_the_writing_counts_as_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record stands on file for good, so that the session has to stand there too."""
    path, write = tmp_path / "a.jsonl", Journal.write
    agent = Agent(ScriptedModel(["Hello!"]), journal=path, fsync="never")

    def interrupted(journal: Journal, event: Input, transition: Transition, redacted: Any) -> None:
        write(journal, event, transition, redacted)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            agent.run("Hi!")
    assert agent.run("Hi again!").text == "Hello!"
    agent.close()

    report = replay(path).raise_for_divergence()
    assert (agent.state, ()) == (report.state, report.warnings)


def test_a_journal_that_was_closed_says_so(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path / "a.jsonl", session="s1", engine=EchoEngine())
    journal.close()
    journal.close()

    with pytest.raises(JournalWriteError, match="closed"):
        journal.write(*step("hi"))


def test_what_json_has_no_form_for_is_not_written(tmp_path: Path) -> None:
    """Not-a-number would be read back by nobody else."""
    with Journal.create(tmp_path / "a.jsonl", session="s1", engine=EchoEngine()) as journal:
        event, transition = step("hi")
        with pytest.raises(JournalWriteError, match="no form in JSON"):
            journal.write(UserSpoke("hi", at=float("nan")), transition)
        journal.write(event, transition)

    assert len(read(tmp_path / "a.jsonl")[0]) == 1
    assert isinstance(transition.decisions[-1], TurnFinished)


def step(text: str) -> tuple[UserSpoke, Transition]:
    event = UserSpoke(text)
    return event, EchoEngine().step(AgentState(), event)


def test_errors_of_journals_are_ours() -> None:
    """One ``except`` catches them all."""
    kinds = [NotAJournalError, JournalVersionError, JournalDamagedError, UnknownTagError, JournalWriteError]

    assert all(issubclass(kind, JournalError) and issubclass(kind, CogstepError) for kind in kinds)
