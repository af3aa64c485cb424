"""Sampling of a reply's tokens with a chain of llama.cpp's samplers."""

from __future__ import annotations

import secrets
from typing import Any

import numpy

from cognition import GenerationOptions
from runtime.models.lazy_package import import_lazily
from runtime.protocol.sampling import Sampling, resolve_sampling

import_lazily("llama_cpp")
import llama_cpp.llama_cpp as native  # noqa: E402  after the line above, which saves 0.2 s of it

PENALTY_WINDOW = 64
"""Penalties apply to this many last tokens of the reply, llama.cpp's default. Prompt tokens do not count: the prompt
contains names and arguments that a call must repeat.
"""

NEXT_TO_NOTHING = 1e-30
"""A token with less than this share of the highest probability is one that a mask forbids. Typical sampling must not
see it: the information of an impossible token is infinite.
"""


class LlamaSampler:
    """The chain of samplers for one reply.

    Args:
        options: the request's.
        vocabulary: the number of tokens; logit biases beyond it are ignored.
    """

    def __init__(self, options: GenerationOptions, vocabulary: int) -> None:
        biases = tuple((token, bias) for token, bias in options.logit_bias if token < vocabulary)
        sampling = resolve_sampling(options)
        repeat, frequency, presence = sampling.repeat_penalty, options.frequency_penalty, options.presence_penalty
        self.plain: bool = sampling.temperature == 0 and (repeat, frequency, presence) == (1, 0, 0)
        """Whether sampling is greedy after biases, so that ``likeliest`` is enough. A chain would first write a table
        of 12 bytes per vocabulary token: 34 us for 32,000 tokens; the search takes 4 us.
        """
        self._biases: dict[int, float] = {}
        for token, bias in biases:
            self._biases[token] = self._biases.get(token, 0.0) + bias
        self._chain: Any = None
        if self.plain:
            return
        self._chain = native.llama_sampler_chain_init(native.llama_sampler_chain_default_params())
        if biases:
            array = (native.llama_logit_bias * len(biases))(*[native.llama_logit_bias(*pair) for pair in biases])
            self._add(native.llama_sampler_init_logit_bias(vocabulary, len(biases), array))
        if (repeat, frequency, presence) != (1, 0, 0):
            self._add(native.llama_sampler_init_penalties(vocabulary, PENALTY_WINDOW, repeat, frequency, presence))
        if sampling.temperature == 0:
            self._add(native.llama_sampler_init_greedy())
        else:
            self._add_random(sampling, options.seed)

    def _add_random(self, sampling: Sampling, seed: int | None) -> None:
        if sampling.top_k:
            self._add(native.llama_sampler_init_top_k(sampling.top_k))
        if sampling.typical_p < 1:
            self._add(native.llama_sampler_init_min_p(NEXT_TO_NOTHING, 1))
            self._add(native.llama_sampler_init_typical(sampling.typical_p, 1))
        if sampling.top_p < 1:
            self._add(native.llama_sampler_init_top_p(sampling.top_p, 1))
        if sampling.min_p:
            self._add(native.llama_sampler_init_min_p(sampling.min_p, 1))
        seed = secrets.randbits(32) if seed is None else seed & 0xFFFFFFFF
        self._add(native.llama_sampler_init_temp(sampling.temperature))
        self._add(native.llama_sampler_init_dist(seed))

    def _add(self, sampler: Any) -> None:
        native.llama_sampler_chain_add(self._chain, sampler)

    def sample(self, context: Any, place: int) -> int:
        """Return the next token, sampled from the logits at a row of the last batch. Penalties then count it."""
        return int(native.llama_sampler_sample(self._chain, context, place))

    def likeliest(self, logits: Any) -> int:
        """Return the next token of a plain sampler. Does not change the logits."""
        best = int(logits.argmax())
        biases = self._biases
        if not biases:
            return best
        if biases.get(best, 0.0) < 0:  # what is the likeliest without it is not known
            best = self._likeliest_unbiased(logits)
        # Of those without a bias none is likelier than this one.
        highest = logits.item(best) + biases.get(best, 0.0)
        for token, bias in biases.items():
            logit = logits.item(token) + bias
            if logit > highest or (logit == highest and token < best):
                best, highest = token, logit
        return best

    def _likeliest_unbiased(self, logits: Any) -> int:
        """The likeliest token without a bias; any other if all have a bias."""
        biased = [*self._biases]
        put_back = logits[biased]
        logits[biased] = -numpy.inf  # for a moment, rather than in a copy of a whole vocabulary
        best = int(logits.argmax())
        logits[biased] = put_back
        return best

    def close(self) -> None:
        """Free the chain."""
        if self._chain:
            native.llama_sampler_free(self._chain)
            self._chain = None
