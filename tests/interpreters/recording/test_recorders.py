"""What records a session is the program's choice: files, SQLite, or anything that keeps a recorder's promises."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest

from cognition import CallTool, CogstepError, ConfigError, Idle, ToolMessage
from interpreters import (
    LATER,
    Agent,
    AgentHost,
    AsyncAgent,
    FileRecorder,
    Recorder,
    fakes,
    rehearse,
    replay,
    tool,
)
from interpreters.recording.journal import (
    ForeignRecordingError,
    JournalDamagedError,
    JournalError,
    JournalExistsError,
    JournalLockedError,
    JournalReader,
    JournalWriteError,
    NotAJournalError,
)
from interpreters.recording.sessions import read_transcript
from interpreters.recording.store import SqlStore
from interpreters.testing._promising import in_a_process
from interpreters.testing.contracts import calls_of
from interpreters.testing.fakes import FunctionModel, ScriptedModel, call
from interpreters.testing.recorders import PROMISES, Promise, RecorderError
from tests.interpreters.databases import needs_postgres, postgres
from tests.interpreters.recording.sqlite_recorder import SqliteRecorder
from tests.interpreters.signs import PATIENCE
from tests.interpreters.test_later import CASES, options, resumed, tools_of

Make = Callable[[Path, str], Recorder]


def file(folder: Path, name: str) -> Recorder:
    return FileRecorder(folder / f"{name}.jsonl")


def sqlite(folder: Path, name: str) -> Recorder:
    return SqliteRecorder(folder / "sessions.db", name)


def in_sqlite(folder: Path, name: str) -> Recorder:
    return SqlStore(f"sqlite:///{folder / 'store.db'}").recorder(name)


def in_postgres(folder: Path, name: str) -> Recorder:
    return SqlStore(postgres().url).recorder(f"{folder}/{name}")


KINDS: dict[str, Make] = {"file": file, "sqlite": sqlite, "store-sqlite": in_sqlite}
each_kind = pytest.mark.parametrize(
    "kind",
    [*KINDS.values(), pytest.param(in_postgres, marks=needs_postgres)],
    ids=[*KINDS, "store-postgresql"],
)


@pytest.mark.behaviour("P16r")
@each_kind
@pytest.mark.parametrize("promise", PROMISES, ids=str)
def test_a_recorder_keeps_its_promises(promise: Promise, kind: Make, tmp_path: Path) -> None:
    promise.check(lambda name: kind(tmp_path, name))


# -------------------------------------------------------------------------------------------- that the suite can fail


class Broken(SqliteRecorder):
    """Keeps its promises but for the one that a subclass breaks."""

    patience = 0.2


class AsText(Broken):
    def append(self, number: int, line: bytes, force: bool) -> None:
        super().append(number, line.decode("utf-8", "replace").encode(), force)


class WithoutItsEnd(Broken):
    def lines(self) -> Iterator[bytes]:
        yield from (line.rstrip(b"\n") for line in super().lines())


class Unordered(Broken):
    def lines(self) -> Iterator[bytes]:
        numbered = sorted(enumerate(super().lines()), key=lambda one: str(one[0]))
        yield from (line for _, line in numbered)


class OfAnotherType(Broken):
    def lines(self) -> Iterator[Any]:
        yield from map(memoryview, super().lines())


class ForEverybody(Broken):
    def lock(self, new: bool) -> bool:
        self._db = self._connect()
        return True


class SaysNothing(Broken):
    def lock(self, new: bool) -> Any:
        super().lock(new)


class GivesFreeWhatOthersHave(Broken):
    def lock(self, new: bool) -> bool:
        marker = self.database.with_name(f"{self.name}.mark")
        self._db = self._connect()
        if marker.exists():
            return False
        marker.touch()
        return True

    def close(self) -> None:
        self.database.with_name(f"{self.name}.mark").unlink(missing_ok=True)
        super().close()


class StaysLocked(GivesFreeWhatOthersHave):
    locked = False

    def lock(self, new: bool) -> bool:
        self.locked = super().lock(new)
        return self.locked

    def close(self) -> None:
        if self.locked:
            super().close()
        self.locked = False


class KeepsBoth(Broken):
    def append(self, number: int, line: bytes, force: bool) -> None:
        assert self._db is not None
        with self._db as db:
            highest = db.execute("SELECT max(number) FROM lines WHERE session = ?", (self.name,)).fetchone()[0]
            db.execute("INSERT INTO lines VALUES (?, ?, ?)", (self.name, max(number, (highest or -1) + 1), line))


class Refuses(Broken):
    def append(self, number: int, line: bytes, force: bool) -> None:
        assert self._db is not None
        with self._db as db:
            db.execute("INSERT INTO lines VALUES (?, ?, ?)", (self.name, number, line))


class OnePlace(Broken):
    def __init__(self, database: Path, name: str) -> None:
        super().__init__(database, name)
        self.name = "one"


class InMemory(Broken):
    held: dict[str, list[bytes]] = {}  # noqa: RUF012 - that it is shared is the fault

    def append(self, number: int, line: bytes, force: bool) -> None:
        if self._db is None:
            raise ValueError
        kept = self.held.setdefault(self.name, [])
        kept[number:] = [line]

    def lines(self) -> Iterator[bytes]:
        yield from list(self.held.get(self.name, []))


class Late(Broken):
    """It commits when it is closed."""

    def append(self, number: int, line: bytes, force: bool) -> None:
        if self._db is None:
            raise ValueError
        self._db.execute("DELETE FROM lines WHERE session = ? AND number >= ?", (self.name, number))
        self._db.execute("INSERT INTO lines VALUES (?, ?, ?)", (self.name, number, line))

    def close(self) -> None:
        if self._db is not None:
            self._db.commit()
        super().close()


class OnItsThread(Broken):
    kept: ClassVar[list[sqlite3.Connection]] = []
    """Only their own threads could close them, and Python 3.13 warns of each that is dropped open."""

    def lock(self, new: bool) -> bool:
        locked = super().lock(new)
        if locked and self._db is not None:
            self._db.close()
            self._db = sqlite3.connect(self.database, timeout=30)
            self.kept.append(self._db)
        return locked


class Short(Broken):
    def append(self, number: int, line: bytes, force: bool) -> None:
        super().append(number, line[: 1 << 16], force)


class GoesOnAfterTheEnd(Broken):
    def append(self, number: int, line: bytes, force: bool) -> None:
        if self._db is None:
            self._db = self._connect()
        super().append(number, line, force)


class WritesBehind(Broken):
    """What it is told after the end goes nowhere, in silence."""

    def append(self, number: int, line: bytes, force: bool) -> None:
        if self._db is not None:
            super().append(number, line, force)


@pytest.mark.behaviour("P16r")
@pytest.mark.parametrize(
    "broken",
    [
        AsText,
        WithoutItsEnd,
        Unordered,
        OfAnotherType,
        ForEverybody,
        SaysNothing,
        GivesFreeWhatOthersHave,
        StaysLocked,
        KeepsBoth,
        Refuses,
        OnePlace,
        InMemory,
        Late,
        OnItsThread,
        Short,
        GoesOnAfterTheEnd,
        WritesBehind,
    ],
)
def test_a_recorder_that_breaks_a_promise_is_found(broken: type[Broken], tmp_path: Path) -> None:
    found = []
    for number, promise in enumerate(PROMISES):
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            promise.check(lambda name, folder=folder: broken(folder / "sessions.db", name))  # type: ignore[misc]
        except RecorderError as error:
            found.append(error)
    assert found


# ------------------------------------------------------------------------------------- what holds with every recorder


def shop() -> list[Any]:
    @tool(read_only=True)
    def price(item: str) -> int:
        """Say what something costs."""
        return 3

    return [price]


def recorded(where: Any, *, turns: int = 1, text: str = "A plum?") -> None:
    script = [call("price", item="plum"), "3."] * turns
    given: dict[str, Any] = {"session": "s", "clock": fakes.FakeClock(), "journal": where, "context_tokens": 10**6}
    with Agent(ScriptedModel(script), shop(), **given) as agent:
        for _ in range(turns):
            agent.run(text)


@pytest.mark.behaviour("P16r")
def test_every_recorder_keeps_the_same_lines(tmp_path: Path) -> None:
    for kind in KINDS.values():
        recorded(kind(tmp_path, "s"))

    lines = b"".join(sqlite(tmp_path, "s").lines())
    assert lines == (tmp_path / "s.jsonl").read_bytes()
    (tmp_path / "copy.jsonl").write_bytes(lines)
    assert replay(tmp_path / "copy.jsonl").raise_for_divergence().foreign == ""


@each_kind
def test_what_takes_a_path_takes_a_recorder(kind: Make, tmp_path: Path) -> None:
    recorded(kind(tmp_path, "s"), turns=2)
    where = kind(tmp_path, "s")

    report = replay(where)
    assert (report.same, report.turns, str(report.path)) == (True, 2, where.name)
    assert rehearse(where, shop()).calls == 2
    assert [one.name for one in calls_of(where)] == ["price", "price"]
    assert len(read_transcript(where).turns) == 2
    with Agent.fork(where, ScriptedModel(["Yes."]), shop(), turn=1, journal=kind(tmp_path, "fork")) as agent:
        assert agent.run("Cheap?").text == "Yes."
    origin = replay(kind(tmp_path, "fork")).header.origin
    assert origin is not None
    assert (origin.session, origin.turn) == ("s", 1)
    with Agent.resume(where, ScriptedModel(["Again."]), shop()) as agent:
        assert agent.run("Again!").text == "Again."


@pytest.mark.behaviour("P16a", "P16r")
@pytest.mark.parametrize("name", CASES)
def test_what_waits_is_kept_by_a_recorder_and_answered_in_another_process(name: str, tmp_path: Path) -> None:
    case, tools = CASES[name], tools_of(tmp_path)

    def asks() -> None:
        with Agent(ScriptedModel([case.call]), tools, journal=sqlite(tmp_path, "s"), **options()) as agent:
            assert agent.run("Go!").pending

    async def answering() -> None:
        async with AsyncAgent.resume(sqlite(tmp_path, "s"), ScriptedModel(["Done."]), tools, **resumed()) as agent:
            (effect,) = agent.pending
            assert (await agent.answer(effect.effect_id, case.answer)).text == "Done."
            assert [case.result] == [m.content for m in agent.state.history if isinstance(m, ToolMessage)]

    in_a_process(asks)
    in_a_process(lambda: asyncio.run(answering()))

    assert replay(sqlite(tmp_path, "s")).raise_for_divergence().state.phase == Idle()


@each_kind
def test_two_sessions_that_are_given_one_recorder_are_kept_apart(kind: Make, tmp_path: Path) -> None:
    """Who was refused closes nothing that the other one has."""
    recorder = kind(tmp_path, "s")
    with Agent(ScriptedModel(["One.", "Two."]), journal=recorder) as agent:
        agent.run("1")
        for other in (lambda: Agent(ScriptedModel([]), journal=recorder), lambda: Agent.resume(recorder, agent.model)):
            with pytest.raises(JournalLockedError, match="another session"):
                other()
        assert agent.run("2").text == "Two."
        with pytest.raises(JournalLockedError, match="another session"):
            Agent.resume(kind(tmp_path, "s"), ScriptedModel([]))
    with Agent.resume(recorder, ScriptedModel(["Three."])) as agent:
        assert agent.run("3").text == "Three."
    assert replay(recorder).raise_for_divergence().turns == 3


@each_kind
def test_one_session_writes_at_a_time_and_none_is_overwritten(kind: Make, tmp_path: Path) -> None:
    with Agent(ScriptedModel(["One."]), journal=kind(tmp_path, "s")) as agent:
        agent.run("1")
        with pytest.raises(JournalLockedError, match="another session"):
            Agent(ScriptedModel([]), journal=kind(tmp_path, "s"))
        with pytest.raises(JournalLockedError, match="another session"):
            Agent.resume(kind(tmp_path, "s"), ScriptedModel([]))
        assert replay(kind(tmp_path, "s")).records == 2
    with pytest.raises(JournalExistsError, match="never overwritten"):
        Agent(ScriptedModel([]), journal=kind(tmp_path, "s"))
    with Agent.resume(kind(tmp_path, "s"), ScriptedModel(["Two."])) as agent:
        assert agent.run("2").text == "Two."


def test_a_dropped_agent_holds_no_place(tmp_path: Path) -> None:
    agent = Agent(ScriptedModel(["One."]), journal=sqlite(tmp_path, "s"))
    agent.observer_of_its_own = agent  # type: ignore[attr-defined]  # so that only the garbage collection finds it
    agent.run("1")
    del agent
    Agent.resume(sqlite(tmp_path, "s"), ScriptedModel([])).close()


def test_another_users_recording_and_a_changed_line_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(sqlite(tmp_path, "s"))
    with monkeypatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
        assert replay(sqlite(tmp_path, "s")).foreign
        with pytest.raises(ForeignRecordingError):
            Agent.resume(sqlite(tmp_path, "s"), ScriptedModel([]), shop())
        with Agent.fork(sqlite(tmp_path, "s"), ScriptedModel(["Yes."]), foreign=True) as agent:
            assert agent.run("So?").text == "Yes."

    changes = {
        "UPDATE lines SET line = CAST(replace(line, 'plum', 'pear') AS BLOB) WHERE number = 2": JournalDamagedError,
        "DELETE FROM lines WHERE number = 2": JournalDamagedError,
        "DELETE FROM lines WHERE number = 0": NotAJournalError,
        "UPDATE lines SET number = 9 WHERE number = 2": JournalDamagedError,
        "UPDATE lines SET line = substr(line, 1, length(line) - 1) WHERE number = 4": JournalDamagedError,
        "UPDATE lines SET line = CAST(line AS TEXT) WHERE number = 1": JournalError,
        "UPDATE lines SET line = x'00' WHERE number = 1": JournalDamagedError,
        "DELETE FROM lines": NotAJournalError,
        "DROP TABLE lines": NotAJournalError,
    }
    whole = (tmp_path / "sessions.db").read_bytes()
    for number, (change, expected) in enumerate(changes.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "sessions.db").write_bytes(whole)
        db = sqlite3.connect(folder / "sessions.db")
        with db:
            db.execute(change)
        db.close()
        for read in (replay, lambda where: Agent.resume(where, ScriptedModel([]), shop())):
            with pytest.raises(expected):
                read(sqlite(folder, "s"))


class Failing(SqliteRecorder):
    """Its disk is full for a while."""

    full = False
    failures: float = float("inf")
    """How many lines it has no room for, from then on."""

    def append(self, number: int, line: bytes, force: bool) -> None:
        if self.full and self.failures > 0:
            self.failures -= 1
            raise OSError(28, "No space left on device")
        super().append(number, line, force)


@pytest.mark.behaviour("P16r")
@each_kind
def test_of_many_who_answer_at_once_one_does_and_the_call_runs_once(kind: Make, tmp_path: Path) -> None:
    """As the requests of a web handler do, each with an agent of its own."""
    tools = tools_of(tmp_path)
    with Agent(ScriptedModel([call("pay", amount=3)]), tools, journal=kind(tmp_path, "s"), **options()) as agent:
        agent.run("Go!")
    told: list[str] = []

    def answer() -> None:
        try:
            with Agent.resume(kind(tmp_path, "s"), FunctionModel(lambda request: "Done."), tools, **resumed()) as agent:
                told.append(agent.answer("1.1.1", True).text)
        except CogstepError as error:
            told.append(type(error).__name__)

    threads = [Thread(target=answer) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)

    assert (told.count("Done."), len(told)) == (1, 8)
    assert set(told) <= {"Done.", "JournalLockedError", "CogstepError"}
    assert (tmp_path / "paid").read_text() == "3\n"


def test_what_can_not_be_recorded_is_not_carried_out_and_the_session_goes_on(tmp_path: Path) -> None:
    ran: list[int] = []

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        ran.append(amount)
        return "paid"

    recorder = Failing(tmp_path / "sessions.db", "s")

    def fills_up(request: Any) -> Any:
        recorder.full = True
        return call("pay", amount=3)

    with Agent(ScriptedModel([fills_up, "Hello."]), [pay], journal=recorder) as agent:
        with pytest.raises(JournalWriteError, match=r"^s: the record could not be written \(.*No space left"):
            agent.run("Pay!")
        recorder.full = False
        assert agent.run("Hello?").text == "Hello."
    assert ran == []
    assert replay(sqlite(tmp_path, "s")).raise_for_divergence().turns == 2


@pytest.mark.behaviour("P16r")
@pytest.mark.parametrize("goes_on", ["answer", "go_on"])
@pytest.mark.parametrize("name", [name for name in CASES if name != "an approval in full"])
def test_an_answer_that_can_not_be_recorded_is_not_lost(name: str, goes_on: str, tmp_path: Path) -> None:
    """The disk is full for a moment: what was asked waits on, here and in another process."""
    case, tools, recorder = CASES[name], tools_of(tmp_path), Failing(tmp_path / "sessions.db", "s")
    if goes_on == "go_on" and case.effect is CallTool:
        pytest.skip("nobody is asked about an external call")

    def asked(_request: Any) -> Any:
        recorder.full, recorder.failures = True, 1
        return case.answer

    with Agent(ScriptedModel([case.call]), tools, journal=recorder, **options()) as agent:
        agent.run("Go!")

    with Agent.resume(recorder, ScriptedModel([]), tools, **resumed(asked)) as agent:
        recorder.full, recorder.failures = goes_on == "answer", 1
        with pytest.raises(JournalWriteError):
            agent.resume_turn() if goes_on == "go_on" else agent.answer(agent.pending[0].effect_id, case.answer)
        recorder.full = False
        assert [type(effect) for effect in agent.pending] == [case.effect]

    async def answering() -> None:
        async with AsyncAgent.resume(recorder, ScriptedModel(["Done."]), tools, **resumed()) as again:
            recorder.full, recorder.failures = True, 1
            with pytest.raises(JournalWriteError):
                await again.answer(again.pending[0].effect_id, case.answer)
            recorder.full = False
            result = await again.answer(again.pending[0].effect_id, case.answer)
            assert (result.text, [made.content for made in result.calls]) == ("Done.", [case.result])

    asyncio.run(answering())
    assert replay(sqlite(tmp_path, "s")).raise_for_divergence().turns == 1


class Raising:
    """Every method raises something of its own."""

    name = "s"

    def lock(self, new: bool) -> bool:
        raise sqlite3.OperationalError("unable to open database file")

    def append(self, number: int, line: bytes, force: bool) -> None:
        raise NotImplementedError

    def lines(self) -> Iterable[bytes]:
        raise KeyError("lines")

    def close(self) -> None: ...


class OfTexts(Raising):
    def lines(self) -> Iterable[Any]:
        return ["a line"]


def test_whatever_a_recorder_raises_is_told_with_its_name() -> None:
    with pytest.raises(JournalError, match=r"^s: can't be opened for writing .*unable to open database file"):
        Agent(ScriptedModel([]), journal=Raising())
    with pytest.raises(JournalError, match=r"^s: can't be read: KeyError"):
        replay(Raising())
    with pytest.raises(JournalError, match="its lines have to be bytes, and one is of the type str"):
        replay(OfTexts())


class Lossy(SqliteRecorder):
    """One of its lines is lost, such as the evicted key of a key-value store."""

    def __init__(self, path: Path, name: str, lost: int) -> None:
        super().__init__(path, name)
        self.lost = lost

    def lines(self) -> Iterator[Any]:
        for number, line in enumerate(super().lines()):
            yield None if number == self.lost else line


@pytest.mark.parametrize("lost", [0, 1, 3])
def test_a_lost_line_is_no_end_behind_which_is_written(tmp_path: Path, lost: int) -> None:
    path = tmp_path / "store.sqlite"
    with Agent(ScriptedModel(["One.", "Two."]), journal=SqliteRecorder(path, "s")) as agent:
        agent.run("1")
        agent.run("2")
    before = list(SqliteRecorder(path, "s").lines())

    with pytest.raises(JournalError, match=r"NoneType|something is recorded here already"):
        Agent(ScriptedModel([]), journal=Lossy(path, "s", lost))
    with pytest.raises(JournalError, match="one is of the type NoneType"):
        Agent.resume(Lossy(path, "s", lost), ScriptedModel(["Three."]))
    with pytest.raises(JournalError, match="one is of the type NoneType"):
        replay(Lossy(path, "s", lost))
    assert list(SqliteRecorder(path, "s").lines()) == before


def test_what_is_no_recorder_is_refused() -> None:
    for wrong in (object(), 5, Raising):
        with pytest.raises(ConfigError, match="journal must be"):
            Agent(ScriptedModel([]), journal=wrong)


def test_a_host_records_in_files_only(tmp_path: Path) -> None:
    with (
        AgentHost.in_thread(ScriptedModel([])) as host,
        pytest.raises(ConfigError, match="journal must be a text or a PathLike or None"),
    ):
        host.open("clerk", journal=sqlite(tmp_path, "s"))


def test_large_texts_stand_in_a_recorders_lines_if_it_keeps_no_payloads(tmp_path: Path) -> None:
    for kind in KINDS.values():
        recorded(kind(tmp_path, "s"), text="x" * 100_000)
        with JournalReader(kind(tmp_path, "s")) as reader:
            first = next(iter(reader)).input
        assert len(first.text) == 100_000  # type: ignore[union-attr]  # what the user said
    assert any(len(line) > 100_000 for line in sqlite(tmp_path, "s").lines())
    for kind in (file, in_sqlite):
        assert all(len(line) < 20_000 for line in kind(tmp_path, "s").lines())


@each_kind
def test_an_interrupt_right_behind_a_write_leaves_a_session_that_goes_on(
    kind: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder: Any = kind(tmp_path, "s")
    append = type(recorder).append
    due: list[bool] = []

    def interrupted(self: Any, number: int, line: bytes, force: bool) -> None:
        append(self, number, line, force)
        if due:
            due.clear()
            raise KeyboardInterrupt

    monkeypatch.setattr(type(recorder), "append", interrupted)

    def interrupts(request: Any) -> Any:
        due.append(True)
        return "Hello."

    with Agent(ScriptedModel([interrupts, "Again."]), journal=recorder) as agent:
        with pytest.raises(KeyboardInterrupt):
            agent.run("Hi!")
        assert agent.run("Hi again!").text == "Again."
    assert replay(kind(tmp_path, "s")).raise_for_divergence().state == agent.state


@each_kind
def test_approvals_that_nobody_answers_stay_with_a_recorder_that_is_closed(kind: Make, tmp_path: Path) -> None:
    tools = tools_of(tmp_path)
    with Agent(
        ScriptedModel([call("pay", amount=3)]), tools, journal=kind(tmp_path, "s"), approve=lambda _: LATER
    ) as a:
        a.run("Go!")
    for _ in range(2):
        with Agent.resume(kind(tmp_path, "s"), ScriptedModel([]), tools, approve=lambda _: LATER) as agent:
            assert len(agent.pending) == 1
