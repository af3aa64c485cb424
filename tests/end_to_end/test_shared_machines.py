"""What is written on a machine that others use too: it is the user's alone, and follows nobody's links.

One line more in ``WRITERS`` is a surface more, tried with every planted link, every odd file and every umask.
"""

from __future__ import annotations

import io
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import pytest

from cognition import CogstepError
from interpreters import Agent
from interpreters.cli.main import main
from interpreters.cli.screen import line_input as lines
from interpreters.recording.journal.payloads import LARGE
from interpreters.testing.cassettes.tape import Tape, write_tape
from interpreters.testing.fakes import ScriptedModel
from runtime import Notes
from runtime.models.saved_cache import SavedPrefix, write
from tests.interpreters.journals import small
from tests.odd_files import ODD_FILES, PLANTED, UMASKS

LONG = "x" * LARGE
NAME = sha256(LONG.encode()).hexdigest()


def record(path: Path) -> None:
    with Agent(ScriptedModel(["Hello!"], context_tokens=10**6), journal=path) as agent:
        agent.run(LONG)


def resume(path: Path) -> None:
    with Agent.resume(path, ScriptedModel(["Hello!"], context_tokens=10**6)) as agent:
        agent.run(LONG)


def fork(path: Path) -> None:
    source = small(path.with_name(f"source of {path.name}"))
    with Agent.fork(source, ScriptedModel(["Again!"], context_tokens=10**6), journal=path) as agent:
        agent.run(LONG)


def beside(path: Path) -> None:
    """A session beside whose journal something stands where its payloads go."""
    record(path.parent / path.name.removesuffix(".payloads"))


def within(path: Path) -> None:
    """A session in whose directory of payloads something stands."""
    record(path.parent.parent / path.parent.name.removesuffix(".payloads"))


def notes(path: Path) -> None:
    with Notes(path) as store:
        store.remember("The cat is called Miu.")


def notes_beside(path: Path) -> None:
    notes(path.with_name(path.name.removesuffix("-journal").removesuffix("-wal").removesuffix("-shm")))


def cache(path: Path) -> None:
    write(SavedPrefix((1, 2), memoryview(b"state"), {"model": "m"}), path)


def cassette(path: Path) -> None:
    write_tape(path, Tape())


def export(path: Path) -> None:
    source = small(path.with_name(f"source of {path.name}"))
    if main(["sessions", "export", str(source), "--output", str(path)]):
        raise CogstepError("refused")


def history(path: Path) -> None:
    readline = pytest.importorskip("readline")
    readline.add_history("a line")
    with lines._keep_history(path):
        pass


WRITERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a recording": ("s.jsonl", record),
    "a fork": ("f.jsonl", fork),
    "the directory of payloads": ("s.jsonl.payloads", beside),
    "a payload": (f"s.jsonl.payloads/{NAME}", within),
    "a payload that is being written": (f"s.jsonl.payloads/{NAME}.part", within),
    "notes": ("notes.db", notes),
    "the journal of notes": ("notes.db-journal", notes_beside),
    "another program's log of notes": ("notes.db-wal", notes_beside),
    "another program's index of notes": ("notes.db-shm", notes_beside),
    "a saved cache": ("cache", cache),
    "a cassette": ("c.json", cassette),
    "an export": ("export.json", export),
    "the history of a chat": ("state/chat_history", history),
}
"""Each surface that writes: the name of what it writes, and what has it written."""

GOING_ON = {"resume": ("s.jsonl", resume)}
"""And those that write what is there already."""

surfaces = pytest.mark.parametrize(("name", "use"), (WRITERS | GOING_ON).values(), ids=WRITERS | GOING_ON)


def everything_in(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode,
            path.read_bytes() if path.is_file() and not path.is_symlink() else b"",
        )
        for path in sorted(folder.rglob("*"))
    }


@pytest.mark.parametrize("umask", UMASKS, ids=oct)
@pytest.mark.parametrize(("name", "use"), WRITERS.values(), ids=WRITERS)
def test_what_is_written_is_the_users_alone(
    tmp_path: Path, name: str, use: Callable[[Path], object], umask: int
) -> None:
    """Files 0600, directories 0700, whatever the umask allows or forbids."""
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o755)
    before = os.umask(umask)
    try:
        use(folder / name)
    finally:
        os.umask(before)

    modes = {str(path.relative_to(folder)): stat.S_IMODE(path.lstat().st_mode) for path in folder.rglob("*")}
    expected = {path: 0o700 if (folder / path).is_dir() else 0o600 for path in modes}
    assert modes == expected
    assert modes


