"""Models, clocks and users for tests: scripted, instant, and strict about being used as scripted.

    model = ScriptedModel([call("multiply", a=17, b=23), "17 * 23 is 391."])

answers the first request with a call and the second one with a text. A third request, and a reply that nobody asked
for, are errors. Nothing sleeps and no thread is started: a turn on it measures the interpreter and nothing else.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import Future
from functools import cached_property, lru_cache
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, TypeVar

from attrs import field, frozen

from cognition import (
    CogstepError,
    Failure,
    FinishReason,
    MalformedToolCall,
    ModelRequest,
    ProposedCall,
    Usage,
    UserMessage,
)
from cognition.parsing import (
    PLAIN,
    ArgumentsDelta,
    CallFinished,
    CallMalformed,
    CallStarted,
    Output,
    ReasoningDelta,
    TextDelta,
)
from interpreters.approvals import Answer, ApprovalRequest
from interpreters.clock import LONGEST_WAIT, SystemClock
from interpreters.threads import in_thread
from runtime.errors import RuntimeClosedError
from runtime.protocol import Done, ModelInfo, Timings

Letter = TypeVar("Letter")

NO_TIME = Timings()
NO_TOKENS = Usage()


class ScriptError(CogstepError):
    """A script and what happened don't fit together. It passes through the agent, so that the test fails with it."""


class Hold:
    """A place in a reply where the model stops until it is let go or cancelled.

    >>> hold = Hold()
    >>> model = ScriptedModel([Reply("Let me think", hold=hold)])

    A test waits for ``hold.reached`` on its own thread, does what it is about, and calls ``hold.release()``.
    """

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._gate: SimpleQueue[None] = SimpleQueue()  # its put() is safe in a signal handler, an Event's set() is not

    def release(self) -> None:
        self._gate.put(None)

    def wait(self) -> None:
        self.reached.set()
        while True:
            try:
                return self._gate.get(timeout=LONGEST_WAIT)
            except Empty:  # the next wait lets a signal's handler in, see LONGEST_WAIT
                pass


def _calls(value: ProposedCall | Iterable[ProposedCall]) -> tuple[ProposedCall, ...]:
    return (value,) if isinstance(value, ProposedCall) else tuple(value)


@frozen
class Reply:
    """One reply in full. A text, a call, several calls or a ``Failure`` may stand for it in a script."""

    text: str = ""
    calls: tuple[ProposedCall, ...] = field(default=(), converter=_calls)
    reasoning: str = field(default="", kw_only=True)
    malformed: tuple[MalformedToolCall, ...] = field(default=(), kw_only=True)
    failure: Failure | None = field(default=None, kw_only=True)
    usage: Usage = field(default=NO_TOKENS, kw_only=True)
    finish_reason: FinishReason | None = field(default=None, kw_only=True)
    """None: what fits the rest."""
    chunk: int = field(default=0, kw_only=True)
    """Characters of text in one delta; 0 for all at once."""
    hold: Hold | None = field(default=None, kw_only=True)
    """Stops after the text and before the calls and the end."""

    @cached_property
    def outputs(self) -> tuple[Output | None, ...]:
        """What it streams before its end; None where it holds."""
        step = self.chunk or len(self.text) or 1
        calls: list[Output] = []
        for index, proposed in enumerate(self.calls):
            calls += CallStarted(index, proposed.name), ArgumentsDelta(index, proposed.arguments_json)
            calls.append(CallFinished(index, proposed))
        calls += (CallMalformed(index, item) for index, item in enumerate(self.malformed, len(self.calls)))
        return (
            *([ReasoningDelta(self.reasoning)] if self.reasoning else []),
            *(TextDelta(self.text[start : start + step]) for start in range(0, len(self.text), step)),
            None,
            *calls,
        )

    @cached_property
    def done(self) -> Done:
        """Its end, if nobody cancels it."""
        reason: FinishReason = "error" if self.failure is not None else "tool_calls" if self.calls else "stop"
        reason = self.finish_reason or reason
        return Done(self.text, self.reasoning, self.calls, self.malformed, reason, self.usage, NO_TIME, self.failure)


Scripted = str | ProposedCall | Sequence[ProposedCall] | Failure | Reply
Script = Scripted | Callable[[ModelRequest], Scripted]
"""One entry of a script; a function sees the request and gives the reply."""


def call(name: str, /, **arguments: Any) -> ProposedCall:
    """A tool call for a script: ``call("multiply", a=17, b=23)``."""
    return ProposedCall(name, arguments)


def reply_of(entry: Scripted) -> Reply:
    """An entry of a script as a reply in full."""
    if isinstance(entry, Reply):
        return entry
    return _short(entry) if isinstance(entry, str | ProposedCall) else _long(entry)


@lru_cache
def _short(entry: str | ProposedCall) -> Reply:
    """Remembered, since scripts repeat themselves: a turn of a benchmark takes 8 microseconds less by it."""
    return Reply(entry) if isinstance(entry, str) else Reply(calls=entry)


def _long(entry: Sequence[ProposedCall] | Failure) -> Reply:
    return Reply(failure=entry) if isinstance(entry, Failure) else Reply(calls=entry)


