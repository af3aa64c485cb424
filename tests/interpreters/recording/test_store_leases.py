"""One writer a session, across processes and machines: who has it, and what becomes of who had it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interpreters.recording.journal import JournalError, JournalWriteError
from interpreters.recording.store import SqlStore, TakenOverError, _executors as executors
from tests.interpreters.databases import needs_postgres, postgres


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=needs_postgres)])
def url(request: Any, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'store.db'}" if request.param == "sqlite" else postgres().url


@pytest.fixture
def name(tmp_path: Path) -> str:
    return str(tmp_path)


def in_a_child(work: Callable[[], object]) -> int:
    """The child's id, once it has done its work; it is stopped by then, and ends when it goes on."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os.kill(os.getpid(), signal.SIGSTOP)
            os._exit(0)
        finally:
            os._exit(1)
    os.waitpid(child, os.WUNTRACED)
    return child


@pytest.fixture
def stopped() -> Iterator[Callable[[Callable[[], object]], int]]:
    children: list[int] = []

    def start(work: Callable[[], object]) -> int:
        children.append(in_a_child(work))
        return children[-1]

    yield start
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_whoever_takes_a_session_over_leaves_nothing_to_be_written_by_who_had_it(url: str, name: str) -> None:
    old = SqlStore(url).recorder(name)
    assert old.lock(True)
    old.append(0, b"0\n", False)

    new = SqlStore(url).recorder(name, take_over=True)
    assert new.lock(False)
    new.append(1, b"new\n", False)
    for number in (1, 2, 0):
        with pytest.raises(TakenOverError, match="another process has taken this session over"):
            old.append(number, b"old\n", True)
    old.close()  # which gives nothing free
    assert not SqlStore(url).recorder(name).lock(False)
    assert list(new.lines()) == [b"0\n", b"new\n"]
    new.close()


def test_a_fork_waits_for_the_thread_that_renews_since_a_child_would_keep_its_locks(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, left = threading.Event(), threading.Event()
    recorder = SqlStore(f"sqlite:///{tmp_path / 'store.db'}").recorder(name)
    assert recorder.lock(True)
    give_back = executors.Membership.release

    def slowly(self: Any, held: Any) -> None:
        inside.set()
        inside_for_a_while.wait(0.1)
        give_back(self, held)
        left.set()

    inside_for_a_while = threading.Event()
    monkeypatch.setattr(executors.Membership, "release", slowly)
    recorder._membership.drop((name, recorder._membership.held[name]))
    assert inside.wait(10)
    child = os.fork()
    if child == 0:
        os._exit(0 if left.is_set() else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_whoever_is_fenced_off_writes_no_more_and_neither_do_its_workers(url: str, name: str) -> None:
    store = SqlStore(url)
    own = [store.recorder(f"{name}{end}") for end in ("", "/1.2.1", "/1.2.1/1.1.1")]
    others = [store.recorder(f"{name}{end}") for end in ("-", "0", "x/1")]
    for recorder in (*own, *others):
        assert recorder.lock(True)
        recorder.append(0, b"0\n", False)

    store.fence(name)
    for recorder in own:
        with pytest.raises(TakenOverError):
            recorder.append(1, b"1\n", False)
        recorder.close()
        again = SqlStore(url).recorder(recorder.session)
        assert again.lock(False)
        again.append(1, b"2\n", False)
        assert list(again.lines()) == [b"0\n", b"2\n"]
        again.close()
    for recorder in others:
        recorder.append(1, b"1\n", False)
        recorder.close()


def test_nothing_is_made_by_fencing_off_what_is_not_there(tmp_path: Path) -> None:
    SqlStore(f"sqlite:///{tmp_path / 'none.db'}").fence("nobody")

    assert not list(tmp_path.iterdir())


def test_a_stopped_process_keeps_its_session_until_it_expires_and_writes_nothing_when_it_wakes(
    url: str, name: str, stopped: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said = tmp_path / "said"

    def writes() -> None:
        recorder = SqlStore(url).recorder(name)
        recorder.lock(True)
        recorder.append(0, b"0\n", False)
        os.kill(os.getpid(), signal.SIGSTOP)
        try:
            recorder.append(1, b"old\n", False)
        except TakenOverError as error:
            said.write_text(type(error).__name__)

    monkeypatch.setattr(executors, "EXPIRES_AFTER", 3600.0)
    child = stopped(writes)
    recorder = SqlStore(url).recorder(name)
    assert not recorder.lock(False)

    own = SqlStore(url).join()
    (dead,) = [one for one in SqlStore(url).executors() if one.expires_in > 1000 and one.id != own]
    with SqlStore(url)._database._engine.connect() as connection:  # as if its time had passed
        row = executors.executors
        connection.execute(row.update().where(row.c.id == dead.id).values(expires=0.0))
    assert recorder.lock(False)
    recorder.append(1, b"new\n", False)
    os.kill(child, signal.SIGCONT)
    os.waitpid(child, os.WUNTRACED)
    assert said.read_text() == "TakenOverError"
    assert list(recorder.lines()) == [b"0\n", b"new\n"]
    recorder.close()


def test_a_session_whose_recorder_nobody_holds_any_more_is_free(url: str, name: str) -> None:
    recorder = SqlStore(url).recorder(name)
    assert recorder.lock(True)
    recorder.append(0, b"0\n", False)
    del recorder
    again = SqlStore(url).recorder(name)
    assert again.lock(False)
    again.close()


def test_no_line_is_kept_behind_one_that_is_gone(url: str, name: str) -> None:
    """As after a crash of a server that had not forced its newest lines."""
    recorder = SqlStore(url).recorder(name)
    assert recorder.lock(True)
    for number in range(3):
        recorder.append(number, b"%d\n" % number, False)
    lines = executors.sessions.metadata.tables["cogstep_lines"]
    with SqlStore(url)._database._engine.connect() as connection:
        connection.execute(lines.delete().where(lines.c.session == name, lines.c.number == 2))
    with pytest.raises(JournalWriteError, match="the line before this one is not in the store any more"):
        recorder.append(3, b"3\n", False)
    recorder.append(2, b"2\n", False)
    assert list(recorder.lines()) == [b"0\n", b"1\n", b"2\n"]
    recorder.close()


def test_what_is_not_recorded_can_not_go_on_and_nothing_is_made(tmp_path: Path) -> None:
    store = SqlStore(f"sqlite:///{tmp_path / 'store.db'}")
    with pytest.raises(JournalError, match="nothing is recorded here"):
        store.recorder("ada").lock(False)
    assert (list(store.names()), store.executors()) == ([], [])
    assert not (tmp_path / "store.db").exists()
