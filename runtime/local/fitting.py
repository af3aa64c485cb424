"""Whether a prompt fits into the context."""

from __future__ import annotations

from cognition import Failure
from runtime.backend import Backend

LONG_TEXT = 32
"""Characters that few tokens have. A text of more of them for each token of the context hardly ever fits, and to
tokenise ten million can take a minute: so the beginning of such a text is looked at first."""

EMPTY = Failure("the prompt is empty: the template writes nothing for these messages", kind="fatal")


def unfit(tokens: int, context: int, about: str = "") -> Failure | None:
    """Why a prompt of so many tokens can't be asked; None where it can."""
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
    """Why a text can't be asked whose beginning is twice too long; None where all of it has to be counted."""
    context = backend.metadata.context_tokens
    beginning = text[: LONG_TEXT * context]
    if len(beginning) == len(text):
        return None
    tokens = len(backend.tokenize(beginning, special=True))
    about = tokens * len(text) // len(beginning)
    return unfit(about, context, "about ") if tokens > 2 * context else None
