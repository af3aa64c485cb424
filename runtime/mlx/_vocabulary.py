"""The tokens of a ``tokenizer.json``, read with the ``tokenizers`` library."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from runtime.mlx._pieces import BYTE_TOKEN, piece_reader
from runtime.protocol.backend import SpecialTokens

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class Vocabulary:
    """The token methods of a backend."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._added: dict[int, Any] = dict(tokenizer.get_added_tokens_decoder())
        self._read_piece = piece_reader(json.loads(tokenizer.to_str()))
        self.size = int(tokenizer.get_vocab_size(with_added_tokens=True))
        self.special = SpecialTokens(
            control={added.content: token for token, added in self._added.items() if added.special},
            defined={added.content: token for token, added in self._added.items() if not added.special},
            # Where all that a vocabulary has is looked for as it is written there, such a text is taken for the byte.
            spelled=frozenset(filter(BYTE_TOKEN.fullmatch, tokenizer.get_vocab(with_added_tokens=False))),
        )

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """Return the tokens of a text, with nothing added. With ``special``, texts of special tokens become those
        tokens.
        """
        self._tokenizer.encode_special_tokens = not special
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def piece(self, token: int) -> bytes:
        """Return the bytes of a token, possibly part of a character. A special token returns its text."""
        if token in self._added:
            return str(self._added[token].content).encode("utf-8")
        written = self._tokenizer.id_to_token(token)
        return b"" if written is None else self._read_piece(written)  # None: padding at the end of the vocabulary
