"""The architectures of families that people have files of: each is loaded, and an agent has a turn on it.

The weights are random, so what it writes means nothing; what is held is that the layers and their caches run.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from cognition import GenerationOptions, LimitReached
from interpreters import Agent, tool
from runtime import load_model
from tests.runtime.conftest import installed_or_skip
from tests.runtime.mlx_models import FAMILIES, write_tiny_model


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.mark.parametrize("family", FAMILIES)
def test_an_agent_has_turns_on_a_model_of_the_family(tmp_path: Path, family: str) -> None:
    """The second prompt goes on behind the first, so that what its cache holds is used again."""
    installed_or_skip("mlx")
    options = GenerationOptions(max_tokens=8, logit_bias=((0, -100.0),))
    with Agent(load_model(write_tiny_model(tmp_path / family, family)), [add], options=options) as agent:
        results = [agent.run(text) for text in ("What is 2 + 3?", "And 3 + 4?")]

        assert agent.model.describe().backend == "mlx"
    assert all(isinstance(result.outcome, LimitReached) or result.ok for result in results)
    assert all(result.usage.output_tokens > 0 for result in results)
