"""What durable workers ask of their database: connections, commits and processor time, idle and busy.

    python benchmarks/connections.py                     1, 2 and 5 workers; five minutes
    python benchmarks/connections.py --seconds 10        a shorter idle time
    python benchmarks/connections.py --on sqlite         without a server: the processor time only

Idle: workers on one database do nothing for a minute. Busy: five workers on a server with ``max_connections=60`` work
at 600 turns, each with two model calls and one tool call, that another process sends.

All figures are taken from outside: open connections from ``pg_stat_activity``, those of one process from its sockets,
commits from ``pg_stat_database``, processor time from ``/proc``. The exit status is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python benchmarks/connections.py`

import psycopg
from attrs import define

import tests.interpreters.durable.sqlite  # noqa: F401 - before anything opens a database
from benchmarks.table import Progress, machine, table
from cognition import CogstepError, Completed, UserMessage
from interpreters import tool
from interpreters.durable.dbos.sessions import DBOSSessions
from interpreters.durable.definition import DurableAgent
from interpreters.testing.fakes import FunctionModel, call
from tests.interpreters.databases import Postgres, why_no_postgres

ROOT = Path(__file__).resolve().parent.parent

BUDGET = 12
"""The most connections of a process, by default."""

COMMITS = 5.0
"""The most commits a second of an idle process."""

CPU = 1.0
"""The most per cent of a processor that an idle process uses."""

LIMIT = 60
"""``max_connections`` of the server while the workers are busy."""

LONGEST = 600.0
"""Seconds after which the busy workers are given up."""

SAMPLED_EVERY = 0.02

SETTLES = 8.0
"""Seconds before the idle time begins: a worker that has just started asks as often as a busy one."""


@tool
def look(number: int) -> str:
    """Look at a number."""
    return f"seen {number}"


def answer(request: Any) -> Any:
    if isinstance(request.messages[-1], UserMessage):
        return call("look", number=len(request.messages))
    return "Done."


def make_agent() -> DurableAgent:
    return DurableAgent("looker", FunctionModel(answer, context_tokens=10**6), [look])


def work(url: str) -> None:
    """Work at sessions until the input ends; this is the whole of a worker's process."""
    with DBOSSessions(make_agent(), url) as sessions, sessions.worker():
        print("ready", flush=True)
        sys.stdin.read()


@contextmanager
def workers(url: str, count: int, log: IO[bytes]) -> Iterator[list[int]]:
    """Start worker processes; yield their ids once they all work."""
    command = [sys.executable, __file__, "--work", url]
    begun = []
    try:
        for _ in range(count):
            begun.append(subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log))
        for one in begun:
            assert one.stdout is not None
            assert one.stdout.readline() == b"ready\n", "a worker did not start"
        yield [one.pid for one in begun]
    finally:
        for one in begun:
            assert one.stdin is not None
            one.stdin.close()
        for one in begun:
            one.wait(60)


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def connections_of(pid: int, port: int) -> int:
    """Return the number of connections that a process has to a port on this machine."""
    inodes = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[2].endswith(f":{port:04X}") and fields[3] == "01":
            inodes.add(f"socket:[{fields[9]}]")
    count = 0
    for file in Path(f"/proc/{pid}/fd").iterdir():
        try:
            count += os.readlink(file) in inodes
        except OSError:  # closed in the meantime
            continue
    return count


class Server:
    """A PostgreSQL server whose workers have databases of their own: what the benchmark asks is not counted."""

    def __init__(self, max_connections: int) -> None:
        self._server = Postgres(max_connections)
        self.port = self._server.port
        self._own = psycopg.connect(self._server.url, autocommit=True)
        # A superuser could use the connections that are reserved for administrators.
        self._own.execute("CREATE ROLE worker LOGIN PASSWORD 'worker'")
        self._databases = 0

    def new_database(self) -> str:
        """Return the URL of an empty database."""
        self._databases += 1
        self._own.execute(f"CREATE DATABASE bench{self._databases} OWNER worker")
        return f"postgresql://worker:worker@127.0.0.1:{self.port}/bench{self._databases}"

    def commits(self) -> int:
        return self._number("SELECT xact_commit FROM pg_stat_database WHERE datname = %s")

    def connections(self) -> int:
        return self._number(
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND datname = %s"
        )

    def _number(self, query: str) -> int:
        row = self._own.execute(query, [f"bench{self._databases}"]).fetchone()
        return int(row[0]) if row else 0

    def end(self) -> None:
        self._own.close()
        self._server.end()


@define
class Peaks:
    """The most connections seen at a time."""

    all: int = 0
    one: int = 0
    """Of a single worker."""


@contextmanager
def watched(server: Server, pids: Sequence[int]) -> Iterator[Peaks]:
    """Look at the connections again and again within the block."""
    peaks, stop = Peaks(), threading.Event()

    def watch() -> None:
        while not stop.wait(SAMPLED_EVERY):
            peaks.all = max(peaks.all, server.connections())
            peaks.one = max(peaks.one, *(connections_of(pid, server.port) for pid in pids))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peaks
    finally:
        stop.set()
        thread.join()


