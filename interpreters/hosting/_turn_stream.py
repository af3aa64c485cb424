"""A turn as the handle's side sees it: a stream of events that always ends, and the effects carried out here.

The performers of an ``Agent`` carry them out: tool calls on their own threads, all others in the stream's reader.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

from attrs import define, evolve, field

from cognition import CallTool, CogstepError, ConfigError, EffectId, ToolFailed, ToolReturned
from cognition.base.checking import show
from cognition.base.ids import parse_effect_id
from interpreters.agents.results import RunResult
from interpreters.hosting import _protocol as say
from interpreters.hosting._errors import KNOWN, HostTimeoutError
from interpreters.hosting._handle_undo import HandleUndo
from interpreters.hosting._protocol import ProtocolError
from interpreters.loop.clock import LONGEST_WAIT
from interpreters.loop.interpreter import ASKS_THE_USER, NOT_FOR_WORKERS
from interpreters.loop.mailbox_messages import NotBegun, Turn
from interpreters.loop.performers import (
    Answered,
    Scope,
    async_performers,
    perform_within,
    sync_performers,
    unanswered_input,
)
from interpreters.loop.program.pending import LATER
from interpreters.loop.program.program import Program
from interpreters.observing.events import Event
from interpreters.observing.observers import Observers
from interpreters.tools.context import ToolContext
from interpreters.tools.external import ExternalTool
from interpreters.tools.failures import describe
from interpreters.tools.tool import is_async
from runtime.children.line_pipe import Refusal, restore_error

if TYPE_CHECKING:
    import asyncio


End = RunResult | BaseException
"""The last item in a stream's queue."""


class Job(Turn):
    """An effect that is carried out here, and its performer's view of the turn.

    For the performer, dropping this effect also ends the turn. Effects of workers may have the same ids as effects of
    their parent, so the whole turn registers them by owner and id.
    """

    def __init__(self, asked: say.Perform, whole: Turn) -> None:
        super().__init__()
        self.asked = asked
        self.effect = asked.effect
        self.place = (asked.session, asked.turn, asked.owner, asked.effect.effect_id)
        self.key = self.place[2:]
        self.context: ToolContext[Any] | None = None
        self.dropped = False
        self.withdraw: Callable[[], object] = lambda: None
        """Withdraws a question to the program; called by the stream's reader."""
        self._whole = whole
        self._name = EffectId(" ".join(self.key))

    def try_begin(self, effect_id: EffectId) -> bool:
        return super().try_begin(effect_id) and self._whole.try_begin(self._name)

    def has_begun(self, effect_id: EffectId) -> bool:
        return self._whole.has_begun(self._name)

    def is_over(self) -> bool:
        return super().is_over() or self._whole.is_over()

    def stop(self) -> None:
        """Signal the tool to stop, since nothing awaits its result."""
        if self.context is not None:
            self.context.cancel()


@define(eq=False)
class ToolWait:
    """A call whose result the program provides: it arrives in the stream if the tool is a ``ToolSpec``."""

    effect: CallTool
    session: str
    """The session that makes the call: the handle's, or a worker's."""
    _answer: Callable[[Answered], object] = field(repr=False)

    @property
    def name(self) -> str:
        return self.effect.call.name

    @property
    def arguments(self) -> dict[str, Any]:
        return self.effect.call.arguments

    def give(self, content: str) -> None:
        """Return this result to the model. A second call, or a call after the turn's end, does nothing.

        Raises:
            ConfigError: ``content`` is not a text.
        """
        self._answer(ToolReturned(self.effect.effect_id, _text("give", content)))

    def fail(self, message: str) -> None:
        """Report the call as failed; the model is sent the message. Otherwise as ``give``."""
        self._answer(ToolFailed(self.effect.effect_id, _text("fail", message)))

    def later(self) -> None:
        """Postpone the result: ``handle.answer`` provides it after this turn. Calls of workers are refused."""
        self._answer(LATER)


