"""A cache of the configuration and engine, for sessions that start with the same options.

A server starts thousands of sessions with equal options, and these two parts take a third of a session's start. Both
are immutable. Only the newest pair is cached.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from cognition import AgentConfig, CognitiveEngine, LLMEngine, ToolSpec
from cognition.values.features import HookPoint
from interpreters.loop.program.program import Program

PLAIN = (str, int, bool, type(None))
"""Types compared by value; all other objects are equal only if identical."""


class _Made(NamedTuple):
    parts: tuple[object, ...]
    config: AgentConfig
    engine: LLMEngine | None


_NEWEST: list[_Made] = []
"""At most one entry. It is replaced in a single operation, since sessions start on any thread."""


def config_of(
    system: str, tools: tuple[ToolSpec, ...], hooks: tuple[HookPoint, ...], fields: Mapping[str, Any]
) -> AgentConfig:
    """Return the configuration for these values; ``fields`` contains its other fields by name.

    Raises:
        ConfigError: the values contradict each other.
    """
    parts = (system, tools, hooks, *fields, *fields.values())
    for made in _NEWEST:
        if _is_same(made.parts, parts):
            return made.config
    config = AgentConfig(system, tools, hooks=hooks, **fields)
    _NEWEST[:] = [_Made(parts, config, None)]
    return config


def engine_of(program: Program, config: AgentConfig) -> CognitiveEngine:
    """Return the program's engine for this configuration. A custom engine class is not cached."""
    if program.engine is not LLMEngine:
        return program.engine(config)
    for made in _NEWEST:
        if made.config is config and made.engine is not None:
            return made.engine
    engine = LLMEngine(config)
    _NEWEST[:] = [made._replace(engine=engine) for made in _NEWEST if made.config is config] or _NEWEST
    return engine


def _is_same(one: object, other: object) -> bool:
    """Whether two cache keys are equal. Mutable containers never are: they may have changed since."""
    if type(one) is not type(other):
        return False
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if isinstance(one, PLAIN):
        return one == other
    return one is other and not isinstance(one, list | dict | set | bytearray)
