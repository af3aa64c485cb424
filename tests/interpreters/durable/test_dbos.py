"""Sessions on DBOS: the same decisions, whatever is killed, and one line where something is missing."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import insert

from cognition import CogstepError, ConfigError, UserMessage
from interpreters import Agent, ToolContext, replay, tool
from interpreters.durable._errors import DurableError
from interpreters.durable.definition import DurableAgent
from interpreters.recording.journal import JournalDamagedError, JournalWriteError, TakenOverError
from interpreters.testing.fakes import FunctionModel, call
from tests.interpreters.databases import PASSWORD, needs_postgres, postgres

pytest.importorskip("dbos", reason="needs the extra `dbos`")

import psycopg
from dbos._error import DBOSWorkflowConflictIDError
from dbos._sys_db import SystemDatabase
from psycopg.errors import UndefinedTable
from sqlalchemy.exc import OperationalError

from interpreters.durable.dbos._context import DatabaseUrls, JsonSerializer, database_urls, unusable_error
from interpreters.durable.dbos._runs import TOLD_EVERY, OrphanedRuns, Unattended
from interpreters.durable.dbos.sessions import DBOSSessions
from interpreters.recording.store import SqlStore, StoreError
from interpreters.recording.store.locations import locate
from interpreters.recording.store.schema import executors

ROOT = Path(__file__).resolve().parents[3]
AGENT = DurableAgent("greeter", FunctionModel(lambda _request: "Hello."))


def python(*arguments: str) -> str:
    """What a program of these tests says."""
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_it_decides_on_sqlite_what_asyncio_does(tmp_path: Path) -> None:
    assert "the same 20 times" in python("-m", "tests.interpreters.durable.same", f"sqlite:///{tmp_path}/sessions.db")


@needs_postgres
@pytest.mark.slow
def test_it_decides_on_postgresql_what_asyncio_does() -> None:
    assert "the same 20 times" in python("-m", "tests.interpreters.durable.same", postgres().url)


@needs_postgres
@pytest.mark.slow
def test_processes_that_are_killed_are_taken_over() -> None:
    how = ("--kills", "2", "--freezes", "0", "--sessions", "3", "--on", "postgresql")
    said = python("-m", "tests.interpreters.durable.kills", *how)

    assert "3 sessions" in said


@pytest.mark.slow
def test_hosts_are_preferred_cancellations_heard_and_each_version_goes_on_with_its_sessions(tmp_path: Path) -> None:
    assert "all of it" in python("-m", "tests.interpreters.durable.several", f"sqlite:///{tmp_path}/sessions.db")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://nobody@127.0.0.1:1/agents", "start PostgreSQL there"),
        ("mysql://127.0.0.1/agents", "expected one such as"),
        ("agents", "this is no URL"),
        ("sqlite:///agents.db?mode", "nothing may stand behind the path"),
        ("sqlite:///agents.db?", "nothing may stand behind the path"),
        ("sqlite:///a%00b.db", "a NUL byte"),
        ("postgresql://nobody@127.0.0.1:1/a%00b", "a NUL byte"),
    ],
)
def test_without_a_database_one_line_says_what_to_start(url: str, said: str) -> None:
    with pytest.raises(CogstepError, match=said) as caught:
        DBOSSessions(AGENT, url)

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["agents.db", "a b.db", "100%25.db", "a%3Fb.db", "\u00fc.db", "x.db#1"])
def test_on_sqlite_the_engine_has_a_file_of_its_own_beside_the_store_wherever_the_program_goes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 42, 0))
    monkeypatch.chdir(tmp_path)
    place = database_urls(f"sqlite:///{name}")
    store = locate(place.store).path
    monkeypatch.chdir("/")

    assert locate(place.engine).path == f"{store}.dbos"


def test_an_sqlite_that_is_too_old_is_told_with_both_ways_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 40, 1))
    with pytest.raises(DurableError, match=r"pysqlite3-binary in its place.*or PostgreSQL"):
        DBOSSessions(AGENT, "sqlite:///agents.db")


@pytest.mark.parametrize(
    ("said", "help_"),
    [
        (UndefinedTable('relation "dbos.queues" does not exist'), "put a copy of before in their place"),
        (Exception("no such table: main.queues"), "put a copy of before in their place"),
        (Exception("could not extend file: No space left on device"), "make room on its server's disk"),
        (Exception("server closed the connection, secret-word\nmore"), "start PostgreSQL there"),
    ],
)
def test_what_dbos_can_not_do_is_told_with_what_helps_and_without_the_password(said: Exception, help_: str) -> None:
    database = SqlStore("postgresql://ada:secret-word@127.0.0.1:1/agents").database

    told = str(unusable_error(database, OperationalError("INSERT", {"text": "value"}, said)))

    assert told.startswith("ada@127.0.0.1:1/agents: ")
    assert help_ in told
    for hidden in ("secret-word", "value", "INSERT", "\n"):
        assert hidden not in told


@needs_postgres
@pytest.mark.parametrize("form", ["{user}@{quoted}:{port}/{name}", "{user}@:{port}/{name}?host={folder}",
                                  "/{name}?host={folder}&port={port}&user=cogstep&password={password}"])  # fmt: skip
def test_a_url_that_names_a_sockets_directory_is_the_same_database_for_dbos_and_the_store(form: str) -> None:
    server = postgres()
    user, folder = f"cogstep:{PASSWORD}", str(server.folder)
    url = "postgresql://" + form.format(
        user=user, folder=folder, quoted=quote(folder, safe=""), port=server.port, password=PASSWORD, name="postgres"
    )
    with DBOSSessions(AGENT, url) as sessions, DBOSSessions(AGENT, server.url) as others:
        run = sessions.send("by-socket", "Hi!")

        assert run in {one.workflow_id for one in others._runs("by-socket", ["ENQUEUED"])}


def test_a_url_that_leaves_the_database_to_the_users_name_is_refused_with_what_dbos_needs() -> None:
    with pytest.raises(DurableError, match=r"say ada@127\.0\.0\.1:1/database in the URL"):
        DBOSSessions(AGENT, "postgresql://ada@127.0.0.1:1")


@needs_postgres
def test_names_that_can_not_be_are_refused_before_anything_is_sent() -> None:
    with DBOSSessions([AGENT, DurableAgent("other", AGENT.model)], postgres().url) as sessions:
        with pytest.raises(ConfigError, match="a session's name"):
            sessions.send("two words", "Hi!", agent="other")
        with pytest.raises(ConfigError, match="agent has to be one of greeter, other"):
            sessions.send("ada", "Hi!")
    with pytest.raises(ConfigError, match="two agents have the same name"):
        DBOSSessions([AGENT, AGENT], postgres().url)


@needs_postgres
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda _, url: DBOSSessions("greeter", url), "agents must be"),  # type: ignore[arg-type]
        (lambda _, url: DBOSSessions([], url), "at least one agent"),
        (lambda _, __: DBOSSessions(AGENT, None), "url must be a text"),  # type: ignore[arg-type]
        (lambda _, url: DBOSSessions(AGENT, url, at_once=0), "at_once has to be at least 1"),
        (lambda _, url: DBOSSessions(AGENT, url, at_once="3"), "at_once must be a whole"),  # type: ignore[arg-type]
        (lambda _, url: DBOSSessions(AGENT, url, hosts=[1]), "hosts"),  # type: ignore[list-item]
        (lambda _, url: DBOSSessions(AGENT, url, atonce=3), "atonce"),  # type: ignore[call-arg]
        (lambda sessions, _: sessions.send(5, "Hi!"), "session must be a text"),
        (lambda sessions, _: sessions.send("ada", "Hi!", key=""), "key has to be"),
        (lambda sessions, _: sessions.send("ada", "Hi!", key=False), "key must be"),
        (lambda sessions, _: sessions.send("ada", "Hi!", kee="k"), "kee"),
        (lambda sessions, _: sessions.answer("ada", None, True), "effect_id must be a text"),
        (lambda sessions, _: sessions.cancel("ada", 5), "reason must be a text"),
        (lambda sessions, _: sessions.cancel("misspelt"), "misspelt in .*: nothing is recorded here"),
        (lambda sessions, _: sessions.resume_turn("misspelt"), "misspelt in .*: nothing is recorded here"),
        (lambda sessions, _: sessions.pending(5), "session must be a text"),
        (lambda sessions, _: sessions.result(5), "run must be a text"),
        (lambda sessions, _: sessions.result("ada:nobody"), "there is no run 'ada:nobody'"),
    ],
)
def test_what_is_no_argument_is_refused_by_its_name(wrong: Any, said: str) -> None:
    url = postgres().url
    with DBOSSessions(AGENT, url) as sessions, pytest.raises(CogstepError, match=said):
        wrong(sessions, url)


@needs_postgres
def test_a_message_is_behind_those_that_wait_whatever_the_clock_of_the_database_says() -> None:
    with DBOSSessions(AGENT, postgres().url) as sessions:
        runs = [sessions.send("queued", f"Message {number}") for number in range(4)]
        kept = {one.workflow_id: one.priority for one in sessions._runs("queued", ["ENQUEUED"])}

    assert sorted(runs, key=lambda run: kept[run]) == runs
    assert len(set(kept.values())) == len(runs)


@needs_postgres
def test_what_is_cancelled_while_it_is_being_taken_over_stays_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    with DBOSSessions(AGENT, postgres().url) as sessions:
        run, client, own = left_behind(sessions, "late")
        look = client.list_workflows

        def cancelled_behind_it(**given: Any) -> Any:
            found = look(**given)
            client.cancel_workflow(run)
            return found

        left = OrphanedRuns(sessions.store, own)
        left.give_up(run)
        monkeypatch.setattr(client, "list_workflows", cancelled_behind_it)
        left.resume(client)

        assert [one.status for one in look(workflow_ids=[run])] == ["CANCELLED"]


@needs_postgres
def test_a_run_that_waits_for_the_database_is_resumed_though_the_first_try_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with DBOSSessions(AGENT, postgres().url) as sessions:
        run, client, own = left_behind(sessions, "stranded")
        left = OrphanedRuns(sessions.store, own)
        left.give_up(run)
        for place, name in ((client, "list_workflows"), (client._sys_db, "reenqueue_for_recovery")):
            with monkeypatch.context() as patched:
                patched.setattr(place, name, away)
                with pytest.raises(OSError, match="away"):
                    left.resume(client)
        left.resume(client)

        assert [one.status for one in client.list_workflows(workflow_ids=[run])] == ["ENQUEUED"]


@needs_postgres
def test_a_run_is_resumed_once_nobody_was_at_work_at_it_for_two_looks() -> None:
    with DBOSSessions(AGENT, postgres().url) as sessions:
        run, client, own = left_behind(sessions, "idle")
        left = OrphanedRuns(sessions.store, own)

        def status_behind_a_look() -> str:
            left.resume(client)
            (found,) = client.list_workflows(workflow_ids=[run])
            return str(found.status)

        with left.executing(run):
            with left.executing(run):
                assert {status_behind_a_look() for _ in range(3)} == {"PENDING"}
            assert {status_behind_a_look() for _ in range(3)} == {"PENDING"}
        assert status_behind_a_look() == "PENDING"  # DBOS may just be about to keep what it came to
        assert status_behind_a_look() == "ENQUEUED"


@needs_postgres
def test_a_run_that_nothing_can_be_kept_of_is_resumed_ever_more_seldom() -> None:
    with DBOSSessions(AGENT, postgres().url) as sessions:
        run, client, own = left_behind(sessions, "hopeless")
        left = OrphanedRuns(sessions.store, own)
        resumed = []
        for look in range(60):
            left.give_up(run)
            left.resume(client)
            if client.list_workflows(workflow_ids=[run])[0].status == "ENQUEUED":
                resumed.append(look)
                begin(client, run, own)

    assert [later - earlier for earlier, later in pairwise(resumed)] == [2, 3, 5, 9, 17, 17]


@needs_postgres
@pytest.mark.slow
def test_wherever_dbos_can_not_keep_something_the_run_goes_on_once_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    paid: list[str] = []

    @tool
    def pay(context: ToolContext[None]) -> str:
        """Pay."""
        paid.append(context.session)
        return "paid"

    def answer(request: Any) -> Any:
        return call("pay") if isinstance(request.messages[-1], UserMessage) else "It is paid."

    failing: dict[str, int] = {}
    for name in ("record_operation_result", "update_workflow_outcome"):
        monkeypatch.setattr(SystemDatabase, name, on_a_full_disk(getattr(SystemDatabase, name), failing))
    monkeypatch.setattr("interpreters.durable.dbos.sessions.LOOKED_AFTER_EVERY", 0.05)
    with DBOSSessions(DurableAgent("payer", FunctionModel(answer), [pay]), new_database("disk")) as sessions:
        names = [f"full-{number}" for number in range(6)]  # the beginning, three steps, the run itself; then none
        runs = {}
        for number, name in enumerate(names):
            runs[name] = sessions.send(name, "Pay!")
            failing[runs[name]] = number
        with sessions.worker():
            ended = [sessions.result(run) for run in runs.values()]

        assert [one.error for one in ended] == [""] * len(names)
        assert sorted(paid) == names
        assert all(replay(sessions.recorder(name)).same for name in names)


@needs_postgres
@pytest.mark.slow
def test_what_a_process_leaves_that_lives_on_others_go_on_with() -> None:
    begun = Event()

    @tool
    async def wait() -> str:
        """Wait for ever, at first."""
        if not begun.is_set():
            begun.set()
            await asyncio.Future[None]()
        return "waited"

    def answer(request: Any) -> Any:
        return call("wait") if isinstance(request.messages[-1], UserMessage) else "It was waited."

    with DBOSSessions(DurableAgent("waiter", FunctionModel(answer), [wait]), new_database("leaving")) as sessions:
        run = sessions.send("waiting", "Wait!")
        with sessions.worker(drain=0):
            assert begun.wait(20)

        assert [one.workflow_id for one in sessions._runs("waiting", ["ENQUEUED"])] == [run]


def new_database(name: str) -> str:
    """The URL of one in which no other test has left a run, at which these agents would work too."""
    with psycopg.connect(postgres().url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return postgres().url.rpartition("/")[0] + f"/{name}"


def on_a_full_disk(keep: Any, failing: dict[str, int]) -> Any:
    """DBOS's function that keeps something: of each run it fails once, and if it is asked to keep that it has failed,
    it would.

    Args:
        keep: the function.
        failing: of each run, after how many other calls; is counted down.
    """

    def kept(self: Any, result: Any, *more: Any, **named: Any) -> Any:
        run = result if isinstance(result, str) else result["workflow_uuid"]
        failing[run] = failing.get(run, 0) - 1
        if failing[run] == -1:
            raise OperationalError("INSERT", {}, Exception("database or disk is full"))
        return keep(self, result, *more, **named)

    return kept


def test_an_error_that_is_the_databases_is_no_outcome_of_a_step() -> None:
    serializer = JsonSerializer()
    lost = JournalWriteError("can't be written", path=Path("ada"))
    lost.__cause__ = StoreError("the disk is full", store="store")
    for error in (OperationalError("INSERT", {}, Exception("full")), lost, TakenOverError("late", path=Path("ada"))):
        with pytest.raises(DBOSWorkflowConflictIDError):
            serializer.serialize(error)

    assert "JournalDamagedError" in serializer.serialize(JournalDamagedError("was changed", path=Path("ada")))


def left_behind(sessions: DBOSSessions, session: str) -> tuple[str, Any, str]:
    """A run that this process has begun and given up; with the client, and the process's id."""
    run, client, own = sessions.send(session, "Hi!"), sessions._connect(), sessions.store.join()
    begin(client, run, own)
    return run, client, own


