"""The measurements of ``cogstep bench``, and the formatting of figures.

Uses only the interface of ``runtime``, so it works for any backend: rates come from the timings of replies, cache reuse
from their usage. Prompts are generated, and begin with unique words if a cache must not help.
"""

from __future__ import annotations

import argparse
import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import count
from statistics import median

from attrs import frozen

from cognition import AssistantMessage, GenerationOptions, History, Message, ModelRequest, UserMessage
from interpreters.cli._errors import CommandError
from interpreters.cli.options.model_options import load_options
from interpreters.cli.screen.terminal import StatusLine, bar
from runtime import Done, Generation, LoadProgress, Runtime, load_model

WORDS = "the agent reads a file and writes what it found into the next one".split()

GO_ON = "Count from one to one thousand in words, one number after another, and leave none out."
"""A question with an answer longer than any measured reply. If a model ends early, it is asked again."""

BEGIN, AND_THEN = "What do you do first?", "And then?"

MOST_REPLIES = 16
"""Replies for one figure at most, if a model ends early."""


@frozen
class Figure:
    """One measured value, as a line."""

    name: str
    value: str
    note: str = ""


def per_second(number: float, seconds: float) -> float:
    """Return a rate; 0 if no time has passed by the clock."""
    return number / seconds if seconds > 0 else 0.0


def short(value: float) -> str:
    """Format a figure with two or three significant digits: 0.043, 2.1, 27.3, 1250."""
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 0.995 else f"{value:.2g}"


def size(number: float) -> str:
    """Format bytes in decimal units: ``639 MB``."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if number >= scale:
            return f"{short(number / scale)} {unit}"
    return f"{number:.0f} B"


def peak_memory() -> int | None:
    """Return the peak memory of this process in bytes; None if the system does not report it."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


@frozen
class MeasurementReport:
    """All measured values. Rates are in tokens per second, times in seconds, memory in bytes."""

    model: str
    backend: str
    backend_version: str
    context_tokens: int
    load_seconds: float
    prompt_tokens: int
    """Tokens of the prompt evaluated without a cache."""
    prefill_rate: float
    decode_tokens: int
    """Tokens of the replies for ``decode_rate``."""
    decode_rate: float
    first_token_cold: float
    first_token_warm: float
    """Time to the first token of the next message in the same conversation."""
    warm_prompt_tokens: int
    reused_tokens: int
    """How many of ``warm_prompt_tokens`` were in the cache."""
    sessions: int
    sessions_rate: float
    """Reply tokens per second of all sessions together, from the first message to the end of the last reply. Includes
    prompt evaluation.
    """
    session_rate: float
    """The same rate for one session that has the model to itself."""
    weight_bytes: int
    peak_bytes: int | None
    """Peak memory of the whole process, including Python; None if the system does not report it."""


def measure(options: argparse.Namespace, show: Callable[[Figure], None], status: StatusLine) -> MeasurementReport:
    """Load the model and measure every figure, in display order."""

    def progress(progress: LoadProgress) -> None:
        status.show(bar("downloading" if progress.stage == "download" else "loading", progress.fraction))

    began = time.monotonic()
    model = load_model(options.model, isolate=bool(options.isolate), **load_options(options, progress))
    loaded = time.monotonic() - began
    try:
        info = model.describe()
        show(Figure("loading", f"{loaded:.2f} s", f"{info.name}, {info.backend} ({info.backend_version})"))
        measured = Measurement(model, options.prompt, options.tokens, options.rounds, status)
        cold, warm = measured.first_tokens()
        prompt = round(median(done.usage.input_tokens for done in cold))
        new = [done.usage.input_tokens - done.usage.reused_tokens for done in cold]
        rate = median(per_second(number, done.timings.prefill_seconds) for number, done in zip(new, cold, strict=True))
        show(Figure("prefill", f"{short(rate)} tokens/s", f"of a prompt of {prompt} tokens"))
        decoded, seconds = measured.decode()
        show(Figure("decode", f"{short(decoded / seconds)} tokens/s", f"over {decoded} tokens"))
        first, second = (median(done.timings.time_to_first_token or 0.0 for done in each) for each in (cold, warm))
        again, reused = warm[-1].usage.input_tokens, warm[-1].usage.reused_tokens
        show(Figure("first token, cold", f"{short(1000 * first)} ms", "nothing of the prompt in the cache"))
        of_warm = f"{reused} of {again} tokens of the prompt reused"
        show(Figure("first token, warm", f"{short(1000 * second)} ms", of_warm))
        alone, together = measured.sessions(options.sessions)
        times = f"all together, prompts included; {short(together / alone)} x one alone"
        show(Figure(f"{options.sessions} sessions", f"{short(together)} tokens/s", times))
        peak = peak_memory()
        whole = f"weights; the whole process took {size(peak)}" if peak else "weights"
        show(Figure("memory", size(info.weight_bytes), whole))
    finally:
        status.clear()
        model.close()
    return MeasurementReport(
        info.name, info.backend, info.backend_version, info.context_tokens, loaded, prompt, rate, decoded,
        decoded / seconds, first, second, again, reused, options.sessions, together, alone, info.weight_bytes, peak,
    )  # fmt: skip


