"""What stands in the place of what is left out of a result, and says how to read it again."""

from __future__ import annotations

from attrs import frozen

from cognition.counts import Tokens, most_tokens
from cognition.messages import ToolMessage

SKIPPED = "[... {} messages of this turn, its earlier steps, are left out here for want of room ...]"
"""In the place of steps that are left out: how many messages."""
CUT = "\n[... {} characters of this result are left out here for want of room{} ...]\n"
"""How many, and how to read them again, as ``CutNote.again`` words it."""
LONGEST_CALL = "call-99999-999-99"
"""The id of a call that is longer than those of most sessions, for a note that is to be measured."""


@frozen
class CutNote:
    """How it is told in a result that some of it is left out."""

    reader: str = ""
    """The tool with ``ToolSpec.rereads``, which reads a result again by its call's id; empty without one."""
    unread: frozenset[str] = frozenset()
    """Tools whose results it doesn't read: those that the engine carries out itself."""
    tokens: int = 0
    """The most tokens that a note has, where they are counted; 0: they are not."""
    user: int = 0
    """Those that stand around a note which is a message of its own."""

    def again(self, name: str, call_id: str) -> str:
        """How to read the whole result of a call of the tool ``name``, to be put into a note."""
        return f'; {self.reader}(call="{call_id}") reads them' if self.reader and name not in self.unread else ""

    def of(self, result: ToolMessage, left_out: int) -> str:
        """The note in a result that a request shows shortened."""
        return CUT.format(left_out, self.again(result.name, result.call_id))

    def skipping(self, messages: int) -> Tokens:
        """The tokens of the note on so many messages that are left out, as in ``UserMessage``."""
        return (self.user + most_tokens(SKIPPED.format(messages)),) if self.tokens else ()

    @property
    def longest(self) -> str:
        """A note as long as they get, for measuring."""
        return CUT.format(10**7, self.again("", LONGEST_CALL))


PLAIN = CutNote()
