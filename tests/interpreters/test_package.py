"""The package as it is imported."""

import doctest
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import interpreters

ROOT = Path(interpreters.__file__).parent.parent


def test_every_public_name_is_there() -> None:
    """The lazy names lead to what they say."""
    for name in interpreters.__all__:
        assert getattr(interpreters, name) is not None
    assert set(interpreters.__all__) <= set(dir(interpreters))
    assert interpreters.replay.__name__ == "replay"


def test_importing_the_package_loads_no_backend_and_nothing_that_is_not_used() -> None:
    """In a fresh process: after the import, and after the whole facade is used."""
    script = """
import sys
import pytest

import interpreters
early = [name for name in ("interpreters.agents.agent", "cattrs", "cognition.engine.llm_engine") if name in sys.modules]
from interpreters import Agent, fakes, replay, tool
with Agent(fakes.ScriptedModel(["Hello!"])) as agent:
    assert agent.run("Hi!").text == "Hello!"
backends = {"llama_cpp", "mlx", "mlx_lm", "numpy", "jinja2", "huggingface_hub", "transformers"} & set(sys.modules)
print(early, sorted(backends))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)

    assert done.stdout == "[] []\n"


FAKES = [f"testing.fakes.{name}" for name in ("_clock", "models", "scripts", "_tools")]


@pytest.mark.parametrize("name", ["agents.agent", "tools.context", *FAKES])
def test_the_examples_of_docstrings_run(name: str) -> None:
    """What a docstring shows is what happens."""
    outcome = doctest.testmod(import_module(f"interpreters.{name}"))

    assert outcome.failed == 0
    assert outcome.attempted > 0
