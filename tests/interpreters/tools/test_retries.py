"""A tool that failed in a way that may pass is run again, by every interpreter and host; time is the clock's."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError

import pytest

from cognition import RETRY_PLAN, Cancelled, Completed, ConfigError, ToolFailed, ToolSpec
from interpreters import Agent, AsyncAgent, Suspended, ToolError, ToolRetry, events, fakes, rehearse, replay, tool
from interpreters.observing.events import Event
from interpreters.testing.fakes import ScriptedModel, call
from interpreters.tools.failures import may_pass
from interpreters.tools.tool import Tool
from tests.cognition.told import READING_HAD_FAILED
from tests.interpreters.hosting.common import host_of
from tests.interpreters.signs import PATIENCE
from tests.interpreters.ways import Way, every_way


class Flaky:
    """A tool that fails so many times, and then does not."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        if self.calls <= len(self.errors):
            raise self.errors[self.calls - 1]
        return f"fetched in {self.calls}"

    def tool(self, sort: str = "plain", **said: Any) -> Tool[..., Any]:
        said = {"read_only": True, "retries": True, **said}
        if sort == "async":

            @tool(name="fetch", **said)
            async def fetch_async() -> str:
                """Fetch."""
                return self()

            return fetch_async

        @tool(name="fetch", **said)
        def fetch() -> str:
            """Fetch."""
            return self()

        return fetch


RESET = ConnectionResetError(errno.ECONNRESET, "connection reset")


@every_way
@pytest.mark.parametrize("sort", ["plain", "async"])
@pytest.mark.parametrize("said", [{}, {"read_only": False, "idempotent": True}])
def test_it_waits_as_the_plan_says_and_the_answer_is_that_of_the_last_attempt(
    talk: Way, sort: str, said: dict[str, Any]
) -> None:
    flaky, clock, told = Flaky(RESET, TimeoutError("slow"), RESET), fakes.FakeClock(), list[Event]()
    talked = talk(
        ScriptedModel([call("fetch"), "Done."]),
        "Go!",
        tools=[flaky.tool(sort, **said)],
        clock=clock,
        observers=[told.append],
    )

    assert talked.tool_results == [("fetched in 4", "ok")]
    assert tuple(clock.waits) == RETRY_PLAN
    assert flaky.calls == 4
    planned = [event.value for event in told if isinstance(event.value, events.RetryPlanned)]
    assert [(one.attempt, one.seconds, one.message) for one in planned] == [
        (2, 2.0, "connection reset"),
        (3, 6.0, "TimeoutError: slow"),
        (4, 18.0, "connection reset"),
    ]


@every_way
def test_after_the_last_attempt_the_model_is_told_how_often_it_was_tried(talk: Way) -> None:
    flaky = Flaky(*[RESET] * 9)
    talked = talk(
        ScriptedModel([call("fetch"), "Sorry."]),
        "Go!",
        tools=[flaky.tool(retries=(0.0, 1.0))],
        clock=fakes.FakeClock(),
    )

    assert talked.tool_results == [("Error: connection reset (tried 3 times)", "error")]


@every_way
@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ToolError("no such page"), "Error: no such page"),
        (ToolRetry("another page"), "Error: another page\nTry again."),
        (ValueError("it is none"), "Error: it is none"),
        (FileNotFoundError(errno.ENOENT, "No such file"), "Error: No such file"),
    ],
)
def test_what_lasts_is_not_tried_again(talk: Way, error: BaseException, told: str) -> None:
    flaky = Flaky(error)
    talked = talk(ScriptedModel([call("fetch"), "Sorry."]), "Go!", tools=[flaky.tool()], clock=fakes.FakeClock())

    assert talked.tool_results == [(told, "error")]
    assert flaky.calls == 1


@every_way
def test_wrong_arguments_are_not_tried_again(talk: Way) -> None:
    flaky = Flaky(RESET)
    talked = talk(ScriptedModel([call("fetch", n=1), "Sorry."]), "Go!", tools=[flaky.tool()], clock=fakes.FakeClock())

    assert flaky.calls == 0
    assert talked.tool_results[0][0].startswith("Error: wrong arguments for fetch")


@every_way
def test_a_tool_says_itself_that_its_failure_may_pass(talk: Way) -> None:
    flaky = Flaky(ToolError("the shop is busy", transient=True))
    talked = talk(ScriptedModel([call("fetch"), "Done."]), "Go!", tools=[flaky.tool()], clock=fakes.FakeClock())

    assert talked.tool_results == [("fetched in 2", "ok")]


