"""Token counts as data: what a model's own tokenizer and template say of texts, stamped on inputs by an interpreter.

The core only adds them up. Tokens of a message are a tuple: empty where nobody has counted; ``(all,)`` of a message;
of a tool's result ``(beside, piece, ...)``, what it costs beside its text and each ``PIECE`` characters of the text, so
that one that is shown shortened can be told too. See ``docs/context-sizes.md``.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

from attrs import Attribute, field, frozen

from cognition.errors import ConfigError

Tokens = tuple[int, ...]

PIECE = 100
"""Characters of a result that are counted together: a cut is told to within as many, and a count is 3 bytes a piece."""
MOST_TOKENS = 10**12
"""No text has more: a greater number is a reporting error, and may be too large to compute with."""
IMAGE_TOKENS = 600
"""A picture: models make some 250 to 1,500 tokens of one, whatever its bytes."""
EDGE = 8
"""More tokens that a text may have where it is cut: what is left of a word may be told in smaller pieces."""


def check_count(instance: object, attribute: Attribute[Any], value: int) -> None:
    """A validator: whether this can be a number of tokens; raises ConfigError."""
    if type(value) is not int or not 0 <= value <= MOST_TOKENS:
        raise ConfigError(
            f"{type(instance).__name__}.{attribute.name} must be a number of tokens, from 0 to {MOST_TOKENS}"
        )


def believed(tokens: Tokens) -> Tokens:
    """The tokens of a message as they were stamped; nothing where they can't be tokens of any."""
    return tokens if all(0 <= count <= MOST_TOKENS for count in tokens) else ()


@frozen
class TemplateCosts:
    """What prompts of one model have beside the texts of their messages, in tokens, measured by rendering."""

    fixed: int = field(validator=check_count)
    """A prompt with one word of the user's: system prompt, tools, all markers."""
    user: int = field(validator=check_count)
    """A message in the user's role, of one word."""
    reply: int = field(validator=check_count)
    """A reply of one word."""
    call: int = field(validator=check_count)
    """What a call without arguments adds to a reply."""
    result: int = field(validator=check_count)
    """A result of one word."""
    cut: int = field(validator=check_count)
    """The note in a result that is shown shortened."""
    bare: int = field(validator=check_count)
    """As ``fixed``, where no tools are offered."""
    asking: int = field(validator=check_count)
    """The words that ask the model for a summary, in front of the conversation."""
    estimate: float = field(default=0.0)
    """What ``fixed_size`` says of the system prompt and the tools that ``fixed`` was measured with."""
    model: str = ""
    """Its name: counts are not another model's."""

    @estimate.validator
    def _check_estimate(self, _attribute: Attribute[Any], value: float) -> None:
        if not (isfinite(value) and 0 <= value <= MOST_TOKENS):
            raise ConfigError(f"TemplateCosts.estimate must be a number of tokens, from 0 to {MOST_TOKENS}")

    def counts_alike(self, other: TemplateCosts | None) -> bool:
        """Whether messages have the same tokens by these costs as by the others."""
        return other is not None and self._of_messages() == other._of_messages()

    def _of_messages(self) -> tuple[str, int, int, int, int]:
        return self.model, self.user, self.reply, self.call, self.result


def most_tokens(text: str) -> int:
    """The most tokens that a text can have: each is a byte at least."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def pieces_of(text: str) -> list[int]:
    """The most tokens that each piece of a text can have."""
    return [most_tokens(text[start : start + PIECE]) for start in range(0, len(text), PIECE)]


def _pieces(tokens: Tokens, length: int) -> tuple[Tokens, int]:
    """The tokens of each piece of a text of this length, and how many characters a piece has."""
    pieces = tokens[1:]
    return (pieces, PIECE) if len(pieces) == -(-length // PIECE) else ((sum(pieces or tokens),), length)


def most_of_part(tokens: Tokens, text: str, start: int, end: int) -> int:
    """The most tokens that the characters from ``start`` to before ``end`` of a text with these tokens have.

    A piece that is cut may have all of its tokens on one side of the cut, as where blanks fill a line up. No part has
    more than bytes, unless the template escapes them.
    """
    pieces, size = _pieces(tokens, len(text))
    most = 0
    for place in range(start // size, -(-end // size)) if start < end else ():
        piece, first = pieces[place], place * size
        if (start <= first and min(first + size, len(text)) <= end) or piece > most_tokens(text[first : first + size]):
            most += piece
        else:
            most += min(piece, most_tokens(text[max(first, start) : min(first + size, end)]))
    return most
