"""How the tokens of one reply are chosen, for backends that leave it to us: what ``GenerationOptions`` says, in NumPy.

The same samplers in the same order as llama.cpp's; ``tests/runtime/test_sampling.py`` holds them against those.
"""

from __future__ import annotations

import secrets
from collections import Counter, deque
from typing import Any

import numpy

from cognition import GenerationOptions

PENALTY_WINDOW = 64
"""Tokens of the reply that penalties look back on; ``runtime.llama_sampler`` says why none of the prompt."""

Array = numpy.ndarray[Any, numpy.dtype[numpy.float64]]


class NumpySampler:
    """For one reply.

    Args:
        options: of the request.
    """

    def __init__(self, options: GenerationOptions) -> None:
        self._options = options
        self._said: deque[int] = deque(maxlen=PENALTY_WINDOW)
        self._random = numpy.random.default_rng(secrets.randbits(64) if options.seed is None else abs(options.seed))

    @property
    def plain(self) -> bool:
        """Whether the likeliest token is all that is asked for, so that the logits need not be looked at here."""
        options = self._options
        penalties = (options.repeat_penalty, options.frequency_penalty, options.presence_penalty)
        return options.temperature == 0 and not options.logit_bias and penalties == (1, 0, 0)

    def sample(self, logits: numpy.ndarray[Any, Any]) -> int:
        """The next token, from a row of logits; -inf is what can't come. It counts as said from now on."""
        if self.plain:
            return int(logits.argmax())
        shaped = self.shaped(logits)
        if self._options.temperature == 0:
            token = int(shaped.argmax())
        else:
            token = int(self._random.choice(shaped.size, p=_probabilities(shaped / self._options.temperature)))
        self._said.append(token)
        return token

    def close(self) -> None:
        """Nothing to free."""

    def shaped(self, logits: Array) -> Array:
        """The logits after all options but the temperature; what was left out is -inf."""
        options, logits = self._options, numpy.array(logits, numpy.float64)
        for token, bias in options.logit_bias:
            if token < logits.size:
                logits[token] += bias
        for token, count in Counter(self._said).items():
            value = logits[token]
            value = value * options.repeat_penalty if value <= 0 else value / options.repeat_penalty
            logits[token] = value - count * options.frequency_penalty - options.presence_penalty
        if options.temperature == 0:
            return logits
        if options.top_k:
            logits = _kept(logits, numpy.argsort(-logits, kind="stable")[: options.top_k])
        if options.typical_p < 1:
            logits = _typical(logits, options.typical_p)
        if options.top_p < 1:
            order = numpy.argsort(-logits, kind="stable")
            logits = _kept(logits, _until(order, _probabilities(logits)[order].cumsum() >= options.top_p))
        if options.min_p:
            logits = numpy.where(logits >= logits.max() + numpy.log(options.min_p), logits, -numpy.inf)
        return logits


def _typical(logits: Array, enough: float) -> Array:
    probabilities = _probabilities(logits)
    possible = numpy.flatnonzero(probabilities)
    surprise = -numpy.log(probabilities[possible])
    expected = (probabilities[possible] * surprise).sum()
    order = possible[numpy.argsort(abs(surprise - expected), kind="stable")]
    return _kept(logits, _until(order, probabilities[order].cumsum() > enough))


def _until(order: Any, reached: Any) -> Any:
    """The first ones of an order, up to and with the one at which something is reached."""
    return order[: int(reached.argmax()) + 1] if reached.any() else order


def _kept(logits: Array, tokens: Any) -> Array:
    """Only these."""
    kept = numpy.full_like(logits, -numpy.inf)
    kept[tokens] = logits[tokens]
    return kept


def _probabilities(logits: Array) -> Array:
    weights = numpy.exp(logits - logits.max())
    probabilities: Array = weights / weights.sum()
    return probabilities
