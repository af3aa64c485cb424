"""The engine under test and what the laws need to know of its configuration, looked up once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from cognition.config import AgentConfig
from cognition.context.window import fixed_size, prompt_budget
from cognition.errors import CodecError
from cognition.messages import AssistantMessage, Message, ToolCall
from cognition.policy import Rule
from cognition.state import AgentState
from cognition.testing.world import AnyEngine, Edge, World
from cognition.tools import ToolSpec


@frozen
class Problem:
    """What is wrong, and the steps that show it beyond those that led to where it was looked for."""

    text: str
    more: tuple[Edge, ...] = ()


UNREADABLE = (CodecError, TypeError, ValueError, KeyError, RecursionError)
"""What a value that can't be recorded raises on the way to JSON and back."""

Found = Problem | None
"""What every check gives: what is wrong, or None."""


@frozen(eq=False)
class Subject:
    """An engine with its configuration. Laws that need one are checked as far as it goes when there is none."""

    engine: AnyEngine
    config: AgentConfig | None = None
    """The engine's attribute ``config``, if it is an ``AgentConfig``."""
    tools: Mapping[str, ToolSpec] = {}
    """All that the model is told of, by name: the program's and those of the features."""
    fixed: float = 0.0
    """Estimated tokens of what stands before the messages."""
    budget: int = 0
    """Tokens that a prompt may have."""
    start: Any = AgentState()
    """The state in which a session begins."""

    @classmethod
    def of(cls, engine: AnyEngine, start: Any = None) -> Subject:
        """``start``: the state in which a session begins; without it, ``AgentState()``."""
        start, config = AgentState() if start is None else start, getattr(engine, "config", None)
        if not isinstance(config, AgentConfig):
            return cls(engine, start=start)
        tools = {tool.name: tool for tool in config.offered}
        return cls(engine, config, tools, fixed_size(config), prompt_budget(config), start)

    @property
    def beginning(self) -> World:
        """A session before anything has happened."""
        return World(self.start)

    def stricter(self, rule: Rule) -> Subject | None:
        """The same engine with one rule more; None if its class can't be built from a configuration alone."""
        if self.config is None:
            return None
        policy = evolve(self.config.policy, rules=(*self.config.policy.rules, rule))
        config = evolve(self.config, policy=policy)
        try:
            engine = type(self.engine)(config)  # type: ignore[call-arg]  # tried, and its result is looked at
        except Exception:  # a constructor of the user's, which may want anything
            return None
        return Subject.of(engine, self.start) if getattr(engine, "config", None) == config else None


def batch_of(messages: Sequence[Message], call: ToolCall) -> tuple[ToolCall, ...]:
    """The calls of the newest reply in which a call of this id stands; empty if none does."""
    for position in range(len(messages) - 1, -1, -1):
        message = messages[position]
        if isinstance(message, AssistantMessage) and any(other.id == call.id for other in message.calls):
            return message.calls
    return ()
