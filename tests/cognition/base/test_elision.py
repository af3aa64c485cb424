"""A text that is too long keeps both ends, with a note of what is missing between them."""

from __future__ import annotations

from hypothesis import example, given, strategies as st

from cognition.base.elision import elide


@example("00000", 0, 6, "")  # ends that would overlap
@given(st.text(max_size=60), st.integers(0, 40), st.integers(0, 40), st.text(max_size=9))
def test_both_ends_stay_and_the_note_counts_the_rest_unless_that_is_no_shorter(
    text: str, head: int, tail: int, words: str
) -> None:
    short = elide(text, head, tail, lambda left_out: f"{words}{left_out}")

    left_out = len(text) - head - tail
    if len(f"{words}{left_out}") >= left_out:
        assert short == text
    else:
        assert short == text[:head] + f"{words}{left_out}" + text[head + left_out :]


def test_a_single_character_is_left_out_if_nothing_takes_its_place() -> None:
    assert elide("abc", 1, 1, lambda _: "") == "ac"
    assert elide("abc", 1, 1, str) == "abc"
    assert elide("abc", 1, 2, lambda _: "") == "abc"
