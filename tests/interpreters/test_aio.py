"""The interpreter for asyncio: what only it has. What holds for every way of running is tested beside its subject."""

from __future__ import annotations

import asyncio
import contextvars
import doctest
import gc
import signal
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from queue import SimpleQueue
from typing import Any, get_args

import pytest

from cognition import Cancelled, Completed, ConfigError, Failed, Failure, Idle, ModelRequest, ToolMessage, Usage
from cognition.features import HookPoint
from interpreters import (
    Agent,
    AgentClosedError,
    AsyncAgent,
    BusyError,
    ToolContext,
    ToolRetry,
    async_agent,
    events,
    fakes,
    replay,
    tool,
)
from interpreters.events import Event
from interpreters.fakes import Hold, Reply, ScriptedModel, ScriptError, call
from interpreters.journal import JournalWriteError
from interpreters.threads import AT_ONCE, THREADS, in_thread
from runtime import awaiting
from runtime.awaiting import AsyncRuntime, Bridge, reading
from runtime.protocol import Generation, ModelInfo

PATIENCE = 60


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """``asyncio.run`` with a limit, and nothing may be left behind in the loop."""

    async def bounded() -> Any:
        async with asyncio.timeout(PATIENCE):
            result = await main
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return result

    return asyncio.run(bounded())


class Blocking:
    """A runtime that blocks, as those do which hold a model: nothing but ``Runtime``."""

    def __init__(self, *replies: Any) -> None:
        self.scripted = ScriptedModel(list(replies))

    def submit(self, request: ModelRequest) -> Generation:
        return self.scripted.submit(request)

    def count_tokens(self, request: ModelRequest) -> int:
        return self.scripted.count_tokens(request)

    def describe(self) -> ModelInfo:
        return self.scripted.describe()

    def close(self) -> None:
        self.scripted.close()


@tool
async def double(n: int) -> int:
    """Double."""
    await asyncio.sleep(0)
    return 2 * n


def statuses(agent: AsyncAgent) -> list[tuple[str, str]]:
    return [(m.content, m.status) for m in agent.state.history if isinstance(m, ToolMessage)]


def test_the_example_runs() -> None:
    outcome = doctest.testmod(async_agent)

    assert (outcome.failed, outcome.attempted > 0) == (0, True)


# ------------------------------------------------------------------------------------------------------------- tools


def test_read_only_calls_run_together() -> None:
    """Async ones on the loop, plain ones on threads: each waits for the others, so that one alone would hang."""
    together = threading.Barrier(2, timeout=PATIENCE)

    async def main() -> Any:
        meeting = asyncio.Barrier(2)

        @tool(read_only=True)
        async def meet(n: int) -> int:
            await meeting.wait()
            return n

        @tool(read_only=True)
        def meet_on_threads(n: int) -> int:
            together.wait()
            return n

        calls = [call("meet", n=1), call("meet", n=2), call("meet_on_threads", n=3), call("meet_on_threads", n=4)]
        async with AsyncAgent(ScriptedModel([calls, "Met."]), [meet, meet_on_threads]) as agent:
            await agent.run("Meet!")
            return statuses(agent)

    assert [(str(n), "ok") for n in range(1, 5)] == run(main())


def test_async_tools_fail_in_the_words_of_plain_ones() -> None:
    """Exceptions, retries, wrong arguments, ``sys.exit``: results that the model can read."""

    @tool
    async def fail(how: str) -> str:
        await asyncio.sleep(0)
        match how:
            case "retry":
                raise ToolRetry("not like this")
            case "exit":
                raise SystemExit(3)
            case "cancel":
                raise asyncio.CancelledError
            case _:
                raise ValueError("no such way")

    async def main() -> Any:
        calls = [call("fail", how=how) for how in ("retry", "exit", "cancel", "other")]
        async with AsyncAgent(ScriptedModel([*calls, call("fail", how=5), "Well."]), [fail]) as agent:
            assert (await agent.run("Fail!")).text == "Well."
            return [content for content, _ in statuses(agent)]

    assert run(main()) == [
        "Error: not like this\nTry again.",
        "Error: SystemExit: 3",
        "Error: the call was cancelled",
        "Error: no such way",
        "Error: wrong arguments for fail: how must be a text, not 5",
    ]


