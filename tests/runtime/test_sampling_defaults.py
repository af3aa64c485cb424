"""What the program says of sampling wins, then what the model's own files say, then the defaults."""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from cognition import AgentConfig, GenerationOptions
from interpreters import Agent, replay
from interpreters.testing.fakes import ScriptedModel
from runtime import load_model
from runtime.models.specs import SMALL_MODEL
from runtime.protocol.sampling import (
    DEFAULTS,
    LEFT_OPEN,
    options_from_gguf,
    options_from_json,
    resolve_sampling,
    with_own,
)

OWN = GenerationOptions(temperature=0.6, top_k=20, top_p=0.95, min_p=0.0)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, GenerationOptions()),
        ({"do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "min_p": 0}, OWN),
        ({"temperature": 0.6, "top_k": 20.0, "top_p": 0.95, "min_p": 0.0}, OWN),
        ({"do_sample": False, "temperature": 0.6, "top_k": 20}, GenerationOptions()),
        ({"repetition_penalty": 1.1, "typical_p": 0.5}, GenerationOptions(repeat_penalty=1.1, typical_p=0.5)),
        ({"temperature": None, "max_new_tokens": 5, "eos_token_id": 3}, GenerationOptions()),
    ],
)
def test_a_generation_config_is_read(said: dict[str, Any], expected: GenerationOptions) -> None:
    assert options_from_json(said) == (expected, ())


@pytest.mark.parametrize("key", ["temperature", "repetition_penalty", "top_k", "typical_p", "top_p", "min_p"])
@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), -1, 1e300, 10**400, "0.6", True, [0.6], {"a": 1}, "\x1b[2J" * 1000],
    ids=lambda value: str(value)[:12],
)
def test_what_can_not_be_is_left_out_with_a_sentence(key: str, value: Any) -> None:
    """Whatever stands there, a model is loaded with what holds; and a terminal gets no orders."""
    found, warnings = options_from_json({key: value, "do_sample": True})

    assert found == GenerationOptions()
    (sentence,) = warnings
    assert key in sentence
    assert "left out" in sentence
    assert sentence.isprintable()
    assert len(sentence) < 300


def test_a_gguf_header_is_read_and_what_can_not_be_is_left_out() -> None:
    """llama.cpp gives the values as text, with the digits of a float of 32 bits."""
    header = {"general.sampling.temp": "0.600000", "general.sampling.top_k": "20", "general.sampling.top_p": "0.95"}

    assert options_from_gguf(header) == (GenerationOptions(temperature=0.6, top_k=20, top_p=0.95), ())
    for text in ("nan", "-inf", "a lot", "[0.1, 0.2]"):
        found, (sentence,) = options_from_gguf({"general.sampling.temp": text, "general.sampling.min_p": ""})
        assert found == GenerationOptions()
        assert "general.sampling.temp" in sentence


def test_the_program_comes_first_then_the_files_then_the_defaults() -> None:
    options = with_own(GenerationOptions(temperature=0.0, top_k=5), OWN)

    assert (options.temperature, options.top_k, options.top_p) == (0.0, 5, 0.95)
    assert (options.repeat_penalty, resolve_sampling(options).repeat_penalty) == (None, DEFAULTS.repeat_penalty)
    assert options is with_own(GenerationOptions(temperature=0.0, top_k=5), OWN)
    assert resolve_sampling(GenerationOptions()) == DEFAULTS
    assert all(getattr(GenerationOptions(), name) is None for name in LEFT_OPEN)


class Advised(ScriptedModel):
    def describe(self) -> Any:
        return evolve(super().describe(), sampling=OWN, context_tokens=8000)


def test_which_values_were_used_is_recorded(tmp_path: Path) -> None:
    """With how much of the context is kept for the reply, where no limit is said."""
    path = tmp_path / "s.jsonl"
    model = Advised(["fine"])
    with Agent(model, options=GenerationOptions(top_k=5), journal=path) as agent:
        agent.run("Hello")

    config = replay(path).header.config
    assert isinstance(config, AgentConfig)
    assert config.options == evolve(OWN, top_k=5)
    assert config.reply_tokens == 2000
    assert [request.options for request in model.requests] == [config.options]


@pytest.mark.mlx
@pytest.mark.skipif(not find_spec("mlx"), reason="no mlx")
def test_an_mlx_directory_says_how_its_model_is_sampled(tmp_path: Path) -> None:
    shutil.copytree(SMALL_MODEL / "mlx", tmp_path / "model")
    path = tmp_path / "model" / "generation_config.json"
    said = {**json.loads(path.read_text("utf-8")), "do_sample": True, "temperature": 0.6, "top_p": "much"}
    path.write_text(json.dumps(said), "utf-8")

    with load_model(tmp_path / "model") as model:
        info = model.describe()

    assert info.sampling == GenerationOptions(temperature=0.6)
    assert any("top_p" in warning for warning in info.warnings)
