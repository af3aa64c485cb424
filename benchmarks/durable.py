"""What a durable step costs on DBOS, beyond DBOS's own bare step in the same run.

    python benchmarks/durable.py                            SQLite, and PostgreSQL where it is installed
    python benchmarks/durable.py --steps 400 --rounds 7
    python benchmarks/durable.py --peers                    pydantic-ai with DBOS too, which is installed first

A bare workflow does nothing but steps, each of which gives a text as long as ours. A session's run calls a model and a
tool in turn, both of which answer at once; each call is a step too. Both are timed from one step to the last, in turn,
round by round, so that whatever else the machine does falls on both. What is between the two is ours: the pure step,
the line of the recording with its seal, and the interpreter.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python benchmarks/durable.py`

from dbos import DBOS, SetWorkflowID

import tests.interpreters.durable.sqlite  # noqa: F401 - before anything opens a database
from benchmarks.table import table
from cognition import Limits
from interpreters import tool
from interpreters.durable.dbos import DBOSSessions
from interpreters.durable.definition import DurableAgent
from interpreters.testing.fakes import FunctionModel, Reply, call
from tests.interpreters.databases import postgres, why_no_postgres

TEXT = '{"at":1790000000.123,"input":{"type":"tool_returned","effect_id":"1.1.1","content":"%s"}}' % ("x" * 60)
"""What a bare step gives: as long as what one of ours does."""


PEER = Path(__file__).parent / ".peers" / "durable"
"""The peer's environment."""

PINS = (
    "pydantic-ai-slim[dbos]==2.68.0",
    "dbos==3.4.0",
    "psycopg[binary]>=3.2,<4",
    "pysqlite3-binary; platform_system == 'Linux'",
)


class Timed:
    """A model that calls a tool so many times, and notes when it is asked."""

    def __init__(self) -> None:
        self.calls = 0
        self.asked: list[float] = []
        self.worked: list[float] = []

    def __call__(self, _request: Any) -> Any:
        self.asked.append(perf_counter())
        self.worked.append(process_time())
        number = len(self.asked)
        return call("look", n=number) if number <= self.calls else Reply("Done.")


@tool(read_only=True)
async def look(n: int) -> str:
    """Look."""
    return f"seen {n}"


def measured(url: str, steps: int, rounds: int) -> list[tuple[float, ...]]:
    """Milliseconds of a bare step and of one of ours for each round, and the same of the processor's time."""
    model = Timed()
    agent = DurableAgent(
        "timed",
        FunctionModel(model, context_tokens=10**7),
        [look],
        limits=Limits(steps=10 * steps, tool_calls=10 * steps),
        compact_at=None,
    )
    found: list[tuple[float, ...]] = []
    with DBOSSessions(agent, url) as sessions:
        bare = _bare_workflow()
        with sessions.worker():
            for number in range(rounds + 1):
                with SetWorkflowID(f"bare-{number}-{perf_counter()}"):
                    took, worked = DBOS.start_workflow(bare, steps).get_result()
                model.calls, model.asked, model.worked = steps // 2, [], []
                sessions.result(sessions.send(f"timed-{number}-{int(perf_counter() * 1e6)}", "Go."))
                ours, own = ((times[-1] - times[0]) / (2 * (steps // 2)) for times in (model.asked, model.worked))
                if number:  # the first round makes tables and connections
                    found.append((1e3 * took / steps, 1e3 * ours, 1e3 * worked / steps, 1e3 * own))
    return found


class PeerError(Exception):
    """What the peer needs could not be installed, or it failed; the message is the last word of that."""


def measured_peer(url: str, steps: int, rounds: int) -> list[tuple[float, ...]]:
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
    return [tuple(map(float, line.split())) for line in said.splitlines()]


def _said(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PeerError((done.stderr.strip().splitlines() or ["it failed"])[-1])
    return done.stdout


def _bare_workflow() -> Any:
    async def answer() -> str:
        return TEXT

    async def bare(steps: int) -> tuple[float, float]:
        began, worked = perf_counter(), process_time()
        for _ in range(steps):
            await DBOS.run_step_async({"name": "bare", "preemptible": True}, answer)
        return perf_counter() - began, process_time() - worked

    return DBOS.workflow(name="cogstep.bare")(bare)


def lines(kind: str, name: str, found: Iterable[tuple[float, ...]], goal: str = "") -> list[str]:
    bare, ours, worked, own = zip(*found, strict=True)
    beyond, more = (
        f"{median(one - other for one, other in zip(with_it, without, strict=True)):.2f}"
        for with_it, without in ((ours, bare), (own, worked))
    )
    return [f"{name} on {kind}", f"{median(bare):.2f}", f"{median(ours):.2f}", beyond, goal, more]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200, help="of one round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peers", action="store_true", help="measure pydantic-ai with DBOS beside it")
    given = parser.parse_args()
    shown = [["milliseconds a step (median)", "bare", "with it", "beyond", "goal", "of the processor"]]
    with tempfile.TemporaryDirectory() as place:
        urls = {"SQLite": f"sqlite:///{place}/sessions.db"}
        if reason := why_no_postgres():
            print(f"PostgreSQL is left out: {reason}")
        else:
            urls["PostgreSQL"] = postgres().url
        for kind, url in urls.items():
            shown.append(lines(kind, "cogstep", measured(url, given.steps, given.rounds), "<= 0.30"))
            if given.peers:
                own = f"{url}.peer" if kind == "SQLite" else url.replace("/postgres", "/peer")
                try:
                    shown.append(lines(kind, "pydantic-ai", measured_peer(own, given.steps, given.rounds)))
                except PeerError as error:
                    print(f"pydantic-ai with DBOS on {kind} is left out: {error}")
    print(table(shown))


if __name__ == "__main__":
    main()
