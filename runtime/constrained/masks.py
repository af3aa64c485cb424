"""Token masks from grammars: which tokens of a vocabulary may come next."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Any

from runtime.constrained._patterns import compile_grammar
from runtime.constrained.replies import TokenFacts
from runtime.errors import ConstraintError
from runtime.protocol.backend import InferenceBackend

KEPT = 32
"""The number of compiled grammars in the cache: those of a few agents that share a model."""

FUEL = 4_000_000
"""Steps of the engine to compile a grammar, four times its default: about half a second."""


def is_installed() -> bool:
    """Return whether llguidance can be imported, without importing it."""
    return find_spec("llguidance") is not None


class Matcher:
    """Matches one text against one grammar, token by token."""

    def __init__(self, native: Any) -> None:
        self._native = native

    def allowed_tokens(self) -> bytes:
        """Return one bit per token, lowest first. Tokens that end a reply are allowed if the text may end.

        Raises:
            ConstraintError: the grammar is too complex at this place.
        """
        mask: bytes = self._native.compute_bitmask()
        self._check()
        return mask

    def accept(self, token: int) -> None:
        """Take a token.

        Raises:
            ConstraintError: the token is not allowed.
        """
        self._native.consume_token(token)
        self._check()

    def accepts(self, tokens: list[int]) -> bool:
        """Take all of these tokens if they are allowed; return whether they are."""
        return bool(self._native.try_consume_tokens(tokens) == len(tokens))

    @property
    def is_finished(self) -> bool:
        return bool(self._native.is_stopped())

    def _check(self) -> None:
        if self._native.is_error():
            told = _first_line(self._native.get_error())
            raise ConstraintError(f"the grammar of the calls can't be followed: {told}")


class TokenMasks:
    """A vocabulary prepared for masks. Preparing takes a few milliseconds for 1,000 tokens, half a second for 150,000.

    Args:
        backend: the model with the vocabulary.
        markers: texts of further tokens that the format uses as markers, apart from control tokens: strings can't
            contain them.
    """

    def __init__(self, backend: InferenceBackend, markers: Iterable[str]) -> None:
        import llguidance

        count = backend.vocabulary
        defined = {text: token for text, token in backend.special.defined.items() if text in set(markers)}
        special = {**defined, **backend.special.control}
        ends = [token for token in range(count) if backend.is_end(token)]
        tokens = _Tokens(backend, count, special, ends)
        wrapper = llguidance.TokenizerWrapper(tokens)
        self._pieces = tokens.tokens
        self._beginning: dict[bytes, frozenset[int]] = {b"": frozenset()}
        self._tokenizer = llguidance.LLTokenizer(wrapper, n_vocab=count, eos_token=ends or None)
        self._compiled: OrderedDict[str, Any] = OrderedDict()
        end_texts = frozenset(text for text, token in special.items() if token in ends)
        self.vocabulary: TokenFacts = TokenFacts(special, end_texts)
        marks = bytearray((count + 7) // 8)
        for token in ends:
            marks[token // 8] |= 1 << token % 8
        self.ends: bytes = bytes(marks)
        """The mask of the tokens that end a reply."""
        self.every: bytes = b"\xff" * len(marks)

    def matcher(self, grammar: str) -> Matcher:
        """Return a new matcher; the grammar is compiled once.

        Raises:
            ConstraintError: the grammar does not compile.
        """
        compiled = self._compiled.get(grammar)
        if compiled is None:
            compiled = compile_grammar(self._tokenizer, grammar, FUEL)
            if compiled.is_error():
                raise ConstraintError(f"no grammar could be made for the tools: {_first_line(compiled.get_error())}")
            self._compiled[grammar] = compiled
            if len(self._compiled) > KEPT:
                self._compiled.popitem(last=False)
        self._compiled.move_to_end(grammar)
        return Matcher(compiled.deep_copy())

    def beginning_with(self, sign: bytes) -> frozenset[int]:
        """Return the tokens whose text begins with ``sign``; empty if ``sign`` is empty."""
        if sign not in self._beginning:
            found = (token for token, piece in enumerate(self._pieces) if piece.startswith(sign))
            self._beginning[sign] = frozenset(found)
        return self._beginning[sign]

    def tokens(self, text: str) -> list[int]:
        """Return the tokens of a text, without special tokens."""
        return list(self._tokenizer.tokenize_bytes(text.encode("utf-8", "replace")))


class _Tokens:
    """A tokenizer with llguidance's interface."""

    def __init__(self, backend: InferenceBackend, count: int, special: Mapping[str, int], ends: list[int]) -> None:
        self._backend = backend
        self.tokens = [backend.piece(token) for token in range(count)]
        self.special_token_ids = sorted({*special.values(), *ends})
        self.eos_token_id = ends[0] if ends else 0
        self.bos_token_id = None
        texts = "|".join(re.escape(text) for text in special if len(text) > 1)
        self._special = re.compile(f"(?=(?:{texts}))") if texts else None

    def __call__(self, text: bytes | str) -> list[int]:
        """Return the tokens of a text, without special tokens.

        Tokenizers find *added* tokens even with special tokens off. If the grammar allows only one text, llguidance
        forces exactly the tokens returned here. So the text is split where an added token would be found.
        """
        plain = text if isinstance(text, str) else text.decode("utf-8", "replace")
        cuts = [] if self._special is None else [found.start() + 1 for found in self._special.finditer(plain)]
        if not cuts:
            return self._backend.tokenize(plain, special=False)
        parts = [plain[start:end] for start, end in zip([0, *cuts], [*cuts, len(plain)], strict=True)]
        return [token for part in parts for token in self._backend.tokenize(part, special=False)]


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:300]