def begin(client: Any, run: str, own: str) -> None:
    rows = client._sys_db.tables.workflow_status
    with client._sys_db.engine.begin() as connection:
        begun = rows.update().where(rows.c.workflow_uuid == run).values(status="PENDING", executor_id=own)
        connection.execute(begun)


def away(*_: Any, **__: Any) -> Any:
    raise OSError("the database is away")


@needs_postgres
def test_another_agent_of_the_same_version_is_no_other_version() -> None:
    other, newer = DurableAgent("other", AGENT.model), DurableAgent("newer", AGENT.model, version="2")
    url = postgres().url

    assert DBOSSessions([AGENT, other], url).version == DBOSSessions(AGENT, url).version
    assert DBOSSessions([AGENT, newer], url).version == DBOSSessions([newer, AGENT], url).version
    assert DBOSSessions([AGENT, newer], url).version != DBOSSessions(AGENT, url).version


@needs_postgres
def test_a_key_is_any_text_and_never_the_id_of_a_run_that_is_not_this_message() -> None:
    with DBOSSessions(AGENT, postgres().url) as sessions:
        odd = sessions.send("keyed", "Hi!", key="a/1.2.1\0\ud800 ü")

        assert sessions.send("keyed", "Hi!", key="a/1.2.1\0\ud800 ü") == odd
        assert "/" not in odd  # as in the id of a worker's run
        assert sessions.send("keyed", "Hi!", key="a") == "keyed:a"
        assert len(sessions._runs("keyed", ["ENQUEUED"])) == 2