@pytest.mark.parametrize("blocking", [True, False])
def test_a_tool_that_takes_too_long_is_given_up(blocking: bool) -> None:
    """An async one is cancelled, a plain one is told; the model hears of both alike."""
    release = threading.Event()
    left: SimpleQueue[str] = SimpleQueue()

    async def main() -> Any:
        @tool(timeout=0.02, name="work")
        async def work() -> str:
            try:
                await asyncio.sleep(PATIENCE)
            finally:
                left.put("cancelled")
            return "late"

        @tool(timeout=0.02, name="work")
        def work_on_a_thread(context: ToolContext[Any]) -> str:
            assert release.wait(PATIENCE)
            left.put("cancelled" if context.cancelled else "not told")
            return "late"

        model = ScriptedModel([call("work"), "Too slow."])
        async with AsyncAgent(model, [work_on_a_thread if blocking else work]) as agent:
            assert (await agent.run("Work!")).text == "Too slow."
            release.set()
            return statuses(agent)

    assert run(main()) == [("Error: work took longer than 0.02 seconds", "error")]
    assert left.get(timeout=PATIENCE) == "cancelled"  # its thread ends when it likes


def test_a_plain_tool_sees_the_context_variables_of_its_caller() -> None:
    """As code on the loop would."""
    user: contextvars.ContextVar[str] = contextvars.ContextVar("user")

    @tool
    def who() -> str:
        return user.get()

    async def main() -> Any:
        user.set("ann")
        async with AsyncAgent(ScriptedModel([call("who"), "Ann."]), [who]) as agent:
            await agent.run("Who am I?")
            return statuses(agent)

    assert run(main()) == [("ann", "ok")]


def test_no_more_threads_than_a_loop_can_bear() -> None:
    """As many as that run together, and calls beyond them wait for one; those given up don't count."""
    busy, most = 0, 0
    lock = threading.Lock()
    all_there = threading.Barrier(AT_ONCE, timeout=PATIENCE)

    def work() -> None:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        all_there.wait()
        with lock:
            busy -= 1

    async def main() -> None:
        await asyncio.gather(*(in_thread(work) for _ in range(4 * AT_ONCE)))

    run(main())
    THREADS.dismiss()

    assert most == AT_ONCE


# ------------------------------------------------------------------------------------------------------------ models


def test_a_blocking_model_is_read_without_blocking_the_loop() -> None:
    """While it thinks, other tasks go on; its outputs come in order and whole."""
    hold = Hold()

    async def main() -> Any:
        seen: list[str] = []

        def watch(event: Event) -> None:
            if isinstance(event, events.TextDelta):
                seen.append(event.text)

        model = Blocking(Reply("abcdefgh" * 40, hold=hold, chunk=1, usage=Usage(3, 8)))
        assert not isinstance(model, AsyncRuntime)
        async with AsyncAgent(model, observers=[watch]) as agent:
            turn = asyncio.create_task(agent.run("Spell!"))
            await in_thread(lambda: hold.reached.wait(PATIENCE))
            hold.release()
            result = await turn
        return result.text, "".join(seen), result.usage

    assert ("abcdefgh" * 40, "abcdefgh" * 40, Usage(3, 8)) == run(main())


