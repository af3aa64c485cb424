"""The asyncio interpreter: the session runs in the task that awaits ``run``.

If no other effect is in flight, that task reads the model itself. Every other effect is a task of one ``TaskGroup``
that lives as long as the run, so none outlives its turn. Results and cancellations arrive in the mailbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, ClassVar, Self, Unpack

from cognition import (
    CallModel,
    CallTool,
    CognitiveEngine,
    CogstepError,
    ConfigError,
    EffectId,
    Input,
    Remember,
    SpawnWorker,
    WorkerFailed,
)
from cognition.steps.decisions import Effect
from interpreters.loop._mailbox import IdleChanges, Mailbox
from interpreters.loop._user_message import MessagePreparer
from interpreters.loop.driver import Handlers
from interpreters.loop.errors import BusyError
from interpreters.loop.interpreter import ASKS_THE_USER, BUSY, Interpreter, Surroundings
from interpreters.loop.mailbox_messages import (
    Deferred,
    HandedInput,
    MailboxMessage,
    NotBegun,
    ProgramFailure,
    StopRequest,
    Turn,
)
from interpreters.loop.performers import CONSULTED, Answered, Performer, Scope, async_performers, unanswered_input
from interpreters.loop.program.pending import LATER
from interpreters.loop.program.program import Program
from interpreters.loop.workers import worker_answer
from interpreters.observing.async_delivery import await_all
from interpreters.tools.context import ToolContext
from interpreters.tools.failures import describe
from interpreters.tools.offloading import await_answer, run_to_end
from runtime.threads.event_loop import run_on

Work = Callable[[], Coroutine[Any, Any, Answered | None]]
"""Carries out an effect. Its task calls it, so an early cancellation leaves no unawaited coroutine."""

SAVE_SECONDS = 5.0
"""Maximum seconds that a cancelled turn waits for its notes to be saved."""


class AsyncInterpreter(Interpreter):
    """An ``Interpreter`` in the task that awaits ``run``."""

    def __init__(self, engine: CognitiveEngine, program: Program, **given: Unpack[Surroundings]) -> None:
        self._notes = asyncio.Lock()
        self._group: asyncio.TaskGroup | None = None
        self._turn_closed = self._run_ended = asyncio.Event()
        """Set when the turn of the newest run is closed, or could not be closed; and when that run has ended.

        They are new from before its first input on, which may need long to reach the disk.
        """
        self._mailbox = Mailbox()
        self._tasks: dict[EffectId, asyncio.Task[None]] = {}
        self._saves: set[asyncio.Task[None]] = set()
        """Tasks that save notes, outside the group. The group would cancel them, but the model already read that they
        are saved.
        """
        self._reader: asyncio.Task[None] | None = None
        """Task that reads the model's reply while other effects are in flight."""
        self._alone: tuple[CallModel, Scope] | None = None
        """The reply to read in the session's own task."""
        self._performers = async_performers(program)
        super().__init__(engine, program, **given)
        self._saying = MessagePreparer(program, self.driver)
        self._between = IdleChanges(self.driver, self._mailbox, weakref.ref(self))  # else a session would hold itself

    # ------------------------------------------------------------------------------------------------ running a turn

    async def run(self, event: Input | None, turn: Turn | None = None) -> None:
        """Hand in an input and run until only pending effects are in flight. None continues the open turn.

        A ``turn`` passed in can be cancelled from its beginning on. Cancelling the task that awaits this cancels the
        turn and raises ``CancelledError``. If an effect can be answered later, the turn stays open instead.

        Raises:
            BusyError: another run is under way.
            PendingError: the input is a new message, and the previous turn waits for answers.
            CogstepError: a fault of the embedding program, such as an unwritable journal.
        """
        await self.ready()
        if self._turn is not None:
            raise BusyError(BUSY)
        self.check_nothing_waits(event)
        self._saying.check(event)
        self._turn_closed, self._run_ended = asyncio.Event(), asyncio.Event()
        error: BaseException | None = None
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                try:
                    beginning = self._begin_run(event, turn or Turn())
                    self._between.begin()
                    for earlier in beginning:
                        await self.driver.advance_async(earlier, run_to_end)
                    if event is not None:
                        await self.driver.advance_async(await self._add_prompt(event), run_to_end)
                    while self.driver.is_busy:
                        answer = await self._next_input()
                        if answer is not None:  # None: an effect has become pending
                            await self.driver.advance_async(answer, run_to_end)
                except asyncio.CancelledError:
                    await self._break_off("the task was cancelled")
                    raise
                except BaseException as caught:
                    await self._break_off(describe(caught))
                    error = caught  # raised outside, since a group would wrap it
                finally:
                    self._turn_closed.set()
            if error is not None:
                raise error
        finally:
            try:
                if self._saves:
                    await self._await_saves()
                if self.observers.deliveries:
                    await await_all(self.observers.deliveries)
            finally:
                self._end_run()
                self._group = None
                self._run_ended.set()

    async def _add_prompt(self, event: Input) -> Input:
        saying, program = self._saying, self.program
        if not saying.is_unprepared(event):
            return event
        given = program.deps, program.session, event.text
        return saying.prepare(event, [await source.make_async(*given) for source in saying.sources(event)])

    async def ready(self) -> None:
        """Wait until the inputs handed in between runs are on disk."""
        await self._between.ready()

    async def wait_until_ended(self) -> None:
        if self._turn is not None:
            await self._run_ended.wait()

    async def wait_until_closed(self, seconds: float) -> None:
        """Wait at most ``seconds`` until the current turn is closed. Its run may still wait for tasks to end."""
        if self._turn is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._turn_closed.wait(), seconds)

    async def close_unless_resumable(self, reason: str) -> None:
        """Close the open turn, unless it can be continued."""
        await self.ready()
        if not self._keep_pending():
            await self.settle(reason)

    async def settle(self, reason: str) -> None:
        """Close the turn that an exception left open, if any."""
        await self.ready()
        for event in self._closing_inputs(reason):
            await self.driver.advance_async(event, run_to_end)

    async def _break_off(self, reason: str) -> None:
        self._stop_work()
        if self._suspend():  # neither a cancellation nor a full disk gives up what can wait
            self._forget()
            return
        try:
            with contextlib.suppress(CogstepError):  # the error on its way tells more; the next run tries again
                await self.settle(reason)
        finally:
            self._forget()

    def hand_in(self, event: HandedInput) -> None:
        """Pass a decision of the user, such as a mode, to the session. During a turn, safe from any thread.

        An input that arrives while the model writes applies to the calls of that reply, and is reported after the
        reply. Between turns it may wait for the disk or the session's loop. The next call then waits for it and raises
        its error.
        """
        self._between.hand_in(event)

    def _give_up(self, reason: str) -> bool:
        if not self.find_pending():
            return False
        self._between.hand_in(self._cancellation(reason))
        return True

    # ---------------------------------------------------------------------------------------- where inputs come from

    async def _next_input(self) -> Input | None:
        """Return the next input, from the mailbox or the clock; None if no effect is in flight."""
        while True:
            letter = self._mailbox.take()
            if letter is not None:
                stopped = self._reply if isinstance(letter, StopRequest) and letter.turn is self._turn else None
                if stopped is not None and stopped.open and self._reader is not None:
                    await asyncio.wait([self._reader])  # the end of a cancelled reply reports its usage
                event = self._open(letter)
            elif self._alone is not None:
                alone, self._alone = self._alone, None
                await self._read_here(*alone)
                continue
            else:
                event = self._take_due()
                if event is None:
                    await self._clock.wait(self._mailbox.alarm(), self._seconds_left())
            if event is not None or not self.driver.is_busy:
                return event

    def _post(self, letter: MailboxMessage) -> None:
        self._mailbox.post(letter)

    def _send(self, letter: MailboxMessage) -> None:
        self._mailbox.send(letter)

    # ----------------------------------------------------------------------------------------------------- the tasks

    def _start(self, effect: Effect, work: Work) -> asyncio.Task[None]:
        """Begin an effect. If foreign code cancels its task, the answer is ``unanswered_input``."""
        if self._group is None:
            raise ConfigError("an effect can be carried out in a run only")
        task = self._tasks[effect.effect_id] = self._group.create_task(self._carry_out(effect, work))
        return task

    async def _carry_out(self, effect: Effect, work: Work) -> None:
        effect_id, turn = effect.effect_id, self._working_turn()
        try:
            answer = await work()
        except asyncio.CancelledError:
            if effect_id in self._tasks:  # a tool that cancelled itself: the turn must not wait for ever
                self._mailbox.post(unanswered_input(effect))
            raise
        except NotBegun:
            return
        except GeneratorExit:  # Python closes what awaits a future of such an error, whatever is done about it there
            if effect_id in self._tasks and self._mailbox.running_loop() is not None:  # else the loop itself is gone
                self._mailbox.post(unanswered_input(effect))
        except Exception as error:
            self._mailbox.post(ProgramFailure(turn, error))
        else:
            if answer is not None and effect_id in self._tasks and not turn.is_over():
                self._mailbox.post(Deferred(turn, effect_id) if answer is LATER else answer)

    def _release(self, effect_id: EffectId) -> None:
        super()._release(effect_id)
        self._tasks.pop(effect_id, None)

    def _stop(self, effect_id: EffectId) -> None:
        super()._stop(effect_id)
        task = self._tasks.pop(effect_id, None)
        if task is not None:
            task.cancel()
        if self._alone is not None and self._alone[0].effect_id == effect_id:
            self._alone = None

    def _forget(self) -> None:
        super()._forget()
        self._alone = None
        for effect_id in list(self._tasks):
            self._stop(effect_id)

    # -------------------------------------------------------------------------------------------------- performing

    def _perform_beside(self, effect: Effect, context: ToolContext[Any] | None = None) -> None:
        perform = self._performers[type(effect)]
        if type(effect) in ASKS_THE_USER and self.observers.deliveries:
            perform = partial(self._perform_when_seen, perform)
        self._start(effect, partial(perform, effect, self._scope(effect, context)))

    async def _perform_when_seen(self, perform: Performer, effect: Effect, scope: Scope) -> Answered | None:
        await await_all(self.observers.deliveries)
        answer: Answered | None = await perform(effect, scope)
        return answer

    def _call_model(self, effect: CallModel) -> None:
        scope = self._scope(effect)
        usual = CallModel not in self.program.performers  # else no cancelling of the reply need end it
        if usual and self._group is not None and len(self.driver.in_flight) == 1:
            self._alone = effect, scope
        else:
            self._reader = self._start(effect, partial(self._performers[CallModel], effect, scope))

    async def _read_here(self, effect: CallModel, scope: Scope) -> None:
        """Read a reply in the session's own task, which saves a second task and the wait for it."""
        task = asyncio.current_task()
        assert task is not None
        before = task.cancelling()
        await asyncio.sleep(0)  # also a model that never waits leaves time to others
        try:
            answer = await self._performers[CallModel](effect, scope)
        except NotBegun:
            return
        except asyncio.CancelledError:
            if task.cancelling() > before:
                raise
            answer = unanswered_input(effect)  # nobody cancelled this task: the model gave up
        if task.cancelling() > before:  # somebody did, and the model caught it
            raise asyncio.CancelledError
        if answer is not None:
            self._mailbox.post(answer)  # behind what came meanwhile

    def _call_tool(self, effect: CallTool) -> None:
        if self._tool(effect) is not None or CallTool in self.program.performers:
            self._perform_beside(effect, self._context(effect, self._send))

    def _runner(self) -> Callable[[Awaitable[Any]], Any]:
        return partial(run_on, asyncio.get_running_loop())

    def _remember(self, decision: Remember) -> None:
        if self.program.memory is not None:  # the short-key protocol has a field for notes, used or not
            saving = asyncio.create_task(self._save(partial(self.program.memory.remember, decision.text)))
            self._saves.add(saving)
            saving.add_done_callback(self._saves.discard)

    async def _save(self, save: Callable[[], object]) -> None:
        try:
            async with self._notes:
                with self.observers.within():
                    await await_answer(save)
        except Exception as error:
            self.observers.warn(f"a note could not be saved: {describe(error)}")

    async def _await_saves(self) -> None:
        """Wait until the notes of the turn are saved; at most ``SAVE_SECONDS`` once it is cancelled."""
        loop = asyncio.get_running_loop()
        deadline: float | None = None
        cancelled: asyncio.CancelledError | None = None
        while self._saves:
            if deadline is None and (cancelled is not None or self._working_turn().is_cancelled()):
                deadline = loop.time() + SAVE_SECONDS
            left = None if deadline is None else deadline - loop.time()
            if left is not None and left <= 0.0:
                break
            try:
                await asyncio.wait(self._saves, timeout=left)
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled

    # -------------------------------------------------------------------------------------------------- the workers

    def _hire(self, effect: SpawnWorker, child: Self, task: Input, own: Turn, parent: Turn) -> None:
        child._notes, child.room = self._notes, self.room
        self._start(effect, partial(self._work, effect, child, task, own, parent))

    async def _work(self, effect: SpawnWorker, child: Self, task: Input, own: Turn, parent: Turn) -> Input:
        try:
            with self.observers.within(effect):
                await parent.begin(effect.effect_id, partial(child.run, task, own))
        except (CogstepError, NotBegun):  # the embedding program's own fault, as in a turn of its own
            raise
        except Exception as error:
            if self.program.raise_tool_errors:
                raise
            return WorkerFailed(effect.effect_id, describe(error), child.driver.state.spent.usage)
        return worker_answer(effect, child.finished)

    handlers: ClassVar[Handlers] = {
        **Interpreter.handlers,
        CallModel: _call_model,
        CallTool: _call_tool,
        Remember: _remember,
        **dict.fromkeys(CONSULTED, _perform_beside),
    }