@needs_postgres
def test_a_secret_in_a_message_does_not_reach_the_engine() -> None:
    secret = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"
    with DBOSSessions(AGENT, postgres().url) as sessions:
        run = sessions.send("secretive", f"My key is {secret}.")
        kept = sessions._connect().list_workflows(workflow_ids=[run])[0].input
        sessions.cancel("secretive")

    assert "[redacted:" in str(kept)
    assert secret not in str(kept)


def test_what_the_engine_keeps_is_json_and_of_an_exception_its_text() -> None:
    serializer = JsonSerializer()
    kept = serializer.serialize(ValueError("too long \u00e9"))

    assert kept == '{"error":"ValueError: too long \\u00e9"}'
    assert str(serializer.deserialize(kept)) == "ValueError: too long \u00e9"
    assert serializer.deserialize(serializer.serialize({"args": ["a"], "kwargs": {}})) == {"args": ["a"], "kwargs": {}}


@needs_postgres
def test_of_an_exception_the_engine_keeps_no_secret() -> None:
    from interpreters.durable.dbos._context import JsonSerializer

    secret = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"
    sessions = DBOSSessions([AGENT, DurableAgent("other", AGENT.model)], postgres().url)
    kept = JsonSerializer(sessions._hide).serialize(ValueError(f"no model with {secret}"))

    assert kept == '{"error":"ValueError: no model with [redacted:api_key:1]"}'