@every_way
def test_of_a_tool_that_does_not_say_that_it_may_nothing_runs_twice(talk: Way) -> None:
    flaky = Flaky(RESET)
    talked = talk(ScriptedModel([call("fetch"), "Sorry."]), "Go!", tools=[flaky.tool(read_only=False, retries=())])

    assert flaky.calls == 1
    assert talked.tool_results == [("Error: connection reset", "error")]


@every_way
def test_hooks_run_once_and_the_user_is_asked_once(talk: Way) -> None:
    flaky, asked = Flaky(RESET, RESET), list[str]()
    talked = talk(
        ScriptedModel([call("fetch"), "Done."]),
        "Go!",
        tools=[flaky.tool(approval=True)],
        clock=fakes.FakeClock(),
        approve=lambda request: bool(asked.append("approve") or True),
        hooks={
            "before_tool": lambda request: asked.append("before"),
            "after_tool": lambda request: asked.append(f"after: {request.text}"),
        },
    )

    assert asked == ["before", "approve", "after: fetched in 3"]
    assert talked.tool_results == [("fetched in 3", "ok")]


@every_way
def test_a_cancellation_while_it_waits_ends_the_turn(talk: Way) -> None:
    """The clock is the one who cancels, in the middle of the wait."""

    class Cancelling(fakes.FakeClock):
        cancel: Callable[[str], object] = staticmethod(lambda reason: None)

        def _pass(self, seconds: float) -> None:
            self.cancel("enough")

    flaky, clock = Flaky(RESET), Cancelling()

    def use(agent: Any) -> None:
        clock.cancel = agent.cancel

    talked = talk(ScriptedModel([call("fetch")]), "Go!", tools=[flaky.tool()], clock=clock, use=use)

    assert talked.results[0].outcome == Cancelled("enough")
    assert talked.tool_results == [(READING_HAD_FAILED, "cancelled")]
    assert flaky.calls == 1


@every_way
@pytest.mark.parametrize(("sort", "read_only", "tried"), [("async", False, 2), ("plain", True, 2), ("plain", False, 1)])
def test_a_call_that_took_too_long_is_tried_again_unless_it_goes_on_and_may_change_something(
    talk: Way, sort: str, read_only: bool, tried: int
) -> None:
    runs, release, clock = list[int](), threading.Event(), Patient()

    def work() -> str:
        runs.append(1)
        if len(runs) == 1:
            clock.begun.set()
            assert release.wait(PATIENCE)
        return "done"

    async def work_async() -> str:
        runs.append(1)
        if len(runs) == 1:
            clock.begun.set()
            await asyncio.Event().wait()
        return "done"

    said: dict[str, Any] = {"read_only": read_only, "idempotent": not read_only}
    made = Tool(work if sort == "plain" else work_async, name="work", timeout=5.0, retries=(1.0,), **said)

    def freed(event: Event) -> None:
        if isinstance(event.value, ToolFailed):  # what goes on is let go, so that it does not hold up the end
            release.set()

    talked = talk(ScriptedModel([call("work"), "Done."]), "Go!", tools=[made], clock=clock, observers=[freed])

    assert len(runs) == tried
    late = "Error: work took longer than 5 seconds"
    assert talked.tool_results == [("done", "ok") if tried == 2 else (late, "error")]


