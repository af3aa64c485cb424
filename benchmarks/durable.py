"""What a durable step costs beyond the engine's own bare step in the same run: on DBOS, and on Restate.

    python benchmarks/durable.py                            what is installed of SQLite, PostgreSQL and a Restate server
    python benchmarks/durable.py --rounds 110               steadier: of 25, medians differ by 0.2 ms from run to run
    python benchmarks/durable.py --on sqlite
    python benchmarks/durable.py --peers                    pydantic-ai with DBOS too, which is installed first
    python benchmarks/durable.py --function                 beside DBOS's step of a plain function, which is cheaper

A bare workflow does nothing but steps, each of which gives a text as long as ours. A session's run calls a model and a
tool in turn, both of which answer at once; each call is a step too. Both are begun in the same way, and timed from one
step to the last, round by round in short turns and in another order each time, so that whatever else the machine does
falls on both. What is between the two is ours: the pure step, the line of the recording with its seal, and the
interpreter.

The hardest case has a tool that must not run twice, an observer of every event, and a secret in each call and each
result, which is hidden from the engine and from the recording, and shown to the tool and to the model.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import uuid
import venv
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from random import Random
from statistics import median
from time import perf_counter, process_time
from typing import Any, Protocol

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python benchmarks/durable.py`

from dbos import DBOS

import tests.interpreters.durable.sqlite  # noqa: F401 - before anything opens a database
from benchmarks.durable_restate import on_restate
from benchmarks.table import machine, table
from cognition import Limits
from interpreters import tool
from interpreters.durable.dbos._runs import POLLED_EVERY, queue_of
from interpreters.durable.dbos.sessions import DBOSSessions
from interpreters.durable.definition import DurableAgent
from interpreters.recording.redaction import Redaction
from interpreters.testing.fakes import FunctionModel, Reply, call
from tests.interpreters.databases import postgres, why_no_postgres
from tests.interpreters.durable.restate_rig import MISSING, server_program

TEXT = '{"at":1790000000.123,"input":{"type":"tool_returned","effect_id":"1.1.1","content":"%s"}}' % ("x" * 60)
"""What a bare step gives: as long as what one of ours does."""

SECRET = "correct-horse-battery-staple"

PEER = Path(__file__).parent / ".peers" / "durable"
"""The peer's environment."""

PINS = (
    "pydantic-ai-slim[dbos]==2.68.0",
    "dbos==3.4.0",
    "psycopg[binary]>=3.2,<4",
    "pysqlite3-binary; platform_system == 'Linux'",
)

GOAL = "<= 0.30"
"""Milliseconds."""


class Timed:
    """A model that calls a tool so many times, and notes when it is asked."""

    def __init__(self, wish: str, **arguments: Any) -> None:
        self.wish = wish
        self.arguments = arguments
        self.start(0)

    def start(self, calls: int) -> None:
        self.calls = calls
        self.asked: list[float] = []
        self.worked: list[float] = []

    def __call__(self, _request: Any) -> Any:
        self.asked.append(perf_counter())
        self.worked.append(process_time())
        number = len(self.asked)
        return call(self.wish, n=number, **self.arguments) if number <= self.calls else Reply("Done.")

    def step(self) -> tuple[float, float]:
        """Milliseconds of a step, and those of the processor."""
        wall, cpu = (1e3 * (times[-1] - times[0]) / (2 * self.calls) for times in (self.asked, self.worked))
        return wall, cpu


@tool(read_only=True)
async def look(n: int) -> str:
    """Look."""
    return f"seen {n}"


@tool
async def send(n: int, token: str) -> str:
    """Send, which must not happen twice."""
    assert token == SECRET
    return f"sent {n} with {token}"


class Engine(Protocol):
    """What is measured."""

    def bare(self, steps: int) -> tuple[float, float]:
        """Run bare steps; gives the seconds that they took, and those of the processor."""

    def run(self, agent: str, session: str) -> None:
        """Run a session to the end of its first turn."""


class OnDBOS:
    """Bare workflows and sessions in one queue."""

    def __init__(self, sessions: DBOSSessions) -> None:
        self._sessions = sessions

    def bare(self, steps: int) -> tuple[float, float]:
        client, run = self._sessions._connect(), f"bare-{uuid.uuid4().hex}"
        client.enqueue(
            {
                "workflow_name": "cogstep.bare",
                "queue_name": queue_of(next(iter(self._sessions.agents))),
                "workflow_id": run,
                "app_version": self._sessions.version,
                "queue_partition_key": run,
            },
            steps,
        )
        took: Any = client.retrieve_workflow(run).get_result(polling_interval_sec=POLLED_EVERY)
        return took[0], took[1]

    def run(self, agent: str, session: str) -> None:
        self._sessions.result(self._sessions.send(session, "Go.", agent=agent))


@contextmanager
def on_dbos(agents: tuple[DurableAgent, ...], url: str, *, function: bool) -> Iterator[Engine]:
    async def answer() -> str:
        return TEXT

    def answer_at_once() -> str:
        return TEXT

    async def bare(steps: int) -> tuple[float, float]:
        work: Any = answer_at_once if function else answer
        began, worked = perf_counter(), process_time()
        for _ in range(steps):
            await DBOS.run_step_async({"name": "bare"}, work)
        return perf_counter() - began, process_time() - worked

    with DBOSSessions(agents, url) as sessions:
        DBOS.workflow(name="cogstep.bare")(bare)
        with sessions.worker():
            yield OnDBOS(sessions)


