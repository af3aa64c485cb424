"""A store that can't be used, told by every command in one line that says what to do. Nothing is changed by it."""

from __future__ import annotations

import argparse
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from cognition import CogstepError
from interpreters.cli.main import parser
from interpreters.recording.sessions import list_sessions, prune_sessions, search_sessions
from interpreters.recording.store import SqlStore, database
from interpreters.testing.fakes import call
from runtime.models.installation import install_line
from tests.interpreters.cli.processes import Cogstep
from tests.interpreters.databases import PASSWORD, needs_postgres, postgres

READS = [
    ("sessions", "list"),
    ("sessions", "list", "a", "--json"),
    ("sessions", "search", "plum"),
    ("sessions", "prune", "--keep", "1"),
    ("sessions", "show", "a"),
    ("sessions", "export", "a"),
    ("sessions", "copy", "--to", "."),
    ("sessions", "move", "a", "--to", "."),
    ("replay", "a"),
    ("rehearse", "a"),
    ("context", "a"),
    ("resume", "a", "Hi!"),
    ("fork", "a", "Hi!", "--record", "b"),
    ("undo", "a"),
]
WRITES = [("run", "Hi!", "--record", "b"), ("sessions", "copy", "a.jsonl")]


def missing_directory(folder: Path) -> str:
    return f"sqlite:///{folder}/none/s.db"


def missing_file(folder: Path) -> str:
    return f"sqlite:///{folder}/none.db"


def directory(folder: Path) -> str:
    (folder / "place").mkdir()
    return f"sqlite:///{folder}/place"


def pipe(folder: Path) -> str:
    os.mkfifo(folder / "pipe")
    return f"sqlite:///{folder}/pipe"


def text(folder: Path) -> str:
    (folder / "text.db").write_text("This is a text, and has been one for a long time." * 50)
    return f"sqlite:///{folder}/text.db"


def of_another_program(folder: Path) -> str:
    with closing(sqlite3.connect(folder / "other.db")) as other:
        other.execute("CREATE TABLE plums (size)")
        other.commit()
    return f"sqlite:///{folder}/other.db"


def copied_to(path: Path) -> sqlite3.Connection:
    copied = sqlite3.connect(path)
    with closing(sqlite3.connect(path.with_name("sessions.db"))) as source:
        source.backup(copied)
    copied.execute("PRAGMA journal_mode=DELETE")
    return copied


def of_version(version: int) -> Callable[[Path], str]:
    def made(folder: Path) -> str:
        with closing(copied_to(folder / "version.db")) as copied:
            copied.execute(f"UPDATE cogstep_store SET version = {version}")
            copied.commit()
        return f"sqlite:///{folder}/version.db"

    return made


def damaged(folder: Path) -> str:
    copied_to(folder / "damaged.db").close()
    content = bytearray((folder / "damaged.db").read_bytes())
    size = int.from_bytes(content[16:18], "big")
    for page in range(0, len(content), size):  # the head of each page, but for the file's own
        content[page + 100 * (page == 0) : page + 120] = b"\xff" * (20 if page == 0 else 120)
    (folder / "damaged.db").write_bytes(content)
    return f"sqlite:///{folder}/damaged.db"


def url(text: str) -> Callable[[Path], str]:
    return lambda _folder: text


NEITHER: dict[str, tuple[Callable[[Path], str], str]] = {
    "missing directory": (missing_directory, "/none; create it, or name another"),
    "directory": (directory, "it is a directory, and only a regular file is read; name one"),
    "pipe": (pipe, "it is a named pipe"),
    "text": (text, "file is not a database); name the store that is meant"),
    "another program": (of_another_program, "it is the database of another program; name another file"),
    "newer": (of_version(9), "schema version 9 and this cogstep knows version 1; use the cogstep that made it"),
    "older": (of_version(0), "schema version 0 and this cogstep knows version 1; use the cogstep that made it"),
    "damaged": (damaged, "malformed"),
    "mysql": (url(f"mysql://ada:{PASSWORD}@h/d"), "a store can't be at mysql:; expected one such as"),
    "misspelt": (url(f"postgrsql://ada:{PASSWORD}@h/d"), "a store can't be at postgrsql:; expected one such as"),
    "another driver": (url(f"postgresql+psycopg2://ada:{PASSWORD}@h/d"), "a store can't be at postgresql+psycopg2:"),
    "two strokes": (url("sqlite://sessions.db"), "SQLite's URL needs the path of a file"),
    "options": (url("sqlite:///s.db?mode=memory"), "nothing may stand behind the path of SQLite's file"),
    "no such option": (url(f"postgres://ada:{PASSWORD}@127.0.0.1:1/d?plum=1"), "leave that option out"),
    "no server": (url(f"postgres://ada:{PASSWORD}@127.0.0.1:1/d"), "start PostgreSQL there, or name the store"),
    "no such host": (url(f"postgres://ada:{PASSWORD}@none.invalid/d"), "see how the host is spelt"),
}


def wrong_password(_folder: Path) -> str:
    return postgres().url_with("wrong-one")


def no_database(_folder: Path) -> str:
    return postgres().url.replace("/postgres", "/none")


def no_user(_folder: Path) -> str:
    return postgres().url.replace("//cogstep", "//nobody")


