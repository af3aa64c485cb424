"""How a model is loaded, as it is typed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from interpreters.cli.main import parser
from interpreters.cli.options.model_options import CACHE_TYPES, load_options
from runtime import Adapter, LlamaOptions, ModelOptionsError
from runtime.llama import options as llama_options


def chosen(*arguments: str) -> Any:
    return load_options(parser().parse_args(["run", "Hi", *arguments]), lambda _progress: None)


def test_what_is_not_typed_is_left_to_the_model_and_the_machine() -> None:
    """So that MLX models, which have none of llama.cpp's options, load too."""
    options = chosen()

    assert {options[name] for name in ("backend", "context_tokens", "threads", "options")} == {None}


def test_what_is_typed_is_passed_on() -> None:
    """Each option as load_model takes it."""
    options = chosen("--context", "4096", "--threads", "3", "--gpu-layers", "0", "--cache-type", "q8_0")

    assert (options["context_tokens"], options["threads"]) == (4096, 3)
    assert options["options"] == LlamaOptions(gpu_layers=0, key_type="q8_0", value_type="q8_0")


@pytest.mark.parametrize(
    ("text", "adapter"),
    [
        ("a.gguf", Adapter(Path("a.gguf"))),
        ("a.gguf:0.5", Adapter(Path("a.gguf"), 0.5)),
        ("folder:b/a.gguf", Adapter(Path("folder:b/a.gguf"))),
        ("C:\\a.gguf:-1", Adapter(Path("C:\\a.gguf"), -1.0)),
    ],
)
def test_an_adapter_may_have_a_scale(text: str, adapter: Adapter) -> None:
    """Behind the last colon, if that is a number."""
    assert chosen("--adapter", text, "--adapter", "z.gguf")["options"].adapters == (adapter, Adapter(Path("z.gguf")))


def test_a_scale_is_finite() -> None:
    """As the option itself wants it."""
    with pytest.raises(ModelOptionsError, match=r"Adapter.scale must be a number, not inf"):
        chosen("--adapter", "a.gguf:inf")


def test_the_cache_types_are_the_runtimes() -> None:
    """Written out twice, since --help loads no runtime."""
    assert get_args(llama_options.CacheType) == CACHE_TYPES
