"""Sessions that are begun with the same options share what is made of these: the configuration, and the engine.

A program that serves many begins thousands of sessions alike, and both take a third of the time that beginning one
takes. Neither ever changes. Only the newest pair is kept, for the next session.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from cognition import AgentConfig, CognitiveEngine, LLMEngine, ToolSpec
from cognition.features import HookPoint
from interpreters.program.program import Program

PLAIN = (str, int, bool, type(None))
"""Types whose values are compared; of all others only one and the same object counts."""


class _Made(NamedTuple):
    parts: tuple[object, ...]
    config: AgentConfig
    engine: LLMEngine | None


_NEWEST: list[_Made] = []
"""At most one. It is replaced in one operation, since sessions begin on any thread."""


def config_of(
    system: str, tools: tuple[ToolSpec, ...], hooks: tuple[HookPoint, ...], fields: Mapping[str, Any]
) -> AgentConfig:
    """The configuration of these; ``fields`` are the others by their names.

    Raises:
        ConfigError: they contradict each other.
    """
    parts = (system, tools, hooks, *fields, *fields.values())
    for made in _NEWEST:
        if _is_same(made.parts, parts):
            return made.config
    config = AgentConfig(system, tools, hooks=hooks, **fields)
    _NEWEST[:] = [_Made(parts, config, None)]
    return config


def engine_of(program: Program, config: AgentConfig) -> CognitiveEngine:
    """The program's engine of this configuration; one of the program's own class is made anew for each session."""
    if program.engine is not LLMEngine:
        return program.engine(config)
    for made in _NEWEST:
        if made.config is config and made.engine is not None:
            return made.engine
    engine = LLMEngine(config)
    _NEWEST[:] = [made._replace(engine=engine) for made in _NEWEST if made.config is config] or _NEWEST
    return engine


def _is_same(one: object, other: object) -> bool:
    """Whether both make the same part. A list may have changed since, so it is never the same."""
    if type(one) is not type(other):
        return False
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if isinstance(one, PLAIN):
        return one == other
    return one is other and not isinstance(one, list | dict | set | bytearray)
