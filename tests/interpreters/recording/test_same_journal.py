"""The same scripted session gives the same journal, byte for byte, whichever way it is run."""

from __future__ import annotations

import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from cognition import Failure, Limits, MalformedToolCall, Usage
from interpreters import Approval, events, fakes, replay, tool
from interpreters.observing.events import Event
from interpreters.testing.fakes import Reply, ScriptedModel, call
from runtime import Notes
from tests.interpreters.loops import Blocking
from tests.interpreters.secrets import KEY
from tests.interpreters.signs import PATIENCE
from tests.interpreters.ways import in_asyncio, in_sync


@tool(read_only=True)
def look(n: int) -> int:
    """Look."""
    return n


@tool
async def write(text: str) -> str:
    """Write."""
    if not text:
        raise ValueError("nothing to write")
    return f"wrote {text}"


@tool(approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


TOOLS = [look, write, pay]

texts = st.one_of(st.text(max_size=12), st.sampled_from([f"the key {KEY}", "[redacted:api_key:1]"]))
calls = st.one_of(
    st.builds(lambda n: call("look", n=n), st.integers(0, 2)),
    st.builds(lambda text: call("write", text=text), texts),
    st.builds(lambda amount: call("pay", amount=amount), st.integers(0, 9)),
    st.builds(lambda text: call("remember", text=f"note {text}"), texts),
    st.builds(lambda: call("recall", query="note")),
    st.builds(lambda: call("ask_user", questions=[{"question": "Which?", "options": ["a", "b"]}])),
    st.builds(lambda: call("nonsense", a=1)),
    st.builds(lambda text: call("spawn_worker", name="ann", objective=f"work on {text}"), texts),
    st.builds(lambda: call("enter_plan_mode")),
    st.builds(lambda: call("submit_plan", steps=["look", "pay"])),
    st.builds(lambda: call("finish_step")),
    st.builds(lambda: call("update_tasks", tasks=[{"title": "look", "status": "open"}])),
)
usages = st.builds(Usage, st.integers(0, 50), st.integers(0, 50))
replies = st.one_of(
    st.builds(Reply, texts, chunk=st.integers(0, 3), usage=usages, reasoning=texts),
    st.builds(Reply, texts, calls.map(lambda one: (one,)), usage=usages),
    # several that change something run one after another; read-only ones beside each other end in any order
    st.builds(Reply, calls=st.lists(calls.filter(lambda c: c.name in ("write", "pay")), min_size=2, max_size=3)),
    st.builds(Reply, malformed=st.just((MalformedToolCall("{", "cut"),)), usage=usages),
    st.builds(Reply, texts, failure=st.builds(Failure, texts, st.sampled_from(("transient", "rate_limit", "fatal")))),
)


def options(journal: Path, approvals: list[bool]) -> dict[str, Any]:
    answers = iter(approvals)
    return {
        "tools": TOOLS,
        "features": ["questions", "memory", "plan", "tasks", "workers"],
        "memory": Notes(),
        "ask": lambda request: ["a"],
        "review": lambda request: next(answers, True),
        "worker_patience": None,  # of seconds that no clock here counts
        "approve": lambda request: Approval(next(answers, True), "so it is"),
        "hooks": {"stop": lambda request: None},
        "limits": Limits(steps=6),
        "clock": fakes.FakeClock(1_790_000_000.0),
        "session": "the same",
        "journal": journal,
        "fsync": "never",
    }


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(replies, max_size=7), st.lists(st.booleans(), max_size=4))
def test_sync_and_asyncio_record_the_same(script: list[Reply], approvals: list[bool]) -> None:
    """Calls, failures, retries, questions, plans, notes, workers, hooks; by a model that awaits and one that blocks."""

    def endless() -> Any:
        yield from script
        while True:
            yield "Done."

    with TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in ("sync", "asyncio", "bridged")]
        one = in_sync(ScriptedModel(endless()), "Go!", "And on!", **options(paths[0], approvals))
        two = in_asyncio(ScriptedModel(endless()), "Go!", "And on!", **options(paths[1], approvals))
        blocking = Blocking()
        blocking.scripted = ScriptedModel(endless())
        three = in_asyncio(blocking, "Go!", "And on!", **options(paths[2], approvals))
        recorded = [path.read_bytes() for path in paths]
        states = [replay(path).raise_for_divergence().state for path in paths]

    assert recorded[0] == recorded[1] == recorded[2]
    assert KEY.encode() not in recorded[0]
    assert one.results == two.results == three.results
    assert [one.state, two.state, three.state] == states


def racing() -> tuple[ScriptedModel, dict[str, Any]]:
    """Two calls at once, of which the second ends first, and what a session of them is given."""
    first_is_told = threading.Event()

    @tool(read_only=True)
    def race(n: int) -> int:
        """Race."""
        if n == 1:
            assert first_is_told.wait(PATIENCE)
        return n

    def watch(event: Event) -> None:
        if isinstance(event.value, events.ToolReturned):
            first_is_told.set()

    model = ScriptedModel([[call("race", n=1), call("race", n=2)], "Done."])
    return model, {"tools": [race], "observers": [watch], "fsync": "never"}


def test_calls_that_run_together_are_recorded_as_they_end(tmp_path: Path) -> None:
    """In the order of their ends, which is the same here for each way: the second call waits for the first one's."""

    def session(talk: Any, journal: Path) -> bytes:
        model, given = racing()
        talk(model, "Go!", journal=journal, session="s", clock=fakes.FakeClock(), **given)
        return journal.read_bytes()

    assert session(in_sync, tmp_path / "sync") == session(in_asyncio, tmp_path / "asyncio")
