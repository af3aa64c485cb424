"""Large texts of a session in a recorder of the program's, and in a store: once each, with the lines of a file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, delete, select, update

from interpreters import Agent, rehearse, replay
from interpreters.recording.journal import JournalDamagedError, JournalError, JournalWriteError
from interpreters.recording.journal.payloads import directory_of
from interpreters.recording.recorder import KeepsPayloads
from interpreters.recording.store import SqlRecorder, SqlStore, TakenOverError
from interpreters.recording.store.schema import payloads
from interpreters.testing.fakes import FakeClock, ScriptedModel, call
from interpreters.testing.recorders import PROMISES, Promise, RecorderError
from tests.interpreters.databases import needs_postgres, postgres
from tests.interpreters.recording.sqlite_recorder import SqliteRecorder
from tests.interpreters.recording.test_payloads import PAGE, SYSTEM, read

OWN = [promise for promise in PROMISES if "payload" in promise.text]


class Keeping(SqliteRecorder):
    """Keeps payloads in a table of their own, by the standard library."""

    bring = "INSERT OR REPLACE INTO payloads VALUES (?, ?, ?)"

    def _connect(self) -> sqlite3.Connection:
        db = super()._connect()
        db.execute(
            "CREATE TABLE IF NOT EXISTS payloads "
            "(session TEXT, name TEXT, content BLOB NOT NULL, PRIMARY KEY (session, name))"
        )
        return db

    def append_with(self, number: int, line: bytes, payloads: Mapping[str, bytes], force: bool) -> None:
        if self._db is None:
            raise ValueError("the recorder is closed")
        with self._db as db:
            for name, content in payloads.items():
                db.execute(self.bring, (self.name, name, content))
            self.append(number, line, force)

    def payload(self, name: str) -> bytes | None:
        db = self._connect()
        try:
            found = db.execute("SELECT content FROM payloads WHERE session = ? AND name = ?", (self.name, name))
            return next((content for (content,) in found), None)
        finally:
            db.close()


@pytest.mark.parametrize("promise", OWN, ids=str)
def test_a_recorder_of_a_program_keeps_what_is_promised_of_payloads(promise: Promise, tmp_path: Path) -> None:
    promise.check(lambda name: Keeping(tmp_path / "sessions.db", name))


class WithoutThem(Keeping):
    def append_with(self, number: int, line: bytes, payloads: Mapping[str, bytes], force: bool) -> None:
        self.append(number, line, force)


class AsText(Keeping):
    def append_with(self, number: int, line: bytes, payloads: Mapping[str, bytes], force: bool) -> None:
        texts = {name: content.decode(errors="replace").encode() for name, content in payloads.items()}
        super().append_with(number, line, texts, force)


class NeverTwice(Keeping):
    bring = "INSERT INTO payloads VALUES (?, ?, ?)"


class ForgetsReplaced(Keeping):
    """What a line has brought goes with the line."""

    def append_with(self, number: int, line: bytes, payloads: Mapping[str, bytes], force: bool) -> None:
        if self._db is not None and number < len(list(self.lines())):
            self._db.execute("DELETE FROM payloads WHERE session = ?", (self.name,))
        super().append_with(number, line, payloads, force)


class RaisesForNone(Keeping):
    def payload(self, name: str) -> bytes | None:
        found = super().payload(name)
        if found is None:
            raise KeyError(name)
        return found


class BringsBehindTheEnd(Keeping):
    def append_with(self, number: int, line: bytes, payloads: Mapping[str, bytes], force: bool) -> None:
        if self._db is not None:
            super().append_with(number, line, payloads, force)


class OfOneSession(Keeping):
    """Names are unique in all sessions, and another one's is taken away."""

    def append_with(self, number: int, line: bytes, payloads: Mapping[str, bytes], force: bool) -> None:
        if self._db is not None:
            for name in payloads:
                self._db.execute("DELETE FROM payloads WHERE name = ?", (name,))
        super().append_with(number, line, payloads, force)


