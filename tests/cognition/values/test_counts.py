"""Token counts and shares: their limits, and the bound of a part of a counted text."""

from __future__ import annotations

from typing import Any

import pytest

from cognition import ConfigError, Section, TemplateCosts
from cognition.values.counts import MOST_TOKENS, PIECE, Tokens, most_of_part

NAMES = ("fixed", "user", "reply", "call", "result", "cut", "bare", "asking")


@pytest.mark.parametrize("name", NAMES)
def test_a_count_is_a_whole_number_from_none_to_the_most(name: str) -> None:
    """Both ends are counts."""
    costs: dict[str, Any] = dict.fromkeys(NAMES, 1)

    for count in (0, MOST_TOKENS):
        assert getattr(TemplateCosts(**{**costs, name: count}), name) == count
    for wrong in (-1, MOST_TOKENS + 1, True, 1.0, "1"):
        with pytest.raises(ConfigError) as caught:
            TemplateCosts(**{**costs, name: wrong})
        assert str(caught.value) == f"TemplateCosts.{name} must be a number of tokens, from 0 to {MOST_TOKENS}"


@pytest.mark.parametrize("name", ["share", "floor", "recency"])
def test_a_share_is_a_number_from_nothing_to_all(name: str) -> None:
    """Both ends are shares."""
    others: dict[str, Any] = {"share": 0.2}

    for share in (0.0, 0.5, 1.0):
        assert getattr(Section("memory", **{**others, name: share}), name) == share
    for wrong in (-0.1, 1.1, float("nan")):
        with pytest.raises(ConfigError) as caught:
            Section("memory", **{**others, name: wrong})
        assert str(caught.value) == f"Section.{name} must be from 0 to 1, not {wrong!r}"


ESCAPED: Tokens = (3, 5 * PIECE, PIECE, PIECE // 2)
"""A result of three pieces of ASCII. The template escapes the first: it has more tokens than bytes."""


@pytest.mark.parametrize(
    ("start", "end", "most"),
    [
        (0, 3 * PIECE, 5 * PIECE + PIECE + PIECE // 2),
        (0, PIECE, 5 * PIECE),
        (10, 20, 5 * PIECE),
        (PIECE, 2 * PIECE, PIECE),
        (PIECE, 2 * PIECE - 60, PIECE - 60),
        (PIECE + 60, 2 * PIECE, PIECE - 60),
        (2 * PIECE, 3 * PIECE, PIECE // 2),
        (2 * PIECE, 3 * PIECE - 10, PIECE // 2),
        (2 * PIECE + 60, 3 * PIECE, PIECE - 60),
        (PIECE - 1, PIECE + 1, 5 * PIECE + 1),
        (50, 50, 0),
        (60, 50, 0),
        (PIECE, PIECE, 0),
    ],
)
def test_a_part_has_at_most_the_tokens_of_its_pieces_and_of_its_bytes(start: int, end: int, most: int) -> None:
    """Pieces that it does not touch count nothing. A piece with more tokens than bytes counts whole, if touched."""
    assert most_of_part(ESCAPED, "a" * (3 * PIECE), start, end) == most


def test_no_part_of_an_empty_text_has_tokens() -> None:
    assert most_of_part((3, 0), "", 0, 0) == 0
