"""Create an engine from the files of a model: the only module that imports backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from runtime.errors import ModelOptionsError
from runtime.local.real_model_guard import check_allowed
from runtime.templates.override import NOTHING_CHOSEN, Override

if TYPE_CHECKING:
    from runtime.llama.options import LlamaOptions
    from runtime.local.engine import LocalEngine
    from runtime.models.specs import Source
    from runtime.protocol.backend import InferenceBackend


def load_engine(
    source: Source,
    context_tokens: int | None,
    threads: int | None,
    options: LlamaOptions | None,
    on_progress: Callable[[float], bool],
    chosen: Override = NOTHING_CHOSEN,
) -> LocalEngine:
    """Load a model with its backend; call it on the owner's thread."""
    check_allowed(f"load {source.path}")
    from runtime.local.engine import LocalEngine

    on_progress(0.0)
    backend: InferenceBackend
    if source.backend == "llama":
        from runtime.llama.backend import LlamaBackend

        backend = LlamaBackend(
            source.path, context_tokens=context_tokens, threads=threads, options=options, on_progress=on_progress
        )
    else:
        if options is not None:
            told = f"{source.path} is an MLX model, and options={options!r} are llama.cpp's"
            raise ModelOptionsError(f"{told}; leave them out", spec=str(source.path))
        from runtime.mlx.backend import MlxBackend

        backend = MlxBackend(source.path, context_tokens=context_tokens)
    try:
        backend.metadata = chosen.instead(backend.metadata)
        engine = LocalEngine(backend, chosen.format)
    except BaseException:
        backend.close()
        raise
    on_progress(1.0)
    return engine
