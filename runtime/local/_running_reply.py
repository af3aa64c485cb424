"""One reply in progress: from sampled tokens to the caller's outputs and ``Done``.

It is a pipeline::

    Done ◀─ outputs ◀─ parser ◀─ stop texts ◀─ UTF-8 decoder ◀─ piece ◀─ guide ◀─ sampled token

Beside it, prompt-lookup drafting guesses that the last tokens continue as they did at their last occurrence. This often
holds in tool loops, where arguments and answers repeat results and questions. A guess costs a row in a batch. The model
predicts the token after each guess: correct guesses save steps, wrong guesses change nothing, since sampling stops at
the first. Comparing with the sampled token is exact at any temperature. Source: prompt lookup decoding,
https://github.com/apoorvumang/prompt-lookup-decoding.
"""

from __future__ import annotations

import codecs
import time
from array import array
from collections.abc import Callable, Iterable, Sequence

from attrs import Factory, define, field

from cognition import Failure, FinishReason, ModelRequest, Usage
from cognition.parsing import Output, Parser
from runtime.constrained.guide import Guide
from runtime.constrained.schema import SchemaError
from runtime.errors import ConstraintError, MediaError, TemplateError
from runtime.local.stops import StopFilter
from runtime.protocol.backend import InferenceBackend, Sampler
from runtime.protocol.done import done_of
from runtime.protocol.model import Done, Timings
from runtime.protocol.sampling import with_own

SHOWN_EVERY = 1 / 50
"""Minimum seconds between two deliveries of text, for fast models. Users do not read faster; parsing each token alone
and waking the reader for it took 2 % of a token's time.
"""

NO_TOKEN = -1
"""Placeholder for a missing token."""


LOOKED_UP = 8
"""Number of last tokens to look up. When quoting, a third of the guesses was correct with three, and the reply took
longer than without; with eight it was two thirds (``benchmarks/drafting.py``).
"""

FIRST, MOST = 8, 16
"""Initial and maximum number of guesses. A batch of two takes a CPU twice as long as one token, and each further token
half of that: so a few guesses are not worth it.
"""

LONGEST_PAUSE = 32
"""Maximum tokens without guessing after a completely wrong guess: 1 at first, doubled each time."""

WIDTH = array("i").itemsize