def begun(store: SqlStore, name: str) -> None:
    """Somebody else's process that gives a sign of life."""
    values = {"id": f"elsewhere:{name}", "name": name, "expires": store.database.now + 60}
    store.database.write(lambda one: one.execute(insert(executors).values(values)))


@needs_postgres
def test_what_waits_for_a_version_that_nobody_runs_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """By whoever waits for it, by who works at sessions, and by a list of the versions."""
    old = DurableAgent("greeter", AGENT.model, version="old")
    new = DurableAgent("greeter", AGENT.model, version="new")
    with DBOSSessions(old, postgres().url) as before, DBOSSessions(new, postgres().url) as sessions:
        run = before.send("waits-for-old", "Hi!")
        with pytest.raises(TimeoutError, match=r"not ended within 0 seconds: no process works at sessions"):
            before.result(run, 0)
        begun(sessions.store, "dbos 1-new")
        again = sessions.send("waits-for-old", "And?")
        with pytest.raises(TimeoutError, match=r"no process of version 1-old is at work.* only of 1-new; start one"):
            sessions.result(again, timeout=0.0)

        found = {one.name: one for one in sessions.versions()}
        assert (found["1-new"].processes, found["1-new"].runs) == (1, 0)
        assert (found["1-old"].processes, found["1-old"].runs) == (0, 2)
        assert found["1-old"].sessions == ("waits-for-old",)

        unattended = Unattended()
        for _ in range(2 * TOLD_EVERY):
            unattended.look(sessions._connect(), sessions.store)
        said = [one.message for one in caplog.records if "1-old" in one.message]
        assert said == [
            "2 runs wait for the version 1-old, of which no process is at work; start one, or fork their sessions"
        ]
        begun(sessions.store, "dbos 1-old")
        assert {one.name: one.processes for one in sessions.versions()}["1-old"] == 1


