"""Notes: what is remembered is found again, by the words it holds, also in another process's life."""

import contextlib
import doctest
import gc
import os
import sqlite3
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from runtime import Memory, MemoryStoreError, Notes
from runtime.stores import notes as memory


def test_the_example_runs() -> None:
    assert doctest.testmod(memory).failed == 0


@given(st.text(), st.lists(st.text(min_size=1), max_size=8))
def test_any_query_gives_notes_and_no_error(query: str, texts: list[str]) -> None:
    """Quotes, operators of the search language, half of a pair, nothing at all: a query is words and never syntax."""
    with Notes() as notes:
        for text in texts:
            notes.remember(text)
        found = notes.recall(query)

    assert set(found) <= {text.encode("utf-8", "replace").decode() for text in texts}
    assert len(found) == len(set(found)) <= memory.FOUND


@given(st.lists(st.from_regex(r"[a-z]{3,8}( [a-z]{3,8}){0,4}", fullmatch=True), min_size=1, max_size=5, unique=True))
def test_a_note_is_found_by_what_it_says(texts: list[str]) -> None:
    """Whatever else is there, up to what one search gives."""
    with Notes() as notes:
        for text in texts:
            notes.remember(text)
            notes.remember(text)

        assert all(text in notes.recall(text) for text in texts)


def test_notes_outlive_their_process(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    with Notes(path) as notes:
        notes.remember("The door code is 4711.")
    with Notes(path) as again:
        assert again.recall("door codes?") == ("The door code is 4711.",)
        assert isinstance(again, Memory)


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    """With the file's name and what to do."""
    path = tmp_path / "text.txt"
    path.write_text("This is no database, however long it is read. " * 50)

    with pytest.raises(MemoryStoreError, match=r"text\.txt.*give another file"):
        Notes(path)
    with pytest.raises(MemoryStoreError, match="missing"):
        Notes(tmp_path / "missing" / "notes.db")
    closed = Notes()
    closed.close()
    closed.close()
    for use in (closed.remember, closed.recall):
        with pytest.raises(MemoryStoreError):
            use("text")


@pytest.mark.parametrize("words", [b"CREATE TABLE notes", b"CREATE VIRTUAL TABLE"])
def test_a_file_whose_damage_is_no_text_is_refused(tmp_path: Path, words: bytes) -> None:
    """SQLite repeats it in what it says, which is no UTF-8 then."""
    path = tmp_path / "notes.db"
    with Notes(path) as notes:
        notes.remember("The door code is 4711.")
    content = path.read_bytes()
    assert words in content
    path.write_bytes(content.replace(words, words.replace(b"TABLE", b"TABL\xe4")))

    with pytest.raises(MemoryStoreError, match=r"notes\.db can't be used .*give another file"):
        Notes(path)


def test_notes_may_be_used_from_several_threads() -> None:
    with Notes() as notes:
        threads = [threading.Thread(target=notes.remember, args=(f"note number {n}",)) for n in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert all(notes.recall(str(n)) == (f"note number {n}",) for n in range(20))


@pytest.mark.skipif(sys.platform != "linux", reason="/proc says which descriptors are open")
def test_notes_that_are_dropped_leave_no_descriptor(tmp_path: Path) -> None:
    """Though nobody collects the garbage: a connection holds itself."""
    gc.collect()
    gc.disable()
    try:
        before = len(os.listdir("/proc/self/fd"))
        for number in range(20):
            Notes(tmp_path / f"{number}.db").remember("The cat is called Miu.")
        assert len(os.listdir("/proc/self/fd")) == before
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "planted",
    [
        "CREATE VIEW words AS SELECT 1 AS text",
        "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT, more TEXT)",
        "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE); "
        "CREATE TRIGGER more AFTER INSERT ON notes BEGIN DELETE FROM notes; END",
    ],
)
def test_somebody_elses_tables_are_no_notes(tmp_path: Path, planted: str) -> None:
    """What is defined in a file is run by whoever searches it: a view may count for ever, a trigger delete."""
    path = tmp_path / "notes.db"
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.executescript(planted)

    with pytest.raises(MemoryStoreError, match="give another file"):
        Notes(path)


def test_a_program_s_own_tables_may_stand_beside_notes(tmp_path: Path) -> None:
    path = tmp_path / "program.db"
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.executescript("CREATE TABLE orders (id INTEGER); CREATE INDEX by_id ON orders(id)")

    with Notes(path) as notes:
        notes.remember("The cat is called Miu.")
        assert notes.recall("cat")


def test_a_note_that_is_too_long_is_refused(tmp_path: Path) -> None:
    """Whoever reads it would need room for it."""
    with Notes(tmp_path / "notes.db") as notes, pytest.raises(MemoryStoreError):
        notes.remember("x" * (memory.LONGEST + 1))


@pytest.mark.parametrize("lines", [10, 3000])
def test_a_question_behind_a_long_log_finds_its_note(lines: int) -> None:
    """Of many words the rarest that occur count; those that occur nowhere, and repeated ones, take no place."""
    with Notes() as notes:
        for number in range(60):
            notes.remember(f"server request {'x' * number}")
        notes.remember("Ada likes plums.")
        log = "\n".join(f"{number:08x} the server request {number}" for number in range(lines))

        assert notes.recall(f"{log}\nWho likes plums?")[0] == "Ada likes plums."
        assert notes.recall(f"Who likes plums?\n{log}")[0] == "Ada likes plums."
        assert notes.recall("nowhere " * 30) == ()