def idle(url: str, count: int, seconds: float, log: IO[bytes], server: Server | None) -> list[str]:
    """Measure workers without work; return a row of the table."""
    with workers(url, count, log) as pids:
        time.sleep(SETTLES)
        before = [processor_seconds(pid) for pid in pids]
        commits = server.commits() if server else 0
        began = time.monotonic()
        time.sleep(seconds)
        took = time.monotonic() - began
        used = [processor_seconds(pid) - was for pid, was in zip(pids, before, strict=True)]
        share = 100 * max(used) / took
        a_second = (server.commits() - commits) / took / count if server else 0.0
        most = max(connections_of(pid, server.port) for pid in pids) if server else 0
        everything = server.connections() if server else 0
    kept = share <= CPU and a_second <= COMMITS and most <= BUDGET
    figures = [str(most), str(everything), f"{a_second:.1f}"] if server else ["-", "-", "-"]
    return [f"{count} idle", *figures, f"{share:.2f} %", "yes" if kept else "NO"]


def busy(server: Server, count: int, sessions: int, turns: int, log: IO[bytes]) -> tuple[list[str], str]:
    """Measure workers at work; return a row of the table, and what they did."""
    url = server.new_database()
    failed: list[str] = []
    with DBOSSessions(make_agent(), url) as sender, workers(url, count, log) as pids:
        before = [processor_seconds(pid) for pid in pids]
        commits, began = server.commits(), time.monotonic()
        with watched(server, pids) as peaks:
            runs = [sender.send(f"s{number}", f"Turn {turn}.") for turn in range(turns) for number in range(sessions)]
            for run in runs:
                try:
                    finished = sender.result(run, timeout=max(1.0, began + LONGEST - time.monotonic())).finished
                    if finished is None or not isinstance(finished.outcome, Completed):
                        failed.append(f"{run} ended with {finished}")
                except (CogstepError, TimeoutError) as error:
                    failed.append(str(error))
        took = time.monotonic() - began
        share = 100 * max(processor_seconds(pid) - was for pid, was in zip(pids, before, strict=True)) / took
        time.sleep(1.5)  # the server counts with a delay
        a_second = (server.commits() - commits) / took / count
    kept = not failed and peaks.one <= BUDGET
    row = [
        f"{count} busy, max_connections={LIMIT}",
        str(peaks.one),
        str(peaks.all),
        f"{a_second:.0f}",
        f"{share:.0f} %",
    ]
    said = f"{len(runs) - len(failed)} of {len(runs)} turns in {took:.1f} s ({len(runs) / took:.0f} a second)"
    return [*row, "yes" if kept else "NO"], said + "".join(f"; {one}" for one in failed[:1])


def show_log(log: IO[bytes]) -> None:
    log.seek(0)
    said = log.read().decode(errors="replace").splitlines()
    for line in said[:10]:
        print(f"a worker: {line[:200]}")
    if len(said) > 10:
        print(f"... and {len(said) - 10} lines more")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="of idle time (default: %(default)s)")
    parser.add_argument("--workers", default="1,2,5", help="how many are idle, in turn (default: %(default)s)")
    parser.add_argument("--sessions", type=int, default=60, help="that the busy workers have (default: %(default)s)")
    parser.add_argument("--turns", type=int, default=10, help="of each session (default: %(default)s)")
    parser.add_argument("--on", choices=("sqlite", "postgresql"), help="measure this one alone")
    parser.add_argument("--unjudged", action="store_true", help="miss goals without an error: the time is too short")
    parser.add_argument("--work", metavar="URL", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work(given.work)
        return 0
    counts = [int(one) for one in given.workers.split(",") if one]
    say = Progress()
    rows = [["workers", "connections of one", "of all", "commits/s of one", "processor of one", "kept"]]
    notes = []
    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryFile() as log:
        if given.on != "sqlite":
            if reason := why_no_postgres():
                print(f"PostgreSQL is left out: {reason}")
            else:
                server = Server(200)
                try:
                    for count in counts:
                        say(f"{count} idle workers on PostgreSQL")
                        rows.append(idle(server.new_database(), count, given.seconds, log, server))
                        say(", ".join(rows[-1]))
                finally:
                    server.end()
                say("five busy workers")
                server = Server(LIMIT)
                try:
                    row, said = busy(server, 5, given.sessions, given.turns, log)
                    rows.append(row)
                    notes.append(said)
                finally:
                    server.end()
        if given.on != "postgresql":
            for count in counts:
                say(f"{count} idle workers on SQLite")
                row = idle(f"sqlite:///{place}/{count}.db", count, given.seconds, log, None)
                rows.append([f"{row[0]}, SQLite", *row[1:]])
        say.clear()
        print(table(rows), *notes, machine(), sep="\n")
        show_log(log)
    return int(not given.unjudged and any(row[-1] == "NO" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
