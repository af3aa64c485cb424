"""Journals that were cut or changed, disks that are full, directories that can't be written.

Whatever is left of a recording, the answer is a clear error or a session that goes on right: with a state that the
session was in, and never another one.
"""

from __future__ import annotations

import errno
import os
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from cognition import AgentState, LLMEngine
from interpreters import Agent, fakes, replay, tool
from interpreters.recording.journal import (
    JournalDamagedError,
    JournalError,
    JournalReader,
    JournalVersionError,
    JournalWriteError,
    NotAJournalError,
)
from interpreters.recording.journal.payloads import LARGE, directory_of
from interpreters.recording.replay import ReplayDivergedError
from interpreters.testing.fakes import Reply, ScriptedModel, call

ROOT = Path(__file__).resolve().parents[3]

PAGE = "A page.\n" * (LARGE // 4)


@tool(read_only=True)
def look(n: int) -> str:
    """Look."""
    return f"{n} «é» \ud83d"


@tool(read_only=True)
def read() -> str:
    """Read a page."""
    return PAGE


@tool
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


TOOLS = [look, read, pay]
KEY = "sk-" + "proj-abcDEF123456789012345678"


def record_session(path: Path, **options: Any) -> Agent:
    """Two turns with calls, reasoning, and a secret."""
    script = [
        Reply("I look.", [call("look", n=1), call("look", n=2)], reasoning="One and two."),
        "Seen.",
        call("pay", amount=5),
        f"Paid with {KEY}.",
    ]
    model = ScriptedModel(script, context_tokens=10**6)
    with Agent(model, TOOLS, journal=path, clock=fakes.FakeClock(1.79e9), session="s", **options) as agent:
        agent.run("Look!")
        agent.run(f"Pay with {KEY}!")
    return agent


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("damage") / "s.jsonl"
    record_session(path)
    return path


def states_of(path: Path) -> list[AgentState]:
    """The state after each record, and before the first."""
    with JournalReader(path) as reader:
        assert reader.header.config is not None
        engine, state = LLMEngine(reader.header.config), AgentState()
        states = [state]
        for record in reader:
            state = engine.step(state, record.input).next_state
            states.append(state)
    return states


def go_on(path: Path) -> AgentState:
    """Resume a session and carry it to an answer; the state that it was found in."""
    endless: Iterator[str] = (f"Answer {n}." for n in count())
    with Agent.resume(path, ScriptedModel(endless, context_tokens=10**6), TOOLS) as agent:
        found = agent.state
        if agent.unfinished:
            assert agent.resume_turn().ok
        assert agent.run("And again!").text.startswith("Answer")
    assert replay(path).raise_for_divergence().warnings == ()
    return found


# -------------------------------------------------------------------------------------------------------------- bytes


@pytest.mark.slow
def test_a_journal_cut_at_any_byte_of_its_last_two_records_goes_on(recorded: Path, tmp_path: Path) -> None:
    """From the state after the last record that is whole; nothing else of it is lost, and it is mended by going on."""
    data, states = recorded.read_bytes(), states_of(recorded)
    lines = data.splitlines(keepends=True)
    path = tmp_path / "cut.jsonl"

    for cut in range(len(data) - len(lines[-1]) - len(lines[-2]), len(data) + 1):
        path.write_bytes(data[:cut])
        whole = data[:cut].count(b"\n") - 1
        torn = int(not data[:cut].endswith(b"\n"))
        assert (states[whole], torn) == ((report := replay(path)).state, len(report.warnings))
        with Agent.resume(path, ScriptedModel([]), TOOLS) as agent:
            assert states[whole] == agent.state
        assert data[:cut] == path.read_bytes(), "looking at it changes nothing"
        if cut % 10 == 0 or not torn:
            assert states[whole] == go_on(path)


def test_a_journal_cut_anywhere_is_read_up_to_there_or_refused(recorded: Path, tmp_path: Path) -> None:
    """Also in the header, where nothing was recorded yet."""
    data, states = recorded.read_bytes(), states_of(recorded)
    path = tmp_path / "cut.jsonl"
    for cut in range(0, len(data) + 1, 11):
        path.write_bytes(data[:cut])
        whole = data[:cut].count(b"\n") - 1
        if whole < 0:
            with pytest.raises((NotAJournalError, JournalDamagedError)):
                JournalReader(path)
        else:
            assert states[whole] == replay(path).state


@pytest.mark.slow
def test_a_thousand_changed_bytes_are_found_every_one(recorded: Path, tmp_path: Path) -> None:
    """One byte of the journal or of a text beside it becomes another: reading and resuming say in which line.

    The only byte that may change in silence is none.
    """
    chance = random.Random(20260202)
    original = tmp_path / "original.jsonl"
    original.write_bytes(recorded.read_bytes())
    with Agent.resume(original, ScriptedModel([call("read"), "Read."], context_tokens=10**6), TOOLS) as agent:
        agent.run("Read!")
    data = original.read_bytes()
    (payload,) = directory_of(original).iterdir()
    content = payload.read_bytes()
    path = tmp_path / "changed.jsonl"
    beside = directory_of(path)
    beside.mkdir()
    ends = [index for index, byte in enumerate(data) if byte == 10]

    for trial in range(1000):
        in_payload = trial % 10 == 0
        changed = bytearray(content if in_payload else data)
        # each line break is tried, and otherwise chance decides
        place = ends[trial] if 0 < trial < len(ends) and not in_payload else chance.randrange(len(changed))
        changed[place] = chance.choice([byte for byte in range(256) if byte != changed[place]])
        path.write_bytes(data if in_payload else changed)
        (beside / payload.name).write_bytes(changed if in_payload else content)
        before = path.read_bytes()

        with pytest.raises((JournalError, ReplayDivergedError)) as caught:
            replay(path).raise_for_divergence()
        assert str(path) in str(caught.value)
        with pytest.raises((JournalDamagedError, NotAJournalError, JournalVersionError)) as refused:
            go_on(path)
        assert f"{path}" in str(refused.value)
        if isinstance(refused.value, JournalDamagedError) and not in_payload:
            line = data[:place].count(b"\n") + 1
            assert refused.value.line in (line, line + 1), "the line with the change, or where it shows"
        assert before == path.read_bytes(), "what is damaged is left as it is"


def test_lines_of_another_journal_are_no_lines_of_this_one(recorded: Path, tmp_path: Path) -> None:
    """Each sum goes on from the one before: a record that is whole fits in its own place only."""
    other, mixed = tmp_path / "other.jsonl", tmp_path / "mixed.jsonl"
    with Agent(ScriptedModel(["Hello."]), journal=other) as agent:
        agent.run("Hi!")
    lines, others = recorded.read_bytes().splitlines(keepends=True), other.read_bytes().splitlines(keepends=True)
    mixed.write_bytes(lines[0] + others[1])

    with JournalReader(mixed) as reader, pytest.raises(JournalDamagedError, match="line 2: the record was changed"):
        list(reader)


# --------------------------------------------------------------------------------------------------------------- disks


def failing(monkeypatch: pytest.MonkeyPatch, at: int, what: str) -> None:
    """Let the so-manieth of these system calls fail, and all later ones."""
    real: Any = getattr(os, what)
    calls = 0

    def fail(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls <= at:
            return real(*arguments)
        if what == "write" and calls == at + 1:  # a disk takes what fits first
            real(arguments[0], arguments[1][: len(arguments[1]) // 2])
        raise OSError(errno.ENOSPC if what == "write" else errno.EIO, "the disk is no more")

    monkeypatch.setattr(os, what, fail)


@pytest.mark.parametrize(("what", "at"), [*(("write", at) for at in range(10)), *(("fsync", at) for at in range(11))])
def test_a_disk_that_fails_at_any_write_is_a_clear_error_and_the_session_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, at: int
) -> None:
    """What is on file is whole, folds, and is where the session goes on once there is a disk again."""
    path = tmp_path / "s.jsonl"
    with monkeypatch.context() as patch:
        failing(patch, at, what)
        with pytest.raises(JournalWriteError, match="the disk is no more"):
            record_session(path, fsync="record")
    if path.stat().st_size == 0:
        with pytest.raises(NotAJournalError, match="the file is empty"):
            JournalReader(path)
        return
    report = replay(path).raise_for_divergence()
    assert report.warnings == ()
    assert report.state in states_of(path)
    assert go_on(path) == report.state


SESSION = """
import sys
from tests.interpreters.recording.test_damage import record_session
record_session(sys.argv[1])
"""


@pytest.mark.parametrize("limit", [700, 2500, 40_000])
def test_a_file_that_may_not_grow_is_a_clear_error(tmp_path: Path, limit: int) -> None:
    """A real one: the system's limit on the size of files, in a process of its own."""

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    path = tmp_path / "s.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", SESSION, str(path)],
        cwd=ROOT, preexec_fn=limited, capture_output=True, text=True, check=False,
    )  # fmt: skip

    if limit == 40_000:
        assert done.returncode == 0, done.stderr
        return
    assert "JournalWriteError" in done.stderr
    assert "File too large" in done.stderr
    if path.stat().st_size:
        report = replay(path).raise_for_divergence()
        assert report.warnings == ()
        assert go_on(path) == report.state


def test_a_device_is_no_recording() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    with pytest.raises(JournalWriteError, match="it is a device, and only a regular file is written; name another"):
        Agent(ScriptedModel([]), journal="/dev/full")


DENIED = "Permission denied"
READ_ONLY = """
import os, sys
from interpreters import Agent, fakes, replay
from interpreters.recording.journal import JournalError
path, what = sys.argv[1], sys.argv[2]
replay(path)  # everything is imported while this is somebody who may
Agent.resume(path, fakes.ScriptedModel([])).close()
os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    if what == "begin":
        Agent(fakes.ScriptedModel([]), journal=path + ".new")
    elif what == "resume":
        Agent.resume(path, fakes.ScriptedModel([]))
    else:
        print("same" if replay(path).same else "other")
except JournalError as error:
    print(f"{type(error).__name__}: {error}")
"""


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        (
            "begin",
            "JournalWriteError: {path}.new: can't be opened for writing (Permission denied); choose another place",
        ),
        (
            "resume",
            "JournalWriteError: {path}: can't be opened for writing (it belongs to another user, who could read what "
            "is written; use a copy of it); choose another place",
        ),
        ("replay", "same"),
    ],
)
def test_a_directory_that_may_only_be_read(tmp_path: Path, what: str, expected: str) -> None:
    """Looking is possible, and writing is a clear error."""
    if os.geteuid() != 0:
        pytest.skip("only the superuser can become somebody who may not write here")
    path = tmp_path / "s.jsonl"
    with Agent(ScriptedModel(["Hello."]), journal=path) as agent:
        agent.run("Hi!")
    path.chmod(0o444)
    tmp_path.chmod(0o555)
    for parent in tmp_path.parents:  # pytest's own are for its user alone
        if parent.is_relative_to(tmp_path.parents[2]):
            parent.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", READ_ONLY, str(path), what], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.stdout.strip() == expected.format(path=path), done.stderr
