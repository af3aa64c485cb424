"""Prompt-lookup drafting: guess that the last tokens continue as they did at their last occurrence.

This often holds in tool loops, where arguments and answers repeat results and questions. A guess costs a row in a
batch. The model predicts the token after each guess: correct guesses save steps, wrong guesses change nothing, since
sampling stops at the first. Comparing with the sampled token is exact at any temperature. Source: prompt lookup
decoding, https://github.com/apoorvumang/prompt-lookup-decoding.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

LOOKED_UP = 8
"""Number of last tokens to look up. When quoting, a third of the guesses was correct with three, and the reply took
longer than without; with eight it was two thirds (``benchmarks/drafting.py``).
"""

FIRST, MOST = 8, 16
"""Initial and maximum number of guesses. A batch of two takes a CPU twice as long as one token, and each further token
half of that: so a few guesses are not worth it.
"""

LONGEST_PAUSE = 32
"""Maximum tokens without guessing after a completely wrong guess: 1 at first, doubled each time."""

WIDTH = array("i").itemsize


class PromptLookup:
    """The guesses for one reply; they depend only on its tokens.

    Args:
        prompt: its tokens.
    """

    def __init__(self, prompt: Iterable[int]) -> None:
        self._tokens = bytearray(array("i", prompt).tobytes())
        self._size = FIRST
        self._wrong = 0
        """Consecutive guesses without a correct token."""
        self._pause = 0

    def append(self, tokens: Sequence[int], guessed: int) -> None:
        """Record the reply's next tokens. All but the last were among the ``guessed`` guesses."""
        self._tokens += array("i", tokens).tobytes()
        confirmed = len(tokens) - 1
        if not guessed:
            self._pause = max(0, self._pause - 1)
        elif confirmed:
            self._wrong = 0
            self._size = min(2 * self._size, MOST) if confirmed == guessed else confirmed + 1
        else:
            self._size = FIRST
            self._pause = min(2**self._wrong, LONGEST_PAUSE)
            self._wrong += 1

    def guess(self) -> Sequence[int]:
        """Return the likely next tokens; empty during a pause, or if the last tokens have not occurred before."""
        if self._pause:
            return ()
        at = self._find()
        if at is None:
            return ()
        followed = array("i", bytes(self._tokens[at : at + self._size * WIDTH]))
        # What came last time goes up to here, and then perhaps round again.
        return (followed * (self._size // len(followed) + 1))[: self._size]

    def _find(self) -> int | None:
        """Return the byte offset after the previous occurrence of the last tokens."""
        end = len(self._tokens) - WIDTH  # so that one token at least follows
        if end < LOOKED_UP * WIDTH:
            return None
        needle = self._tokens[-LOOKED_UP * WIDTH :]
        while (at := self._tokens.rfind(needle, 0, end)) >= 0:
            if at % WIDTH == 0:
                return at + len(needle)
            end = at + len(needle) - 1  # across the bounds of tokens: further back
        return None
