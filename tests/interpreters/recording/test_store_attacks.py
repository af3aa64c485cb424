"""A store under attack: killed writers, others that take over, a database that is cut off, restarted or full."""

from __future__ import annotations

import os
import random
import resource
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from cognition import Idle, ToolMessage
from interpreters import Agent, replay, tool
from interpreters.recording.journal import JournalWriteError
from interpreters.recording.store import SqlRecorder, SqlStore, TakenOverError, _executors as executors, schema
from interpreters.testing.fakes import FunctionModel, call
from tests.interpreters.databases import PASSWORD, Postgres, needs_postgres, postgres
from tests.interpreters.signs import PATIENCE

LARGE = "A page. \ud83d \u00e9\n" * 2000
"""A text that stands beside the lines."""


@tool(read_only=True)
def read(n: int) -> str:
    """Read a page."""
    return f"{n} {LARGE}"


def reply(request: Any) -> Any:
    """Another page is read in each turn."""
    asked = request.messages[-1]
    if isinstance(asked, ToolMessage):
        return "It is read."
    return call("read", n=len(request.messages))


def opened(recorder: SqlRecorder) -> Agent:
    model = FunctionModel(reply, context_tokens=10**7)
    if next(recorder.lines(), None) is None:
        return Agent(model, [read], journal=recorder)
    return Agent.resume(recorder, model, [read])


# ------------------------------------------------------------------------------------- killed writers, and takeovers


def lives(store: SqlStore, name: str, said: int) -> None:
    """What a child does: go on with the session until it is killed or taken over, and tell of each line it has kept."""
    append_with = SqlRecorder.append_with  # every line passes it

    def kept_with(self: SqlRecorder, number: int, line: bytes, payloads: Mapping[str, bytes], force: bool) -> None:
        append_with(self, number, line, payloads, force)
        os.write(said, b"%d\n" % number)

    SqlRecorder.append_with = kept_with  # type: ignore[method-assign]
    with suppress(TakenOverError), opened(store.recorder(name)) as agent:
        if agent.state.phase != Idle():
            agent.resume_turn()
        while True:
            agent.run("Read!")


def in_a_child(work: Callable[[int], None]) -> tuple[int, int]:
    """Its id, and where what it says is read."""
    heard, said = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(heard)
            signal.alarm(int(PATIENCE))
            work(said)
            os._exit(0)
        finally:
            os._exit(1)
    os.close(said)
    return child, heard


def expire_all_but(own: str, store: SqlStore) -> None:
    row = schema.executors
    store._database.write(lambda one: one.execute(row.update().where(row.c.id != own).values(expires=0.0)))


def numbers(text: bytes) -> list[int]:
    return [int(line) for line in text.split(b"\n") if line]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=needs_postgres)])
