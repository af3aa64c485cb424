"""Seals: whatever is changed of one's own recording, it is one's own no longer; and the key is only its user's."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from cognition import EchoEngine, SessionReset, Transition
from interpreters import Agent, replay
from interpreters.observing.events import WarningRaised
from interpreters.recording.journal import (
    ForeignRecordingError,
    Journal,
    JournalDamagedError,
    JournalError,
    JournalReader,
    explain_foreign,
)
from interpreters.recording.journal.seals import (
    KEY_FILE,
    KEY_NAME,
    KEY_SIZE,
    NO_KEY,
    NO_SEAL,
    OTHER_KEY,
    key_for_writing,
)
from interpreters.recording.sessions import BadFile, SessionInfo, list_sessions
from interpreters.testing.fakes import ScriptedModel
from runtime.files import state_directory
from tests.interpreters.forged import as_somebody_else, record, resummed
from tests.interpreters.journals import lines_of, small
from tests.odd_files import ODD_FILES

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("seals") / "s.jsonl")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory that is not there yet; where the key would be."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "cogstep" / KEY_NAME


def is_own(path: Path) -> bool:
    """Whether every reader takes a recording for the user's own; one that is damaged is none."""
    try:
        foreign = explain_foreign(path, "used", allowed=True)
        with JournalReader(path) as reader:
            list(reader)
            assert reader.foreign == foreign
    except JournalError:
        return False
    return not foreign


# -------------------------------------------------------------------------------------------------------------- lines


def test_what_this_user_records_is_their_own(own: Path) -> None:
    assert is_own(own)
    assert not replay(own).foreign
    with JournalReader(own) as reader:
        for _ in reader:
            assert not reader.foreign  # each line vouches for all before it


@pytest.mark.behaviour("R15a")
@given(st.data())
def test_any_byte_that_is_changed_makes_it_foreign_or_damaged(own: Path, data: Any) -> None:
    """As it stands, and with sums that fit again: also of a seal, of a sum, and of a line break."""
    content = bytearray(own.read_bytes())
    position = data.draw(st.integers(0, len(content) - 1), "position")
    content[position] = data.draw(st.integers(0, 255).filter(lambda byte: byte != content[position]), "byte")
    path = own.with_name("changed.jsonl")
    path.write_bytes(content)
    assert not is_own(path)
    try:
        lines = [json.loads(line) for line in bytes(content).splitlines()]
    except ValueError:
        return
    if all(isinstance(line, dict) for line in lines):
        resummed(path, lambda found: None)
        assert not is_own(path) or path.read_bytes() == own.read_bytes()


@pytest.mark.behaviour("R15a")
@given(st.data())
def test_lines_that_are_left_out_repeated_or_moved_make_it_foreign_or_damaged(own: Path, data: Any) -> None:
    """Only what stood at its beginning in the first place is still the user's own."""
    lines = lines_of(own)
    order = data.draw(st.lists(st.integers(0, len(lines) - 1), min_size=1, max_size=len(lines) + 1), "order")
    path = own.with_name("moved.jsonl")
    for again in (False, True):
        path.write_bytes(b"".join(lines[number] for number in order))
        if again:
            resummed(path)
        assert is_own(path) == (order == list(range(len(order))))


@pytest.mark.behaviour("R15a")
def test_what_a_crash_leaves_of_it_is_still_their_own(own: Path, tmp_path: Path) -> None:
    """Cut at any byte of its last lines: the whole lines before are the user's."""
    content, path = own.read_bytes(), tmp_path / "s.jsonl"
    shutil.copytree(own.with_name("s.jsonl.payloads"), tmp_path / "s.jsonl.payloads")
    for end in range(len(content) - len(b"".join(lines_of(own)[-2:])), len(content) + 1):
        path.write_bytes(content[:end])
        assert is_own(path)


def test_what_goes_on_stays_their_own(tmp_path: Path) -> None:
    """Resumed, torn and resumed, forked: each line is sealed as if it had been written in one session."""
    path, new = small(tmp_path / "s.jsonl"), tmp_path / "new.jsonl"
    path.write_bytes(path.read_bytes() + b'{"seq":3,"inp')
    for _ in range(2):
        with Agent.resume(path, ScriptedModel(["Yes."])) as agent:
            agent.run("Still there?")
    with Agent.fork(path, ScriptedModel(["Yes."]), journal=new) as agent:
        agent.run("And you?")

    assert is_own(path)
    assert is_own(new)
    assert all(b'"seal":' in line for line in lines_of(path) + lines_of(new))


