"""A request to a model: plain values, no rendering."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from cognition.parsing.text_protocol import TextProtocol
from cognition.steps.config import GenerationOptions
from cognition.values.history import History
from cognition.values.tools import ToolSpec

Purpose = Literal["answer", "repair", "final_answer", "summary"]
"""Why the model is called: to continue, to repair an unreadable reply, to answer without tools at a limit, or to
summarise older messages.
"""


@frozen
class ModelRequest:
    """One model call."""

    system: str
    messages: History
    tools: tuple[ToolSpec, ...]
    options: GenerationOptions
    protocol: TextProtocol = "native"
    """Unless native, the messages' text contains the calls, and results must be rendered as user text."""
