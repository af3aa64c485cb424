"""Guesses from the context: what followed the last time."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, strategies as st

from runtime.local._running_reply import FIRST, LONGEST_PAUSE, LOOKED_UP, MOST, PromptLookup

TOKENS = st.lists(st.integers(0, 1), max_size=60) | st.lists(
    st.sampled_from([[1, 2, 3], [256, 65536], [151_643]]), max_size=20
).map(lambda rows: [token for row in rows for token in row])
"""Few ones, so that much comes again; of several bytes, so that a search by bytes could go wrong."""

LAST = list(range(LOOKED_UP))
"""As many as are looked for."""


def expected(tokens: list[int], size: int) -> list[int]:
    """The slow way."""
    last = tokens[-LOOKED_UP:]
    for start in range(len(tokens) - LOOKED_UP - 1, -1, -1):
        if tokens[start : start + LOOKED_UP] == last:
            longer = list(tokens)
            for place in range(start + LOOKED_UP, start + LOOKED_UP + size):
                longer.append(longer[place])
            return longer[len(tokens) :]
    return []


@given(TOKENS, TOKENS)
def test_it_guesses_what_followed_last_time(prompt: list[int], reply: list[int]) -> None:
    """The latest of several times; and round again where that goes up to here."""
    lookup = PromptLookup(prompt)
    for place, token in enumerate(reply):
        assert list(lookup.guess()) == expected(prompt + reply[:place], FIRST)
        lookup.append([token], 0)
    assert list(lookup.guess()) == expected(prompt + reply, FIRST)


def test_what_comes_true_is_trusted_further() -> None:
    """Twice as far each time, up to a bound; as far as it held and one more where it did not."""
    lookup = PromptLookup([*range(100), *LAST])
    sizes, start = [], LOOKED_UP
    for _ in range(3):
        guess = list(lookup.guess())
        sizes.append(len(guess))
        assert guess == list(range(start, start + len(guess)))
        lookup.append([*guess, guess[-1] + 1], len(guess))
        start += len(guess) + 1
    guess = list(lookup.guess())
    lookup.append([guess[0], guess[1], 1000], len(guess))

    assert [*sizes, len(guess)] == [FIRST, 2 * FIRST, MOST, MOST]
    assert list(lookup.guess()) == []
    lookup.append(LAST, 0)
    assert len(lookup.guess()) == 3


def test_what_never_comes_true_is_tried_less_and_less() -> None:
    """After each guess that was wrong from its first token on, the pause is twice as long, up to a bound."""
    lookup = PromptLookup([*LAST, 100])
    tried = []
    for place in range(60):
        for token in LAST:
            lookup.append([token], 0)
        guess = lookup.guess()
        if guess:
            tried.append(place * (LOOKED_UP + 1))
        lookup.append([101 + place], len(guess))  # what follows those is new each time
    waited = [later - earlier for earlier, later in pairwise(tried)]

    assert waited == sorted(waited)
    assert waited[0] == LOOKED_UP + 1
    assert LONGEST_PAUSE <= waited[-1] <= LONGEST_PAUSE + LOOKED_UP + 1
