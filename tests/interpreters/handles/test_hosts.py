"""Sessions behind a handle: like an ``Agent``, in a thread of this process. Processes have a page of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cognition import Cancelled, Completed, ConfigError, Failed, Limits, Policy, Rule, ToolSpec
from interpreters import (
    Agent,
    Approval,
    HookAnswer,
    HookRequest,
    PlanAnswer,
    ToolContext,
    ToolRetry,
    events,
    fakes,
    replay,
    tool,
)
from interpreters.contracts import assert_calls, called
from interpreters.errors import AgentClosedError, BusyError
from interpreters.events import Event
from interpreters.fakes import Hold, Reply, ScriptedModel, ScriptError, call
from interpreters.handles import AgentHost, HostDiedError, HostError, ModelChoice, QueueChannel, ToolWait
from interpreters.handles import messages as say
from interpreters.handles.host import Host, make_model
from interpreters.handles.hosted import HostedSession
from interpreters.handles.messages import line_of, read_notice
from interpreters.journal import Journal, JournalWriteError

PATIENCE = 60
"""Seconds after which a test that hangs fails; no test waits that long."""


@tool(read_only=True)
def look(n: int) -> int:
    """Look."""
    return n


@tool(approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def host_of(*script: Any, **options: Any) -> AgentHost:
    return AgentHost.in_thread(ScriptedModel(list(script)), **options)


@contextmanager
def once(sign: threading.Event, action: Callable[[], object]) -> Iterator[None]:
    """Do something on another thread as soon as the sign is there."""

    def wait() -> None:
        assert sign.wait(PATIENCE)
        action()

    thread = threading.Thread(target=wait)
    thread.start()
    yield
    thread.join(PATIENCE)


# ---------------------------------------------------------------------------------------------------------- as an agent


def test_tools_run_on_the_handle_s_side_and_the_answer_comes_back() -> None:
    """With what the program gives to tools, in threads of this program; and the result is that of an agent."""
    threads: list[str] = []

    @tool
    def order(item: str, context: ToolContext[dict[str, int]]) -> str:
        """Order."""
        threads.append(threading.current_thread().name)
        context.progress("looking")
        if item not in context.deps:
            raise ToolRetry(f"there is no {item}")
        return f"{item} for {context.deps[item]}, says {context.tool} of {context.session}"

    told: list[Event] = []
    with host_of(call("order", item="pear"), call("order", item="plum"), call("order"), "Three.") as host:
        handle = host.open("cook", [order], "Be brief.", deps={"plum": 3}, observers=[told.append])
        result = handle.run("A plum!")

    assert Completed("Three.") == result.outcome
    assert [(made.status, made.content) for made in result.calls] == [
        ("error", "Error: there is no pear\nTry again."),
        ("ok", "plum for 3, says order of cook"),
        ("error", "Error: wrong arguments for order: item is missing"),
    ]
    assert_calls(result, called("order", item="pear"), called("order", item="plum"), called("order"))
    assert {"cognition-order"} != set(threads)
    assert [event.text for event in told if isinstance(event, events.ToolProgress)] == ["looking", "looking"]
    assert [*range(1, len(told) + 1)] == [event.sequence for event in told]
    assert isinstance(told[-1], events.TurnFinished)


def test_the_program_is_asked_as_by_an_agent() -> None:
    """Approvals, questions, plans and hooks, on the thread that reads the stream; answers may be futures."""
    asked: list[tuple[str, str]] = []
    later: Future[Any] = Future()
    later.set_result(["b"])

    def note(what: str, answer: Any) -> Callable[[Any], Any]:
        def ask(request: Any) -> Any:
            assert threading.current_thread() is threading.main_thread()
            assert not request.cancelled
            asked.append((what, request.session))
            return answer

        return ask

    def hook(request: HookRequest) -> HookAnswer | None:
        asked.append((request.point, request.text))
        return HookAnswer(arguments={"amount": 2}) if request.call and request.call.name == "pay" else None

    script = [
        call("ask_user", questions=[{"question": "Which?", "options": ["a", "b"]}]),
        call("enter_plan_mode"),
        call("submit_plan", steps=["pay"]),
        call("pay", amount=1),
        call("finish_step"),
        "Done.",
    ]
    with host_of(*script) as host:
        handle = host.open(
            "a",
            [pay],
            features=["questions", "plan"],
            approve=note("approve", Approval(True, "fine")),
            ask=note("ask", later),
            review=note("review", PlanAnswer(True)),
            hooks={"before_tool": hook, "stop": hook},
        )
        result = handle.run("Go!")

    assert Completed("Done.") == result.outcome
    assert [made.content for made in result.calls if made.name in ("ask_user", "pay")] == ["Which? b", "paid 2"]
    assert [entry for entry in asked if entry[0] != "before_tool"] == [
        ("ask", "a"),
        ("review", "a"),
        ("approve", "a"),
        ("stop", "Done."),
    ]


@pytest.mark.parametrize("answer", [False, Approval(False, "too much"), RuntimeError("nobody"), None])
def test_what_is_not_approved_does_not_run(answer: Any) -> None:
    """Whether it was refused, nobody could be asked, or nobody is there."""

    def approve(request: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    with host_of(call("pay", amount=1), "Oh.") as host:
        given: Any = {} if answer is None else {"approve": approve}
        result = host.open("a", [pay], **given).run("Pay!")

    assert (Completed("Oh."), ["refused"]) == (result.outcome, [made.status for made in result.calls])


def test_a_user_may_decline_and_a_question_may_be_withdrawn() -> None:
    questions = call("ask_user", questions=[{"question": "Which?", "options": ["a", "b"]}])
    gone: Future[Any] = Future()
    gone.cancel()
    failed: Future[Any] = Future()
    failed.set_exception(OSError("the window was closed"))
    answers = iter([None, gone, failed])
    with host_of(questions, questions, questions) as host:
        handle = host.open("a", features=["questions"], ask=lambda request: next(answers))
        outcomes = [handle.run("Go!").outcome for _ in range(3)]

    assert [type(outcome).__name__ for outcome in outcomes] == ["Cancelled"] * 3


def test_a_fault_of_the_program_s_own_is_raised_as_by_an_agent() -> None:
    """A wrong answer, and a script that doesn't fit, also out of a future; the session goes on."""
    later: Future[Any] = Future()
    later.set_result("yes")
    answers = iter(["yes", later])
    with host_of(call("pay", amount=1), call("pay", amount=1), call("pay", amount=2), "Hi.") as host:
        handle = host.open("a", [pay], approve=lambda request: next(answers))
        for _ in range(2):
            with pytest.raises(ConfigError, match="'yes' is no answer to approval_asked"):
                handle.run("Pay!")
        handle.approve = fakes.ScriptedApprovals([])
        with pytest.raises(ScriptError, match="0 approvals"):
            handle.run("Pay!")
        assert handle.run("Hi!").text == "Hi."


