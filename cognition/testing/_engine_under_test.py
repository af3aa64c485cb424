"""The engine under test and the parts of its configuration that the laws need, computed once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from cognition.base.errors import CodecError
from cognition.context.window import fixed_size, prompt_budget
from cognition.policy import Rule
from cognition.steps.config import AgentConfig
from cognition.steps.state import AgentState
from cognition.testing._world import AnyEngine, Edge, World
from cognition.values.messages import AssistantMessage, Message, ToolCall
from cognition.values.tools import ToolSpec


@frozen
class Problem:
    """A problem, and the further steps that show it, beyond those that led to the check."""

    text: str
    more: tuple[Edge, ...] = ()


UNREADABLE = (CodecError, TypeError, ValueError, KeyError, RecursionError)
"""Exceptions raised by encoding or decoding a value that JSON can't represent."""

Found = Problem | None
"""The result of every check: a problem or None."""


@frozen(eq=False)
class EngineUnderTest:
    """An engine with its configuration. Without one, laws that need it check less."""

    engine: AnyEngine
    config: AgentConfig | None = None
    """The engine's attribute ``config``, if it is an ``AgentConfig``."""
    tools: Mapping[str, ToolSpec] = {}
    """All tools offered to the model, by name: the program's and those of the features."""
    fixed: float = 0.0
    """Estimated tokens of the prompt before the messages."""
    budget: int = 0
    """Tokens that a prompt may have."""
    start: Any = AgentState()

    @classmethod
    def of(cls, engine: AnyEngine, start: Any = None) -> EngineUnderTest:
        """Create a subject. ``start``: the initial state of a session; default ``AgentState()``."""
        start, config = AgentState() if start is None else start, getattr(engine, "config", None)
        if not isinstance(config, AgentConfig):
            return cls(engine, start=start)
        tools = {tool.name: tool for tool in config.offered}
        return cls(engine, config, tools, fixed_size(config), prompt_budget(config), start)

    @property
    def beginning(self) -> World:
        """The initial world of a session."""
        return World(self.start)

    def stricter(self, rule: Rule) -> EngineUnderTest | None:
        """Return the same engine with one more rule; None if its class can't be built from a configuration alone."""
        if self.config is None:
            return None
        policy = evolve(self.config.policy, rules=(*self.config.policy.rules, rule))
        return self.configured(evolve(self.config, policy=policy))

    def limited(self, **limits: int | None) -> EngineUnderTest | None:
        """Return the same engine with other limits; None as for ``stricter``."""
        if self.config is None:
            return None
        changed = evolve(self.config.limits, **limits)  # type: ignore[arg-type]  # names of limits
        return self.configured(evolve(self.config, limits=changed))

    def configured(self, config: AgentConfig) -> EngineUnderTest | None:
        """Return an engine of the same class; None if it can't be built from a configuration alone."""
        try:
            engine = type(self.engine)(config)  # type: ignore[call-arg]  # tried, and its result is looked at
        except Exception:  # a constructor of the user's, which may want anything
            return None
        return EngineUnderTest.of(engine, self.start) if getattr(engine, "config", None) == config else None


def batch_of(messages: Sequence[Message], call: ToolCall) -> tuple[ToolCall, ...]:
    """Return the calls of the newest reply that contains a call of this id; empty if no reply does."""
    for message in reversed(messages):
        if isinstance(message, AssistantMessage) and any(other.id == call.id for other in message.calls):
            return message.calls
    return ()