Figures = list[tuple[float, float, float, float]]
"""For each round the milliseconds of a bare step and of one of ours, and the same of the processor's time."""


class Measured:
    """Agents for both cases, and what they cost on one engine."""

    def __init__(self, steps: int) -> None:
        self.models = {"plain": Timed("look"), "hardest": Timed("send", token=SECRET)}
        self.events = 0
        given: dict[str, Any] = {
            "limits": Limits(steps=10 * steps, tool_calls=10 * steps),
            "compact_at": None,
        }
        hard = {**given, "observers": [self._seen], "redact": Redaction(secrets={"token": SECRET})}
        self.agents = (
            DurableAgent("plain", FunctionModel(self.models["plain"], context_tokens=10**7), [look], **given),
            DurableAgent("hardest", FunctionModel(self.models["hardest"], context_tokens=10**7), [send], **hard),
        )

    def _seen(self, _event: object) -> None:
        self.events += 1

    def on(self, engine: AbstractContextManager[Engine], steps: int, rounds: int) -> dict[str, Figures]:
        found: dict[str, Figures] = {name: [] for name in self.models}
        with engine as here:
            for number in range(rounds + 1):
                order = ["bare", *self.models]
                Random(number).shuffle(order)  # what is first pays for what the round before has left behind
                took = {name: self._timed(here, name, steps) for name in order}
                if number:  # the first round makes tables and connections
                    for name in self.models:
                        (bare, worked), (ours, own) = took["bare"], took[name]
                        found[name].append((bare, ours, worked, own))
        return found

    def _timed(self, engine: Engine, name: str, steps: int) -> tuple[float, float]:
        """Milliseconds of a step, and those of the processor."""
        if name == "bare":
            wall, cpu = (1e3 * took / steps for took in engine.bare(steps))
            return wall, cpu
        self.models[name].start(steps // 2)
        engine.run(name, f"{name}-{uuid.uuid4().hex}")
        return self.models[name].step()


class PeerError(Exception):
    """What the peer needs could not be installed, or it failed; the message is the last word of that."""


def measured_peer(url: str, steps: int, rounds: int) -> Figures:
    """The same of pydantic-ai on DBOS, in an environment of its own.

    Raises:
        PeerError: it can't be measured.
    """
    python = PEER / "bin" / "python"
    if not python.exists():
        venv.create(PEER, with_pip=True)
    _said([str(python), "-m", "pip", "--disable-pip-version-check", "--quiet", "install", *PINS])
    program = Path(__file__).parent / "peers" / "pydantic_ai_dbos.py"
    # -P: beside it lies a module of the peer's name.
    said = _said([str(python), "-P", str(program), url, str(steps), str(rounds)])
    figures: Any = [tuple(map(float, line.split())) for line in said.splitlines()]
    found: Figures = figures
    return found


def _said(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PeerError((done.stderr.strip().splitlines() or ["it failed"])[-1])
    return done.stdout


def row(name: str, found: Figures, goal: str = "") -> list[str]:
    bare, ours, worked, own = zip(*found, strict=True)
    times = median(one / other for one, other in zip(ours, bare, strict=True))
    beyond, more = (
        f"{median(one - other for one, other in zip(with_it, without, strict=True)):.2f}"
        for with_it, without in ((ours, bare), (own, worked))
    )
    return [name, f"{median(bare):.2f}", f"{median(ours):.2f}", f"{times:.2f}", beyond, goal, more]


def rows(engine: str, figures: dict[str, Figures]) -> Iterable[list[str]]:
    return [row(f"cogstep on {engine}, {name}", found, GOAL) for name, found in figures.items()]


KINDS = ("sqlite", "postgresql", "restate")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60, help="of one round")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--on", choices=KINDS, help="measure this one alone")
    parser.add_argument("--peers", action="store_true", help="measure pydantic-ai with DBOS beside it")
    parser.add_argument("--function", action="store_true", help="DBOS's bare step is one of a plain function")
    given = parser.parse_args()
    kinds = KINDS if given.on is None else (given.on,)
    shown = [["milliseconds a step (median)", "bare", "with it", "times", "beyond", "goal", "of the processor"]]
    print(machine())
    with tempfile.TemporaryDirectory() as place:
        for kind in kinds:
            if kind == "restate":
                if server_program() is None:
                    print(f"Restate is left out: {MISSING}")
                    continue
                measured = Measured(given.steps)
                served = on_restate(measured.agents, f"sqlite:///{place}/restate.db", TEXT, Path(place))
                shown += rows("Restate", measured.on(served, given.steps, given.rounds))
                continue
            if kind == "postgresql" and (reason := why_no_postgres()):
                print(f"PostgreSQL is left out: {reason}")
                continue
            name, url = ("SQLite", f"sqlite:///{place}/s.db") if kind == "sqlite" else ("PostgreSQL", postgres().url)
            measured = Measured(given.steps)
            engine = on_dbos(measured.agents, url, function=given.function)
            shown += rows(f"DBOS, {name}", measured.on(engine, given.steps, given.rounds))
            if given.peers:
                own = f"{url}.peer" if kind == "sqlite" else url.replace("/postgres", "/peer")
                try:
                    shown.append(row(f"pydantic-ai on DBOS, {name}", measured_peer(own, given.steps, given.rounds)))
                except PeerError as error:
                    print(f"pydantic-ai with DBOS on {name} is left out: {error}")
    print(table(shown))


if __name__ == "__main__":
    main()
