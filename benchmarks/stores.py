"""Thousands of recorded sessions: listed, searched, pruned and opened, as files and in stores.

    python benchmarks/stores.py                          5,000 sessions of 31 lines
    python benchmarks/stores.py --sessions 500 --lines 101

All sessions hold the same conversation, with the sessions' own seals. The files are in the system's cache, and so are
the databases. PostgreSQL runs on this machine, where it is installed. Each figure is the best of several rounds, since
whatever else the machine does only adds to it; a ratio is to the files' figure of the same row.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.table import digits, machine, table
from interpreters import Agent
from interpreters.recording.collections import Place
from interpreters.recording.recorder import Where
from interpreters.recording.sessions import FileRecording, list_sessions, prune_sessions, search_sessions
from interpreters.recording.store import SqlStore
from interpreters.testing.fakes import FunctionModel
from tests.interpreters.databases import postgres, why_no_postgres

SAID = "What does a plum cost at the market in the morning, and what does it cost in the evening? "


def conversation(path: Path, lines: int) -> list[bytes]:
    """The lines of one session: a header, and two records a turn."""
    model = FunctionModel(lambda request: f"Reply {len(request.messages)}: {SAID}", context_tokens=10**6)
    with Agent(model, journal=path) as agent:
        for turn in range((lines - 1) // 2):
            agent.run(f"Question {turn}: {SAID}")
    return path.read_bytes().splitlines(keepends=True)


def fill(target: Callable[[str], Any], count: int, lines: list[bytes]) -> float:
    """Seconds to record so many sessions with these lines."""
    began = perf_counter()
    for number in range(count):
        target(f"session-{number:05}").begin(lambda: lines, 1.7e9 + number)
    return perf_counter() - began


def measured(place: Place, where: Callable[[int], Where], count: int, rounds: int) -> dict[str, float]:
    """Seconds of each way to look at the sessions."""

    def consume(found: Any, expected: int) -> None:
        assert sum(1 for _ in found) == expected

    def opened() -> None:
        for number in range(0, count, max(1, count // 20)):
            with Agent.resume(where(number), FunctionModel(lambda _request: "On.")):
                pass

    ways: dict[str, Callable[[], None]] = {
        "list all": lambda: consume(list_sessions(place), count),
        "the first 20 of a list": lambda: consume(islice(list_sessions(place), 20), 20),
        "search, found nowhere": lambda: consume(search_sessions("pomegranate", place), 0),
        "search, found in each": lambda: consume(search_sessions("question 3:", place), count),
        "prune by age (dry run)": lambda: consume(prune_sessions(place, older=60.0, dry_run=True), count),
        "prune all but 20 (dry run)": lambda: consume(prune_sessions(place, keep=20, dry_run=True), count - 20),
        "open and close 20": opened,
    }
    figures = {name: best(way, rounds) for name, way in ways.items()}
    figures["prune all"] = best(lambda: consume(prune_sessions(place, keep=0), count), 1)
    return figures


def best(way: Callable[[], None], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        began = perf_counter()
        way()
        times.append(perf_counter() - began)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=5000)
    parser.add_argument("--lines", type=int, default=31)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("files", "SQLite", "PostgreSQL"), help="measure one of them alone")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="cogstep-stores-"))
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    try:
        lines = conversation(folder / "one.jsonl", given.lines)
        size = sum(map(len, lines))
        print(f"{given.sessions:,} sessions of {len(lines)} lines, {size / 1000:.0f} KB each; {machine()}\n")
        figures: dict[str, dict[str, float]] = {}

        def measure(name: str, place: Place, target: Callable[[str], Any]) -> None:
            if given.only in (None, name):
                made = fill(target, given.sessions, lines)
                found = measured(
                    place, lambda number: target(f"session-{number:05}").where, given.sessions, given.rounds
                )
                figures[name] = {"record them": made, **found}

        files = folder / "files"
        files.mkdir()
        measure("files", files, lambda name: FileRecording(files / f"{name}.jsonl"))
        sqlite = SqlStore(f"sqlite:///{folder}/sessions.db")
        measure("SQLite", sqlite, sqlite.recording)
        if reason := why_no_postgres():
            print(f"PostgreSQL: {reason}")
        else:
            server = SqlStore(postgres().url)
            measure("PostgreSQL", server, server.recording)
        rows = [["seconds", *figures]]
        first = next(iter(figures.values()))
        for way, base in first.items():
            row = [way]
            for one in figures.values():
                ratio = "" if one is first else f" ({digits(one[way] / base)}x)"
                row.append(f"{digits(one[way])}{ratio}")
            rows.append(row)
        print(table(rows))
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # in which a thread may still give signs of life


if __name__ == "__main__":
    main()
