"""Durable sessions whose models run on hosts: two llama-servers, and four processes that work at the sessions.

    python benchmarks/durable_hosts.py                      PostgreSQL, where it is installed; a minute or two
    python benchmarks/durable_hosts.py --on sqlite --sessions 12
    SHORT=1 python benchmarks/durable_hosts.py              the same in small, to see that it runs and holds

Before each llama-server stands a proxy that counts what is at work there at a time, and reads from each reply how many
tokens of its prompt were in the server's cache: all of it is seen from outside, whatever the processes think. The same
sessions run three times: each going to the host that it prefers; each call going to one by chance; and again with
preference, while one of the hosts and one of the processes are killed in the middle.

It ends with 1 if a host ever had more calls at once than slots, or a turn of a session is lost or comes twice.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python benchmarks/durable_hosts.py`

import pytest
from sqlalchemy import func, select

import tests.interpreters.durable.sqlite  # noqa: F401 - before anything opens a database
from benchmarks.native_tools import started
from benchmarks.table import table
from cognition import Completed, GenerationOptions, LimitReached, RetryPolicy
from interpreters import replay
from interpreters.durable.dbos.sessions import DBOSSessions
from interpreters.durable.definition import DurableAgent
from interpreters.durable.model_hosts._slots import Slots, calls
from interpreters.durable.model_hosts.hosts import HostStates, ModelHost, preferred_host
from runtime import load_model
from runtime.models.specs import SMALL_MODEL
from tests.interpreters.databases import postgres, why_no_postgres
from tests.runtime.providers.servers import free_port, llama_server_or_skip, ready

ROOT = Path(__file__).resolve().parent.parent

NAMES = ("a", "b")
"""Of the hosts."""

PROCESSES = 4

CONTEXT = 2048
"""Tokens of a conversation."""

REPLY = 48
"""Tokens of a reply."""

OWN = re.compile(rb"I am (session-\d+)")
CACHED = re.compile(rb'"cache_n":(\d+),"prompt_n":(\d+)')


class Counting(ThreadingTCPServer):
    """A proxy before one host."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, name: str, upstream: int) -> None:
        super().__init__(("127.0.0.1", 0), Passing)
        self.name = name
        self.upstream = upstream
        self.lock = threading.Lock()
        self.now = self.most = 0
        self.calls: list[tuple[float, str, int, int]] = []
        """When a call ended, its session, and how many tokens of its prompt were in the cache, and were not."""
        self.dead = False
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def begins(self) -> None:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)

    def ends(self) -> None:
        with self.lock:
            self.now -= 1

    def die(self) -> None:
        """Be as a host that is gone: nobody listens."""
        self.dead = True
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that breaks is what is measured here."""


class Passing(StreamRequestHandler):
    """One request, and its reply."""

    server: Counting
    over: Callable[[], None]
    """To be called once the server has done its part."""

    def handle(self) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = self.rfile.readline()
            if not line:
                return
            head += line
        length = re.search(rb"(?i)content-length: *(\d+)", head)
        body = self.rfile.read(int(length[1])) if length else b""
        head = re.sub(rb"(?i)\r\nconnection:[^\r]*", b"", head)
        said = head[:-2] + b"Connection: close\r\n\r\n" + body
        self.over = _nothing
        if b"/chat/completions " not in head.partition(b"\r\n")[0]:
            self._pass(said)
            return
        own = OWN.search(body)
        self.server.begins()
        self.over = self.server.ends
        try:
            tail = self._pass(said)
        finally:
            self.over()
        cached = CACHED.search(tail)
        if own and cached:
            self.server.calls.append((time.monotonic(), own[1].decode(), int(cached[1]), int(cached[2])))

    def _pass(self, said: bytes) -> bytes:
        """Pass a request on, and what comes back; the end of that.

        The server's slot is free with the last event, and the next call may come while this connection is still open.
        """
        tail = b""
        with socket.create_connection(("127.0.0.1", self.server.upstream), 10) as upstream:
            upstream.settimeout(60)
            upstream.sendall(said)
            while piece := upstream.recv(65536):
                tail = (tail + piece)[-20000:]
                if b"data: [DONE]" in tail:
                    over, self.over = self.over, _nothing
                    over()
                self.wfile.write(piece)
        return tail


def _nothing() -> None:
    """What is to be done when a call is over for the second time."""


class Host:
    """A llama-server with a proxy before it."""

    def __init__(self, name: str, slots: int, stack: contextlib.ExitStack) -> None:
        port = free_port()
        model = next(iter(sorted(SMALL_MODEL.glob("*.gguf"))))
        command = [
            *(llama_server_or_skip(), "-m", model, "-c", CONTEXT * slots, "-np", slots, "-t", 1, "-tb", 1),
            *("--host", "127.0.0.1", "--port", port, "--jinja"),
        ]
        self.process = stack.enter_context(
            started([str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        )
        until = time.monotonic() + 60
        while not ready(port, "/health"):
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError("llama-server did not become ready")
            time.sleep(0.05)
        self.proxy = Counting(name, port)
        stack.callback(self.proxy.server_close)

    def kill(self) -> None:
        self.proxy.die()
        self.process.kill()


class Process:
    """One process that works at sessions."""

    def __init__(self, url: str, ports: list[int], slots: int, chance: bool, log: Path) -> None:
        command = [sys.executable, "-m", "benchmarks.durable_hosts", "--work", url, "--slots", str(slots)]
        self.process = subprocess.Popen(
            [*command, *(["--chance"] * chance), "--ports", *map(str, ports)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log.open("ab"),
            text=True,
        )
        self.id = ""

    def wait(self) -> None:
        assert self.process.stdout is not None
        self.id = self.process.stdout.readline().strip()

    def end(self) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()


def agent() -> DurableAgent:
    return DurableAgent(
        "talker",
        lambda: load_model("llama-server"),  # never asked: models run on hosts
        system="Answer briefly.",
        options=GenerationOptions(max_tokens=REPLY, temperature=0.0, thinking=False),
        retry=RetryPolicy(first_delay=0.5),
    )


def model_hosts(ports: list[int], slots: int) -> list[ModelHost]:
    def calling(port: int) -> Any:
        return lambda: load_model(f"http://127.0.0.1:{port}/v1")

    return [ModelHost(name, calling(port), slots) for name, port in zip(NAMES, ports, strict=True)]


def work(url: str, ports: list[int], slots: int, chance: bool) -> None:
    """Be one of the processes."""
    if chance:
        order = HostStates.order
        HostStates.order = lambda self, session: Shuffled(order(self, session))  # type: ignore[method-assign]
    with DBOSSessions(agent(), url, hosts=model_hosts(ports, slots)) as sessions, sessions.worker():
        print(sessions.store.join(), flush=True)
        sys.stdin.read()


class Shuffled(list[Any]):
    """Hosts in another order for each call."""

    def __iter__(self) -> Iterator[Any]:
        return iter(random.sample([self[place] for place in range(len(self))], len(self)))


class Found:
    """What one round has shown."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.proxies: list[Counting] = []
        self.stuck = 0.0
        """Seconds from the death of a process until the others had its slots."""
        self.moved = 0.0
        """Seconds from the death of a host until the first call of one of its sessions came to the other one."""

    @property
    def at_home(self) -> float:
        """The share of the calls that came to the host that their session prefers."""
        calls = [(proxy.name, session) for proxy in self.proxies for _, session, _, _ in proxy.calls]
        return sum(preferred_host(session, NAMES) == name for name, session in calls) / max(1, len(calls))

    @property
    def reused(self) -> float:
        """The share of the prompts' tokens that were in a cache."""
        cached = sum(one[2] for proxy in self.proxies for one in proxy.calls)
        return cached / max(1, cached + self.evaluated)

    @property
    def evaluated(self) -> int:
        """How many tokens of prompts were not."""
        return sum(one[3] for proxy in self.proxies for one in proxy.calls)


