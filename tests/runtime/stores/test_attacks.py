"""What a killed process leaves of an index, and worse: no file is touched, and all that is in them is found."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from runtime import MemoryFolder

ROOT = Path(__file__).resolve().parents[3]
PAGE = 4096


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A memory of forty notes, with an index."""
    place = tmp_path / "memory"
    (place / "knowledge").mkdir(parents=True)
    notes = "".join(f"## 2026-11-{number % 28 + 1:02}\n\nPlum {number}.\n\n" for number in range(40))
    (place / "knowledge" / "notes.md").write_text(notes)
    with MemoryFolder(place) as memory:
        assert len(memory.search("plum", limit=100)) == 40
    return place


def contents(folder: Path) -> Mapping[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*.md")) if path.is_file()}


WRITER = """
import os, signal, sys
from runtime import MemoryFolder  # noqa: E402 - below the line above
memory = MemoryFolder(sys.argv[1])
for number in range(5):
    memory.remember(f"Plum of the killed one, number {number}.", "killed")
    memory.search("plum")
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(folder: Path) -> None:
    """A process that is killed leaves its write-ahead log."""
    done = subprocess.run([sys.executable, "-c", WRITER, str(folder)], cwd=ROOT, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL
    assert list((folder / ".index").glob("*-wal")) != []


def each(change: Callable[[bytearray], None], pattern: str = "*.sqlite*") -> Callable[[Path], None]:
    """Change the content of the index's files, the log of a killed process among them."""

    def attack(folder: Path) -> None:
        killed(folder)
        for path in (folder / ".index").glob(pattern):
            content = bytearray(path.read_bytes())
            change(content)
            path.write_bytes(content)

    return attack


def zero_pages(content: bytearray) -> None:
    for at in range(PAGE, len(content) - PAGE, 2 * PAGE):
        content[at : at + PAGE] = bytes(PAGE)


def half(content: bytearray) -> None:
    del content[len(content) // 2 :]


def noise(content: bytearray) -> None:
    chance = random.Random(17)
    for _ in range(min(500, len(content))):
        content[chance.randrange(len(content))] = chance.randrange(256)


ATTACKS: Mapping[str, Callable[[Path], None]] = {
    "a kill": killed,
    "a log that is cut": each(half, "*-wal"),
    "a log with other bytes": each(noise, "*-wal"),
    "a log of zeros": each(zero_pages, "*-wal"),
    "pages of zeros": each(zero_pages),
    "all cut": each(half),
    "a shared index with other bytes": each(noise, "*-shm"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_index_is_made_anew_and_no_file_is_touched(folder: Path, attack: str) -> None:
    ATTACKS[attack](folder)
    before = contents(folder)
    with MemoryFolder(folder) as memory:
        assert len(memory.search("plum", limit=100)) == 45
        assert memory.remember("A plum after all that.")
        assert len(memory.search("plum", limit=100)) == 46
        assert memory.rebuild() == 46
    after = contents(folder)
    assert before.keys() == after.keys()
    assert all(after[name].startswith(content) for name, content in before.items())
