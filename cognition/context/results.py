"""A result as it is kept in history: as long as it may be, with its tokens where they are counted."""

from __future__ import annotations

from cognition.context.counting import Kept, kept, shortened_to, with_note
from cognition.context.window import ends_of, shorten
from cognition.counts import TemplateCosts, Tokens
from cognition.messages import ToolResult


def kept_result(
    result: ToolResult, costs: TemplateCosts | None, own: int | None, limit: int, note: str, again: str, name: str = ""
) -> tuple[str, Tokens]:
    """The text of a result in history, and its tokens; without ``costs`` none.

    Args:
        result: what the call gave.
        costs: by which tokens are counted.
        own: the tool's own limit in characters, which leaves the program's note whole.
        limit: the most characters of any result.
        note: the program's, which is put behind the text.
        again: how to read what is left out, as ``CutNote.again`` words it.
        name: of the tool.
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
