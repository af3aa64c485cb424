"""A tool's mistake can be found: in the log, at its event, and raised where a test wants that."""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import Any

import pytest

from cognition import CallTool, ConfigError, EffectId, Idle, ToolCall, to_data
from interpreters import Agent, AgentHost, ToolContext, ToolError, ToolRetry, events, tool
from interpreters.observing.events import Event
from interpreters.testing.fakes import ScriptedModel, call
from interpreters.tools.failures import describe, may_pass
from interpreters.tools.tool import LEFT, run_tool_async
from tests.interpreters.test_workers import spawn
from tests.interpreters.ways import Way, every_way, in_asyncio, in_sync


def broken(read_only: bool) -> Any:
    @tool(read_only=read_only)
    def divide(x: int) -> float:
        """Divide."""
        return x / 0

    return divide


@tool
async def divide_later(x: int) -> float:
    """Divide."""
    return x / 0


@tool
def complain(x: int) -> str:
    """Complain."""
    raise ToolError("not so")


@tool
def again(x: int) -> str:
    """Ask for another try."""
    raise ToolRetry("another number")


BROKEN = {"here": broken(True), "on a thread": broken(False), "async": divide_later}


@pytest.mark.behaviour("P16c")
@every_way
@pytest.mark.parametrize("where", BROKEN)
def test_a_mistake_is_logged_with_its_traceback_and_stands_at_its_event(
    talk: Way, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    failing, told = BROKEN[where], list[Event]()
    model = ScriptedModel([call(failing.spec.name, x=1), "Sorry."])

    talk(model, "Go!", tools=[failing], observers=[events.Inline(told.append)])

    (failed,) = [one for one in told if isinstance(one.value, events.ToolFailed)]
    assert isinstance(failed.error, ZeroDivisionError)
    assert failed.error.__traceback__ is not None
    assert [None] * (len(told) - 1) == [one.error for one in told if one is not failed]
    (record,) = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert ("cogstep", f"the tool {failing.spec.name} failed") == (record.name, record.getMessage())
    assert record.exc_info is not None
    assert record.exc_info[1] is failed.error
    assert "error" not in to_data(failed)


@every_way
@pytest.mark.parametrize("means", [complain, again])
def test_what_a_tool_means_to_say_is_no_mistake(talk: Way, means: Any, caplog: pytest.LogCaptureFixture) -> None:
    told = list[Event]()
    model = ScriptedModel([call(means.spec.name, x=1), "Sorry."])

    talk(model, "Go!", tools=[means], observers=[events.Inline(told.append)], raise_tool_errors=True)

    assert [one for one in caplog.records if one.levelno >= logging.WARNING] == []
    assert [isinstance(one.error, ToolError) for one in told if one.error is not None] == [True]


@pytest.mark.behaviour("P16c")
@every_way
@pytest.mark.parametrize("where", BROKEN)
def test_a_test_has_a_mistake_raised(talk: Way, where: str) -> None:
    failing = BROKEN[where]
    agents: list[Any] = []

    with pytest.raises(ZeroDivisionError):
        talk(
            ScriptedModel([call(failing.spec.name, x=1)]),
            "Go!",
            tools=[failing],
            raise_tool_errors=True,
            use=agents.append,
        )

    assert Idle() == agents[0].state.phase


@every_way
def test_a_mistake_of_a_worker_s_tool_is_raised_too(talk: Way) -> None:
    failing = broken(True)
    model = ScriptedModel([spawn("ann"), call("divide", x=1)])
    given: dict[str, Any] = {"features": ["workers"], "raise_tool_errors": True}

    with pytest.raises(ZeroDivisionError):
        talk(model, "Go!", tools=[failing], **given)


class Stop(BaseException):
    """What is no ``Exception``, as pytest's failures and gevent's timeouts are none."""


FAULTS = [GeneratorExit("gone"), asyncio.CancelledError(), SystemExit(3), Stop("enough"), StopIteration("over")]


def raising(error: BaseException) -> dict[str, Any]:
    """Tools that raise it, by where they run."""

    @tool(read_only=True)
    def here() -> str:
        """Fail on the session's thread."""
        raise error

    @tool
    def there() -> str:
        """Fail on another thread."""
        raise error

    @tool
    async def awaited() -> str:
        """Fail in a loop."""
        await asyncio.sleep(0)
        raise error

    return {"here": here, "on a thread": there, "async": awaited}


@pytest.mark.behaviour("P16c")
@every_way
@pytest.mark.parametrize("where", BROKEN)
@pytest.mark.parametrize("error", FAULTS, ids=repr)
def test_whatever_a_tool_raises_is_a_result_for_the_model(
    talk: Way, where: str, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """Also what is no ``Exception``: on no way does it end the run, and on none it gets lost."""
    failing, told = raising(error)[where], list[Event]()
    model = ScriptedModel([call(failing.spec.name), "Sorry."])

    said = talk(model, "Go!", tools=[failing], observers=[events.Inline(told.append)])

    assert said.texts == ["Sorry."]
    ((content, status),) = said.tool_results
    assert status == "error"
    (failed,) = [one for one in told if isinstance(one.value, events.ToolFailed)]
    found = failed.error
    if isinstance(error, StopIteration) and where == "async":  # Python's own word for it in a coroutine
        assert isinstance(found, RuntimeError)
    else:
        assert type(found) is type(error)
        expected = LEFT if isinstance(error, asyncio.CancelledError) else describe(error)
        assert content == f"Error: {expected}"
    assert found is not None
    assert found.__traceback__ is not None
    (record,) = [one for one in caplog.records if one.name == "cogstep" and one.levelno == logging.WARNING]
    assert record.exc_info is not None
    assert record.exc_info[1] is found


class MumblingError(Exception):
    """Its class is a library's, and at fault itself: no text can be made of it."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class MumblingRetryError(MumblingError, ToolRetry):
    """Nor of this one."""


class MumblingFileError(OSError):
    """With a reason that is none."""

    def __init__(self, reason: object, file: object) -> None:
        super().__init__(2, reason, file)


@pytest.mark.behaviour("P16c")
@every_way
@pytest.mark.parametrize("where", BROKEN)
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MumblingError(), "MumblingError, whose message can't be read (RuntimeError)"),
        (MumblingRetryError(), "MumblingRetryError, whose message can't be read (RuntimeError)\nTry again."),
        (KeyError(MumblingError()), "KeyError, whose message can't be read (RuntimeError)"),
        (MumblingFileError(5, None), "5"),
        (
            MumblingFileError("gone", MumblingError()),
            "gone: MumblingFileError, whose message can't be read (RuntimeError)",
        ),
    ],
    ids=["any", "retry", "key", "reason", "file"],
)
def test_an_exception_that_can_t_say_what_it_is_about_is_a_result_too(
    talk: Way, where: str, error: Exception, said: str
) -> None:
    failing, told = raising(error)[where], list[Event]()
    model = ScriptedModel([call(failing.spec.name), "Sorry."])

    talked = talk(model, "Go!", tools=[failing], observers=[events.Inline(told.append)])

    assert talked.tool_results == [(f"Error: {said}", "error")]
    assert [type(one.error) for one in told if isinstance(one.value, events.ToolFailed)] == [type(error)]


@pytest.mark.behaviour("P16c")
def test_what_a_tool_raises_behind_a_handle_stands_at_its_event_too() -> None:
    """The tool runs in this program; what the host tells of it is JSON. A worker's is under the worker's session."""
    told = list[Event]()
    script = [call("here"), "Sorry.", spawn("ann"), call("here"), "Sorry.", "Sorry."]
    options: dict[str, Any] = {"features": ["workers"], "observers": [events.Inline(told.append)]}

    with AgentHost.in_thread(ScriptedModel(script)) as host:
        session = host.open("a", [raising(KeyError("name"))["here"]], **options)
        session.run("Go!")
        session.run("Go on!")

    failed = [one for one in told if isinstance(one.value, events.ToolFailed)]
    assert [(one.session == "a", type(one.error)) for one in failed] == [(True, KeyError), (False, KeyError)]
    assert [None] * (len(told) - 2) == [one.error for one in told if one not in failed]


def test_what_another_task_of_a_tool_s_left_with_is_a_result_too() -> None:
    """Python throws it into the tool's task as if that were closed."""
    told = list[Event]()

    async def leave() -> None:
        raise GeneratorExit("gone")

    @tool
    async def waits() -> None:
        """Wait for another task."""
        await asyncio.create_task(leave())

    said = in_asyncio(
        ScriptedModel([call("waits"), "Sorry."]), "Go!", tools=[waits], observers=[events.Inline(told.append)]
    )

    assert said.tool_results == [(f"Error: {LEFT}", "error")]
    assert [type(one.error) for one in told if isinstance(one.value, events.ToolFailed)] == [GeneratorExit]


@every_way
def test_an_interrupt_on_another_thread_is_the_tool_s_own(talk: Way) -> None:
    """Ctrl-C comes to the main thread alone."""
    failing = raising(KeyboardInterrupt())["on a thread"]

    said = talk(ScriptedModel([call("there"), "Sorry."]), "Go!", tools=[failing])

    assert said.tool_results == [("Error: KeyboardInterrupt", "error")]


class Handler:
    """Ends the program by raising, in whatever form it is handed in."""

    def __call__(self, number: int, frame: object) -> None:
        raise SystemExit(143)

    def method(self, number: int, frame: object) -> None:
        raise Stop("terminated")


def out_of_time(number: int, frame: object) -> None:
    """Raises what a tool may raise as well."""
    raise TimeoutError("the program's time is over")


@pytest.mark.parametrize("handler", [Handler(), Handler().method, signal.default_int_handler, out_of_time])
@pytest.mark.parametrize("way", [in_sync, in_asyncio])
def test_what_a_signal_s_handler_raises_is_not_the_tool_s(handler: Any, way: Way) -> None:
    """The program's handler is how it wants to end; a tool was only where that came."""

    def signalled() -> None:
        signal.raise_signal(signal.SIGTERM)

    @tool(read_only=True)
    def here() -> None:
        """Be where a signal comes."""
        signalled()

    @tool
    async def awaited() -> None:
        """Be where a signal comes, in a loop."""
        signalled()

    working = here if way is in_sync else awaited
    before = signal.signal(signal.SIGTERM, handler)
    try:
        with pytest.raises((SystemExit, Stop, KeyboardInterrupt, TimeoutError, BaseExceptionGroup)):
            way(ScriptedModel([call(working.spec.name), "Sorry."]), "Go!", tools=[working])
    finally:
        signal.signal(signal.SIGTERM, before)


def test_what_the_handler_of_a_tool_s_own_raises_is_the_tool_s() -> None:
    """It has put the program's back by the time that its exception is looked at."""

    @tool(read_only=True)
    def bounded() -> None:
        """Take a moment at the most."""
        before = signal.signal(signal.SIGTERM, out_of_time)
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.signal(signal.SIGTERM, before)

    said = in_sync(ScriptedModel([call("bounded"), "Sorry."]), "Go!", tools=[bounded])

    assert said.tool_results == [("Error: the program's time is over", "error")]


def test_an_enum_that_says_no_is_no_handler() -> None:
    """What Python says in place of a handler are members of one, and have the method that makes them."""

    @tool(read_only=True)
    def enum() -> None:
        """Ask for what there is not."""
        signal.Handlers(7)

    said = in_sync(ScriptedModel([call("enum"), "Sorry."]), "Go!", tools=[enum])

    assert said.tool_results == [("Error: 7 is not a valid Handlers", "error")]


def test_a_tool_whose_coroutine_is_closed_is_not_at_fault() -> None:
    """Whoever closes it waits for no result, and must not get one."""

    @tool
    async def waits() -> None:
        """Wait."""
        await asyncio.Event().wait()

    context = ToolContext(None)
    carrying = run_tool_async(waits, CallTool(EffectId("1.1.1"), ToolCall("c", "waits", "{}")), context)

    async def main() -> None:
        carrying.send(None)

    asyncio.run(main())
    carrying.close()

    assert context.error is None


class Shop:
    def __init__(self, name: str) -> None:
        self.name = name

    @tool(description="Order something of this shop.", read_only=True)
    def order(self, item: str) -> str:
        """Not what the model is told."""
        return f"{item} of {self.name}"

    @tool
    async def wait(self, item: str) -> str:
        """Wait for something."""
        return f"{item} from {self.name}"


@every_way
def test_methods_are_decorated_in_their_class_and_taken_from_an_object(talk: Way) -> None:
    one, other = Shop("one"), Shop("other")
    assert (one.order.spec.description, one.order.spec.read_only) == ("Order something of this shop.", True)
    assert list(one.order.spec.parameters["properties"]) == ["item"]
    assert other.order("a") == "a of other"

    model = ScriptedModel([[call("order", item="a"), call("wait", item="b")], "Done."])
    said = talk(model, "Go!", tools=[one.order, one.wait])

    assert said.tool_results == [("a of one", "ok"), ("b from one", "ok")]


def test_a_method_without_its_object_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"Shop\.order is a method of a class: give it of an object, as in shop\.order"
    ):
        Agent(ScriptedModel([]), [Shop.order])


def test_a_group_of_exceptions_is_described_by_those_in_it() -> None:
    inner = [ConnectionResetError("peer reset it"), ExceptionGroup("others", [ValueError("no good value")])]
    group = ExceptionGroup("all failed", inner)

    assert describe(group) == "all failed: peer reset it; others: no good value"
    assert not may_pass(group)
    assert may_pass(ExceptionGroup("x", [ConnectionResetError("peer reset it"), TimeoutError()]))
    many = ExceptionGroup("x", [ValueError(f"bad value {n}") for n in range(7)])
    assert describe(many).endswith("bad value 4; and 2 more")
