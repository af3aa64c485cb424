"""The hammer on a model in a process of its own. What was said is judged there, beside the engine; what came out here
is held against what went in there.

    python tests/runtime/hammer_isolated.py                          # two minutes, llama.cpp
    python tests/runtime/hammer_isolated.py --seconds 30 --backend mlx
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # for `python tests/runtime/hammer_isolated.py`

from cognition import ModelRequest
from runtime import Done
from runtime.children.start import run
from runtime.isolated import wire
from runtime.isolated.handles import IsolatedRuntime
from runtime.local.handles import LocalRuntime
from runtime.models.specs import BackendName
from tests.runtime import steering
from tests.runtime.hammer import Hammer, note_tokens, open_files
from tests.runtime.steering import Rig, SteeredServer, Steering, isolated_rig

MODULE = "tests.runtime.hammer_isolated"


UNSENT = ("cancelled", "", "", 0)
"""The end of what was cancelled before it was sent: the process knows nothing of it."""


def ends(replies: list[Any]) -> Counter[tuple[Any, ...]]:
    """What tells one reply's end from another's, as values of JSON."""
    return Counter((done.finish_reason, done.reasoning, done.text, done.usage.output_tokens) for done in replies)


class IsolatedHammer(Hammer):
    """Hammers here, and has its child judge."""

    rig: Rig

    @contextmanager
    def _noting(self) -> Iterator[None]:
        yield

    def left(self) -> list[str]:
        return cast("list[str]", self.rig.order("left"))

    def wrong(self) -> list[str]:
        problems, *said = self.rig.order("judge")
        here = ends([done for _, done in self.finished])
        there = Counter(map(tuple, said))
        return [*problems, *(f"it said {end}, which did not come" for end in there - here)] + [
            f"{end} came, which it did not say" for end in here - there if end != UNSENT
        ]


def hammer_of(backend: BackendName, tokens: int) -> IsolatedHammer:
    """One on a fresh child."""
    rig = isolated_rig(backend, 1024, MODULE)
    hammer = IsolatedHammer(cast("LocalRuntime", rig.runtime), tokens=tokens)  # it has all that is asked of it here
    hammer.rig = rig
    return hammer


class HammerSteering(Steering):
    """Takes the orders of ``IsolatedHammer``."""

    def __init__(self, server: HammeredServer) -> None:
        super().__init__(server.owner, server.cancelled)
        self._server = server

    def left(self) -> list[str]:
        return self._hammer().left()

    def judge(self) -> list[Any]:
        """What was wrong, and then how each reply ended."""
        hammer = self._hammer()
        hammer.finished = list(self._server.finished)
        hammer.said = dict(self._server.said)
        self._server.finished.clear()
        return [hammer.wrong(), *(ends([done]).popitem()[0] for _, done in hammer.finished)]

    def _hammer(self) -> Hammer:
        return Hammer(self._server._runtime())


class HammeredServer(SteeredServer):
    """A child that remembers which tokens were said, and how each reply ended."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.asked: dict[int, ModelRequest] = {}
        self.finished: list[tuple[ModelRequest, Done]] = []
        self.said: dict[int, list[int]] = {}
        note_tokens(self.said)  # for as long as the process lives

    def steering(self) -> Steering:
        return HammerSteering(self)

    def handle(self, message: wire.Message) -> None:
        if isinstance(message, wire.Submit):
            self.asked[message.id] = message.request
        super().handle(message)

    def send(self, line: bytes) -> None:
        message = wire.from_child(line.decode())
        if isinstance(message, wire.Produced):
            self.finished += [(self.asked[number], end) for number, end in message.items if isinstance(end, Done)]
        super().send(line)


def main() -> None:
    """As ``runtime.isolated.child.main``."""
    steering.main(HammeredServer)


def from_command_line() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=120, help="how long (default: 120)")
    options.add_argument("--backend", choices=("llama", "mlx"), default="llama")
    options.add_argument("--seed", type=int, default=0)
    chosen = options.parse_args()
    run([sys.executable, "-c", ""]).wait()  # children are started on a thread that lives as long as the program
    before, threads = open_files(), set(threading.enumerate())
    hammer = hammer_of(chosen.backend, 16)
    runtime = cast("IsolatedRuntime", hammer.runtime)
    pid = runtime.pid
    end = time.monotonic() + chosen.seconds
    hammer.run(chosen.seed, lambda _asked: time.monotonic() < end)
    problems = hammer.left() + hammer.wrong()
    if runtime.starts != 1:
        problems.append(f"the process was started {runtime.starts} times")
    runtime.close()
    hammer.rig.close()
    problems += [f"thread {thread.name} is left" for thread in set(threading.enumerate()) - threads]
    problems += [f"file {file} is left open" for file in open_files() - before]
    if pid is not None and Path(f"/proc/{pid}").exists():
        problems.append(f"process {pid} is left")
    reasons = [done.finish_reason for _, done in hammer.finished]
    counted = ", ".join(f"{reasons.count(reason)} {reason}" for reason in sorted(set(reasons)))
    print(f"{len(reasons)} replies in {chosen.seconds:.0f} seconds: {counted}; {hammer.restored} caches restored")
    print("\n".join(problems) or "each is what it is alone, and nothing is left")
    return bool(problems)


if __name__ == "__main__":
    os.chdir(Path(__file__).resolve().parents[2])
    sys.exit(from_command_line())
