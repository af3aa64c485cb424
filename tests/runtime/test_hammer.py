"""Ten threads at one runtime for a few seconds; ``make hammer`` does it for two minutes.

A runtime is added by a fixture like those here. What ``tests/runtime/hammer.py`` looks for is told there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime import LlamaOptions, load_model
from runtime.local.handles import LocalRuntime
from tests.runtime.conftest import installed_or_skip
from tests.runtime.hammer import THREADS, Hammer, open_files
from tests.runtime.hammer_isolated import hammer_of

Loader = Callable[[Path], LocalRuntime]


def shipped(backend: Any, **options: Any) -> Loader:
    installed_or_skip(backend)
    return lambda _folder: load_model(backend=backend, context_tokens=1024, **options)


def tiny(kind: Any, **options: Any) -> Loader:
    installed_or_skip("llama")
    models = pytest.importorskip("tests.runtime.tiny_models")
    return lambda folder: load_model(
        models.write_model(folder / "tiny.gguf", kind), context_tokens=1024, options=LlamaOptions(**options)
    )


SUBJECTS = {
    "llama": lambda: shipped("llama"),
    "mlx": lambda: shipped("mlx"),
    "drafting": lambda: tiny("qwen3", drafting=True),
    "few cells": lambda: tiny("qwen3", drafting=True, cells=1400, sequences=5),
    "recurrent": lambda: tiny("mamba"),
    "hybrid": lambda: tiny("jamba", sequences=6),
}


ASKED, TOKENS = 4, 16
"""How often each thread asks, and how long a reply may be."""

LESS = {"mlx": (1, 6)}
"""What is slow on a CPU does less."""


@pytest.fixture(
    params=[pytest.param(name, marks=pytest.mark.mlx if name == "mlx" else pytest.mark.llama) for name in SUBJECTS]
)
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[LocalRuntime, int, int]]:
    """A runtime, how often each thread asks, and how long a reply may be."""
    with SUBJECTS[request.param]()(tmp_path) as runtime:
        yield (runtime, *LESS.get(request.param, (ASKED, TOKENS)))


@pytest.mark.slow
def test_every_reply_is_what_it_is_alone_and_nothing_is_left(subject: tuple[LocalRuntime, int, int]) -> None:
    """Whatever ten threads ask, cancel, count, save and restore."""
    runtime, often, tokens = subject
    threads, files = set(threading.enumerate()), open_files()
    hammer = Hammer(runtime, tokens=tokens)
    hammer.run(1, lambda asked: asked < often)

    assert hammer.left() == []
    assert hammer.wrong() == []
    assert len(hammer.finished) == THREADS * often
    assert {done.finish_reason for _, done in hammer.finished} > {"cancelled"}
    assert set(threading.enumerate()) <= threads
    assert open_files() <= files


@pytest.mark.slow
def test_the_same_holds_for_a_model_in_a_process_of_its_own(backend_name: Any) -> None:
    """And what came out of it is what it said, no more and no less; caches are saved and restored there."""
    threads, files = set(threading.enumerate()), open_files()
    often, tokens = LESS.get(backend_name, (ASKED, TOKENS))
    hammer = hammer_of(backend_name, tokens)
    hammer.run(1, lambda asked: asked < often)

    assert hammer.left() == []
    assert hammer.wrong() == []
    assert len(hammer.finished) == THREADS * often
    hammer.runtime.close()
    hammer.rig.close()
    assert set(threading.enumerate()) <= threads
    assert open_files() <= files


@pytest.mark.llama
def test_a_wrong_reply_is_found() -> None:
    """The hammer itself: another token, one more token, and a request that stays, are seen."""
    with shipped("llama")(Path()) as runtime:
        hammer = Hammer(runtime, tokens=6)
        hammer.run(2, lambda asked: asked < 1)
        assert hammer.wrong() == []
        request, done = next((request, done) for request, done in hammer.finished if done.finish_reason != "cancelled")
        right = list(hammer.said[id(request)])
        hammer.finished = [(request, done)]
        for said in ([(right[0] + 7) % 500, *right[1:]], [*right, right[-1]]):
            hammer.said[id(request)] = said
            assert len(hammer.wrong()) == 1
        gate = threading.Event()
        runtime._owner.put(lambda _engine: bool(gate.wait(60)))
        generation = runtime.submit(request)
        found: list[list[str]] = []
        runtime._owner.put(lambda engine: found.append([f"{number}" for number in engine._replies]))
        gate.set()
        list(generation)

        assert len(found[0]) == 1
        assert hammer.left() == []