def test_what_is_missing_is_said_at_the_beginning() -> None:
    with host_of() as host:
        with pytest.raises(ConfigError, match="ask="):
            host.open("a", features=["questions"])
        with pytest.raises(HostError, match=r"memory=.*ConfigError"):
            host.open("a", features=["memory"])
        assert "a" not in host
        with pytest.raises(HostError, match="no such file"):
            host.open("a", journal="/nowhere/at/all/session.jsonl", resume=True)
        with pytest.raises(HostError, match="say which one"):
            host.open("a", resume=True)


def test_settings_reach_the_agent() -> None:
    """Policy, limits, notes: what an agent may be told, a session behind a handle may be told too."""
    with host_of(call("look", n=1), call("remember", text="blue"), call("recall", query="blue"), "Done.") as host:
        handle = host.open(
            "a",
            [look],
            features=["memory"],
            notes=":memory:",
            policy=Policy(rules=(Rule("deny", "look", "not today"),)),
            limits=Limits(steps=5),
        )
        result = handle.run("Go!")

    assert [(made.status, made.content) for made in result.calls if made.name in ("look", "recall")] == [
        ("refused", "Error: this call is not permitted: not today"),
        ("ok", "blue"),
    ]


def test_outcomes_and_sessions_are_kept_apart() -> None:
    """Several sessions share the model; each has its own history, numbers and calls."""
    with host_of("One.", "Two.", "Three.") as host:
        a, b = host.open("a"), host.open("b")
        assert [a.run("Hi!").text, b.run("Hi!").text, a.run("And?").text] == ["One.", "Two.", "Three."]
        assert (["a", "b"], 2, True, a) == (list(host), len(host), "a" in host, host["a"])
        assert host.open("a") is a
        a.dispose()
        a.dispose()
        assert (list(host), a.alive, b.alive) == (["b"], False, True)
        with pytest.raises(AgentClosedError):
            a.run("Hi!")


# ------------------------------------------------------------------------------------------------------------- streams


