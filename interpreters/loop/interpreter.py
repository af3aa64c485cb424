"""The parts of an interpreter that do not depend on how it waits.

The driver passes each decision to a handler in a table. Handlers only *begin* work; its result arrives later as an
input. A subclass adds the handlers that differ, and the place where it waits for the next input. This module contains
the rest: how a turn begins and ends, cancellation, deadlines, and the meaning of each letter in the mailbox.

    driver ── effects ──▶ handlers, deadlines, workers ── letters ──▶ driver
                                  ▲
             cancel(), from any thread or a signal handler
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any, ClassVar, Self, TypedDict, Unpack

from cognition import (
    Acting,
    AgentState,
    AskApproval,
    AskUser,
    CallModel,
    CallTool,
    CancelAsked,
    CancelEffect,
    Closed,
    CognitiveEngine,
    ConfigError,
    EffectId,
    Idle,
    Input,
    ModeSet,
    ReviewPlan,
    RulesForgotten,
    SpawnWorker,
    StartTimer,
    TimerFired,
    ToolFailed,
    TurnFinished,
    Usage,
    UserSpoke,
)
from cognition.steps.decisions import Compacted, Effect, NotCompacted
from interpreters.loop._reply_stream import ReplyFilter, ReplyStream, offered_tools
from interpreters.loop._token_counter import counter_for
from interpreters.loop.clock import SYSTEM_CLOCK, Clock
from interpreters.loop.driver import NO_EFFECTS, Driver, Handlers, Watcher, Writer
from interpreters.loop.errors import PendingError
from interpreters.loop.mailbox_messages import (
    Deferred,
    HandedInput,
    Letter,
    MailboxMessage,
    ProgramFailure,
    Progress,
    StopRequest,
    Turn,
    WorkerEvent,
    WorkerRequest,
)
from interpreters.loop.performers import Scope, settle
from interpreters.loop.program.pending import Postponable, format_pending, outlives_its_run
from interpreters.loop.program.program import Program
from interpreters.loop.workers import Workers, make_worker, run_worker_request
from interpreters.observing.events import Inline, ToolProgress
from interpreters.observing.observers import Observers
from interpreters.tools.context import ToolContext
from interpreters.tools.external import ExternalTool
from interpreters.tools.tool import Tool, too_late

ASKS_THE_USER = frozenset((AskApproval, AskUser, ReviewPlan))
"""Effects that a person answers. Observers receive all earlier events before such an effect begins."""
RESTING = (Idle, Closed)  # phases in which no turn is open
NOT_FOR_WORKERS = "this tool is run outside, and its result may come late; a worker can't wait for it"
BUSY = "a turn is under way; wait for its end or call cancel()"


class Surroundings(TypedDict, total=False):
    """The options of an interpreter."""

    observers: Observers | None
    """Receive all events; None for no observers."""
    recorder: Writer | None
    """Records inputs and decisions; None for no recording."""
    state: AgentState | None
    """Start of the session; None for a new session."""
    clock: Clock | None
    """Source of time; None for the system clock."""
    watcher: Watcher | None
    """Called after each recorded step; None for the observers' ``transition``."""


