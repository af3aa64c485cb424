"""What a search of the memory found before a turn, as a message: as much of it as its share of the prompt takes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from attrs import frozen

from cognition.candidates import DEFAULT_SECTIONS, Section
from cognition.context.counting import notes_tokens
from cognition.context.window import CHARS_PER_TOKEN, MESSAGE_TOKENS, ends_of, shorten
from cognition.counts import EDGE, TemplateCosts, Tokens, believed, most_of_part, most_tokens

FROM_NOTES = "From your notes:\n"
LEFT_OUT = "\n[... {} more notes were found, and are left out here for want of room ...]"
NONE_SHOWN = "[... {} notes were found, and are left out here for want of room ...]"
LEAST_NOTE = 200
"""Characters of the best note that are still of use, where there is no room for all of it."""
MEMORY = "memory"
"""The section whose share this is, of those that an agent has or else of the usual ones."""

Told = tuple[str, Tokens]
"""A text, and its tokens as in ``UserMessage``."""


def share_of_memory(sections: Sequence[Section]) -> float:
    """The share of a prompt's room that the memory may have, from 0 to 1."""
    return next(section.share for section in (*sections, *DEFAULT_SECTIONS) if section.name == MEMORY)


def recalled(notes: Sequence[str], tokens: Tokens, costs: TemplateCosts | None, room: float) -> Told | None:
    """The notes as one text, best first: those that find room, or else the beginning and the end of the best one, with
    the number of those that are left out.

    Args:
        notes: what was found, at least one.
        tokens: as in ``MemoryRecalled``.
        costs: by which tokens are counted; None where they are estimated.
        room: the unscaled tokens that the message may have.

    Returns:
        None where there is no room for anything.
    """
    found = _Found("\n".join(notes), tokens if believed(tokens) else (), costs)
    whole = FROM_NOTES + found.text, notes_tokens(costs, tokens, FROM_NOTES)
    if found.size(whole) <= room:
        return whole
    ends = [-1]
    for note in notes[:-1]:
        ends.append(ends[-1] + 1 + len(note))

    def first(many: int) -> Told:
        return found.told(ends[many], 0, LEFT_OUT.format(len(notes) - many))

    many = bisect_right(range(1, len(notes)), room, key=lambda many: found.size(first(many)))
    if many:
        return first(many)
    best = _best(found, notes, room)
    if best is not None:
        return best
    nothing = found.told(0, 0, NONE_SHOWN.format(len(notes)), before="")
    return nothing if found.size(nothing) <= room else None


def _best(found: _Found, notes: Sequence[str], room: float) -> Told | None:
    """The best note without its middle; None where less of it than is of use would be left."""
    length = limit = len(notes[0])
    more = LEFT_OUT.format(len(notes) - 1) if len(notes) > 1 else ""
    while limit >= LEAST_NOTE:
        limit = limit * 9 // 10
        short = shorten(notes[0], limit)
        head, tail = ends_of(limit)
        told = found.told(head, length - tail, short[head : len(short) - tail], more, until=length)
        if len(short) < length and found.size(told) <= room:
            return told
    return None


@frozen
class _Found:
    """The notes as one text, of which parts are told."""

    text: str
    tokens: Tokens
    costs: TemplateCosts | None

    def told(
        self, end: int, again: int, between: str, behind: str = "", *, until: int = 0, before: str = FROM_NOTES
    ) -> Told:
        """The text up to ``end``, words of ours, what stands from ``again`` to ``until``, and more words of ours."""
        text = f"{before}{self.text[:end]}{between}{self.text[again:until]}{behind}"
        if self.costs is None:
            return text, ()
        most = most_tokens(text)
        if self.tokens:
            parts = most_of_part(self.tokens, self.text, 0, end) + most_of_part(self.tokens, self.text, again, until)
            most = min(most, len(before) + len(between) + len(behind) + parts + 2 * EDGE)
        return text, (self.costs.user + most,)

    def size(self, told: Told) -> float:
        """The unscaled tokens of a message with this text."""
        text, tokens = told
        if tokens:
            return sum(tokens)
        if self.costs is not None:
            return self.costs.user + most_tokens(text)
        return len(text) / CHARS_PER_TOKEN + MESSAGE_TOKENS
