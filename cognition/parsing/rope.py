"""Text that grows at its end, as an immutable value.

A reply may come as 100,000 chunks, and ``old + new`` for each would copy the whole text each time. Here pieces of
similar length are joined as in a binary counter. Each character is copied at most log2(n) times, and n characters are
in at most log2(n) + 1 pieces, each longer than the next.
"""

from __future__ import annotations

Rope = tuple[str, ...]

EMPTY: Rope = ()


def append_text(rope: Rope, text: str) -> Rope:
    if not text:
        return rope
    count = len(rope)
    while count and len(rope[count - 1]) <= len(text):
        count -= 1
        text = rope[count] + text
    return (*rope[:count], text)


def join_pieces(rope: Rope) -> str:
    return "".join(rope)


def length(rope: Rope) -> int:
    return sum(map(len, rope))
