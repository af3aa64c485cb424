"""The same scripted session gives the same journal, byte for byte, behind a handle as in this program."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from interpreters import replay
from interpreters.hosting import AgentHost
from interpreters.observing.events import Event
from interpreters.testing.fakes import FakeClock, Reply, ScriptedModel
from tests.interpreters.hosting.models import FileModel, ScriptClock, write_script
from tests.interpreters.recording.test_same_journal import options, racing, replies
from tests.interpreters.ways import in_asyncio, in_sync

ROOT = Path(__file__).parent.parent.parent.parent

NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[AgentHost]]]:
    """A host in a thread and one in a process, whose models read their script from one file."""
    script = tmp_path_factory.mktemp("script") / "script.json"
    command = (sys.executable, "-m", "tests.interpreters.hosting.models", str(script))
    sys.path.insert(0, str(ROOT))
    try:
        with (
            AgentHost.in_thread(FileModel(str(script)), clock=ScriptClock(str(script))) as thread,
            AgentHost.in_process(command=command) as process,
        ):
            yield script, [thread, process]
    finally:
        sys.path.remove(str(ROOT))


def watch(event: Event) -> None:
    """Somebody reads what a reply begins with, so that a failed one is not begun again: so it is behind a handle."""


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.lists(replies, max_size=6), st.lists(st.booleans(), max_size=4))
def test_thread_and_process_record_what_sync_and_asyncio_record(
    hosts: tuple[Path, list[AgentHost]], script: list[Reply], approvals: list[bool]
) -> None:
    """Calls, approvals, failures, retries, questions, plans, notes, workers, hooks."""
    file, both = hosts

    def endless() -> Iterator[Any]:
        yield from script
        while True:
            yield "Done."

    with TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in ("sync", "asyncio", "thread", "process")]
        told: list[Any] = []
        for path, talk in zip(paths, (in_sync, in_asyncio), strict=False):
            said = talk(ScriptedModel(endless()), "Go!", "And on!", **options(path, approvals), observers=[watch])
            told.append(said.results)
        for path, host in zip(paths[2:], both, strict=True):
            given = options(path, approvals)
            write_script(file, next(NUMBERS), script)
            own = {
                name: given[name]
                for name in (
                    "features",
                    "ask",
                    "review",
                    "approve",
                    "hooks",
                    "limits",
                    "worker_patience",
                    "journal",
                    "fsync",
                )
            }
            with host.open("the same", given["tools"], notes=":memory:", **own) as handle:
                told.append(tuple(handle.run(text) for text in ("Go!", "And on!")))
        recorded = [path.read_bytes() for path in paths]
        assert [replay(path).same for path in paths] == [True] * 4

    assert recorded[0] == recorded[1] == recorded[2] == recorded[3]
    assert told[0] == told[1] == told[2] == told[3]


def test_calls_that_run_together_are_recorded_as_they_end(tmp_path: Path) -> None:
    """In the order of their ends, here and behind a handle: the second call waits for the first one's."""
    here, there = tmp_path / "here", tmp_path / "thread"
    model, given = racing()
    in_sync(model, "Go!", journal=here, session="s", clock=FakeClock(), **given)
    model, given = racing()
    with AgentHost.in_thread(model, clock=FakeClock()) as host:
        host.open("s", journal=there, **given).run("Go!")

    assert here.read_bytes() == there.read_bytes()
