"""Ten threads at one runtime: they ask, read on or don't, cancel at random, count, save and restore.

    python tests/runtime/hammer.py                          # two minutes, llama.cpp
    python tests/runtime/hammer.py --seconds 30 --backend mlx

Whatever they do, each reply begins as it does alone, token for token, unless two were nearly tied there: what shares a
batch changes the last digits of logits (docs/concepts/scheduler.md#rounding). And nothing is left behind.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Literal

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # for `python tests/runtime/hammer.py`

from attrs import define, field

from cognition import AssistantMessage, GenerationOptions, History, Message, ModelRequest, UserMessage
from runtime import Done, LlamaOptions, SavedCacheError, load_model
from runtime.local._running_reply import RunningReply
from runtime.local.handles import LocalRuntime
from runtime.scheduling.plan import BatchPiece, Schedule

THREADS = 10

NEARLY = 0.3
"""Logits: what two tokens may differ by and yet change places. Each of them moves by up to 0.15, as
docs/concepts/scheduler.md has it for the shipped model, of a spread of 2.8."""

SYSTEMS = ("You are one of many agents. " * 8, "You are one of many agents. " * 4 + "Be brief.", "")
TASKS = ("Add 2 and 3.", "What is 17 * 23?", "Name a colour.", "Count to ten.", "List files. " * 20, "Why?")
REPLIES = ("It is so.", "Yes, of course, since all of them are there.")


def asked(chance: random.Random, tokens: int) -> ModelRequest:
    """One of a few dozen requests, which share beginnings."""
    messages: list[Message] = [UserMessage("m1", chance.choice(TASKS))]
    if chance.random() < 0.4:
        messages += [AssistantMessage("m2", chance.choice(REPLIES)), UserMessage("m3", chance.choice(TASKS[:3]))]
    options = GenerationOptions(max_tokens=tokens)
    return ModelRequest(chance.choice(SYSTEMS), History(tuple(messages)), (), options)


def key(request: ModelRequest) -> tuple[str, tuple[Any, ...]]:
    """What makes two requests the same."""
    return request.system, tuple(request.messages)


def note_tokens(said: dict[int, list[int]]) -> Callable[[], None]:
    """Have each token that is sampled noted, by the identity of its request; returns what undoes it."""
    following = RunningReply.next

    def noted(reply: RunningReply, row: int, now: float) -> int:
        token = following(reply, row, now)
        said.setdefault(id(reply.request), []).append(token)
        return token

    def undo() -> None:
        RunningReply.next = following  # type: ignore[method-assign]

    RunningReply.next = noted  # type: ignore[method-assign]
    return undo


@define
class Hammer:
    """One run.

    Args:
        runtime: what is hammered.
        tokens: of the longest reply.
        nearly: how close two tokens have to be to be called tied, as a difference of logits.
    """

    runtime: LocalRuntime
    tokens: int = 16
    nearly: float = NEARLY
    finished: list[tuple[ModelRequest, Done]] = field(factory=list)
    failed: list[BaseException] = field(factory=list)
    said: dict[int, list[int]] = field(factory=dict)
    """The tokens of each reply, by its request's ``id``."""
    restored: int = 0

    def run(self, seed: int, go_on: Callable[[int], bool]) -> None:
        """Hammer, until ``go_on`` says no to a thread that has asked so many times."""
        with self._noting(), tempfile.TemporaryDirectory() as folder:
            threads = [
                threading.Thread(target=self._work, args=(seed * THREADS + number, Path(folder) / str(number), go_on))
                for number in range(THREADS)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        for error in self.failed:
            raise error

    def _work(self, seed: int, file: Path, go_on: Callable[[int], bool]) -> None:
        chance = random.Random(seed)
        try:
            for asked_so_far in count():
                if not go_on(asked_so_far):
                    return
                self._ask(chance, file)
        except BaseException as error:  # the test has to hear of it
            self.failed.append(error)

    def _ask(self, chance: random.Random, file: Path) -> None:
        request = asked(chance, self.tokens)
        generation = self.runtime.submit(request)
        patience = chance.choice([0, 1, 2, 5, 1000, 1000])
        outputs: list[Any] = []
        while len(outputs) < patience and not (outputs and isinstance(outputs[-1], Done)):
            outputs.append(next(generation))
        if chance.random() < 0.2:
            assert self.runtime.count_tokens(request) > 0
        if chance.random() < 0.1 and "saved_cache" in self.runtime.describe().features:
            self._save_and_restore(request, file)
        generation.cancel()
        *_, done = (*outputs, *generation)
        assert isinstance(done, Done)
        self.finished.append((request, done))

    def _save_and_restore(self, request: ModelRequest, file: Path) -> None:
        try:
            self.runtime.save_cache(request, file)
            self.restored += self.runtime.restore_cache(file) > 0
        except SavedCacheError as error:
            if not ("no room" in str(error) or "holds nothing" in str(error)):  # that may be, in such company
                raise

    @contextmanager
    def _noting(self) -> Iterator[None]:
        undo = note_tokens(self.said)
        try:
            yield
        finally:
            undo()

    # ------------------------------------------------------------------------------------------------------ what holds

    def wrong(self) -> list[str]:
        """The replies that were neither what they are alone nor a tie away from it, in words."""
        found: list[str] = []
        alone: dict[Any, list[int]] = {}
        requests = {key(request): request for request, _ in self.finished}
        with self._noting():
            for name, request in requests.items():
                again = ModelRequest(request.system, request.messages, (), request.options)
                self._forget()
                self.said[id(again)] = []  # a request that is gone may have had this id
                list(self.runtime.submit(again))
                alone[name] = self.said.pop(id(again))
        for request, done in self.finished:
            said, expected = self.said.get(id(request), []), alone[key(request)]
            if done.finish_reason not in ("cancelled", "length", "stop", "tool_calls"):
                found.append(f"{done.finish_reason}: {done.failure}")
            place = next((at for at, pair in enumerate(zip(said, expected, strict=False)) if pair[0] != pair[1]), None)
            if place is not None and not self._nearly_tied(request, expected, place, said[place]):
                found.append(f"{request.messages[-1]}: token {place} is {said[place]}, and alone {expected[place]}")
            if place is None and done.finish_reason != "cancelled" and len(said) != len(expected):
                found.append(f"{request.messages[-1]}: {len(said)} tokens, and alone {len(expected)}")
        return found

    def _nearly_tied(self, request: ModelRequest, expected: Sequence[int], place: int, other: int) -> bool:
        """Whether the other token would be taken if it were only a little likelier."""
        favoured = GenerationOptions(temperature=0, logit_bias=((other, self.nearly),))

        def look(engine: Any) -> bool:
            backend = engine._backend
            tokens = (*engine.prompt(request), *expected[:place])
            backend.ready()
            for start in range(0, len(tokens), backend.limits.chunk):
                part = tokens[start : start + backend.limits.chunk]
                assert backend.evaluate([BatchPiece(0, 0, start, part, last=start + len(part) == len(tokens))])
            sampler = backend.sampler(favoured)
            try:
                return bool(backend.sample(0, sampler) == other)
            finally:
                sampler.close()

        self._forget()
        try:
            return self.runtime._owner.call(look)
        finally:
            self._forget()

    def _forget(self) -> None:
        """Empty the cache."""

        def forget(engine: Any) -> None:
            engine._backend.reset()
            engine._schedule = Schedule(engine._schedule.limits)

        self.runtime._owner.call(forget)

    def left(self) -> list[str]:
        """What is left behind in the engine, in words. To be asked before ``wrong``."""
        return self.runtime._owner.call(_left)


def _left(engine: Any) -> list[str]:
    schedule, backend = engine._schedule, engine._backend
    found = [f"request {number} has not ended" for number in engine._replies]
    found += [f"request {number} runs" for number in schedule.running]
    found += [f"request {request.id} waits" for request in schedule.waiting]
    if schedule.cache.cells > schedule.limits.cells:
        found.append(f"{schedule.cache.cells} cells are used of {schedule.limits.cells}")
    if hasattr(backend, "_memory"):
        import llama_cpp.llama_cpp as native

        for sequence in range(schedule.limits.sequences + 1):
            real = 0
            if sequence < native.llama_n_seq_max(backend._context):
                real = native.llama_memory_seq_pos_max(backend._memory, sequence) + 1
            if real != schedule.cache.length(sequence):
                found.append(f"sequence {sequence} holds {real} tokens, not {schedule.cache.length(sequence)}")
    return found


def open_files() -> set[str]:
    """Where the file descriptors of this process lead, as far as the system tells."""
    folder = Path("/proc/self/fd")
    found: set[str] = set()
    for entry in folder.iterdir() if folder.is_dir() else ():
        try:
            found.add(f"{entry.name}: {os.readlink(entry)}")
        except OSError:  # of the listing itself
            continue
    return found


def main() -> int:
    """The command line."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=120, help="how long (default: 120)")
    options.add_argument("--backend", choices=("llama", "mlx"), default="llama")
    options.add_argument("--model", help="another than the one that ships")
    options.add_argument("--drafting", action="store_true", help="with drafting (llama.cpp)")
    options.add_argument("--seed", type=int, default=0)
    chosen = options.parse_args()
    backend: Literal["llama", "mlx"] = chosen.backend
    llama = LlamaOptions(drafting=True) if chosen.drafting else None
    before, threads = open_files(), set(threading.enumerate())
    with load_model(chosen.model, backend=backend, context_tokens=1024, options=llama) as runtime:
        hammer = Hammer(runtime)
        end = time.monotonic() + chosen.seconds
        hammer.run(chosen.seed, lambda _asked: time.monotonic() < end)
        problems = hammer.left() + hammer.wrong()
    problems += [f"thread {thread.name} is left" for thread in set(threading.enumerate()) - threads]
    problems += [f"file {file} is left open" for file in open_files() - before]
    reasons = [done.finish_reason for _, done in hammer.finished]
    counted = ", ".join(f"{reasons.count(reason)} {reason}" for reason in sorted(set(reasons)))
    print(f"{len(reasons)} replies in {chosen.seconds:.0f} seconds: {counted}; {hammer.restored} caches restored")
    print("\n".join(problems) or "each is what it is alone, and nothing is left")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
