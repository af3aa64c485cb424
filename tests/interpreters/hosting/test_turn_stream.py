"""Turns behind a handle: streams, cancellations, event loops, and calls that wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, cast

import pytest

from cognition import AgentConfig, Cancelled, Completed, ConfigError, EffectId, ToolReturned, ToolSpec
from interpreters import Agent, ToolContext, events, fakes, tool
from interpreters.hosting import AgentHost, HostDiedError, HostError, ToolWait, _protocol as say
from interpreters.hosting._hosted_session import HostedSession
from interpreters.loop.errors import BusyError
from interpreters.observing.events import Event
from interpreters.testing.fakes import Hold, Reply, ScriptedModel, call
from tests.interpreters.hosting.common import host_of, look, pay
from tests.interpreters.signs import PATIENCE, once

# ------------------------------------------------------------------------------------------------------------- streams


def test_a_stream_gives_events_as_they_come_and_the_result_at_its_end() -> None:
    with host_of(Reply("Once upon a time", chunk=5)) as host:
        with host.open("a").stream("A story!") as stream:
            with pytest.raises(Exception, match="not ended yet"):
                stream.result  # noqa: B018 - that it raises is what is tested
            texts = [event.value.text for event in stream if isinstance(event.value, events.TextDelta)]
        assert (texts, stream.result.text) == (["Once ", "upon ", "a tim", "e"], "Once upon a time")
        assert list(stream) == []


def test_a_stream_that_is_left_cancels_its_turn() -> None:
    """And nothing of it is seen in the next one."""
    hold = Hold()
    with host_of(Reply("Once", hold=hold), "Hello.") as host:
        handle = host.open("a")
        with handle.stream("A story!") as stream:
            for event in stream:
                if isinstance(event.value, events.TextDelta):
                    break
        assert Cancelled("the stream was left", "Once") == stream.result.outcome
        with handle.stream("Hi!") as stream:
            assert {2} == {event.turn for event in stream if isinstance(event, Event)}
        assert stream.result.text == "Hello."


def test_nobody_is_asked_for_a_stream_that_is_left() -> None:
    asked: list[Any] = []
    with host_of(call("pay", amount=1), "Hello.") as host:
        handle = host.open("a", [pay], approve=asked.append)
        with handle.stream("Pay!") as stream:
            for event in stream:
                if isinstance(event.value, events.AskApproval):
                    break
        assert (asked, type(stream.result.outcome).__name__) == ([], "Cancelled")


# ----------------------------------------------------------------------------------------------------------- observers


@pytest.mark.parametrize("inline", [True, False])
def test_an_observer_that_fails_is_dropped(inline: bool, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Event] = []

    def broken(event: Event) -> None:
        raise KeyError

    with host_of("Hi.", "Again.") as host:
        handle = host.open("a", observers=[events.Inline(broken) if inline else broken, seen.append])
        assert [handle.run("Hi!").text, handle.run("Hi!").text] == ["Hi.", "Again."]
    assert isinstance(seen[-1].value, events.TurnFinished)
    assert [*range(1, len(seen) + 1)] == [event.sequence for event in seen]
    (record,) = caplog.records
    assert "an observer was dropped because it failed on UserSpoke: KeyError" in record.getMessage()


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_observer_that_hangs_delays_nobody(asynchronous: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told on a thread of its own, as an agent's is; and one that is quick has seen all of a turn at its end."""
    monkeypatch.setattr("interpreters.observing._delivery.PATIENCE", 0.02)
    monkeypatch.setattr("interpreters.observing.async_delivery.PATIENCE", 0.02)
    release = threading.Event()
    seen: list[Event] = []
    threads: set[str] = set()

    def hang(event: Event) -> None:
        threads.add(threading.current_thread().name)
        assert release.wait(PATIENCE)

    before = set(threading.enumerate())
    with host_of(Reply("x" * 500, chunk=1)) as host:
        handle = host.open("a", observers=[hang, events.Inline(seen.append)], window=8)
        result = asyncio.run(handle.run_async("Go!")) if asynchronous else handle.run("Go!")
        assert (result.text, isinstance(seen[-1].value, events.TurnFinished)) == ("x" * 500, True)
        release.set()
    assert threads == {"cogstep tool"}
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE)


