"""The interpreter of a durable run: every effect is a step of the engine, and answers arrive in the order of decisions.

    driver ── effects ──▶ steps, in order ── texts ──▶ driver

It differs from the asyncio interpreter in carrying out and awaiting effects. All effects in flight run concurrently,
but they are awaited in the order of decisions. So every execution takes the same inputs in the same order, regardless
of speed. The history is the same for any order (law L3).
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

from attrs import evolve

from cognition import (
    CallModel,
    CallTool,
    CancelAsked,
    CancelEffect,
    CogstepError,
    EffectId,
    Input,
    Remember,
    SpawnWorker,
    StartTimer,
    TimerFired,
    ToolFailed,
    WorkerFailed,
)
from cognition.steps.decisions import EFFECT_TYPES, Effect
from cognition.steps.inputs import INPUT_TYPES
from interpreters.agents.session_builder import Parts
from interpreters.durable._errors import DurableDivergedError, DurableError
from interpreters.durable._verifying_writer import VerifyingWriter
from interpreters.durable.context import DurableContext, Meanwhile
from interpreters.durable.serialization import LocalResult, RunOutcome, StepResult, WorkerStart
from interpreters.loop.aio import AsyncInterpreter
from interpreters.loop.clock import SYSTEM_CLOCK, Clock
from interpreters.loop.driver import SECRET_LOST, Driver, Handlers, Step, set_time
from interpreters.loop.mailbox_messages import Deferred, NotBegun, ProgramFailure, Turn
from interpreters.loop.performers import settle, unanswered_input
from interpreters.loop.program.pending import LATER, find_pending
from interpreters.loop.workers import make_worker, worker_answer
from interpreters.observing.async_delivery import Tasks, await_all
from interpreters.observing.observers import Observers
from interpreters.recording.journal import JournalError
from interpreters.recording.redactor import BEGINNING, NUMBERED, RedactionNote, Redactor
from interpreters.tools.context import ToolContext
from interpreters.tools.external import ExternalTool
from interpreters.tools.failures import describe
from interpreters.tools.offloading import OBSERVER_THREADS, await_answer, run_to_end
from interpreters.tools.tool import too_late


class OverlappedStep:
    """A step decided and recorded while the engine stores its answer, so that neither waits for the other.

        work ── text ──▶ the engine keeps it ─────────────▶ both are done: what was decided begins
                  └────▶ decide ── write the record ──────▶

    If a process ends in between, the recording may contain an answer that the engine has not stored. A further
    execution takes it from there and does not repeat the work. The earlier execution has started none of the effects
    decided by it, since that happens only after the engine has stored the answer. See ``VerifyingWriter.answer_to``.

    Conversely, an answer that the engine stored in this way was recorded before. If its record is missing, the
    recording has lost it, and its effects may have started. So the record need not be forced to the disk before they
    start. See ``VerifyingWriter.expect``.

    Args:
        driver: the session's driver; no other code uses it until the step has ended.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._before = driver.state, driver.written
        self.event: Input | None = None
        """The input taken; None before that."""
        self._step: Step | None = None
        self._recording: asyncio.Future[None] | None = None
        """Writes the record; None once it is written."""
        self._error: BaseException | None = None
        self._is_over = False

    @property
    def has_begun(self) -> bool:
        """Whether an input was taken, and is recorded or being recorded; False if that has already failed."""
        return self.event is not None and self._error is None

    def begin(self, event: Input) -> None:
        """Take an input, and record it with its decisions, or start to. Never raises."""
        if self._is_over or self.event is not None:
            return
        self.event = event
        try:
            step = self._step = self._driver.step(event)
            recording = self._driver.begin_recording(step, run_to_end)
            self._recording = None if recording is None else asyncio.ensure_future(recording)
        except BaseException as error:  # whoever finishes is told, whatever it is
            self._error = error

    async def finish(self) -> None:
        """Start the decided effects, once the step is recorded.

        Raises:
            JournalError: it can't be recorded, or another process has taken over the session.
            CogstepError: any other error of ``Driver.advance_async``.
        """
        self._is_over = True
        before, written = self._before
        assert self.event is not None
        try:
            if self._error is not None:
                raise self._error
            assert self._step is not None
            await self._driver.conclude(self._step, written, self._recording)
        except BaseException:
            self._driver.abandon(self.event, self._step, before, written)
            raise

    async def abandon(self) -> None:
        """Start no effects: it is unknown whether the engine has stored the answer.

        A record being written is written to its end, and observers see the step.
        """
        self._is_over = True
        if self.event is None:
            return
        try:
            if self._recording is not None:
                with suppress(Exception):  # why nothing was kept is what is told
                    await self._recording
        finally:
            before, written = self._before
            if self._step is not None and self._driver.written > written and self._driver.state is before:
                # The engine may have kept the answer all the same: then no further execution tells of it.
                self._driver.publish(self._step)
            else:
                self._driver.abandon(self.event, self._step, before, written)


