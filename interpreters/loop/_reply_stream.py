"""A model's stream: the pieces for observers, and the final input for the engine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Final, Literal, Protocol, Self, TypeVar, get_args

from attrs import evolve

from cognition import (
    AgentConfig,
    CallModel,
    CognitiveEngine,
    CogstepError,
    Failure,
    FinishReason,
    ModelFailed,
    ModelInterrupted,
    ModelReplied,
    ToolSpec,
    Usage,
)
from cognition.base.display import shown_name
from cognition.parsing import Output, ReasoningDelta, TextDelta
from interpreters.loop._protocol_filter import ProtocolFilter
from interpreters.loop.clock import Clock
from interpreters.loop.mailbox_messages import Turn
from interpreters.loop.program.program import Program
from interpreters.observing.observers import Observers
from runtime.protocol.model import Done


class Cancellable(Protocol):
    """A model's stream, sync or async."""

    def cancel(self) -> None:
        """Stop as soon as possible. Does nothing after the end."""


Stream = TypeVar("Stream", bound=Cancellable)

Later = Callable[[float, Callable[[], None]], Cancellable]
"""Calls a function after a number of seconds."""

BROKEN_OFF = Failure("the model's stream broke off without an end")
"""Failure of a stream that ends without ``Done``, which runtimes must not do."""

FINISH_REASONS: tuple[FinishReason, ...] = get_args(FinishReason)

NO_USAGE = Usage()

PATIENCE = 5.0
"""Seconds that an expired model may take for its ``Done``, which reports the reply's usage."""


def offered_tools(engine: CognitiveEngine, program: Program) -> Iterable[ToolSpec]:
    """Return the tools offered to the model."""
    config = getattr(engine, "config", None)
    return config.offered if isinstance(config, AgentConfig) else [tool.spec for tool in program.tools.values()]


class ReplyFilter:
    """Filters the pieces of a reply in a text protocol for observers, without the syntax of the convention."""

    def __init__(self, protocol: Literal["short_keys", "tool_tags"], tools: Iterable[ToolSpec]) -> None:
        self._protocol: Final = protocol
        self._tools = {tool.name: tool for tool in tools}
        self._text = ProtocolFilter(protocol, self._tools)
        self._reasoning: ProtocolFilter | None = None

    def take(self, output: Output) -> Iterator[Output]:
        if isinstance(output, ReasoningDelta):
            if self._reasoning is None:
                self._reasoning = ProtocolFilter(self._protocol, self._tools, reasoning=True)
            yield from _text_output(ReasoningDelta, self._reasoning.feed(output.text))
            return
        yield from self._end_reasoning("stop")
        if isinstance(output, TextDelta):
            yield from _text_output(TextDelta, self._text.feed(output.text))
        else:
            yield output

    def finish(self, finish_reason: FinishReason) -> Iterator[Output]:
        """Yield the text that becomes visible at the end of the reply."""
        yield from self._end_reasoning(finish_reason)
        yield from _text_output(TextDelta, self._text.finish(finish_reason))

    def _end_reasoning(self, finish_reason: FinishReason) -> Iterator[Output]:
        if self._reasoning is not None:
            rest, self._reasoning = self._reasoning.finish(finish_reason), None
            yield from _text_output(ReasoningDelta, rest)


def _text_output(kind: type[TextDelta] | type[ReasoningDelta], text: str) -> Iterator[Output]:
    if text:
        yield kind(text)