def test_who_is_asked_has_been_shown_what_led_to_it() -> None:
    """Where the stream is read, in a thread and in a loop."""
    seen: list[type] = []
    shown: list[bool] = []
    slow = threading.Event()

    def watch(event: Event) -> None:
        if isinstance(event.value, events.AskApproval):
            slow.wait(0.01)
        seen.append(type(event.value))

    def approve(request: Any) -> bool:
        shown.append(events.AskApproval in seen)
        return True

    with host_of(call("pay", amount=1), "Paid.", call("pay", amount=1), "Paid.") as host:
        handle = host.open("a", [pay], approve=approve, observers=[watch])
        assert handle.run("Pay!").text == "Paid."
        seen.clear()
        assert asyncio.run(handle.run_async("Pay!")).text == "Paid."
    assert shown == [True, True]


def test_an_observer_that_is_an_async_function_is_refused() -> None:
    async def watch(event: Event) -> None: ...

    with host_of() as host:
        with pytest.raises(ConfigError, match="needs an AsyncAgent"):
            host.open("a", observers=[watch])
        assert "a" not in host


# -------------------------------------------------------------------------------------------------------------- cancel


def test_cancel_reaches_the_model() -> None:
    hold = Hold()
    with host_of(Reply("Once", hold=hold), "Hello.") as host:
        handle = host.open("a")
        with once(hold.reached, lambda: handle.cancel("enough")):
            assert Cancelled("enough", "Once") == handle.run("A story!").outcome
        assert not handle.cancel()
        assert handle.run("Hi!").text == "Hello."


@pytest.mark.parametrize("kind", [{"read_only": True}, {}])
def test_cancel_reaches_a_tool(kind: dict[str, Any]) -> None:
    """Whether the agent waits for it on its own thread or not; the tool is told, and what it gives later is dropped."""
    running, told, release = threading.Event(), threading.Event(), threading.Event()

    @tool(**kind)
    def work(context: ToolContext[Any]) -> str:
        """Work."""
        running.set()
        assert release.wait(PATIENCE)
        if context.cancelled:
            told.set()
        return "late"

    with host_of(call("work"), "Hello.") as host:
        handle = host.open("a", [work])
        with once(running, lambda: handle.cancel("stop")):
            assert Cancelled("stop") == handle.run("Work!").outcome
        release.set()
        assert told.wait(PATIENCE)
        assert handle.run("Hi!").text == "Hello."


def test_cancel_reaches_a_question_that_is_answered_elsewhere() -> None:
    asked = threading.Event()
    requests: list[Any] = []

    def approve(request: Any) -> Any:
        requests.append(request)
        asked.set()
        return Future()

    with host_of(call("pay", amount=1), "Hello.") as host:
        handle = host.open("a", [pay], approve=approve)
        with once(asked, lambda: handle.cancel("stop")):
            assert Cancelled("stop") == handle.run("Pay!").outcome
        assert requests[0].cancelled
        assert handle.run("Hi!").text == "Hello."


def test_a_cancel_that_comes_late_leaves_the_next_turn_alone() -> None:
    """It names its turn; that one is over."""
    hold = Hold()
    with host_of("Hello.", Reply("Once upon a time", hold=hold)) as host:
        handle = host.open("a")
        with handle.stream("Hi!") as first:
            list(first)
        with handle.stream("A story!") as second:
            assert hold.reached.wait(PATIENCE)
            first.cancel("late")
            handle.set_mode("careful")  # is answered behind it
            hold.release()
            list(second)
        assert Completed("Once upon a time") == second.result.outcome


def test_nothing_of_a_turn_is_said_behind_its_end() -> None:
    """What is answered late is dropped, and that nobody waits for a call is said before the end, if at all."""
    said: list[Any] = []
    asked, ended, pause = threading.Event(), threading.Event(), threading.Event()

    def send(notice: Any) -> None:
        said.append(notice)
        if isinstance(notice, say.Perform):
            asked.set()
        elif isinstance(notice, say.TurnEnded):
            ended.set()

    session = HostedSession("a", AgentConfig(tools=(ToolSpec("work"),)), say.Settings(), send)
    model = ScriptedModel([call("work")])
    session.begin("1", lambda given, tools: Agent(model, tools, session="a", **given), lambda _session: None)
    session.accept(1, lambda agent: agent.run("Go!"))
    assert asked.wait(PATIENCE)
    assert session._agent is not None
    while not session._agent._interpreter._awaited:  # from here on it is the agent that drops the call
        pause.wait(0.001)
    session.cancel(1, "enough")
    assert ended.wait(PATIENCE)
    session.take(say.Performed("a", 1, "a", EffectId("1.1.1"), ToolReturned(EffectId("1.1.1"), "late")))
    session.dispose("2", "over")
    assert session.join(PATIENCE)

    assert [type(notice).__name__ for notice in said if not isinstance(notice, say.EventHappened)] == [
        *("Ready", "Perform", "Dropped", "TurnEnded", "Accepted"),
    ]