class PromptLookup:
    """The guesses for one reply; they depend only on its tokens.

    Args:
        prompt: its tokens.
    """

    def __init__(self, prompt: Iterable[int]) -> None:
        self._tokens = bytearray(array("i", prompt).tobytes())
        self._size = FIRST
        self._wrong = 0
        """Consecutive guesses without a correct token."""
        self._pause = 0

    def append(self, tokens: Sequence[int], guessed: int) -> None:
        """Record the reply's next tokens. All but the last were among the ``guessed`` guesses."""
        self._tokens += array("i", tokens).tobytes()
        confirmed = len(tokens) - 1
        if not guessed:
            self._pause = max(0, self._pause - 1)
        elif confirmed:
            self._wrong = 0
            self._size = min(2 * self._size, MOST) if confirmed == guessed else confirmed + 1
        else:
            self._size = FIRST
            self._pause = min(2**self._wrong, LONGEST_PAUSE)
            self._wrong += 1

    def guess(self) -> Sequence[int]:
        """Return the likely next tokens; empty during a pause, or if the last tokens have not occurred before."""
        if self._pause:
            return ()
        at = self._find()
        if at is None:
            return ()
        followed = array("i", bytes(self._tokens[at : at + self._size * WIDTH]))
        # What came last time goes up to here, and then perhaps round again.
        return (followed * (self._size // len(followed) + 1))[: self._size]

    def _find(self) -> int | None:
        """Return the byte offset after the previous occurrence of the last tokens."""
        end = len(self._tokens) - WIDTH  # so that one token at least follows
        if end < LOOKED_UP * WIDTH:
            return None
        needle = self._tokens[-LOOKED_UP * WIDTH :]
        while (at := self._tokens.rfind(needle, 0, end)) >= 0:
            if at % WIDTH == 0:
                return at + len(needle)
            end = at + len(needle) - 1  # across the bounds of tokens: further back
        return None


@define(eq=False)
class RunningReply:
    """The state of one reply in progress; ``runtime.local.engine`` drives it."""

    request: ModelRequest
    stopped: Callable[[], bool]
    """Returns whether the caller has cancelled the reply; may be called on any thread."""
    emit: Callable[[Output], None]
    finish: Callable[[Done], None]
    submitted: float
    """When the caller submitted it; all times are on the monotonic clock."""
    parser: Parser
    guide: Guide | None = None
    prompt: list[int] = field(factory=list)
    warnings: tuple[str, ...] = ()
    """Requested options that the prompt could not express."""
    boundaries: tuple[int, ...] = ()
    """Prefix lengths of the prompt that are worth a snapshot."""
    limit: int = 0
    lookup: PromptLookup | None = None
    """Guesses the next tokens; None without guessing."""
    over: FinishReason | None = None
    failure: Failure | None = None
    _backend: InferenceBackend | None = None
    _sampler: Sampler | None = None
    _reused: int = 0
    _generated: int = 0
    _began: float = 0.0
    _prefilled: float | None = None
    """When the prompt was evaluated. This and the next two are None before."""
    _first_token: float | None = None
    _last_token: float | None = None
    _tokens: list[int] = field(factory=list)
    """Sampled tokens that are not decoded so far."""
    _text: str = ""
    """Decoded text that is not delivered so far."""
    _outputs: list[Output] = field(factory=list)
    _decoder: codecs.IncrementalDecoder = field(factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"))
    _stops: StopFilter = Factory(lambda self: StopFilter(self.request.options.stop), takes_self=True)
    end_tokens: frozenset[int] = frozenset()
    """Control tokens that end the reply by its format, in addition to those that the model's files name."""

    def begin(self, backend: InferenceBackend, reused: int) -> None:
        """Begin in a sequence that contains the first ``reused`` tokens of the prompt.

        A reply that was evicted and begins again continues with its sampler, its guide and its output so far.
        """
        if self._sampler is not None:
            return
        self._backend = backend
        self._sampler = backend.sampler(with_own(self.request.options, backend.metadata.sampling))
        self._reused, self._began = reused, time.monotonic()
        self.lookup = PromptLookup(self.prompt) if backend.limits.guesses else None

    def take_tokens(self, row: int, guesses: Sequence[int] = ()) -> list[int]:
        """Sample the next tokens from the logits at rows of the last batch, and deliver their text.

        Each token is sampled as without guesses, so the reply is the same; a correct guess saves a step. ``over`` is
        set if the last token ends the reply.

        Args:
            row: the first row.
            guesses: the guessed tokens evaluated after it.

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
        """Sample the next token, like ``take_tokens`` without guesses. ``show`` delivers its text.

        Args:
            row: of the last batch.
            now: when the batch was evaluated.
        """
        backend, sampler, guide = self._backend, self._sampler, self.guide
        assert backend is not None  # it has begun
        assert sampler is not None
        try:
            while True:
                token = backend.sample(row, sampler, None if guide is None else guide.allowed_tokens())
                ends = backend.is_end(token) or token in self.end_tokens
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
        """Deliver the text of all tokens so far."""
        self._decode()
        text, self._text = self._text, ""
        if text:
            try:
                self._pass_on(self.parser.feed(text))
            except Exception as error:
                self._fail(error)

    def end(self, reason: FinishReason, failure: Failure | None = None) -> None:
        """End the reply: deliver the buffered text, then its ``Done``."""
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
    """Return the ``Failure`` for an error that ended a reply."""
    if isinstance(error, MediaError):
        return Failure(str(error), kind="modality")
    known = isinstance(error, TemplateError | ConstraintError | SchemaError)  # their messages say it all
    return Failure(str(error) if known else f"{type(error).__name__}: {error}", kind="fatal")
