"""Made-up vocabularies, by the tokenizers that backends really use: none of them is a mock."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import frozen

from runtime.mlx.backend import MlxVocabulary
from runtime.protocol.backend import Metadata, SpecialTokens
from tests.runtime.tiny_models import byte_letters

METADATA = Metadata("made up", "mlx", "", "", 4096, 0, None)


@frozen
class TokenizerBackend:
    """What ``PromptTokenizer`` needs of a backend."""

    _vocabulary: MlxVocabulary
    metadata: Metadata = METADATA

    @property
    def special(self) -> SpecialTokens:
        return self._vocabulary.special

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        return self._vocabulary.tokenize(text, special=special)

    def piece(self, token: int) -> bytes:
        return self._vocabulary.piece(token)


def byte_level(control: Iterable[str], defined: Iterable[str], **flags: bool) -> TokenizerBackend:
    """A vocabulary of bytes, as most models have it, with these tokens added. ``flags``: of each added token."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokenizer = Tokenizer(models.BPE(vocab={letter: place for place, letter in enumerate(byte_letters())}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # type: ignore[assignment]  # as documented
    tokenizer.decoder = decoders.ByteLevel()  # type: ignore[assignment]  # as documented
    _add(tokenizer, control, defined, AddedToken, flags)
    return TokenizerBackend(MlxVocabulary(tokenizer))


def normalising(kind: str, control: Iterable[str], defined: Iterable[str]) -> TokenizerBackend:
    """The same, but texts are changed before tokens are looked for, and added tokens are looked for in the result."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

    tokenizer = Tokenizer(models.BPE(vocab={letter: place for place, letter in enumerate(byte_letters())}, merges=[]))
    tokenizer.normalizer = getattr(normalizers, kind)()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # type: ignore[assignment]  # as documented
    tokenizer.decoder = decoders.ByteLevel()  # type: ignore[assignment]  # as documented
    _add(tokenizer, control, defined, AddedToken, {"normalized": True})
    return TokenizerBackend(MlxVocabulary(tokenizer))


def sentence_piece(control: Iterable[str], defined: Iterable[str]) -> TokenizerBackend:
    """A Unigram model as SentencePiece makes it: with tokens of single bytes, and spaces before what it is given."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    signs = [chr(code) for code in range(33, 127)] + ["▁"]
    vocabulary = [
        ("<unk>", 0.0),
        *((f"<0x{byte:02X}>", -5.0) for byte in range(256)),
        *((sign, -3.0) for sign in signs),
    ]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=0, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()  # type: ignore[assignment]  # as documented
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])  # type: ignore[assignment]  # as documented
    _add(tokenizer, ("<unk>", *control), defined, AddedToken, {})
    return TokenizerBackend(MlxVocabulary(tokenizer))


def _add(tokenizer: Any, control: Iterable[str], defined: Iterable[str], added: Any, flags: dict[str, bool]) -> None:
    tokenizer.add_special_tokens([added(text, special=True, **{"normalized": False, **flags}) for text in control])
    tokenizer.add_tokens([added(text, special=False, **{"normalized": False, **flags}) for text in defined])