def test_a_slow_reader_holds_a_blocking_model_up() -> None:
    """No more than ``ROOM`` outputs lie between its thread and the reader."""
    made = 0

    class Counting:
        def __iter__(self) -> Any:
            return self

        def __next__(self) -> Any:
            nonlocal made
            made += 1
            return f"output {made}"

        def cancel(self) -> None: ...

    async def main() -> None:
        bridge = Bridge(Counting())
        for n in range(1, 20):
            assert await anext(bridge) == f"output {n}"
            await asyncio.sleep(0.001)
            assert made <= n + awaiting.ROOM + 1
        bridge._leave()
        raise_at = made + 10
        Counting.__next__ = lambda self: (_ for _ in ()).throw(StopIteration)  # type: ignore[method-assign]
        assert made <= raise_at

    run(main())


def test_a_model_that_breaks_is_a_failed_call() -> None:
    """Whatever comes out of its thread; errors of the program's own pass through."""

    class Broken:
        def __iter__(self) -> Any:
            return self

        def __next__(self) -> Any:
            raise OSError("the driver is gone")

        def cancel(self) -> None: ...

    class Cut(Broken):
        def __next__(self) -> Any:
            raise StopIteration

    async def outcome(generation: Any) -> Any:
        model = Blocking()
        model.submit = lambda request: generation  # type: ignore[method-assign]
        async with AsyncAgent(model) as agent:
            return (await agent.run("Hi!")).outcome

    assert Failed("fatal", "OSError: the driver is gone") == run(outcome(Broken()))
    assert Failed("fatal", "the model's stream broke off without an end") == run(outcome(Cut()))

    async def too_short() -> None:
        async with AsyncAgent(ScriptedModel([])) as agent:
            await agent.run("Hi!")

    with pytest.raises(ScriptError, match="ends after 0 replies"):
        run(too_short())


# ----------------------------------------------------------------------------------------------------------- streams


def test_a_turn_is_streamed() -> None:
    """Event by event as observers get them, then the result; and the next turn has a stream of its own."""

    async def main() -> Any:
        told: list[Event] = []
        model = ScriptedModel([call("double", n=21), Reply("It is 42.", chunk=3), "Bye."])
        async with AsyncAgent(model, [double], observers=[told.append]) as agent:
            async with agent.stream("Double 21!") as stream:
                read = [event async for event in stream]
            assert read == told
            assert isinstance(read[-1], events.TurnFinished)
            async with agent.stream("Bye!") as second:
                texts = [event.text async for event in second if isinstance(event, events.TextDelta)]
            return stream.result.text, second.result.text, texts

    assert run(main()) == ("It is 42.", "Bye.", ["Bye."])


@pytest.mark.parametrize("model", [ScriptedModel, lambda replies: Blocking(*replies)])
def test_a_slow_reader_of_a_stream_holds_the_model_up(model: Callable[[Any], Any]) -> None:
    """It is never further behind than ``BEHIND`` events, and misses none."""
    length = 5 * async_agent.BEHIND

    async def main() -> Any:
        async with AsyncAgent(model([Reply("x" * length, chunk=1)])) as agent:
            seen = 0
            async with agent.stream("Go!") as stream:
                async for event in stream:
                    seen += isinstance(event, events.TextDelta)
                    assert len(stream._events) <= async_agent.BEHIND
                    if seen % 50 == 0:
                        await asyncio.sleep(0.001)
            return seen

    assert length == run(main())


def test_leaving_a_stream_cancels_its_turn() -> None:
    """The block is left when the turn has ended, and the conversation goes on."""

    async def main() -> Any:
        async with AsyncAgent(ScriptedModel([Reply("x" * 1000, chunk=1), "Hello again."])) as agent:
            async with agent.stream("Go!") as stream:
                async for event in stream:
                    if isinstance(event, events.TextDelta):
                        break
            assert isinstance(agent.state.phase, Idle)
            return stream.result.outcome, (await agent.run("Hi!")).text

    outcome, text = run(main())
    assert (isinstance(outcome, Cancelled), text) == (True, "Hello again.")
    assert outcome.reason == "the stream was left"