def test_a_recording_that_begins_in_an_empty_file_is_the_users_alone(tmp_path: Path) -> None:
    """As ``touch`` or ``mktemp`` leaves one. Of a recording that is there the mode is the user's own choice."""
    path = tmp_path / "s.jsonl"
    path.touch(mode=0o644)
    record(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600

    path.chmod(0o640)
    resume(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
@surfaces
def test_nothing_is_written_through_a_planted_link(
    tmp_path: Path, name: str, use: Callable[[Path], object], plant: Callable[[Path, Path], object]
) -> None:
    """What it leads to stays as it was: the surface refuses in plain words, or puts its own in the link's place."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    victim = small(elsewhere / "victim.jsonl") if use is resume else elsewhere / "victim"
    if use is not resume:
        victim.write_bytes(b"")  # as empty as what a session begins in
    path = tmp_path / "folder" / name
    path.parent.mkdir(parents=True, mode=0o700)
    plant(path, victim)
    before = everything_in(elsewhere)

    with suppress(CogstepError):
        use(path)

    assert everything_in(elsewhere) == before


@surfaces
def test_a_link_that_leads_nowhere_makes_nothing(tmp_path: Path, name: str, use: Callable[[Path], object]) -> None:
    """Else whoever plants it chooses where a file comes to be."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    path = tmp_path / "folder" / name
    path.parent.mkdir(parents=True, mode=0o700)
    path.symlink_to(elsewhere / "target")

    with suppress(CogstepError):
        use(path)

    assert everything_in(elsewhere) == {}


BESIDE = {name: surface for name, surface in WRITERS.items() if surface[1] in (beside, notes_beside)}
"""What stands beside the file that a program has named."""


@pytest.mark.parametrize(("name", "use"), BESIDE.values(), ids=BESIDE)
def test_an_error_names_the_file_that_is_wrong(tmp_path: Path, name: str, use: Callable[[Path], object]) -> None:
    """Not the one beside which it is: "delete it" would cost whoever does so a recording."""
    path = tmp_path / name
    path.symlink_to(tmp_path / "target")
    with pytest.raises(CogstepError, match=rf"{re.escape(name)}: it is "):
        use(path)


@pytest.mark.parametrize("kind", ["directory", "link to a directory"])
@surfaces
def test_a_directory_in_the_place_of_a_file_gets_nothing(
    tmp_path: Path, name: str, use: Callable[[Path], object], kind: str
) -> None:
    """A link to a directory is one, too."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    path = tmp_path / "folder" / name
    path.parent.mkdir(parents=True, mode=0o700)
    path.symlink_to(elsewhere) if kind.startswith("link") else path.mkdir(mode=0o700)

    with suppress(CogstepError):
        use(path)

    assert everything_in(elsewhere) == {}


@pytest.mark.parametrize("kind", [kind for kind in ODD_FILES if kind != "huge file"])
@surfaces
def test_what_is_no_file_is_refused_at_once(
    tmp_path: Path, name: str, use: Callable[[Path], object], kind: str
) -> None:
    """A pipe would be waited for. The error is one of ours; a payload's place is cleared, as its directory is ours."""
    path = tmp_path / "folder" / name
    path.parent.mkdir(parents=True, mode=0o700)
    ODD_FILES[kind](path)

    with suppress(CogstepError):
        use(path)


@surfaces
def test_what_belongs_to_another_user_is_not_written(
    tmp_path: Path, name: str, use: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They could read what goes there."""
    path = small(tmp_path / "s.jsonl") if use is resume else tmp_path / "folder" / name
    if use is not resume:
        path.parent.mkdir(parents=True, mode=0o700)
        if name.endswith(".payloads"):
            path.mkdir()
        else:
            path.touch()
    before = path.read_bytes() if path.is_file() else b""
    about = os.stat

    def theirs(what: Path | str, **options: object) -> os.stat_result:
        found = about(what, **options)  # type: ignore[arg-type]  # passed on as they came
        ours = Path(os.fspath(what)).name != path.name if not isinstance(what, int) else True
        return found if ours else os.stat_result((*found[:4], found.st_uid + 1, *found[5:]))

    monkeypatch.setattr(os, "stat", theirs)
    with suppress(CogstepError):
        use(path)
    monkeypatch.undo()

    if path.parent.name.endswith(".payloads"):
        return  # in a directory of ours, from which it goes
    assert path.is_dir() or path.read_bytes() == before


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[None]:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    yield
    capsys.readouterr()
