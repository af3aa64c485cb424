"""Cancellation under asyncio: at every place where a turn awaits something, it ends at once and in one way."""

from __future__ import annotations

import asyncio
import gc
import itertools
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, get_args

import pytest

from cognition import Cancelled, Completed, Idle, ToolMessage, Usage
from cognition.values.features import HookPoint
from interpreters import (
    AsyncAgent,
    ToolContext,
    events,
    fakes,
    replay,
    tool,
)
from interpreters.observing.events import Event
from interpreters.testing.fakes import Hold, Reply, ScriptedModel, call
from interpreters.tools.offloading import run_in_thread
from tests.interpreters.loops import Blocking, double, run
from tests.interpreters.rich import FEATURES, PAGE, RichModel, open_files, strangers
from tests.interpreters.signs import PATIENCE


def test_cancel_counts_what_the_stopped_reply_took() -> None:
    """The model is let come to its end, which it says at once, and its tokens are in the turn's usage."""

    async def main(model: Any, hold: Hold) -> Any:
        async with AsyncAgent(model) as agent:
            turn = asyncio.create_task(agent.run("Tell me a story."))
            await run_in_thread(lambda: hold.reached.wait(PATIENCE))
            agent.cancel("enough")
            result = await turn
            return result.outcome, result.usage, (await agent.run("Hi!")).text

    for make in (lambda replies: ScriptedModel(replies), lambda replies: Blocking(*replies)):
        hold = Hold()
        model = make([Reply("Once upon a ", hold=hold, usage=Usage(7, 4)), "Hello again."])
        expected = (Cancelled("enough", "Once upon a "), Usage(7, 4), "Hello again.")
        assert expected == run(main(model, hold))


def test_a_cancellation_may_be_faster_than_an_answer() -> None:
    """A plain function may give something to await; where nobody will, nothing is left that Python warns of."""
    asked, answer = threading.Event(), threading.Event()

    async def later() -> bool:
        return True

    def approve(request: Any) -> Any:
        asked.set()
        assert answer.wait(PATIENCE)
        return later()

    async def main() -> Any:
        pay = tool(approval=True, name="pay")(double.function)
        async with AsyncAgent(ScriptedModel([call("pay", n=1)]), [pay], approve=approve) as agent:
            turn = asyncio.create_task(agent.run("Pay!"))
            await run_in_thread(lambda: asked.wait(PATIENCE))
            agent.cancel()
            result = await turn
            answer.set()
            await asyncio.sleep(0.01)
            return result.outcome

    assert Cancelled() == run(main())
    gc.collect()


def test_cancel_in_a_signal_handler() -> None:
    """Ctrl-C under ``asyncio.run`` without its own handler: the turn ends as cancelled."""
    hold = Hold()

    async def main() -> Any:
        async with AsyncAgent(Blocking(Reply("Once", hold=hold), "Hello again.")) as agent:
            before = signal.signal(signal.SIGALRM, lambda number, frame: agent.cancel("Ctrl-C"))
            try:
                turn = asyncio.create_task(agent.run("Go!"))
                await run_in_thread(lambda: hold.reached.wait(PATIENCE))
                signal.raise_signal(signal.SIGALRM)
                return (await turn).outcome, (await agent.run("Hi!")).text
            finally:
                signal.signal(signal.SIGALRM, before)

    assert (Cancelled("Ctrl-C", "Once"), "Hello again.") == run(main())


def test_a_timeout_around_run_ends_the_turn() -> None:
    """As any coroutine: it raises, the model stops, and the next message works."""
    hold = Hold()

    async def main() -> Any:
        async with AsyncAgent(Blocking(Reply("Once", hold=hold), "Hello again.")) as agent:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await agent.run("Go!")
            assert Idle() == agent.state.phase
            return (await agent.run("Hi!")).text

    assert run(main()) == "Hello again."


