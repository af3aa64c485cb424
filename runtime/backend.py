"""What a local backend has to do: one model and the sequences in its cache. All the rest is in ``runtime.local``.

Every method but ``interrupt`` is called on the thread that loaded the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from attrs import frozen

from cognition import GenerationOptions
from runtime.scheduling.plan import Limits, Piece

DEFAULT_CONTEXT = 8192
"""Tokens, where the model allows more and the caller asks for nothing: room for a system prompt, tools and a dozen
steps; the cache of a model of 8 billion parameters takes 1 GB at this length."""

SEQUENCES, FEWEST_SEQUENCES = 32, 4
"""The number of sequences in the cache, those in use and those kept for later; the second where each has a large
recurrent state."""

CONVERSATIONS = 8
"""The number of conversations of full length for which the cache has room, unless that takes more than ``CACHE_BYTES``;
for one it has room in any case."""
CACHE_BYTES = 1024**3
"""The memory that the cache may take for more than one conversation."""

LONGEST_TEMPLATE = 250_000
"""Characters of a chat template. The longest of the 179 that ``make conformance`` renders has 18,651."""


def context_warnings(context: int, trained: int) -> tuple[str, ...]:
    """What to warn of when a model that was trained on ``trained`` tokens is given a context of ``context``."""
    if context <= trained:
        return ()
    return (f"the model was trained on at most {trained} tokens; beyond that, of {context}, its replies get worse",)


@frozen
class Metadata:
    """What a model's files say about it."""

    name: str
    backend: str
    """The backend's name, such as ``"llama.cpp"``."""
    backend_version: str
    path: str
    context_tokens: int
    weight_bytes: int
    template: str | None
    """The chat template's source; None when the files have none."""
    bos_text: str = ""
    eos_text: str = ""
    leading_bos: int | None = None
    """A token to put before prompts that don't start with it already, if there is one."""
    warnings: tuple[str, ...] = ()
    plain_template: str | None = None
    """The source of another template for conversations without tools and calls; None where ``template`` is for these
    too."""
    sampling: GenerationOptions = GenerationOptions()
    """What they say of sampling; all else is as by default."""


@frozen
class SpecialTokens:
    """Tokens that stand for a whole text, found anywhere in it before ordinary tokenising begins."""

    control: Mapping[str, int]
    """The tokens that steer the model, such as ``<|im_end|>``."""
    defined: Mapping[str, int]
    """The tokens that somebody added: markers such as ``<tool_call>``, but also runs of spaces and the like."""
    spelled: frozenset[str] = frozenset()
    """Texts that the tokenizer may take for a token of another text, such as ``<0x0A>`` for a line end."""


class Sampler(Protocol):
    """Chooses the tokens of one reply; it belongs to the backend that made it."""

    def close(self) -> None:
        """Free it. A second call does nothing."""


class Backend(Protocol):
    """A loaded model and its cache, which holds sequences of tokens that are told apart by number."""

    metadata: Metadata
    special: SpecialTokens
    limits: Limits
    """What the cache holds, and how much is evaluated at once."""

    vocabulary: int
    """The number of tokens, which are numbered from 0."""

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """The tokens of a text, nothing added. With ``special``, texts of special tokens become those tokens."""

    def piece(self, token: int) -> bytes:
        """The text of a token; may be a part of a character. Special tokens give their text."""

    def is_end(self, token: int) -> bool:
        """Whether the model ends its turn with this token."""

    def drop(self, sequence: int) -> None:
        """Empty a sequence."""

    def cut(self, sequence: int, length: int) -> bool:
        """Keep the first ``length`` tokens of a sequence; False where it can't be cut there, and is empty now.

        The last ``limits.guesses`` tokens can always be cut off. A backend that can't promise that has 0 there.
        """

    def copy(self, source: int, target: int, length: int) -> None:
        """Put the first ``length`` tokens of a sequence into another one, which is empty.

        Where ``limits.can_cut`` is False, ``length`` is the whole of it: a snapshot, or what goes on from one. A
        backend with one sequence is never asked to.
        """

    def sampler(self, options: GenerationOptions) -> Sampler:
        """A fresh one for one reply."""

    def evaluate(self, batch: Sequence[Piece]) -> bool:
        """Append tokens to sequences, guesses included; False, and nothing is appended, when it was interrupted.

        A backend whose ``limits.guesses`` is 0 gets none.

        Raises:
            BackendError: the native code failed; what the cache holds is then unknown.
        """

    def append_tokens(self, tokens: Sequence[int]) -> bool:
        """Append one token to each sequence of the last batch, in its order; as ``evaluate`` with such pieces does.

        Only where each piece of the last batch was one token, and ``last``, and was evaluated.
        """

    def sample(self, row: int, sampler: Sampler, allowed: bytes | None = None) -> int:
        """The next token, from the logits at a row of the last batch.

        Args:
            row: counted from 0 over the pieces in order. A piece has a row behind its last token, or behind the last
                one before its guesses, and then one behind each guess. The row's piece is ``last``.
            sampler: the reply's.
            allowed: one bit for each token, lowest first, says whether it may be taken; tokens beyond its end may not.
                This may be called again, with fewer allowed, for another token in the place of the first.
        """

    def ready(self) -> None:
        """Forget interruptions that are pending."""

    def interrupt(self) -> None:
        """Make an ``evaluate`` that runs, or comes before the next ``ready``, return early if it can.

        May be called on any thread.
        """

    def reset(self) -> None:
        """Empty all sequences, whatever happened before."""

    def close(self) -> None:
        """Free the model."""


@runtime_checkable
class StateBackend(Protocol):
    """A backend that can also give away what a sequence holds, and take it back in another process."""

    def identity(self) -> Mapping[str, str]:
        """Everything that such a state depends on, each part by its name: model, adapters, options, versions."""

    def state(self, sequence: int, length: int) -> memoryview:
        """The first ``length`` tokens of a sequence, as they are in the cache; all of it where it can't be cut."""

    def restore(self, sequence: int, length: int, state: memoryview) -> None:
        """Fill a sequence, which is empty, with a state of the same identity and ``length`` tokens.

        Raises:
            BackendError: the state can't be taken back; the sequence is then empty.
        """


class BackendError(Exception):
    """Native code reported a failure. It ends the replies of the batch as ``Done(error)``."""