@pytest.mark.parametrize(
    "broken",
    [WithoutThem, AsText, NeverTwice, ForgetsReplaced, RaisesForNone, BringsBehindTheEnd, OfOneSession],
)
def test_a_recorder_that_breaks_a_promise_of_payloads_is_found(broken: type[Keeping], tmp_path: Path) -> None:
    found = 0
    for number, promise in enumerate(OWN):
        (tmp_path / str(number)).mkdir()
        try:
            promise.check(lambda name, number=number: broken(tmp_path / str(number) / "s.db", name))  # type: ignore[misc]
        except RecorderError:
            found += 1
    assert found


# ----------------------------------------------------------------------------------------------------------- a session


def record(where: Any, *, turns: int = 2) -> Agent:
    """Each turn reads the same page."""
    model = ScriptedModel([call("read"), "Read."] * turns, context_tokens=10**6)
    with Agent(model, [read], SYSTEM, session="s", clock=FakeClock(), journal=where) as agent:
        for _ in range(turns):
            agent.run("Read it!")
    return agent


Make = Callable[..., SqlRecorder]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=needs_postgres)])
def make(request: Any, tmp_path: Path) -> Make:
    store = SqlStore(f"sqlite:///{tmp_path / 'store.db'}" if request.param == "sqlite" else postgres().url)
    return lambda name, **how: store.recorder(f"{tmp_path}/{name}", **how)


def changed(recorder: SqlRecorder, work: Callable[[Connection], Any]) -> Any:
    """What somebody does to the database, besides."""
    return recorder._database.write(work)


def standing(recorder: SqlRecorder) -> dict[str, bytes]:
    """All payloads of a session."""
    found = select(payloads.c.name, payloads.c.content).where(payloads.c.session == recorder.session)
    rows = changed(recorder, lambda connection: connection.execute(found).all())
    return {row.name: row.content for row in rows}


def test_a_store_has_the_lines_and_the_payloads_of_a_file_to_the_byte(make: Make, tmp_path: Path) -> None:
    path, recorder = tmp_path / "s.jsonl", make("s")
    agent = record(recorder)
    record(path)

    assert b"".join(make("s").lines()) == path.read_bytes()
    assert standing(recorder) == {file.name: file.read_bytes() for file in directory_of(path).iterdir()}
    assert len(standing(recorder)) == 2
    assert replay(make("s")).raise_for_divergence().state == agent.state


def test_resume_rehearse_and_fork_read_them_from_a_store(make: Make) -> None:
    agent = record(make("s"))
    model = ScriptedModel([call("read"), "Read."], context_tokens=10**6)
    with Agent.resume(make("s"), model, [read]) as resumed:
        assert resumed.state == agent.state
        resumed.run("Read it!")
    with Agent.fork(make("s"), ScriptedModel(["Again."], context_tokens=10**6), [read], journal=make("f")) as fork:
        fork.run("Again!")
    assert rehearse(make("s"), [read]).same

    changed(make("s"), lambda one: one.execute(delete(payloads).where(payloads.c.session == make("s").session)))
    assert replay(make("f")).raise_for_divergence().state == fork.state


@pytest.mark.parametrize("how", ["missing", "changed", "empty"])
def test_a_payload_that_is_not_what_it_was_is_an_error_that_says_where(make: Make, how: str) -> None:
    record(make("s"))
    names = {text: sha256(text.encode("utf-8", "surrogatepass")).hexdigest() for text in (PAGE, SYSTEM)}

    def damage(text: str) -> None:
        row = (payloads.c.session == make("s").session) & (payloads.c.name == names[text])
        content = b"" if how == "empty" else text[1:].encode("utf-8", "surrogatepass")
        work = delete(payloads).where(row) if how == "missing" else update(payloads).where(row).values(content=content)
        changed(make("s"), lambda connection: connection.execute(work))

    said = "is missing" if how == "missing" else "was changed after it was written"
    for text, line in ((PAGE, 4), (SYSTEM, 1)):
        damage(text)
        for look in (replay, lambda where: Agent.resume(where, ScriptedModel([], context_tokens=10**6), [read])):
            with pytest.raises(JournalDamagedError, match=f"payload {names[text]} {said}") as caught:
                look(make("s"))
            assert (caught.value.line, str(caught.value.path)) == (line, make("s").name)


