"""The interpreter without an event loop: the session runs on the thread that calls ``run``.

Handlers only note the work. It begins when the driver asks for the next input. The model's stream, questions to the
program and a single read-only call run on this thread. Other calls and workers run on their own threads. They put their
results into the mailbox, where cancellations also arrive.

This module takes no lock that a signal handler could need again. The mailbox is a ``SimpleQueue``, whose ``put`` may
interrupt its own ``get``. Flags are plain attributes.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
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
    ToolFailed,
    WorkerFailed,
)
from cognition.steps.decisions import Effect
from cognition.steps.inputs import INPUT_TYPES
from interpreters.loop._user_message import MessagePreparer
from interpreters.loop.clock import LONGEST_WAIT
from interpreters.loop.driver import Handlers
from interpreters.loop.errors import BusyError
from interpreters.loop.interpreter import ASKS_THE_USER, BUSY, Interpreter, Surroundings
from interpreters.loop.mailbox_messages import (
    Deferred,
    HandedInput,
    Letter,
    MailboxMessage,
    NotBegun,
    ProgramFailure,
    Turn,
    WorkerRequest,
)
from interpreters.loop.performers import CONSULTED, Answered, Scope, perform_within, sync_performers, unanswered_input
from interpreters.loop.program.pending import LATER, Later
from interpreters.loop.program.program import NEEDS_A_LOOP, Program
from interpreters.loop.workers import worker_answer
from interpreters.tools.context import ToolContext
from interpreters.tools.failures import describe
from runtime.threads.pool import ThreadPool

INPUTS = frozenset(INPUT_TYPES)
"""A set, because ``isinstance`` would check the types one by one."""


class SyncInterpreter(Interpreter):
    """An ``Interpreter`` on the caller's thread."""

    def __init__(self, engine: CognitiveEngine, program: Program, **given: Unpack[Surroundings]) -> None:
        self._notes = threading.Lock()
        self._threads = ThreadPool()
        self._holders: dict[None, Turn] = {}
        """The turn that currently drives the session, if any; see ``_run_exclusively``."""
        self._waiting: list[SimpleQueue[None]] = []
        """One queue for each caller of ``close`` that waits for the session."""
        self._mailbox: SimpleQueue[MailboxMessage] = SimpleQueue()
        self._earlier: int | None = None
        """Number of letters to read before a deadline that has passed."""
        self._agenda: dict[EffectId, tuple[Effect, Scope]] = {}
        """The work for this thread, by effect, oldest first."""
        self._calls: list[CallTool] = []
        """Calls that were decided and have not begun."""
        self._awaited: dict[EffectId, Future[Any]] = {}
        self._performers = sync_performers(program)
        for source in (program.system, *program.context):
            if source is not None and source.is_async:
                raise ConfigError(f"{source.what} is an async function, {NEEDS_A_LOOP}")
        super().__init__(engine, program, **given)
        self._saying = MessagePreparer(program, self.driver)

    # ------------------------------------------------------------------------------------------------ running a turn

    def run(self, event: Input | None, turn: Turn | None = None) -> None:
        """Hand in an input and run until only pending effects are in flight. None continues the open turn.

        A ``turn`` passed in can be cancelled from its beginning on.

        Raises:
            BusyError: another run is under way.
            PendingError: the input is a new message, and the previous turn waits for answers.
            CogstepError: a fault of the embedding program, such as an unwritable journal.
        """
        turn = turn or Turn()
        driver, saying, begun = self.driver, self._saying, False
        # As in ``_run_exclusively``. And no further ``try`` inside: in CPython, an outer one does not guard the line of
        # an inner one.
        try:
            try:
                if self._holders.setdefault(None, turn) is not turn:
                    raise BusyError(BUSY)
                self.check_nothing_waits(event)
                saying.check(event)
                begun = True
                for earlier in self._begin_run(event, turn):
                    driver.advance(earlier)
                if event is not None and saying.is_unprepared(event):
                    given = self.program.deps, self.program.session, event.text
                    event = saying.prepare(event, [source.make(*given) for source in saying.sources(event)])
                while event is not None or driver.is_busy:
                    if event is not None:
                        driver.advance(event)
                    event = self._next_input() if driver.is_busy else None
            except BaseException as error:
                if begun:
                    self._break_off(error)
                raise
            finally:
                if begun:
                    self._end_run()
                    self.observers.wait()
                self._release_hold(turn)
        finally:
            self._release_hold(turn)

    def _run_exclusively(self, holder: Turn, work: Callable[[], object]) -> bool:
        """Do work that only one caller may do at a time; return False if another caller is working.

        An interrupt may occur at any place here and must leave the session free:

        - One dict operation takes the session, for a holder created beforehand. Only the end of that holder releases
          it.
        - The release is repeated, since an interrupt may hit the first one.
        - No ``return`` inside: in CPython, ``finally`` does not guard the line of such a ``return``.
        """
        free = False
        try:
            try:
                free = self._holders.setdefault(None, holder) is holder
                if free:
                    work()
            finally:
                self._release_hold(holder)
        finally:
            self._release_hold(holder)
        return free

    def _release_hold(self, holder: Turn) -> None:
        if self._holders.get(None) is holder:
            if self._turn is holder:  # it was interrupted before it could say that it has ended
                self._end_run()
            self._holders.pop(None, None)
            for waiting in self._waiting:
                waiting.put(None)

    def settle(self, reason: str) -> None:
        """Close the turn that an exception left open, if any."""
        for event in self._closing_inputs(reason):
            self.driver.advance(event)

    def _break_off(self, error: BaseException) -> None:
        self._stop_work()
        if not self._suspend():  # neither an interrupt nor a full disk gives up what can wait
            with contextlib.suppress(CogstepError):  # the error on its way tells more; the next run tries again
                self.settle(describe(error))
        self._forget()

    def _give_up(self, reason: str) -> bool:
        return bool(self.find_pending()) and self._run_exclusively(Turn(), partial(self.settle, reason))

    def hand_in(self, event: HandedInput) -> None:
        """Pass a decision of the user, such as a mode, to the session. Safe from any thread."""
        if not self._run_exclusively(Turn(), partial(self.driver.advance, event)):
            self._mailbox.put(event)

    def _close_unless_resumable(self, reason: str) -> None:
        """Close the open turn, unless it can be continued."""
        if not self._keep_pending():
            self.settle(reason)

    def close(self, seconds: float) -> int:
        """Stop all work and wait ``seconds`` for its end. Return how many tools still run after that.

        Effects that can be answered later stay pending on file. If an interrupt ended the first call, a second call
        completes it.
        """
        reason, deadline = "the agent was closed", monotonic() + seconds
        ended: SimpleQueue[None] = SimpleQueue()
        self._waiting.append(ended)
        self.suspend(reason)
        while (
            not self._run_exclusively(Turn(), partial(self._close_unless_resumable, reason))
            and (left := deadline - monotonic()) > 0.0
        ):
            with contextlib.suppress(Empty):
                ended.get(timeout=min(left, LONGEST_WAIT))
            self.suspend(reason)  # a run that began meanwhile
        self.observers.close()
        self.dispose()
        left = self._threads.close(seconds)
        if self._parent is None:
            self.program.tool_loop.close(max(0.0, deadline - monotonic()))
        return left

    # ---------------------------------------------------------------------------------------- where inputs come from

    def _next_input(self) -> Input | None:
        """Return the next input, from the mailbox, the work for this thread or the clock; None if no effect is in
        flight.
        """
        while True:
            if self._calls:
                self._begin_calls()
            due = self._take_late() if self._deadlines else None
            if due is not None:
                return due
            letter: MailboxMessage | None
            if not self._agenda:
                letter = self._clock.receive(self._mailbox, self._seconds_left())
            else:  # nobody else takes from it
                letter = None if self._mailbox.empty() else self._mailbox.get_nowait()
            if letter is not None:
                event = self._open(letter)
            elif self._agenda:
                effect, scope = self._agenda.pop(next(iter(self._agenda)))
                kind, turn, event = type(effect), scope.turn, None
                if kind in ASKS_THE_USER and self._parent is None and not turn.is_over():
                    self.observers.wait()
                with contextlib.suppress(NotBegun):
                    perform = self._performers[kind]
                    within = scope.observers.surrounding
                    answer = perform_within(perform, effect, scope) if within else perform(effect, scope)
                    if type(answer) not in INPUTS:
                        answer = self._take_unusual_answer(effect, scope, answer)
                    elif kind is CallTool:
                        self._release(effect.effect_id)
                    event = None if turn.is_over() else answer
            else:  # a deadline has come, or a long wait is to be begun again
                continue
            if event is not None or not self.driver.is_busy:
                return event

    def _take_late(self) -> Input | None:
        """Return the clock's answer, once a deadline has passed and no earlier letter contains the real answer.

        An observer or a question, and not the tool, may have blocked this thread beyond the tool's time.
        """
        if self._earlier is None:
            if (self._seconds_left() or 0.0) > 0.0:
                return None
            self._earlier = self._mailbox.qsize()
        if self._earlier > 0:
            self._earlier -= 1
            return None
        self._earlier = None
        return self._take_due()

    def _post(self, letter: MailboxMessage) -> None:
        self._mailbox.put(letter)

    _send = _post

    def _stop(self, effect_id: EffectId) -> None:
        super()._stop(effect_id)
        self._agenda.pop(effect_id, None)
        self._calls[:] = [call for call in self._calls if call.effect_id != effect_id]
        answer = self._awaited.pop(effect_id, None)
        if answer is not None:
            answer.cancel()

    def _forget(self) -> None:
        super()._forget()
        self._earlier = None
        self._agenda.clear()
        self._calls.clear()
        self._awaited.clear()

    # -------------------------------------------------------------------------------------------------- performing

    def _begin(self, effect: Effect) -> None:
        """Note the effect for this thread, where the model and the program are asked one after another."""
        self._agenda[effect.effect_id] = effect, self._scope(effect)

    def _take_unusual_answer(self, effect: Effect, scope: Scope, answer: Any) -> Input | None:
        """Handle a performer's result that is not an input: the input comes later, or never."""
        if isinstance(answer, Future):
            self._await(effect, scope, answer)
            return None
        given: MailboxMessage | None = Deferred(scope.turn, effect.effect_id) if answer is LATER else answer
        return self._open(given) if isinstance(given, Letter) else given

    def _perform_beside(self, effect: Effect, context: ToolContext[Any] | None = None) -> None:
        work = partial(self._perform_on_thread, effect, self._scope(effect, context))
        self._threads.start(partial(copy_context().run, work))

    def _perform_on_thread(self, effect: Effect, scope: Scope) -> None:
        letter: MailboxMessage | Later | Future[Answered] | None
        try:
            perform = self._performers[type(effect)]
            within = scope.observers.surrounding
            letter = perform_within(perform, effect, scope) if within else perform(effect, scope)
        except NotBegun:
            return
        except CogstepError as error:
            letter = ProgramFailure(scope.turn, error)
        except BaseException as error:  # whatever ends a thread, the turn must not wait for ever
            failed = isinstance(effect, CallTool)
            letter = ToolFailed(effect.effect_id, describe(error)) if failed else unanswered_input(effect)
        if letter is LATER:
            letter = Deferred(scope.turn, effect.effect_id)
        if isinstance(letter, Future):
            self._await(effect, scope, letter)
        elif letter is not None and not scope.is_over():
            self._mailbox.put(letter)

    def _await(self, effect: Effect, scope: Scope, answer: Future[Answered]) -> None:
        """Note an answer that arrives later, on any thread."""
        self._awaited[effect.effect_id] = answer
        answer.add_done_callback(partial(self._deliver, effect.effect_id, scope.turn))
        # It may have been given up before it stood there: the turn was cancelled, or the call took too long.
        if scope.is_over():
            answer.cancel()

    def _deliver(self, effect_id: EffectId, turn: Turn, answer: Future[Answered]) -> None:
        if self._awaited.pop(effect_id, None) is None or turn.is_over():  # nobody waits for it any more
            return
        letter: MailboxMessage
        try:
            given = answer.result()
            letter = Deferred(turn, effect_id) if given is LATER else given
        except CogstepError as error:
            letter = ProgramFailure(turn, error)
        self._mailbox.put(letter)

    def _call_tool(self, effect: CallTool) -> None:
        self._calls.append(effect)

    def _begin_calls(self) -> None:
        """Start the decided calls. A read-only call without other work runs here, others on threads."""
        calls, self._calls = self._calls, []
        if self._working_turn().is_over():
            return
        usual = CallTool not in self.program.performers
        alone = len(calls) == 1 and len(self.driver.in_flight) == 1
        for effect in calls:
            tool = self._tool(effect)
            quick = tool is not None and tool.spec.read_only and tool.timeout is None and not tool.is_async
            if usual and alone and quick:
                self._agenda[effect.effect_id] = effect, self._scope(effect, self._context(effect, self._open))
            elif tool is not None or not usual:
                self._perform_beside(effect, self._context(effect, self._send))

    def _remember(self, decision: Remember) -> None:
        if self.program.memory is None:  # the short-key protocol has a field for notes, used or not
            return
        try:
            with self._notes, self.observers.within():
                self.program.memory.remember(decision.text)
        except Exception as error:
            self.observers.warn(f"a note could not be saved: {describe(error)}")

    # -------------------------------------------------------------------------------------------------- the workers

    def _hire(self, effect: SpawnWorker, child: Self, task: Input, own: Turn, parent: Turn) -> None:
        child._notes, child._parent = self._notes, partial(self._ask_for_worker, parent)
        work = partial(self._work, effect, child, task, own, parent)
        self._threads.start(partial(copy_context().run, work))

    def _work(self, effect: SpawnWorker, child: Self, task: Input, own: Turn, parent: Turn) -> None:
        letter: MailboxMessage
        try:
            with self.observers.within(effect):
                parent.begin(effect.effect_id, partial(child.run, task, own))
            letter = worker_answer(effect, child.finished)
        except NotBegun:
            return
        except CogstepError as error:  # the embedding program's own fault, as in a turn of its own
            letter = ProgramFailure(parent, error)
        except BaseException as error:  # whatever ends a worker's thread, the turn must not wait for ever
            letter = WorkerFailed(effect.effect_id, describe(error), child.driver.state.spent.usage)
            if self.program.raise_tool_errors:
                letter = ProgramFailure(parent, error)
        finally:
            child.close(0)
        if self._crew.waits_for(own):
            self._mailbox.put(letter)

    def _ask_for_worker(self, parent: Turn, ask: Callable[[], Any]) -> Future[Any]:
        """Have the program asked on the session's own thread. Called on a worker's thread."""
        answer: Future[Any] = Future()
        self._mailbox.put(WorkerRequest(parent, ask, answer))
        return answer

    handlers: ClassVar[Handlers] = {
        **Interpreter.handlers,
        CallTool: _call_tool,
        Remember: _remember,
        **dict.fromkeys((CallModel, *CONSULTED), _begin),
    }
