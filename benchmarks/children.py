"""The processes that do the measuring, one a row of the table, and the figures that come back from them."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any, Literal

from attrs import define, field, frozen

from benchmarks import environment

ROOT = Path(__file__).resolve().parent.parent

PATIENCE = 180.0
"""Seconds without an answer after which a child is given up."""
QUIET = {
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "BURR_TELEMETRY": "false",
    "BURR_AUTOTELEMETRY": "false",
    "LANGSMITH_TRACING": "false",
    "LANGCHAIN_TRACING_V2": "false",
    "OTEL_SDK_DISABLED": "true",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "PYTHONWARNINGS": "ignore",
}
"""Telemetry, tracing and warnings off, for every child alike."""


@frozen
class Row:
    """One line of the table: what is measured, and where it lives."""

    name: str
    module: str
    maker: str = "peer"
    distributions: tuple[str, ...] = ()
    """What a peer needs of peers.txt, the one whose version is shown first; empty for what is in this repository."""
    checkout: Path = ROOT
    """The source tree that is measured."""


Clock = Literal["cpu", "wall"]


class ChildError(Exception):
    """A child process failed; the message is the last line it wrote."""


class Child:
    """The process that measures one row. Waits between its rounds and costs nothing then."""

    def __init__(self, row: Row) -> None:
        python = str(environment.python()) if row.distributions else sys.executable
        distribution = row.distributions[0] if row.distributions else "cogstep"
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the child
        # A group of its own: Ctrl-C reaches this script alone, which then ends its children.
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.peers.measure", f"benchmarks.peers.{row.module}", row.maker, distribution],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=row.checkout,
            env={**os.environ, **QUIET},
            start_new_session=True,
        )
        self.version = ""

    def start(self) -> None:
        """Wait until the library is imported; ``version`` is known then."""
        self.version = self._answer()["version"]

    def batch(self, length: int, turns: int) -> dict[str, Any]:
        return self._ask({"length": length, "turns": turns})

    def idle(self, count: int) -> dict[str, Any]:
        """The bytes of each of so many conversations that are kept, and how many were."""
        return self._ask({"idle": count})

    def _ask(self, request: dict[str, int]) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise ChildError(self._last_words()) from None
        return self._answer()

    def end(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)
        self._process.wait()
        self._errors.close()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], PATIENCE)[0]:
            raise ChildError(f"no answer within {PATIENCE:g} s")
        line = self._process.stdout.readline()
        if not line:
            raise ChildError(self._last_words())
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _last_words(self) -> str:
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), f"ended with code {code}")


@define
class Figures:
    """What was measured of one row at one length, in milliseconds, one list a round."""

    cpu: list[list[float]] = field(factory=list)
    wall: list[list[float]] = field(factory=list)
    reached: int = 0
    """Turns of history that were really there: fewer than asked for where walking took too long."""

    def add(self, answer: dict[str, Any]) -> None:
        self.cpu.append(answer["cpu"])
        self.wall.append(answer["wall"])
        self.reached = answer["length"]

    def median(self, clock: Clock) -> float:
        batches = self.cpu if clock == "cpu" else self.wall
        return median(value for batch in batches for value in batch)

    def best(self) -> float:
        """CPU time of the round in which it was least, as the median of its turns: of a machine that other work slows
        down for seconds at a time, what it takes when it does not.
        """
        return min(median(batch) for batch in self.cpu)

    def ratio(self, other: Figures) -> float:
        """This one's CPU time by the other's, as the median over rounds, each of which saw the same machine."""
        return median(median(mine) / median(theirs) for mine, theirs in zip(self.cpu, other.cpu, strict=False))