@needs_postgres
def test_what_dbos_has_kept_of_a_session_that_is_recorded_no_more_is_deleted() -> None:
    with DBOSSessions(DurableAgent("greeter", AGENT.model, version="cleared"), postgres().url) as sessions:
        kept, gone, waiting = (sessions.send(name, "Hi!") for name in ("kept", "gone", "waiting"))
        for run in (kept, gone):
            sessions._connect().cancel_workflow(run)
        with Agent(AGENT.model, journal=sessions.recorder("kept")) as agent:
            agent.run("Hi!")

        assert sessions.clear() >= 1
        left = {one.workflow_id for one in sessions._connect().list_workflows(load_input=False, load_output=False)}
        assert {kept, waiting} <= left
        with pytest.raises(DurableError, match="there is no run"):
            sessions.result(gone)


def test_on_sqlite_what_dbos_keeps_is_the_users_alone(tmp_path: Path) -> None:
    DatabaseUrls(f"sqlite:///{tmp_path}/s.db", "").make_ready()
    DatabaseUrls(f"sqlite:///{tmp_path}/s.db", "").make_ready()

    assert (tmp_path / "s.db.dbos").stat().st_mode & 0o777 == 0o600


def test_on_sqlite_a_commit_of_dbos_is_no_deletion_of_a_file_which_a_crash_may_take_back(tmp_path: Path) -> None:
    path = tmp_path / "s.db.dbos"
    with closing(sqlite3.connect(path)) as file:  # one of before
        file.execute("CREATE TABLE before (number)")
    DatabaseUrls(f"sqlite:///{tmp_path}/s.db", "").make_ready()

    with closing(sqlite3.connect(path)) as file:
        mode, synchronous = (
            file.execute("PRAGMA journal_mode").fetchone(),
            file.execute("PRAGMA synchronous").fetchone(),
        )
    assert mode == ("wal",)
    assert synchronous == (2,)  # full: each commit waits for the disk


