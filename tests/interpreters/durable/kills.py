"""Processes that work at sessions are killed with SIGKILL, many times, while others take over.

    make durable-kills                                          100 kills on SQLite, then on PostgreSQL
    make durable-kills ARGS="--kills 2 --freezes 0 --sessions 200 --workers 4 --on postgresql"

They die by themselves, at random ones of the moments that matter (model, tool, commit), and are killed from outside at
random times (timers, approvals, taking over). Some are stopped for longer than it takes to count as dead, and wake in
the middle of what others have taken over. In the end every session has finished, every recording replays, and no tool
that must happen once happened twice: that is counted in a file, where no kill takes it back.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import tests.interpreters.durable.sqlite  # noqa: F401 - before anything opens a database
from cognition import CogstepError, Completed
from interpreters import replay
from interpreters.durable.dbos.sessions import DBOSSessions
from interpreters.recording.store import EXPIRES_AFTER
from tests.interpreters.databases import postgres, why_no_postgres
from tests.interpreters.durable.shop import note, shop

PATIENCE = 600.0
"""Seconds for all of it."""

ROOT = Path(__file__).resolve().parents[3]


class Worker:
    """One process."""

    def __init__(self, url: str, folder: Path, chance: float) -> None:
        self.thaws = 0.0
        """When it is to be woken; 0 for one that is not stopped."""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.interpreters.durable.working", url, str(folder)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=(folder / "said").open("ab"),
            env={**os.environ, "COGSTEP_DIES": str(chance)},
        )

    @property
    def dead(self) -> bool:
        return self.process.poll() is not None

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def freeze(self) -> None:
        """Stop it for longer than a process may be silent."""
        self.thaws = time.monotonic() + EXPIRES_AFTER + 5.0
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self, now: float) -> None:
        """Wake it, once that is over."""
        if self.thaws and now >= self.thaws:
            self.thaws = 0.0
            self.process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        self.thaw(math.inf)
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)


def run(url: str, folder: Path, *, kills: int, freezes: int, sessions: int, workers: int) -> Counter[str]:
    """Work at some sessions while processes are killed and stopped; how often, by what they did then.

    Raises:
        AssertionError: something did not hold.
    """
    names = [f"session-{number}" for number in range(sessions)]
    face = DBOSSessions(shop(folder), url)
    for name in names:
        face.send(name, "Do it.")
    chance = 0.02 if kills else 0.0
    crew = [Worker(url, folder, chance) for _ in range(workers)]
    waiting, died, frozen, until = set(names), 0, 0, time.monotonic() + PATIENCE
    turns = dict.fromkeys(names, 0)
    try:
        while waiting:
            assert time.monotonic() < until, f"still at work: {sorted(waiting)}; see {folder / 'said'}"
            for place, one in enumerate(crew):
                one.thaw(time.monotonic())
                if frozen < freezes and not any(other.thaws for other in crew) and random.random() < 0.05:
                    frozen += 1
                    note(folder / "deaths", "stopped, and woken later")
                    one.freeze()
                elif died < kills and not one.dead and random.random() < 0.05:
                    note(folder / "deaths", "from outside")
                    one.kill()
                if one.dead:
                    died += 1
                    crew[place] = Worker(url, folder, chance if died < kills else 0.0)
            for name in sorted(waiting):
                if step(face, name):
                    turns[name] += 1
                    if died >= kills and frozen >= freezes:
                        waiting.discard(name)
                    else:
                        face.send(name, "Once more.")
            time.sleep(0.2)
    finally:
        for one in crew:
            (one.kill if waiting else one.end)()
    check(face, folder, names)
    face.close()
    return Counter((folder / "deaths").read_text().splitlines() if died or frozen else [])


def step(face: DBOSSessions, name: str) -> bool:
    """Answer what a session waits for; whether its turn has ended, and nothing more is sent to it."""
    if face._runs(name, ["PENDING", "ENQUEUED"]):
        return False
    try:
        pending = face.pending(name)
    except CogstepError:  # not begun
        return False
    for effect in pending[:1]:
        face.answer(name, str(effect.effect_id), True)
    return not pending


def check(face: DBOSSessions, folder: Path, names: list[str]) -> None:
    """See that all of it holds."""
    for worker in face.store.names():
        if worker.partition("/")[0] in names:
            replay(face.recorder(worker)).raise_for_divergence()
    for name in names:
        report = replay(face.recorder(name)).raise_for_divergence()
        assert report.state.counters.turn >= 1
        for one in face._runs(name, ["ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"]):
            raise AssertionError(f"{one.workflow_id} ended as {one.status}")
        for one in face._runs(name, ["SUCCESS"]):
            ended = face.result(one.workflow_id)
            assert ended.pending or (ended.finished and isinstance(ended.finished.outcome, Completed)), ended
    done = Counter((folder / "done").read_text().splitlines())
    for what, times in done.items():
        turns = replay(face.recorder(what.split()[2])).turns
        assert times <= turns, f"{what} happened {times} times in {turns} turns"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--freezes", type=int, default=3, help="how many are stopped for a while, and woken")
    parser.add_argument("--sessions", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--on", choices=["sqlite", "postgresql", "both"], default="both")
    given = parser.parse_args()
    for kind in ("sqlite", "postgresql") if given.on == "both" else (given.on,):
        if kind == "postgresql" and (reason := why_no_postgres()):
            print(f"postgresql: left out, since {reason}")
            continue
        with tempfile.TemporaryDirectory() as place:
            url = f"sqlite:///{place}/sessions.db" if kind == "sqlite" else postgres().url
            began = time.monotonic()
            how = {name: getattr(given, name) for name in ("kills", "freezes", "sessions", "workers")}
            died = run(url, Path(place), **how)
            print(
                f"{kind}: {given.sessions} sessions, {sum(died.values())} deaths in {time.monotonic() - began:.0f} s:"
            )
            for what, times in died.most_common():
                print(f"  {times:4} {what}")


if __name__ == "__main__":
    main()