class Interpreter(ABC):
    """Carries out the decisions of one session, one run at a time.

    Args:
        engine: makes the decisions.
        program: tools, models and functions of the embedding program.
        given: see ``Surroundings``.

    Raises:
        ConfigError: the program can't carry out an effect that the engine may decide.
    """

    _notes: Any
    """Lock of the memory: one user at a time, workers included, in the order of the decisions."""

    def __init__(self, engine: CognitiveEngine, program: Program, **given: Unpack[Surroundings]) -> None:
        program.check(engine)
        self.program = program
        observers = given.get("observers")
        self.observers: Observers = Observers((), program.session) if observers is None else observers
        self.observers.hides = program.hides
        self.finished: TurnFinished | None = None
        self.compacted: Compacted | NotCompacted | None = None
        """Result of this run's latest summary; None if no summary was requested."""
        self.began: int = 0
        """The number of messages in history before the latest turn."""
        self.room: Callable[[], Awaitable[object]] | None = None
        """Awaited after each piece of a reply; it stops the model while a reader is behind (backpressure)."""
        self._parent: Callable[[Callable[[], Any]], Future[Any]] | None = None
        """For a worker without an event loop, runs questions to the program on the session's own thread."""
        self._clock = given.get("clock") or SYSTEM_CLOCK
        self._turn: Turn | None = None
        self._latest: Turn | None = None
        """The current or previous run, whose turn may still be open; None if another process ran it."""
        self._over = False
        """Whether the session is disposed of. Its pending effects stay on file."""
        self._promised = NO_EFFECTS
        """Effects that the program will answer later, as far as this process knows."""
        self._untouched = NO_EFFECTS
        """Effects in flight that had not begun when the previous run was left."""
        self._reply: ReplyStream | None = None
        """The reply that the model is writing, or wrote last."""
        self._contexts: dict[EffectId, ToolContext[Any]] = {}
        self._deadlines: dict[EffectId, tuple[float, Callable[[], Input]]] = {}
        """For each effect with a deadline: the time, and the function that builds its answer then."""
        self._crew = Workers(self._deadlines, self._clock, program.worker_patience)
        self.driver: Driver = Driver(
            engine,
            self.handlers,
            self,
            now=self._clock.time,
            state=given.get("state"),
            recorder=given.get("recorder"),
            watcher=given.get("watcher") or self.observers.transition,
        )
        self.driver.counter = counter_for(self.driver, program, self.observers.warn)

    # ------------------------------------------------------------------------------------ what a subclass has to say

    @abstractmethod
    def _post(self, letter: MailboxMessage) -> None:
        """Put a letter into the mailbox; only on the session's own thread."""

    @abstractmethod
    def _send(self, letter: MailboxMessage) -> None:
        """Put a letter into the mailbox, from any thread or a signal handler."""

    @abstractmethod
    def hand_in(self, event: HandedInput) -> None:
        """Pass a decision of the user, such as a mode, to the session. Safe from any thread."""

    @abstractmethod
    def _give_up(self, reason: str) -> bool:
        """Close a turn that waits for answers between runs; return False without such a turn."""

    @abstractmethod
    def _perform_beside(self, effect: Effect, context: ToolContext[Any] | None = None) -> None:
        """Carry out an effect on a thread or in a task, while the session continues."""

    @abstractmethod
    def _hire(self, effect: SpawnWorker, child: Self, task: Input, own: Turn, parent: Turn) -> None:
        """Start a worker's interpreter. Its answer is for this turn, and it runs the task in a turn of its own."""

    # ------------------------------------------------------------------------------------------------ a turn's bounds

    def _begin_run(self, event: Input | None, turn: Turn) -> Iterable[Input]:
        """Begin a run. Return the inputs that must precede ``event``.

        These inputs close a turn that was left open. If the run continues an open turn, they settle its interrupted
        effects. If ``event`` is None, the run asks again for all pending answers.
        """
        self._turn, self._reply = turn, None
        self.finished = self.compacted = None
        self.driver.left = False
        in_flight, answered = self.driver.in_flight, getattr(event, "effect_id", None)
        if event is None or answered in in_flight or (in_flight and isinstance(event, CancelAsked)):
            if event is None:
                self.driver.pending.clear()
            else:
                self._keep_pending()
                self._promised |= self.driver.pending
            self._latest, turn.inherited = turn, frozenset(in_flight) - self._untouched
            self.observers.take_up(self.driver.state)
            return self.driver.resume(self._settle_interrupted)
        return self._opening_inputs(turn)

    def _settle_interrupted(self, effect: Effect, waited: float) -> Effect | Input:
        return effect if effect.effect_id in self._untouched else settle(self.program.tools, effect, waited)

    # ------------------------------------------------------------------------------------------- what is answered later

    def find_pending(self) -> list[Postponable]:
        """Return the effects that can be answered later; an empty list during a run.

        Between runs, these are all effects in flight that survive the end of their run.
        """
        return [] if self._turn is not None else self._find_outliving()

    def _find_outliving(self) -> list[Postponable]:
        pending, tools = self.driver.pending, self.program.tools
        effects: list[Any] = list(self.driver.in_flight.values())
        return [effect for effect in effects if effect.effect_id in pending or outlives_its_run(effect, tools)]

    def check_nothing_waits(self, event: Input | None) -> None:
        """Check that a new message gives up no effect that the program will answer later.

        A message may give up a question that an interrupt cut short. After a restart, the two cases can't be
        distinguished.

        Raises:
            PendingError: the previous turn waits for answers.
        """
        if not self.driver.in_flight or not isinstance(event, UserSpoke):
            return
        if waiting := [one for one in self.find_pending() if self._latest is None or one.effect_id in self._promised]:
            raise PendingError(
                f"the turn before waits for answers ({format_pending(waiting)}); hand them in "
                "with answer(), or cancel() it"
            )

    def _keep_pending(self) -> bool:
        """Mark the effects that can be answered later as pending. Return whether there are any."""
        kept = self._find_outliving()
        self.driver.pending.update(effect.effect_id for effect in kept)
        return bool(kept)

    def _suspend(self) -> bool:
        """End the run and leave its turn open. Return False if no effect in it can be answered later."""
        if not self._keep_pending():
            return False
        self._untouched = frozenset(self._find_not_begun()) - self.driver.pending
        self.driver.left = True
        self._forget()
        return True

    @property
    def current_turn(self) -> Turn | None:
        return self._turn

    def suspend(self, reason: str) -> None:
        """End the current run as ``cancel`` does, but keep effects that can be answered later."""
        turn = self._turn
        if turn is not None:
            self._stop_turn(StopRequest(turn, reason, suspends=True))

    def _opening_inputs(self, turn: Turn) -> Iterator[Input]:
        yield from self._closing_inputs("the turn before was broken off")
        self._latest, self._untouched, self._promised = turn, NO_EFFECTS, NO_EFFECTS
        self.driver.lost = NO_EFFECTS
        self.began, self.finished = len(self.driver.state.history), None  # after what closed the turn before

    def cancel(self, reason: str = "") -> bool:
        """Stop the current turn; return False without a turn.

        Safe from any thread, tool, observer or signal handler. Once this has returned True, no effect of the turn
        begins.
        """
        turn = self._turn
        if turn is None:
            return not self._over and self._give_up(reason)
        self.cancel_turn(turn, reason)
        return True

    def cancel_turn(self, turn: Turn, reason: str) -> None:
        """Stop this turn, even if its run has not begun yet."""
        self._stop_turn(StopRequest(turn, reason))

    def _stop_turn(self, request: StopRequest) -> None:
        if request.turn.cancel():
            self._send(request)  # before the workers hear of it: their ends come behind it
        for context in list(self._contexts.values()):
            context.cancel()
        self._crew.cancel(request.reason)
        if self._reply is not None:
            self._reply.cancel()

    def _closing_inputs(self, reason: str) -> Iterable[Input]:
        return self._abort_inputs(reason) if self._is_open() else ()

    def _is_open(self) -> bool:
        return bool(self.driver.in_flight) or not isinstance(self.driver.state.phase, RESTING)

    def _abort_inputs(self, reason: str) -> Iterator[Input]:
        yield self._cancellation(reason)
        self.driver.in_flight.clear()
        self.driver.pending.clear()
        self._forget()

    def dispose(self) -> None:
        """Break the reference cycles of a finished session, so that no garbage collection is necessary."""
        self._reply = None
        self._over = True
        self.driver.dispose()

    def _cancellation(self, reason: str) -> CancelAsked:
        read, took = ("", Usage()) if self._reply is None else (self._reply.text, self._reply.unread)
        usage, lost = sum(self._crew.usage(), took), tuple(sorted(self.driver.lost))
        return CancelAsked(reason, read, usage, tuple(self._find_not_begun()), lost)

    def _find_not_begun(self) -> Iterator[EffectId]:
        """Yield the ids of effects in flight that have not begun and never will."""
        turn = self._latest
        if turn is not None:
            for effect_id, effect in self.driver.in_flight.items():
                if not (isinstance(effect, StartTimer) or turn.may_have_begun(effect_id)):
                    yield effect_id

    def _stop_work(self) -> None:
        if self._turn is not None:
            self._turn.cancel()
        if self._reply is not None:
            self._reply.cancel()

    def _forget(self) -> None:
        """Stop all effects in flight."""
        self._deadlines.clear()
        for effect_id in list(self._contexts):
            self._stop(effect_id)
        self._crew.stop_all()

    def _note_end(self, decision: TurnFinished | Compacted | NotCompacted) -> None:
        setattr(self, "finished" if isinstance(decision, TurnFinished) else "compacted", decision)

    def _tell_workers(self, decision: ModeSet | RulesForgotten) -> None:
        self._crew.pass_on(decision)

    def _working_turn(self) -> Turn:
        return self._turn or Turn(ended=True)

    def _end_run(self) -> None:
        """End the run's turn: its remaining effects never begin. A second call does nothing."""
        if self._turn is not None:
            self._turn.end()
            self._turn = None

    # ---------------------------------------------------------------------------------------- where inputs come from

    def _open(self, letter: MailboxMessage) -> Input | None:
        """Return the input in a letter, or None if it contains no input. Letters of earlier turns are dropped."""
        if not isinstance(letter, Letter):
            self._settle(letter)
            return letter
        if isinstance(letter, WorkerRequest):  # a worker waits for its answer in any case
            self.observers.wait()  # the user has seen what led to the question
            run_worker_request(letter, wanted=not letter.turn.is_over())
            return None
        match letter if letter.turn is self._turn else None:
            case StopRequest(reason=reason, suspends=suspends):
                return None if suspends and self._suspend() else self._cancellation(reason)
            case Deferred(effect_id=effect_id):
                self._release(effect_id)
                self._promised |= {effect_id}
                self.driver.pending |= {effect_id} & self.driver.in_flight.keys()
            case Progress(said=said):
                self.observers.emit(said)
            case WorkerEvent(effect_id=effect_id, event=event):
                self._crew.note_activity(effect_id)
                self.observers.forward(event)
            case ProgramFailure(error=error):
                raise error
            case _:
                pass
        return None

    def _take_due(self) -> Input | None:
        now = self._clock.monotonic()
        for effect_id, (when, answer) in self._deadlines.items():
            if when <= now:
                event = answer()
                self._stop(effect_id)  # a tool or worker that took too long: nobody waits for it any more
                self._settle(event)
                return event
        return None

    def _seconds_left(self) -> float | None:
        nearest = min((when for when, _ in self._deadlines.values()), default=None)
        return None if nearest is None else nearest - self._clock.monotonic()

    def _settle(self, event: Input) -> None:
        effect_id: EffectId | None = getattr(event, "effect_id", None)
        if effect_id is not None:
            self._release(effect_id)

    def _release(self, effect_id: EffectId) -> None:
        self._deadlines.pop(effect_id, None)
        context = self._contexts.pop(effect_id, None)
        if context is not None and context.error is not None:
            self.observers.note_cause(effect_id, context.error)
        self._crew.remove(effect_id)

    def _stop(self, effect_id: EffectId) -> None:
        """Cancel the work on an effect."""
        context = self._contexts.pop(effect_id, None)
        if context is not None:
            context.cancel()
        self._crew.stop(effect_id)

    # ----------------------------------------------------------------------- handlers, and what the others begin with

    def _cancel_effect(self, effect: CancelEffect) -> None:
        self._deadlines.pop(effect.effect_id, None)
        self._stop(effect.effect_id)

    def _start_timer(self, effect: StartTimer) -> None:
        if not isinstance(getattr(self.driver.state, "phase", None), Acting):  # there the calls' reply is not over
            self._reply = None
        if StartTimer in self.program.performers:
            self._perform_beside(effect)
            return
        self._answer_after(effect.seconds, effect.effect_id, partial(TimerFired, effect.effect_id))

    def _answer_after(self, seconds: float, effect_id: EffectId, answer: Callable[[], Input]) -> None:
        self._deadlines[effect_id] = (self._clock.monotonic() + seconds, answer)

    def _scope(self, effect: Effect, context: ToolContext[Any] | None = None) -> Scope:
        turn, reply = self._working_turn(), None
        if isinstance(effect, CallModel):
            protocol, engine = effect.request.protocol, self.driver.engine
            told = None if protocol == "native" else ReplyFilter(protocol, offered_tools(engine, self.program))
            reply = self._reply = ReplyStream(effect, self.observers, turn, self._clock, told)
        return Scope(self.program, turn, self.observers, reply, context, self._parent, self._notes, self.room)

    def _tool(self, effect: CallTool) -> Tool[..., Any] | None:
        """Return the called tool, and start its deadline.

        Returns None if the program has no such tool, or runs it outside. Unless the program performs ``CallTool``
        itself, an unknown tool is reported to the model.
        """
        tool, usual = self.program.tools.get(effect.call.name), CallTool not in self.program.performers
        if tool is None and usual:
            self._post(ToolFailed(effect.effect_id, f"this program has no tool {effect.call.name!r}"))
        elif isinstance(tool, ExternalTool) and usual:
            self._post(self._hand_out(tool, effect))
            return None
        elif tool is not None and tool.timeout is not None:
            self._answer_after(tool.timeout, effect.effect_id, partial(too_late, tool, effect))
        return tool

    def _hand_out(self, tool: ExternalTool, effect: CallTool) -> MailboxMessage:
        """Return the letter for a call of a tool that the program runs outside."""
        wrong = tool.problems(effect.call.arguments) or ("" if self.program.postpones else NOT_FOR_WORKERS)
        if wrong:
            return ToolFailed(effect.effect_id, wrong)
        turn = self._working_turn()
        turn.try_begin(effect.effect_id)  # from here on the program may run it
        return Deferred(turn, effect.effect_id)

    def _context(self, effect: CallTool, deliver: Callable[[MailboxMessage], object]) -> ToolContext[Any]:
        """Return the tool's context for this call. Its progress goes to ``deliver``."""
        call, turn = effect.call, self._working_turn()
        context = self._contexts[effect.effect_id] = ToolContext(
            self.program.deps,
            session=self.program.session,
            call_id=call.id,
            effect_id=effect.effect_id,
            tool=call.name,
            access=effect.access,
            hides=self.program.hides,
            report=lambda text: deliver(Progress(turn, ToolProgress(effect.effect_id, call, text))),
            begins=partial(turn.try_begin, effect.effect_id),
            keeper=self.program.keeper,
            awaits=self._runner(),
        )
        return context

    def _runner(self) -> Callable[[Awaitable[Any]], Any]:
        """Return the function that runs a coroutine of a tool from another thread, and waits for it."""
        return self.program.tool_loop.run

    def _spawn(self, effect: SpawnWorker) -> None:
        if SpawnWorker in self.program.performers:
            self._perform_beside(effect)
            return
        effect_id, turn = effect.effect_id, self._turn
        if turn is None:
            raise ConfigError("a worker can be started in a run only")
        worker = make_worker(effect, self.driver.engine, self.program, self.driver.state)
        tell = Observers(
            [Inline(lambda event: self._post(WorkerEvent(turn, effect_id, event)))],
            worker.program.session,
            shown=bool(self.observers),
            surrounding=self.observers.surrounding,
        )
        child = type(self)(worker.engine, worker.program, observers=tell, state=worker.state, clock=self._clock)
        self._hire(effect, child, worker.task, self._crew.add(effect, child), turn)

    handlers: ClassVar[Handlers] = {
        SpawnWorker: _spawn,
        StartTimer: _start_timer,
        CancelEffect: _cancel_effect,
        ModeSet: _tell_workers,
        RulesForgotten: _tell_workers,
        **dict.fromkeys((TurnFinished, Compacted, NotCompacted), _note_end),
    }
    """The handlers that begin decisions. A subclass adds the handlers that depend on how it waits."""