class ReplyStream:
    """One streamed reply. It can be cancelled from anywhere, is shown as it arrives, and finally becomes an input.

    A summary is not shown, since it does not answer the user.

    Use it as a context around the loop that reads the stream. An exception of the runtime ends the loop and becomes the
    reply's failure. A ``CogstepError`` (a closed model, a script that does not fit) is the embedding program's fault
    and is raised.

    Args:
        effect: the request for the reply.
        observers: receive each piece; in a text protocol, its visible part.
        turn: run that waits for the reply.
        clock: measures the reply's time, if the effect sets a limit.
        told: for a reply in a text protocol, returns its visible part.
    """

    def __init__(
        self, effect: CallModel, observers: Observers, turn: Turn, clock: Clock, told: ReplyFilter | None
    ) -> None:
        self.effect: CallModel = effect
        self.turn: Turn = turn
        self.late: bool = False
        self._clock = clock
        self._deadline = None if effect.seconds is None else clock.monotonic() + effect.seconds
        self.unread: Usage = NO_USAGE
        """Usage of a cancelled reply, which no input reports."""
        self._observers = observers
        self._shown = effect.purpose != "summary"
        self._generation: Cancellable | None = None
        self._done: Done | None = None
        self._error: Exception | None = None
        self._seen: list[str] = []
        self._timer: Cancellable | None = None
        self._told = told

    @property
    def text(self) -> str:
        return "".join(self._seen)

    @property
    def open(self) -> bool:
        return self._generation is not None

    def cancel(self) -> None:
        """Stop the model. Safe from any thread or a signal handler."""
        generation = self._generation
        if generation is not None:
            generation.cancel()

    def expire(self) -> None:
        """Stop the model because its time is over. Safe from any thread."""
        self.late = True
        self.cancel()

    def watch(self, later: Later | None = None) -> Self:
        """Return the reply as a context that expires it after the effect's ``seconds``, even if the stream is silent.

        Args:
            later: ``call_later`` of an event loop; None uses a timer thread.
        """
        seconds = self.effect.seconds
        if seconds is not None:
            self._timer = (later or _in_thread)(seconds, self.expire)
        return self

    def begin(self, generation: Stream) -> Stream:
        """Return the stream to read. It is cancelled if the turn or the reply's time is already over."""
        self._generation = generation
        if self.turn.is_over() or self.late:  # asked for while it was submitted
            generation.cancel()
        return generation

    def take(self, output: Output | Done) -> bool:
        """Take one piece of the stream; return whether it was the last."""
        if isinstance(output, Done):
            self._done = output
            if self._told is not None and output.failure is None and output.finish_reason != "cancelled":
                for shown in self._told.finish(output.finish_reason):
                    self._show(shown)
            self._show_rest(output)
            self._observers.warn_once(output.warnings)
            return True
        if self.late:  # the end is waited for, which has all that comes until then
            return self._clock.monotonic() >= (self._deadline or 0.0) + PATIENCE
        for shown in (output,) if self._told is None else self._told.take(output):
            self._show(shown)
        if self._deadline is not None and self._clock.monotonic() >= self._deadline:
            self.expire()
        return False

    def _show_rest(self, done: Done) -> None:
        """Show the text between expiry and end in one piece, since it is part of the answer."""
        if not self.late or self._told is not None or self.turn.is_over():
            return
        shown = self.text
        if len(done.text) > len(shown) and done.text.startswith(shown):
            self._show(TextDelta(done.text[len(shown) :]))

    def _show(self, output: Output) -> None:
        if not self._shown:
            return
        if isinstance(output, TextDelta):
            self._seen.append(output.text)
        self._observers.emit(output)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if self._timer is not None:
            self._timer.cancel()
        if self._done is None:  # the stream is left in its middle
            self.cancel()
        self._generation = None
        if isinstance(error, Exception) and not isinstance(error, CogstepError):
            self._error = error
            return True
        return False

    def answer(self) -> ModelReplied | ModelFailed | ModelInterrupted | None:
        """Return the reply as an input; None if the turn was cancelled.

        The mailbox delivers the input of a cancellation.
        """
        done, effect_id = self._done, self.effect.effect_id
        if self.late and not self.turn.is_over() and (done is None or done.finish_reason in ("cancelled", "error")):
            used = NO_USAGE if done is None else done.usage
            text = self.text if done is None or self._told is not None else done.text
            return ModelInterrupted(effect_id, text, used, late=True)
        if self._error is not None:
            return ModelFailed(effect_id, Failure(f"{type(self._error).__name__}: {self._error}"), self._read)
        if done is None:
            return ModelFailed(effect_id, BROKEN_OFF, self._read)
        if self.turn.is_over():
            self.unread = done.usage
            return None
        if done.failure is not None:
            return ModelFailed(effect_id, done.failure, self._read, done.usage)
        if done.finish_reason not in FINISH_REASONS:  # recorded, it could not be read again
            known, odd = ", ".join(map(repr, FINISH_REASONS)), shown_name(str(done.finish_reason))
            said = f"the runtime says that its reply ended by {odd!r}, which is none of {known}"
            return ModelFailed(effect_id, Failure(said, "fatal"), self._read, done.usage)
        if done.finish_reason == "cancelled":
            return ModelInterrupted(effect_id, done.text if self._told is None else self.text, done.usage)
        reply = ModelReplied(
            effect_id,
            done.text,
            done.reasoning,
            done.calls,
            done.malformed,
            done.finish_reason,
            done.usage,
            continuation=done.continuation,
        )
        objection = self.turn.objection(reply) if self._shown and self.turn.objection is not None else ""
        return evolve(reply, objection=objection) if objection else reply

    @property
    def _read(self) -> str:
        """The text of a failed reply, as far as it was shown. Without observers it is empty: the request may be
        repeated.
        """
        return self.text if self._observers.shown else ""


def _in_thread(seconds: float, expire: Callable[[], None]) -> threading.Timer:
    timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), expire)
    timer.daemon = True
    timer.start()
    return timer