ON_SERVER: dict[str, tuple[Callable[[Path], str], str]] = {
    "wrong password": (wrong_password, "see that the user and PGPASSWORD or ~/.pgpass are right"),
    "no database": (no_database, 'database "none" does not exist); make it with `createdb`'),
    "no user": (no_user, "see that the user and PGPASSWORD"),
}


def cases() -> Iterator[Any]:
    yield pytest.param(missing_file, "there is no such file; name the one that is meant", READS, id="missing file")
    yield pytest.param(url("sessions.db"), "this is no URL; expected one such as sqlite:///", READS, id="no scheme")
    for name, (make, said) in NEITHER.items():
        yield pytest.param(make, said, [*READS, *WRITES], id=name)
    for name, (make, said) in ON_SERVER.items():
        yield pytest.param(make, said, [*READS, *WRITES], id=name, marks=needs_postgres)


@pytest.fixture
def recorded(here: Cogstep) -> None:
    given = {"replies": [call("calculate", expression="17 * 23"), "391."]}
    assert here("run", "17 * 23?", "--record", "a.jsonl", **given).returncode == 0
    assert here("sessions", "copy", "a.jsonl", "--to", "sqlite:///sessions.db").returncode == 0


@pytest.mark.parametrize(("make", "said", "commands"), list(cases()))
def test_every_command_tells_it_in_a_line_and_changes_nothing(
    make: Callable[[Path], str],
    said: str,
    commands: list[tuple[str, ...]],
    here: Cogstep,
    recorded: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = make(tmp_path)
    before = contents(tmp_path)
    for command in commands:
        to = "--to" if command == WRITES[1] else "--store"
        done = here(*command, to, store, replies=["Hello."])
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), (command, done)
        assert done.stderr.startswith("cogstep: "), command
        assert said in done.stderr, command
        assert PASSWORD not in done.stderr
        assert "wrong-one" not in done.stderr
    if make is not missing_file:
        for what in (
            list_sessions,
            lambda place: search_sessions("plum", place),
            lambda place: prune_sessions(place, keep=1),
        ):
            with pytest.raises(CogstepError) as caught:
                list(what(SqlStore(store)))
            assert said in str(caught.value)
            assert "\n" not in str(caught.value)
    assert contents(tmp_path) == before


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and "home" not in path.parts}


def test_a_database_that_another_process_has_for_itself_is_told(
    here: Cogstep, recorded: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied_to(tmp_path / "held.db").close()
    store = f"sqlite:///{tmp_path}/held.db"
    with monkeypatch.context() as impatient, closing(sqlite3.connect(tmp_path / "held.db")) as other:
        impatient.setattr(database, "BUSY", 0.01)
        other.execute("BEGIN EXCLUSIVE")
        for command in [("sessions", "list"), ("replay", "a"), ("run", "Hi!", "--record", "b")]:
            done = here(*command, "--store", store, replies=["Hello."])
            assert (done.returncode, done.stderr.count("\n")) == (2, 1), done
            assert "another process has been writing to it for long; see which" in done.stderr
    done = here("replay", "a", "--store", store)
    assert done.returncode == 0, done


def test_what_is_not_installed_is_told(here: Cogstep, recorded: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("interpreters.recording.store")]:
        monkeypatch.delitem(sys.modules, name)
    for command in READS:
        done = here(*command, "--store", "sqlite:///sessions.db", without=["sqlalchemy"])
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert install_line("sql") in done.stderr


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root may read and write everything."""
    own = os.geteuid()
    if own == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        if own == 0:
            os.seteuid(0)


@pytest.mark.parametrize(
    ("mode", "said"),
    [(0o000, "see that this user may read it"), (0o444, "name one that this user can write")],
    ids=["unreadable", "read-only"],
)
def test_a_file_that_may_not_be_used_is_told(
    mode: int, said: str, here: Cogstep, recorded: None, tmp_path: Path
) -> None:
    with tempfile.TemporaryDirectory() as folder:  # where another user than root gets to
        path = Path(folder, "kept.db")
        os.chmod(folder, 0o755)
        copied_to(tmp_path / "kept.db").close()
        shutil.copyfile(tmp_path / "kept.db", path)
        path.chmod(mode)
        store = SqlStore(f"sqlite:///{path}")
        use: Callable[[], Any] = store.join if mode else store.check_there
        with as_nobody():
            if mode:
                assert list(store.names()) == ["a"]
            with pytest.raises(CogstepError, match=said) as caught:
                use()
        assert "\n" not in str(caught.value)


def takes_a_recording(command: argparse.ArgumentParser) -> bool:
    """Whether a command is given recordings, by the words of its help."""
    return any(one.dest in ("file", "record", "places") and "record" in (one.help or "") for one in command._actions)


def commands_of(command: argparse.ArgumentParser, name: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    yield name, command
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one, under in action.choices.items():
                yield from commands_of(under, f"{name} {one}".strip())


def test_whatever_takes_a_recording_takes_one_in_a_store() -> None:
    found = {
        name: any(one.dest == "store" for one in command._actions)
        for name, command in commands_of(parser())
        if takes_a_recording(command)
    }
    assert all(found.values()), found
    used = {" ".join(command[:2] if command[0] == "sessions" else command[:1]) for command in READS + WRITES}
    assert set(found) - used == {"chat"}  # which records as `run` does
