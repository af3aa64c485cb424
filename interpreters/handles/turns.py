"""One turn as the handle's side sees it: a stream of events that always ends, and the answers that it asks for."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from functools import partial
from inspect import isawaitable, iscoroutine
from queue import Empty, SimpleQueue
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen

from cognition import CallTool, CogstepError, ConfigError, EffectId, ToolReturned
from interpreters.approvals import ApprovalRequest
from interpreters.asking import HookRequest, PlanRequest, QuestionRequest
from interpreters.clock import LONGEST_WAIT
from interpreters.context import ToolContext
from interpreters.events import Event
from interpreters.handles import messages as say
from interpreters.handles.answers import answer_of
from interpreters.letters import NotBegun, Turn
from interpreters.results import RunResult
from interpreters.tools import describe, is_async, run_tool

if TYPE_CHECKING:
    import asyncio

    from interpreters.handles.handle import AgentHandle

LEFT = "the stream was left"


def _identity(message: say.ToolCalled | say.Asked) -> EffectId:
    """What the host asks of this side is numbered, whatever it is."""
    return EffectId(str(message.number))


def _wake_up(wake: asyncio.Future[None]) -> None:
    if not wake.done():
        wake.set_result(None)


@frozen
class End:
    """The last thing in a stream's queue."""

    result: RunResult | None = None
    error: BaseException | None = None


SEEN_FIRST = (End, say.ApprovalAsked, say.QuestionsAsked, say.PlanAsked)
"""Before these, observers are given time to see what led to them."""


@define(eq=False)
class ToolWait:
    """A call whose result the program gives by hand: it comes in the stream where the tool is a ``ToolSpec``."""

    called: say.ToolCalled
    _send: Callable[[say.Request], None] = field(repr=False)

    @property
    def name(self) -> str:
        return self.called.call.name

    @property
    def arguments(self) -> dict[str, Any]:
        return self.called.call.arguments

    def give(self, content: str) -> None:
        """The call gave this. Once the turn is over, or for the second time, it does nothing."""
        self._send(say.ToolResult(self.called.session, self.called.turn, self.called.number, content))

    def fail(self, message: str) -> None:
        """The call failed; the model is told why."""
        self._send(say.ToolResult(self.called.session, self.called.turn, self.called.number, message, failed=True))


