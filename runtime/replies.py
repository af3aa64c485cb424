"""One reply in the making: from sampled tokens to the outputs that a caller sees, and to its ``Done``.

Its way is that of a pipe::

    Done ◀─ outputs ◀─ parser ◀─ stop texts ◀─ UTF-8 decoder ◀─ piece ◀─ guide ◀─ sampled token
"""

from __future__ import annotations

import codecs
import time
from collections.abc import Callable, Iterable, Sequence

from attrs import define, field

from cognition import Failure, FinishReason, ModelRequest, Usage
from cognition.parsing import Output, Parser, collect
from runtime.backend import Backend, Sampler
from runtime.constrained.guide import Guide
from runtime.drafting import Lookup
from runtime.protocol import Done, Timings
from runtime.stops import StopFilter


@define(eq=False)
class Reply:
    """The state of one reply while it is made. What happens to it is told by ``runtime.local``."""

    request: ModelRequest
    stopped: Callable[[], bool]
    """Whether the caller wants no more of it; may be asked on any thread."""
    emit: Callable[[Output], None]
    finish: Callable[[Done], None]
    submitted: float
    """When the caller asked, on the monotonic clock."""
    parser: Parser
    guide: Guide | None = None
    prompt: list[int] = field(factory=list)
    boundaries: tuple[int, ...] = ()
    """Of the prompt, where snapshots are worth it."""
    limit: int = 0
    """Tokens that it may have at the most."""
    sampler: Sampler | None = None
    lookup: Lookup | None = None
    """Guesses how it goes on; None for no guesses."""
    _reused: int = 0
    _generated: int = 0
    _began: float = 0.0
    _prefilled: float | None = None
    """When the model had evaluated the prompt, on the monotonic clock; as the others, None until then."""
    _first_token: float | None = None
    _last_token: float | None = None
    _outputs: list[Output] = field(factory=list)
    _decoder: codecs.IncrementalDecoder = field(factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"))
    _stops: StopFilter = field(init=False)

    @_stops.default
    def _no_stop_yet(self) -> StopFilter:
        return StopFilter(self.request.options.stop)

    def begin(self, sampler: Sampler, reused: int, lookup: Lookup | None = None) -> None:
        """It has a sequence that holds the first ``reused`` tokens of its prompt."""
        self.sampler, self._reused, self._began, self.lookup = sampler, reused, time.monotonic(), lookup

    def go_on(
        self, backend: Backend, row: int, guesses: Sequence[int] = ()
    ) -> tuple[Sequence[int], FinishReason | None]:
        """Sample the next tokens, from what the model says at places of the last batch, and read them.

        Each is sampled as it would be without guesses, so that the reply is the same; a guess that it is equal to has
        saved a step.

        Args:
            backend: that evaluated the batch.
            row: the first place.
            guesses: what was evaluated behind it.

        Returns:
            The tokens, one at least: all but the last were guessed. And why the last one was the last of the reply;
            None when it goes on.
        """
        if self._prefilled is None:
            self._prefilled = time.monotonic()
        tokens: list[int] = []
        reason = None
        for place, guess in enumerate((*guesses, None)):
            token, reason = self._next(backend, row + place)
            tokens.append(token)
            if reason is not None or token != guess:
                break
        self._last_token = time.monotonic()
        if self._first_token is None:
            self._first_token = self._last_token
        if self.lookup is not None:
            self.lookup.said(tokens, len(guesses))
        return tokens, reason

    def _next(self, backend: Backend, row: int) -> tuple[int, FinishReason | None]:
        token, piece = self._sample(backend, row)
        self._generated += 1
        if piece is None:
            return token, "stop"
        self._read(self._stops.feed(self._decoder.decode(piece)))
        if self._stops.hit:
            return token, "stop"
        return token, "length" if self._generated >= self.limit else None

    def _sample(self, backend: Backend, row: int) -> tuple[int, bytes | None]:
        """The next token and what it says; None if it ends the reply."""
        assert self.sampler is not None  # it has begun
        while True:
            token = backend.sample(row, self.sampler, None if self.guide is None else self.guide.allowed())
            if backend.is_end(token):
                return token, None
            piece = backend.piece(token)
            if self.guide is None or self.guide.accept(token, piece):
                return token, piece

    def end(self, reason: FinishReason, failure: Failure | None = None) -> None:
        """It is over: what was held back comes out, and then its ``Done``."""
        if self.sampler is not None:
            self.sampler.close()
            self.sampler = None
        if failure is None:
            self._read(self._stops.feed(self._decoder.decode(b"", final=True)) + self._stops.finish())
        self._pass_on(self.parser.finish(reason))
        reply = collect(self._outputs)
        if reason == "stop" and reply.tool_calls:
            reason = "tool_calls"
        prefilled, last, first = self._prefilled, self._last_token, self._first_token
        timings = Timings(
            prefill_seconds=0.0 if prefilled is None else prefilled - self._began,
            decode_seconds=0.0 if prefilled is None or last is None else last - prefilled,
            time_to_first_token=None if first is None else first - self.submitted,
        )
        self.finish(
            Done(
                text=reply.text,
                reasoning=reply.reasoning,
                calls=reply.tool_calls,
                malformed=reply.malformed,
                finish_reason=reason,
                usage=Usage(len(self.prompt), self._generated, self._reused),
                timings=timings,
                failure=failure,
            )
        )

    def _read(self, text: str) -> None:
        """Give the parser more of the reply, and what it makes of it to the caller."""
        if text:
            self._pass_on(self.parser.feed(text))

    def _pass_on(self, outputs: Iterable[Output]) -> None:
        for output in outputs:
            self._outputs.append(output)
            self.emit(output)
