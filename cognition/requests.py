"""What the engine asks of a model: plain values, no rendering."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from cognition.config import GenerationOptions
from cognition.history import History
from cognition.text_protocol import TextProtocol
from cognition.tools import ToolSpec

Purpose = Literal["answer", "repair", "final_answer", "summary"]
"""Why the model is called: to go on, to mend an unreadable reply, to answer without tools at a limit, or to summarise
what came before."""


@frozen
class ModelRequest:
    """One model call."""

    system: str
    messages: History
    tools: tuple[ToolSpec, ...]
    options: GenerationOptions
    protocol: TextProtocol = "native"
    """Unless native, calls stand in the messages' text, and results are to be shown as text of the user."""