def test_a_writer_that_is_killed_or_taken_over_at_any_moment_has_lost_nothing(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqlStore(f"sqlite:///{tmp_path / 'store.db'}" if kind == "sqlite" else postgres().url)
    name, own, before = str(tmp_path), store.join(), list[bytes]()
    monkeypatch.setattr(executors, "RENEWED_EVERY", 3600.0)  # so that a child's lease ends when it is told to

    for how in random.sample(["killed", "expired", "taken over"] * 3, 9):
        child, heard = in_a_child(lambda said: lives(store, name, said))
        told = b""
        with open(heard, "rb", buffering=0) as pipe:
            for _ in range(random.randrange(1, 25)):
                told += pipe.read(1 << random.randrange(3, 7))
            if how == "killed":
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            elif how == "expired":
                expire_all_but(own, store)
            successor = store.recorder(name, take_over=how == "taken over")
            assert successor.lock(False)
            lines = list(successor.lines())
            while more := pipe.read(1 << 16):
                told += more
        if how != "killed":
            assert os.waitpid(child, 0)[1] == 0
        assert list(successor.lines()) == lines  # who had it has written nothing more
        assert lines[: len(before)] == before
        acknowledged = numbers(told)
        assert acknowledged == list(range(acknowledged[0], len(lines)))[: len(acknowledged)]
        assert len(lines) <= acknowledged[-1] + 2  # one may have been kept, and not told
        assert replay(successor).raise_for_divergence().records == len(lines) - 1
        successor.close()
        before = lines
    with opened(store.recorder(name)) as agent:
        if agent.state.phase != Idle():
            agent.resume_turn()
        assert agent.run("Read!").text == "It is read."
    assert replay(store.recorder(name)).raise_for_divergence().state == agent.state


# --------------------------------------------------------------------------------- a database that is away for a while


class Cut:
    """Stands between a program and its database, and breaks the connection after so many bytes, in either direction."""

    def __init__(self, port: int) -> None:
        self._behind = port
        self._left = 0
        self.cuts = 0
        self._lock = threading.Lock()
        self._server = socket.create_server(("127.0.0.1", 0))
        self._open = [self._server]
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def after(self, size: int) -> None:
        """Break the connection on which the last one of so many bytes goes; 0: none."""
        with self._lock:
            self._left = size

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._server.accept()
                far = socket.create_connection(("127.0.0.1", self._behind))
                self._open += (near, far)
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(1 << 16):
                with self._lock:
                    due = 0 < self._left <= len(data)
                    passed = data[: self._left] if due else data
                    self._left = max(0, self._left - len(data))
                    self.cuts += due
                other.sendall(passed)
                if due:
                    break
        for end in (one, other):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


@pytest.fixture
def cut() -> Iterator[Cut]:
    between = Cut(postgres().port)
    yield between
    between.close()


@needs_postgres
def test_a_line_is_kept_once_wherever_the_connection_breaks(cut: Cut, tmp_path: Path) -> None:
    """Before the statement, in its midst, or behind it, when nobody has heard that it was kept."""
    recorder = SqlStore(f"postgresql://cogstep:{PASSWORD}@127.0.0.1:{cut.port}/postgres").recorder(str(tmp_path))
    assert recorder.lock(True)
    lines: list[bytes] = []
    brought: dict[str, bytes] = {}
    for number in range(60):
        lines.append(b"%d\n" % number)
        size = random.randrange(1, 900)
        cut.after(size)
        if number % 3:
            recorder.append(number, lines[-1], number % 5 == 0)
        else:
            brought[f"{number:064}"] = content = b"%d" % number * 300
            recorder.append_with(number, lines[-1], {f"{number:064}": content}, number % 5 == 0)
    cut.after(0)
    assert cut.cuts > 5
    assert list(recorder.lines()) == lines
    assert {name: recorder.payload(name) for name in brought} == brought
    recorder.close()


@pytest.mark.slow
@needs_postgres
@pytest.mark.parametrize("how", ["fast", "immediate"])
def test_a_session_goes_on_where_its_database_is_restarted(how: str) -> None:
    """Also where the server ends as by a crash: each record is forced here, so that none is lost."""
    server = Postgres()
    reached, back = threading.Event(), threading.Event()

    def restart() -> None:
        reached.wait(PATIENCE)
        server.stop(how)
        server.start()
        back.set()

    try:
        recorder = SqlStore(server.url).recorder("ada")
        restarting = threading.Thread(target=restart)
        restarting.start()
        model = FunctionModel(reply, context_tokens=10**7)
        with Agent(model, [read], journal=recorder, fsync="record") as agent:
            while not back.is_set():
                assert agent.run("Read!").text == "It is read."
                reached.set()
            assert agent.run("Read!").text == "It is read."
        restarting.join()
        assert replay(SqlStore(server.url).recorder("ada")).raise_for_divergence().state == agent.state
    finally:
        server.end()


# ------------------------------------------------------------------------------------------------------- a full disk


@pytest.mark.parametrize("large", [False, True])
def test_a_database_without_room_loses_nothing_and_the_session_goes_on_when_there_is_some(
    large: bool, tmp_path: Path
) -> None:
    recorder = SqlStore(f"sqlite:///{tmp_path / 'store.db'}").recorder("ada")
    model = FunctionModel(lambda _request: LARGE if large else "Hello.", context_tokens=10**7)

    def pages(limit: str) -> int:
        database = recorder._database
        for one in database._kept:  # SQLite has this limit for each connection
            one.driver_connection.execute(f"PRAGMA {limit}")  # type: ignore[union-attr]  # they are open
        with database._engine.connect() as connection:
            return int(connection.exec_driver_sql(f"PRAGMA {limit}").scalar_one())

    def turns() -> None:
        for _ in range(100):
            agent.run("Hi!")

    with Agent(model, journal=recorder) as agent:
        agent.run("Hi!")
        pages(f"max_page_count={pages('page_count') + 3}")
        with pytest.raises(JournalWriteError, match=r"database or disk is full\); make room on its disk; everything"):
            turns()
        stands = list(recorder.lines())
        pages("max_page_count=1000000")
        agent.run("Hi!")
    assert list(recorder.lines())[: len(stands)] == stands
    assert replay(recorder).raise_for_divergence().state == agent.state


def test_a_file_that_may_not_grow_is_told_and_the_session_goes_on_when_it_may(tmp_path: Path) -> None:
    """As under ``ulimit -f``; the system then refuses to write, in the midst of a page or of a line."""
    store, said = SqlStore(f"sqlite:///{tmp_path / 'store.db'}"), tmp_path / "said"

    def writes(_said: int) -> None:
        unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
        recorder = store.recorder("ada")
        recorder.lock(True)
        number = 0
        for size in (70_000, 200_000, 333_333):
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, unlimited[1]))
            try:
                while number < 1000:
                    recorder.append_with(number, b"%d\n" % number, {f"{number:064}": b"x" * 9000}, number % 2 == 0)
                    number += 1
            except JournalWriteError as error:
                resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
                said.write_text(f"{error}")
            recorder.append_with(number, b"%d\n" % number, {f"{number:064}": b"x" * 9000}, True)
            number += 1
        os._exit(0 if number < 1000 else 2)

    child, heard = in_a_child(writes)
    assert os.waitpid(child, 0)[1] == 0
    os.close(heard)
    assert "everything before it is kept" in said.read_text()
    recorder = store.recorder("ada")
    lines = list(recorder.lines())
    assert lines == [b"%d\n" % number for number in range(len(lines))]
    assert all(recorder.payload(f"{number:064}") == b"x" * 9000 for number in range(len(lines)))
    assert recorder.lock(False)
    recorder.append(len(lines), b"on\n", True)
    recorder.close()