def test_a_stream_ends_also_when_the_turn_can_t() -> None:
    """With the error, wherever it is read; and words for those who read it wrongly."""

    async def read(stream: async_agent.EventStream) -> list[Event]:
        async with stream:
            return [event async for event in stream]

    async def main() -> None:
        async with AsyncAgent(ScriptedModel([])) as agent:
            stream = agent.stream("Hi!")
            with pytest.raises(Exception, match="has not ended yet"):
                _ = stream.result
            with pytest.raises(Exception, match="async with"):
                await anext(stream)
            with pytest.raises(ScriptError, match="ends after 0"):
                await read(stream)
            with pytest.raises(Exception, match="read once"):
                await read(stream)

    run(main())


# ------------------------------------------------------------------------------------------------------ cancellation


def test_cancel_counts_what_the_stopped_reply_took() -> None:
    """The model is let come to its end, which it says at once, and its tokens are in the turn's usage."""

    async def main(model: Any, hold: Hold) -> Any:
        async with AsyncAgent(model) as agent:
            turn = asyncio.create_task(agent.run("Tell me a story."))
            await in_thread(lambda: hold.reached.wait(PATIENCE))
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
            await in_thread(lambda: asked.wait(PATIENCE))
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
                await in_thread(lambda: hold.reached.wait(PATIENCE))
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


def rich_script() -> list[Any]:
    return [
        Failure("try again", kind="transient"),
        Reply("I look.", [call("look", n=1), call("double", n=2)], reasoning="Which ones?", chunk=3),
        [call("ask_user", questions=[{"question": "Which?", "options": ["a", "b"]}])],
        call("pay", amount=5),
        [call("recall", query="cat"), call("spawn_worker", name="ann", objective="work"), call("remember", text="a")],
        call("submit_plan", steps=["rest"]),
        call("finish_step"),
        Reply("All is done.", chunk=4),
    ]


class RichModel(ScriptedModel):
    """A turn with everything in it, a worker included, and a greeting afterwards."""

    def __init__(self) -> None:
        self._script = iter(rich_script())
        super().__init__(iter(lambda: self._answer, None))

    def _answer(self, request: ModelRequest) -> Any:
        if "Hi!" in [getattr(message, "text", "") for message in request.messages[-2:]]:  # notes may stand behind it
            return "Hello again."
        if getattr(request.messages[0], "text", "").startswith("work"):
            return Reply("I work.", chunk=2)
        return next(self._script)


