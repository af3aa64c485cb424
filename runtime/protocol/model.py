"""The protocol of every runtime: submit a request, receive outputs, cancel, count, describe, close.

A runtime owns one model. Callers pass and receive plain values; backend handles never leave the thread that owns the
model. ``submit`` may be called from any thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

from attrs import frozen

from cognition import Failure, FinishReason, GenerationOptions, MalformedToolCall, ModelRequest, ProposedCall, Usage
from cognition.base.protocols import AttributeProtocolMeta
from cognition.values.content import MediaType

if TYPE_CHECKING:
    from cognition.parsing import FormatSpec, Output


@frozen
class Timings:
    """Durations of a generation, in seconds of a monotonic clock."""

    prefill_seconds: float = 0.0
    """Time to evaluate the part of the prompt that was not cached."""
    decode_seconds: float = 0.0
    """Time from the end of prefill to the last token."""
    time_to_first_token: float | None = None
    """Time since ``submit``, including queueing and rendering; None if there was no token."""


@frozen
class Done:
    """The last item of a generation: the whole reply, why it ended, its cost."""

    tag: ClassVar[str] = "done"
    text: str
    """The visible reply: the text of all ``TextDelta`` items, joined."""
    reasoning: str
    calls: tuple[ProposedCall, ...]
    malformed: tuple[MalformedToolCall, ...]
    finish_reason: FinishReason
    usage: Usage
    timings: Timings
    failure: Failure | None = None
    """Set exactly when ``finish_reason`` is ``"error"``."""
    warnings: tuple[str, ...] = ()
    """Requested options that the model could not honour, one sentence each. Example: ``thinking=False`` for a template
    without such a switch.
    """
    continuation: str = ""
    """Data that the server wants back with the next request, such as signed reasoning; empty for a local model."""


@frozen
class ModelInfo:
    """A description of a runtime and its model."""

    name: str
    """The model's name from its metadata, else the name of its file or directory."""
    backend: str
    """Such as ``"llama.cpp"`` or ``"mlx"``."""
    path: str
    """The file or directory; empty for a remote model."""
    context_tokens: int
    """The maximum length of prompt and reply together."""
    format: FormatSpec
    """How the model marks reasoning and tool calls, derived from its template."""
    features: tuple[str, ...] = ()
    """Abilities of the model and its template. Possible values: ``tools``, ``system``, ``thinking``,
    ``thinking_option`` (reasoning can be switched on and off), ``prefix_reuse`` or ``snapshots``, ``saved_cache``,
    ``constrained_calls``, and ``estimated_counts`` if ``count_tokens`` only estimates.
    """
    warnings: tuple[str, ...] = ()
    """Warnings for the user, one sentence each, such as a missing chat template and its replacement."""
    media: tuple[MediaType, ...] = ()
    """Media types that a message may contain beside text, such as ``image/png``. Any other fails the request with the
    kind ``modality``.
    """
    weight_bytes: int = 0
    """Size of the weights on disk."""
    backend_version: str = ""
    sampling: GenerationOptions = GenerationOptions()
    """Sampling defaults from the model's own files (``generation_config.json``, a GGUF file's ``general.sampling.*``).
    They apply if the request sets no value.
    """
    priced: bool = True
    """Whether ``Usage.cost`` of its replies is right: it is free, has a price, or its server reports costs. Otherwise
    the cost is always 0, and a session with ``Limits(cost=)`` refuses it.
    """


@runtime_checkable
class Generation(Protocol, metaclass=AttributeProtocolMeta):
    """One reply in progress.

    Iterating yields parser outputs as they arrive and always ends with exactly one ``Done``; errors are in
    ``Done.failure``. It can be iterated once. Leaving the loop early does not stop the model; call ``cancel``.
    """

    def __iter__(self) -> Iterator[Output | Done]: ...

    def __next__(self) -> Output | Done: ...

    def cancel(self) -> None:
        """Stop as soon as possible, also during prefill; the ``Done`` has the reason ``"cancelled"``.

        May be called from any thread, at any time, repeatedly. After the end it does nothing.
        """


@runtime_checkable
class TextCounter(Protocol, metaclass=AttributeProtocolMeta):
    """Optional protocol of a runtime with the model's own tokenizer: it gives sessions exact sizes.

    Without it, sessions estimate sizes and correct them by the usage that replies report.
    """

    def count_texts(self, texts: Sequence[str]) -> Sequence[int]:
        """Return the token count of each text as message content; special tokens in it count as plain text.

        May be called from any thread. Returns one number per text, or an empty sequence if it cannot count.

        Raises:
            RuntimeClosedError: after ``close()``.
            TemplateError: the model's vocabulary can write a character of a text only as a special token.
        """


@runtime_checkable
class Runtime(Protocol, metaclass=AttributeProtocolMeta):
    """A loaded model, ready for requests."""

    def submit(self, request: ModelRequest) -> Generation:
        """Start a reply and return immediately. Several replies run in one batch if the backend can; otherwise they
        queue.

        Raises:
            RuntimeClosedError: after ``close()``.
        """

    def count_tokens(self, request: ModelRequest) -> int:
        """Return the number of prompt tokens of this request; equals ``usage.input_tokens`` of its reply.

        Raises:
            RuntimeClosedError: after ``close()``.
            MediaError: a message contains media that the model does not accept.
            TemplateError: the model's template rejects these messages.
        """

    def describe(self) -> ModelInfo:
        """Describe the runtime and its model. Also works after ``close()``."""

    def close(self) -> None:
        """Cancel running and queued requests and free the model. A second call does nothing."""