def test_another_sessions_seals_seal_nothing_here(tmp_path: Path) -> None:
    """Not even of a session that is the same but for its name."""
    one, other = small(tmp_path / "1.jsonl", session="1"), small(tmp_path / "2.jsonl", session="2")
    mixed = tmp_path / "mixed.jsonl"
    mixed.write_bytes(lines_of(one)[0] + b"".join(lines_of(other)[1:]))
    resummed(mixed)
    assert explain_foreign(mixed, "used", allowed=True) == OTHER_KEY


def test_going_on_with_what_is_foreign_does_not_make_it_ones_own(tmp_path: Path) -> None:
    """Whoever writes to it directly, past the agents: the lines get no seals, and what is before them none either."""
    with as_somebody_else():
        path = small(tmp_path / "s.jsonl")
    journal, reader = Journal.reopen(path)
    with journal, reader:
        state = replay(path).state
        assert len(list(reader)) == 2
        journal.write(SessionReset(), Transition(state))
    assert b'"seal":' not in lines_of(path)[-1]
    assert replay(path).records == 3
    assert replay(path).foreign
    with as_somebody_else():
        assert replay(path).foreign


def test_why_it_is_foreign_is_said(tmp_path: Path, home: Path) -> None:
    path = small(tmp_path / "s.jsonl")
    unsealed, other = tmp_path / "unsealed.jsonl", tmp_path / "other.jsonl"
    shutil.copy(path, unsealed)
    resummed(unsealed, seals="left out")
    shutil.copy(path, other)
    resummed(other, seals="of another key")
    reasons = {one.path.name: one.foreign for one in list_sessions(tmp_path) if isinstance(one, SessionInfo)}
    assert reasons == {"s.jsonl": "", "unsealed.jsonl": NO_SEAL, "other.jsonl": OTHER_KEY}

    with pytest.raises(ForeignRecordingError, match=r"Agent|foreign=True.*cogstep fork --foreign") as caught:
        Agent.resume(other, ScriptedModel([]))
    assert (caught.value.path, caught.value.reason) == (other, OTHER_KEY)
    home.unlink()
    assert explain_foreign(path, "used", allowed=True) == NO_KEY
    assert not home.exists(), "only what is recorded needs one"


# ---------------------------------------------------------------------------------------------------------------- key


def test_the_key_is_made_when_something_is_first_recorded(tmp_path: Path, home: Path) -> None:
    """For the user alone, whatever the umask says."""
    before = os.umask(0)
    try:
        path = small(tmp_path / "s.jsonl")
    finally:
        os.umask(before)
    key = home.read_bytes()
    small(tmp_path / "t.jsonl")

    assert len(key) == KEY_SIZE
    assert home.read_bytes() == key
    assert stat.S_IMODE(home.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.parent.stat().st_mode) == 0o700
    assert [one.name for one in home.parent.iterdir()] == [KEY_NAME]
    assert is_own(path)


def test_processes_that_need_it_at_once_get_the_same(home: Path) -> None:
    """It is made once, and none of them reads half of it."""
    script = "from interpreters.recording.journal.seals import key_for_writing; print(key_for_writing().hex())"
    command = [sys.executable, "-c", script]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) for _ in range(6)]
    keys = {process.communicate()[0].strip() for process in running}
    assert keys == {home.read_bytes().hex()}


def _linked(key: Path) -> None:
    key.rename(key.with_name("real"))
    key.symlink_to("real")


def _second_name(key: Path) -> None:
    os.link(key, key.with_name("second"))


UNUSABLE: dict[str, Callable[[Path], object]] = {
    "a link": _linked,
    "a second name": _second_name,
    "readable by the group": lambda key: key.chmod(0o640),
    "readable by all": lambda key: key.chmod(0o604),
    "empty": lambda key: key.write_bytes(b""),
    "too short": lambda key: key.write_bytes(key.read_bytes()[:-1]),
    "too long": lambda key: key.write_bytes(key.read_bytes() * 2),
    "a directory that others write": lambda key: key.parent.chmod(0o777),
    **{kind: lambda key, make=make: (key.unlink(), make(key)) for kind, make in ODD_FILES.items()},
}
"""What may become of a key that can't be relied on any more."""


def test_a_key_whose_mode_was_lost_is_not_given_up(tmp_path: Path, home: Path) -> None:
    """As ``cp`` and archives leave it: to delete it, as the message said once, would make all of one's own foreign."""
    path = small(tmp_path / "s.jsonl")
    home.chmod(0o644)
    with pytest.raises(ForeignRecordingError, match="chmod 600 it") as refused:
        Agent.resume(path, ScriptedModel([]))
    assert str(home) in str(refused.value)
    home.chmod(0o600)
    assert not explain_foreign(path, "used", allowed=True)


