"""Two processes write and search one memory, and one of them is killed three times: nothing that was saved is lost.

    python tests/runtime/memory_kills.py                  half a minute; `make memory-kills` is the same
    python tests/runtime/memory_kills.py --seconds 300 --kills 100

Each process saves notes of its own, reports each once ``remember`` has returned, and searches for one that it saved
before; now and then one makes the index anew. At the end every note that was reported stands in the files, once; every
one is found; the files are whole; and a database that was damaged by none of it is still the present one.
Exit status: 0, or 1 if anything was lost or went wrong.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from attrs import define, field

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))  # for `python tests/runtime/memory_kills.py`

from runtime import MemoryFolder  # noqa: E402 - below the line above
from runtime.stores.markdown_entries import pieces_of  # noqa: E402 - as above

WORDS = "plum pear fig apple 会议 预算 budget Q3 deploy staging invoice".split()
REBUILDS = 0.005
"""How often a round is one that makes the index anew."""


@define
class Report:
    """What came of it."""

    saved: int = 0
    """Notes that were reported as saved."""
    searches: int = 0
    killed: int = 0
    torn: int = 0
    """Notes of killed processes that stand there without having been reported: whole, or cut where the kill came."""
    problems: list[str] = field(factory=list)


STOP = "stop"
"""The file whose presence ends the processes."""

LONGEST_START = 60.0
"""Seconds that a process may take to save its first note, where others are at work on the machine."""


def work(folder: Path, name: str) -> None:
    """The life of one of the processes: it reports on stdout."""
    chance = random.Random(name)
    saved: list[str] = []
    with MemoryFolder(folder) as memory:
        while not (saved and (folder / STOP).exists()):
            note = f"{name}x{len(saved)} {' '.join(chance.choices(WORDS, k=chance.randrange(3, 300)))}"
            memory.remember(note, topic=chance.choice(["one", "two", "three"]))
            saved.append(note)
            print("saved", note, flush=True)
            if chance.random() < REBUILDS:
                memory.rebuild()
            one = chance.choice(saved)
            found = memory.search(one.split()[0], limit=100)
            whole = any(passage.text == one for passage in found)
            print("searched" if whole else f"problem: not found: {one.split()[0]}", flush=True)


def run(folder: Path, seconds: float, kills: int) -> Report:
    """Have two processes at it, kill one again and again, and look at what is left."""
    report = Report()
    notes: list[str] = []

    def begin(name: str) -> tuple[subprocess.Popen[bytes], Path]:
        output = folder / f"{name}.log"
        command = [sys.executable, __file__, "--work", name, str(folder)]
        with open(output, "wb") as log:
            process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
        latest = time.monotonic() + LONGEST_START
        while not output.stat().st_size and process.poll() is None and time.monotonic() < latest:
            time.sleep(0.01)
        return process, output

    def end(process: subprocess.Popen[bytes], output: Path) -> None:
        code = process.wait(timeout=120)
        if code not in (0, -signal.SIGKILL):
            report.problems.append(f"{output.stem} ended with {code}")
        lines = output.read_text().split("\n")
        for line in lines[:-1]:  # what stands behind the last end of a line was cut
            what, _, note = line.partition(" ")
            if what == "saved":
                notes.append(note)
            elif what == "searched":
                report.searches += 1
            else:
                report.problems.append(f"{output.stem}: {line}")

    steady = begin("steady")
    pause = seconds / (kills + 1)
    for number in range(kills):
        victim = begin(f"victim{number}")
        time.sleep(random.uniform(0.5, 1.5) * pause)
        if victim[0].poll() is None:
            victim[0].kill()
            report.killed += 1
        end(*victim)
    last = begin("last")
    time.sleep(pause)
    (folder / STOP).touch()
    end(*last)
    end(*steady)
    report.saved = len(notes)
    _look(folder, notes, report)
    return report


def _look(folder: Path, notes: list[str], report: Report) -> None:
    """Whether everything is there."""
    files = {path: path.read_bytes() for path in sorted(folder.glob("knowledge/*.md"))}
    texts = [piece.text for path, content in files.items() for piece in pieces_of(content.decode(), path.stem)]
    for note in notes:
        if texts.count(note) != 1:
            report.problems.append(f"{texts.count(note)} times in the files: {note[:40]}")
    report.torn = len(texts) - len(notes)
    if report.torn > report.killed:
        report.problems.append(f"{report.torn} notes that nobody saved, after {report.killed} kills")
    with MemoryFolder(folder) as memory:
        for again in (False, True):
            for note in notes:
                if not any(one.text == note for one in memory.search(note.split()[0], limit=100)):
                    report.problems.append(f"not found{' after a rebuild' * again}: {note[:40]}")
            if memory.rebuild() != len(texts):
                report.problems.append("the index has another number of passages than the files")
    if files != {path: path.read_bytes() for path in files}:
        report.problems.append("the search has changed the files")


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0, help="how long (default: %(default)g)")
    parser.add_argument("--kills", type=int, default=3, help="how often (default: %(default)s)")
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        name, folder = options.work
        work(Path(folder), name)
        return 0
    with tempfile.TemporaryDirectory() as place:
        report = run(Path(place), options.seconds, options.kills)
    print(
        f"{report.saved} notes saved and {report.searches} searches; killed {report.killed} times; "
        f"{max(0, report.torn)} notes stand there that were not reported; {len(report.problems)} problems"
    )
    for problem in report.problems:
        print(problem)
    return int(bool(report.problems))


if __name__ == "__main__":
    sys.exit(main())
