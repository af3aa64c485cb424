"""Token counts as data, measured with the model's own tokenizer and template and stamped on inputs by an interpreter.

The core only adds them up. The tokens of a message are a tuple: empty if not counted, ``(all,)`` for a message. For a
tool's result it is ``(beside, piece, ...)``: the cost without its text, then the tokens of each ``PIECE`` characters,
so that a shortened result can be counted too. See ``docs/concepts/context-sizes.md``.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

from attrs import Attribute, field, frozen

from cognition.base.errors import ConfigError

Tokens = tuple[int, ...]

PIECE = 100
"""Characters of a result counted together. A cut is counted to within this many characters; a count takes 3 bytes a
piece.
"""
MOST_TOKENS = 10**12
"""The largest valid count: a greater number is a reporting error, and may be too large to compute with."""
IMAGE_TOKENS = 600
"""Estimated tokens of a picture: models use some 250 to 1,500, independent of its bytes."""
EDGE = 8
"""Extra tokens to allow for a cut text: the rest of a split word may need smaller tokens."""


def check_count(instance: object, attribute: Attribute[Any], value: int) -> None:
    """Validate a number of tokens; raises ConfigError."""
    if type(value) is not int or not 0 <= value <= MOST_TOKENS:
        raise ConfigError(
            f"{type(instance).__name__}.{attribute.name} must be a number of tokens, from 0 to {MOST_TOKENS}"
        )


def valid_tokens(tokens: Tokens) -> Tokens:
    """Return the stamped tokens of a message; empty if they can't be token counts."""
    return tokens if all(0 <= count <= MOST_TOKENS for count in tokens) else ()


@frozen
class TemplateCosts:
    """Tokens of prompts of one model outside the texts of their messages, measured by rendering."""

    fixed: int = field(validator=check_count)
    """A prompt with a user message of one word: system prompt, tools, all markers."""
    user: int = field(validator=check_count)
    """A message in the user's role, of one word."""
    reply: int = field(validator=check_count)
    """A reply of one word."""
    call: int = field(validator=check_count)
    """The tokens that a call without arguments adds to a reply."""
    result: int = field(validator=check_count)
    """A result of one word."""
    cut: int = field(validator=check_count)
    """The note in a shortened result."""
    bare: int = field(validator=check_count)
    """As ``fixed``, without tools."""
    asking: int = field(validator=check_count)
    """The request for a summary, in front of the conversation."""
    estimate: float = field(default=0.0)
    """The result of ``fixed_size`` for the system prompt and the tools that ``fixed`` was measured with."""
    model: str = ""
    """The model's name: counts are not valid for other models."""
    skipped: int = field(default=0, validator=check_count)
    """The note on omitted messages of a turn; 0 if not measured."""

    @estimate.validator
    def _check_estimate(self, _attribute: Attribute[Any], value: float) -> None:
        if not (isfinite(value) and 0 <= value <= MOST_TOKENS):
            raise ConfigError(f"TemplateCosts.estimate must be a number of tokens, from 0 to {MOST_TOKENS}")

    def counts_alike(self, other: TemplateCosts | None) -> bool:
        """Return whether messages have the same token counts under both costs."""
        return other is not None and self._of_messages() == other._of_messages()

    def _of_messages(self) -> tuple[str, int, int, int, int]:
        return self.model, self.user, self.reply, self.call, self.result


def most_tokens(text: str) -> int:
    """Return an upper bound of a text's tokens: each token has at least one byte."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def pieces_of(text: str) -> list[int]:
    """Return an upper bound of the tokens of each piece of a text."""
    return [most_tokens(text[start : start + PIECE]) for start in range(0, len(text), PIECE)]


def _pieces(tokens: Tokens, length: int) -> tuple[Tokens, int]:
    pieces = tokens[1:]
    return (pieces, PIECE) if len(pieces) == -(-length // PIECE) else ((sum(pieces or tokens),), length)


def most_of_part(tokens: Tokens, text: str, start: int, end: int) -> int:
    """Return an upper bound of the tokens of ``text[start:end]``, given the text's tokens.

    All tokens of a cut piece may be on one side of the cut, for example if blanks fill up a line. A part has at most as
    many tokens as bytes, unless the template escapes them.
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