class TurnStream:
    """The events of one turn as they come, and its result. Ends always: also if the host dies, or hangs over a cancel.

    Read by ``for`` within ``with``, or in an event loop by ``async for`` within ``async with``; a block that is left
    early cancels the turn. The session waits for a reader that is ``HandleOptions.window`` events behind. Approvals,
    questions, plans and hooks are asked where the stream is read, in a loop also by ``async def``; tools run on threads
    of their own.
    """

    def __init__(self, handle: AgentHandle, number: int) -> None:
        self.number = number
        self._handle = handle
        self._items: SimpleQueue[Event | ToolWait | say.Asked | End] = SimpleQueue()
        self._end: End | None = None
        self._fault: BaseException | None = None
        """An error of the program's own, met while it was asked; the turn is cancelled for it."""
        self._contexts: dict[int, ToolContext[Any]] = {}
        self._lock = threading.Lock()
        self._begun = Turn()
        """What began on this side, and whether the turn is over here."""
        self._left = False
        """Nobody reads it any more, and nobody is asked."""
        self._wake: Callable[[], object] = lambda: None
        """Tells an event loop that something has come."""
        self._unsaid = 0
        """How many events were read that the host doesn't know of."""
        self._deadline: float | None = None
        """When the end of a cancelled turn has to be there."""
        self._asking: set[asyncio.Future[Any]] = set()
        """What the program awaits before it answers."""

    @property
    def result(self) -> RunResult:
        """How the turn went; there once the stream has ended.

        Raises:
            HostError, HostDiedError: the turn broke off without an outcome.
            CogstepError: it has not ended yet.
        """
        if self._end is None:
            raise CogstepError("the turn has not ended yet; read the stream to its end first")
        if self._end.error is not None:
            raise self._end.error
        assert self._end.result is not None
        return self._end.result

    def __iter__(self) -> Iterator[Event | ToolWait]:
        self._handle.look_for_loop()
        return self

    def __next__(self) -> Event | ToolWait:
        while self._end is None:
            try:
                item = self._items.get(
                    timeout=min(LONGEST_WAIT, self._seconds_left())
                )  # a chance for the handlers of signals
            except Empty:
                self._look_at_clock()
                continue
            if isinstance(item, SEEN_FIRST):
                self._handle.observers.wait()
            shown = self._look_at(item)
            if shown is not None:
                return shown
        if self._end.error is not None:
            raise self._end.error
        raise StopIteration

    def __aiter__(self) -> TurnStream:
        return self

    async def __anext__(self) -> Event | ToolWait:
        import asyncio

        loop = asyncio.get_running_loop()
        while self._end is None:
            wake = loop.create_future()
            self._wake = partial(loop.call_soon_threadsafe, _wake_up, wake)
            try:
                item = self._items.get_nowait()
            except Empty:
                timer = None if self._deadline is None else loop.call_later(self._seconds_left(), _wake_up, wake)
                try:
                    await wake
                finally:
                    if timer is not None:
                        timer.cancel()
                self._look_at_clock()
                continue
            if isinstance(item, SEEN_FIRST) and self._handle.observers.deliveries:
                from interpreters.delivery_tasks import await_all

                await await_all(self._handle.observers.deliveries)
            shown = self._look_at(item, loop)
            if shown is not None:
                return shown
        if self._end.error is not None:
            raise self._end.error
        raise StopAsyncIteration

    def _look_at(
        self, item: Event | ToolWait | say.Asked | End, loop: asyncio.AbstractEventLoop | None = None
    ) -> Event | ToolWait | None:
        """Do what the next item wants of the stream; give it back if it is for the reader."""
        if isinstance(item, End):
            self._end = item if self._fault is None else End(error=self._fault)
            for task in self._asking:
                task.cancel()
            return None
        if isinstance(item, say.Asked):
            if self._left:
                self._no_answer(item, LEFT)
            else:
                self._ask(item, loop)
            return None
        if isinstance(item, ToolWait) and not self._begun.begins(_identity(item.called)):
            return None
        if isinstance(item, Event):
            self._was_read()
            self._handle.observers.forward(item)
        return item

    def _was_read(self) -> None:
        """Let the session say more, if it waits for that: told by half windows, so that few messages say it."""
        window = self._handle.window
        if window is None:
            return
        with self._lock:
            self._unsaid += 1
            if self._unsaid * 2 < window:
                return
            count, self._unsaid = self._unsaid, 0
        self._handle.send(say.Read(self._handle.key, self.number, count))

    def _seconds_left(self) -> float:
        return LONGEST_WAIT if self._deadline is None else max(self._deadline - monotonic(), 0.0)

    def _look_at_clock(self) -> None:
        """Nothing has come: is it time to give up?"""
        if self._deadline is not None and self._deadline <= monotonic():
            self._handle.lost(self._handle.too_late("the host did not end the cancelled turn"), self)

    def cancel(self, reason: str = "") -> None:
        """Stop this turn; from any thread. Its stream goes on to its end, for which the host has ``answer_wait``.

        When this has returned, no tool of it begins any more and nobody is asked. Nor is its model, if the host is a
        thread of this process; one in another process may still be asked until the message is there.
        """
        self._begun.cancel()
        for context in list(self._contexts.values()):
            context.cancel()
        self._handle.cancel_turn(self.number, reason)
        seconds = self._handle.answer_wait
        if self._deadline is None and seconds is not None:
            self._deadline = monotonic() + seconds
            self._wake_reader()

    def __enter__(self) -> TurnStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._end is None:
            self._left = True
            self.cancel(LEFT)
            while self._end is None:  # what still comes is read by nobody
                try:
                    next(self, None)
                except CogstepError:
                    if error is None:
                        raise

    async def __aenter__(self) -> TurnStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._end is not None:
            return
        import asyncio

        self._left = True
        self.cancel(LEFT)
        cancelled: asyncio.CancelledError | None = None
        while self._end is None:
            try:
                await anext(self, None)
            except CogstepError:
                if error is None:
                    raise
            except asyncio.CancelledError as again:  # the end comes all the same, and nothing is left behind it
                cancelled = again
        if cancelled is not None:
            raise cancelled

    # ------------------------------------------------------------------------------------- on the host's reader thread

    def arrived(self, notice: say.Notice) -> None:
        """Take something that carries this turn's number."""
        match notice:
            case say.Happened(event=data):
                try:
                    event = say.event_of(data)
                except CogstepError:
                    self._was_read()
                    raise
                if event is None:  # of a newer host
                    self._was_read()
                else:
                    self._put(event)
            case say.ToolCalled():
                self._call(notice)
            case say.ToolDropped(number=number):
                with self._lock:
                    context = self._contexts.get(number)
                if context is not None:
                    context.cancel()
            case say.TurnEnded():
                self.end(End(RunResult(notice.outcome, notice.usage, notice.messages, notice.number)))
            case say.TurnBroken(error=error, message=message):
                self.end(End(error=self._handle.host_error(message, error)))
            case say.ApprovalAsked() | say.QuestionsAsked() | say.PlanAsked() | say.HookAsked():
                self._put(notice)
            case _:
                pass

    def _put(self, item: Event | ToolWait | say.Asked | End) -> None:
        self._items.put(item)
        self._wake_reader()

    def _wake_reader(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed over a stream that nobody read to its end
            self._wake()

    def end(self, end: End) -> None:
        """Nothing more comes."""
        self._begun.end()
        for context in list(self._contexts.values()):
            context.cancel()
        self._put(end)

    # ---------------------------------------------------------------------------------------------------------- tools

    def _call(self, called: say.ToolCalled) -> None:
        if self._begun.is_over():
            return
        tool = self._handle.tools.get(called.call.name)
        if tool is None:
            self._put(ToolWait(called, self._handle.send))
            return
        context: ToolContext[Any] = ToolContext(
            self._handle.deps,
            session=called.owner,
            call_id=called.call.id,
            tool=called.call.name,
            report=partial(self._progress, called),
            begins=partial(self._begun.begins, _identity(called)),
        )
        with self._lock:
            self._contexts[called.number] = context

        def run() -> None:
            try:
                answer = run_tool(tool, CallTool(EffectId(""), called.call), context)
            finally:
                with self._lock:
                    self._contexts.pop(called.number, None)
            if not self._begun.has_begun(_identity(called)) and self._begun.is_over():
                return
            waiting = ToolWait(called, self._handle.send)
            if isinstance(answer, ToolReturned):
                waiting.give(answer.content)
            else:
                waiting.fail(answer.message)

        threading.Thread(target=run, name=f"cogstep-{called.call.name}", daemon=True).start()

    def _progress(self, called: say.ToolCalled, text: str) -> None:
        self._handle.send(say.ToolProgress(called.session, called.turn, called.number, text))

    # ---------------------------------------------------------------------------------------- what the program is asked

    def _ask(self, asked: say.Asked, loop: asyncio.AbstractEventLoop | None) -> None:
        """Ask the program. Its answer may be a future, and in an event loop something to await."""
        try:
            answer = self._consult(asked)
            if isinstance(answer, Future):
                answer.add_done_callback(partial(self._answered, asked))
            elif isawaitable(answer):
                self._await(asked, answer, loop)
            else:
                self._reply(asked, answer)
        except (
            CogstepError
        ) as error:  # a wrong answer, a script that doesn't fit: it ends the run, as it does an Agent's
            self._broken(error)
        except Exception as error:
            self._no_answer(asked, describe(error))

    def _await(self, asked: say.Asked, answer: Awaitable[Any], loop: asyncio.AbstractEventLoop | None) -> None:
        if loop is None:
            if iscoroutine(answer):
                answer.close()
            raise ConfigError("an async function was asked, which needs the stream to be read by `async for`")
        import asyncio

        task = asyncio.ensure_future(self._awaited(asked, answer))
        self._asking.add(task)
        task.add_done_callback(partial(self._answered, asked))
        if iscoroutine(answer):  # of a task that was cancelled before its first step nobody else would close it
            task.add_done_callback(lambda _: answer.close())

    async def _awaited(self, asked: say.Asked, answer: Awaitable[Any]) -> Any:
        """What is asked by an ``async def`` begins here, and not where it was called."""
        if not self._begun.begins(_identity(asked)):
            if iscoroutine(answer):
                answer.close()
            raise NotBegun
        return await answer

    def _answered(self, asked: say.Asked, answer: Future[Any] | asyncio.Future[Any]) -> None:
        if answer.cancelled():
            self._no_answer(asked, "the question was withdrawn")
            return
        error = answer.exception()
        try:
            if error is not None:
                raise error
            self._reply(asked, answer.result())
        except CogstepError as fault:
            self._broken(fault)
        except BaseException as fault:
            self._no_answer(asked, describe(fault))

    def _broken(self, error: CogstepError) -> None:
        self._fault = error
        self.cancel(str(error))

    def _no_answer(self, asked: say.Asked, reason: str) -> None:
        self._handle.send(say.NoAnswer(asked.session, asked.turn, asked.number, reason))

    def _consult(self, asked: say.Asked) -> Any:
        handle, over = self._handle, self._begun.is_over
        about: Any = {"session": asked.owner, "is_cancelled": over}
        asker: Any
        request: Any
        match asked:
            case say.ApprovalAsked(call=call, reason=reason):
                asker, request = handle.approve, ApprovalRequest(call, reason, asked.owner, over)
            case say.QuestionsAsked(questions=questions):
                asker, request = handle.ask, QuestionRequest(questions, **about)
            case say.PlanAsked(plan=plan):
                asker, request = handle.review, PlanRequest(plan, **about)
            case say.HookAsked(point=point, text=text, call=hooked):
                asker, request = handle.hooks.get(point), HookRequest(point, text, hooked, **about)
        if asker is None:
            raise LookupError("nobody is here to be asked")
        return asker(request) if is_async(asker) else self._begun.begin(_identity(asked), partial(asker, request))

    def _reply(self, asked: say.Asked, answer: Any) -> None:
        """Send an answer.

        Raises:
            ConfigError: it is none.
        """
        self._handle.send(answer_of(asked, answer))
