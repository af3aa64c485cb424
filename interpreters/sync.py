"""The interpreter without an event loop: the session runs on the thread that calls ``run``.

Handlers only note what is to be done. It is done when the driver asks for the next input: the model's stream, questions
to the program and a read-only call that stands alone right here; other calls and workers on threads of their own, which
put what came of it into the mailbox, where cancellations arrive too.

    driver ── effects ──▶ agenda, threads, deadlines ── inputs ──▶ driver
                                  ▲
             cancel(), from any thread or a signal handler

Nothing here takes a lock that a signal handler could need again: the mailbox is a ``SimpleQueue``, whose ``put`` may
interrupt its own ``get``, and flags are plain attributes.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from functools import partial
from queue import Empty, SimpleQueue
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
    ConfigError,
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
    ToolCall,
    ToolFailed,
    TurnFinished,
    Usage,
)
from cognition.features import Mode
from cognition.parsing import TextDelta
from interpreters import events
from interpreters.clock import Clock, SystemClock
from interpreters.context import ToolContext
from interpreters.crew import Crew, run_errand
from interpreters.driver import Driver, Recorder
from interpreters.errors import BusyError
from interpreters.letters import CancelRequest, Errand, Fault, Letter, Progress, Turn, WorkerEvent
from interpreters.observers import Observers
from interpreters.program import Consultation, Consulted, Program, consultation
from interpreters.settling import settle
from interpreters.spawning import make_worker
from interpreters.stream import BROKEN_OFF, ended, failed, show
from interpreters.tools import Tool, describe, run_tool
from interpreters.workers import Workers
from runtime.protocol import Done, Generation


class SyncInterpreter:
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
        parent: Callable[[Callable[[], Any]], Future[Any]] | None = None,
    ) -> None:
        program.check(engine)
        self.program = program
        self.observers = Observers((), program.session) if observers is None else observers
        self.finished: TurnFinished | None = None
        """How the latest turn ended."""
        self._clock = clock or SystemClock()
        self._parent = parent
        """Of a worker: takes what is to be asked to the session's own thread."""
        self._threads = Workers()
        self._busy = threading.Lock()
        self._mailbox: SimpleQueue[Letter] = SimpleQueue()
        self._agenda: dict[EffectId, Callable[[], Input | None]] = {}
        """What is to be done on this thread, oldest first."""
        self._calls: list[CallTool] = []
        """Calls that were decided and not begun."""
        self._contexts: dict[EffectId, ToolContext[Any]] = {}
        self._deadlines: dict[EffectId, tuple[float, Callable[[], Input]]] = {}
        """When the clock answers an effect, and with what."""
        self._questions: dict[EffectId, Future[Any]] = {}
        """What was asked elsewhere."""
        self._crew = Crew(self._threads, self._mailbox.put, self._deadlines, self._clock, program.worker_patience)
        self._turn: Turn | None = None
        self._generation: Generation | None = None
        self._seen: list[str] = []
        """The reply's text so far."""
        self._unread = Usage()
        """What the reply took that a cancellation ended."""
        handlers: Mapping[Any, Callable[[Any], object]] = {
            CallModel: self._call_model,
            CallTool: self._calls.append,
            AskApproval: self._consult,
            AskUser: self._consult,
            ReviewPlan: self._consult,
            Recall: self._consult,
            RunHook: self._consult,
            SpawnWorker: self._spawn,
            StartTimer: self._start_timer,
            CancelEffect: self._cancel_effect,
            Remember: self._remember,
            ModeSet: self._crew.tell_mode,
            TurnFinished: partial(setattr, self, "finished"),
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

    def run(self, event: Input | None, turn: Turn | None = None) -> None:
        """Hand in an input, or with None go on where a resumed session stands, until nothing is in flight.

        A ``turn`` made beforehand can be cancelled from its beginning on.

        Raises:
            BusyError: another run is under way.
            CogstepError: the embedding program's own fault, such as a journal that can't be written.
        """
        if not self._busy.acquire(blocking=False):
            raise BusyError("a turn is under way; wait for its end or call cancel()")
        try:
            self._seen, self._unread = [], Usage()
            self._turn = turn or Turn()
            self.finished = None
            if event is None:
                self.driver.resume(partial(settle, self.program.tools))
            else:
                self._settle_leftovers("the turn before was broken off")
                self.driver.advance(event)
            self.driver.run(self._next_input)
        except BaseException as error:
            self._break_off(error)
            raise
        finally:
            self._turn = None
            self._busy.release()

    def cancel(self, reason: str = "") -> bool:
        """Stop the turn under way; False if there is none. From any thread, a tool, an observer, a signal handler."""
        turn = self._turn
        if turn is None:
            return False
        if not turn.is_cancelled():
            self.cancel_turn(turn, reason)
        return True

    def cancel_turn(self, turn: Turn, reason: str) -> None:
        """Stop this turn, also if its run has not begun yet."""
        turn.cancel()
        self._mailbox.put(CancelRequest(turn, reason))  # before the workers hear of it: their ends come behind it
        for context in list(self._contexts.values()):
            context.cancel()
        self._crew.cancel(reason)
        generation = self._generation
        if generation is not None:
            generation.cancel()

    def change_mode(self, mode: Mode) -> None:
        """Let more or less happen without being asked, from now on. From any thread."""
        if self._busy.acquire(blocking=False):
            try:
                self.driver.advance(ModeChanged(mode))
            finally:
                self._busy.release()
        else:
            self._mailbox.put(ModeChanged(mode))

    def close(self, seconds: float) -> int:
        """Cancel what runs and wait so long for it to end; how many tools still run after that."""
        self.cancel("the agent was closed")
        if self._busy.acquire(timeout=seconds):
            try:
                self._settle_leftovers("the agent was closed")
            finally:
                self._busy.release()
        return self._threads.close(seconds)

    def _settle_leftovers(self, reason: str) -> None:
        """A run that an exception ended may have left its turn open: close it first."""
        if self.driver.in_flight or not isinstance(self.driver.state.phase, Idle | Closed):
            self.driver.advance(self._cancellation(reason))
            self._forget()

    def _cancellation(self, reason: str) -> CancelAsked:
        return CancelAsked(reason, "".join(self._seen), sum(self._crew.usage(), self._unread))

    def _break_off(self, error: BaseException) -> None:
        """An exception passes through: stop what is in flight, and end the turn if that can still be recorded."""
        turn, generation = self._turn, self._generation
        if turn is not None:
            turn.cancel()
        if generation is not None:
            generation.cancel()
        try:
            self._settle_leftovers(describe(error))
        except CogstepError:  # the error on its way tells more; the next run tries again
            for context in self._contexts.values():
                context.cancel()
            self._crew.stop_all()

    def _forget(self) -> None:
        self.driver.in_flight.clear()
        self._agenda.clear()
        self._calls.clear()
        self._deadlines.clear()
        self._contexts.clear()
        self._questions.clear()
        self._crew.stop_all()

    # ---------------------------------------------------------------------------------------- where inputs come from

    def _next_input(self) -> Input:
        """What happened next: from the mailbox, of the work to do here, or by the clock."""
        while True:
            if self._calls:
                self._begin_calls()
            due = self._due() if self._deadlines else None
            if due is not None:
                return due
            letter = self._look() if self._agenda else self._wait()
            if letter is not None:
                event = self._open(letter)
            elif self._agenda:
                event = self._agenda.pop(next(iter(self._agenda)))()
            else:  # a deadline has come, or a long wait is to be begun again
                continue
            if event is not None:
                return event

    def _look(self) -> Letter | None:
        with contextlib.suppress(Empty):
            return self._mailbox.get_nowait()
        return None

    def _wait(self) -> Letter | None:
        nearest = min((when for when, _ in self._deadlines.values()), default=None)
        return self._clock.receive(self._mailbox, None if nearest is None else nearest - self._clock.monotonic())

    def _open(self, letter: Letter) -> Input | None:
        """The input in a letter, if it holds one. What was meant for an earlier turn is dropped."""
        match letter:
            case CancelRequest(turn=turn, reason=reason):
                return self._cancellation(reason) if turn is self._turn else None
            case Progress(call=call, text=text):
                self.observers.emit(events.ToolProgress, call=call, text=text)
            case WorkerEvent(effect_id=identity, event=event):
                self._crew.sign_of_life(identity)
                self.observers.forward(event)
            case Errand():
                run_errand(letter, wanted=letter.turn is self._turn and not letter.turn.is_cancelled())
            case Fault(turn=turn, error=error):
                if turn is self._turn:
                    raise error
            case _:
                self._settled(letter)
                return letter
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

    def _settled(self, event: Input) -> None:
        identity: EffectId | None = getattr(event, "effect_id", None)
        if identity is not None:
            self._deadlines.pop(identity, None)
            self._contexts.pop(identity, None)
            self._crew.settled(identity)

    # ------------------------------------------------------------------------------------------------- the handlers

    def _call_model(self, effect: CallModel) -> None:
        self._seen = []
        self._agenda[effect.effect_id] = partial(self._stream, effect)

    def _consult(self, effect: Consulted) -> None:
        self._agenda[effect.effect_id] = partial(self._ask, effect)

    def _start_timer(self, effect: StartTimer) -> None:
        self._seen = []
        identity = effect.effect_id
        self._deadlines[identity] = (self._clock.monotonic() + effect.seconds, partial(TimerFired, identity))

    def _cancel_effect(self, effect: CancelEffect) -> None:
        identity = effect.effect_id
        self._agenda.pop(identity, None)
        self._deadlines.pop(identity, None)
        self._calls[:] = [call for call in self._calls if call.effect_id != identity]
        self._stop(identity)
        question = self._questions.pop(identity, None)
        if question is not None:
            question.cancel()

    def _stop(self, identity: EffectId) -> None:
        """Tell a tool or a worker that nobody waits for it any more."""
        context = self._contexts.pop(identity, None)
        if context is not None:
            context.cancel()
        self._crew.stop(identity)

    def _remember(self, decision: Remember) -> None:
        if self.program.memory is None:  # the short-key protocol has a field for notes, used or not
            return
        try:
            self.program.memory.remember(decision.text)
        except Exception as error:
            self.observers.warn(f"a note could not be saved: {describe(error)}")

    # ---------------------------------------------------------------------------------------------------- the model

    def _stream(self, effect: CallModel) -> Input | None:
        """Ask the model and show what comes; None when the turn was cancelled, which the mailbox tells."""
        turn = self._turn
        if turn is None or turn.is_cancelled():
            return None
        started = self._clock.monotonic()
        done: Done | None = None
        generation: Generation | None = None
        try:
            generation = self._generation = self.program.model.submit(effect.request)
            if turn.is_cancelled():  # asked for while it was submitted
                generation.cancel()
            for output in generation:
                if isinstance(output, Done):
                    done = output
                    break
                if isinstance(output, TextDelta):
                    self._seen.append(output.text)
                if self.observers:
                    show(output, self.observers)
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

    def _read_by_somebody(self) -> str:
        """Of a reply that fails. Without observers nobody has read its beginning, so that it may be asked for again."""
        return "".join(self._seen) if self.observers.shown else ""

    # ---------------------------------------------------------------------------------------------------- the tools

    def _begin_calls(self) -> None:
        """Start what was decided: a read-only call that is all there is to do runs here, others on threads."""
        calls, self._calls[:] = list(self._calls), ()
        alone = len(calls) == 1 and len(self.driver.in_flight) == 1
        for effect in calls:
            identity, call = effect.effect_id, effect.call
            tool = self.program.tools.get(call.name)
            if tool is None:
                self._mailbox.put(ToolFailed(identity, f"this program has no tool {call.name!r}"))
                continue
            inline = alone and tool.spec.read_only and tool.timeout is None and not tool.is_async
            context = self._contexts[identity] = ToolContext(
                self.program.deps,
                session=self.program.session,
                call_id=call.id,
                tool=call.name,
                report=partial(self._report, call, inline),
            )
            if inline:
                self._agenda[identity] = partial(self._run_here, tool, effect, context)
            else:
                if tool.timeout is not None:
                    late = partial(ToolFailed, identity, f"{call.name} took longer than {tool.timeout:g} seconds")
                    self._deadlines[identity] = (self._clock.monotonic() + tool.timeout, late)
                self._threads.start(partial(self._run_there, tool, effect, context))

    def _run_here(self, tool: Tool[..., Any], effect: CallTool, context: ToolContext[Any]) -> Input | None:
        turn = self._turn
        if turn is None or turn.is_cancelled():
            return None
        answer = run_tool(tool, effect, context)
        self._contexts.pop(effect.effect_id, None)
        return None if turn.is_cancelled() else answer

    def _run_there(self, tool: Tool[..., Any], effect: CallTool, context: ToolContext[Any]) -> None:
        try:
            answer: Input = run_tool(tool, effect, context)
        except BaseException as error:  # whatever ends a tool's thread, the turn must not wait for ever
            answer = ToolFailed(effect.effect_id, describe(error))
        if not context.cancelled:
            self._mailbox.put(answer)

    def _report(self, call: ToolCall, here: bool, text: str) -> None:
        deliver: Callable[[Letter], object] = self._open if here else self._mailbox.put
        deliver(Progress(call, text))

    # ---------------------------------------------------------------------- what the program is asked: see `program`

    def _ask(self, effect: Consulted) -> Input | None:
        turn = self._turn
        if turn is None or turn.is_cancelled():
            return None
        asked = consultation(self.program, effect, lambda: turn.is_cancelled() or turn is not self._turn)
        try:
            answer = asked.ask() if self._parent is None else self._parent(asked.ask)
            if not isinstance(answer, Future):
                return None if turn.is_cancelled() else asked.read_at_once(answer)
        except CogstepError:
            raise
        except Exception as error:
            return self._unanswered(asked, error)
        self._questions[effect.effect_id] = answer
        answer.add_done_callback(partial(self._answered, effect.effect_id, asked, turn))
        return None

    def _unanswered(self, asked: Consultation, error: BaseException) -> Input:
        self.observers.warn(f"the program could not {asked.what}: {describe(error)}")
        return asked.unanswered

    def _answered(self, identity: EffectId, asked: Consultation, turn: Turn, future: Future[Any]) -> None:
        """What was asked elsewhere was settled there, on whatever thread."""
        if self._questions.pop(identity, None) is None:  # the turn was cancelled: nobody waits for it
            return
        letter: Letter
        try:
            letter = asked.read(future.result())
        except CogstepError as error:
            letter = Fault(turn, error)
        except (CancelledError, Exception):
            letter = asked.unanswered
        self._mailbox.put(letter)

    # -------------------------------------------------------------------------------------------------- the workers

    def _spawn(self, effect: SpawnWorker) -> None:
        turn = self._turn
        if turn is None:
            raise ConfigError("a worker can be started in a run only")
        worker = make_worker(effect, self.driver.engine, self.program)

        def make(observers: Observers) -> SyncInterpreter:
            return SyncInterpreter(
                worker.engine,
                worker.program,
                observers=observers,
                state=worker.state,
                clock=self._clock,
                parent=partial(self._crew.errand, turn),
            )

        self._crew.start(effect, worker, turn, make, shown=bool(self.observers))
