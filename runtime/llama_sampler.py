"""How the tokens of one reply are chosen: a chain of llama.cpp's samplers."""

from __future__ import annotations

import secrets
from typing import Any

from cognition import GenerationOptions
from runtime.lazy_package import import_lazily

import_lazily("llama_cpp")
import llama_cpp.llama_cpp as native  # noqa: E402  after the line above, which saves 0.2 s of it


class LlamaSampler:
    """A chain for one reply.

    Args:
        options: of the request.
    """

    def __init__(self, options: GenerationOptions) -> None:
        self._chain: Any = native.llama_sampler_chain_init(native.llama_sampler_chain_default_params())
        if options.temperature == 0:
            self._add(native.llama_sampler_init_greedy())
        else:
            seed = secrets.randbits(32) if options.seed is None else options.seed & 0xFFFFFFFF
            self._add(native.llama_sampler_init_temp(options.temperature))
            self._add(native.llama_sampler_init_dist(seed))

    def _add(self, sampler: Any) -> None:
        native.llama_sampler_chain_add(self._chain, sampler)

    def sample(self, context: Any, place: int) -> int:
        """The next token, from the logits at a place of the last batch; it counts as said from now on."""
        return int(native.llama_sampler_sample(self._chain, context, place))

    def close(self) -> None:
        """Free the chain."""
        if self._chain:
            native.llama_sampler_free(self._chain)
            self._chain = None
