"""What is asked of every library that is measured: the same turn, in the same words.

One turn is: the user asks, the model calls one tool, the tool returns, the model answers. The model is a function that
looks at the last message only, so what is measured is the library and not the model.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

TOOL = "multiply"
TOOL_TEXT = "Multiply two whole numbers."
ARGUMENTS = {"a": 17, "b": 23}
ARGUMENTS_JSON = '{"a": 17, "b": 23}'
RESULT = "391"
ANSWER = "17 * 23 is 391."


def question(number: int) -> str:
    """What the user says in a turn."""
    return f"What is 17 * 23? (question {number})"


class Peer(Protocol):
    """One library with one conversation.

    Each module has a function ``peer()`` that imports the library and makes one. ``turn`` and ``lengthen`` may be
    coroutines; both of one peer are, or neither.
    """

    def begin(self) -> None:
        """Start an empty conversation and forget the one before."""

    def turn(self, text: str) -> str | Awaitable[str]:
        """One whole turn; the answer. The conversation keeps all of its messages."""

    def lengthen(self, turns: int) -> Awaitable[None] | None:
        """Add so many copies of the latest turn to the conversation, with ids of their own, without taking them.

        A peer without this method is walked: every turn of its history is really taken.
        """

    def keep(self) -> object:
        """All that has to be kept of this conversation for another turn of it.

        Without this method: what the peer's attributes refer to.
        """
