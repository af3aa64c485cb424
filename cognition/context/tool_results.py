"""Prepare a result for history: limited in length, with its tokens if they are counted."""

from __future__ import annotations

from cognition.context.token_counts import Kept, kept, shortened_to, with_note
from cognition.context.window import ends_of, shorten
from cognition.values.counts import TemplateCosts, Tokens
from cognition.values.messages import ToolResult


def kept_result(
    result: ToolResult, costs: TemplateCosts | None, own: int | None, limit: int, note: str, again: str, name: str = ""
) -> tuple[str, Tokens]:
    """Return the text of a result for history, and its tokens; without ``costs`` no tokens.

    Args:
        result: the call's result.
        costs: the template's costs, for counting.
        own: the tool's own limit in characters; it does not apply to the program's note.
        limit: the most characters of any result.
        note: the program's note, put after the text.
        again: how to read omitted text, from ``CutNote.again``.
        name: the tool's name.
    """
    if costs is None:
        text = result.content if own is None else shorten(result.content, own, again)
        return shorten(f"{text}\n{note}" if note else text, limit, again), ()
    whole = kept(result.content, result.tokens, costs, name)
    if own is not None:
        whole = _cut(whole, own, again)
    whole = _cut(with_note(whole, note) if note else whole, limit, again)
    return whole.text, whole.tokens


def _cut(whole: Kept, limit: int, again: str) -> Kept:
    text = shorten(whole.text, limit, again)
    return whole if len(text) == len(whole.text) else shortened_to(whole, text, *ends_of(limit))
