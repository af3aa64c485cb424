"""``--store URL``: the commands on sessions of a database, which do what they do with files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cognition import ModelRequest
from interpreters import replay
from interpreters.cli.options.store_option import quote_for_command, without_password
from interpreters.recording.store import SqlStore
from interpreters.testing.fakes import call
from tests.interpreters.cli.processes import Cogstep
from tests.interpreters.databases import PASSWORD, needs_postgres, postgres

CALL: Any = [call("calculate", expression="17 * 23"), "17 * 23 is 391."]

AT = ("--store", "sqlite:///sessions.db")


@pytest.fixture
def recorded(here: Cogstep, tmp_path: Path) -> SqlStore:
    """Two sessions that the command itself has recorded."""
    for name in ("a", "b"):
        assert here("run", "17 * 23?", "--record", name, *AT, replies=CALL).returncode == 0
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith("sessions.db")] == []
    return SqlStore(AT[1])


def test_a_session_is_recorded_in_a_store_and_never_over_another_one(here: Cogstep, recorded: SqlStore) -> None:
    before = list(recorded.recorder("a").lines())

    again = here("run", "17 * 23?", "--record", "a", *AT, replies=CALL)
    assert (again.returncode, "something is recorded as a in sessions.db" in again.stderr) == (2, True)
    assert before == list(recorded.recorder("a").lines())
    unnamed = here("run", "17 * 23?", *AT, replies=CALL)
    assert (unnamed.returncode, "name the session with --record NAME" in unnamed.stderr) == (2, True)


def test_what_reads_a_recording_reads_it_in_a_store(here: Cogstep, recorded: SqlStore) -> None:
    replayed = here("replay", "a", *AT)
    assert (replayed.returncode, replayed.stderr) == (0, "")
    assert "a in sessions.db: every decision is the same" in replayed.stdout
    assert here("rehearse", "a", *AT).stdout == "a in sessions.db: every result is the same (1 call)\n"
    assert json.loads(here("context", "a", "--step", "1.2", "--json", *AT).stdout)["file"] == "a in sessions.db"
    shown = here("sessions", "show", "a", *AT)
    assert "> 17 * 23 is 391." in shown.stdout
    assert here("sessions", "export", "a", "--format", "markdown", *AT).stdout == shown.stdout
    none = here("replay", "none", *AT)
    assert (none.returncode, none.stderr) == (2, "cogstep: none in sessions.db: nothing is recorded here\n")


def test_what_goes_on_with_a_recording_goes_on_in_a_store(here: Cogstep, recorded: SqlStore) -> None:
    """Its own tools too: one that reads on in the recording finds it there."""
    asked: list[ModelRequest] = []

    def note(request: ModelRequest) -> str:
        asked.append(request)
        return "You are welcome."

    assert here("resume", "a", "Thanks!", *AT, replies=[note]).stdout == "You are welcome.\n"
    assert len(asked[0].messages) == 5
    assert here("fork", "a", "And?", "--turn", "1", "--record", "f", *AT, replies=["On."]).stdout == "On.\n"
    assert list(recorded.names()) == ["a", "b", "f"]
    assert [replay(recorded.recorder(name)).raise_for_divergence().turns for name in "abf"] == [2, 1, 1]
    nothing = here("resume", "a", *AT, replies=[])
    assert "no turn of a in sessions.db was interrupted" in nothing.stderr


def test_what_waits_is_told_with_the_command_that_answers_it(here: Cogstep, tmp_path: Path) -> None:
    (tmp_path / "risky.py").write_text(
        "from interpreters import tool\n\n@tool(approval=True)\ndef pay() -> str:\n    '''Pay.'''\n    return 'paid'\n"
    )
    given = ("--tools", "risky:pay", "--approve", "later")
    done = here("run", "Pay!", "--record", "it's due", *given, *AT, replies=[call("pay")])
    assert done.returncode == 1
    command = """cogstep resume 'it'"'"'s due' --store sqlite:///sessions.db, or --answer ID=ANSWER"""
    assert command in done.stderr
    answered = here("resume", "it's due", "--tools", "risky:pay", "--answer", "1.1.1=yes", *AT, replies=["Done."])
    assert (answered.returncode, answered.stdout) == (0, "Done.\n")


def test_the_sessions_of_a_store_are_listed_searched_and_pruned(here: Cogstep, recorded: SqlStore) -> None:
    heads, *rows = [line.split() for line in here("sessions", "list", *AT).stdout.splitlines()]
    assert heads == ["written", "status", "turns", "size", "session", "first", "words"]
    assert sorted(row[6] for row in rows) == ["a", "b"]
    assert len(here("sessions", "list", "b", *AT).stdout.splitlines()) == 2
    assert here("sessions", "search", "23 IS", "b", *AT).stdout == (
        "b: record 4, turn 1, model_replied: 17 * 23 is 391.\n"
    )
    none = here("sessions", "list", "none", *AT)
    assert (none.returncode, none.stderr) == (2, "cogstep: none in sessions.db: nothing is recorded here\n")
    pruned = here("sessions", "prune", "--keep", "1", *AT)
    assert [line.split(":")[0] for line in pruned.stdout.splitlines()] == ["a", "deleted"]
    assert list(recorded.names()) == ["b"]
    assert here("sessions", "prune", "--keep", "0", *AT).returncode == 0
    assert "--record NAME --store URL" in here("sessions", "list", *AT).stderr


