"""Checks whether a prompt fits into the context."""

from __future__ import annotations

from cognition import Failure
from runtime.protocol.backend import Backend

LONG_TEXT = 32
"""Characters per token that few texts exceed. A text with more for each token of the context rarely fits, and
tokenising ten million characters can take a minute. So only the beginning of such a text is tokenised first.
"""

EMPTY = Failure("the prompt is empty: the template writes nothing for these messages", kind="fatal")


def unfit(tokens: int, context: int, about: str = "") -> Failure | None:
    """Return the failure of a prompt that is too long, or None."""
    if not tokens:
        return EMPTY
    available = context - 1  # one at least has to be left for the reply
    if tokens <= available:
        return None
    return Failure(
        f"the prompt has {about}{tokens} tokens, and {available} fit into the context",
        kind="context_overflow",
        needed_tokens=tokens,
        available_tokens=available,
    )


def far_too_long(backend: Backend, text: str) -> Failure | None:
    """Return the failure of a text whose beginning is already twice too long; None if it must be counted in full."""
    context = backend.metadata.context_tokens
    beginning = text[: LONG_TEXT * context]
    if len(beginning) == len(text):
        return None
    tokens = len(backend.tokenize(beginning, special=True))
    about = tokens * len(text) // len(beginning)
    return unfit(about, context, "about ") if tokens > 2 * context else None
