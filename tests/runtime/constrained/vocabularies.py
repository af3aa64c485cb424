"""A vocabulary made for tests: the 256 bytes, a few words, and the markers of a format as added tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from attrs import asdict

from cognition.parsing import FormatSpec
from runtime.protocol.backend import SpecialTokens

LETTERS = re.compile(r"[A-Za-z0-9 _.:\n]*")


class Words:
    """Tokens 1 to 255 are the bytes, then words, then special tokens; token 0 ends a reply.

    Its tokenizer finds the special ones whether it is asked to or not, as those of models find *added* tokens.
    """

    def __init__(self, *words: str, special: tuple[str, ...] = ()) -> None:
        self.pieces = [b"<end>", *(bytes([byte]) for byte in range(1, 256))]
        self.pieces += [word.encode() for word in (*words, *special)]
        self.vocabulary = len(self.pieces)
        self.special = SpecialTokens({"<end>": 0} | {text: self.pieces.index(text.encode()) for text in special}, {})
        texts = "|".join(re.escape(text) for text in sorted(special, key=len, reverse=True))
        self._found = re.compile(f"({texts})") if special else None

    def piece(self, token: int) -> bytes:
        return self.pieces[token]

    def is_end(self, token: int) -> bool:
        return token == 0

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        parts = [text] if self._found is None else self._found.split(text)
        return [
            token
            for part in parts
            for token in ([self.special.control[part]] if part in self.special.control else part.encode())
        ]


def markers_of(spec: FormatSpec) -> tuple[str, ...]:
    """The texts of a format that a model may well have as tokens: those with a sign in them."""
    return tuple(sorted({text for text in _texts(asdict(spec)) if not LETTERS.fullmatch(text) and len(text) > 2}))


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value.strip()
        case dict():
            for name, one in value.items():
                if name not in ("name", "shape", "fields"):
                    yield from _texts(one)
        case list() | tuple():
            for one in value:
                yield from _texts(one)
