"""Ctrl-C while a thread is started: nothing that the standard library has locked for it stays locked."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from types import FrameType
from typing import Any

import pytest

from runtime.threads import pool as workers
from runtime.threads.pool import ThreadPool
from tests.interpreters.signs import PATIENCE

TRACED = (threading.__file__, workers.__file__)

Place = tuple[str, int, int]
"""A file, a line of it, and how often it was come to before."""


def start(pool: ThreadPool, job: Any, at: Place | None) -> set[Place]:
    """Start a job, and interrupt this thread at one place on its way; the places that it came to."""
    met: Counter[tuple[str, int]] = Counter()
    places: set[Place] = set()

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        name, line = frame.f_code.co_filename, frame.f_lineno
        if name not in TRACED:
            return None
        if event == "line":
            place = (name, line, met[name, line])
            met[name, line] += 1
            places.add(place)
            if place == at:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        pool.start(job)
    except KeyboardInterrupt:
        assert at is not None
    finally:
        sys.settrace(None)
    return places


@pytest.mark.behaviour("C13d")
def test_an_interrupt_while_a_thread_starts_leaves_no_thread_behind() -> None:
    """At any line, the standard library's own too: the pool runs the next job and closes, and its threads end."""
    before = set(threading.enumerate())
    pool = ThreadPool()
    places = start(pool, list, None)
    pool.close(PATIENCE)
    assert len(places) > 5
    for place in sorted(places):
        pool, ran = ThreadPool(), threading.Event()
        start(pool, list, place)
        pool.start(ran.set)
        assert ran.wait(PATIENCE), place
        assert pool.close(PATIENCE) == 0, place
        until = time.monotonic() + PATIENCE
        while set(threading.enumerate()) - before and time.monotonic() < until:
            time.sleep(0.001)
        assert set(threading.enumerate()) == before, place
