"""What every runtime promises: submit a request, receive outputs, cancel, count, describe, close.

A runtime holds one model. Callers pass plain values and get plain values; handles of a backend never leave the thread
that owns the model. ``submit`` may be called from any thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

from attrs import frozen

from cognition import Failure, FinishReason, GenerationOptions, MalformedToolCall, ModelRequest, ProposedCall, Usage
from cognition.content import MediaType

if TYPE_CHECKING:
    from cognition.parsing import FormatSpec, Output


@frozen
class Timings:
    """Where the time of a generation went, in seconds of a monotonic clock."""

    prefill_seconds: float = 0.0
    """The time to evaluate the part of the prompt that no cache held."""
    decode_seconds: float = 0.0
    """The time from the end of prefill to the last token."""
    time_to_first_token: float | None = None
    """The time from ``submit`` on, with that in the queue and for rendering; None when no token came."""


@frozen
class Done:
    """The last item of a generation: all that came, why it ended, what it cost."""

    tag: ClassVar[str] = "done"
    text: str
    """The visible reply: what all ``TextDelta`` of the stream hold, joined."""
    reasoning: str
    calls: tuple[ProposedCall, ...]
    malformed: tuple[MalformedToolCall, ...]
    finish_reason: FinishReason
    usage: Usage
    timings: Timings
    failure: Failure | None = None
    """Set exactly when ``finish_reason`` is ``"error"``."""
    warnings: tuple[str, ...] = ()
    """What was asked for and the model did not get, one sentence each, such as ``thinking=False`` where its template
    has no switch for that."""
    continuation: str = ""
    """What the server wants back with the next request beside the reply, such as signed thoughts; empty of a local
    model."""


@frozen
class ModelInfo:
    """What a runtime is made of."""

    name: str
    """The model's own name where its metadata has one, else the name of its file or directory."""
    backend: str
    """Such as ``"llama.cpp"`` or ``"mlx"``."""
    path: str
    """The file or directory; empty for a remote model."""
    context_tokens: int
    """The longest prompt and reply together."""
    format: FormatSpec
    """How the model marks reasoning and tool calls, as derived from its template."""
    features: tuple[str, ...] = ()
    """What the model and its template can do, of: ``tools``, ``system``, ``thinking``, ``thinking_option`` (reasoning
    can be asked for or not), ``prefix_reuse`` or ``snapshots``, ``saved_cache``, ``constrained_calls``; and
    ``estimated_counts`` where ``count_tokens`` only estimates."""
    warnings: tuple[str, ...] = ()
    """What a user should know, one sentence each, such as a missing chat template and what is done instead."""
    media: tuple[MediaType, ...] = ()
    """What a message may hold beside text, such as ``image/png``; empty: nothing else. A request with anything else is
    refused with a failure of the kind ``modality``."""
    weight_bytes: int = 0
    """Size of the weights on disk."""
    backend_version: str = ""
    sampling: GenerationOptions = GenerationOptions()
    """What the model's own files say of sampling (``generation_config.json``, a GGUF file's ``general.sampling.*``);
    it holds where a request says nothing."""


@runtime_checkable
class Generation(Protocol):
    """One reply on its way.

    Iterating yields parser outputs as they come and ends with exactly one ``Done``, whatever happens: errors are in
    ``Done.failure``. It can be iterated once. Leaving the loop early does not stop the model; call ``cancel``.
    """

    def __iter__(self) -> Iterator[Output | Done]: ...

    def __next__(self) -> Output | Done: ...

    def cancel(self) -> None:
        """Stop as soon as possible, during prefill too; the ``Done`` says ``"cancelled"``.

        May be called from any thread at any time and any number of times. After the end it does nothing.
        """


@runtime_checkable
class TextCounter(Protocol):
    """What a runtime offers besides where it has the model's own tokenizer, so that sessions know sizes exactly.

    A runtime that has no such method is no worse for it: sizes are estimated, and corrected by what replies report.
    """

    def count_texts(self, texts: Sequence[str]) -> Sequence[int]:
        """How many tokens each of these texts has by itself, as the content of a message: it can write no marker.

        May be called from any thread. Gives as many numbers as there are texts, or none where it can't count after all.

        Raises:
            RuntimeClosedError: after ``close()``.
        """


@runtime_checkable
class Runtime(Protocol):
    """A model that is loaded and ready."""

    def submit(self, request: ModelRequest) -> Generation:
        """Start a reply and return at once. Several may be submitted: they are made together where the backend can,
        else each waits for its turn.

        Raises:
            RuntimeClosedError: after ``close()``.
        """

    def count_tokens(self, request: ModelRequest) -> int:
        """How many tokens the prompt of this request has; equals ``usage.input_tokens`` of its reply.

        Raises:
            RuntimeClosedError: after ``close()``.
            MediaError: a message holds what the model does not take.
            TemplateError: the model's template refuses these messages.
        """

    def describe(self) -> ModelInfo:
        """What this runtime is made of. Works after ``close()`` too."""

    def close(self) -> None:
        """Cancel what runs, end what waits as cancelled, and free the model. A second call does nothing."""
