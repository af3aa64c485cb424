"""A program's own spans are children of the session's: in tools, observers, workers and callbacks, in every way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from cognition import ConfigError, ProposedCall
from interpreters import Agent, AgentHost, AsyncAgent, events, tool
from interpreters.observing.events import Event
from interpreters.observing.tracing import Tracing
from interpreters.testing.fakes import FunctionModel, Reply, ScriptedModel, call
from tests.interpreters.observing.test_tracing import Kept
from tests.interpreters.test_workers import spawn

pytest.importorskip("opentelemetry.sdk", reason="OpenTelemetry's SDK is not installed")

from opentelemetry import trace


class Own(Kept):
    """Spans, with a tracer of the program's own."""

    def __init__(self) -> None:
        super().__init__()
        self.tracer = self.provider.get_tracer("program")
        self.tracing = Tracing(self.provider, agent="baker")

    def span(self, name: str) -> Any:
        return self.tracer.start_as_current_span(name)

    @property
    def roots(self) -> list[str]:
        return [span.name for span in self.all if span.parent is None]

    def parents(self, name: str) -> set[str]:
        """The names of the parents of all spans of this name."""
        by_id = {span.context.span_id: span.name for span in self.all}
        return {by_id.get(span.parent.span_id, "?") for span in self.named(name)}


Run = Callable[..., object]


def run(model: Any, tools: Any, **options: Any) -> None:
    with Agent(model, tools, **options) as agent:
        agent.run("Go!")


def stream(model: Any, tools: Any, **options: Any) -> None:
    with Agent(model, tools, **options) as agent:
        list(agent.stream("Go!"))


def run_async(model: Any, tools: Any, **options: Any) -> None:
    async def main() -> None:
        async with AsyncAgent(model, tools, **options) as agent:
            await agent.run("Go!")

    asyncio.run(main())


def stream_async(model: Any, tools: Any, **options: Any) -> None:
    async def main() -> None:
        async with AsyncAgent(model, tools, **options) as agent, agent.stream("Go!") as turn:
            async for _ in turn:
                pass

    asyncio.run(main())


def in_a_thread(model: Any, tools: Any, **options: Any) -> None:
    """From a thread that carries the program's context, as ``asyncio.to_thread`` starts it."""
    asyncio.run(asyncio.to_thread(run, model, tools, **options))


def behind_a_handle(model: Any, tools: Any, **options: Any) -> None:
    with AgentHost.in_thread(model) as host:
        host.open("a", tools, **options).run("Go!")


WAYS: dict[str, Run] = {
    one.__name__: one for one in (run, stream, run_async, stream_async, in_a_thread, behind_a_handle)
}
every_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


def tools_of(own: Own) -> dict[str, Any]:
    """Tools that a session runs in different ways. Each makes a span."""

    def work(x: int) -> str:
        """Work."""
        with own.span("in the tool"):
            return str(x)

    async def work_later(x: int) -> str:
        """Work."""
        await asyncio.sleep(0)
        return work(x)

    return {
        "here": tool(name="work", read_only=True)(work),
        "on a thread": tool(name="work")(work),
        "with a timeout": tool(name="work", timeout=60.0)(work),
        "async": tool(name="work")(work_later),
        "async with a timeout": tool(name="work", timeout=60.0)(work_later),
    }


@every_way
@pytest.mark.parametrize("kind", tools_of(Own()))
@pytest.mark.parametrize("count", [1, 3])
def test_a_span_in_a_tool_is_a_child_of_the_call_s(way: Run, kind: str, count: int) -> None:
    own = Own()
    calls = [ProposedCall("work", {"x": n}) for n in range(count)]
    with own.span("request"):
        way(ScriptedModel([Reply(calls=calls), "Done."]), [tools_of(own)[kind]], observers=[own.tracing])

    assert own.roots == ["request"]
    assert own.parents("in the tool") == {"execute_tool work"}
    parents = [span.parent.span_id for span in own.named("in the tool")]
    assert len(set(parents)) == count, "each in the span of its own call"


