"""The shipped model in a turn whose results together are longer than its context: it answers, and is right."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from cognition import Completed, GenerationOptions, Limits
from interpreters import Agent, fakes, replay, tool
from interpreters.observing.events import ContextAssembled, Event
from runtime import load_model

WORDS = (
    "the a and milk bread note friday noon monday red green door apple tree house water paper table list work day week "
    "time call plan report"
).split()
RESULT = 1000
"""Characters of each of ten results."""
MODULES = {"llama": "llama_cpp", "mlx": "mlx_lm"}


class Led:
    """The shipped model, but for its first replies, which are calls that the test has chosen.

    By itself it makes two calls in a turn at most, so that no turn of its own would be long.
    """

    def __init__(self, model: Any, first: list[fakes.Script]) -> None:
        self._model, self._script, self._left = model, fakes.ScriptedModel(first), len(first)

    def submit(self, request: Any) -> Any:
        self._left -= 1
        return self._script.submit(request) if self._left >= 0 else self._model.submit(request)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


@pytest.mark.parametrize("backend", [pytest.param(name, marks=getattr(pytest.mark, name)) for name in MODULES])
@pytest.mark.behaviour("K18c")
def test_ten_results_of_a_thousand_characters_are_answered_by_the_shipped_model(backend: Any, tmp_path: Path) -> None:
    """At 4,096 tokens, in one turn: the results alone have some 4,000. Its replies
    get 3,000 of them, since it was trained on prompts of some 900; and it can't write summaries.
    """
    pytest.importorskip(MODULES[backend], reason=f"the extra {backend!r} is not installed")
    chance = random.Random(1)
    reports: list[ContextAssembled] = []
    given: list[str] = []

    @tool(read_only=True)
    def multiply(a: int, b: int) -> str:
        """Multiply two whole numbers."""
        if (a, b) == (17, 23):
            return str(a * b)
        given.append(f"{a * b}\n{' '.join(chance.choices(WORDS, k=400))}"[:RESULT])
        return given[-1]

    def note(event: Event) -> None:
        if isinstance(event.value, ContextAssembled):
            reports.append(event.value)

    calls: list[Any] = [fakes.call("multiply", a=number, b=number + 3) for number in range(2, 12)]
    journal = tmp_path / "s.jsonl"
    with (
        load_model(backend=backend) as model,
        Agent(
            Led(model, [*calls, fakes.call("multiply", a=17, b=23)]),
            [multiply],
            limits=Limits(steps=30),
            context_tokens=4096,
            options=GenerationOptions(max_tokens=3000),
            compact_at=None,
            journal=journal,
            observers=[note],
            owns_model=False,
        ) as agent,
    ):
        result = agent.run("What is 17 * 23?")

    assert isinstance(result.outcome, Completed)
    assert "is 391" in result.text
    assert list(map(len, given)) == [RESULT] * 10
    assert all(report.counted and report.tokens <= report.budget for report in reports)
    assert any(report.shortened for report in reports)
    assert reports[-1].dropped > 0
    assert replay(journal).raise_for_divergence().state == agent.state
