"""Scripts of a test: replies of a model and how they stream, and answers of a user."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import cached_property, lru_cache
from queue import Empty, SimpleQueue
from typing import Any, Generic, Self, TypeVar

from attrs import field, fields, frozen

from cognition import CogstepError, Failure, FinishReason, MalformedToolCall, ModelRequest, ProposedCall, Usage
from cognition.parsing import (
    ArgumentsDelta,
    CallFinished,
    CallMalformed,
    CallStarted,
    Output,
    ReasoningDelta,
    TextDelta,
)
from interpreters.loop.clock import LONGEST_WAIT
from interpreters.loop.program.approvals import Answer, ApprovalRequest
from interpreters.loop.program.questions import Chosen, PlanAnswer, PlanRequest, QuestionRequest
from interpreters.tools.offloading import run_in_thread
from runtime.protocol.done import NO_TIME, NO_TOKENS, done_of
from runtime.protocol.model import Done

Request = TypeVar("Request")
Reaction = TypeVar("Reaction")


class ScriptError(CogstepError):
    """A script does not match the events. The error passes through the agent, so that the test fails with it."""


class Hold:
    """A stop in a reply: the model waits there until it is released or cancelled.

    >>> hold = Hold()
    >>> reply = Reply("Let me think", hold=hold)

    A test waits for ``hold.reached`` on its own thread, does its work, and calls ``hold.release()``.
    """

    def __init__(self) -> None:
        self.reached: threading.Event = threading.Event()
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


def call_outputs(index: int, proposed: ProposedCall) -> tuple[Output, ...]:
    """Return the outputs of a call that arrives as a whole."""
    arguments = ArgumentsDelta(index, proposed.arguments_json)
    return CallStarted(index, proposed.name), arguments, CallFinished(index, proposed)


@frozen(repr=False)
class Reply:
    """A complete reply. In a script, a text, a call, several calls or a ``Failure`` is a short form of it."""

    text: str = ""
    calls: tuple[ProposedCall, ...] = field(default=(), converter=_calls)
    reasoning: str = field(default="", kw_only=True)
    malformed: tuple[MalformedToolCall, ...] = field(default=(), kw_only=True)
    failure: Failure | None = field(default=None, kw_only=True)
    crash: Exception | None = field(default=None, kw_only=True)
    """An exception raised instead of the end, as by a faulty runtime."""
    usage: Usage = field(default=NO_TOKENS, kw_only=True)
    finish_reason: FinishReason | None = field(default=None, kw_only=True)
    """None means ``error`` with a failure, ``tool_calls`` with calls, otherwise ``stop``."""
    chunk: int = field(default=0, kw_only=True)
    """The number of characters per delta; 0 for the whole text in one."""
    hold: Hold | None = field(default=None, kw_only=True)
    """Stops the reply until it is released: after the text, before the calls and the end."""

    @cached_property
    def outputs(self) -> tuple[Output | None, ...]:
        """The outputs before its end, with None at the place of the hold."""
        step = self.chunk or len(self.text) or 1
        calls: list[Output] = []
        for index, proposed in enumerate(self.calls):
            calls += call_outputs(index, proposed)
        calls += (CallMalformed(index, item) for index, item in enumerate(self.malformed, len(self.calls)))
        return (
            *([ReasoningDelta(self.reasoning)] if self.reasoning else []),
            *(TextDelta(self.text[start : start + step]) for start in range(0, len(self.text), step)),
            None,
            *calls,
        )

    @cached_property
    def done(self) -> Done:
        """The end of the reply if it is not cancelled."""
        reason: FinishReason = "error" if self.failure is not None else "tool_calls" if self.calls else "stop"
        reason = self.finish_reason or reason
        return Done(self.text, self.reasoning, self.calls, self.malformed, reason, self.usage, NO_TIME, self.failure)

    def __repr__(self) -> str:
        """Return it as written in a script, without default values."""
        shown = []
        for one in fields(Reply):
            value = getattr(self, one.name)
            if value != one.default:
                shown.append(repr(value) if one.name == "text" else f"{one.name}={value!r}")
        return f"Reply({', '.join(shown)})"


Scripted = str | ProposedCall | Sequence[ProposedCall] | Failure | Reply
Script = Scripted | Callable[[ModelRequest], Scripted]
"""An entry of a script; a function receives the request and returns the reply."""


def call(name: str, /, **arguments: Any) -> ProposedCall:
    """Return a tool call for a script: ``call("multiply", a=17, b=23)``."""
    return ProposedCall(name, arguments)


def reply_of(entry: Scripted) -> Reply:
    if isinstance(entry, Reply):
        return entry
    return _short(entry) if isinstance(entry, str | ProposedCall) else _long(entry)


@lru_cache
def _short(entry: str | ProposedCall) -> Reply:
    """Cached, since scripts repeat themselves: this saves 8 us per turn in a benchmark."""
    return Reply(entry) if isinstance(entry, str) else Reply(calls=entry)


def _long(entry: Sequence[ProposedCall] | Failure) -> Reply:
    return Reply(failure=entry) if isinstance(entry, Failure) else Reply(calls=entry)


class ReplyStream:
    """A reply as a stream, to iterate or await. Each item is requested only when it is needed."""

    def __init__(self, items: Iterator[Output | Done | Hold]) -> None:
        self._items = items
        self._cancelled = False

    def __iter__(self) -> Iterator[Output | Done]:
        return self

    def __next__(self) -> Output | Done:
        while isinstance(item := next(self._items), Hold):
            item.wait()
        return item

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Output | Done:
        for item in self._items:
            if not isinstance(item, Hold):
                return item
            await run_in_thread(item.wait)
        raise StopAsyncIteration

    def cancel(self) -> None:
        self._cancelled = True


class ScriptedGeneration(ReplyStream):
    """The stream of a complete reply."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(self._stream())
        self._reply = reply

    def cancel(self) -> None:
        super().cancel()
        if self._reply.hold is not None:
            self._reply.hold.release()

    def _stream(self) -> Iterator[Output | Done | Hold]:
        reply = self._reply
        shown: list[Output] = []
        for output in reply.outputs:
            if output is None and reply.hold is not None and not self._cancelled:
                yield reply.hold
            if self._cancelled:
                break
            if output is None:
                continue
            shown.append(output)
            yield output
        if self._cancelled:
            yield done_of(shown, "cancelled", usage=reply.usage)
        elif reply.crash is not None:
            raise reply.crash
        else:
            yield reply.done


