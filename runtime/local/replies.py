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
from cognition.parsing import Output, Parser
from runtime.backend import Backend, Sampler
from runtime.constrained.guide import Guide
from runtime.constrained.schema import SchemaError
from runtime.ending import done_of
from runtime.errors import ConstraintError, MediaError, TemplateError
from runtime.local.drafting import Lookup
from runtime.local.stops import StopFilter
from runtime.protocol import Done, Timings
from runtime.sampling import with_own

SHOWN_EVERY = 1 / 50
"""Seconds between two looks of a caller at a reply, where the model is faster than that. Nobody reads faster; to parse
each token alone and wake whoever waits for it took a fiftieth of the time of a token."""

NO_TOKEN = -1
"""Stands where there is no token."""


@define(eq=False)
class RunningReply:
    """The state of one reply while it is made; ``runtime.local.engine`` drives it."""

    request: ModelRequest
    stopped: Callable[[], bool]
    """Whether the caller wants no more of the reply; may be called on any thread."""
    emit: Callable[[Output], None]
    finish: Callable[[Done], None]
    submitted: float
    """When the caller asked, on the monotonic clock; so are the other times."""
    parser: Parser
    guide: Guide | None = None
    prompt: list[int] = field(factory=list)
    warnings: tuple[str, ...] = ()
    """What the request asked for and the prompt does not have."""
    boundaries: tuple[int, ...] = ()
    """The lengths of beginnings of the prompt at which snapshots are worth it."""
    limit: int = 0
    """The most tokens that the reply may have."""
    lookup: Lookup | None = None
    """Guesses the next tokens; None where there are no guesses."""
    over: FinishReason | None = None
    """Why the reply has ended; None while it goes on."""
    failure: Failure | None = None
    """The failure that ended the reply, if one did."""
    _backend: Backend | None = None
    _sampler: Sampler | None = None
    _reused: int = 0
    _generated: int = 0
    _began: float = 0.0
    _prefilled: float | None = None
    """When the model had evaluated the prompt. This and the two below are None until then."""
    _first_token: float | None = None
    _last_token: float | None = None
    _tokens: list[int] = field(factory=list)
    """Tokens that were sampled and not decoded yet."""
    _text: str = ""
    """Text that was decoded and not shown yet."""
    _outputs: list[Output] = field(factory=list)
    _decoder: codecs.IncrementalDecoder = field(factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"))
    _stops: StopFilter = field(init=False)

    @_stops.default
    def _no_stop_yet(self) -> StopFilter:
        return StopFilter(self.request.options.stop)

    def begin(self, backend: Backend, reused: int) -> None:
        """Begin in a sequence that holds the first ``reused`` tokens of the prompt.

        A reply that was pushed out and begins again goes on as it was: with its sampler, its guide and all it has said.
        """
        if self._sampler is not None:
            return
        self._backend, self._sampler = (
            backend,
            backend.sampler(with_own(self.request.options, backend.metadata.sampling)),
        )
        self._reused, self._began = reused, time.monotonic()
        self.lookup = Lookup(self.prompt) if backend.limits.guesses else None

    def take_tokens(self, row: int, guesses: Sequence[int] = ()) -> list[int]:
        """Sample the next tokens from the logits at rows of the last batch, and show their text.

        Each token is sampled as it would be without guesses, so that the reply is the same; a guess that equals it has
        saved a step. ``over`` tells whether the last token ends the reply.

        Args:
            row: the first row.
            guesses: the tokens that were evaluated behind it.

        Returns:
            The tokens, at least one; all but the last were guessed.
        """
        now = time.monotonic()
        if self._prefilled is None:
            self._prefilled = now
        tokens = [self.next(row, now)]
        for place, guess in enumerate(guesses, start=row + 1):
            if self.over is not None or tokens[-1] != guess:
                break
            tokens.append(self.next(place, now))
        if self._first_token is None:
            self._first_token = time.monotonic()
        if self.lookup is not None:
            self.lookup.append(tokens, len(guesses))
        self.show()
        return tokens

    def next(self, row: int, now: float) -> int:
        """Sample the next token, as ``take_tokens`` does without guesses. Showing its text is left to ``show``.

        Args:
            row: of the last batch.
            now: when the batch was evaluated.
        """
        backend, sampler, guide = self._backend, self._sampler, self.guide
        assert backend is not None  # it has begun
        assert sampler is not None
        try:
            while True:
                token = backend.sample(row, sampler, None if guide is None else guide.allowed())
                ends = backend.is_end(token)
                if ends or guide is None or guide.accept(token, backend.piece(token)):
                    break
        except Exception as error:  # of its sampler or its guide: other replies go on
            self._fail(error)
            return NO_TOKEN
        self._generated += 1
        self._last_token = now
        if ends:
            self.over = "stop"
            return token
        self._tokens.append(token)
        if self._generated >= self.limit:
            self.over = "length"
        if self._stops.stops:  # otherwise the text of its tokens does not matter yet
            self._decode()
            if self._stops.hit:
                self.over = "stop"
        return token

    def show(self) -> None:
        """Give the caller the text of all tokens so far."""
        self._decode()
        text, self._text = self._text, ""
        if text:
            try:
                self._pass_on(self.parser.feed(text))
            except Exception as error:
                self._fail(error)

    def end(self, reason: FinishReason, failure: Failure | None = None) -> None:
        """End the reply: what was held back comes out, and then its ``Done``."""
        if self._sampler is not None:
            self._sampler.close()
            self._sampler = None
        if failure is None:
            self._decode(final=True)
            self._text += self._stops.finish()
        self.show()
        if self.failure is not None:  # perhaps only now
            reason, failure = "error", self.failure
        self._pass_on(self.parser.finish(reason))
        prefilled, last, first = self._prefilled, self._last_token, self._first_token
        timings = Timings(
            prefill_seconds=0.0 if prefilled is None else prefilled - self._began,
            decode_seconds=0.0 if prefilled is None or last is None else last - prefilled,
            time_to_first_token=None if first is None else first - self.submitted,
        )
        usage = Usage(len(self.prompt), self._generated, self._reused)
        self.finish(done_of(self._outputs, reason, failure, usage=usage, timings=timings, warnings=self.warnings))

    def _decode(self, *, final: bool = False) -> None:
        """Decode the tokens, up to a stop text."""
        backend = self._backend
        data = b"" if backend is None else b"".join([backend.piece(token) for token in self._tokens])
        self._tokens.clear()
        self._text += self._stops.feed(self._decoder.decode(data, final))

    def _pass_on(self, outputs: Iterable[Output]) -> None:
        for output in outputs:
            self._outputs.append(output)
            self.emit(output)

    def _fail(self, error: Exception) -> None:
        self.over, self.failure = "error", failure_of(error)


def failure_of(error: Exception) -> Failure:
    """The failure that a reply's ``Done`` carries for an error that ended it."""
    if isinstance(error, MediaError):
        return Failure(str(error), kind="modality")
    known = isinstance(error, TemplateError | ConstraintError | SchemaError)  # their messages say it all
    return Failure(str(error) if known else f"{type(error).__name__}: {error}", kind="fatal")