LEFT = "the stream was left"

MOST_UNREAD = 1 << 27

MOST_BEYOND = 10_000
"""Maximum number of unread events beyond two windows: a cancelled turn ignores its window."""

MOST_EFFECTS = 100_000

MOST_JOBS = 1000
"""Maximum number of effects carried out here concurrently; a call has a thread."""


def _wake_up(wake: asyncio.Future[None]) -> None:
    if not wake.done():
        wake.set_result(None)


class StreamOwner(Protocol):
    """The part of a handle that a stream uses."""

    key: str
    program: Program
    observers: Observers
    window: int | None
    names: frozenset[str]
    kept: HandleUndo

    @property
    def answer_wait(self) -> float | None: ...
    def send(self, request: say.Request) -> None: ...
    def cancel_turn(self, number: int, reason: str, keep: bool) -> None: ...
    def fail_turn(self, error: CogstepError, of: TurnStream | None = None) -> None: ...
    def check_for_loop(self) -> None: ...


class TurnStream:
    """The events of a turn as they arrive, and its result. It always ends, even if the host dies or ignores a cancel.

    Read it with ``for`` within ``with``, or in an event loop with ``async for`` within ``async with``. Leaving the
    block early cancels the turn. The session waits when the reader is ``HandleOptions.window`` events behind.
    Approvals, questions, plans and hooks are called by the stream's reader, in a loop also as ``async def``. Tools run
    on their own threads.
    """

    def __init__(self, handle: StreamOwner, number: int) -> None:
        self.number = number
        self._handle = handle
        self._sync, self._async = sync_performers(handle.program), async_performers(handle.program)
        self._items: SimpleQueue[Event | Job | End] = SimpleQueue()
        self._end: End | None = None
        self._fault: BaseException | None = None
        """An error raised by the program's own callbacks; the turn is cancelled for it."""
        self._jobs: dict[tuple[str, EffectId], Job] = {}
        """The effects being carried out here, by session and effect id. The code that removes an entry must answer it.
        """
        self._causes: dict[tuple[str, EffectId], BaseException] = {}
        """Exceptions of tools that ran here, until the host reports their failures."""
        self._lock = threading.Lock()
        self._begun = Turn()
        """Records the effects that began on this side, and whether the turn is over here."""
        self._wake: Callable[[], object] = lambda: None
        self._context = copy_context()
        """The ``contextvars`` of the program where the turn was begun, for its tools."""
        self._asked = 0
        self._unread = self._unread_bytes = 0
        """Number of events that arrived but are unread, and the bytes of their lines."""
        self._unsaid = 0
        """Events that were read but not acknowledged to the host yet."""
        self._deadline: float | None = None
        """The deadline for the end of a cancelled turn."""

    @property
    def result(self) -> RunResult:
        """The result of the turn; available when the stream has ended.

        Raises:
            HostError, HostDiedError: the turn broke off without an outcome.
            CogstepError: it has not ended yet.
        """
        if self._end is None:
            raise CogstepError("the turn has not ended yet; read the stream to its end first")
        if isinstance(self._end, BaseException):
            raise self._end
        return self._end

    def __iter__(self) -> Iterator[Event | ToolWait]:
        self._handle.check_for_loop()
        return self

    def __next__(self) -> Event | ToolWait:
        while self._end is None:
            try:
                # Not for longer, which gives the handlers of signals a chance.
                item = self._items.get(timeout=min(LONGEST_WAIT, self._seconds_left()))
            except Empty:
                self._check_clock()
                continue
            if _is_seen_first(item):
                self._handle.observers.wait()
            if (shown := self._take_item(item)) is not None:
                return shown
        if isinstance(self._end, BaseException):
            raise self._end
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
                await asyncio.wait([wake], timeout=None if self._deadline is None else self._seconds_left())
                self._check_clock()
                continue
            if _is_seen_first(item) and self._handle.observers.deliveries:
                from interpreters.observing.async_delivery import await_all

                await await_all(self._handle.observers.deliveries)
            if (shown := self._take_item(item, loop)) is not None:
                return shown
        if isinstance(self._end, BaseException):
            raise self._end
        raise StopAsyncIteration

    def _take_item(
        self, item: Event | Job | End, loop: asyncio.AbstractEventLoop | None = None
    ) -> Event | ToolWait | None:
        """Handle the next item of the queue; return it if it is for the reader."""
        if isinstance(item, End):
            self._end = item if self._fault is None else self._fault
            for job in list(self._jobs.values()):
                job.withdraw()
            return None
        if isinstance(item, Job):
            if self._is_by_hand(item.effect) and not item.dropped:
                return self._make_tool_wait(item, item.effect)
            if item.dropped:
                item.withdraw()
            elif loop is None:
                self._perform(item)
            else:  # where the answer of a callback may also be an awaitable
                task = loop.create_task(self._async[type(item.effect)](item.effect, self._scope(item)))
                item.withdraw = task.cancel
                task.add_done_callback(partial(self._send_result, item))
            return None
        self._acknowledge()
        self._handle.observers.forward(item)
        return item

    def _acknowledge(self) -> None:
        """Acknowledge events to the host, half a window at a time, so that the session may send more."""
        window = self._handle.window
        with self._lock:
            self._unread_bytes -= self._unread_bytes // max(1, self._unread)
            self._unread -= 1
            if window is None:
                return
            self._unsaid += 1
            if self._unsaid * 2 < window:
                return
            count, self._unsaid = self._unsaid, 0
        self._handle.send(say.Read(self._handle.key, self.number, count))

    def _seconds_left(self) -> float:
        return LONGEST_WAIT if self._deadline is None else max(self._deadline - monotonic(), 0.0)

    def _check_clock(self) -> None:
        if self._deadline is not None and self._deadline <= monotonic():
            seconds = self._handle.answer_wait or 0.0
            self._handle.fail_turn(HostTimeoutError("the host did not end the cancelled turn", seconds), self)

    def cancel(self, reason: str = "") -> None:
        """Stop this turn; callable from any thread. The stream continues to its end, which the host must send in
        ``answer_wait``.

        After the return, no tool call of the turn starts and no callback is called. If the host is a thread of this
        process, the model is not called either; in another process it may be, until the message arrives.
        """
        self._stop(reason, keep=False)

    def _stop(self, reason: str, *, keep: bool) -> None:
        self._begun.cancel()
        try:
            # Before the tools hear of it, so that their ends come behind it.
            self._handle.cancel_turn(self.number, reason, keep)
        finally:
            for job in list(self._jobs.values()):
                job.stop()
        seconds = self._handle.answer_wait
        if self._deadline is None and seconds is not None:
            self._deadline = monotonic() + seconds
            self._wake_reader()

    def drain(self, reason: str) -> None:
        """Cancel the turn and wait for its end."""
        self.cancel(reason)
        while self._end is None:
            next(self, None)

    def __enter__(self) -> TurnStream:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if self._end is None:
            self._stop(LEFT, keep=_is_interrupt(error))
            while self._end is None:  # what still comes is read by nobody
                try:
                    next(self, None)
                except CogstepError:
                    if error is None:
                        raise

    async def __aenter__(self) -> TurnStream:
        return self

    async def __aexit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if self._end is not None:
            return
        import asyncio

        self._stop(LEFT, keep=_is_interrupt(error))
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

    def receive(self, notice: say.Notice, length: int = 0) -> None:
        """Handle a message with this turn's number.

        Raises:
            ProtocolError: the message is not possible at this point.
        """
        match notice:
            case say.EventHappened(event=data):
                self._count(length)
                try:
                    event = say.event_of(data)
                except CogstepError:
                    self._acknowledge()
                    raise
                if event is None:  # of a newer host
                    self._acknowledge()
                    return
                if isinstance(event.value, ToolFailed):  # messages can't contain the exception of a tool that ran here
                    event = event.caused_by(self._causes.pop((event.session, event.value.effect_id), None))
                self._context.copy().run(self._handle.observers.begin, event)  # before a tool that it starts
                self._put(event)
            case say.Perform():
                self._begin(notice)
            case say.Dropped(owner=owner, effect_id=effect_id):
                if (job := self._jobs.pop((owner, effect_id), None)) is not None:
                    job.dropped = True
                    job.end()
                    job.stop()
                    self._put(job)
            case say.TurnEnded():
                self.end(RunResult(notice.outcome, notice.usage, notice.messages, notice.number))
            case say.TurnBroken(error=error, message=message):
                self.end(restore_error(Refusal(error, message), KNOWN))
            case _:
                pass

    def _count(self, length: int) -> None:
        """Count an unread event and enforce the limits, even if the host ignores the window.

        Raises:
            ProtocolError: a limit is exceeded.
        """
        with self._lock:
            self._unread += 1
            self._unread_bytes += length
        window = self._handle.window
        if self._unread_bytes > MOST_UNREAD or (window is not None and self._unread > 2 * window + MOST_BEYOND):
            raise ProtocolError(f"{self._unread} events of a turn that nobody has read, {self._unread_bytes:,} bytes")

    def _put(self, item: Event | Job | End) -> None:
        self._items.put(item)
        self._wake_reader()

    def _wake_reader(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed over a stream that nobody read to its end
            self._wake()

    def end(self, end: End) -> None:
        """End the stream: no items of the turn follow."""
        self._begun.end()
        try:
            for job in list(self._jobs.values()):
                job.stop()
        finally:  # whatever a tool does then, a reader waits for this
            self._put(end)

    # --------------------------------------------------------------------------------------- what is carried out here

    def _begin(self, asked: say.Perform) -> None:
        """Run a tool on a thread; pass any other effect to the stream's reader.

        Raises:
            ProtocolError: the host may not ask for this effect.
        """
        effect = asked.effect
        if (asked.owner, effect.effect_id) in self._jobs:
            raise ProtocolError(f"the effect {effect.effect_id} of {asked.owner!r} twice")
        self._asked += 1
        if len(self._jobs) >= MOST_JOBS or self._asked > MOST_EFFECTS:
            raise ProtocolError(f"{self._asked} effects in one turn, {len(self._jobs)} of them at once")
        if isinstance(effect, CallTool) and effect.call.name not in self._handle.names:
            raise ProtocolError(f"a call of {effect.call.name!r}, which the session has not")
        if self._begun.is_over():
            return
        job = self._jobs[asked.owner, effect.effect_id] = Job(asked, self._begun)
        if isinstance(effect, CallTool):
            job.context = ToolContext(
                self._handle.program.deps,
                session=asked.owner,
                call_id=effect.call.id,
                effect_id=effect.effect_id,
                tool=effect.call.name,
                access=effect.access,
                hides=self._handle.program.hides,
                report=lambda text: self._handle.send(say.ProgressReport(*job.place, text)),
                begins=partial(job.try_begin, effect.effect_id),
                awaits=self._handle.program.tool_loop.run,
                keeper=self._handle.kept.undo_hook(spawning_effect(asked.owner, self._handle.key) or effect.effect_id),
            )
            own = self._handle.program.performers.get(CallTool)
            if not (self._is_by_hand(effect) or (own is not None and is_async(own))):
                work = partial(self._context.copy().run, self._run, job)
                threading.Thread(target=work, name=f"cogstep-{effect.call.name}", daemon=True).start()
                return
        self._put(job)

    def _is_by_hand(self, effect: say.Forwarded) -> TypeGuard[CallTool]:
        """Whether this is a call of an external tool: this side has only its spec."""
        program = self._handle.program
        if not isinstance(effect, CallTool) or CallTool in program.performers:
            return False
        return isinstance(program.tools.get(effect.call.name), ExternalTool)

    def _make_tool_wait(self, job: Job, effect: CallTool) -> ToolWait | None:
        """Return the call for the reader to answer, or None if its arguments are invalid."""
        tool = self._handle.program.tools[effect.call.name]
        assert isinstance(tool, ExternalTool)
        if wrong := tool.problems(effect.call.arguments):
            self._answer(job, ToolFailed(effect.effect_id, wrong))
            return None
        began = job.try_begin(effect.effect_id)
        return ToolWait(effect, job.asked.owner, partial(self._answer, job)) if began else None

    def _scope(self, job: Job) -> Scope:
        owner = job.asked.owner
        postpones = spawning_effect(owner, self._handle.key) is None
        program = evolve(self._handle.program, session=owner, postpones=postpones)
        return Scope(program, job, self._handle.observers, context=job.context)

    def _run(self, job: Job) -> None:
        try:
            self._perform(job)
        except BaseException as error:  # whatever ends a thread, the turn must not wait for ever
            self._answer(job, ToolFailed(job.effect.effect_id, describe(error)))

    def _perform(self, job: Job) -> None:
        try:
            answer = perform_within(self._sync[type(job.effect)], job.effect, self._scope(job))
        except NotBegun:
            return
        except CogstepError as error:  # a wrong answer, or a script that doesn't fit: it ends the run, as an Agent's
            self._break(error)
            return
        if isinstance(answer, Future):
            job.withdraw = answer.cancel
            answer.add_done_callback(partial(self._send_result, job))
        elif answer is not None and not (job.is_over() and not job.has_begun(job.effect.effect_id)):
            self._answer(job, answer)

    def _send_result(self, job: Job, done: Future[Any] | asyncio.Future[Any]) -> None:
        error = None if done.cancelled() else done.exception()
        if isinstance(error, CogstepError):
            self._break(error)
        elif done.cancelled() or (error is not None and not isinstance(error, NotBegun)):
            self._answer(job, unanswered_input(job.effect))
        elif error is None and (answer := done.result()) is not None:
            self._answer(job, answer)

    def _break(self, error: CogstepError) -> None:
        self._fault = error
        self.cancel(str(error))

    def _answer(self, job: Job, answer: Any) -> None:
        if self._jobs.pop(job.key, None) is job:
            owner, effect_id = job.key
            if job.context is not None and job.context.error is not None:
                self._causes[job.key] = job.context.error
            if answer is LATER and spawning_effect(owner, self._handle.key) is not None:
                answer = ToolFailed(effect_id, NOT_FOR_WORKERS)  # of all others, the performer saw to it
            place = job.place
            try:
                self._handle.send(say.EffectPostponed(*place) if answer is LATER else say.Performed(*place, answer))
            except CogstepError as unsaid:  # no message can hold it
                self._break(unsaid)


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether Ctrl-C, a signal or a cancelled task leaves the stream: open questions then stay pending."""
    return error is not None and not isinstance(error, Exception)


def _is_seen_first(item: Event | Job | End) -> bool:
    """Whether observers get time to see the preceding events first."""
    return isinstance(item, End) or (isinstance(item, Job) and type(item.effect) in ASKS_THE_USER)


def spawning_effect(owner: str, key: str) -> EffectId | None:
    """Return the id of the effect that spawned a worker, the last part of its name; None for the session itself.

    Args:
        owner: the session that decided an effect.
        key: the session's name here. The recording, and so ``owner``, may have another name.
    """
    parent, _, name = owner.rpartition("/")
    return EffectId(name) if owner != key and parent and parse_effect_id(name) is not None else None


def _text(what: str, given: object) -> str:
    if not isinstance(given, str):  # the host could not read it, and would wait on
        raise ConfigError(f"{what} takes a text, not {show(given)}")
    return given
