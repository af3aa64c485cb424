"""The interpreter without an event loop: the session runs on the thread that calls ``run``.

Handlers only note what is to be done. The work is done when the driver asks for the next input: the model's stream, a
question to the user and a read-only call that stands alone run right here; other calls run on threads of their own and
put what came of them into the mailbox, where cancellations arrive too.

    driver ── effects ──▶ agenda, threads, deadlines ── inputs ──▶ driver
                                  ▲
             cancel(), from any thread or a signal handler

Nothing here takes a lock that a signal handler could need again: the mailbox is a ``SimpleQueue``, whose ``put`` may
interrupt its own ``get``, and flags are plain attributes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import CancelledError, Future
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from attrs import define, frozen

from cognition import (
    AgentState,
    ApprovalRefused,
    AskApproval,
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
    ModelFailed,
    StartTimer,
    TimerFired,
    ToolCall,
    ToolFailed,
    TurnFinished,
)
from cognition.parsing import TextDelta
from interpreters import events
from interpreters.approvals import NOBODY, NOT_ASKED, Answer, ApprovalRequest, Approve, as_input
from interpreters.clock import Clock, SystemClock
from interpreters.context import ToolContext
from interpreters.driver import Driver, Recorder
from interpreters.errors import BusyError
from interpreters.observers import Observers
from interpreters.stream import BROKEN_OFF, ended, failed, show
from interpreters.tools import Tool, describe, run_tool
from interpreters.workers import Workers
from runtime.protocol import Done, Generation, Runtime


@define(eq=False)
class Turn:
    """The run under way, as a cancellation sees it."""

    _cancelled: bool = False

    def cancel(self) -> None:
        self._cancelled = True

    def is_cancelled(self) -> bool:
        """Asked anew each time, since another thread or a signal handler may have said so in between."""
        return self._cancelled


@frozen(eq=False)
class CancelRequest:
    """In the mailbox: somebody wants this turn, and no later one, to stop."""

    turn: Turn
    reason: str


@frozen(eq=False)
class Progress:
    """In the mailbox: what a tool on another thread says of itself."""

    call: ToolCall
    text: str


class SyncInterpreter:
    """Carries out the decisions of one session, one run at a time."""

    def __init__(
        self,
        engine: CognitiveEngine,
        model: Runtime,
        tools: Iterable[Tool[..., Any]] = (),
        *,
        approve: Approve | None = None,
        observers: Observers | None = None,
        recorder: Recorder | None = None,
        state: AgentState | None = None,
        deps: Any = None,
        session: str = "",
        clock: Clock | None = None,
    ) -> None:
        self.session = session
        self.observers = observers or Observers((), session)
        self.finished: TurnFinished | None = None
        """How the latest turn ended."""
        self._model = model
        self._tools = {tool.spec.name: tool for tool in tools}
        self._approve = approve
        self._deps = deps
        self._clock = clock or SystemClock()
        self._workers = Workers()
        self._busy = threading.Lock()
        self._mailbox: SimpleQueue[Input | CancelRequest | Progress] = SimpleQueue()
        self._agenda: dict[EffectId, Callable[[], Input | None]] = {}
        """What is to be done on this thread, oldest first."""
        self._calls: list[CallTool] = []
        """Calls that were decided and not begun."""
        self._contexts: dict[EffectId, ToolContext[Any]] = {}
        self._deadlines: dict[EffectId, tuple[float, Input]] = {}
        """When an effect is answered by the clock, and with what."""
        self._questions: dict[EffectId, Future[Answer]] = {}
        """Approvals that are asked for elsewhere."""
        self._turn: Turn | None = None
        self._generation: Generation | None = None
        self._seen: list[str] = []
        """The reply's text so far."""
        handlers: Mapping[Any, Callable[[Any], object]] = {
            CallModel: self._call_model,
            CallTool: self._calls.append,
            AskApproval: self._ask_approval,
            StartTimer: self._start_timer,
            CancelEffect: self._cancel_effect,
            TurnFinished: self._note_end,
        }
        self.driver = Driver(
            engine,
            handlers,
            now=self._clock.time,
            state=state,
            recorder=recorder,
            watcher=self.observers.transition if self.observers else None,
        )

    # ------------------------------------------------------------------------------------------------ running a turn

    def run(self, event: Input) -> None:
        """Hand in an input and carry on until nothing is in flight.

        Raises:
            BusyError: another run is under way.
            CogstepError: the embedding program's own fault, such as a journal that can't be written.
        """
        if not self._busy.acquire(blocking=False):
            raise BusyError("a turn is under way; wait for its end or call cancel()")
        try:
            self._seen = []
            self._turn = Turn()
            self._settle_leftovers("the turn before was broken off")
            self.finished = None
            self.driver.run(event, self._next_input)
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
            turn.cancel()
            for context in list(self._contexts.values()):
                context.cancel()
            generation = self._generation
            if generation is not None:
                generation.cancel()
            self._mailbox.put(CancelRequest(turn, reason))
        return True

    def close(self, seconds: float) -> int:
        """Cancel what runs and wait so long for it to end; how many tools still run after that."""
        self.cancel("the agent was closed")
        if self._busy.acquire(timeout=seconds):
            try:
                self._settle_leftovers("the agent was closed")
            finally:
                self._busy.release()
        return self._workers.close(seconds)

    def _settle_leftovers(self, reason: str) -> None:
        """A run that an exception ended may have left its turn open: close it first."""
        if self.driver.in_flight or not isinstance(self.driver.state.phase, Idle | Closed):
            self.driver.advance(CancelAsked(reason, "".join(self._seen)))
            self._forget()

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

    def _forget(self) -> None:
        self.driver.in_flight.clear()
        self._agenda.clear()
        self._calls.clear()
        self._deadlines.clear()
        self._contexts.clear()
        self._questions.clear()

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
            match letter:
                case None if self._agenda:
                    event = self._agenda.pop(next(iter(self._agenda)))()
                    if event is not None:
                        return event
                case None:  # a deadline has come, or a long wait is to be begun again
                    pass
                case CancelRequest(turn=turn, reason=reason):
                    if turn is self._turn:  # else it came too late for its turn, and is not meant for this one
                        return CancelAsked(reason, "".join(self._seen))
                case Progress(call=call, text=text):
                    self.observers.emit(events.ToolProgress, call=call, text=text)
                case _:
                    self._settled(letter)
                    return letter

    def _look(self) -> Input | CancelRequest | Progress | None:
        try:
            return self._mailbox.get_nowait()
        except Empty:
            return None

    def _wait(self) -> Input | CancelRequest | Progress | None:
        nearest = min((when for when, _ in self._deadlines.values()), default=None)
        return self._clock.receive(self._mailbox, None if nearest is None else nearest - self._clock.monotonic())

    def _due(self) -> Input | None:
        now = self._clock.monotonic()
        for identity, (when, event) in self._deadlines.items():
            if when <= now:
                context = self._contexts.get(identity)
                if context is not None:  # a tool that took too long: nobody waits for it any more
                    context.cancel()
                self._settled(event)
                return event
        return None

    def _settled(self, event: Input) -> None:
        identity: EffectId | None = getattr(event, "effect_id", None)
        if identity is not None:
            self._deadlines.pop(identity, None)
            self._contexts.pop(identity, None)

    # ------------------------------------------------------------------------------------------------- the handlers

    def _call_model(self, effect: CallModel) -> None:
        self._seen = []
        self._agenda[effect.effect_id] = partial(self._stream, effect)

    def _ask_approval(self, effect: AskApproval) -> None:
        self._agenda[effect.effect_id] = partial(self._ask, effect)

    def _start_timer(self, effect: StartTimer) -> None:
        self._seen = []
        when = self._clock.monotonic() + effect.seconds
        self._deadlines[effect.effect_id] = (when, TimerFired(effect.effect_id))

    def _cancel_effect(self, effect: CancelEffect) -> None:
        identity = effect.effect_id
        self._agenda.pop(identity, None)
        self._deadlines.pop(identity, None)
        self._calls[:] = [call for call in self._calls if call.effect_id != identity]
        context = self._contexts.pop(identity, None)
        if context is not None:
            context.cancel()
        question = self._questions.pop(identity, None)
        if question is not None:
            question.cancel()

    def _note_end(self, decision: TurnFinished) -> None:
        self.finished = decision

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
            generation = self._generation = self._model.submit(effect.request)
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
        return None if turn.is_cancelled() else ended(effect, done, self._read_by_somebody())

    def _read_by_somebody(self) -> str:
        """Of a reply that fails. Without observers nobody has read its beginning, so that it may be asked for again."""
        return "".join(self._seen) if self.observers else ""

    # ---------------------------------------------------------------------------------------------------- the tools

    def _begin_calls(self) -> None:
        """Start what was decided: a read-only call that is all there is to do runs here, others on threads."""
        calls, self._calls[:] = list(self._calls), ()
        alone = len(calls) == 1 and len(self.driver.in_flight) == 1
        for effect in calls:
            identity, call = effect.effect_id, effect.call
            tool = self._tools.get(call.name)
            if tool is None:
                self._mailbox.put(ToolFailed(identity, f"this program has no tool {call.name!r}"))
                continue
            inline = alone and tool.spec.read_only and tool.timeout is None
            context = self._contexts[identity] = ToolContext(
                self._deps,
                session=self.session,
                call_id=call.id,
                tool=call.name,
                report=partial(self._report_here if inline else self._report, call),
            )
            if inline:
                self._agenda[identity] = partial(self._run_here, tool, effect, context)
            else:
                if tool.timeout is not None:
                    late = ToolFailed(identity, f"{call.name} took longer than {tool.timeout:g} seconds")
                    self._deadlines[identity] = (self._clock.monotonic() + tool.timeout, late)
                self._workers.start(partial(self._run_there, tool, effect, context))

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

    def _report(self, call: ToolCall, text: str) -> None:
        self._mailbox.put(Progress(call, text))

    def _report_here(self, call: ToolCall, text: str) -> None:
        self.observers.emit(events.ToolProgress, call=call, text=text)

    # ------------------------------------------------------------------------------------------------- the approvals

    def _ask(self, effect: AskApproval) -> Input | None:
        turn = self._turn
        if turn is None or turn.is_cancelled():
            return None
        if self._approve is None:
            return ApprovalRefused(effect.effect_id, NOBODY)
        request = ApprovalRequest(
            effect.call, effect.reason, self.session, lambda: turn.is_cancelled() or turn is not self._turn
        )
        try:
            answer = self._approve(request)
        except CogstepError:
            raise
        except Exception as error:  # not asked is not allowed
            self.observers.warn(f"the approval of {effect.call.name} could not be asked: {describe(error)}")
            return ApprovalRefused(effect.effect_id, NOT_ASKED)
        if isinstance(answer, Future):
            self._questions[effect.effect_id] = answer
            answer.add_done_callback(partial(self._answered, effect))
            return None
        return None if turn.is_cancelled() else as_input(effect, answer)

    def _answered(self, effect: AskApproval, future: Future[Answer]) -> None:
        """A question asked elsewhere was settled there, on whatever thread."""
        if self._questions.pop(effect.effect_id, None) is None:  # the turn was cancelled: nobody waits for it
            return
        try:
            answer = as_input(effect, future.result())
        except (CancelledError, Exception):
            answer = ApprovalRefused(effect.effect_id, NOT_ASKED)
        self._mailbox.put(answer)
