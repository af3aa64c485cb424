"""A real model behind a cassette, and behind a handle: what is recorded of it is played without it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from interpreters import Agent, AgentHost, RunResult, events, tool
from interpreters.observing.events import Event
from interpreters.testing.cassettes import Cassette
from interpreters.testing.contracts import assert_calls, calls_of
from runtime import Runtime, load_model
from tests.end_to_end.test_shipped_model import BACKENDS, MODULES


@tool(read_only=True)
def calculate(expression: str) -> str:
    """Work out an arithmetic expression."""
    return "391" if expression.replace(" ", "") == "17*23" else "unknown"


def never() -> Runtime:
    raise AssertionError("a real model was asked while a cassette was played")


@pytest.mark.parametrize("backend", BACKENDS[:1])
def test_a_real_session_is_played_without_its_model(backend: Any, tmp_path: Path) -> None:
    """Text, calls, usage and the end of each reply come back as they were."""
    pytest.importorskip(MODULES[backend], reason=f"the extra {backend!r} is not installed")

    def talk(model: Runtime) -> tuple[list[RunResult], int]:
        told: list[Event] = []
        with Agent(model, [calculate], "Be brief.", observers=[events.Inline(told.append)]) as agent:
            results = [agent.run(text) for text in ("What is 17 * 23?", "Thanks!")]
        return results, sum(isinstance(event.value, events.TextDelta) for event in told)

    with Cassette(tmp_path / "session.json", "record") as cassette:
        live, pieces = talk(cassette.model(lambda: load_model(backend=backend)))
    played, pieces_again = talk(Cassette(tmp_path / "session.json").model(never))

    assert live == played
    assert 1 < pieces_again <= pieces, "it streams as it did, in pieces of about the same size"
    assert calls_of(tmp_path / "session.json") == tuple(
        type(made)(made.name, made.arguments) for result in live for made in calls_of(result)
    )
    assert_calls(tmp_path / "session.json", others_allowed=True)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS[:1])
def test_the_shipped_model_in_a_process_of_its_own(backend: Any) -> None:
    """The model over there, the tool over here."""
    pytest.importorskip(MODULES[backend], reason=f"the extra {backend!r} is not installed")
    ran: list[int] = []

    @tool(name="calculate", read_only=True)
    def here(expression: str) -> str:
        """Work out an arithmetic expression."""
        ran.append(os.getpid())
        return "391"

    with AgentHost.in_process() as host:
        result = host.open("a", [here]).run("What is 17 * 23?")

    assert result.ok
    assert result.usage.output_tokens > 0
    assert set(ran) <= {os.getpid()}
