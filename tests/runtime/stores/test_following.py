"""A memory that stays open finds what one that is opened anew finds, whatever happens to its files in between."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

from hypothesis import example, given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from runtime import MemoryFolder
from runtime.stores import _file_snapshot as present
from runtime.stores._index import Index
from tests.runtime.stores.test_markdown_entries import PARTS

WORDS = ("plum", "pear", "baker", "port", "staging", "invoice", "locker")
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
FILES = st.sampled_from(
    ("knowledge/a.md", "knowledge/b.md", "knowledge/in/c.md", "episodes/2026-11-25.md", "knowledge/.d.md")
)
QUERIES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3, unique=True).map(" ".join)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("remember", "write", "append", "swap", "delete", "rename", "back in time")),
        FILES,
        TEXTS,
        QUERIES,
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=40, deadline=None)
@given(STEPS)
@example([("write", "knowledge/a.md", "plum", "plum"), *[("swap", "knowledge/a.md", "", "plum pear")] * 5])
def test_what_is_found_is_what_the_files_hold(steps: list[tuple[str, str, str, str]]) -> None:
    """Notes of its own, and what editors do: also within the second, to the same length, and with an older time."""
    with TemporaryDirectory() as directory:
        folder = Path(directory, "memory")
        with MemoryFolder(folder) as memory:
            for place, (what, name, text, query) in enumerate(steps):
                act(memory, folder, what, name, text)
                assert found(memory, query) == anew(folder, Path(directory, str(place)), query), (what, name)


def act(memory: MemoryFolder, folder: Path, what: str, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    section = f"## {text}\n\n{text}\n\n"
    if what == "remember":
        memory.remember(text, topic="notes")
    elif what == "append":
        with path.open("a", encoding="utf-8") as file:
            file.write(section)
    elif what == "write" or not path.exists():
        path.write_text(section * 2, encoding="utf-8")
    elif what == "swap":
        old = path.read_text("utf-8")
        path.write_text(old.replace("plum", "PEAR").replace("pear", "plum").replace("PEAR", "pear"), encoding="utf-8")
    elif what == "delete":
        path.unlink()
    elif what == "rename":
        path.rename(path.with_name(f"z{path.name}"))
    else:
        path.write_text(section, encoding="utf-8")
        os.utime(path, (1_000_000_000, 1_000_000_000))


def found(memory: MemoryFolder, query: str) -> list[tuple[str, int, str]]:
    return [(one.file, one.line, one.text) for one in memory.search(query, limit=50)]


def anew(folder: Path, copy: Path, query: str) -> list[tuple[str, int, str]]:
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns(".index", ".lock*"))
    with MemoryFolder(copy) as memory:
        return found(memory, query)


NAMES = st.sampled_from(("episodes/2026-11-25.md", "episodes/2026-11-25.md", "knowledge/a.md", "outcomes/b.md"))
SECTIONS = st.lists(TEXTS, min_size=1, max_size=3).map(lambda texts: "".join(f"## {one}\n\n{one}\n\n" for one in texts))
LATER = 10 * present.RACY


class Files(RuleBasedStateMachine):
    """Files that are appended to, and changed in every other way, below two connections to one index.

    After each change the index holds, to the letter, what one that is made of the files as they are then holds.
    """

    @initialize(content=PARTS | SECTIONS.map(str.encode), kept=st.sampled_from((present.HELD, 2_000)))
    def begin(self, content: bytes, kept: int) -> None:
        self.kept = mock.patch.object(present, "HELD", kept)
        self.kept.start()
        self.place = TemporaryDirectory()
        self.folder = Path(self.place.name)
        for name in ("episodes", "knowledge", "outcomes"):
            (self.folder / name).mkdir()
        (self.folder / "episodes" / "2026-11-25.md").write_bytes(content)
        self.index, self.other = self.opened(), self.opened()
        self.later = False

    def follow(self, index: Index) -> None:
        if self.later:
            index._settled = None  # it counts in whole seconds, and what comes next really comes at once
        index.follow(self.folder)

    def opened(self) -> Index:
        return Index(self.folder / "index.sqlite")

    def teardown(self) -> None:
        if hasattr(self, "place"):
            self.index.close()
            self.other.close()
            self.kept.stop()
            self.place.cleanup()

    def content(self, name: str) -> bytes:
        path = self.folder / name
        return path.read_bytes() if path.exists() else b""

    @rule(name=NAMES, part=PARTS | SECTIONS.map(str.encode))
    def append(self, name: str, part: bytes) -> None:
        with (self.folder / name).open("ab") as file:
            file.write(part)

    @rule(
        name=NAMES, at=st.floats(0, 1), by=st.sampled_from((b"#", b"\n", b"plum", b"\xff")), part=st.just(b"") | PARTS
    )
    def overwrite(self, name: str, at: float, by: bytes, part: bytes) -> None:
        """In its middle, to the same length, and append to it as well before anybody looks."""
        content = self.content(name)
        if len(content) > len(by):
            with (self.folder / name).open("r+b") as file:
                file.seek(int(at * (len(content) - len(by))))
                file.write(by)
                file.seek(0, os.SEEK_END)
                file.write(part)

    @rule(name=NAMES, at=st.floats(0, 1), part=st.just(b"") | PARTS)
    def truncate(self, name: str, at: float, part: bytes) -> None:
        content = self.content(name)
        (self.folder / name).write_bytes(content[: int(at * len(content))] + part)

    @rule(name=NAMES, at=st.floats(0, 1), part=PARTS, back=st.booleans())
    def replace(self, name: str, at: float, part: bytes, back: bool) -> None:
        """By another file, as editors do, which may have the time of the old one."""
        path, content = self.folder / name, self.content(name)
        new = path.with_suffix(".new")
        cut = int(at * len(content))
        new.write_bytes(content[:cut] + part + content[cut:])
        if back and path.exists():
            about = path.stat()
            os.utime(new, ns=(about.st_atime_ns, about.st_mtime_ns))
        new.replace(path)

    @rule(name=NAMES)
    def set_its_time_back(self, name: str) -> None:
        if self.content(name):
            os.utime(self.folder / name, (1_000_000_000, 1_000_000_000))

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)

    @rule(one=NAMES, other=NAMES)
    def rename(self, one: str, other: str) -> None:
        if (self.folder / one).exists():
            (self.folder / one).replace(self.folder / other)

    @rule()
    def let_another_process_follow(self) -> None:
        self.follow(self.other)

    @rule()
    def open_it_anew(self) -> None:
        self.index.close()
        self.index = self.opened()

    @rule()
    def look_later(self) -> None:
        """When the times of files tell that they did not change again."""
        time.sleep(0.02)  # the clock of the file system may go on in steps of 10 ms
        with mock.patch.object(present.time, "time_ns", return_value=time.time_ns() + LATER):
            self.follow(self.index)
        self.later = True

    @invariant()
    def what_is_indexed_is_what_the_files_hold(self) -> None:
        if hasattr(self, "place"):
            anew = Index(None)
            anew.follow(self.folder)
            self.follow(self.index)
            assert held(self.index) == held(anew)
            anew.close()


def held(index: Index) -> tuple[list[object], dict[str, object]]:
    """All that an index holds but for numbers and times."""
    rows = index._file.execute(
        "SELECT name, place, line, day, passages.title, passages.text, source, hash, words.title, words.text "
        "FROM passages JOIN words ON words.rowid = passages.id ORDER BY name, place"
    ).fetchall()
    files = {name: (one.length, one.hash, one.problem, one.passages, one.mark) for name, one in index.files().items()}
    return rows, files


TestFiles = Files.TestCase
TestFiles.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