@asynccontextmanager
async def rich_session(**options: Any) -> AsyncIterator[AsyncAgent]:
    """Everything in one turn: a retry, calls at once, a question, a plan, an approval, notes, a worker, each hook."""

    @tool(read_only=True)
    async def look(n: int, context: ToolContext[Any]) -> int:
        context.progress(f"looking at {n}")
        await asyncio.sleep(0)
        return n

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
        [look, tool(read_only=True, name="double")(double.function), pay],
        features=["questions", "plan", "memory", "workers"],
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
        yield agent


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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "fsync"), [("agent.cancel", "never"), ("task.cancel", "never"), ("task.cancel", "record")]
)
def test_cancel_at_every_await_of_a_turn(how: str, fsync: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it comes, there is one end, no task and no thread is left, and the journal tells the same.

    With ``fsync="record"`` each step is such a place too: the disk is waited for on another thread.
    """
    monkeypatch.setattr("interpreters.journal.writing.os.fsync", lambda descriptor: None)  # a hundred of them a turn

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
            ends = [
                event for event in told if isinstance(event, events.TurnFinished) and event.session == agent.session
            ]
            assert (1, Idle()) == (len(ends), agent.state.phase), f"cancelled at await {stop}"
            if stop is not None:
                assert isinstance(outcome, Cancelled | Completed), f"cancelled at await {stop}"
                if isinstance(ends[0].outcome, Completed):
                    assert points - stop <= 2, f"a cancellation at await {stop} of {points} was lost"
            assert (await agent.run("Hi!")).text == "Hello again."
            state = agent.state
        report = replay(journal).raise_for_divergence()
        assert (state, 2) == (report.state, report.turns)
        return points

    total = run(turn(None, tmp_path / "whole.jsonl"))
    assert total > 30
    before = set(threading.enumerate())
    for stop in range(1, total + 1):
        run(turn(stop, tmp_path / f"{stop}.jsonl"))
    assert set() == {thread for thread in set(threading.enumerate()) - before if thread.name != "cogstep tool"}


# ------------------------------------------------------------------------------------------------------- the journal


@pytest.mark.parametrize("fsync", ["record", "turn"])
def test_the_disk_is_waited_for_on_another_thread(fsync: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that hangs holds up the session that writes, before its effects, and no other on the loop."""
    hangs, goes_on = SimpleQueue[threading.Thread](), threading.Event()

    def slow(descriptor: int) -> None:
        hangs.put(threading.current_thread())
        assert goes_on.wait(PATIENCE)

    async def main() -> Any:
        told: list[str] = []
        async with (
            AsyncAgent(
                ScriptedModel(["one"]),
                journal=tmp_path / "s.jsonl",
                fsync=fsync,
                observers=[events.Inline(lambda event: told.append(type(event).__name__))],
            ) as recorded,
            AsyncAgent(ScriptedModel(["two"])) as other,
        ):
            monkeypatch.setattr("interpreters.journal.writing.os.fsync", slow)
            turn = asyncio.create_task(recorded.run("Hi!"))
            thread = await in_thread(lambda: hangs.get(timeout=PATIENCE))
            text = (await other.run("Hi!")).text
            before = list(told)
            goes_on.set()
            return text, (await turn).text, thread is threading.current_thread(), before

    two, one, same_thread, before = run(main())
    assert (two, one, same_thread) == ("two", "one", False)
    assert before == ([] if fsync == "record" else before)
    assert "TurnFinished" not in before
    assert replay(tmp_path / "s.jsonl").raise_for_divergence().turns == 1


def test_a_disk_that_fails_on_another_thread_ends_the_run(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it does on the session's own: nothing is carried out, and the next run goes on."""

    def broken(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    async def main() -> Any:
        model = ScriptedModel(["one"])
        async with AsyncAgent(model, journal=tmp_path / "s.jsonl", fsync="record") as agent:
            with monkeypatch.context() as patch:
                patch.setattr("interpreters.journal.writing.os.fsync", broken)
                with pytest.raises(JournalWriteError, match="No space left"):
                    await agent.run("Hi!")
                asked = len(model.requests)
            return asked, (await agent.run("Hi!")).text

    assert run(main()) == (0, "one")
    assert replay(tmp_path / "s.jsonl").raise_for_divergence().turns == 1


# ------------------------------------------------------------------------------------------------- sessions and loops


@pytest.mark.slow
def test_thousands_of_sessions_share_one_loop() -> None:
    """Their waits overlap: what takes one 10 ms takes a thousand not much more."""

    @tool
    async def wait(n: int) -> int:
        await asyncio.sleep(0.01)
        return n

    async def session(n: int) -> str:
        async with AsyncAgent(ScriptedModel([call("wait", n=n), f"Waited {n}."]), [wait]) as agent:
            return (await agent.run("Wait!")).text

    async def main() -> Any:
        return await asyncio.gather(*(session(n) for n in range(2000)))

    assert [f"Waited {n}." for n in range(2000)] == run(main())


def test_one_turn_at_a_time_and_words_for_what_goes_wrong() -> None:
    hold = Hold()

    async def main() -> None:
        agent = AsyncAgent(ScriptedModel([Reply("Once", hold=hold)]))
        with pytest.raises(Exception, match="async with"), agent:
            pass
        turn = asyncio.create_task(agent.run("Go!"))
        await in_thread(lambda: hold.reached.wait(PATIENCE))
        with pytest.raises(BusyError):
            await agent.run("And?")
        await agent.close()
        await agent.close()
        assert Cancelled("the agent was closed", "Once") == (await turn).outcome
        for use in (agent.run("Hi!"), agent.reset()):
            with pytest.raises(AgentClosedError):
                await use
        assert agent.cancel() is False

    run(main())


def test_who_mixes_up_the_two_ways_is_told_which_one_to_use() -> None:
    """An agent that awaits, without a loop; one that blocks, opened as if it awaited."""
    agent = AsyncAgent(ScriptedModel(["one"]))
    stream = agent.stream("Hi!")
    with pytest.raises(ConfigError, match="without an event loop, use Agent"), stream:
        pass
    with pytest.raises(ConfigError, match="without an event loop, use Agent"):
        list(stream)
    with pytest.raises(ConfigError, match="without an event loop, use Agent"), agent:
        pass

    async def main() -> None:
        with pytest.raises(ConfigError, match="in an event loop, use AsyncAgent"):
            async with Agent(ScriptedModel(["one"])):
                pass

    run(main())


def test_a_turn_within_a_turn_is_refused_and_another_agent_s_is_not() -> None:
    """Both ways, from inside a tool: an agent has one turn at a time, and agents may use agents."""

    async def main() -> Any:
        outer: list[AsyncAgent] = []

        @tool
        async def again() -> str:
            with pytest.raises(BusyError, match="wait for its end"):
                await outer[0].run("And?")
            return "busy"

        @tool
        async def other() -> str:
            async with AsyncAgent(ScriptedModel(["asked another"])) as agent:
                return (await agent.run("Hi!")).text

        @tool
        def blocking() -> str:
            with Agent(ScriptedModel(["asked one that blocks"])) as agent:
                return agent.run("Hi!").text

        script = ScriptedModel([call("again"), call("other"), call("blocking"), "Done."])
        async with AsyncAgent(script, [again, other, blocking]) as agent:
            outer.append(agent)
            return [one.content for one in (await agent.run("Go!")).calls]

    assert run(main()) == ["busy", "asked another", "asked one that blocks"]


def test_an_agent_may_be_used_in_one_loop_after_another() -> None:
    """It holds nothing of a loop between its turns."""
    agent = AsyncAgent(ScriptedModel([call("double", n=1), "two", "again"]), [double])

    assert [run(agent.run("hi")).text, run(agent.run("hi")).text] == ["two", "again"]
    run(agent.reset())
    assert len(agent.state.history) == 0
    run(agent.close())


def test_a_session_leaves_nothing_behind() -> None:
    """No task, no thread that is at work, no reference that keeps it alive."""

    async def main() -> int:
        async with AsyncAgent(Blocking(call("double", n=1), "Two."), [double]) as agent:
            await agent.run("Go!")
        return id(agent)

    before = set(threading.enumerate())
    run(main())
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE)
    gc.collect()

    assert set(threading.enumerate()) <= before
    assert not [thing for thing in gc.get_objects() if isinstance(thing, AsyncAgent)]


def test_an_agent_without_a_loop_in_one_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """It works, and blocks the loop meanwhile: said once."""

    async def main() -> Any:
        with Agent(ScriptedModel(["one", "two"]), [double]) as agent:
            return [agent.run("hi").text, agent.run("hi").text]

    assert run(main()) == ["one", "two"]
    assert [record.getMessage() for record in caplog.records] == [
        "Agent.run blocks the event loop that runs on this thread until the turn ends; in async code, use AsyncAgent"
    ]


def test_reading_asks_a_runtime_by_its_own_way() -> None:
    """One that awaits gets no thread."""

    async def main() -> Any:
        request: Any = None
        return type(reading(ScriptedModel(["x"]), request)), type(reading(Blocking("x"), request))

    assert run(main()) == (fakes.ScriptedGeneration, Bridge)
