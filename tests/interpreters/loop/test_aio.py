"""The interpreter for asyncio: what only it has. What holds for every way of running is tested beside its subject."""

from __future__ import annotations

import asyncio
import builtins
import contextvars
import doctest
import gc
import threading
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from cognition import Cancelled, ConfigError, Failed, Usage
from interpreters import (
    Agent,
    AgentClosedError,
    AgentHost,
    AsyncAgent,
    BusyError,
    ToolContext,
    ToolRetry,
    events,
    fakes,
    tool,
)
from interpreters.agents import async_agent
from interpreters.observing.events import Event
from interpreters.testing.fakes import Hold, Reply, ScriptedModel, ScriptError, call
from interpreters.tools.offloading import AT_ONCE, THREADS, run_in_thread
from interpreters.tools.tool import LEFT
from runtime import async_adapter as awaiting
from runtime.async_adapter import AsyncRuntime, Bridge, start_async
from tests.interpreters.loops import Blocking, double, run
from tests.interpreters.signs import PATIENCE
from tests.interpreters.simple_tools import statuses


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
        f"Error: {LEFT}",
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
        await asyncio.gather(*(run_in_thread(work) for _ in range(4 * AT_ONCE)))

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
            if isinstance(event.value, events.TextDelta):
                seen.append(event.value.text)

        model = Blocking(Reply("abcdefgh" * 40, hold=hold, chunk=1, usage=Usage(3, 8)))
        assert not isinstance(model, AsyncRuntime)
        async with AsyncAgent(model, observers=[watch]) as agent:
            turn = asyncio.create_task(agent.run("Spell!"))
            await run_in_thread(lambda: hold.reached.wait(PATIENCE))
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
        bridge._way.leave()
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
        await run_in_thread(lambda: hold.reached.wait(PATIENCE))
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
    """It works, and blocks the loop meanwhile: said once, whatever it is asked for."""

    async def main() -> Any:
        with Agent(ScriptedModel(["one", "two"]), [double]) as agent:
            return [agent.run("hi").text, agent.run("hi").text]

    assert run(main()) == ["one", "two"]
    assert [record.getMessage() for record in caplog.records] == [
        "Agent.run blocks the event loop that runs on this thread until the turn ends; in async code, use AsyncAgent"
    ]


def test_a_turn_that_goes_on_in_a_loop_says_so_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A resumed session blocks the loop as a new one does."""
    path = tmp_path / "s.jsonl"
    with Agent(ScriptedModel(["one"]), journal=path) as agent:
        agent.run("hi")
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))

    async def main() -> str:
        with Agent.resume(path, ScriptedModel(["two"])) as agent:
            return agent.resume_turn().text

    assert run(main()) == "two"
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_handle_that_blocks_a_loop_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """Once, and how it is done instead."""

    async def main() -> list[str]:
        with AgentHost.in_thread(ScriptedModel(["one", "two", "three"])) as host:
            handle = host.open("a")
            return [handle.run("hi").text, handle.run("hi").text, (await handle.run_async("hi")).text]

    assert run(main()) == ["one", "two", "three"]
    assert [record.getMessage() for record in caplog.records] == [
        "reading a turn by `for`, as AgentHandle.run does, blocks the event loop that runs on this thread until it "
        "ends; in async code, use run_async() or `async for`"
    ]


def test_a_notebook_may_be_blocked(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """There the loop serves the cells alone, so that a cell may block it: nothing is said, and both ways work."""
    monkeypatch.setattr(builtins, "__IPYTHON__", True, raising=False)

    async def cell() -> list[str]:
        with Agent(ScriptedModel(["one"])) as agent, AgentHost.in_thread(ScriptedModel(["two"])) as host:
            async with AsyncAgent(ScriptedModel(["three"])) as awaited:
                return [agent.run("hi").text, host.open("a").run("hi").text, (await awaited.run("hi")).text]

    assert run(cell()) == ["one", "two", "three"]
    assert caplog.records == []


def test_reading_asks_a_runtime_by_its_own_way() -> None:
    """One that awaits gets no thread."""

    async def main() -> Any:
        request: Any = None
        return type(start_async(ScriptedModel(["x"]), request)), type(start_async(Blocking("x"), request))

    assert run(main()) == (fakes.ScriptedGeneration, Bridge)
