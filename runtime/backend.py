"""What a local backend has to do: one model, one sequence of tokens in its cache. All the rest is in ``runtime.local``.

Every method but ``interrupt`` is called on the thread that loaded the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from attrs import frozen

from cognition import GenerationOptions


@frozen
class Metadata:
    """What a model's files say about it."""

    name: str
    backend: str
    """Such as ``"llama.cpp"``."""
    backend_version: str
    path: str
    context_tokens: int
    weight_bytes: int
    template: str | None
    """The chat template's source; None when the files have none."""
    bos_text: str = ""
    eos_text: str = ""
    leading_bos: int | None = None
    """A token to put before prompts that don't start with it already; None for none."""
    warnings: tuple[str, ...] = ()


@frozen
class SpecialTokens:
    """Tokens that stand for a whole text, found anywhere in it before ordinary tokenising begins."""

    control: Mapping[str, int]
    """Those that steer the model, such as ``<|im_end|>``."""
    defined: Mapping[str, int]
    """Those that somebody added: markers such as ``<tool_call>``, but also runs of spaces and the like."""


class Backend(Protocol):
    """A loaded model with a cache that holds one sequence."""

    metadata: Metadata
    special: SpecialTokens
    can_cut: bool
    """Whether ``truncate`` can keep a part of the cache; not so for recurrent and hybrid models."""

    chunk: int
    """Tokens of a prompt that are evaluated at once; an interruption takes effect within one chunk."""

    vocabulary: int
    """How many tokens there are: they are numbered from 0."""

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """The tokens of a text, nothing added. With ``special``, texts of special tokens become those tokens."""

    def piece(self, token: int) -> bytes:
        """The text of a token; may be a part of a character. Special tokens give their text."""

    def is_end(self, token: int) -> bool:
        """Whether the model ends its turn with this token."""

    def truncate(self, length: int) -> int:
        """Drop what the cache holds beyond its first ``length`` tokens; how many are left, 0 where it can't be cut."""

    def start(self, options: GenerationOptions) -> None:
        """Prepare for one reply: a fresh sampler, no interruption pending."""

    def evaluate(self, tokens: Sequence[int]) -> int:
        """Append tokens to the cache; how many were evaluated, fewer than given only after ``interrupt``.

        Raises:
            BackendError: the native code failed; what the cache holds is then unknown.
        """

    def sample(self, allowed: bytes | None = None) -> int:
        """The next token, from what the model says after the last token evaluated.

        ``allowed`` has one bit for each token, lowest first: whether it may be taken; tokens beyond its end may not.
        May be called again for another token in the place of the first, with fewer allowed.
        """

    def interrupt(self) -> None:
        """Make an ``evaluate`` that runs, or comes before the next ``start``, return early. From any thread."""

    def close(self) -> None:
        """Free the model."""


class BackendError(Exception):
    """Native code reported a failure. It ends the reply as ``Done(error)``."""
