"""Sizes counted for real: by the shipped model's own tokenizer and template, however the model is held."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from cognition import AgentState, Usage
from cognition.context import longest_prompt
from interpreters import Agent, AsyncAgent, tool
from interpreters.observing.events import ContextAssembled, Event
from runtime import ModelServer, TextCounter, load_model
from tests.interpreters.templated import CountingModel
from tests.interpreters.test_counted_sizes import TURNS, Turn, run
from tests.runtime.providers.servers import llama_server

HELD = ["llama", "mlx", "llama in its own process", "llama of a server"]
MODULES = {"llama": "llama_cpp", "mlx": "mlx_lm"}


@pytest.fixture(
    scope="module",
    params=[
        *(pytest.param(name, marks=getattr(pytest.mark, name.partition(" ")[0])) for name in HELD),
        pytest.param("llama behind llama-server", marks=[pytest.mark.llama, pytest.mark.slow]),
    ],
)
def model(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The shipped model, however it is held."""
    backend, _, how = str(request.param).partition(" ")
    pytest.importorskip(MODULES[backend], reason=f"the extra {backend!r} is not installed")
    if how == "behind llama-server":
        pytest.importorskip("httpcore2", reason="the extra `remote` is not installed")
        with llama_server() as port, load_model(f"http://127.0.0.1:{port}/v1|small") as remote:
            yield remote
        return
    if how == "of a server":
        with ModelServer() as server, server.acquire(backend="llama") as shared:
            yield shared
        return
    with load_model(backend=backend, isolate=bool(how)) as runtime:  # type: ignore[arg-type]  # one of the two names
        yield runtime


@tool(read_only=True)
def read(page: int) -> str:
    """Read a page."""
    return f"Page {page}. " + "It is about foxes and dogs. " * 20


def test_it_counts_texts(model: Any) -> None:
    assert isinstance(model, TextCounter)
    one, none, two = model.count_texts(["Hello", "", "Hello Hello"])
    assert 0 == none < one < two
    assert model.count_texts([]) == ()


def test_no_prompt_of_the_shipped_template_is_larger_than_its_budget(model: Any) -> None:
    """Replies are made up, and all is rendered and counted for real."""

    @given(TURNS, st.integers(300, 2000))
    @settings(max_examples=12, deadline=None, database=None)
    def hold(turns: list[Turn], context: int) -> None:
        def counting(say: Any) -> CountingModel:
            made = CountingModel(model.count_tokens, say)
            made.texts = model.count_texts  # type: ignore[method-assign]  # of this one
            return made

        told, counted, agent = run(counting, turns, context)
        for report, size in zip(told, counted.sizes, strict=True):
            assert report.counted
            assert size <= report.tokens <= longest_prompt(agent.config)

    hold()


def test_a_turn_of_the_shipped_model_is_counted_alike_by_both_ways_of_running(model: Any) -> None:
    """What its replies report is never more than what was told, and less by a few tokens a message."""
    sizes: list[ContextAssembled] = []
    used: list[Usage] = []

    def note(event: Event) -> None:
        if isinstance(event.value, ContextAssembled):
            sizes.append(event.value)

    with Agent(model, [read], observers=[note], owns_model=False) as agent:
        for text in ("Read page 3.", "Thank you."):
            used.append(agent.run(text).usage)
        state = agent.state
    assert all(report.counted for report in sizes)
    assert all(message.tokens for message in state.history)
    assert sum(usage.input_tokens for usage in used) <= sum(report.tokens for report in sizes)
    assert sum(report.tokens for report in sizes) <= sum(usage.input_tokens for usage in used) + 40 * len(sizes)

    async def main() -> AgentState:
        async with AsyncAgent(model, [read], owns_model=False) as other:
            for text in ("Read page 3.", "Thank you."):
                await other.run(text)
            return other.state

    again = asyncio.run(main())
    assert [message.tokens for message in again.history] == [message.tokens for message in state.history]
    assert again.costs == state.costs
