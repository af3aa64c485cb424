"""The protocol of a local backend: one model and the sequences in its cache. The rest is in ``runtime.local``.

Every method except ``interrupt`` is called on the thread that loaded the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from attrs import frozen

from cognition import GenerationOptions
from cognition.base.protocols import AttributeProtocolMeta
from runtime.scheduling.plan import BatchPiece, Limits

DEFAULT_CONTEXT = 8192
"""Tokens, if the model allows more and the caller sets nothing: room for a system prompt, tools and a dozen steps. The
cache of a model of 8 billion parameters takes 1 GB at this length.
"""

SEQUENCES, FEWEST_SEQUENCES = 32, 4
"""Sequences in the cache, active and retained; the second number is for models with a large recurrent state."""

CONVERSATIONS = 8
"""Conversations of full length that fit into the cache, unless they take more than ``CACHE_BYTES``; at least one always
fits.
"""
CACHE_BYTES = 1024**3
"""Maximum memory of the cache for more than one conversation."""

LONGEST_TEMPLATE = 250_000
"""Maximum characters of a chat template. The longest of the 179 that ``make conformance`` renders has 18,651."""


def context_warnings(context: int, trained: int) -> tuple[str, ...]:
    """Return the warnings for a ``context`` longer than the ``trained`` number of tokens."""
    if context <= trained:
        return ()
    return (f"the model was trained on at most {trained} tokens; beyond that, of {context}, its replies get worse",)


@frozen
class Metadata:
    """Metadata from a model's files."""

    name: str
    backend: str
    backend_version: str
    path: str
    context_tokens: int
    weight_bytes: int
    template: str | None
    bos_text: str = ""
    eos_text: str = ""
    leading_bos: int | None = None
    """A token to put before prompts that do not start with it."""
    warnings: tuple[str, ...] = ()
    plain_template: str | None = None
    """The source of another template for conversations without tools and calls, or None."""
    sampling: GenerationOptions = GenerationOptions()


@frozen
class SpecialTokens:
    """Tokens that represent a whole text. The tokenizer finds them anywhere before ordinary tokenising."""

    control: Mapping[str, int]
    defined: Mapping[str, int]
    """Added tokens: markers such as ``<tool_call>``, but also runs of spaces."""
    spelled: frozenset[str] = frozenset()
    """Texts that the tokenizer may take for the token of another text, such as ``<0x0A>`` for a line end."""


class Sampler(Protocol):
    """Chooses the tokens of one reply; usable only with the backend that created it."""

    def close(self) -> None:
        """Free it. A second call does nothing."""


class InferenceBackend(Protocol):
    """A loaded model and its cache of numbered token sequences."""

    metadata: Metadata
    special: SpecialTokens
    limits: Limits
    """Sizes of the cache and of a batch."""

    vocabulary: int
    """The number of tokens; ids start at 0."""

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """Return the tokens of a text, with nothing added. With ``special``, texts of special tokens become those
        tokens.
        """

    def piece(self, token: int) -> bytes:
        """Return the bytes of a token, possibly part of a character. A special token returns its text."""

    def is_end(self, token: int) -> bool:
        """Return whether the model ends its turn with this token."""

    def drop(self, sequence: int) -> None:
        """Empty a sequence."""

    def cut(self, sequence: int, length: int) -> bool:
        """Keep the first ``length`` tokens of a sequence. Returns False, with the sequence emptied, if it cannot be cut
        there.

        The last ``limits.guesses`` tokens can always be cut off; a backend that cannot guarantee this has 0 there.
        """

    def copy(self, source: int, target: int, length: int) -> None:
        """Copy the first ``length`` tokens of a sequence into another, empty sequence.

        If ``limits.can_cut`` is False, ``length`` is the whole sequence: a snapshot, or a continuation of a snapshot.
        Never called on a backend with one sequence.
        """

    def sampler(self, options: GenerationOptions) -> Sampler:
        """Return a new sampler for one reply."""

    def evaluate(self, batch: Sequence[BatchPiece]) -> bool:
        """Append tokens to sequences, including guesses. Returns False, with nothing appended, if interrupted.

        Guesses are only passed if ``limits.guesses`` is above 0.

        Raises:
            BackendError: the native code failed; the content of the cache is then undefined.
        """

    def append_tokens(self, tokens: Sequence[int]) -> bool:
        """Append one token to each sequence of the last batch, in its order; equals ``evaluate`` with such pieces.

        Only valid if the last batch was evaluated and each of its pieces was one token and ``last``.
        """

    def sample(self, row: int, sampler: Sampler, allowed: bytes | None = None) -> int:
        """Return the next token, sampled from the logits at a row of the last batch.

        Args:
            row: index over the rows of all pieces, in order. A piece has one row after its last token (before its
                guesses), and one after each guess. The row's piece must be ``last``.
            sampler: the reply's.
            allowed: a bit mask of allowed tokens, lowest bit first; tokens beyond its end are not allowed. Calling
                again with a stricter mask replaces the first choice.
        """

    def ready(self) -> None:
        """Clear pending interruptions."""

    def interrupt(self) -> None:
        """Make a running ``evaluate``, or any before the next ``ready``, return early if possible.

        May be called on any thread.
        """

    def reset(self) -> None:
        """Empty all sequences, also after a failure."""

    def close(self) -> None:
        """Free the model."""


@runtime_checkable
class StateBackend(Protocol, metaclass=AttributeProtocolMeta):
    """A backend that can export the state of a sequence and import it in another process."""

    def identity(self) -> Mapping[str, str]:
        """Return everything that a state depends on, by name: model, adapters, options, versions."""

    def state(self, sequence: int, length: int) -> memoryview:
        """Return the cached state of the first ``length`` tokens of a sequence; of all of it if it cannot be cut."""

    def restore(self, sequence: int, length: int, state: memoryview) -> None:
        """Fill an empty sequence with a state of ``length`` tokens. The state must have the same identity.

        Raises:
            BackendError: the state cannot be restored; the sequence is then empty.
        """


class BackendError(Exception):
    """Native code reported a failure. It ends the replies of the batch with ``Done(error)``."""