def measured(url: str, given: Any, *, chance: bool = False, deaths: bool = False) -> Found:
    """Run all sessions once.

    Raises:
        AssertionError: something was lost, or too much ran at once.
    """
    found = Found()
    names = [f"session-{number}" for number in range(given.sessions)]
    if len({preferred_host(name, NAMES) for name in names}) < len(NAMES):
        raise SystemExit("these are too few sessions: all of them prefer one host")
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        running = [Host(name, given.slots, stack) for name in NAMES]
        found.proxies = [one.proxy for one in running]
        ports = [one.port for one in found.proxies]
        crew = [Process(url, ports, given.slots, chance, place / "said") for _ in range(PROCESSES)]
        for one in crew:
            stack.callback(one.end)
        for one in crew:
            one.wait()
        face = stack.enter_context(DBOSSessions(agent(), url, hosts=model_hosts([1] * len(NAMES), given.slots)))
        began = time.monotonic()
        turns = range(given.turns)
        runs = {name: [face.send(name, _said(name, turn, given.words)) for turn in turns] for name in names}
        if deaths:
            _kill(found, running, crew, face, given)
        for of_one in runs.values():
            for run in of_one:
                ended = face.result(run)
                assert ended.finished is not None, "a run has ended without an answer"
                outcome = ended.finished.outcome
                assert isinstance(outcome, Completed | LimitReached), outcome  # the small model may say much
        found.seconds = time.monotonic() - began
        for name in names:
            report = replay(face.recorder(name)).raise_for_divergence()
            assert report.state.counters.turn == given.turns, f"{name} has {report.state.counters.turn} turns"
        said = (place / "said").read_text()
        if given.verbose:
            print(said)
    for proxy in found.proxies:
        assert proxy.most <= given.slots, f"host {proxy.name} had {proxy.most} calls at once"
    return found


