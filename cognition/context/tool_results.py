"""Prepare a result for history: limited in length, with its tokens if they are counted."""

from __future__ import annotations

from attrs import frozen

from cognition.context.token_counts import CountedText, append_note, count_result, count_shortened
from cognition.context.window import ends_of, shorten
from cognition.values.counts import TemplateCosts, Tokens
from cognition.values.messages import ToolResult

EDITED_NOTE = "The user changed the arguments of this call to {arguments}"
"""Put behind a result."""


@frozen
class HistoryResult:
    """A result as history keeps it. The fields are those of ``ToolMessage``."""

    content: str
    tokens: Tokens = ()
    left_out: int = 0


def prepare_result(
    result: ToolResult, costs: TemplateCosts | None, own: int | None, limit: int, note: str, again: str, name: str = ""
) -> HistoryResult:
    """Return a result for history.

    Args:
        result: the call's result.
        costs: the template's costs, for counting; without them no tokens.
        own: the tool's own limit in characters; it does not apply to the program's note.
        limit: the most characters of any result.
        note: the program's note, put after the text.
        again: how to read omitted text, from ``CutNote.again``.
        name: the tool's name.
    """
    content = result.content
    if costs is None and not note and len(content) <= (limit if own is None else min(own, limit)):
        return HistoryResult(content)
    whole = CountedText(content, ()) if costs is None else count_result(content, result.tokens, costs, name)
    own_ends, cut = _cut_result(whole, own, again)
    noted = append_note(cut, note) if note else cut
    ends, last = _cut_result(noted, limit, again)
    left_out = len(content) - sum(own_ends)
    if last is not noted:
        omitted = ends[0], len(noted.text) - ends[1]
        end = len(cut.text)
        left_out += _overlap(omitted, (0, own_ends[0])) + _overlap(omitted, (end - own_ends[1], end))
    return HistoryResult(last.text, last.tokens, left_out)


def _cut_result(whole: CountedText, limit: int | None, again: str) -> tuple[tuple[int, int], CountedText]:
    """Return how many characters remain at the beginning and at the end, and the text with its tokens."""
    text = whole.text if limit is None else shorten(whole.text, limit, again)
    if limit is None or len(text) == len(whole.text):
        return (len(text), 0), whole
    ends = ends_of(limit)
    return ends, count_shortened(whole, text, *ends)


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> int:
    return len(range(max(one[0], other[0]), min(one[1], other[1])))
