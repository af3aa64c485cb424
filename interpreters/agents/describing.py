"""What an agent says of itself."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from runtime.constrained.nodes import Weakened
from runtime.protocol import ModelInfo


@frozen
class AgentInfo:
    """What an agent is made of."""

    session: str
    model: ModelInfo
    tools: tuple[str, ...]
    """The names of all that the model is offered, those of features too."""
    weakened: Mapping[str, tuple[Weakened, ...]]
    """Of each tool whose calls are not held to all of its schema: what is left to the check after the call."""