def test_what_somebody_changed_is_put_right_where_it_is_brought_again(make: Make) -> None:
    record(make("s"))
    before = standing(make("s"))
    rows = payloads.c.session == make("s").session
    with Agent.resume(make("s"), ScriptedModel([call("read"), "Read."], context_tokens=10**6), [read]) as agent:
        changed(make("s"), lambda one: one.execute(update(payloads).where(rows).values(content=b"else")))
        agent.run("Read it!")

    (page,) = (name for name, content in standing(make("s")).items() if content != b"else")
    assert standing(make("s"))[page] == before[page] == PAGE.encode("utf-8", "surrogatepass")


def test_whoever_was_taken_over_brings_nothing_more(make: Make) -> None:
    old = make("s")
    assert old.lock(True)
    old.append_with(0, b"0\n", {"0" * 64: b"zero"}, False)
    new = make("s", take_over=True)
    assert new.lock(False)
    for number in (0, 1):
        with pytest.raises(TakenOverError):
            old.append_with(number, b"old\n", {"1" * 64: b"one", "0" * 64: b"else"}, True)
    assert (list(new.lines()), standing(new)) == ([b"0\n"], {"0" * 64: b"zero"})
    new.close()


def test_a_line_that_can_not_be_kept_brings_nothing(make: Make) -> None:
    recorder = make("s")
    assert recorder.lock(True)
    recorder.append(0, b"0\n", False)
    with pytest.raises(JournalWriteError, match="the line before this one is not in the store any more"):
        recorder.append_with(2, b"2\n", {"0" * 64: b"zero"}, False)
    assert standing(recorder) == {}
    recorder.append_with(1, b"1\n", {"0" * 64: b"zero"}, False)
    assert (list(recorder.lines()), standing(recorder)) == ([b"0\n", b"1\n"], {"0" * 64: b"zero"})
    recorder.close()


def test_what_can_not_be_read_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that is away for a while has lost nothing: neither the header's texts nor a line's."""
    recorder = Keeping(tmp_path / "s.db", "s")
    record(recorder)
    page = sha256(PAGE.encode("utf-8", "surrogatepass")).hexdigest()
    given: dict[str, Any] = {}

    def payload(self: Keeping, name: str) -> Any:
        if name in given:
            return given[name]
        if given or name != page:
            raise sqlite3.OperationalError("the database is away")
        return there(self, name)

    there = Keeping.payload
    monkeypatch.setattr(Keeping, "payload", payload)
    with pytest.raises(JournalError, match=r"^s: can't be read: .*is away") as caught:
        replay(recorder)
    assert not isinstance(caught.value, JournalDamagedError)

    monkeypatch.setattr(Keeping, "payload", lambda self, name: PAGE if name == page else there(self, name))
    with pytest.raises(JournalError, match="payloads have to be bytes, and one is of the type str") as caught:
        replay(recorder)
    assert not isinstance(caught.value, JournalDamagedError)


def test_a_recorder_without_payloads_finds_none_and_no_file_is_taken_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name may be a path of files that hold what is named: they are no part of what it keeps."""
    monkeypatch.chdir(tmp_path)
    record(Path("s"), turns=1)
    copy = SqliteRecorder(tmp_path / "sessions.db", "s")
    assert not isinstance(copy, KeepsPayloads)
    assert copy.lock(True)
    for number, line in enumerate(Path("s").read_bytes().splitlines(keepends=True)):
        copy.append(number, line, False)
    copy.close()
    with pytest.raises(JournalDamagedError, match="is missing: what records this session keeps none"):
        replay(copy)