def test_a_reset_cancels_and_forgets() -> None:
    hold = Hold()
    with host_of(Reply("Once", hold=hold), lambda request: f"{len(request.messages)} messages") as host:
        handle = host.open("a")
        with once(hold.reached, handle.reset):
            assert Cancelled("the session was reset", "Once") == handle.run("A story!").outcome
        assert handle.run("Hi!").text == "1 messages"


def test_a_turn_at_a_time() -> None:
    hold = Hold()
    with host_of(Reply("Once", hold=hold)) as host:
        handle = host.open("a")
        with handle.stream("A story!") as stream:
            with pytest.raises(BusyError):
                handle.run("Hi!")
            hold.release()
            assert stream.number == 1
            list(stream)


def test_the_mode_holds_from_now_on_also_in_the_turn_under_way() -> None:
    """Between turns and while a tool runs."""
    running, release = threading.Event(), threading.Event()

    @tool
    def work() -> str:
        """Work."""
        running.set()
        assert release.wait(PATIENCE)
        return "worked"

    with host_of(call("work"), call("look", n=1), call("work"), "Done.", call("pay", amount=1), "Paid.") as host:
        handle = host.open("a", [work, look, pay])

        def change() -> None:
            handle.set_mode("careful")
            release.set()

        with once(running, change):
            result = handle.run("Go!")
        assert [made.status for made in result.calls] == ["ok", "ok", "refused"]
        handle.set_mode("auto")
        assert [made.status for made in handle.run("Pay!").calls] == ["ok"]
        handle.dispose()
        with pytest.raises(HostError, match="no session 'a'"):
            handle.set_mode("auto")


# ------------------------------------------------------------------------------------------------------------- asyncio


def test_a_stream_is_read_in_an_event_loop_which_goes_on_meanwhile() -> None:
    """Approvals may be awaited; several sessions run at once."""
    both = asyncio.Barrier(2)

    async def approve(request: Any) -> bool:
        await both.wait()  # comes through only if neither session blocks the loop
        return True

    async def read(handle: Any) -> str:
        async with handle.stream("Pay!") as stream:
            names = [type(event.value).__name__ async for event in stream]
        assert names[-1] == "TurnFinished"
        return str(stream.result.text)

    async def main() -> list[str]:
        replies = {1: call("pay", amount=1), 3: "Paid."}
        with AgentHost.in_thread(fakes.FunctionModel(lambda request: replies[len(request.messages)])) as host:
            return await asyncio.gather(*(read(host.open(key, [pay], approve=approve)) for key in ("a", "b")))

    assert asyncio.run(main()) == ["Paid.", "Paid."]


def undecided() -> tuple[asyncio.Event, list[bool], Callable[[Any], Awaitable[bool]]]:
    """Somebody who never answers: set when asked, noted when the question is withdrawn, and whom to ask."""
    asked = asyncio.Event()
    withdrawn: list[bool] = []

    async def approve(request: Any) -> bool:
        asked.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            withdrawn.append(True)
            raise
        return True

    return asked, withdrawn, approve


def test_cancelling_a_task_that_awaits_a_turn_cancels_the_turn() -> None:
    """What the program awaits for an answer is cancelled too; and the session goes on."""
    asked, withdrawn, approve = undecided()

    async def main() -> Any:
        with host_of(call("pay", amount=1), "Hello.") as host:
            handle = host.open("a", [pay], approve=approve)
            task = asyncio.create_task(handle.run_async("Pay!"))
            await asked.wait()
            task.cancel()
            await asyncio.wait([task])
            return task.cancelled(), (await handle.run_async("Hi!")).text

    assert asyncio.run(main()) == (True, "Hello.")
    assert withdrawn == [True]


