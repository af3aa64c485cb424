"""Models whose replies a test defines, by a list or a function."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence, Sized
from inspect import isawaitable
from types import TracebackType
from typing import Any, Self

from cognition import (
    ConfigError,
    Failure,
    FinishReason,
    MalformedToolCall,
    ModelRequest,
    ProposedCall,
    Usage,
    UserMessage,
)
from cognition.context.summaries import REQUEST_ID
from cognition.parsing import (
    PLAIN,
    CallMalformed,
    Output,
    ReasoningDelta,
    TextDelta,
)
from cognition.values.content import MEDIA_TYPES, MediaType, images_of
from interpreters.testing.fakes.scripts import (
    Reply,
    ReplyStream,
    Script,
    Scripted,
    ScriptedGeneration,
    ScriptError,
    call_function,
    call_outputs,
    reply_of,
    script_fault,
)
from runtime.async_adapter import AsyncGeneration
from runtime.errors import RuntimeClosedError
from runtime.protocol.done import NO_TOKENS, done_of
from runtime.protocol.model import Done, Generation, ModelInfo

ALL_MEDIA = frozenset(MEDIA_TYPES)

WHOLE = (str, ProposedCall, Failure, Reply)
"""Types of complete replies, checked first: the check for awaitables takes five times as long."""


class FakeModel:
    """The common base of the fakes; a subclass defines the replies."""

    def __init__(self, *, context_tokens: int, name: str, media: Iterable[MediaType] = MEDIA_TYPES) -> None:
        self.requests: list[ModelRequest] = []
        """The requests so far, in order."""
        self._info = ModelInfo(name, "fake", "", context_tokens, PLAIN, ("tools", "system"), media=tuple(media))
        self._closed = False

    def count_tokens(self, request: ModelRequest) -> int:
        """Return about one token for four characters; good enough for a fake."""
        return sum(len(str(message)) for message in (request.system, *request.messages)) // 4

    def describe(self) -> ModelInfo:
        return self._info

    def close(self) -> None:
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeClosedError(self._info.name)

    def _refusal(self, request: ModelRequest | None) -> Failure | None:
        """Return the failure of any runtime for an unsupported picture; None if all pictures are supported."""
        if ALL_MEDIA.issubset(self._info.media):  # else each step would look at the whole of a long conversation
            return None
        for message in () if request is None else request.messages:
            for image in images_of(message.parts) if isinstance(message, UserMessage) and message.parts else ():
                if image.media_type not in self._info.media:
                    return Failure(f"{self._info.name!r} doesn't take {image}", kind="modality")
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.close()


class ReplyingModel(FakeModel, ABC):
    """A fake that has the whole reply to a request immediately."""

    def submit(self, request: ModelRequest) -> ScriptedGeneration:
        self._check_open()
        return ScriptedGeneration(self._whole_reply(request))

    def stream(self, request: ModelRequest) -> ScriptedGeneration:
        """``submit`` for asyncio: the reply exists already and needs no thread."""
        return self.submit(request)

    @abstractmethod
    def _whole_reply(self, request: ModelRequest) -> Reply:
        """Return the reply to a request, and add the request to ``requests``."""


SUMMARY = "TASK: as said before. PROGRESS: some of it. REMAINING: the rest. NEXT STEP: go on."


class ScriptedModel(ReplyingModel):
    """A runtime that returns scripted replies.

    >>> from interpreters.testing.fakes import call
    >>> model = ScriptedModel([call("multiply", a=17, b=23), "17 * 23 is 391."])

    Args:
        replies: the replies, in order. An iterator, such as ``itertools.cycle``, may be endless; a list must be used up
            before ``close()``, see below.
        context_tokens: the context length that it reports.
        name: the name that it reports.
        media: the images that it accepts; ``()`` for none, as most models. A request with any other image fails and
            uses no reply of the script.
        summary: the reply to a request for a summary of a long conversation, outside of the script; None uses the
            script's next reply.

    Attributes:
        summaries: the requests for summaries, which are not in ``requests``.

    A loaded model stays open when its agent closes. For a script, only ``close()`` detects unused replies, and a test
    that forgets to call it would pass. So the agent or host that gets a list of replies owns and closes it. If several
    agents share a list, open it with ``with``: it must then be used up at the end of the block.

    >>> from interpreters import Agent
    >>> with ScriptedModel(["Hello!", "Hello again!"]) as model:
    ...     for _ in range(2):
    ...         with Agent(model) as agent:
    ...             print(agent.run("Hi").text)
    Hello!
    Hello again!
    """

    def __init__(
        self,
        replies: Iterable[Script],
        *,
        context_tokens: int = 4096,
        name: str = "scripted",
        media: Iterable[MediaType] = MEDIA_TYPES,
        summary: str | None = SUMMARY,
    ) -> None:
        super().__init__(context_tokens=context_tokens, name=name, media=media)
        self.summaries: list[ModelRequest] = []
        self._summary = summary
        self._expected = len(replies) if isinstance(replies, Sized) else None
        self._replies = iter(replies)
        self._opened = False
        """Whether it was opened with ``with``, which closes it at the end of the block."""

    @property
    def ends_with_agent(self) -> bool:
        """Whether its agent or host closes it by default."""
        return self._expected is not None and not self._opened

    def __enter__(self) -> Self:
        self._opened = True
        return self

    def _check_open(self) -> None:
        if self._closed:
            what = f"the script {self._info.name!r} is closed, as it is with the agent that it was given to"
            hint = "where several use it, open it by `with` around all of them"
            raise RuntimeClosedError(self._info.name, f"{what}; {hint}")

    def _whole_reply(self, request: ModelRequest) -> Reply:
        if (refused := self._refusal(request)) is not None:
            return reply_of(refused)
        messages = getattr(request, "messages", ())  # a script may get None as a request
        if self._summary is not None and messages and messages[-1].id == REQUEST_ID:
            self.summaries.append(request)
            return reply_of(self._summary)
        try:
            entry = next(self._replies)
        except StopIteration:
            last = request.messages[-1] if len(request.messages) else UserMessage("", "(none)")
            raise ScriptError(
                f"the script ends after {len(self.requests)} replies, and the model was asked once more; "
                f"the last message was: {last!r}"
            ) from None
        self.requests.append(request)
        return reply_of(call_function(entry, request) if callable(entry) else entry)

    def close(self) -> None:
        """Close the script.

        Raises:
            ScriptError: replies of a list are unused.
        """
        if self._closed:
            return
        self._closed = True
        if self._expected is not None and len(self.requests) < self._expected:
            raise ScriptError(
                f"only {len(self.requests)} of the script's {self._expected} replies were asked for; "
                f"the next one is {next(self._replies)!r}"
            )


class GeneratedModel(ReplyingModel):
    """A runtime that returns some replies, and then repeats a final reply for ever.

    Hypothesis draws them (``generated_models``). The text it prints for a failing example creates the same model again,
    for a regression test.

    >>> model = GeneratedModel([Reply("Hello!")], then="Done.")
    >>> model
    GeneratedModel([Reply('Hello!')], then=Reply('Done.'))

    Attributes:
        served: the replies returned so far, in order; they correspond to ``requests``.
    """

    def __init__(
        self,
        replies: Sequence[Scripted],
        then: Scripted = "Done.",
        *,
        context_tokens: int = 4096,
        name: str = "generated",
    ) -> None:
        super().__init__(context_tokens=context_tokens, name=name)
        self.replies: tuple[Reply, ...] = tuple(reply_of(reply) for reply in replies)
        self.then: Reply = reply_of(then)
        self.served: list[Reply] = []

    def _whole_reply(self, request: ModelRequest) -> Reply:
        self.requests.append(request)
        position = len(self.served)
        reply = self.replies[position] if position < len(self.replies) else self.then
        self.served.append(reply)
        return reply

    def __repr__(self) -> str:
        return f"GeneratedModel({list(self.replies)!r}, then={self.then!r})"


Piece = str | ProposedCall | MalformedToolCall | ReasoningDelta | Usage | Failure
"""An item yielded by a streaming function: text, a call, an unreadable call, reasoning, a usage (their sum counts), or
finally a failure.
"""

Answering = Callable[[ModelRequest], Scripted | Iterator[Piece] | Awaitable[Scripted] | AsyncIterator[Piece]]


class FunctionModel(FakeModel):
    """A runtime whose replies come from a function of the requests.

    >>> def echo(request):
    ...     return f"You said: {request.messages[-1].text}"
    >>> model = FunctionModel(echo)

    The function may be of four kinds. A plain function returns the whole reply, as an entry of a script. A generator
    yields it in pieces; each piece is streamed before the next is requested. An ``async def`` of either kind is awaited
    in the event loop and needs an ``AsyncAgent``. An exception of the function passes through the agent as a
    ``ScriptError``, so that an assertion in it fails the test. For a failure of the model, return or yield a
    ``Failure``.
    """

    def __init__(
        self,
        function: Answering,
        *,
        context_tokens: int = 4096,
        name: str = "function",
        media: Iterable[MediaType] = MEDIA_TYPES,
    ) -> None:
        super().__init__(context_tokens=context_tokens, name=name, media=media)
        self._function = function

    def submit(self, request: ModelRequest) -> Generation:
        answer = self._answer(request)
        if isawaitable(answer) or isinstance(answer, AsyncIterator):
            if asyncio.iscoroutine(answer):
                answer.close()  # or Python warns that nobody awaited it
            raise ConfigError("this model's function is async, which needs an AsyncAgent; or write it as a plain def")
        return self._begin(answer)

    def stream(self, request: ModelRequest) -> AsyncGeneration:
        """``submit`` for asyncio, which allows an async function."""
        answer = self._answer(request)
        if isinstance(answer, WHOLE):
            return ScriptedGeneration(reply_of(answer))
        if isinstance(answer, AsyncIterator):
            return AsyncPieces(answer, self._function)
        if isawaitable(answer):
            return AwaitedReply(answer, self._function)
        return self._begin(answer)

    def _answer(self, request: ModelRequest) -> Any:
        self._check_open()
        if (refused := self._refusal(request)) is not None:
            return refused
        self.requests.append(request)
        return call_function(self._function, request)

    def _begin(self, answer: Any) -> ReplyStream:
        is_stream = isinstance(answer, Iterator) and not isinstance(answer, str | Sequence)
        return Pieces(answer, self._function) if is_stream else ScriptedGeneration(reply_of(answer))


class GrowingReply:
    """A reply that arrives in pieces: its parts so far."""

    def __init__(self) -> None:
        self._outputs: list[Output] = []
        self._calls = 0
        """The number of calls so far, including unreadable calls."""
        self._usage = NO_TOKENS
        self.failure: Failure | None = None

    def add(self, piece: Any) -> Sequence[Output]:
        """Return the outputs of a piece.

        Raises:
            ScriptError: it is not a ``Piece``.
        """
        outputs: Sequence[Output] = ()
        match piece:
            case str():
                outputs = [TextDelta(piece)] if piece else []
            case ReasoningDelta():
                outputs = [piece]
            case ProposedCall():
                outputs = call_outputs(self._calls, piece)
                self._calls += 1
            case MalformedToolCall():
                outputs = [CallMalformed(self._calls, piece)]
                self._calls += 1
            case Usage():
                self._usage += piece
            case Failure():
                self.failure = piece
            case _:
                raise ScriptError(f"a streaming function yields texts, calls, usage and the like, not {piece!r}")
        self._outputs += outputs
        return outputs

    def done(self, *, cancelled: bool = False) -> Done:
        failure = None if cancelled else self.failure
        reason: FinishReason = "cancelled" if cancelled else "error" if failure else "stop"
        return done_of(self._outputs, reason, failure, usage=self._usage)


class Pieces(ReplyStream):
    """A reply from a generator."""

    def __init__(self, source: Iterator[Piece], function: object) -> None:
        super().__init__(self._stream(source, function))

    def _stream(self, source: Iterator[Piece], function: object) -> Iterator[Output | Done]:
        reply = GrowingReply()
        try:
            while not self._cancelled and reply.failure is None:
                try:
                    piece = next(source)
                except StopIteration:
                    break
                except Exception as error:
                    raise script_fault(function, error) from error
                yield from reply.add(piece)
        finally:
            close = getattr(source, "close", None)  # a generator's own clean-up runs now and not at some later time
            if close is not None:
                close()
        yield reply.done(cancelled=self._cancelled)


class Interruptible:
    """Awaits a test's own function, and stops when the reply is cancelled, from any thread."""

    def __init__(self, function: object) -> None:
        self._function = function
        self._loop = asyncio.get_running_loop()
        self._cancelled = False
        self._task: asyncio.Task[Any] | None = None

    def __aiter__(self) -> Self:
        return self

    def cancel(self) -> None:
        self._cancelled = True
        self._loop.call_soon_threadsafe(self._interrupt)

    def _interrupt(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _await(self, work: Callable[[], Any]) -> Any:
        """Return the result of ``work``; None once cancelled. Its errors except StopAsyncIteration are raised as
        ScriptError.
        """

        async def run() -> Any:
            return await work()

        if self._cancelled:
            return None
        task = self._task = asyncio.create_task(run())
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task])
            raise
        if task.cancelled():
            return None
        error = task.exception()
        if isinstance(error, Exception) and not isinstance(error, StopAsyncIteration):
            raise script_fault(self._function, error) from error
        return task.result()


