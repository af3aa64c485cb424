"""The interpreter for asyncio: the session runs in the task that awaits ``run``.

Each effect is a task of one ``TaskGroup`` that lives as long as the run: none outlives its turn. What came of it is put
into the mailbox, where cancellations arrive too.

    driver ── effects ──▶ tasks, threads, deadlines ── inputs ──▶ driver
                                  ▲
             cancel(), from any thread or a signal handler

Structure and words are those of ``sync``; read them side by side.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

from cognition import (
    AgentState,
    AskApproval,
    AskUser,
    CallModel,
    CallTool,
    CancelAsked,
    CancelEffect,
    Closed,
    CognitiveEngine,
    CogstepError,
    EffectId,
    Idle,
    Input,
    ModeChanged,
    ModelFailed,
    ModeSet,
    Recall,
    Remember,
    ReviewPlan,
    RunHook,
    SpawnWorker,
    StartTimer,
    TimerFired,
    ToolFailed,
    TurnFinished,
    Usage,
    WorkerFailed,
)
from cognition.features import Mode
from cognition.parsing import TextDelta
from interpreters import events
from interpreters.clock import Clock, SystemClock
from interpreters.context import ToolContext
from interpreters.driver import Driver, Recorder
from interpreters.errors import BusyError
from interpreters.letters import CancelRequest, Fault, Letter, Progress, Turn, WorkerEvent
from interpreters.mailbox import Mailbox
from interpreters.observers import Observers
from interpreters.program import Consultation, Consulted, Program, consultation
from interpreters.settling import settle
from interpreters.spawning import make_worker, worker_answer, worker_stalled
from interpreters.stream import BROKEN_OFF, ended, failed, show
from interpreters.threads import in_thread
from interpreters.tools import describe, is_async, run_tool, run_tool_async
from runtime.awaiting import AsyncGeneration, reading
from runtime.protocol import Done

Work = Callable[[], Coroutine[Any, Any, Input | None]]
"""Carries an effect out. Called by its task, since one that is cancelled before it begins would leave it unawaited."""


class AsyncInterpreter:
    """Carries out the decisions of one session, one run at a time.

    Raises ConfigError if the engine may decide what the program can't carry out.
    """

    def __init__(
        self,
        engine: CognitiveEngine,
        program: Program,
        *,
        observers: Observers | None = None,
        recorder: Recorder | None = None,
        state: AgentState | None = None,
        clock: Clock | None = None,
        room: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        """``room`` is awaited after each piece of a reply: it holds the model up while a reader is behind."""
        program.check(engine)
        self.program = program
        self.observers = Observers((), program.session) if observers is None else observers
        self.finished: TurnFinished | None = None
        """How the latest turn ended."""
        self.room = room
        self._clock = clock or SystemClock()
        self._group = asyncio.TaskGroup()
        self._mailbox = Mailbox()
        self._tasks: dict[EffectId, asyncio.Task[None]] = {}
        self._contexts: dict[EffectId, ToolContext[Any]] = {}
        self._deadlines: dict[EffectId, tuple[float, Callable[[], Input]]] = {}
        """When the clock answers an effect, and with what."""
        self._children: dict[EffectId, AsyncInterpreter] = {}
        """Workers at work."""
        self._notes = asyncio.Lock()
        """The memory is used by one at a time, in the order of the decisions."""
        self._turn: Turn | None = None
        self._generation: AsyncGeneration | None = None
        self._reader: asyncio.Task[None] | None = None
        """Reads what the model writes."""
        self._seen: list[str] = []
        """The reply's text so far."""
        self._unread = Usage()
        """What the reply took that a cancellation ended."""
        handlers: Mapping[Any, Callable[[Any], object]] = {
            CallModel: self._call_model,
            CallTool: self._call_tool,
            AskApproval: self._consult,
            AskUser: self._consult,
            ReviewPlan: self._consult,
            Recall: self._consult,
            RunHook: self._consult,
            SpawnWorker: self._spawn,
            StartTimer: self._start_timer,
            CancelEffect: self._cancel_effect,
            Remember: self._remember,
            ModeSet: self._tell_mode,
            TurnFinished: self._note_end,
        }
        self.driver = Driver(
            engine,
            handlers,
            now=self._clock.time,
            state=state,
            recorder=recorder,
            watcher=self.observers.transition,
        )

    # ------------------------------------------------------------------------------------------------ running a turn

    async def run(self, event: Input | None) -> None:
        """Hand in an input, or with None go on where a resumed session stands, until nothing is in flight.

        Cancelling the task that awaits this ends the turn as cancelled and raises ``CancelledError``.

        Raises:
            BusyError: another run is under way.
            CogstepError: the embedding program's own fault, such as a journal that can't be written.
        """
        if self._turn is not None:
            raise BusyError("a turn is under way; wait for its end or call cancel()")
        self._mailbox.belongs_to(asyncio.get_running_loop())
        self._seen, self._unread = [], Usage()
        self._turn = Turn()
        error: BaseException | None = None
        try:
            async with asyncio.TaskGroup() as self._group:
                try:
                    self.finished = None
                    if event is None:
                        self.driver.resume(partial(settle, self.program.tools))
                    else:
                        self.settle("the turn before was broken off")
                        self.driver.advance(event)
                    await self.driver.run_async(self._next_input)
                except BaseException as caught:
                    self._break_off(caught)
                    if isinstance(caught, asyncio.CancelledError):
                        raise
                    error = caught  # raised outside, since a group would wrap it
            if error is not None:
                raise error
        finally:
            self._turn = None

    def cancel(self, reason: str = "") -> bool:
        """Stop the turn under way; False if there is none. From any thread, a tool, an observer, a signal handler."""
        turn = self._turn
        if turn is None:
            return False
        if not turn.is_cancelled():
            turn.cancel()
            self._mailbox.send(
                CancelRequest(turn, reason)
            )  # before the workers hear of it, so that their ends come behind it
            for context in list(self._contexts.values()):
                context.cancel()
            for child in list(self._children.values()):
                child.cancel(reason)
            generation = self._generation
            if generation is not None:
                generation.cancel()
        return True

    def change_mode(self, mode: Mode) -> None:
        """Let more or less happen without being asked, from now on. From any thread while a turn is under way."""
        if self._turn is None:
            self.driver.advance(ModeChanged(mode))
        else:
            self._mailbox.send(ModeChanged(mode))

    def settle(self, reason: str) -> None:
        """A run that an exception ended may have left its turn open: close it."""
        if self.driver.in_flight or not isinstance(self.driver.state.phase, Idle | Closed):
            self.driver.advance(self._cancellation(reason))
            self.driver.in_flight.clear()
            self._stop_all()

    def _cancellation(self, reason: str) -> CancelAsked:
        unread = sum((child.driver.state.spent.usage for child in self._children.values()), self._unread)
        return CancelAsked(reason, "".join(self._seen), unread)

    def _break_off(self, error: BaseException) -> None:
        """An exception passes through: stop what is in flight, and end the turn if that can still be recorded."""
        turn = self._turn
        if turn is not None:
            turn.cancel()
        cancelled = isinstance(error, asyncio.CancelledError)
        with contextlib.suppress(CogstepError):  # the error on its way tells more; the next run tries again
            self.settle("the task was cancelled" if cancelled else describe(error))
        self._stop_all()

    def _stop_all(self) -> None:
        self._deadlines.clear()
        for identity in [*self._tasks]:
            self._stop(identity)

    # ---------------------------------------------------------------------------------------- where inputs come from

    async def _next_input(self) -> Input:
        """What happened next: from the mailbox, or by the clock."""
        while True:
            letter = self._mailbox.take()
            if letter is not None:
                event = await self._open(letter)
            elif self._deadlines:
                event = self._due()
                if event is None:
                    nearest = min(when for when, _ in self._deadlines.values())
                    await self._mailbox.wait(self._clock, nearest - self._clock.monotonic())
            else:
                event = None
                await self._mailbox.wait(self._clock, None)
            if event is not None:
                return event

    async def _open(self, letter: Letter) -> Input | None:
        """The input in a letter, if it holds one. What was meant for an earlier turn is dropped."""
        match letter:
            case CancelRequest(turn=turn, reason=reason):
                if turn is not self._turn:
                    return None
                await self._stop_reading()
                return self._cancellation(reason)
            case Progress(call=call, text=text):
                self.observers.emit(events.ToolProgress, call=call, text=text)
            case WorkerEvent(effect_id=identity, event=event):
                self._sign_of_life(identity)
                self.observers.forward(event)
            case Fault(turn=turn, error=error):
                if turn is self._turn:
                    raise error
            case _:
                self._settled(letter)
                return letter  # type: ignore[return-value]  # an errand is a letter of threads only
        return None

    def _due(self) -> Input | None:
        now = self._clock.monotonic()
        for identity, (when, answer) in self._deadlines.items():
            if when <= now:
                event = answer()
                self._stop(identity)  # a tool or worker that took too long: nobody waits for it any more
                self._settled(event)
                return event
        return None

    def _settled(self, event: Letter) -> None:
        identity: EffectId | None = getattr(event, "effect_id", None)
        if identity is not None:
            self._deadlines.pop(identity, None)
            self._contexts.pop(identity, None)
            self._children.pop(identity, None)
            self._tasks.pop(identity, None)

    # ----------------------------------------------------------------------------------------------------- the tasks

    def _start(self, identity: EffectId, work: Work, lost: Input) -> asyncio.Task[None]:
        """Begin an effect. ``lost`` is its answer if its task is cancelled by somebody else than this session."""
        task = self._tasks[identity] = self._group.create_task(self._carry_out(identity, work, lost))
        return task

    async def _carry_out(self, identity: EffectId, work: Work, lost: Input) -> None:
        turn = self._turn
        try:
            answer = await work()
        except asyncio.CancelledError:
            if identity in self._tasks:  # a tool that cancelled itself: the turn must not wait for ever
                self._mailbox.post(lost)
            raise
        except Exception as error:
            if turn is not None:
                self._mailbox.post(Fault(turn, error))
        else:
            if answer is not None and identity in self._tasks:
                self._mailbox.post(answer)

    def _stop(self, identity: EffectId) -> None:
        """Nobody waits for this effect any more."""
        context = self._contexts.pop(identity, None)
        if context is not None:
            context.cancel()
        self._children.pop(identity, None)
        task = self._tasks.pop(identity, None)
        if task is not None:
            task.cancel()

    def _cancel_effect(self, effect: CancelEffect) -> None:
        self._deadlines.pop(effect.effect_id, None)
        self._stop(effect.effect_id)

    def _start_timer(self, effect: StartTimer) -> None:
        self._seen = []
        identity = effect.effect_id
        self._deadlines[identity] = (self._clock.monotonic() + effect.seconds, partial(TimerFired, identity))

    def _note_end(self, decision: TurnFinished) -> None:
        self.finished = decision

    # ---------------------------------------------------------------------------------------------------- the model

    def _call_model(self, effect: CallModel) -> None:
        self._seen = []
        lost = ModelFailed(effect.effect_id, BROKEN_OFF)
        self._reader = self._start(effect.effect_id, partial(self._stream, effect), lost)

    async def _stream(self, effect: CallModel) -> Input | None:
        """Ask the model and show what comes; None when the turn was cancelled, which the mailbox tells."""
        turn = self._turn
        if turn is None or turn.is_cancelled():
            return None
        started = self._clock.monotonic()
        done: Done | None = None
        generation: AsyncGeneration | None = None
        try:
            generation = self._generation = reading(self.program.model, effect.request)
            if turn.is_cancelled():  # asked for while it was submitted
                generation.cancel()
            async for output in generation:
                if isinstance(output, Done):
                    done = output
                    break
                if isinstance(output, TextDelta):
                    self._seen.append(output.text)
                if self.observers:
                    show(output, self.observers)
                    if self.room is not None:
                        await self.room()
        except CogstepError:  # a closed model, a script that doesn't fit: the embedding program's own fault
            raise
        except Exception as error:
            return failed(effect, error, self._read_by_somebody())
        finally:
            self._generation = None
            if done is None and generation is not None:  # the stream is left in its middle
                generation.cancel()
        if done is None:
            return ModelFailed(effect.effect_id, BROKEN_OFF, self._read_by_somebody())
        if self.observers:
            self.observers.emit(
                events.ModelCallFinished,
                finish_reason=done.finish_reason,
                usage=done.usage,
                seconds=self._clock.monotonic() - started,
            )
        if turn.is_cancelled():
            self._unread = done.usage
            return None
        return ended(effect, done, self._read_by_somebody())

    async def _stop_reading(self) -> None:
        """Let the model come to its end, which a cancellation has asked for: it says what the reply took."""
        if self._generation is not None and self._reader is not None:
            await asyncio.wait([self._reader])

    def _read_by_somebody(self) -> str:
        """Of a reply that fails. Without observers nobody has read its beginning, so that it may be asked for again."""
        return "".join(self._seen) if self.observers.shown else ""

    # ---------------------------------------------------------------------------------------------------- the tools

    def _call_tool(self, effect: CallTool) -> None:
        identity, call = effect.effect_id, effect.call
        tool = self.program.tools.get(call.name)
        if tool is None:
            self._mailbox.post(ToolFailed(identity, f"this program has no tool {call.name!r}"))
            return
        context = self._contexts[identity] = ToolContext(
            self.program.deps,
            session=self.program.session,
            call_id=call.id,
            tool=call.name,
            report=lambda text: self._mailbox.send(Progress(call, text)),
        )
        if tool.timeout is not None:
            late = partial(ToolFailed, identity, f"{call.name} took longer than {tool.timeout:g} seconds")
            self._deadlines[identity] = (self._clock.monotonic() + tool.timeout, late)
        if tool.is_async:
            work: Work = partial(run_tool_async, tool, effect, context)
        else:
            work = partial(in_thread, partial(run_tool, tool, effect, context))
        self._start(identity, work, ToolFailed(identity, "the call was cancelled"))

    # ---------------------------------------------------------------------- what the program is asked: see `program`

    def _consult(self, effect: Consulted) -> None:
        turn = self._turn
        asked = consultation(
            self.program, effect, lambda: turn is None or turn.is_cancelled() or turn is not self._turn
        )
        self._start(effect.effect_id, partial(self._ask, effect, asked), asked.unanswered)

    async def _ask(self, effect: Consulted, asked: Consultation) -> Input:
        try:
            if isinstance(effect, Recall):
                async with self._notes:
                    return asked.read(await awaited(asked.ask))
            return asked.read(await awaited(asked.ask))
        except CogstepError:
            raise
        except Exception as error:
            self.observers.warn(f"the program could not {asked.what}: {describe(error)}")
            return asked.unanswered

    def _remember(self, decision: Remember) -> None:
        if self.program.memory is not None:  # the short-key protocol has a field for notes, used or not
            self._group.create_task(self._save(partial(self.program.memory.remember, decision.text)))

    async def _save(self, save: Callable[[], object]) -> None:
        try:
            async with self._notes:
                await asyncio.shield(awaited(save))  # the model was told that it is saved
        except Exception as error:
            self.observers.warn(f"a note could not be saved: {describe(error)}")

    # -------------------------------------------------------------------------------------------------- the workers

    def _spawn(self, effect: SpawnWorker) -> None:
        identity = effect.effect_id
        worker = make_worker(effect, self.driver.engine, self.program)
        child = AsyncInterpreter(
            worker.engine,
            worker.program,
            observers=Observers(
                [lambda event: self._mailbox.post(WorkerEvent(identity, event))],
                worker.program.session,
                shown=bool(self.observers),
            ),
            state=worker.state,
            clock=self._clock,
            room=self.room,
        )
        self._children[identity] = child
        self._sign_of_life(identity)
        work = partial(self._work, child, effect, worker.task)
        self._start(identity, work, WorkerFailed(identity, "it was cancelled"))

    async def _work(self, child: AsyncInterpreter, effect: SpawnWorker, task: Input) -> Input:
        try:
            await child.run(task)
        except CogstepError:  # the embedding program's own fault, as in a turn of its own
            raise
        except Exception as error:
            return WorkerFailed(effect.effect_id, describe(error), child.driver.state.spent.usage)
        return worker_answer(effect, child.finished)

    def _sign_of_life(self, identity: EffectId) -> None:
        patience, child = self.program.worker_patience, self._children.get(identity)
        effect = self.driver.in_flight.get(identity)
        if child is not None and patience is not None and isinstance(effect, SpawnWorker):
            stalled = partial(_stalled, effect, patience, child)
            self._deadlines[identity] = (self._clock.monotonic() + patience, stalled)

    def _tell_mode(self, decision: ModeSet) -> None:
        for child in self._children.values():
            child.change_mode(decision.mode)


def _stalled(effect: SpawnWorker, patience: float, child: AsyncInterpreter) -> Input:
    return worker_stalled(effect, patience, child.driver.state)


async def awaited(ask: Callable[[], Any]) -> Any:
    """What a callable of the program's gives: an ``async def`` runs in the loop, a plain one on a thread."""
    answer = ask() if is_async(ask) else await in_thread(ask)
    if isinstance(answer, Future):
        return await asyncio.wrap_future(answer)
    return await answer if isinstance(answer, Awaitable) else answer
