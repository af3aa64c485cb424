"""Eight sessions on one model in a process of its own, which is killed a hundred times at random moments.

    python tests/runtime/kills.py                            # a hundred times, llama.cpp
    python tests/runtime/kills.py --times 12 --backend mlx

SIGKILL, SIGSEGV and SIGSTOP in turn. No session may see anything of it but the time that it takes: each turn ends as it
does when nobody kills, with the same answer and the same calls. Afterwards no process, thread or file is left.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # for `python tests/runtime/kills.py`

from attrs import define, field

from cognition import Completed, RetryPolicy
from interpreters import Agent, tool
from runtime import Isolation, load_model
from runtime.isolated.handles import IsolatedRuntime
from runtime.models.specs import BackendName

SESSIONS = 8

SIGNALS = (signal.SIGKILL, signal.SIGSEGV, signal.SIGSTOP)

PATIENT = Isolation(silence=2.0, start=5.0, backoff=0.0, restarts=1_000_000)
"""Two seconds without a sign of life are enough for a test, and five at the start, where many a SIGSTOP comes; and
a process that is killed at once each time is no fault of its own."""

OFTEN = 0.25
"""Of the kills, those before which a turn has to end."""

AGAIN = RetryPolicy(attempts=1_000_000, first_delay=0.05, longest_delay=0.2)

QUESTIONS = ("What is 17 * 23?", "What is 12 * 12?", "What is 31 * 7?", "What is 5 * 9?")


@tool(read_only=True)
def multiply(a: int, b: int) -> int:
    """Multiply two whole numbers."""
    return a * b


def agent(model: IsolatedRuntime) -> Agent:
    return Agent(model, tools=[multiply], retry=AGAIN)


def turn(model: IsolatedRuntime, question: str) -> tuple[Any, ...]:
    """One session of one turn: what it said and called."""
    with agent(model) as session:
        result = session.run(question)
    return type(result.outcome).__name__, result.text, tuple((call.name, str(call.arguments)) for call in result.calls)


@define
class Kills:
    """One run."""

    model: IsolatedRuntime
    times: int
    seed: int = 0
    turns: Counter[tuple[Any, ...]] = field(factory=Counter)
    """How each question was answered, and how often."""
    sent: Counter[str] = field(factory=Counter)
    """Signals."""
    failed: list[BaseException] = field(factory=list)
    _over: threading.Event = field(factory=threading.Event)
    _turned: threading.Event = field(factory=threading.Event)
    """A turn has ended."""

    def run(self) -> None:
        """Until it was killed so many times, and every session has ended after that."""
        threads = [threading.Thread(target=self._work, args=(number,)) for number in range(SESSIONS)]
        for thread in threads:
            thread.start()
        try:
            self._kill()
        finally:
            self._over.set()
            for thread in threads:
                thread.join()
        for error in self.failed:
            raise error

    def _work(self, number: int) -> None:
        try:
            for at in itertools.count(number):
                question = QUESTIONS[at % len(QUESTIONS)]
                self.turns[question, *turn(self.model, question)] += 1
                self._turned.set()
                if self._over.is_set():
                    return
        except BaseException as error:  # who runs this has to hear of it
            self.failed.append(error)
            self._turned.set()

    def _kill(self) -> None:
        chance = random.Random(self.seed)
        killed = None
        for number in range(self.times):
            if chance.random() < OFTEN:  # else nobody might ever come to an end, on a machine that is slow
                self._turned.clear()
                self._turned.wait()
            # A moment of chance: while it starts, loads, reads a prompt, writes, or rests. It waits for nothing.
            self._over.wait(chance.choice((0.0, 0.05, 0.3, 1.0, 2.0)) * chance.random())
            while (pid := self.model.pid) is None or pid == killed:
                if self.failed:
                    return
                self._over.wait(0.01)  # until there is another one; nothing tells it to a killer
            kind = SIGNALS[number % len(SIGNALS)]
            try:
                os.kill(pid, kind)
            except ProcessLookupError:  # it ended in this moment
                continue
            self.sent[kind.name] += 1
            killed = pid

    def wrong(self, calm: dict[str, tuple[Any, ...]]) -> list[str]:
        """Turns that did not end as they do when nobody kills, in words."""
        return [
            f"{many} times {question!r} was answered {answer}, and not {calm[question]}"
            for (question, *answer), many in self.turns.items()
            if tuple(answer) != calm[question] or answer[0] != Completed.__name__
        ]


def calm_turns(backend: BackendName) -> dict[str, tuple[Any, ...]]:
    """How each question is answered when nobody kills, by a process of the same kind."""
    with load_model(backend=backend, isolate=True) as model:
        return {question: turn(model, question) for question in QUESTIONS}


def left_behind(pids: set[int], threads: set[threading.Thread], files: int) -> list[str]:
    """What is left of a run, in words."""
    found = [f"thread {thread.name} is left" for thread in set(threading.enumerate()) - threads]
    if len(os.listdir("/dev/fd")) > files:
        found.append(f"{len(os.listdir('/dev/fd')) - files} files are left open")
    for pid in pids:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            continue
        found.append(f"process {pid} is left")
    return found


def kill(backend: BackendName, times: int, seed: int) -> tuple[Kills, list[str]]:
    """All of it: what happened, and what was wrong with it."""
    calm = calm_turns(backend)
    threads, files = set(threading.enumerate()), len(os.listdir("/dev/fd"))
    with load_model(backend=backend, isolate=PATIENT) as model:
        run = Kills(model, times, seed)
        run.run()
        last = {model.pid} - {None}
    return run, run.wrong(calm) + left_behind(last, threads, files)  # type: ignore[arg-type]  # None was taken out


def main() -> int:
    """The command line."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--times", type=int, default=100, help="how often (default: 100)")
    options.add_argument("--backend", choices=("llama", "mlx"), default="llama")
    options.add_argument("--seed", type=int, default=0)
    chosen = options.parse_args()
    logging.getLogger("cogstep").setLevel(logging.ERROR)
    began = time.monotonic()
    run, problems = kill(chosen.backend, chosen.times, chosen.seed)
    sent = ", ".join(f"{count} {name}" for name, count in run.sent.items())
    print(
        f"{sum(run.sent.values())} kills ({sent}) in {time.monotonic() - began:.0f} seconds; "
        f"{run.model.starts} processes; {sum(run.turns.values())} turns of {SESSIONS} sessions at once"
    )
    print("\n".join(problems) or "every turn ended as it does when nobody kills, and nothing is left")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
