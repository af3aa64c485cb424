"""A tool's mistake can be found: in the log, at its event, and raised where a test wants that."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from cognition import ConfigError, Idle, to_data
from interpreters import Agent, ToolError, ToolRetry, events, tool
from interpreters.observing.events import Event
from interpreters.testing.fakes import ScriptedModel, call
from tests.interpreters.test_workers import spawn
from tests.interpreters.ways import Way, every_way


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