class RunClock:
    """The time of a run: that of its newest input, the same in every execution. Steps use the real time."""

    def __init__(self, clock: Clock | None) -> None:
        self.real = clock or SYSTEM_CLOCK
        self.now = 0.0

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.real.monotonic()

    def receive(self, mailbox: Any, seconds: float | None) -> Any:
        return self.real.receive(mailbox, seconds)

    async def wait(self, wake: asyncio.Future[None], seconds: float | None) -> None:
        await self.real.wait(wake, seconds)


class DurableInterpreter(AsyncInterpreter):
    """An execution of a run.

    Args:
        parts: the session's parts.
        writer: writes its recording.
        redactor: hides secrets in the results of steps.
        engine: stores the steps.
        clock: the run's clock.
    """

    def __init__(
        self, parts: Parts, writer: VerifyingWriter, redactor: Redactor, engine: DurableContext, clock: RunClock
    ) -> None:
        program = parts.program
        observers = Observers(
            parts.given["observers"],
            program.session,
            weakened=parts.weakened,
            threads=OBSERVER_THREADS,
            tasks=Tasks,
        )
        if not observers.surrounding:  # what they ask of the engine is no step of the run
            for delivery in observers.deliveries:
                delivery.keeps_context = False
        super().__init__(
            parts.engine,
            program,
            observers=observers,
            recorder=writer,
            state=parts.start,
            clock=clock,
            watcher=self._watch,
        )
        self._writer = writer
        self._redactor = redactor
        self._engine = engine
        self._run_clock = clock
        self._counter, self.driver.counter = self.driver.counter, None
        """Counts tokens within steps: another machine's model may count differently."""
        self._unstarted: list[tuple[Effect, bool]] = []
        """The effects to start, and whether they may have started in an earlier execution."""
        self._steps: dict[EffectId, asyncio.Task[str]] = {}
        self._only: tuple[Effect, bool] | None = None
        """The effect in flight if it is the only one: it is awaited without a task, which would cost a tenth of our own
        time.
        """
        self._made: dict[EffectId, LocalResult] = {}
        """Results of steps of this execution, so that the engine's texts of them need not be parsed."""
        self._came: Input | None = None
        """The next input before redaction, for observers; None if unknown."""
        self._noting: list[asyncio.Task[str]] = []
        self._noted = 0
        self._cancels = False
        """Whether the run is a cancellation of a turn that earlier runs left open."""

    # ---------------------------------------------------------------------------------------------- the run's bounds

    async def prepare_input(self, event: Input | None) -> StepResult:
        """Return an outer input as it is recorded: with its prompt, candidates, token counts and time.

        Raises:
            CogstepError: the previous turn waits for answers, or a callback of the program failed; nothing was
                recorded.
        """
        self.check_nothing_waits(event)
        self._saying.check(event)
        if event is None:
            return StepResult(self._stamp())
        counted = self._count_tokens(await self._add_prompt(event))
        return self._build_step_result(counted, self._redactor.may_hide(counted))

    def check_waits(self, event: Input | None) -> None:
        """Check that an answer is for a pending effect: another answer or a cancellation may have come first.

        Raises:
            CogstepError: no pending effect has this id.
        """
        if (answered := getattr(event, "effect_id", None)) is not None:
            find_pending(str(answered), self._find_outliving())

    async def carry(self, beginning: StepResult) -> RunOutcome:
        """Take an outer input, and continue until only pending effects are in flight.

        Raises:
            TakenOverError: another process has taken over the session.
            DurableDivergedError: an earlier execution of this run decided differently.
            JournalError: the recording can't be written.
        """
        self._run_clock.now = beginning.at
        turn = Turn()
        try:
            for earlier in self._begin_run(beginning.event, turn):
                await self._advance(earlier)
            if beginning.event is not None:
                self._note(beginning)
                await self._advance(beginning.event)
            while self.driver.is_busy:
                self._start_steps()
                await self._take_next()
            return self._outcome()
        except (DurableDivergedError, JournalError):  # nothing can be recorded of it, or must not be
            raise
        except CogstepError as error:
            self._came = None
            self._cancel_steps()
            if not self._keep_pending() and self._is_open():
                for closing in self._abort_inputs(describe(error)):
                    await self._advance(closing)
            return evolve(self._outcome(), error=self._hide(f"{type(error).__name__}: {error}"))
        finally:
            await self._abandon_run()

    def _begin_run(self, event: Input | None, turn: Turn) -> Iterable[Input]:
        self._cancels = isinstance(event, CancelAsked)
        return super()._begin_run(event, turn)

    def _settle_interrupted(self, effect: Effect, waited: float) -> Effect | Input:
        """In a cancellation, leave the effects of a cancelled run for it to close: their program has not ended."""
        return effect if self._cancels else super()._settle_interrupted(effect, waited)

    def _outcome(self) -> RunOutcome:
        self._end_run()
        pending = tuple(self._find_outliving()) if self.finished is None else ()
        turn = self.driver.state.counters.turn
        finished = None if self.finished is None else self._redactor.hide(self.finished)[0]  # it was shown as it is
        return RunOutcome(self._run_clock.now, turn, finished, pending)

    async def _abandon_run(self) -> None:
        if self._noting:
            await asyncio.wait(self._noting)
        self._end_run()
        self._cancel_steps()
        observers = self.observers
        if observers.deliveries:
            await await_all(observers.deliveries)
        if observers.tasks is not None:
            await observers.tasks.close()
        observers.close()

    def _cancel_steps(self) -> None:
        for context in list(self._contexts.values()):
            context.cancel()
        if self._reply is not None:
            self._reply.cancel()
        for task in self._steps.values():
            _cancel_step(task)
        self._steps.clear()
        self._unstarted.clear()

    def _cancellation(self, reason: str) -> CancelAsked:
        """Return the cancellation without process-local data: another execution must produce the same."""
        return CancelAsked(reason)

    def _watch(self, before: Any, event: Any, transition: Any, reveal: Callable[[Any], Any]) -> None:
        if self.observers and not self._writer.repeated:  # else observers were told by the execution that recorded it
            shown = reveal(event) if self._came is None else set_time(self._came, event.at)
            # In a context of their own: what they ask of the engine is no step of the run.
            contextvars.Context().run(self.observers.transition, before, shown, transition, reveal)
        self._came = None

    # ------------------------------------------------------------------------------------ where inputs come from

    async def _take_next(self) -> None:
        """Take the answer to the running effect that was decided first."""
        if self._only is not None:
            (effect, maybe), self._only = self._only, None
            await self._take_only(effect, maybe)
            return
        if self._noting:  # what begins behind one that is not kept, Restate takes for another program later
            await asyncio.wait(self._noting)
        effect_id = next(iter(self._steps))
        text = await self._steps[effect_id]
        self._steps.pop(effect_id, None)
        await self._take_answer(effect_id, text)

    async def _take_only(self, effect: Effect, maybe: bool) -> None:
        """Take the answer to the only effect in flight: it is recorded while the engine stores it."""
        effect_id, early = effect.effect_id, OverlappedStep(self.driver)
        try:
            text = await self._step(effect, maybe, (), meanwhile=partial(self._record, effect_id, early))
            if early.has_begun and self._read_answer(effect_id, text)[0].event is not early.event:
                raise DurableDivergedError(f"the engine has kept another answer to {effect_id} than it was given")
        except BaseException:
            await early.abandon()
            raise
        if early.event is None:
            await self._take_answer(effect_id, text)
            return
        self._settle(early.event)
        await early.finish()

    def _record(self, effect_id: EffectId, early: OverlappedStep) -> str | None:
        """Record the answer to the only effect in flight before the engine has stored it.

        If that fails, or the process leaves, return the text to store, without the note that it was recorded.
        """
        if (made := self._made.get(effect_id)) is None:
            return None
        event = made.happened.event
        if made.is_read_again and event is not None and not self._engine.is_leaving:
            self._note(made.happened, came=made.came)
            early.begin(event)
            if early.has_begun:
                return None
        made = self._made[effect_id] = LocalResult.of(evolve(made.happened, recorded=False), made.came)
        return made.text

    async def _take_answer(self, effect_id: EffectId, text: str) -> None:
        happened, made = self._read_answer(effect_id, text)
        if happened.error:
            raise DurableError(happened.error)
        if happened.event is None:
            self._open(Deferred(self._working_turn(), effect_id))
        else:
            self._settle(happened.event)
            self._note(happened, given_again=made is None, came=None if made is None else made.came)
            await self._advance(happened.event)

    def _read_answer(self, effect_id: EffectId, text: str) -> tuple[StepResult, LocalResult | None]:
        """Return a step's result, and this execution's own data of it if the engine had not stored it before."""
        if (made := self._made.pop(effect_id, None)) is None:
            return StepResult.read(text), None
        if made.text == text and made.is_read_again:
            return made.happened, made
        return StepResult.read(text), evolve(made, came=None)

    def _note(self, happened: StepResult, given_again: bool = False, came: Input | None = None) -> None:
        self._run_clock.now = max(self._run_clock.now, happened.at)
        self._writer.expect(happened.redacted, noted=happened.recorded, given_again=given_again)
        self._came = came

    async def _advance(self, event: Input) -> None:
        await self.driver.advance_async(event, run_to_end)

    def _stamp(self) -> float:
        return (self._run_clock.real.time() * 1000.0 + 0.5) // 1.0 / 1000.0

    def _count_tokens(self, event: Input) -> Input:
        return (
            self._counter.add_counts(event) if self._counter is not None and self._counter.has_texts(event) else event
        )

    def _build_step_result(self, event: Input, hides: bool, recorded: bool = False) -> StepResult:
        """Return an input as the engine stores it: redacted if ``hides``, and with its time."""
        hidden, found = self._redactor.hide_now(event) if hides else (event, ())
        return StepResult(self._stamp(), hidden, found, recorded=recorded)

    def _hide(self, text: str) -> str:
        """Return an error text without secrets, since the engine stores it. Texts of steps are redacted already."""
        return self._redactor.hide(self._redactor.reveal(CancelAsked(text)))[0].reason

    # ------------------------------------------------------------------------------------------------------ the steps

    def _take(self, effect: Effect) -> None:
        self._unstarted.append((effect, self._writer.may_have_begun))

    def _start_steps(self) -> None:
        unstarted = [one for one in self._unstarted if one[0].effect_id in self.driver.in_flight]
        self._unstarted = []
        # A note that was decided before is a call before it, which its task may not have made yet.
        if len(unstarted) == 1 and not self._steps and all(note.done() for note in self._noting):
            self._only = unstarted[0]
            return
        for effect, maybe in unstarted:
            before = tuple(self._steps.values())
            self._steps[effect.effect_id] = asyncio.create_task(self._step(effect, maybe, before))

    async def _step(
        self,
        effect: Effect,
        maybe: bool,
        before: tuple[asyncio.Task[str], ...],
        meanwhile: Meanwhile | None = None,
    ) -> str:
        name = str(effect.effect_id)
        if isinstance(effect, StartTimer) and StartTimer not in self.program.performers:
            at = self._run_clock.now + effect.seconds
            await self._engine.sleep(name, effect.seconds)
            return StepResult(at, TimerFired(effect.effect_id)).text()
        if isinstance(effect, SpawnWorker) and SpawnWorker not in self.program.performers:
            return await self._run_worker(effect, name)
        alone = meanwhile is not None
        if self._engine.is_leaving:
            meanwhile = None
        recorded = meanwhile is not None and self._engine.calls_meanwhile
        work = partial(self._carry_out_in_step, effect, maybe, before, recorded)
        text = await self._engine.step(name, work, alone=alone, meanwhile=meanwhile)
        if effect.effect_id not in self._made:
            reserve_numbers(self._redactor, text)
        return text

    async def _run_worker(self, effect: SpawnWorker, name: str) -> str:
        hidden: Any = self.driver.in_flight[effect.effect_id]
        program = evolve(self.program, reveal=lambda value: value)  # its own run hides and shows for itself
        worker = make_worker(hidden, self.driver.engine, program, self.driver.state)
        config: Any = getattr(worker.engine, "config", None)
        task = WorkerStart(config, worker.state, worker.task).text()
        ended = RunOutcome.read(await self._engine.child(name, worker.program.session, task))
        answer: Input = worker_answer(effect, ended.finished)
        if ended.error and ended.finished is None:
            answer = WorkerFailed(effect.effect_id, ended.error)
        text = StepResult(ended.at, answer).text()
        reserve_numbers(self._redactor, text)
        return text

    async def _carry_out_in_step(
        self, effect: Effect, maybe: bool, before: tuple[asyncio.Task[str], ...], recorded: bool = False
    ) -> str:
        """Carry an effect out, within its step, and return the text to store.

        With ``recorded``, the text has the note that it is recorded before it is stored.
        """
        on_file = self._writer.answer_to(effect.effect_id)
        if on_file is not None:  # from an execution that ended before the engine had kept it
            notes = tuple(RedactionNote(**one) for one in on_file.redacted)
            # Also where other steps go on by now: the line need not be on the disk, and nobody writes it once more.
            return self._keep_result(effect, StepResult(on_file.input.at, on_file.input, notes, recorded=True), None)
        outcome = settle(self.program.tools, effect, 0.0) if maybe else effect
        try:
            answer = await self._perform(outcome) if isinstance(outcome, EFFECT_TYPES) else outcome
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            answer = unanswered_input(effect)  # nobody cancelled this step: it gave up by itself
        except Exception as error:
            return StepResult(self._stamp(), error=self._hide(f"{type(error).__name__}: {error}")).text()
        if answer is LATER:
            return StepResult(self._stamp()).text()
        if isinstance(answer, ProgramFailure):
            return StepResult(self._stamp(), error=self._hide(describe(answer.error))).text()
        event: Any = answer if isinstance(answer, INPUT_TYPES) else unanswered_input(effect)
        hides = self._redactor.may_hide(event)
        if hides and before:  # in the order of decisions, so that placeholders are numbered by it
            await asyncio.gather(*before, return_exceptions=True)
        event = self._count_tokens(event)
        return self._keep_result(effect, self._build_step_result(event, hides, recorded), event)

    def _keep_result(self, effect: Effect, happened: StepResult, came: Input | None) -> str:
        made = self._made[effect.effect_id] = LocalResult.of(happened, came)
        return made.text

    async def _perform(self, effect: Any) -> Any:
        try:
            if isinstance(effect, CallTool):
                return await self._run_tool(effect)
            return await self._performers[type(effect)](effect, self._scope(effect))
        except NotBegun:
            return None

    async def _run_tool(self, effect: CallTool) -> Any:
        if BEGINNING in effect.call.arguments_json and self._redactor.lacks(effect):
            return ToolFailed(effect.effect_id, SECRET_LOST)
        perform, own = self._performers[CallTool], CallTool in self.program.performers
        tool = self.program.tools.get(effect.call.name)
        if not own:
            if tool is None:
                return ToolFailed(effect.effect_id, f"this program has no tool {effect.call.name!r}")
            if isinstance(tool, ExternalTool):
                handed_out = self._hand_out(tool, effect)
                return LATER if isinstance(handed_out, Deferred) else handed_out
        loop = asyncio.get_running_loop()
        context: ToolContext[Any] = self._context(effect, lambda said: loop.call_soon_threadsafe(self._open, said))
        call = perform(effect, self._scope(effect, context))
        if tool is None or tool.timeout is None:
            return await call
        running = asyncio.ensure_future(call)
        try:
            await asyncio.wait([running], timeout=tool.timeout)
            if running.done():
                return running.result()
        finally:
            running.cancel()
        context.cancel()
        return too_late(tool, effect)

    def _remember(self, decision: Remember) -> None:
        if self.program.memory is not None:
            self._noted += 1
            name = f"remember-{self._noted}"
            save = partial(self.program.memory.remember, decision.text)
            self._noting.append(asyncio.create_task(self._engine.step(name, partial(self._save_note, save))))

    async def _save_note(self, save: Callable[[], object]) -> str:
        try:
            async with self._notes:
                await await_answer(save)
        except Exception as error:
            self.observers.warn(f"a note could not be saved: {describe(error)}")
        return StepResult(self._stamp()).text()

    def _drop(self, decision: CancelEffect) -> None:
        self._stop(decision.effect_id)

    def _stop(self, effect_id: EffectId) -> None:
        super()._stop(effect_id)
        if (task := self._steps.pop(effect_id, None)) is not None:
            _cancel_step(task)

    def _forget(self) -> None:
        super()._forget()
        self._cancel_steps()

    handlers: ClassVar[Handlers] = {
        **AsyncInterpreter.handlers,
        **dict.fromkeys(EFFECT_TYPES, _take),
        CancelEffect: _drop,
        Remember: _remember,
        CallModel: _take,
    }


def reserve_numbers(redactor: Redactor, text: str) -> None:
    """Reserve the placeholder numbers of an earlier execution, so that they are not used for another secret."""
    if BEGINNING in text:
        redactor.reserve_numbers(max(map(int, NUMBERED.findall(text.encode())), default=0))


def _cancel_step(task: asyncio.Task[str]) -> None:
    """Cancel a step that is no longer awaited, and retrieve its exception, so that asyncio does not log it."""
    task.cancel()
    task.add_done_callback(lambda one: one.cancelled() or one.exception())