def test_a_stream_gives_events_as_they_come_and_the_result_at_its_end() -> None:
    with host_of(Reply("Once upon a time", chunk=5)) as host:
        with host.open("a").stream("A story!") as stream:
            with pytest.raises(Exception, match="not ended yet"):
                stream.result  # noqa: B018 - that it raises is what is tested
            texts = [event.text for event in stream if isinstance(event, events.TextDelta)]
        assert (texts, stream.result.text) == (["Once ", "upon ", "a tim", "e"], "Once upon a time")
        assert list(stream) == []


def test_a_stream_that_is_left_cancels_its_turn() -> None:
    """And nothing of it is seen in the next one."""
    hold = Hold()
    with host_of(Reply("Once", hold=hold), "Hello.") as host:
        handle = host.open("a")
        with handle.stream("A story!") as stream:
            for event in stream:
                if isinstance(event, events.TextDelta):
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
                if isinstance(event, events.ApprovalAsked):
                    break
        assert (asked, type(stream.result.outcome).__name__) == ([], "Cancelled")


def test_an_observer_that_fails_is_dropped() -> None:
    seen: list[Event] = []

    def broken(event: Event) -> None:
        raise KeyError

    with host_of("Hi.") as host:
        assert host.open("a", observers=[broken, seen.append]).run("Hi!").text == "Hi."
    assert isinstance(seen[-1], events.TurnFinished)


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


def test_what_a_tool_s_thread_says_late_is_not_said() -> None:
    """A call that wakes up after its turn's end has nobody to tell."""
    said: list[Any] = []
    called_, ended, woken = threading.Event(), threading.Event(), threading.Event()

    def send(notice: Any) -> None:
        said.append(notice)
        if isinstance(notice, say.ToolCalled):
            called_.set()
        elif isinstance(notice, say.TurnEnded):
            ended.set()

    class Late(dict[int, Any]):
        """Holds up whoever takes the context out, which a call does when its wait is over."""

        def pop(self, *arguments: Any) -> Any:
            assert ended.wait(PATIENCE)
            woken.set()
            return super().pop(*arguments)

    session = HostedSession("a", say.Settings(), send)
    model = ScriptedModel([call("work")])
    session.begin(
        "1",
        lambda given, tools: Agent(model, tools, **given),
        (say.ToolOffer(ToolSpec("work")),),
        lambda _session: None,
    )
    session.accept(1, lambda agent: agent.run("Go!"))
    assert called_.wait(PATIENCE)
    assert session._turn is not None
    session._turn.contexts = Late(session._turn.contexts)
    session.cancel(1, "enough")
    assert woken.wait(PATIENCE)
    session.dispose("2", "over")
    assert session.join(PATIENCE)

    assert [type(notice).__name__ for notice in said[-2:]] == ["TurnEnded", "Accepted"]


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
            names = [type(event).__name__ async for event in stream]
        assert names[-1] == "TurnFinished"
        return str(stream.result.text)

    async def main() -> list[str]:
        replies = {1: call("pay", amount=1), 3: "Paid."}
        with AgentHost.in_thread(fakes.FunctionModel(lambda request: replies[len(request.messages)])) as host:
            return await asyncio.gather(*(read(host.open(key, [pay], approve=approve)) for key in ("a", "b")))

    assert asyncio.run(main()) == ["Paid.", "Paid."]


def test_cancelling_a_task_that_awaits_a_turn_cancels_the_turn() -> None:
    """What the program awaits for an answer is cancelled too; and the session goes on."""
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


def test_the_end_of_the_host_ends_a_stream_in_an_event_loop() -> None:
    hold = Hold()

    async def main() -> None:
        host = host_of(Reply("Once", hold=hold))
        async with host.open("a").stream("A story!") as stream:
            async for event in stream:
                if isinstance(event, events.TextDelta):
                    host._handles["a"].lost(HostDiedError("it was killed"))
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


