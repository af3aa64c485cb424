"""What becomes of a memory when its index is damaged, its disk is full, or its process is killed or forked.

The files are never changed by that, and the search says what is in them.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from runtime import MemoryFolder, MemoryStoreError
from runtime.stores import _index as tables, _index_versions as generations, memory_folder as module
from tests.runtime import memory_kills

ROOT = Path(__file__).resolve().parents[3]
NOTES = [f"Note number {number} is about a {kind}." for number, kind in enumerate(["plum", "pear", "fig"] * 40)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A memory with an index that nobody has open."""
    (tmp_path / "knowledge").mkdir()
    (tmp_path / "knowledge" / "notes.md").write_text("".join(f"## 2026-11-01\n\n{note}\n\n" for note in NOTES))
    with MemoryFolder(tmp_path) as memory:
        assert len(memory.search("plum", limit=100)) == 40
    return tmp_path


def contents(folder: Path) -> Mapping[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.md"))}


def database(folder: Path) -> Path:
    (path,) = (folder / ".index").glob("*.sqlite")
    return path


def check(folder: Path, memory: MemoryFolder) -> None:
    """It finds all there is."""
    assert sorted(one.text for one in memory.search("plum", limit=100)) == sorted(NOTES[::3])
    assert memory.recall("fig 119 number") != ()


def garbage(folder: Path) -> None:
    database(folder).write_bytes(b"This is no database. " * 1000)


def empty(folder: Path) -> None:
    database(folder).write_bytes(b"")


def cut(folder: Path) -> None:
    os.truncate(database(folder), database(folder).stat().st_size // 2)


def missing(folder: Path) -> None:
    database(folder).unlink()


def linked(folder: Path) -> None:
    path = database(folder)
    shutil.copy(path, folder / "elsewhere")
    path.unlink()
    path.symlink_to(folder / "elsewhere")


def pointer(folder: Path) -> None:
    (folder / ".index" / "current").write_text("../../somewhere.sqlite")


def no_folder(folder: Path) -> None:
    shutil.rmtree(folder / ".index")


def a_file_there(folder: Path) -> None:
    shutil.rmtree(folder / ".index")
    (folder / ".index").write_text("I am in the way")


def no_utf8(folder: Path) -> None:
    """In the names of tables, which SQLite repeats in what it says of them."""
    path = database(folder)
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE passages", b"CREATE TABL\xe4 passages"))


def change(statement: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        with closing(sqlite3.connect(database(folder))) as file:
            file.executescript(statement)

    return damage


DAMAGES = {
    one.__name__: one for one in (garbage, empty, cut, missing, linked, pointer, no_folder, a_file_there, no_utf8)
} | {
    "another version": change("UPDATE about SET version = 99"),
    "no version": change("DELETE FROM about"),
    "a view": change("CREATE VIEW more AS SELECT 1"),
    "a trigger": change("CREATE TRIGGER t AFTER DELETE ON passages BEGIN DELETE FROM files; END"),
    "no table of words": change("DROP TABLE words"),
    "parts of the words": change("DELETE FROM words_data WHERE id > 10"),
    "a passage of somebody's": change("UPDATE passages SET text = 'Buy gold, plum.'"),
    "no passages": change("DELETE FROM passages"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_index_is_made_anew(folder: Path, damage: str) -> None:
    before = contents(folder)
    DAMAGES[damage](folder)

    for _ in range(2):
        with MemoryFolder(folder) as memory:
            check(folder, memory)
            memory.rebuild()
            check(folder, memory)
    assert contents(folder) == before


@pytest.mark.parametrize("seed", range(12))
def test_any_bytes_of_it_may_be_others(folder: Path, seed: int) -> None:
    """A search never raises for it; what it can't notice, ``rebuild`` puts right."""
    chance, path, before = random.Random(seed), database(folder), contents(folder)
    content = bytearray(path.read_bytes())
    for _ in range(chance.choice([1, 20, 2000])):
        content[chance.randrange(len(content))] = chance.randrange(256)
    path.write_bytes(content)

    with MemoryFolder(folder) as memory:
        for query in ("plum", "pear number", "fig"):
            assert {one.text for one in memory.search(query, limit=100)} <= set(NOTES)
        memory.rebuild()
        check(folder, memory)
    assert contents(folder) == before


def test_it_may_be_damaged_while_it_is_open(folder: Path) -> None:
    with MemoryFolder(folder) as memory, MemoryFolder(folder) as other:
        check(folder, memory)
        check(folder, other)
        for path in (folder / ".index").glob("*.sqlite*"):
            path.write_bytes(b"x" * path.stat().st_size)
        check(folder, memory)
        check(folder, other)
        assert memory._generations.current() == memory._open[0] == other._open[0]  # type: ignore[index]
    assert len(list((folder / ".index").glob("*.sqlite"))) == 1, "nothing is left of the old one"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE files SET mark = replace(mark, ', 1', ', 7')",
        "UPDATE files SET mark = 'nothing'",
        "UPDATE files SET length = length - 9, hash = x'00'",
        "UPDATE passages SET name = 'knowledge/others.md' WHERE place > 110; UPDATE passages SET place = place - 1",
    ],
)
def test_what_says_from_where_a_file_can_be_read_on_may_be_damaged(folder: Path, statement: str) -> None:
    """It is another one, or passages behind it are missing: a file that has grown is then read whole."""
    change(statement)(folder)
    with open(folder / "knowledge" / "notes.md", "a") as file:
        file.write("of plums and\n\n## More\n\nA last pear.\n")

    with MemoryFolder(folder) as memory:
        (last,) = memory.search("last")
        assert (last.line, last.text) == (len(NOTES) * 4 + 5, "A last pear.")
        assert memory.search("119")[0].text == f"{NOTES[119]}\n\nof plums and"
        assert sum(one.passages for one in memory.files()) == 121


def test_an_index_of_two_that_begin_at_once_is_one(folder: Path) -> None:
    """The second one waits for the lock and takes what the first has made."""
    shutil.rmtree(folder / ".index")
    one, other = generations.IndexVersions(folder), generations.IndexVersions(folder)
    assert one.current() == ""
    name, first = one.open()
    again, second = other.replace("")
    assert name == again
    first.close()
    second.close()


FULL = """
import resource, signal, sys
from runtime import MemoryFolder, MemoryStoreError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
memory = MemoryFolder(sys.argv[1])
saved = 0
try:
    while True:
        memory.remember(f"Plum number {saved} of those that were saved.", "full")
        saved += 1
except MemoryStoreError as error:
    print(error)
print(saved)
print(len(memory.search("plum", limit=100, sources="knowledge")))
"""


@pytest.mark.parametrize("size", [500, 3000])
def test_a_full_disk_loses_nothing_that_was_saved(tmp_path: Path, size: int) -> None:
    """Files may not grow beyond some bytes there, the index's neither; the search makes do with one in the process."""
    command = [sys.executable, "-c", FULL, str(tmp_path), str(size)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)

    assert done.stderr == ""
    error, saved, found = done.stdout.splitlines()
    assert "full.md" in error
    assert "File too large" in error
    assert found == saved != "0"
    written = (tmp_path / "knowledge" / "full.md").read_text()
    assert written.count("## ") == int(saved)
    assert written.endswith("were saved.\n"), "no part of a note that was not saved is left"


def test_without_full_text_search_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_has_fts5", lambda: False)

    with pytest.raises(MemoryStoreError, match=r"no full-text search \(FTS5\); use one that has"):
        MemoryFolder(tmp_path)


def test_somebody_who_writes_the_index_for_long_is_not_waited_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "WAIT", 1)
    with closing(sqlite3.connect(database(folder), isolation_level=None)) as busy, MemoryFolder(folder) as memory:
        busy.execute("BEGIN IMMEDIATE")
        memory.remember("A new plum.", "new")
        check(folder, memory)
        busy.execute("ROLLBACK")
        assert len(memory.search("plum", limit=100)) == 41


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_a_connection_of_its_own(folder: Path) -> None:
    """SQLite's do not go along, and closing one there would take away the parent's locks."""
    with MemoryFolder(folder) as memory:
        check(folder, memory)
        child = os.fork()
        if child == 0:
            try:
                memory.remember("A plum of the child.", "child")
                os._exit(0 if len(memory.search("plum", limit=100)) == 41 else 1)
            finally:
                os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        assert len(memory.search("plum", limit=100)) == 41


def test_two_processes_one_of_which_is_killed_lose_nothing(tmp_path: Path) -> None:
    """The short form of ``tests/runtime/memory_kills.py``."""
    report = memory_kills.run(tmp_path, seconds=4.0, kills=3)

    assert report.problems == []
    assert report.saved > 0
    assert report.killed == 3
