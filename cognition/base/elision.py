"""Shorten a text that is too long: its two ends remain, with a note between them."""

from __future__ import annotations

from collections.abc import Callable


def elide(text: str, head: int, tail: int, note: Callable[[int], str]) -> str:
    """Return the first ``head`` and the last ``tail`` characters of a text, with a note between them.

    The text stays unchanged if it would not become shorter. How the room is divided, and whether the note takes a part
    of it, is the caller's choice.

    Args:
        text: the text.
        head, tail: characters of the two ends.
        note: returns the note about this number of omitted characters.
    """
    left_out = len(text) - head - tail
    if left_out <= 0:  # else the ends would overlap
        return text
    short = f"{text[:head]}{note(left_out)}{text[len(text) - tail :]}"
    return short if len(short) < len(text) else text
