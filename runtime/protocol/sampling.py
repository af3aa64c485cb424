"""Sampling options of a reply: from the program, else from the model's own files, else the defaults."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from attrs import evolve, frozen

from cognition import ConfigError, GenerationOptions
from cognition.base.checking import show


@frozen
class Sampling:
    """The sampling options of one reply, each with a value."""

    temperature: float = 0.0
    repeat_penalty: float = 1.0
    top_k: int = 0
    typical_p: float = 1.0
    top_p: float = 1.0
    min_p: float = 0.0


DEFAULTS = Sampling()
LEFT_OPEN = ("temperature", "repeat_penalty", "top_k", "typical_p", "top_p", "min_p")
"""Options that are None unless the program sets them, so that the model's files can."""


def resolve_sampling(options: GenerationOptions) -> Sampling:
    """Return the sampling options, with defaults in place of None."""
    return Sampling(**{name: _first(name, options, DEFAULTS) for name in LEFT_OPEN})


@lru_cache(maxsize=64)
def with_own(options: GenerationOptions, own: GenerationOptions) -> GenerationOptions:
    """Return ``options`` with the model's ``own`` values in place of None.

    Equal options return the same object, so that a journal sees that nothing changed.
    """
    found = {name: value for name in LEFT_OPEN if (value := _first(name, options, own)) is not None}
    return evolve(options, **found)


def _first(name: str, *sources: Any) -> Any:
    return next((value for one in sources if (value := getattr(one, name)) is not None), None)


IN_JSON = {"repetition_penalty" if name == "repeat_penalty" else name: name for name in LEFT_OPEN}
IN_GGUF = {
    "general.sampling.temp": "temperature",
    "general.sampling.penalty_repeat": "repeat_penalty",
    "general.sampling.top_k": "top_k",
    "general.sampling.top_p": "top_p",
    "general.sampling.min_p": "min_p",
}


def options_from_json(said: Mapping[str, Any]) -> tuple[GenerationOptions, tuple[str, ...]]:
    """Return the sampling options of a ``generation_config.json``, and a warning for each invalid value.

    With ``do_sample: false`` the other values have no effect: decoding is greedy.
    """
    return _read({} if said.get("do_sample") is False else said, IN_JSON)


def options_from_gguf(said: Mapping[str, str]) -> tuple[GenerationOptions, tuple[str, ...]]:
    """Return the sampling options of a GGUF header, whose values are text; otherwise like ``options_from_json``."""
    return _read({key: _number(text) for key, text in said.items() if text}, IN_GGUF)


def _number(text: str) -> float | str:
    try:
        return round(float(text), 6)  # it comes with six digits of a float of 32 bits
    except ValueError:
        return text


def _read(said: Mapping[str, Any], names: Mapping[str, str]) -> tuple[GenerationOptions, tuple[str, ...]]:
    found = GenerationOptions()
    wrong: list[str] = []
    for key, name in names.items():
        value = said.get(key)
        if value is None:
            continue
        if name == "top_k" and isinstance(value, float) and math.isfinite(value) and value == int(value):
            value = int(value)
        change: dict[str, Any] = {name: value}
        try:
            found = evolve(found, **change)
        except ConfigError:
            wrong.append(f"the model's files say {key} {show(value)}, which can't be; it is left out")
    return found, tuple(wrong)