def _said(name: str, turn: int, words: int) -> str:
    if turn:
        return f"And what about number {turn}?"
    chance = random.Random(name)
    return f"I am {name}. " + " ".join(chance.choice(("red", "tree", "boat", "seven", "rain")) for _ in range(words))


def _kill(found: Found, running: list[Host], crew: list[Process], face: DBOSSessions, given: Any) -> None:
    """Once a sixth of the calls is over kill a process that has one, and once a third of them is the first host."""
    calls: int = given.sessions * given.turns

    def over(share: int) -> bool:
        return share * sum(len(one.calls) for one in found.proxies) >= calls

    def at_work() -> list[Process]:
        return [one for one in crew if _slots_of(face, one.id)]

    _until(lambda: over(6) and at_work())
    victim = (at_work() or crew)[0]
    victim.process.send_signal(signal.SIGKILL)
    died = time.monotonic()
    slots = Slots(face.store)
    waiting = [slots.take(name, 1) for name in NAMES]  # where nobody waits, nobody needs to look
    _until(lambda: not _slots_of(face, victim.id))
    found.stuck = time.monotonic() - died
    for one in waiting:
        slots.free(one)
    _until(lambda: over(3))
    own, other = running
    own.kill()
    died = time.monotonic()

    def moved() -> list[float]:
        return [
            at for at, name, _, _ in other.proxy.calls if preferred_host(name, NAMES) == own.proxy.name and at > died
        ]

    _until(lambda: moved() or over(1))
    found.moved = min(moved(), default=died) - died


def _slots_of(face: DBOSSessions, holder: str) -> int:
    """How many calls a process has waiting or at work."""
    found = select(func.count()).select_from(calls).where(calls.c.holder == holder)
    return int(face.store.database.run(lambda connection: connection.execute(found).scalar_one()))


def _until(holds: Any) -> None:
    until = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < until, "it took too long"
        time.sleep(0.01)


@contextlib.contextmanager
def _store(kind: str, number: int) -> Iterator[str]:
    if kind == "sqlite":
        with tempfile.TemporaryDirectory() as place:
            yield f"sqlite:///{place}/sessions.db"
        return
    import psycopg

    with psycopg.connect(postgres().url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE round{number}")
    yield postgres().url.replace("/postgres", f"/round{number}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", default=bool(os.environ.get("SHORT")))
    parser.add_argument("--sessions", type=int)
    parser.add_argument("--turns", type=int)
    parser.add_argument("--words", type=int, help="of each session's first message: its prefix")
    parser.add_argument("--slots", type=int, default=2, help="of each host")
    parser.add_argument("--on", choices=["sqlite", "postgresql"], help="PostgreSQL where it is installed, else SQLite")
    parser.add_argument("--rounds", nargs="+", choices=["preference", "chance", "deaths"])
    parser.add_argument("--verbose", action="store_true", help="what the processes say")
    parser.add_argument("--work", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--ports", type=int, nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--chance", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work(given.work, given.ports, given.slots, given.chance)
        return 0
    try:
        llama_server_or_skip()
    except pytest.skip.Exception as reason:
        print(f"left out: {reason}")
        return 0
    given.sessions = given.sessions or (8 if given.short else 24)
    given.turns = given.turns or (3 if given.short else 6)
    given.words = given.words or (50 if given.short else 300)
    rounds = given.rounds or (["deaths"] if given.short else ["preference", "chance", "deaths"])
    kind = given.on or ("sqlite" if why_no_postgres() else "postgresql")
    shown, all_found = [["", "at once", "with its host", "from a cache", "evaluated", "seconds"]], {}
    for number, name in enumerate(rounds):
        with _store(kind, number) as url:
            found = measured(url, given, chance=name == "chance", deaths=name == "deaths")
        all_found[name] = found
        most = " and ".join(str(one.most) for one in found.proxies)
        tokens, seconds = f"{found.evaluated}", f"{found.seconds:.1f}"
        shown.append([name, most, f"{found.at_home:.0%}", f"{found.reused:.0%}", tokens, seconds])
    what = f"{given.sessions} sessions of {given.turns} turns on {kind}"
    print(f"{what}, 2 hosts of {given.slots} slots, {PROCESSES} processes")
    print(table(shown))
    if "deaths" in all_found:
        found = all_found["deaths"]
        print(f"slots of a killed process were free after {found.stuck:.1f} s")
        print(f"sessions of a killed host were with the other one after {found.moved:.1f} s")
    print("no turn was lost, and no host had more calls at once than slots")
    return 0


if __name__ == "__main__":
    sys.exit(main())