@asynccontextmanager
async def rich_session(**options: Any) -> AsyncIterator[AsyncAgent]:
    """Everything in one turn: a retry, calls at once, calls that take too long, a question, a plan, an approval, notes,
    a worker, each hook.
    """
    slept = threading.Event()

    @tool(read_only=True)
    async def look(n: int, context: ToolContext[Any]) -> int | str:
        context.progress(f"looking at {n}")
        await asyncio.sleep(0)
        return PAGE if n == 3 else n

    @tool(read_only=True, timeout=5)
    async def doze() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:  # which takes a while too
            await asyncio.sleep(0)

    @tool(read_only=True, timeout=7)
    def doze_on_a_thread() -> None:
        assert slept.wait(PATIENCE)

    @tool(approval=True)
    async def pay(amount: int) -> str:
        await asyncio.sleep(0)
        return f"paid {amount}"

    async def soon(value: Any) -> Any:
        await asyncio.sleep(0)
        return value

    class AsyncNotes:
        async def remember(self, text: str) -> None: ...

        async def recall(self, query: str) -> list[str]:
            return await soon(["Miu"])

    def always(answer: Any) -> Callable[[Any], Any]:
        async def ask(request: Any) -> Any:
            return await soon(answer)

        return ask

    async with AsyncAgent(
        RichModel(),
        [look, tool(read_only=True, name="double")(double.function), doze, doze_on_a_thread, pay],
        features=FEATURES,
        ask=always(["a"]),
        review=always(True),
        approve=always(True),
        memory=AsyncNotes(),  # type: ignore[arg-type]  # under asyncio a store may be async
        recall_first=True,
        hooks={point: always(None) for point in get_args(HookPoint)},
        clock=fakes.FakeClock(),
        worker_patience=None,
        **options,
    ) as agent:
        try:
            yield agent
        finally:
            slept.set()