class Measurement:
    """Measures replies of a model."""

    def __init__(self, model: Runtime, prompt: int, tokens: int, rounds: int, status: StatusLine) -> None:
        self._model, self._status = model, status
        self._tokens, self._rounds = tokens, rounds
        self._labels = count(1)
        context = model.describe().context_tokens
        room = context - 2 * tokens - 64
        if room < 32:
            told = f"a context of {context} tokens leaves no room for replies of {tokens}; ask for fewer --tokens"
            raise CommandError(told)
        self._prompt = min(prompt, room)
        self._words = self._as_many_words()

    def first_tokens(self) -> tuple[list[Done], list[Done]]:
        """Return replies to new prompts, and for each a reply to the next message of the same conversation."""
        cold, warm = [], []
        # Pages of the weights, buffers of the backend.
        self._finish(self._ask(self._conversation(self._words, BEGIN), 1))
        for number in range(self._rounds):
            self._status.spin(f"a prompt of {self._prompt} tokens, {number + 1} of {self._rounds}")
            begun = self._conversation(self._words, BEGIN)
            cold.append(self._finish(self._ask(begun, min(16, self._tokens))))
            said = AssistantMessage("a1", cold[-1].text)
            warm.append(self._finish(self._ask((*begun, said, UserMessage("m2", AND_THEN)), 1)))
        return cold, warm

    def decode(self) -> tuple[int, float]:
        """Return the number of tokens after the first token of each reply, and their seconds."""
        self._status.spin(f"replies of {self._tokens} tokens")
        tokens, seconds = 0, 0.0
        for _ in range(MOST_REPLIES):
            done = self._finish(self._ask(self._conversation(GO_ON, ""), self._tokens))
            if done.usage.output_tokens > 1:
                tokens += done.usage.output_tokens - 1
                seconds += done.timings.decode_seconds
            if tokens >= (self._tokens - 1) * self._rounds:
                break
        if not tokens:
            raise CommandError("the model ends every reply at its first token, so there is nothing to time")
        return tokens, seconds

    def sessions(self, number: int) -> tuple[float, float]:
        """Return the tokens per second of one session alone and of ``number`` sessions together (medians of the
        rounds).
        """
        alone, together = [], []
        for place in range(self._rounds):
            self._status.spin(f"{number} sessions at once, {place + 1} of {self._rounds}")
            alone.append(self._rate(1))
            together.append(self._rate(number))
        return median(alone), median(together)

    def _rate(self, number: int) -> float:
        began = time.monotonic()
        replies = [self._ask(self._conversation(GO_ON, ""), self._tokens) for _ in range(number)]
        tokens = sum(self._finish(reply).usage.output_tokens for reply in replies)
        return per_second(tokens, time.monotonic() - began)

    def _conversation(self, words: str, ask: str) -> tuple[Message, ...]:
        """Return a conversation that begins uniquely: with the time too, since a cache may outlive its process."""
        label = f"{next(self._labels):04d}-{time.time_ns() % 10**9:09d}"
        return (UserMessage("m1", f"{label} {words}\n{ask}"),)

    def _ask(self, messages: Sequence[Message], tokens: int) -> Generation:
        return self._model.submit(_request(messages, tokens))

    def _finish(self, generation: Generation) -> Done:
        *_, done = generation
        assert isinstance(done, Done)  # what every generation ends with
        if done.failure is not None:
            raise CommandError(f"the model failed: {done.failure.message}")
        return done

    def _as_many_words(self) -> str:
        """Return words for a prompt of the wanted length, or a few tokens less."""

        def tokens(number: int) -> int:
            return self._model.count_tokens(_request(self._conversation(_words(number), BEGIN), 1))

        # One word in any case, and each further one that is not too much.
        return _words(1 + bisect_right(range(2, 2 * self._prompt + 1), self._prompt, key=tokens))


def _request(messages: Sequence[Message], tokens: int) -> ModelRequest:
    return ModelRequest("", History(tuple(messages)), (), GenerationOptions(max_tokens=tokens))


def _words(number: int) -> str:
    return " ".join(WORDS[place % len(WORDS)] for place in range(number))
