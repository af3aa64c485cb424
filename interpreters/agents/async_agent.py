"""The asyncio version of ``Agent``, with a turn's events as an async stream."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, ClassVar, Generic, NoReturn, Self, TypeVar, cast, overload

from cognition import CogstepError, Compacted, CompactionAsked, ConfigError, Input, NotCompacted, SessionReset
from interpreters.agents._other_words import unknown_option
from interpreters.agents.base_agent import BEHIND, CLOSE_SECONDS, LOG, BaseAgent, close_quietly_after
from interpreters.agents.results import ResultT_co, RunResult
from interpreters.agents.session_builder import NO_TYPE, start_of_turn, user_input
from interpreters.agents.structured_answers import PartialAnswer, StructuredResult
from interpreters.loop.aio import AsyncInterpreter
from interpreters.loop.program.message_content import Content
from interpreters.loop.program.program import is_closed_with
from interpreters.observing.async_delivery import Tasks
from interpreters.observing.events import Event, Inline
from interpreters.tools.offloading import OBSERVER_THREADS, THREADS, run_in_new_thread, run_to_end
from runtime.async_adapter import is_async
from runtime.checking import checked_call

T = TypeVar("T")

STREAMED = "a stream is opened by `async with` and read by `async for`; without an event loop, use Agent.stream"


class AsyncAgent(BaseAgent):
    """A conversation with a model that may call your tools, in an event loop. A loop can serve thousands of agents.

    Takes the arguments of ``Agent``. Tools and all other callbacks may be ``async def``; plain functions run on
    threads, so that they don't block the loop.

    >>> import asyncio
    >>> from interpreters import AsyncAgent, fakes, tool
    >>> @tool
    ... async def multiply(a: int, b: int) -> int:
    ...     '''Multiply two whole numbers.'''
    ...     return a * b
    >>> async def main() -> str:
    ...     model = fakes.ScriptedModel([fakes.call("multiply", a=17, b=23), "17 * 23 is 391."])
    ...     async with AsyncAgent(model, tools=[multiply]) as agent:
    ...         return (await agent.run("What is 17 * 23?")).text
    >>> asyncio.run(main())
    '17 * 23 is 391.'
    """

    _kind = AsyncInterpreter
    _delivery: ClassVar[Mapping[str, Any]] = {"threads": OBSERVER_THREADS, "tasks": Tasks}
    _interpreter: AsyncInterpreter

    @overload
    async def run(self, text: Content) -> RunResult: ...
    @overload
    async def run(self, text: Content, *, returns: type[T]) -> StructuredResult[T]: ...
    @overload
    async def run(self, text: Content, *, returns: Any) -> StructuredResult[Any]: ...
    async def run(self, text: Content, *, returns: Any = NO_TYPE, **unknown: Any) -> RunResult:
        """Send a user message and await the end of the turn.

        Failures of the turn itself do not raise: they are in the result's ``outcome``. Cancelling the awaiting task
        (``asyncio.timeout`` too) ends the turn as cancelled; the conversation can continue. If a person or an outside
        program has to answer, the turn stays open: see ``pending``.

        Args:
            text: the message: a text, or a list of texts and images.
            returns: the type of the answer, read into ``result.value``: an attrs class, dataclass or TypedDict, or any
                other type that a tool's parameter may have. The model may call tools before it answers.

        Raises:
            ConfigError: ``returns`` has no JSON form, or ``text`` is not a message.
            MediaError: the model doesn't accept such images.
            SystemPromptError: the function that makes the system prompt failed.
            BusyError: another turn is running.
            PendingError: the previous turn waits for answers.
            AgentClosedError: after ``close()``.
            JournalWriteError: the recording can't be continued.
        """
        if unknown:
            raise unknown_option("AsyncAgent.run", unknown)
        await self._ready()
        await self._interpreter.run(user_input(text, returns), self._turn(returns))
        return self._result(self._interpreter.began, returns)

    @overload
    async def resume_turn(self) -> RunResult: ...
    @overload
    async def resume_turn(self, *, returns: type[T]) -> StructuredResult[T]: ...
    @overload
    async def resume_turn(self, *, returns: Any) -> StructuredResult[Any]: ...
    async def resume_turn(self, *, returns: Any = NO_TYPE) -> RunResult:
        """Continue the interrupted turn to its end, as ``Agent.resume_turn`` does."""
        await self._ready()
        self._check_interrupted()
        return await self._hand_in(None, returns)

    @overload
    async def answer(self, effect_id: str, answer: Any) -> RunResult: ...
    @overload
    async def answer(self, effect_id: str, answer: Any, *, returns: type[T]) -> StructuredResult[T]: ...
    @overload
    async def answer(self, effect_id: str, answer: Any, *, returns: Any) -> StructuredResult[Any]: ...
    @checked_call
    async def answer(self, effect_id: str, answer: Any, *, returns: Any = NO_TYPE) -> RunResult:
        """Answer a pending effect of the open turn, as ``Agent.answer`` does."""
        await self._ready()
        return await self._hand_in(self._answer_input(effect_id, answer), returns)

    async def _hand_in(self, event: Input | None, returns: Any) -> RunResult:
        returns = self._resolve_returns(returns)
        await self._interpreter.run(event, self._turn(returns))
        return self._result(start_of_turn(self.state), returns)

    @overload
    def stream(self, text: Content) -> EventStream: ...
    @overload
    def stream(self, text: Content, *, returns: type[T]) -> EventStream[StructuredResult[T]]: ...
    @overload
    def stream(self, text: Content, *, returns: Any) -> EventStream[StructuredResult[Any]]: ...
    def stream(self, text: Content, *, returns: Any = NO_TYPE, **unknown: Any) -> EventStream:
        """Send a user message and iterate over the turn's events as they arrive; same arguments and errors as ``run``:

            async with agent.stream("Tell me a story.") as events:
                async for event in events:
                    ...
            print(events.result.text)

        A slow reader delays the model. Leaving the block early cancels the turn and awaits its end.
        """
        if unknown:
            raise unknown_option("AsyncAgent.stream", unknown)
        return EventStream(self, text, returns)

    async def reset(self) -> None:
        """Forget the conversation. Approvals and refusals that the user gave "from now on" remain."""
        await self._ready()
        await self._interpreter.run(SessionReset())

    async def compact(self) -> Compacted | NotCompacted:
        """Have the model summarise the conversation so far, as ``Agent.compact`` does."""
        await self._ready()
        self._check_between_turns()
        await self._interpreter.run(CompactionAsked())
        return self._compaction_result()

    async def _ready(self) -> None:
        """Wait until changes made between turns are on disk.

        Raises:
            AgentClosedError: the agent is closed, or was closed during the wait.
        """
        self._check_open()
        await self._interpreter.ready()
        self._check_open()

    async def close(self) -> None:
        """Stop all running work, end the recording, and close the model if ``owns_model`` is true. A second call does
        nothing.

        A turn that waits for an answer stays pending in the recording (see ``resume``); any other running turn is
        cancelled.

        If the awaiting task is cancelled, the turn is still closed in the recording and all resources are released. The
        cancellation is then raised again.
        """
        if self._closed:
            return
        self._closed = True
        try:
            await self._end_turn("the agent was closed")
            if (tasks := self._interpreter.observers.tasks) is not None:
                await tasks.close()
        finally:
            self._interpreter.dispose()
            self._interpreter.observers.close()
            try:
                if self._journal is not None and self._journal.may_wait:
                    await run_to_end(self._journal.close)
                elif self._journal is not None:
                    self._journal.close()
            finally:
                THREADS.dismiss()
                if is_closed_with(self.model, self._owns_model):
                    if is_async(self.model):
                        self.model.close()
                    else:  # its thread is waited for
                        await run_in_new_thread(self.model.close)

    async def _end_turn(self, reason: str) -> None:
        """Stop the running turn and close it in the recording, also if this task is cancelled."""
        self._interpreter.suspend(reason)
        cancelled: asyncio.CancelledError | None = None
        wait: Callable[[], Awaitable[None]] = self._interpreter.wait_until_ended
        while True:
            try:
                await wait()
                if not (self._resting or self._interpreter.current_turn):  # what rests, may be resumed again
                    await self._interpreter.close_unless_resumable(reason)
                break
            except asyncio.CancelledError as error:  # nobody waits any more for tasks that don't heed it
                cancelled = error
                wait = partial(self._interpreter.wait_until_closed, CLOSE_SECONDS)
            except CogstepError:
                if cancelled is None:
                    raise
                LOG.warning("while closing the agent, which was cancelled", exc_info=True)
                break
        if cancelled is not None:
            raise cancelled

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with close_quietly_after(error):
            await self.close()

    def __enter__(self) -> NoReturn:
        raise ConfigError("an AsyncAgent is opened by `async with`; without an event loop, use Agent")

    def __exit__(self, *_: object) -> None: ...


class EventStream(Generic[ResultT_co]):
    """A turn's events as they arrive, and its result."""

    def __init__(self, agent: AsyncAgent, text: Content, returns: Any = NO_TYPE) -> None:
        self._agent = agent
        self._text = text
        self._returns = returns
        self._events: deque[Event] = deque()
        self._changed = asyncio.Event()
        """Set when an event was added or taken, or the turn ended."""
        self._task: asyncio.Task[ResultT_co] | None = None
        self._taker: Inline | None = None
        """The observer that refers to this stream. It is dropped at the end, so that agent and stream can be freed."""

    @property
    def result(self) -> ResultT_co:
        """The value ``run`` would have returned; available when the stream has ended.

        Raises:
            CogstepError: the stream has not ended yet.
        """
        if self._task is None or not self._task.done():
            raise CogstepError("the turn has not ended yet; read the stream to its end first")
        return self._task.result()

    async def __aenter__(self) -> Self:
        if self._task is not None:
            raise CogstepError("a stream can be read once; make another one for another turn")
        self._taker = Inline(self._take)
        self._agent._interpreter.observers.add(self._taker)
        self._agent._interpreter.room = self._room
        run = self._agent.run(self._text, returns=self._returns)
        self._task = cast("asyncio.Task[ResultT_co]", asyncio.create_task(run))
        self._task.add_done_callback(lambda _: self._changed.set())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        task = self._task
        taker, self._taker = self._taker, None
        assert task is not None
        assert taker is not None
        self._agent._interpreter.room = None
        self._events.clear()
        self._changed.set()  # the model waits for nobody any more
        if isinstance(error, asyncio.CancelledError):  # as where `run` is awaited: what waits for an answer is kept
            task.cancel()
        elif not task.done():
            self._agent.cancel("the stream was left")
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task])
            raise
        finally:
            self._agent._interpreter.observers.remove(taker)
        if error is None:
            task.result()  # what the turn raised

    def __enter__(self) -> NoReturn:
        raise ConfigError(STREAMED)

    def __exit__(self, *_: object) -> None: ...

    def __iter__(self) -> NoReturn:
        raise ConfigError(STREAMED)

    def __aiter__(self) -> Self:
        return self

    async def partials(self) -> AsyncIterator[Any]:
        """Yield partial values of a structured answer instead of events; see ``TurnEvents.partials``."""
        answer = PartialAnswer()
        async for event in self:
            for value in answer.take(event):
                yield value

    async def __anext__(self) -> Event:
        if self._task is None:
            raise CogstepError("a stream is read within `async with agent.stream(...) as events:`")
        while not self._events:
            if self._task.done():
                self._task.result()  # raises what the turn raised
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        event = self._events.popleft()
        self._changed.set()
        return event

    def _take(self, event: Event) -> None:
        self._events.append(event)
        self._changed.set()

    async def _room(self) -> None:
        while len(self._events) >= BEHIND and self._agent._interpreter.room is not None:
            self._changed.clear()
            await self._changed.wait()