@needs_postgres
def test_the_same_on_postgresql_and_its_password_is_never_shown(here: Cogstep, tmp_path: Path) -> None:
    name, at = str(tmp_path), ("--store", postgres().url)
    done = [
        here("run", "17 * 23?", "--record", name, "-v", *at, replies=CALL),
        here("run", "17 * 23?", "--record", name, *at, replies=CALL),
        here("resume", name, "Thanks!", *at, replies=["You are welcome."]),
        here("replay", name, "--json", *at),
        here("sessions", "list", name, "--json", *at),
        here("sessions", "prune", name, "--keep", "0", *at),
        here("replay", name, *at),
    ]
    assert [one.returncode for one in done] == [0, 2, 0, 0, 0, 0, 2]
    assert json.loads(done[4].stdout)["name"] == name
    assert PASSWORD not in "".join(one.stdout + one.stderr for one in done)


@pytest.mark.parametrize(
    "arguments",
    [
        ("replay", "a", "--store", f"postgresql://ada:{PASSWORD}@127.0.0.1:1/db"),
        ("replay", "a", "--store", f"mysql://ada:{PASSWORD}@127.0.0.1:1/db"),
        ("replay", "a", "--store", f"ada:{PASSWORD}@127.0.0.1:1/db"),
        ("replay", f"postgresql://ada:{PASSWORD}@127.0.0.1:1/db"),
        ("sessions", "list", f"postgresql://127.0.0.1:1/db?user=ada&password={PASSWORD}"),
        ("doctor", "--store", f"postgresql://ada:{PASSWORD}@127.0.0.1:1/db"),
        ("run", "Hi!", "--record", f"postgresql://ada:{PASSWORD}@127.0.0.1:1/db"),
    ],
)
def test_a_wrong_url_is_told_without_its_password(here: Cogstep, arguments: tuple[str, ...]) -> None:
    done = here(*arguments, replies=["Hi!"])
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert PASSWORD not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"postgresql://ada:{PASSWORD}@db.example:5/agents", "postgresql://ada@db.example:5/agents"),
        (f"postgres://db.example/agents?password={PASSWORD}&user=ada", "postgres://db.example/agents?user=ada"),
        ("sqlite:///over/there.db", "sqlite:///over/there.db"),
    ],
)
def test_a_command_that_is_told_names_the_same_store(url: str, shown: str) -> None:
    assert without_password(url) == shown
    assert PASSWORD not in quote_for_command(SqlStore(url).recorder("a"), type("Options", (), {"store": url})())


def test_recordings_go_into_a_store_and_back(here: Cogstep, tmp_path: Path) -> None:
    """To the byte, under the same name or another one, and over nothing."""
    for name in ("a", "b"):
        assert here("run", "17 * 23?", "--record", f"{name}.jsonl", replies=CALL).returncode == 0
    contents = {name: (tmp_path / f"{name}.jsonl").read_bytes() for name in ("a", "b")}
    store = SqlStore(AT[1])

    moved = here("sessions", "move", ".", "--to", AT[1])
    assert (moved.returncode, moved.stderr) == (0, "")
    assert moved.stdout == (
        "a.jsonl: moved to a in sessions.db (4 records)\nb.jsonl: moved to b in sessions.db (4 records)\n"
    )
    assert {name: b"".join(store.recorder(name).lines()) for name in store.names()} == contents
    assert list(tmp_path.glob("*.jsonl")) == []
    (tmp_path / "back").mkdir()
    copied = here("sessions", "copy", *AT, "--to", "back", "--json")
    assert [json.loads(line)["to"] for line in copied.stdout.splitlines()] == ["back/a.jsonl", "back/b.jsonl"]
    assert {path.stem: path.read_bytes() for path in (tmp_path / "back").iterdir()} == contents
    again = here("sessions", "copy", "a", *AT, "--to", "back")
    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr.startswith("back/a.jsonl: the file exists, or large texts beside it, and a recording")
    other = here("sessions", "copy", "a", *AT, "--to", "back", "--as", "c")
    assert other.stdout == "a: copied to back/c.jsonl (4 records)\n"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("copy", "a.jsonl", "--to", "none"), 2, "--to none is no directory; create it, or give the URL"),
        (("copy", ".", "--to", "sqlite:///s.db", "--as", "x"), 2, "--as names one recording, and there are 2"),
        (("copy", "b.jsonl", "--to", "sqlite:///s.db"), 1, "b.jsonl: this is no cogstep journal"),
        (("move", "a.jsonl", "--to", ".", "--as", "x/y"), 1, "x/y can't be the name of a file"),
        (("move", "none", *AT, "--to", "."), 2, "sessions.db: there is no such file"),
        (("copy", "a.jsonl", "--to", f"mysql://ada:{PASSWORD}@127.0.0.1:1/db"), 2, "a store can't be at mysql:"),
        (("copy", "a.jsonl", "--to", f"postgresql://ada:{PASSWORD}@127.0.0.1:1/db"), 2, "start PostgreSQL there"),
    ],
)
def test_what_can_not_be_carried_is_told_in_a_line(
    here: Cogstep, tmp_path: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    assert here("run", "17 * 23?", "--record", "a.jsonl", replies=CALL).returncode == 0
    (tmp_path / "b.jsonl").write_text("hello\n")
    done = here("sessions", *arguments)
    assert (done.returncode, done.stdout, said in done.stderr) == (code, "", True)
    assert done.stderr.count("\n") == 1
    assert PASSWORD not in done.stderr
    assert (tmp_path / "a.jsonl").exists()
