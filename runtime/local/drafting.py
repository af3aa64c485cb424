"""Prompt-lookup drafting: a reply's next tokens are guessed to be what followed the last time its last few ones came.

In tool loops that is often so: arguments and answers are copied from results and questions. A guess costs a place in a
batch. The model says what comes behind each guessed token, so those that came true are so many steps saved, and the
others change nothing: nothing is sampled behind the first wrong one. Sampling from the model and comparing is exact at
any temperature. Source: prompt lookup decoding, https://github.com/apoorvumang/prompt-lookup-decoding.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

LOOKED_UP = 8
"""How many of the last tokens are looked for. With three, every third guess came true where an answer quotes, and the
reply took longer than without; with eight, two of three (``benchmarks/drafting.py``)."""

FIRST, MOST = 8, 16
"""The number of tokens guessed at first, and at the most. A batch of two takes a CPU twice as long as one token, and
each further one half of that: so a few guesses are not worth it."""

LONGEST_PAUSE = 32
"""The most tokens without a guess after a guess that was all wrong: 1 at first, then twice as many each time."""

WIDTH = array("i").itemsize


class Lookup:
    """The guesses for one reply: a function of its tokens alone.

    Args:
        prompt: its tokens.
    """

    def __init__(self, prompt: Iterable[int]) -> None:
        self._tokens = bytearray(array("i", prompt).tobytes())
        self._size = FIRST
        self._wrong = 0
        """The number of guesses in a row of which no token came."""
        self._pause = 0

    def append(self, tokens: Sequence[int], guessed: int) -> None:
        """Note the reply's next tokens. All but the last of them were among the ``guessed`` tokens guessed before."""
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
        """The tokens that may come next; empty where the last ones did not come before, or in a pause."""
        if self._pause:
            return ()
        at = self._find()
        if at is None:
            return ()
        followed = array("i", bytes(self._tokens[at : at + self._size * WIDTH]))
        # What came last time goes up to here, and then perhaps round again.
        return (followed * (self._size // len(followed) + 1))[: self._size]

    def _find(self) -> int | None:
        """Where the last tokens came last before: the place behind them, in bytes."""
        end = len(self._tokens) - WIDTH  # so that one token at least follows
        if end < LOOKED_UP * WIDTH:
            return None
        needle = self._tokens[-LOOKED_UP * WIDTH :]
        while (at := self._tokens.rfind(needle, 0, end)) >= 0:
            if at % WIDTH == 0:
                return at + len(needle)
            end = at + len(needle) - 1  # across the bounds of tokens: further back
        return None