@pytest.mark.parametrize("kind", UNUSABLE)
def test_a_key_that_can_not_be_relied_on_is_refused(kind: str, tmp_path: Path, home: Path) -> None:
    """What was recorded is foreign; what is recorded then has no seals, of which one warning tells."""
    path = small(tmp_path / "s.jsonl")
    UNUSABLE[kind](home)
    assert explain_foreign(path, "used", allowed=True)
    with pytest.raises(ForeignRecordingError):
        Agent.resume(path, ScriptedModel([]))

    warnings: list[str] = []

    def hear(event: Any) -> None:
        if isinstance(event.value, WarningRaised):
            warnings.append(event.value.message)

    new = tmp_path / "new.jsonl"
    with Agent(ScriptedModel(["Hello!"] * 2), journal=new, observers=[hear]) as agent:
        assert agent.run("Hi!").text == "Hello!"
        agent.run("Hi!")
    assert [message for message in warnings if "without seals" in message] == warnings
    assert len(warnings) == 1
    assert str(home.parent) in warnings[0]
    assert b'"seal":' not in new.read_bytes()
    assert replay(new).same
    assert replay(new).foreign == NO_SEAL


@pytest.mark.parametrize(
    "environment",
    [{"XDG_STATE_HOME": "relative", "HOME": "relative"}, {"XDG_STATE_HOME": "", "HOME": "."}],
    ids=["both relative", "a home that is here"],
)
def test_no_key_is_taken_from_the_working_directory(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who could plant one there, could seal recordings with it."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    assert not state_directory().is_absolute()
    with pytest.raises(OSError, match="set HOME or XDG_STATE_HOME"):
        key_for_writing()
    assert list(tmp_path.iterdir()) == []
    assert replay(small(tmp_path / "s.jsonl")).foreign == NO_SEAL


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A key that two machines share, of which this is one."""
    key = tmp_path / "shared.key"
    key.write_bytes(os.urandom(KEY_SIZE))
    key.chmod(0o600)
    monkeypatch.setenv(KEY_FILE, str(key))
    return key


def test_machines_with_one_key_take_each_others_recordings_for_their_own(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = small(tmp_path / "s.jsonl")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "of another machine"))
    assert is_own(path)
    with Agent.resume(path, ScriptedModel(["On."])) as agent:
        agent.run("Go on!")
    assert is_own(path)
    assert not (tmp_path / "of another machine").exists()  # no key was drawn
    link = tmp_path / "mounted"
    link.symlink_to(shared)
    monkeypatch.setenv(KEY_FILE, str(link))
    assert is_own(path)
    monkeypatch.delenv(KEY_FILE)
    small(tmp_path / "t.jsonl")
    assert replay(path).foreign == OTHER_KEY


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda key: key.chmod(0o640), "may be read by others"),
        (lambda key: key.chmod(0o604), "may be read by others"),
        (lambda key: key.write_bytes(b"short"), "is no key, which has 32 bytes"),
        (lambda key: key.unlink(), "is not there, though COGSTEP_SEAL_KEY_FILE names it: copy it from where"),
        (lambda key: os.link(key, key.with_name("second")), "has a second name"),
    ],
    ids=["group", "all", "short", "missing", "second name"],
)
def test_a_shared_key_that_can_not_be_relied_on_is_refused(
    change: Callable[[Path], object], said: str, shared: Path, tmp_path: Path, home: Path
) -> None:
    """And this user's own is not taken in its place, nor another one made."""
    path = small(tmp_path / "s.jsonl")
    change(shared)
    with pytest.raises(ForeignRecordingError, match=said):
        Agent.resume(path, ScriptedModel([]))
    with Journal.create(tmp_path / "t.jsonl", session="s", engine=EchoEngine()) as journal:
        assert said in journal.warning
        assert journal.warning.endswith("put that right, or leave COGSTEP_SEAL_KEY_FILE out")
    assert replay(tmp_path / "t.jsonl").foreign == NO_SEAL


def test_no_shared_key_is_taken_from_the_working_directory(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(KEY_FILE, shared.name)
    with pytest.raises(OSError, match="is no whole path, which COGSTEP_SEAL_KEY_FILE needs"):
        key_for_writing()


def test_a_place_that_can_not_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file where the directory would be."""
    (tmp_path / "state").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with Journal.create(tmp_path / "s.jsonl", session="s", engine=EchoEngine()) as journal:
        assert "recorded without seals" in journal.warning
        assert "set XDG_STATE_HOME" in journal.warning


def test_bad_files_and_damage_are_told_as_before(own: Path, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("hello\n")
    path = shutil.copy(own, tmp_path / "b.jsonl")
    path.write_bytes(path.read_bytes().replace(b'"Pay!"', b'"Say!"'))
    bad, damaged = list_sessions(tmp_path)
    assert isinstance(bad, BadFile)
    assert isinstance(damaged, SessionInfo)
    assert damaged.damage
    with pytest.raises(JournalDamagedError):
        explain_foreign(path, "used", allowed=True)
