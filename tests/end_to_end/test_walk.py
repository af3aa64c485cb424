"""The way of a user's message to the model is short, and a turn renders each prompt once (``benchmarks/walk.py``)."""

from __future__ import annotations

import threading

import pytest

from benchmarks.walk import GOAL, SAID, TOKENIZE, Walk, multiply
from interpreters import Agent
from runtime import load_model


@pytest.mark.parametrize("backend", [pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("llama", "mlx")])
def test_a_message_passes_few_functions_and_its_prompt_is_rendered_once(backend: str) -> None:
    """After the first message, which measures the template. The way begins and ends where it should."""
    pytest.importorskip({"llama": "llama_cpp", "mlx": "mlx_lm"}[backend], reason="the extra is not installed")
    walk = Walk()
    threading.setprofile(walk)
    try:
        with load_model(backend=backend) as model, Agent(model, tools=[multiply]) as agent:  # type: ignore[arg-type]  # one of two names
            walk.run(agent, SAID["first"])
            walk.run(agent, SAID["later"])
            way = [code.co_qualname for code in sorted(walk.passing, key=walk.passing.__getitem__)]
            counts = [dict(walk.counts)]
            walk.run(agent, SAID["without a call"])
            counts.append(dict(walk.counts))
    finally:
        threading.setprofile(None)  # type: ignore[arg-type]  # as documented

    assert way[0] == "Agent.run"
    assert way[-1] in TOKENIZE
    assert {"LLMEngine.step", "call_model", "ChatTemplate.render"} <= {*way}
    assert len(way) <= GOAL
    assert [count["render"] for count in counts] == [count["prompt"] for count in counts] == [2, 1]
