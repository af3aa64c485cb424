"""Show memory notes found before a turn as a message, within the memory's share of the prompt."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from attrs import frozen

from cognition.context.token_counts import notes_tokens
from cognition.context.window import CHARS_PER_TOKEN, MESSAGE_TOKENS, ends_of, shorten
from cognition.values.candidates import DEFAULT_SECTIONS, Section
from cognition.values.counts import EDGE, TemplateCosts, Tokens, most_of_part, most_tokens, valid_tokens

FROM_NOTES = "From your notes:\n"
LEFT_OUT = "\n[... {} more notes were found, and are left out here for want of room ...]"
NONE_SHOWN = "[... {} notes were found, and are left out here for want of room ...]"
LEAST_NOTE = 200
"""The least useful number of characters of the best note, if it does not fit whole."""
MEMORY = "memory"
"""The section with the memory's share, from the agent's sections or else the default sections."""

NotesText = tuple[str, Tokens]
"""A text, and its tokens as in ``UserMessage``."""


def share_of_memory(sections: Sequence[Section]) -> float:
    """Return the memory's share of a prompt's room, from 0 to 1."""
    return next(section.share for section in (*sections, *DEFAULT_SECTIONS) if section.name == MEMORY)


def fit_notes(notes: Sequence[str], tokens: Tokens, costs: TemplateCosts | None, room: float) -> NotesText | None:
    """Return the notes that fit as one text, best first, or else the beginning and the end of the best note.

    The text ends with the number of omitted notes.

    Args:
        notes: the notes found, at least one.
        tokens: as in ``MemoryRecalled``.
        costs: the template's costs; None if sizes are estimated.
        room: the message's room in unscaled tokens.

    Returns:
        None if nothing fits.
    """
    found = _JoinedNotes("\n".join(notes), tokens if valid_tokens(tokens) else (), costs)
    whole = FROM_NOTES + found.text, notes_tokens(costs, tokens, FROM_NOTES)
    if found.size(whole) <= room:
        return whole
    ends = [-1]
    for note in notes[:-1]:
        ends.append(ends[-1] + 1 + len(note))

    def first(many: int) -> NotesText:
        return found.excerpt(ends[many], 0, LEFT_OUT.format(len(notes) - many))

    many = bisect_right(range(1, len(notes)), room, key=lambda many: found.size(first(many)))
    if many:
        return first(many)
    best = _fit_best_note(found, notes, room)
    if best is not None:
        return best
    nothing = found.excerpt(0, 0, NONE_SHOWN.format(len(notes)), before="")
    return nothing if found.size(nothing) <= room else None


def _fit_best_note(found: _JoinedNotes, notes: Sequence[str], room: float) -> NotesText | None:
    """Return the best note without its middle; None if too little of it would be left."""
    length = limit = len(notes[0])
    more = LEFT_OUT.format(len(notes) - 1) if len(notes) > 1 else ""
    while limit >= LEAST_NOTE:
        limit = limit * 9 // 10
        short = shorten(notes[0], limit)
        head, tail = ends_of(limit)
        told = found.excerpt(head, length - tail, short[head : len(short) - tail], more, until=length)
        if len(short) < length and found.size(told) <= room:
            return told
    return None


@frozen
class _JoinedNotes:
    """The notes as one text, for taking parts of it."""

    text: str
    tokens: Tokens
    costs: TemplateCosts | None

    def excerpt(
        self, end: int, again: int, between: str, behind: str = "", *, until: int = 0, before: str = FROM_NOTES
    ) -> NotesText:
        """Return the text up to ``end``, ``between``, the text from ``again`` to ``until``, and ``behind``."""
        text = f"{before}{self.text[:end]}{between}{self.text[again:until]}{behind}"
        if self.costs is None:
            return text, ()
        most = most_tokens(text)
        if self.tokens:
            parts = most_of_part(self.tokens, self.text, 0, end) + most_of_part(self.tokens, self.text, again, until)
            most = min(most, len(before) + len(between) + len(behind) + parts + 2 * EDGE)
        return text, (self.costs.user + most,)

    def size(self, told: NotesText) -> float:
        text, tokens = told
        if tokens:
            return sum(tokens)
        if self.costs is not None:
            return self.costs.user + most_tokens(text)
        return len(text) / CHARS_PER_TOKEN + MESSAGE_TOKENS