def test_on_sqlite_a_file_that_is_no_database_is_left_to_dbos_to_tell_of(tmp_path: Path) -> None:
    (tmp_path / "s.db.dbos").write_text("This is a text, and has been one for a long time." * 50)
    before = (tmp_path / "s.db.dbos").read_bytes()

    DatabaseUrls(f"sqlite:///{tmp_path}/s.db", "").make_ready()

    assert (tmp_path / "s.db.dbos").read_bytes() == before


def test_a_copy_of_dbos_s_file_without_its_log_is_named(tmp_path: Path) -> None:
    """It looked like one of another version of DBOS, or like one without any messages."""
    place, path = DatabaseUrls(f"sqlite:///{tmp_path}/s.db", ""), tmp_path / "s.db.dbos"
    place.make_ready()
    place.make_ready()  # a new one is no copy
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA journal_mode=WAL")
        file.execute("CREATE TABLE messages (text)")
        file.commit()
        whole = path.read_bytes()
    (tmp_path / "t.db.dbos").write_bytes(whole)
    copy = DatabaseUrls(f"sqlite:///{tmp_path}/t.db", "")

    for _ in range(2):
        with pytest.raises(DurableError, match=r"t\.db\.dbos-wal.*is not beside it: copy both"):
            copy.make_ready()
    place.make_ready()


@needs_postgres
def test_a_database_that_is_starting_up_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interpreters.durable.dbos.sessions.STARTING_PAUSE", 0.0)
    sessions = DBOSSessions(AGENT, postgres().url)
    tries: list[str] = []

    def ask(says: str) -> str:
        tries.append(says)
        if len(tries) < 3:
            raise OperationalError("", {}, Exception(f"FATAL: {says}"))
        return "there"

    assert sessions._patiently(lambda: ask("the database system is starting up")) == "there"
    tries.clear()
    with pytest.raises(DurableError, match="no such role"):
        sessions._patiently(lambda: ask("no such role"))