def test_a_task_that_is_cancelled_twice_waits_for_the_end_of_its_turn() -> None:
    """Else what it awaits for an answer would be left, and the next message would find the turn under way."""
    asked, withdrawn, approve = undecided()

    async def main() -> Any:
        with host_of(call("pay", amount=1), "Hello.") as host:
            handle = host.open("a", [pay], approve=approve)
            task = asyncio.create_task(handle.run_async("Pay!"))
            await asked.wait()
            loop = asyncio.get_running_loop()
            send = handle.send

            def cancelled_again(request: Any) -> None:
                loop.call_soon(task.cancel)  # while the end is waited for
                send(request)

            handle.send = cancelled_again  # type: ignore[method-assign]
            task.cancel()
            await asyncio.wait([task])
            del handle.send
            assert asyncio.all_tasks() == {asyncio.current_task()}
            return task.cancelled(), (await handle.run_async("Hi!")).text

    assert asyncio.run(main()) == (True, "Hello.")
    assert withdrawn == [True]


def test_the_end_of_the_host_ends_a_stream_in_an_event_loop() -> None:
    hold = Hold()

    async def main() -> None:
        host = host_of(Reply("Once", hold=hold))
        async with host.open("a").stream("A story!") as stream:
            async for event in stream:
                if isinstance(event.value, events.TextDelta):
                    host._handles["a"].fail_turn(HostDiedError("it was killed"))
        raise AssertionError("the stream ended as if nothing had happened")

    with pytest.raises(HostDiedError, match="it was killed"):
        asyncio.run(main())


def test_an_async_function_needs_an_event_loop() -> None:
    async def approve(request: Any) -> bool:
        return True

    with host_of(call("pay", amount=1)) as host, pytest.raises(ConfigError, match="async for"):
        host.open("a", [pay], approve=approve).run("Pay!")


# ------------------------------------------------------------------------------------------------ tools by hand, waits


def test_a_tool_may_be_answered_by_hand() -> None:
    """Of a bare spec the calls come in the stream; a second answer and a late one change nothing."""
    waits: list[ToolWait] = []
    with host_of([call("look", n=1), call("look", n=2)], "Done.", "Hello.") as host:
        handle = host.open("a", [ToolSpec("look", "Look.", read_only=True)])
        with handle.stream("Go!") as stream:
            for item in stream:
                if isinstance(item, ToolWait):
                    waits.append(item)
                if len(waits) == 2:
                    waits[1].fail("it is dark")
                    waits[0].give("one")
                    waits[0].give("two")
                    waits.append(waits[0])
        assert [made.content for made in stream.result.calls] == ["one", "Error: it is dark"]
        assert (waits[0].name, waits[0].arguments) == ("look", {"n": 1})
        waits[0].give("late")
        assert handle.run("Hi!").text == "Hello."


@pytest.mark.timeout(30)
def test_a_call_that_is_answered_by_hand_takes_texts_only() -> None:
    """The host could not read anything else, and would wait on."""
    with host_of(call("look", n=1), "Done.") as host:
        handle = host.open("a", [ToolSpec("look", "Look.")])
        with handle.stream("Go!") as stream:
            for item in stream:
                if isinstance(item, ToolWait):
                    for given in (5, None, {"n": 1}):
                        with pytest.raises(ConfigError, match="give takes a text, not"):
                            item.give(cast("Any", given))
                        with pytest.raises(ConfigError, match="fail takes a text, not"):
                            item.fail(cast("Any", given))
                    item.give("one")
        assert [made.content for made in stream.result.calls] == ["one"]


def test_a_call_that_gets_no_result_has_a_deadline() -> None:
    """The model is told, and the program that nobody waits any more."""
    with host_of(call("look", n=1), "Oh.") as host:
        handle = host.open("a", [ToolSpec("look")], tool_wait=0.01)
        with handle.stream("Go!") as stream:
            list(stream)

    assert [(m.status, m.content) for m in stream.result.calls] == [
        ("error", "Error: look gave no result within 0.01 seconds")
    ]

    dropped, pause = threading.Event(), threading.Event()

    @tool(name="look")
    def slow(n: int, context: ToolContext[Any]) -> str:
        """Look, and now and then whether anybody waits."""
        while not context.cancelled:
            pause.wait(0.001)
        dropped.set()
        return "late"

    with host_of(call("look", n=1), "Oh.") as host:
        assert host.open("a", [slow], tool_wait=0.01).run("Go!").text == "Oh."
        assert dropped.wait(PATIENCE)


