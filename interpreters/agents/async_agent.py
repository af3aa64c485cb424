"""The small door under asyncio: ``Agent`` awaited, with a turn's events as a stream."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, ClassVar, NoReturn, TypeVar, overload

from cognition import CogstepError, Compacted, CompactionAsked, ConfigError, NotCompacted, SessionReset
from interpreters.agents.answers import StructuredResult
from interpreters.agents.assembly import NO_TYPE, start_of_turn, user_input
from interpreters.agents.base import CLOSE_SECONDS, LOG, BaseAgent, closing_after
from interpreters.agents.partial import PartialAnswer
from interpreters.agents.results import RunResult
from interpreters.aio import AsyncInterpreter
from interpreters.observing.delivery_tasks import Tasks
from interpreters.observing.events import Event, Inline
from interpreters.program.content import Content
from interpreters.program.owning import closed_with
from interpreters.threads.offloading import OBSERVER_THREADS, THREADS, on_its_own_thread, to_its_end
from runtime.awaiting import awaits
from runtime.checking import checked_call

T = TypeVar("T")

BEHIND = 64
"""Events that a reader of a stream may be behind before the model waits for it: some lines of text."""

STREAMED = "a stream is opened by `async with` and read by `async for`; without an event loop, use Agent.stream"


class AsyncAgent(BaseAgent):
    """A conversation with a model that may call your tools, in an event loop. Thousands of them fit into one.

    Takes what ``Agent`` takes. Tools, and whatever else the agent calls, may be ``async def``; plain functions run on
    threads, so that nothing blocks the loop.

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
    async def run(self, text: Content, *, returns: Any = NO_TYPE) -> RunResult:
        """Say something and await the end of the turn. What goes wrong in it is in the result's ``outcome``.

        Cancelling the task that awaits this (``asyncio.timeout`` too) ends the turn as cancelled; the conversation can
        go on. Where a person or the program outside is asked something, the turn stays open: see ``pending``.

        Args:
            text: what the user says: a text, or a list of texts and images.
            returns: the type of the answer, which is then in ``result.value``: an attrs class, dataclass or TypedDict,
                or any other type that a tool's parameter may have. The model may call tools before it answers.

        Raises:
            ConfigError: JSON has no form for ``returns``, or ``text`` is no message.
            MediaError: the model doesn't take such images.
            SystemPromptError: the function that makes the system prompt failed.
            BusyError: another turn is under way.
            PendingError: the turn before waits for answers.
            AgentClosedError: after ``close()``.
            JournalWriteError: the recording can't go on.
        """
        await self._ready()
        await self._interpreter.run(user_input(text, returns), self._turn(returns))
        return self._result(self._interpreter.began, returns)

    async def go_on(self, *, returns: Any = NO_TYPE) -> RunResult:
        """Carry the interrupted turn to its end, as ``Agent.go_on`` does."""
        await self._ready()
        began = self._interrupted_at()
        returns = self._awaited(returns)
        await self._interpreter.run(None, self._turn(returns))
        return self._result(began, returns)

    @checked_call
    async def answer(self, effect_id: str, answer: Any, *, returns: Any = NO_TYPE) -> RunResult:
        """Hand in what the open turn waits for, as ``Agent.answer`` does."""
        await self._ready()
        event, returns = self._answering(effect_id, answer), self._awaited(returns)
        await self._interpreter.run(event, self._turn(returns))
        return self._result(start_of_turn(self.state), returns)

    def stream(self, text: Content, *, returns: Any = NO_TYPE) -> EventStream:
        """Say something and read the turn's events as they come; takes and raises what ``run`` does:

            async with agent.stream("Tell me a story.") as events:
                async for event in events:
                    ...
            print(events.result.text)

        A reader that is slow holds the model up. Leaving the block early cancels the turn and awaits its end.
        """
        return EventStream(self, text, returns)

    async def reset(self) -> None:
        """Forget the conversation. What the user allowed or refused "from now on" stays."""
        await self._ready()
        await self._interpreter.run(SessionReset())

    async def compact(self) -> Compacted | NotCompacted:
        """Have the model summarise the conversation so far, as ``Agent.compact`` does."""
        await self._ready()
        self._check_between_turns()
        await self._interpreter.run(CompactionAsked())
        return self._compacted()

    async def _ready(self) -> None:
        """What was set between turns may have to wait for the disk, and the agent may be closed meanwhile."""
        self._check_open()
        await self._interpreter.ready()
        self._check_open()

    async def close(self) -> None:
        """Stop what runs, end the recording, and close the model if ``owns_model`` says so. A second call does nothing.

        What waits for an answer stays pending on file (``resume``); any other turn under way is cancelled.

        If the task that awaits this is cancelled, the turn is closed on file and all is let go of nonetheless, and the
        cancellation goes on.
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
                await self._close_journal()
            finally:
                THREADS.dismiss()
                if closed_with(self.model, self._owns_model):
                    await self._close_model()

    async def _end_turn(self, reason: str) -> None:
        """Stop the turn under way and close it on file, whatever is cancelled meanwhile."""
        self._interpreter.leave(reason)
        cancelled: asyncio.CancelledError | None = None
        wait: Callable[[], Awaitable[None]] = self._interpreter.ended
        while True:
            try:
                await wait()
                if not (self._resting or self._interpreter.at_work):  # what rests, may be resumed again
                    await self._interpreter.let_rest(reason)
                break
            except asyncio.CancelledError as error:  # nobody waits any more for tasks that don't heed it
                cancelled = error
                wait = partial(self._interpreter.rested, CLOSE_SECONDS)
            except CogstepError:
                if cancelled is None:
                    raise
                LOG.warning("while closing the agent, which was cancelled", exc_info=True)
                break
        if cancelled is not None:
            raise cancelled

    async def _close_journal(self) -> None:
        if self._journal is None:
            return
        if self._journal.may_wait:
            await to_its_end(self._journal.close)
        else:
            self._journal.close()

    async def _close_model(self) -> None:
        if awaits(self.model):
            self.model.close()
        else:  # its thread is waited for
            await on_its_own_thread(self.model.close)

    async def __aenter__(self) -> AsyncAgent:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with closing_after(error):
            await self.close()

    def __enter__(self) -> NoReturn:
        raise ConfigError("an AsyncAgent is opened by `async with`; without an event loop, use Agent")

    def __exit__(self, *_: object) -> None: ...


class EventStream:
    """A turn's events as they come, and its result."""

    def __init__(self, agent: AsyncAgent, text: Content, returns: Any = NO_TYPE) -> None:
        self._agent = agent
        self._text = text
        self._returns = returns
        self._events: deque[Event] = deque()
        self._changed = asyncio.Event()
        """Something was added, or taken, or the turn has ended."""
        self._task: asyncio.Task[RunResult] | None = None
        self._taker: Inline | None = None
        """Refers to this stream, and so does nothing once it has ended: agent and stream go when nobody holds them."""

    @property
    def result(self) -> RunResult:
        """What ``run`` would have given; there once the stream has ended.

        Raises:
            CogstepError: it has not ended yet.
        """
        if self._task is None or not self._task.done():
            raise CogstepError("the turn has not ended yet; read the stream to its end first")
        return self._task.result()

    async def __aenter__(self) -> EventStream:
        if self._task is not None:
            raise CogstepError("a stream can be read once; make another one for another turn")
        self._taker = Inline(self._take)
        self._agent._interpreter.observers.add(self._taker)
        self._agent._interpreter.room = self._room
        self._task = asyncio.create_task(self._agent.run(self._text, returns=self._returns))
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

    def __aiter__(self) -> EventStream:
        return self

    async def partials(self) -> AsyncIterator[Any]:
        """In place of the events, what of a structured answer is there; see ``TurnEvents.partials``."""
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
        """Wait until the reader has caught up."""
        while len(self._events) >= BEHIND and self._agent._interpreter.room is not None:
            self._changed.clear()
            await self._changed.wait()