def test_a_call_that_gets_no_result_has_a_deadline() -> None:
    """The model is told, and the program that nobody waits any more."""
    with host_of(call("look", n=1), "Oh.") as host:
        handle = host.open("a", [ToolSpec("look")], tool_wait=0.01)
        result = handle.run("Go!")

    assert [(m.status, m.content) for m in result.calls] == [
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
            assert waits[0].called.call.id == waits[1].called.call.id
            waits[1].give("of b")
            second_calls = [made.content for _ in [list(second)] for made in second.result.calls]
            waits[0].give("of a")
            list(first)
        assert ([made.content for made in first.result.calls], second_calls) == (["of a"], ["of b"])


# ------------------------------------------------------------------------------------------------- journals, fork, end


def test_sessions_are_recorded_resumed_and_forked(tmp_path: Path) -> None:
    """A fork goes its own way from a turn, with the same tools; a resumed session knows what was said."""

    def count(request: Any) -> str:
        return f"{len(request.messages)} messages, {request.system}"

    path = tmp_path / "a.jsonl"
    with AgentHost.in_thread(fakes.FunctionModel(count)) as host:
        handle = host.open("a", [look], "Be brief.", journal=path)
        assert [handle.run("Hi!").text for _ in range(2)] == ["1 messages, Be brief.", "3 messages, Be brief."]
        fork = handle.fork("b", after=1, system="Be long.", journal=tmp_path / "b.jsonl")
        assert [fork.run("Hi!").text, handle.run("Hi!").text] == ["3 messages, Be long.", "5 messages, Be brief."]
        with pytest.raises(HostError, match="no journal is written by 'c'"):
            host.open("c").fork("d")
        with pytest.raises(ConfigError, match="'b' already"):
            handle.fork("b")
        with pytest.raises(HostError, match="turn 9"):
            handle.fork("e", after=9)
        assert list(host) == ["a", "b", "c"]
        handle.dispose()
        again = host.open("a", [look], journal=path, resume=True)
        assert (again.unfinished, again.run("Hi!").text) == (False, "7 messages, Be brief.")
        with pytest.raises(HostError, match="no turn was interrupted"):
            again.go_on()
    assert replay(path).same
    assert replay(path).turns == 4
    assert replay(tmp_path / "b.jsonl").same


def test_a_journal_that_is_taken_is_no_session(tmp_path: Path) -> None:
    """And the key is free for another try."""
    path = tmp_path / "a.jsonl"
    path.write_text("taken")
    with host_of("Hi.") as host:
        with pytest.raises(HostError, match="JournalExistsError") as caught:
            host.open("a", journal=path)
        assert caught.value.error == "JournalExistsError"
        assert host.open("a").run("Hi!").text == "Hi."


def test_a_journal_that_can_t_be_written_breaks_the_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No outcome is made up: the stream ends with the error's name, and the session can be used again."""
    with host_of("Hi.") as host:
        handle = host.open("a", journal=tmp_path / "a.jsonl")
        with monkeypatch.context() as full:

            def write(journal: Journal, *_: Any) -> None:
                raise JournalWriteError("no space left on device", path=journal.path)

            full.setattr(Journal, "write", write)
            with pytest.raises(HostError, match="no space left") as caught:
                handle.run("Hi!")
        assert caught.value.error == "JournalWriteError"
        assert handle.run("Hi!").text == "Hi."


def test_the_end_of_the_host_ends_every_stream(tmp_path: Path) -> None:
    """With an error that says so, after what still came; and what is asked of it afterwards raises the same."""
    hold = Hold()
    host = host_of(Reply("Once", hold=hold))
    handle = host.open("a", journal=tmp_path / "a.jsonl")
    stream = handle.stream("A story!")
    assert hold.reached.wait(PATIENCE)
    host.close()
    host.close()

    assert (
        Cancelled("the host was shut down", "Once") == [item for item in stream if isinstance(item, Event)][-1].outcome
    )  # type: ignore[union-attr]
    assert (host.alive, handle.alive, host.ended) == (False, False, "the host was closed")
    for use in (lambda: handle.run("Hi!"), handle.reset, lambda: host.open("b")):
        with pytest.raises(HostDiedError, match="the host was closed"):
            use()
    handle.dispose()


def test_a_channel_that_breaks_ends_every_stream_with_an_error() -> None:
    """Whatever the transport: what would be waited for is not waited for."""
    ours, theirs = QueueChannel.pair()
    lines: list[str] = []
    host = AgentHost(ours, on_gone=lambda: "the line was cut")
    opening: list[Any] = []
    thread = threading.Thread(target=lambda: opening.append(host.open("a")))
    thread.start()
    lines.append(theirs.receive() or "")
    theirs.send(line_of(say.Ready("r1", "a")))
    thread.join(PATIENCE)
    stream = opening[0].stream("Hi!")
    theirs.receive()
    theirs.send("no JSON")
    theirs.send(line_of(say.Faulted("of the other side")))
    theirs.send(line_of(say.Happened("a", 7, {"type": "text_delta"})))
    theirs.send(line_of(say.Happened("b", 1, {"type": "text_delta"})))
    theirs.send(line_of(say.Happened("a", 1, {"type": "from_the_future"})))
    theirs.send(line_of(say.Happened("a", 1, {"type": "text_delta"})))
    theirs.send(line_of(say.Accepted("nobody asked")))
    theirs.close()

    with pytest.raises(HostDiedError, match="the line was cut"):
        list(stream)
    with pytest.raises(HostDiedError, match="the line was cut"):
        stream.result  # noqa: B018 - that it raises is what is tested
    assert "no JSON" in host.faults[0]
    assert host.faults[1] == "of the other side"
    assert "the field is missing" in host.faults[2]
    assert '"type":"init"' in lines[0]


def test_a_script_with_replies_left_is_told_at_the_end() -> None:
    """What the model says against being closed reaches the program."""
    host = host_of("never asked for")
    host.close()

    assert "only 0 of the script's 1 replies" in host.faults[0]


def test_a_model_that_is_shared_is_left_open() -> None:
    model = ScriptedModel(["One.", "Two."])
    for expected in ("One.", "Two."):
        with AgentHost.in_thread(model, owns_model=False) as host:
            assert expected == host.open("a").run("Hi!").text
    model.close()


def test_failures_of_the_model_are_outcomes() -> None:
    from cognition import Failure

    with host_of(Failure("the key is wrong", status=401)) as host:
        assert Failed("auth", "the key is wrong") == host.open("a").run("Hi!").outcome


# ---------------------------------------------------------------------------------------------------- by hand, a host


def talk(*lines: str, model: Any = None) -> list[Any]:
    """Say these lines to a host, one after another, and give all that it says."""
    ours, theirs = QueueChannel.pair()
    thread = threading.Thread(target=Host(theirs, model).serve)
    thread.start()
    for line in lines:
        ours.send(line)
    ours.send(line_of(say.Shutdown()))
    said = []
    while (line := ours.receive()) is not None:
        said.append(read_notice(line))
    thread.join(PATIENCE)
    assert not thread.is_alive()
    return said


def test_a_host_answers_what_it_cannot_read() -> None:
    """By turn or by id where these can be read, so that nobody waits for ever."""
    said = talk(
        "no JSON",
        '{"type": "run_turn", "session": "a", "turn": 3}',
        '{"type": "init", "id": "7", "session": 5}',
        line_of(say.RunTurn("a", 4, "Hi!")),
        line_of(say.Init("8", "a")),
        line_of(say.Start("9", version=99)),
        line_of(say.Fork("10", "nobody", "b")),
        line_of(say.Cancel("nobody", 1)),
        line_of(say.ToolResult("nobody", 1, 1, "")),
        line_of(say.ToolProgress("nobody", 1, 1, "")),
    )

    assert [
        (type(n).__name__, n.turn if isinstance(n, say.TurnBroken) else n.id, n.error)
        if hasattr(n, "error")
        else "Faulted"
        for n in said
    ] == [
        "Faulted",
        ("TurnBroken", 3, "ProtocolError"),
        ("Refused", "7", "ProtocolError"),
        ("TurnBroken", 4, "AgentClosedError"),
        ("Refused", "8", "ConfigError"),
        ("Refused", "9", "ConfigError"),
        ("Refused", "10", "ConfigError"),
    ]


def test_a_turn_s_number_has_to_be_new() -> None:
    """A line that comes twice runs once."""
    turn = line_of(say.RunTurn("a", 2, "Hi!"))
    said = talk(line_of(say.Init("1", "a")), turn, turn, model=fakes.GeneratedModel([]))

    assert [notice.turn for notice in said if isinstance(notice, say.TurnEnded | say.TurnBroken)] == [2]
    assert [n.message for n in said if isinstance(n, say.Faulted)] == ["turn 2 of 'a' is not newer than turn 2"]


def test_a_name_is_taken_once() -> None:
    said = talk(line_of(say.Init("1", "a")), line_of(say.Init("2", "a")), model=ScriptedModel([]))

    assert [n.message for n in said if isinstance(n, say.Refused)] == ["there is a session 'a' already"]


@pytest.mark.parametrize("factory", ["nowhere:model", "tests.interpreters.handles.models:nothing", "a b"])
def test_a_factory_that_there_is_not_is_an_error(factory: str) -> None:
    with pytest.raises(ConfigError, match=r"write package\.module:function"):
        make_model(ModelChoice(factory=factory))
