"""A memory that stays open finds what one that is opened anew finds, whatever happens to its files in between."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import example, given, settings, strategies as st

from runtime import MemoryFolder

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
