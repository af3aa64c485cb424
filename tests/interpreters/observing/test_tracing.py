"""Spans of OpenTelemetry: one for each turn, step, model call, tool and worker, in each other as they were."""

from __future__ import annotations

import asyncio
import re
import sys
from typing import Any

import pytest

from cognition import ConfigError, Failure, ProposedCall, Usage
from interpreters import Agent, AsyncAgent, events, tool
from interpreters.observing.tracing import Names, Tracing
from interpreters.testing.fakes import FakeClock, FunctionModel, Reply, ScriptedModel, call
from runtime.models.installation import install_line

pytest.importorskip("opentelemetry.sdk", reason="OpenTelemetry's SDK is not installed")

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


@tool(read_only=True)
def look(n: int) -> int:
    """Look."""
    if n > 5:
        raise LookupError("no")
    return n


class Kept:
    """Spans that were ended, by name."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    @property
    def all(self) -> list[Any]:
        return list(self._exporter.get_finished_spans())

    def named(self, name: str) -> list[Any]:
        return [span for span in self.all if span.name == name]

    def tree(self) -> list[str]:
        """Each span's way from the outermost one, in the order in which they began."""
        by_id = {span.context.span_id: span for span in self.all}

        def way(span: Any) -> str:
            return f"{way(by_id[span.parent.span_id])} > {span.name}" if span.parent else span.name

        return sorted(map(way, self.all))


def script() -> list[Any]:
    return [
        Reply(calls=[ProposedCall("look", {"n": 1}), ProposedCall("look", {"n": 9})], usage=Usage(10, 5, 4)),
        Failure("busy", kind="rate_limit"),
        "Done.",
    ]


TREE = [
    "invoke_agent baker",
    "invoke_agent baker > step 1",
    "invoke_agent baker > step 1 > chat small",
    "invoke_agent baker > step 1 > execute_tool look",
    "invoke_agent baker > step 1 > execute_tool look",
    "invoke_agent baker > step 2",
    "invoke_agent baker > step 2 > chat small",
    "invoke_agent baker > step 2 > chat small",
]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_turn_is_a_tree_of_spans(asynchronous: bool) -> None:
    kept = Kept()
    tracing = events.Inline(Tracing(kept.provider, agent="baker", model="small", system="fake"))
    model, clock = ScriptedModel(script()), FakeClock()
    clock.advance(1000.0)
    if asynchronous:

        async def main() -> None:
            async with AsyncAgent(model, [look], observers=[tracing], clock=clock) as agent:
                await agent.run("Look.")

        asyncio.run(main())
    else:
        with Agent(model, [look], observers=[tracing], clock=clock) as agent:
            agent.run("Look.")

    assert kept.tree() == TREE
    (turn,) = kept.named("invoke_agent baker")
    assert turn.attributes[Names.INPUT_TOKENS] == 10
    assert turn.attributes["cogstep.outcome"] == "completed"
    assert turn.status.is_unset
    first, failed, last = kept.named("chat small")
    assert first.attributes[Names.CACHED_TOKENS] == 4
    assert (first.attributes[Names.PROVIDER], first.kind.name) == ("fake", "CLIENT")
    assert failed.attributes[Names.ERROR] == "rate_limit"
    assert not failed.status.is_ok
    assert last.attributes[Names.FINISH_REASONS] == ("stop",)
    assert last.start_time - failed.end_time >= 1e9, "the wait between two attempts is nobody's call"
    good, bad = kept.named("execute_tool look")
    assert sorted([good.status.status_code.name, bad.status.status_code.name]) == ["ERROR", "UNSET"]
    assert {span.attributes[Names.TOOL_CALL] for span in (good, bad)} == {"call-1-1-1", "call-1-1-2"}
    (again,) = [event.name for span in kept.all for event in span.events]
    assert again == "retry"
    assert all(span.start_time <= span.end_time for span in kept.all)


def test_nothing_that_was_said_is_in_a_span() -> None:
    kept = Kept()
    with Agent(ScriptedModel([call("look", n=4711), "s3cret"]), [look], observers=[Tracing(kept.provider)]) as agent:
        agent.run("s3cret 4711")

    told = " ".join(str([span.name, dict(span.attributes), span.events, span.status]) for span in kept.all)
    assert "4711" not in told
    assert "s3cret" not in told


def test_workers_are_within_the_turn_that_spawned_them() -> None:
    kept = Kept()
    parent = [call("spawn_worker", name="scout", objective="look"), "Done."]
    with Agent(
        ScriptedModel([parent[0], "Found.", parent[1]]),
        features=["workers"],
        observers=[events.Inline(Tracing(kept.provider, agent="baker"))],
    ) as agent:
        agent.run("Look.")

    ways = [way for way in kept.tree() if "scout" in way]
    assert ways[0] == "invoke_agent baker > step 1 > invoke_agent scout"
    assert f"{ways[0]} > step 1 > chat" in ways
    assert len(kept.named("invoke_agent baker")) == 1, "a worker is no baker"
    (scout,) = kept.named("invoke_agent scout")
    assert (scout.attributes[Names.AGENT], scout.attributes["cogstep.outcome"]) == ("scout", "completed")


def test_a_name_of_a_span_is_of_no_single_session() -> None:
    """Backends group by it; the session is an attribute of each span in which something was called."""
    kept = Kept()
    with Agent(ScriptedModel([call("look", n=1), "Done."]), [look], observers=[Tracing(kept.provider)]) as agent:
        agent.run("Look.")

    assert {span.name for span in kept.all} == {"invoke_agent", "step 1", "step 2", "chat", "execute_tool look"}
    known = [span.attributes.get(Names.CONVERSATION) for span in kept.all if not span.name.startswith("step")]
    assert len(known) == 4
    assert len(set(known)) == 1
    assert None not in known
    assert not any(Names.INPUT_TOKENS in span.attributes for span in kept.all), "nobody knows them"


def test_of_sessions_that_nobody_closes_nothing_is_kept() -> None:
    kept = Kept()
    tracing = Tracing(kept.provider)
    agent = Agent(ScriptedModel(["Done."]), observers=[events.Inline(tracing)])
    agent.run("Hi")

    assert (tracing._sessions, tracing._workers) == ({}, {})
    agent.close()


def test_what_ends_otherwise_is_an_error_and_what_is_left_open_is_ended() -> None:
    kept = Kept()
    tracing = Tracing(kept.provider)
    with Agent(ScriptedModel([Failure("no", kind="fatal")]), observers=[events.Inline(tracing)], session="a") as agent:
        agent.run("Hi")
    (turn,) = kept.named("invoke_agent")
    assert turn.attributes[Names.ERROR] == "fatal"

    def stop(request: object) -> str:
        agent.cancel()
        return "never"

    with Agent(FunctionModel(stop), observers=[events.Inline(tracing)], session="b") as agent:
        agent.run("Hi")
    (_, turn) = kept.named("invoke_agent")
    assert turn.attributes["cogstep.outcome"] == "cancelled"
    event = events.Event("c", 1, 0, 1, 1, events.UserSpoke("Hi", at=5.0))
    tracing(event)
    assert len(kept.named("invoke_agent")) == 2
    tracing.close()
    turn = kept.named("invoke_agent")[-1]
    assert turn.start_time == turn.end_time == 5_000_000_000


def test_without_opentelemetry_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)

    with pytest.raises(ConfigError, match=re.escape(install_line("otel"))):
        Tracing()