def call_function(function: Callable[[ModelRequest], Any], request: ModelRequest) -> Any:
    """Return the reply of a test's own function to a request.

    Raises:
        ScriptError: the function raised an exception. An agent treats an exception of a runtime as a failed call and
            would retry a failed assertion, so it is wrapped.
    """
    try:
        return function(request)
    except CogstepError:
        raise
    except Exception as error:
        raise script_fault(function, error) from error


def script_fault(function: object, error: Exception) -> ScriptError:
    name = getattr(function, "__name__", type(function).__name__)
    return ScriptError(f"the script's function {name} raised {type(error).__name__}: {error}")


# -------------------------------------------------------------------------------------------------- scripted users


class _ScriptedUser(Generic[Request, Reaction]):
    """Answers in order; a question beyond the script is an error that ends the test."""

    _what = "answers"

    def __init__(self, answers: Iterable[Reaction | Future[Reaction]]) -> None:
        self.requests: list[Request] = []
        """The requests so far, in order."""
        self._answers = iter(answers)

    def __call__(self, request: Request) -> Reaction | Future[Reaction]:
        self.requests.append(request)
        try:
            return next(self._answers)
        except StopIteration:
            raise ScriptError(
                f"the script has {len(self.requests) - 1} {self._what}, and one more was asked for: {request!r}"
            ) from None


class ScriptedApprovals(_ScriptedUser[ApprovalRequest, Answer]):
    """``Agent(..., approve=ScriptedApprovals([True, Approval(False, "too risky")]))``."""

    _what = "approvals"


class ScriptedAnswers(_ScriptedUser[QuestionRequest, Chosen]):
    """Answers to the model's questions: ``ask=ScriptedAnswers([["red"], None])``; None means that the user does not
    answer.
    """


class ScriptedReviews(_ScriptedUser[PlanRequest, bool | PlanAnswer]):
    """Reviews of the model's plans: ``review=ScriptedReviews([PlanAnswer(False, "shorter, please"), True])``."""

    _what = "reviews"
