"""How a reply is sampled: what the program says, else what the model's own files say, else the defaults."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from attrs import evolve, frozen

from cognition import GenerationOptions


@frozen
class Sampling:
    """The options of sampling of one reply, each with its value: none is left to anybody else."""

    temperature: float = 0.0
    repeat_penalty: float = 1.0
    top_k: int = 0
    typical_p: float = 1.0
    top_p: float = 1.0
    min_p: float = 0.0


DEFAULTS = Sampling()
LEFT_OPEN = ("temperature", "repeat_penalty", "top_k", "typical_p", "top_p", "min_p")
"""The options that are None where a program says nothing of them, so that a model's files may."""


def chosen(options: GenerationOptions) -> Sampling:
    """The options of sampling, with the defaults for what is None."""
    return Sampling(**{name: _first(name, options, DEFAULTS) for name in LEFT_OPEN})


@lru_cache(maxsize=64)
def with_own(options: GenerationOptions, own: GenerationOptions) -> GenerationOptions:
    """The options, with the model's ``own`` for what is None.

    Equal options are one object, by which a journal sees that nothing changed.
    """
    found = {name: value for name in LEFT_OPEN if (value := _first(name, options, own)) is not None}
    return evolve(options, **found)


def _first(name: str, *sources: Any) -> Any:
    return next((value for one in sources if (value := getattr(one, name)) is not None), None)
