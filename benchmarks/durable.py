"""What a durable step costs on DBOS, beyond DBOS's own bare step in the same run.

    python benchmarks/durable.py                            SQLite, and PostgreSQL where it is installed
    python benchmarks/durable.py --steps 400 --rounds 7

A bare workflow does nothing but steps, each of which gives a text as long as ours. A session's run calls a model and a
tool in turn, both of which answer at once; each call is a step too. Both are timed from one step to the last, in turn,
round by round, so that whatever else the machine does falls on both. What is between the two is ours: the pure step,
the line of the recording with its seal, and the interpreter.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from time import perf_counter
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


class Timed:
    """A model that calls a tool so many times, and notes when it is asked."""

    def __init__(self) -> None:
        self.calls = 0
        self.asked: list[float] = []

    def __call__(self, _request: Any) -> Any:
        self.asked.append(perf_counter())
        number = len(self.asked)
        return call("look", n=number) if number <= self.calls else Reply("Done.")


@tool(read_only=True)
async def look(n: int) -> str:
    """Look."""
    return f"seen {n}"


def measured(url: str, steps: int, rounds: int) -> list[tuple[float, float]]:
    """Milliseconds of a bare step and of one of ours, for each round."""
    model = Timed()
    agent = DurableAgent(
        "timed",
        FunctionModel(model, context_tokens=10**7),
        [look],
        limits=Limits(steps=10 * steps, tool_calls=10 * steps),
        compact_at=None,
    )
    found: list[tuple[float, float]] = []
    with DBOSSessions(agent, url) as sessions:
        bare = _bare_workflow()
        with sessions.worker():
            for number in range(rounds + 1):
                with SetWorkflowID(f"bare-{number}-{perf_counter()}"):
                    took = DBOS.start_workflow(bare, steps).get_result()
                model.calls, model.asked = steps // 2, []
                sessions.result(sessions.send(f"timed-{number}-{int(perf_counter() * 1e6)}", "Go."))
                ours = (model.asked[-1] - model.asked[0]) / (2 * (steps // 2))
                if number:  # the first round makes tables and connections
                    found.append((1e3 * took / steps, 1e3 * ours))
    return found


def _bare_workflow() -> Any:
    async def answer() -> str:
        return TEXT

    async def bare(steps: int) -> float:
        began = perf_counter()
        for _ in range(steps):
            await DBOS.run_step_async({"name": "bare", "preemptible": True}, answer)
        return perf_counter() - began

    return DBOS.workflow(name="cogstep.bare")(bare)


def lines(kind: str, found: Iterable[tuple[float, float]]) -> list[str]:
    bare, ours = zip(*found, strict=True)
    beyond = median(one - other for one, other in zip(ours, bare, strict=True))
    return [kind, f"{median(bare):.2f}", f"{median(ours):.2f}", f"{beyond:.2f}", "<= 0.30"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200, help="of one round")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    shown = [["milliseconds a step (median)", "bare", "ours", "beyond", "goal"]]
    with tempfile.TemporaryDirectory() as place:
        shown.append(lines("SQLite", measured(f"sqlite:///{place}/sessions.db", given.steps, given.rounds)))
    if reason := why_no_postgres():
        print(f"PostgreSQL is left out: {reason}")
    else:
        shown.append(lines("PostgreSQL", measured(postgres().url, given.steps, given.rounds)))
    print(table(shown))


if __name__ == "__main__":
    main()