@every_way
def test_a_span_in_an_observer_is_a_child_of_the_event_s(way: Run) -> None:
    own = Own()
    names = {events.UserSpoke: "invoke_agent baker", events.ToolReturned: "execute_tool work"}
    names |= {events.CallTool: "execute_tool work", events.ModelReplied: "chat", events.ModelCalled: "chat"}

    def watch(event: Event) -> None:
        if type(event.value) in names:
            with own.span(f"saw {type(event.value).__name__}"):
                pass

    with own.span("request"):
        model = ScriptedModel([call("work", x=1), "Done."])
        way(model, [tools_of(own)["on a thread"]], observers=[watch, own.tracing])

    assert own.roots == ["request"]
    assert {kind: own.parents(f"saw {kind.__name__}") for kind in names} == {kind: {n} for kind, n in names.items()}


@pytest.mark.parametrize("wrap", [lambda observer: observer, events.Inline])
@pytest.mark.parametrize("way", [run_async, stream_async])
def test_so_is_that_in_an_async_observer(way: Run, wrap: Any) -> None:
    own = Own()

    async def watch(event: Event) -> None:
        await asyncio.sleep(0)
        if isinstance(event.value, events.CallTool):
            with own.span("saw a call"):
                pass

    with own.span("request"):
        model = ScriptedModel([call("work", x=1), "Done."])
        way(model, [tools_of(own)["async"]], observers=[watch, wrap(own.tracing)])

    assert (own.roots, own.parents("saw a call")) == (["request"], {"execute_tool work"})


@every_way
def test_spans_of_a_worker_and_of_its_tools_are_within_the_worker_s(way: Run) -> None:
    own = Own()
    model = ScriptedModel([spawn("ann"), call("work", x=1), "Found.", "Done."])
    with own.span("request"):
        way(model, [tools_of(own)["on a thread"]], observers=[own.tracing], features=["workers"])

    assert (own.roots, own.parents("in the tool")) == (["request"], {"execute_tool work"})
    assert own.parents("invoke_agent ann") == {"step 1"}
    (ann,) = own.named("invoke_agent ann")
    steps = [span for span in own.all if span.parent and span.parent.span_id == ann.context.span_id]
    assert [span.name for span in steps if span.name != "execute_tool work"] == ["step 1", "step 2"]
    # A host's worker may have its tool called before the handle gets the event of its step: it is in the worker's span.
    assert len(steps) == 2 or way is behind_a_handle


@every_way
def test_spans_of_callbacks_are_within_the_turn(way: Run) -> None:
    own = Own()

    def approve(_request: object) -> bool:
        with own.span("asked"):
            return True

    def guard(_request: object) -> None:
        with own.span("guarded"):
            pass

    given = {"approve": approve, "hooks": {"before_tool": guard}, "observers": [own.tracing]}
    careful = tool(name="work", approval=True)(lambda_of(own))
    with own.span("request"):
        way(ScriptedModel([call("work", x=1), "Done."]), [careful], **given)

    assert own.roots == ["request"]
    assert (own.parents("asked"), own.parents("guarded")) == ({"step 1"}, {"step 1"})


def lambda_of(own: Own) -> Callable[[int], str]:
    work: Callable[[int], str] = tools_of(own)["on a thread"].function
    return work


@pytest.mark.parametrize("way", [run, stream, run_async, stream_async])
def test_a_span_of_the_model_s_client_is_a_child_of_the_call(way: Run) -> None:
    """Such as those of an instrumented HTTP client."""
    own = Own()

    def answer(_request: object) -> str:
        with own.span("POST"):
            return "Done."

    with own.span("request"):
        way(FunctionModel(answer), [], observers=[own.tracing])

    assert (own.roots, own.parents("POST")) == (["request"], {"chat"})


