"""Formats are data: they print, go through JSON, refuse what makes no sense; and the tables made of them are whole."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given, strategies as st

from cognition import ConfigError, from_data, to_data
from cognition.parsing import FORMATS, CallFormat, FormatSpec, ParameterMarkers
from cognition.parsing._plan import MOVES, Meaning, Move
from cognition.parsing.markers import Markers
from cognition.parsing.rope import Rope, append_text, join_pieces, length
from cognition.parsing.state import BehindCall, InHeader, ParserPhase

PARAMETERS = ParameterMarkers("<k>", "</k>", "<v>", "</v>")


@pytest.mark.parametrize("spec", FORMATS.values(), ids=list(FORMATS))
def test_a_format_goes_through_json_and_back(spec: FormatSpec) -> None:
    """A format is plain data, and equal to what comes back."""
    assert spec == from_data(json.loads(json.dumps(to_data(spec))), FormatSpec)
    assert hash(spec) == hash(from_data(to_data(spec), FormatSpec))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CallFormat("tagged_parameters", start="<c>", end="</c>"), "needs the markers of a parameter"),
        (lambda: CallFormat("tagged_parameters", start="<c>", parameters=PARAMETERS), "before and after each call"),
        (lambda: CallFormat("named_json", start="<c>"), "before and after the name"),
        (lambda: CallFormat("pythonic", start="<c>"), "before and after it"),
        (lambda: CallFormat("named_object", start="<c>", end="</c>", quotes=("",)), "around strings"),
        (lambda: CallFormat("json_object", start="<c>", more_starts=("",)), "must not be empty"),
        (lambda: CallFormat("json_object", section_end="</s>"), "has to start"),
        (lambda: FormatSpec("x", stops=("",)), "must not be empty"),
        (lambda: FormatSpec("x", dropped=("a", "")), "must not be empty"),
        (lambda: FormatSpec("x", answers=("a",)), "has to be one of those dropped"),
        (lambda: CallFormat("nested_tags", start="<c>", end="</c>"), "needs the markers of a parameter"),
        (lambda: CallFormat("pythonic", end="</c>"), "before and after it"),
    ],
)
def test_a_format_that_makes_no_sense_is_refused(make: object, message: str) -> None:
    """The error says what the format lacks."""
    with pytest.raises(ConfigError, match=message):
        make()  # type: ignore[operator]


def test_each_phase_says_what_each_marker_does() -> None:
    """The table has a row for each phase and in it a cell for each meaning, and knows no other moves.

    ``BehindCall`` ends before any marker is looked for.
    """
    assert set(get_args(ParserPhase)) - {BehindCall, InHeader} == set(MOVES)
    for row in MOVES.values():
        assert list(get_args(Meaning)) == list(row)
        assert set(row.values()) <= set(get_args(Move))


@given(
    st.lists(st.text("ab<>", min_size=1, max_size=4), max_size=4),
    st.text("ab<>", max_size=12),
    st.integers(0, 12),
    st.booleans(),
)
def test_the_leftmost_longest_marker_is_found_and_no_more_held_than_needed(
    texts: list[str], text: str, start: int, final: bool
) -> None:
    """The search agrees with looking at each place in turn."""
    start = min(start, len(text))
    expected = (len(text), "")
    for place in range(start, len(text)):
        rest = text[place:]
        if not final and any(marker != rest and marker.startswith(rest) for marker in texts):
            expected = (place, "")
            break
        found = max((marker for marker in texts if rest.startswith(marker)), key=len, default="")
        if found:
            expected = (place, found)
            break

    assert expected == Markers(texts).next(text, start, final)


@given(st.lists(st.text(max_size=9)))
def test_a_rope_is_the_text_that_was_added_in_few_pieces(chunks: list[str]) -> None:
    """Nothing is lost, and each piece is longer than the next."""
    rope: Rope = ()
    for chunk in chunks:
        rope = append_text(rope, chunk)

    assert "".join(chunks) == join_pieces(rope)
    assert len("".join(chunks)) == length(rope)
    assert all(len(first) > len(second) for first, second in pairwise(rope))


def test_a_rope_copies_each_character_a_few_times() -> None:
    """100,000 chunks are joined at no more than log2(100,000) copies of each, not at 50,000."""
    copied = 0
    rope: Rope = ()
    for _ in range(100_000):
        before = rope
        rope = append_text(rope, "word")
        copied += length(rope) - length(before[: len(rope) - 1])

    assert copied <= 4 * 100_000 * 18
    assert len(rope) <= 18