def test_a_tool_that_takes_longer_than_its_timeout_is_told_that_nobody_waits() -> None:
    """Its own timeout, as an agent holds it; also while the turn goes on."""
    told, pause = threading.Event(), threading.Event()

    @tool(timeout=0.01)
    def slow(context: ToolContext[Any]) -> str:
        """Take long, and look now and then whether anybody waits."""
        while not context.cancelled:
            pause.wait(0.001)
        told.set()
        return "late"

    def next_one(request: Any) -> Any:
        return (
            call("slow") if len(request.messages) == 1 else call("look", n=1) if len(request.messages) == 3 else "Oh."
        )

    @tool(name="look")
    def wait_for_it(n: int) -> str:
        """Wait until the other one was told."""
        assert told.wait(PATIENCE)
        return "told"

    with AgentHost.in_thread(fakes.FunctionModel(next_one)) as host:
        result = host.open("a", [slow, wait_for_it]).run("Go!")

    assert [made.content for made in result.calls] == ["Error: slow took longer than 0.01 seconds", "told"]


def test_workers_of_several_calls_wait_each_for_its_own_result() -> None:
    """Two sessions whose calls have the same ids, answered the other way round: neither gets the other's."""
    with host_of(call("look", n=1), call("look", n=2), "One.", "Two.") as host:
        a, b = host.open("a", [ToolSpec("look")]), host.open("b", [ToolSpec("look")])
        with a.stream("Go!") as first, b.stream("Go!") as second:
            waits = [next(item for item in stream if isinstance(item, ToolWait)) for stream in (first, second)]
            assert waits[0].effect.call.id == waits[1].effect.call.id
            waits[1].give("of b")
            second_calls = [made.content for _ in [list(second)] for made in second.result.calls]
            waits[0].give("of a")
            list(first)
        assert ([made.content for made in first.result.calls], second_calls) == (["of a"], ["of b"])


@pytest.mark.behaviour("C13b")
def test_a_call_that_is_answered_by_hand_is_not_handed_out_after_a_cancellation() -> None:
    """It has come, and the reader would act on it."""
    model = ScriptedModel([call("wipe"), "Hello again."])
    with AgentHost.in_thread(model) as host:
        handle = host.open("s", [ToolSpec("wipe")])
        items: list[Any] = []
        with handle.stream("Wipe!") as turn:
            for item in turn:
                items.append(item)
                if isinstance(item, Event) and isinstance(item.value, events.CallTool):
                    turn.cancel("enough")

        assert [item for item in items if isinstance(item, ToolWait)] == []
        assert Cancelled("enough") == turn.result.outcome
        assert handle.run("Hi!").text == "Hello again."


@pytest.mark.behaviour("C13b")
def test_nobody_is_asked_after_a_cancellation() -> None:
    """Neither by a plain function nor by an ``async def``, whose body begins later than it is called."""
    asked: list[str] = []

    async def later(request: Any) -> bool:
        asked.append("later")
        return True

    def plain(request: Any) -> bool:
        asked.append("plain")
        return True

    async def main(approve: Any) -> None:
        @tool(approval=True)
        def wipe() -> None:
            asked.append("wipe")

        def watch(event: Event) -> None:
            if isinstance(event.value, events.AskApproval):
                handle.cancel("enough")

        with AgentHost.in_thread(ScriptedModel([call("wipe"), "Hello again."])) as host:
            handle = host.open("s", [wipe], approve=approve, observers=[events.Inline(watch)])
            assert Cancelled("enough") == (await handle.run_async("Wipe!")).outcome
            assert (await handle.run_async("Hi!")).text == "Hello again."

    for approve in (later, plain) * 10:  # by chance, the end comes before or after what asks has begun
        asyncio.run(main(approve))
    assert asked == []


@pytest.mark.behaviour("C13b")
def test_a_turn_is_cancelled_before_the_host_has_heard_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its model is never asked: the host is a thread of this process, and is told at once."""
    gate, accept = threading.Event(), HostedSession.accept

    def late(session: HostedSession, number: int, run: Any) -> None:
        assert gate.wait(PATIENCE)
        accept(session, number, run)

    monkeypatch.setattr(HostedSession, "accept", late)
    model = ScriptedModel(["Hello again."])
    with AgentHost.in_thread(model) as host:
        handle = host.open("s")
        with handle.stream("Go!") as turn:
            turn.cancel("enough")
            gate.set()
            for _ in turn:
                pass

        assert (Cancelled("enough"), []) == (turn.result.outcome, model.requests)
        assert handle.run("Hi!").text == "Hello again."