class Patient(fakes.FakeClock):
    """Time passes once the first attempt is at work; then the wait before the second one; and then no more."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Event()

    def receive(self, mailbox: Any, seconds: float | None) -> Any:
        if seconds is not None and not self.waits:
            assert self.begun.wait(PATIENCE)
        return super().receive(mailbox, None if len(self.waits) >= 2 else seconds)

    async def wait(self, wake: asyncio.Future[None], seconds: float | None) -> None:
        if seconds is not None and not self.waits:
            assert await asyncio.to_thread(self.begun.wait, PATIENCE)
        await super().wait(wake, None if len(self.waits) >= 2 else seconds)


# ------------------------------------------------------------------------------------------- recordings, and elsewhere


def die(*_: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def go_on_in_sync(path: Path, tools: list[Any]) -> Any:
    with Agent.resume(path, ScriptedModel(["Done."]), tools, clock=fakes.FakeClock()) as agent:
        return agent.resume_turn()


def go_on_in_asyncio(path: Path, tools: list[Any]) -> Any:
    async def main() -> Any:
        async with AsyncAgent.resume(path, ScriptedModel(["Done."]), tools, clock=fakes.FakeClock()) as agent:
            return await agent.resume_turn()

    return asyncio.run(main())


@pytest.mark.parametrize("go_on", [go_on_in_sync, go_on_in_asyncio])
def test_after_a_crash_in_the_middle_of_the_wait_the_call_is_tried_again(go_on: Any, tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"

    class Deadly(fakes.FakeClock):
        _pass = die

    child = os.fork()
    if child == 0:
        try:
            signal.alarm(PATIENCE)
            model = ScriptedModel([call("fetch"), "Done."])
            with Agent(model, [Flaky(RESET).tool()], journal=path, clock=Deadly()) as agent:
                agent.run("Go!")
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL

    flaky = Flaky()
    result = go_on(path, [flaky.tool()])

    assert result.outcome == Completed("Done.")
    assert flaky.calls == 1
    assert result.calls[0].content == "fetched in 1"
    replay(path).raise_for_divergence()


@every_way
def test_its_recording_is_replayed_and_rehearsed(talk: Way, tmp_path: Path) -> None:
    """A rehearsal leaves out what failed in passing: it says nothing of the tool."""
    path = tmp_path / "s.jsonl"
    flaky = Flaky(RESET, RESET)
    talk(ScriptedModel([call("fetch"), "Done."]), "Go!", tools=[flaky.tool()], clock=fakes.FakeClock(), journal=path)

    replay(path).raise_for_divergence()
    report = rehearse(path, [Tool(lambda: "fetched in 3", name="fetch", read_only=True, retries=True)])
    assert (report.same, report.calls) == (True, 1)
    other = rehearse(path, [Tool(lambda: "other", name="fetch", read_only=True, retries=True)])
    assert [difference.recorded for difference in other.differences] == [("ok", "fetched in 3")]


def test_a_fork_goes_on_from_a_recording_with_it(tmp_path: Path) -> None:
    path, flaky = tmp_path / "s.jsonl", Flaky(RESET)
    with Agent(ScriptedModel([call("fetch"), "Done."]), [flaky.tool()], journal=path, clock=fakes.FakeClock()) as agent:
        agent.run("Go!")

    with Agent.fork(path, ScriptedModel(["And on."]), [flaky.tool()], turn=1) as forked:
        assert forked.run("Go on!").text == "And on."


def test_a_host_runs_the_handles_tool_again() -> None:
    flaky = Flaky(RESET, ToolError("busy", transient=True))
    with host_of(call("fetch"), "Done.") as host, host.open("s", [flaky.tool(retries=(0.0, 0.0))]) as handle:
        result = handle.run("Go!")

    assert result.text == "Done."
    assert flaky.calls == 3
    assert [one.content for one in result.calls] == ["fetched in 3"]


def test_a_host_honours_what_the_specification_says_of_time() -> None:
    """It crosses with the specification."""
    release = threading.Event()

    @tool(timeout=0.01, read_only=True)
    def work() -> str:
        """Work."""
        assert release.wait(PATIENCE)
        return "done"

    with host_of(call("work"), "Sorry.") as host, host.open("s", [work]) as handle:
        result = handle.run("Go!")
        release.set()

    assert [one.content for one in result.calls] == ["Error: work took longer than 0.01 seconds"]


def test_an_external_call_that_failed_in_passing_is_handed_out_again() -> None:
    spec = ToolSpec("order", idempotent=True, retries=(1.0,))
    with Agent(ScriptedModel([call("order"), "Done."]), [spec], clock=fakes.FakeClock()) as agent:
        first = agent.run("Go!")
        assert isinstance(first.outcome, Suspended)
        (one,) = first.pending
        second = agent.answer(one.effect_id, ConnectionError("the shop is unreachable"))
        (other,) = second.pending
        assert other.effect_id != one.effect_id
        third = agent.answer(other.effect_id, "ordered")

    assert third.text == "Done."
    assert [one.content for one in third.calls] == ["ordered"]


def test_a_worker_tries_again_too() -> None:
    flaky = Flaky(RESET)
    worker = call("spawn_worker", name="ann", objective="work")
    model = ScriptedModel([worker, call("fetch"), "Worked.", "Done."])
    with Agent(model, [flaky.tool()], features=["workers"], clock=fakes.FakeClock(), worker_patience=None) as agent:
        assert agent.run("Go!").text == "Done."

    assert flaky.calls == 2


# --------------------------------------------------------------------------------------------------- what may pass


def raised_from(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


def circle() -> BaseException:
    error = ValueError("a")
    error.__cause__ = raised_from(ValueError("b"), error)
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConnectionRefusedError(), True),
        (BrokenPipeError(), True),
        (TimeoutError(), True),
        (OSError(errno.ENETUNREACH, "unreachable"), True),
        (OSError(errno.EHOSTUNREACH, "unreachable"), True),
        (OSError(errno.ENOSPC, "full"), False),
        (PermissionError(errno.EACCES, "no"), False),
        (socket.gaierror(socket.EAI_AGAIN, "later"), True),
        (socket.gaierror(socket.EAI_NONAME, "no such name"), False),
        (URLError(ConnectionResetError()), True),
        (URLError("no"), False),
        (HTTPError("http://x", 503, "busy", {}, None), False),  # type: ignore[arg-type]  # no headers
        (raised_from(ValueError("the client's own"), ConnectionResetError()), True),
        (raised_from(ValueError("the client's own"), KeyError()), False),
        (raised_from(ToolError("no"), ConnectionResetError()), False),
        (raised_from(ValueError("no"), ToolError("busy", transient=True)), False),
        (ToolError("busy", transient=True), True),
        (ToolError("no"), False),
        (ToolRetry("again", transient=True), False),
        (KeyboardInterrupt(), False),
        (circle(), False),
    ],
)
def test_what_may_pass(error: BaseException, expected: bool) -> None:
    assert may_pass(error) is expected


def test_a_subclass_of_ones_own_may_say_it() -> None:
    class BusyError(ToolError):
        def __init__(self) -> None:
            super().__init__("busy", transient=True)

    assert may_pass(BusyError())
    assert str(BusyError()) == "busy"


# ------------------------------------------------------------------------------------------------- what a tool may say


@pytest.mark.parametrize(
    ("retries", "plan"), [(True, RETRY_PLAN), (False, ()), ((), ()), ((1.0,), (1.0,)), ([1, 2], (1.0, 2.0))]
)
def test_the_usual_plan_has_a_short_word(retries: Any, plan: tuple[float, ...]) -> None:
    assert tool(name="x", read_only=True, retries=retries)(lambda: "x").spec.retries == plan
    made = Tool.from_schema(
        name="x", parameters={"type": "object"}, function=lambda arguments: "x", idempotent=True, retries=retries
    )
    assert made.spec.retries == plan


def test_what_is_said_of_a_tool_stands_in_its_specification() -> None:
    said: dict[str, Any] = {"parallel": True, "timeout": 5.0, "output_limit": 100, "approval": ("rm:*",)}
    made = tool(name="x", **said)(lambda: "x")
    described = Tool.from_schema(name="x", parameters={"type": "object"}, function=lambda arguments: "x", **said)

    for one in (made, described):
        assert (one.spec.parallel, one.spec.timeout, one.spec.output_limit) == (True, 5.0, 100)
        assert one.spec.approval == ("rm:*",)
        assert one.timeout == 5.0
    assert fakes.ScriptedTool(made, []).spec == made.spec


def test_a_tool_that_may_not_run_twice_has_no_retries() -> None:
    with pytest.raises(ConfigError, match="running it twice may do more than once"):
        tool(name="x", retries=True)(lambda: "x")


@every_way
def test_two_that_change_something_run_together_where_both_say_that_they_may(talk: Way) -> None:
    both = threading.Barrier(2)

    @tool(parallel=True)
    def put(n: int) -> str:
        """Put."""
        both.wait(PATIENCE)
        return f"put {n}"

    talked = talk(ScriptedModel([[call("put", n=1), call("put", n=2)], "Done."]), "Go!", tools=[put])

    assert [content for content, _ in talked.tool_results] == ["put 1", "put 2"]


@every_way
def test_the_model_reads_no_more_of_a_result_than_the_tool_says(talk: Way) -> None:
    @tool(output_limit=80)
    def say() -> str:
        """Say."""
        return "0123456789" * 20

    talked = talk(ScriptedModel([call("say"), "Done."]), "Go!", tools=[say])

    assert talked.tool_results == [
        ("0123456789" * 6 + "\n[... 120 characters left out ...]\n" + "0123456789" * 2, "ok")
    ]


def test_a_failure_that_may_pass_stands_in_the_input() -> None:
    told: list[Event] = []
    with Agent(
        ScriptedModel([call("fetch"), "Sorry."]), [Flaky(RESET).tool(retries=())], observers=[told.append]
    ) as agent:
        agent.run("Go!")

    assert [event.value.transient for event in told if isinstance(event.value, ToolFailed)] == [True]