class ScriptedGeneration:
    """A reply as a stream, to be iterated or awaited."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._cancelled = False
        self._items = self._stream()

    def __iter__(self) -> Iterator[Output | Done]:
        return self

    def __next__(self) -> Output | Done:
        while isinstance(item := next(self._items), Hold):
            item.wait()
        return item

    def __aiter__(self) -> ScriptedGeneration:
        return self

    async def __anext__(self) -> Output | Done:
        for item in self._items:
            if not isinstance(item, Hold):
                return item
            await in_thread(item.wait)
        raise StopAsyncIteration

    def cancel(self) -> None:
        self._cancelled = True
        if self._reply.hold is not None:
            self._reply.hold.release()

    def _stream(self) -> Iterator[Output | Done | Hold]:
        reply, shown, finished = self._reply, 0, 0
        for output in reply.outputs:
            if output is None and reply.hold is not None and not self._cancelled:
                yield reply.hold
            if self._cancelled:
                break
            if output is None:
                continue
            if isinstance(output, TextDelta):
                shown += len(output.text)
            elif isinstance(output, CallFinished):
                finished += 1
            yield output
        if self._cancelled:
            text, calls = reply.text[:shown], reply.calls[:finished]
            yield Done(text, reply.reasoning, calls, (), "cancelled", reply.usage, NO_TIME)
        else:
            yield reply.done


class ScriptedModel:
    """A runtime that says what it is told to say.

    Args:
        replies: what it answers, in order. An iterator, such as ``itertools.cycle``, may be endless; of a list every
            reply has to be asked for before ``close()``.
        context_tokens: what it says of itself.
    """

    def __init__(self, replies: Iterable[Script], *, context_tokens: int = 4096, name: str = "scripted") -> None:
        self.requests: list[ModelRequest] = []
        """What was asked, in order."""
        self._expected = len(replies) if isinstance(replies, Sized) else None
        self._replies = iter(replies)
        self._info = ModelInfo(name, "fake", "", context_tokens, PLAIN, ("tools", "system"))
        self._closed = False

    def submit(self, request: ModelRequest) -> ScriptedGeneration:
        if self._closed:
            raise RuntimeClosedError(self._info.name)
        try:
            entry = next(self._replies)
        except StopIteration:
            raise ScriptError(
                f"the script ends after {len(self.requests)} replies, and the model was asked once more; "
                f"the last message was: {_last(request)}"
            ) from None
        self.requests.append(request)
        return ScriptedGeneration(reply_of(entry(request) if callable(entry) else entry))

    def stream(self, request: ModelRequest) -> ScriptedGeneration:
        """``submit`` under asyncio: what is scripted needs no thread."""
        return self.submit(request)

    def count_tokens(self, request: ModelRequest) -> int:
        """About one token for four characters of what is said; good enough for a fake."""
        return sum(len(str(message)) for message in (request.system, *request.messages)) // 4

    def describe(self) -> ModelInfo:
        return self._info

    def close(self) -> None:
        """End.

        Raises:
            ScriptError: replies of a list were never asked for.
        """
        if self._closed:
            return
        self._closed = True
        if self._expected is not None and len(self.requests) < self._expected:
            raise ScriptError(
                f"only {len(self.requests)} of the script's {self._expected} replies were asked for; "
                f"the next one is {next(self._replies)!r}"
            )

    def __enter__(self) -> ScriptedModel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.close()


def _last(request: ModelRequest) -> str:
    message = request.messages[-1] if len(request.messages) else UserMessage("", "(none)")
    return repr(message)


ROUNDS = 10
"""Rounds of the event loop in which tasks that only await each other come to their end before time passes."""


class FakeClock:
    """A clock that stands still until somebody waits: then the time has passed at once. For both interpreters."""

    def __init__(self, start: float = 0.0) -> None:
        self.now = start
        self.waits: list[float] = []
        """Seconds of each wait."""

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now

    def receive(self, mailbox: SimpleQueue[Letter], seconds: float | None) -> Letter | None:
        if seconds is None:  # no time limit: only another thread can end this wait
            return SystemClock().receive(mailbox, None)
        try:
            return mailbox.get_nowait()
        except Empty:
            self._pass(seconds)
            return None

    async def wait(self, wake: asyncio.Future[None], seconds: float | None) -> None:
        if seconds is None:
            await wake
            return
        for _ in range(ROUNDS):
            if wake.done():
                return
            await asyncio.sleep(0)
        self._pass(seconds)

    def _pass(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += max(seconds, 0.0)


class ScriptedApprovals:
    """A user who answers as told: ``Agent(..., approve=ScriptedApprovals([True, Approval(False, "too risky")]))``."""

    def __init__(self, answers: Iterable[Answer | Future[Answer]]) -> None:
        self.requests: list[ApprovalRequest] = []
        """What was asked, in order."""
        self._answers = iter(answers)

    def __call__(self, request: ApprovalRequest) -> Answer | Future[Answer]:
        self.requests.append(request)
        try:
            return next(self._answers)
        except StopIteration:
            raise ScriptError(
                f"the script has {len(self.requests) - 1} approvals, and one more was asked for: {request.call!r}"
            ) from None
