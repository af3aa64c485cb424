"""Notes in place of omitted text: their words and their tokens."""

from __future__ import annotations

import pytest

from cognition.context.cut_note import CutNote
from cognition.values.messages import ToolMessage

RESULT = ToolMessage("m", "call-1-2-3", "read", "x" * 100)


@pytest.mark.parametrize(
    ("note", "how"),
    [
        (CutNote(), ""),
        (CutNote("ReadOutput"), '; ReadOutput(call="call-1-2-3") reads them'),
        (CutNote("ReadOutput", frozenset({"recall"})), '; ReadOutput(call="call-1-2-3") reads them'),
        (CutNote("ReadOutput", frozenset({"read"})), ""),
        (CutNote("", frozenset({"recall"})), ""),
    ],
)
def test_a_note_says_how_the_rest_is_read_where_a_tool_can_read_it(note: CutNote, how: str) -> None:
    assert note.again("read", "call-1-2-3") == how
    assert note.of(RESULT, 42) == f"\n[... 42 characters of this result are left out here for want of room{how} ...]\n"


@pytest.mark.parametrize(("note", "tokens"), [(CutNote(user=5), ()), (CutNote(tokens=30, user=5), (5 + 89,))])
def test_a_note_on_omitted_steps_has_a_token_a_byte_where_tokens_are_counted(
    note: CutNote, tokens: tuple[int, ...]
) -> None:
    said = "[... 12 messages of this turn, its earlier steps, are left out here for want of room ...]"

    assert note.skipping(12) == tokens
    assert len(said) == 89


def test_the_longest_note_has_a_large_number_and_a_long_call() -> None:
    """Its length is a promise: results are measured with it before their own number and call are known."""
    assert CutNote("ReadOutput").longest == (
        "\n[... 10000000 characters of this result are left out here for want of room"
        '; ReadOutput(call="call-99999-999-99") reads them ...]\n'
    )