class Counted:
    """A coroutine whose every suspension is counted; at one of them something is done."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], tick: Callable[[], None]) -> None:
        self._coroutine = coroutine
        self._tick = tick

    def __await__(self) -> Any:
        inner = self._coroutine.__await__() if hasattr(self._coroutine, "__await__") else self._coroutine
        value: Any = None
        error: BaseException | None = None
        while True:
            try:
                waits_for = inner.send(value) if error is None else inner.throw(error)  # type: ignore[union-attr]
            except StopIteration as end:
                return end.value
            self._tick()
            value = error = None
            try:
                value = yield waits_for
            except BaseException as caught:
                error = caught


def count_suspensions(loop: asyncio.AbstractEventLoop, tick: Callable[[], None]) -> None:
    """Have ``tick`` called whenever any task of this loop awaits something that is not there yet."""

    async def wrapped(coroutine: Any) -> Any:
        return await Counted(coroutine, tick)

    def factory(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> Any:
        task: asyncio.Task[Any] = asyncio.Task(wrapped(coroutine), loop=loop, **options)
        task.add_done_callback(lambda _: coroutine.close())  # one that never began
        return task

    loop.set_task_factory(factory)


def late_calls(agent: AsyncAgent) -> list[tuple[str, str]]:
    return [(m.name, m.content) for m in agent.state.history if isinstance(m, ToolMessage) and m.status == "error"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "fsync"), [("agent.cancel", "never"), ("task.cancel", "never"), ("task.cancel", "record")]
)
def test_cancel_at_every_await_of_a_turn(how: str, fsync: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it comes, there is one end, no task and no thread is left, and the journal tells the same.

    With ``fsync="record"`` each step is such a place too: the disk is waited for on another thread.
    """
    monkeypatch.setattr(
        "interpreters.recording.journal._writer.os.fsync", lambda descriptor: None
    )  # a hundred of them a turn
    monkeypatch.setattr("runtime.threads.pool.KEEP_IDLE", 0.01)  # threads of tools are seen to go

    async def turn(stop: int | None, journal: Any) -> int:
        points = 0
        loop = asyncio.get_running_loop()
        told: list[Event] = []
        async with rich_session(observers=[events.Inline(told.append)], journal=journal, fsync=fsync) as agent:
            main: asyncio.Task[Any] | None = None

            def tick() -> None:
                nonlocal points
                points += 1
                if points == stop and main is not None:
                    if how == "agent.cancel":
                        agent.cancel("enough")
                    else:
                        loop.call_soon(main.cancel)

            count_suspensions(loop, tick)
            main = loop.create_task(agent.run("Go!"))
            try:
                outcome: Any = (await main).outcome
            except asyncio.CancelledError:
                outcome = Cancelled("the task was cancelled")
            loop.set_task_factory(None)
            if agent.pending:  # a cancelled task gives up nothing that can be answered later
                assert how == "task.cancel"
                assert agent.cancel("the task was cancelled")
                await agent._interpreter.ready()
            ends = [
                event
                for event in told
                if isinstance(event.value, events.TurnFinished) and event.session == agent.session
            ]
            assert (1, Idle()) == (len(ends), agent.state.phase), f"cancelled at await {stop}"
            if stop is None:
                assert [name for name, content in late_calls(agent) if "took" in content] == [
                    "doze",
                    "doze_on_a_thread",
                ]
            else:
                assert isinstance(outcome, Cancelled | Completed), f"cancelled at await {stop}"
                if isinstance(ends[0].value.outcome, Completed):
                    assert points - stop <= 2, f"a cancellation at await {stop} of {points} was lost"
            assert (await agent.run("Hi!")).text == "Hello again."
            state = agent.state
        report = replay(journal).raise_for_divergence()
        assert (state, 2) == (report.state, report.turns)
        return points

    total = run(turn(None, tmp_path / "whole.jsonl"))
    assert total > 30
    before, files = set(threading.enumerate()), open_files()
    for stop in range(1, total + 1):
        run(turn(stop, tmp_path / f"{stop}.jsonl"))
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE)
    assert set(threading.enumerate()) <= before
    assert (strangers(tmp_path), any(tmp_path.glob("*.payloads/*")), open_files() <= files) == ([], True, True)


@pytest.mark.behaviour("C13b")
@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("worker", [False, True])
@pytest.mark.parametrize("how", ["agent.cancel", "task.cancel", "twice"])
def test_notes_that_the_model_was_told_are_saved_are_saved(how: str, worker: bool, native: bool) -> None:
    """Whatever is cancelled then, and though the second one has not begun."""
    saved: list[str] = []

    class Slow:
        def remember(self, text: str) -> None:
            time.sleep(0.01)
            saved.append(text)

        def recall(self, query: str) -> list[str]:
            return []

    class Awaited(Slow):
        async def remember(self, text: str) -> None:  # type: ignore[override]  # as an AsyncAgent may have it
            await asyncio.sleep(0.01)
            saved.append(text)

    async def main() -> None:
        told: list[str] = []

        def watch(event: Event) -> None:
            if isinstance(event.value, events.Remember):
                told.append(event.value.text)
                if len(told) == 2:
                    agent.cancel() if how == "agent.cancel" else turn.cancel()
                    if how == "twice":
                        asyncio.get_running_loop().call_later(0.005, turn.cancel)

        both = [call("remember", text="a"), call("remember", text="b"), call("recall", query="c")]
        script = [call("spawn_worker", name="ann", objective="work"), both] if worker else [both]
        memory: Any = Awaited() if native else Slow()
        model = ScriptedModel(itertools.chain(script, itertools.repeat("Done.")))
        features: Any = ["memory", "workers"]
        async with AsyncAgent(model, memory=memory, features=features, observers=[events.Inline(watch)]) as agent:
            turn = asyncio.ensure_future(agent.run("Go!"))
            await asyncio.wait([turn])
            assert (told, saved) == (["a", "b"], ["a", "b"])

    run(main())