class AsyncPieces(Interruptible):
    def __init__(self, source: AsyncIterator[Piece], function: object) -> None:
        super().__init__(function)
        self._source = source
        self._reply = GrowingReply()
        self._ready: list[Output | Done] = []
        self._ended = False

    async def __anext__(self) -> Output | Done:
        while not self._ready:
            if self._ended:
                raise StopAsyncIteration
            await self._read()
        return self._ready.pop(0)

    async def _read(self) -> None:
        end = object()
        piece = await self._await(lambda: anext(self._source, end))
        if not self._cancelled and piece is not end:
            self._ready += self._reply.add(piece)
        if self._cancelled or piece is end or self._reply.failure is not None:
            self._ended = True
            close = getattr(self._source, "aclose", None)
            if close is not None:
                await close()
            self._ready.append(self._reply.done(cancelled=self._cancelled))


class AwaitedReply(Interruptible):
    """A reply from an ``async def``, returned as a whole."""

    def __init__(self, answer: Awaitable[Scripted], function: object) -> None:
        super().__init__(function)
        self._answer: Awaitable[Scripted] = answer
        self._reply: ScriptedGeneration | None = None

    async def __anext__(self) -> Output | Done:
        if self._reply is None:
            answer = await self._await(lambda: self._answer)
            self._reply = ScriptedGeneration(Reply() if answer is None and self._cancelled else reply_of(answer))
            if self._cancelled:
                self._reply.cancel()
        return await anext(self._reply)

    def cancel(self) -> None:
        super().cancel()
        if self._reply is not None:
            self._reply.cancel()
