"""The outputs of the parser.

Deltas arrive with the text. Joined in order they give the same text for any chunking of the reply. ``CallStarted``
announces a call once its name is known, and exactly one ``CallFinished`` or ``CallMalformed`` closes it. Act only on
the closing output. A call whose name never came is closed without an announcement.
"""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

from cognition.values.messages import MalformedToolCall, ProposedCall


@frozen
class TextDelta:
    """More of the text that the user sees. Never empty, never contains a marker."""

    tag: ClassVar[str] = "text_delta"
    text: str


@frozen
class ReasoningDelta:
    """More of the model's reasoning before its answer. Never empty, never contains a marker."""

    tag: ClassVar[str] = "reasoning_delta"
    text: str


@frozen
class CallStarted:
    """The model is writing a call of this tool. ``index`` counts the calls of a reply from 0, in order."""

    tag: ClassVar[str] = "call_started"
    index: int
    name: str


@frozen
class ArgumentsDelta:
    """More of a call's arguments, as the model writes them: JSON if the format writes JSON, else tagged text.

    For display only: they are unchecked until the call is finished.
    """

    tag: ClassVar[str] = "arguments_delta"
    index: int
    text: str


@frozen
class CallFinished:
    """A readable call."""

    tag: ClassVar[str] = "call_finished"
    index: int
    call: ProposedCall
    terminated: bool = True
    """False if the reply ended before the call's end marker, though the call is complete."""


@frozen
class CallMalformed:
    """Text intended as a call that can't be read."""

    tag: ClassVar[str] = "call_malformed"
    index: int
    malformed: MalformedToolCall


Output = TextDelta | ReasoningDelta | CallStarted | ArgumentsDelta | CallFinished | CallMalformed