def test_the_next_turn_is_in_the_trace_of_its_own_request() -> None:
    """Even if the thread that delivers events has not ended since the turn before."""
    own = Own()

    def watch(event: Event) -> None:
        if isinstance(event.value, events.TurnFinished):
            with own.span("saw the end"):
                pass

    with Agent(ScriptedModel(["One.", "Two."]), observers=[watch, own.tracing]) as agent:
        for n in range(2):
            with own.span(f"request {n}"):
                agent.run("Go!")

    assert own.roots == ["request 0", "request 1"]
    assert [len({span.context.trace_id for span in own.named(name)}) for name in ("saw the end", "chat")] == [2, 2]


def test_an_agent_within_a_tool_is_within_the_call() -> None:
    own = Own()

    @tool
    def ask_expert(question: str) -> str:
        """Ask."""
        with Agent(ScriptedModel(["42"]), observers=[own.tracing]) as expert:
            return expert.run(question).text

    with own.span("request"):
        run(ScriptedModel([call("ask_expert", question="?"), "Done."]), [ask_expert], observers=[own.tracing])

    assert own.roots == ["request"]
    assert own.parents("invoke_agent baker") == {"request", "execute_tool ask_expert"}


@pytest.mark.parametrize("way", [run, run_async])
def test_after_a_turn_the_current_span_is_the_program_s_again(way: Run) -> None:
    own = Own()
    with own.span("request") as request:
        way(ScriptedModel([call("work", x=1), "Done."]), [tools_of(own)["here"]], observers=[own.tracing])

        assert trace.get_current_span() is request


def test_a_slow_exporter_still_delays_no_tool() -> None:
    """Spans end on the observer's own thread."""
    own, ran, freed = Own(), threading.Event(), threading.Event()

    class Slow:
        def on_start(self, span: object, parent_context: object = None) -> None: ...

        def on_end(self, span: Any) -> None:
            if span.name == "chat":
                freed.wait(60.0)

        def _on_ending(self, span: object) -> None: ...

        def shutdown(self) -> None: ...

        def force_flush(self, timeout_millis: int = 0) -> bool:
            return True

    own.provider.add_span_processor(Slow())  # type: ignore[arg-type]  # all that is asked of one

    @tool
    def work(x: int) -> str:
        """Work."""
        ran.set()
        freed.set()
        return "1"

    run(ScriptedModel([call("work", x=1), "Done."]), [work], observers=[own.tracing])

    assert ran.is_set()


def test_a_tracer_that_fails_is_dropped_and_the_turn_goes_on() -> None:
    own, warned = Own(), list[str]()

    def watch(event: Event) -> None:
        if isinstance(event.value, events.WarningRaised):
            warned.append(event.value.message)

    def fail(*_arguments: object, **_options: object) -> None:
        raise ConfigError("no sampler")

    own.tracing._tracer.start_span = fail  # type: ignore[method-assign]  # a program's own sampler may raise anything
    with Agent(ScriptedModel(["Done."]), observers=[own.tracing, events.Inline(watch)]) as agent:
        assert agent.run("Go!").text == "Done."

    assert warned == ["an observer was dropped because it failed on UserSpoke: ConfigError: no sampler"]


def test_spans_of_a_cancelled_worker_are_exported_too() -> None:
    own = Own()
    agents: list[Any] = []

    def stop(x: int) -> str:
        """Stop."""
        agents[0].cancel()
        return "1"

    model = ScriptedModel([spawn("ann"), call("stop", x=1)])
    with Agent(model, [tool(stop)], observers=[own.tracing], features=["workers"]) as agent:
        agents.append(agent)
        agent.run("Go!")

    assert own.roots == ["invoke_agent baker"]
    assert [len(own.named(name)) for name in ("invoke_agent ann", "execute_tool stop")] == [1, 1]
    assert (own.tracing._sessions, own.tracing._workers) == ({}, {})
