"""The model of a command, and how to load it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interpreters.cli.options.values import COUNT, REPLY, TURN

if TYPE_CHECKING:
    from runtime import Adapter
    from runtime.loading import LoadOptions, OnProgress


CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")
"""As in ``runtime.llama.options``, repeated here to avoid the import."""


def add_model_options(group: Any) -> None:
    """Add the options of every command that loads a model."""
    group.add_argument(
        "--model",
        metavar="SPEC",
        help="a GGUF file, an MLX directory, hf:owner/repo[@rev][/file], a model behind a server (openai/NAME, "
        "ollama/NAME, http://HOST/v1|NAME), claude[:MODEL] or codex[:MODEL] (default: the model that ships)",
    )
    group.add_argument("--backend", choices=("llama", "mlx"), help="what runs it (default: what fits the model)")
    group.add_argument(
        "--isolate",
        action="store_true",
        help="run it in a process of its own, started again if native code crashes or hangs",
    )
    group.add_argument(
        "--context", type=REPLY, metavar="N", help="tokens of prompt and reply (default: the model's, to 8192)"
    )
    group.add_argument("--threads", type=COUNT, metavar="N", help="llama.cpp's, on a CPU (default: physical cores)")
    group.add_argument("--gpu-layers", type=TURN, metavar="N", help="llama.cpp's (default: all, if there is a GPU)")
    group.add_argument(
        "--adapter",
        action="append",
        metavar="FILE[:SCALE]",
        help="a LoRA adapter for a GGUF model; may be given several times",
    )
    group.add_argument(
        "--cache-type", choices=CACHE_TYPES, help="how llama.cpp keeps its cache; q8_0 halves it (default: f16)"
    )


def add_fallback_option(group: Any) -> None:
    """Add the option for fallback models, for commands that continue a conversation."""
    group.add_argument(
        "--fallback",
        action="append",
        metavar="SPEC",
        help="a model that is called where the one before fails; may be given several times (/model chooses one)",
    )


def load_options(chosen: argparse.Namespace, on_progress: OnProgress) -> LoadOptions:
    """Return the chosen options for ``load_model``."""
    from runtime import LlamaOptions  # here, so that --help need not load it

    options: dict[str, Any] = {}
    if chosen.gpu_layers is not None:
        options["gpu_layers"] = chosen.gpu_layers
    if chosen.adapter:
        options["adapters"] = map(_adapter, chosen.adapter)
    if chosen.cache_type is not None:
        options |= {"key_type": chosen.cache_type, "value_type": chosen.cache_type}
    return {
        "backend": chosen.backend,
        "context_tokens": chosen.context,
        "threads": chosen.threads,
        "options": LlamaOptions(**options) if options else None,
        "on_progress": on_progress,
    }


def _adapter(text: str) -> Adapter:
    from runtime import Adapter

    file, _, scale = text.rpartition(":")
    try:
        factor = float(scale)
    except ValueError:  # no scale, and perhaps a colon in the path, as in C:\\adapter.gguf
        return Adapter(Path(text))
    return Adapter(Path(file), factor)
