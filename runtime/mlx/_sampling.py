"""Sampling in NumPy, by ``GenerationOptions``, for backends without their own.

The samplers and their order equal llama.cpp's; ``tests/runtime/mlx/test_sampling.py`` compares them.
"""

from __future__ import annotations

import secrets
from collections import Counter, deque
from typing import Any

import numpy

from cognition import GenerationOptions
from runtime.protocol.sampling import resolve_sampling

PENALTY_WINDOW = 64
"""Reply tokens that penalties count; see ``runtime.llama._sampler`` for why prompt tokens do not count."""

FEW, MORE = 64, 8
"""Tokens sorted first for top-p, and the factor for the next attempt."""

Array = numpy.ndarray[Any, numpy.dtype[numpy.float64]]
Tokens = numpy.ndarray[Any, numpy.dtype[numpy.intp]]


class NumpySampler:
    """Chooses the tokens of one reply.

    Args:
        options: the request's.
    """

    def __init__(self, options: GenerationOptions) -> None:
        self._options, self._chosen = options, resolve_sampling(options)
        self._sampled: deque[int] = deque(maxlen=PENALTY_WINDOW)
        self._random = numpy.random.default_rng(secrets.randbits(64) if options.seed is None else abs(options.seed))

    @property
    def plain(self) -> bool:
        """Whether sampling is simply greedy, so that the logits need not be read here."""
        options = self._options
        penalties = (self._chosen.repeat_penalty, options.frequency_penalty, options.presence_penalty)
        return self._chosen.temperature == 0 and not options.logit_bias and penalties == (1, 0, 0)

    def sample(self, logits: numpy.ndarray[Any, Any]) -> int:
        """Return the next token, from a row of logits; -inf is impossible. Penalties then count it."""
        if self.plain:
            return int(logits.argmax())
        tokens, left = self.remaining_tokens(logits)
        if self._chosen.temperature == 0:
            token = int(tokens[left.argmax()])
        else:
            with numpy.errstate(over="ignore"):  # at a temperature so low that only the likeliest is left
                until = _weights((left - left.max()) / self._chosen.temperature).cumsum()
            token = int(tokens[until.searchsorted(self._random.random() * until[-1], side="right")])
        self._sampled.append(token)
        return token

    def close(self) -> None:
        """Nothing to free."""

    def remaining_tokens(self, logits: numpy.ndarray[Any, Any]) -> tuple[Tokens, Array]:
        """Return the tokens that remain after all options, ascending, and their logits before the temperature.

        A vocabulary of 150,000 is scanned, never sorted: top-k and top-p need only a few tokens of it.
        """
        options, sampling, logits = self._options, self._chosen, numpy.array(logits, numpy.float64)
        for token, bias in options.logit_bias:
            if token < logits.size:
                logits[token] += bias
        for token, count in Counter(self._sampled).items():
            value = logits[token]
            value = value * sampling.repeat_penalty if value <= 0 else value / sampling.repeat_penalty
            logits[token] = value - count * options.frequency_penalty - options.presence_penalty
        tokens: Tokens = numpy.arange(logits.size)
        if sampling.temperature == 0:
            return tokens, logits
        for option, narrow in (
            (sampling.top_k, _top_k),
            (sampling.typical_p if sampling.typical_p < 1 else None, _typical),
            (sampling.top_p if sampling.top_p < 1 else None, _top_p),
            (sampling.min_p, _min_p),
        ):
            if option:
                kept = narrow(logits, option)
                tokens, logits = tokens[kept], logits[kept]
        return tokens, logits


# Each gives the places of the tokens that are kept, ascending. Of equal ones, the first are kept.


def _top_k(logits: Array, count: float) -> Tokens:
    return _largest(logits, int(count))


def _typical(logits: Array, enough: float) -> Tokens:
    weights = _weights(logits)
    possible = numpy.flatnonzero(weights)
    probabilities = weights[possible] / weights.sum()
    surprise = -numpy.log(probabilities)
    expected = (probabilities * surprise).sum()
    order = numpy.argsort(abs(surprise - expected), kind="stable")
    return numpy.sort(possible[_until(order, probabilities[order].cumsum() > enough)])


def _top_p(logits: Array, enough: float) -> Tokens:
    weights = _weights(logits)
    total, count = weights.sum(), FEW
    while True:
        few = _largest(weights, count)
        order = few[numpy.argsort(-weights[few], kind="stable")]
        shares = weights[order].cumsum() / total
        if shares[-1] >= enough or few.size == weights.size:
            return numpy.sort(_until(order, shares >= enough))
        count *= MORE


def _min_p(logits: Array, share: float) -> Tokens:
    return numpy.flatnonzero(logits >= logits.max() + numpy.log(share))


def _largest(values: Array, count: int) -> Tokens:
    if count >= values.size:
        return numpy.arange(values.size)
    least = numpy.partition(values, values.size - count)[values.size - count]
    larger = numpy.flatnonzero(values > least)
    return numpy.sort(numpy.concatenate([larger, numpy.flatnonzero(values == least)[: count - larger.size]]))


def _until(order: Tokens, reached: Any) -> Tokens:
    """Return the order up to and including the first place with ``reached``."""
    return order[: int(reached.argmax()) + 1] if reached.any() else order


def _weights(logits: Array) -> Array:
    """Return the probabilities, up to a common factor."""
    weights: Array = numpy.exp(logits - logits.max())
    return weights
