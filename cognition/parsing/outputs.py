"""What the parser gives while it reads a reply.

Deltas come as the text comes: joined in order they give the same, however the reply was cut into chunks. A call is
announced by ``CallStarted`` once its name is known and closed by exactly one ``CallFinished`` or ``CallMalformed``;
only what closes it is to be acted on. A call whose name never came is closed without having been announced.
"""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

from cognition.messages import MalformedToolCall, ProposedCall


@frozen
class TextDelta:
    """More of the text that the user sees. Never empty, never holds a marker."""

    tag: ClassVar[str] = "text_delta"
    text: str


@frozen
class ReasoningDelta:
    """More of what the model thinks before it answers. Never empty, never holds a marker."""

    tag: ClassVar[str] = "reasoning_delta"
    text: str


@frozen
class CallStarted:
    """A call of this name is being written. ``index`` counts the calls of a reply from 0, in order."""

    tag: ClassVar[str] = "call_started"
    index: int
    name: str


@frozen
class ArgumentsDelta:
    """More of a call's arguments, as the model writes them: JSON where the format writes JSON, else tagged text.

    For showing only: until the call is finished nobody has checked them.
    """

    tag: ClassVar[str] = "arguments_delta"
    index: int
    text: str


@frozen
class CallFinished:
    """A call that can be read."""

    tag: ClassVar[str] = "call_finished"
    index: int
    call: ProposedCall
    terminated: bool = True
    """False when the reply broke off before the call's end marker, though the call itself is complete."""


@frozen
class CallMalformed:
    """Something meant as a call that can't be read."""

    tag: ClassVar[str] = "call_malformed"
    index: int
    malformed: MalformedToolCall


Output = TextDelta | ReasoningDelta | CallStarted | ArgumentsDelta | CallFinished | CallMalformed
