"""Notes that replace omitted text of a result, and explain how to read it again."""

from __future__ import annotations

from attrs import frozen

from cognition.steps.config import AgentConfig
from cognition.steps.vocabulary import engine_tools
from cognition.values.counts import Tokens, most_tokens
from cognition.values.messages import ToolMessage

SKIPPED = "[... {} messages of this turn, its earlier steps, are left out here for want of room ...]"
"""Replaces omitted steps; the field is the number of messages."""
CUT = "\n[... {} characters of this result are left out here for want of room{} ...]\n"
"""The fields are the number of characters, and how to read them again (``CutNote.again``)."""
LONGEST_CALL = "call-99999-999-99"
"""A call id longer than those of most sessions, for measuring a note."""


@frozen
class CutNote:
    """The note in a result with omitted text."""

    reader: str = ""
    """The tool with ``ToolSpec.rereads``, which reads a result again by its call's id; may be empty."""
    unread: frozenset[str] = frozenset()
    """Tools with results that it can't read: those that the engine itself executes."""
    tokens: int = 0
    """An upper bound of a note's tokens; 0 if tokens are not counted."""
    user: int = 0
    """Tokens around a note that is a separate message."""
    skipped: int = 0
    """Tokens of the note on omitted messages; 0 if not counted."""
    reply: int = 0
    """Tokens around a reply."""
    call: int = 0
    """Tokens around a call in it."""
    arguments: bool = False
    """Whether arguments of calls are shortened like results, as in sessions since edition 2."""

    def again(self, name: str, call_id: str) -> str:
        """Return how to read the whole result of a call of the tool ``name``, for use in a note."""
        return f'; {self.reader}(call="{call_id}") reads them' if self.reader and name not in self.unread else ""

    def of(self, result: ToolMessage, left_out: int) -> str:
        """Return the note in a shortened result."""
        return CUT.format(left_out, self.again(result.name, result.call_id))

    def skipping(self, messages: int) -> Tokens:
        """Return the tokens of the note on omitted messages, as in ``UserMessage``."""
        return (self.user + (self.skipped or most_tokens(SKIPPED.format(messages))),) if self.tokens else ()

    @property
    def longest(self) -> str:
        """A note of the greatest length, for measuring."""
        return CUT.format(10**7, self.again("", LONGEST_CALL))


PLAIN = CutNote()


def note_for(config: AgentConfig) -> CutNote:
    """Return the note in the results of an agent, without sizes."""
    reader = next((tool.name for tool in config.tools if tool.rereads), "")
    unread = [tool.name for tool in engine_tools(config.features, config.names)] if reader else []
    return CutNote(reader, frozenset(unread), arguments=config.edition != 1)
