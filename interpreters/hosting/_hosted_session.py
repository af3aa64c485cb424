"""A session on the host's side: an agent on its own thread, driven by messages.

The host's thread reads messages, passes them on here and never waits. Slow work (a turn, a reset, the end) runs on the
session's thread, in order. Each message with a turn's number is sent under a lock that the turn's end takes too, so
that no message of a turn follows its end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from time import monotonic
from typing import Any, get_args

from attrs import define, field, frozen

from cognition import (
    AgentConfig,
    AskApproval,
    AskUser,
    CallTool,
    CancelAsked,
    Completed,
    ConfigError,
    EffectId,
    ToolFailed,
    ToolSpec,
    Usage,
    UserSpoke,
    to_data,
)
from cognition.steps.decisions import ANSWERS
from interpreters.agents.agent import Agent
from interpreters.agents.results import RunResult
from interpreters.agents.session_builder import start_of_turn
from interpreters.hosting import _protocol as say
from interpreters.hosting._protocol import Forwarded, Notice
from interpreters.loop.clock import LONGEST_WAIT
from interpreters.loop.errors import AgentClosedError, BusyError
from interpreters.loop.mailbox_messages import NotBegun
from interpreters.loop.performers import Answered, Scope, check_answer, unanswered_input
from interpreters.loop.program.pending import LATER, Postponable
from interpreters.observing.events import Event, Inline
from interpreters.tools.context import ToolContext
from interpreters.tools.external import ExternalTool
from interpreters.tools.tool import Tool
from runtime.stores.notes import Notes


class Patience:
    """Gives up futures after a timeout. It uses a single thread, which exists only while a future waits.

    Args:
        seconds: the timeout; None for ever.
    """

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._waiting: dict[Future[Any], tuple[float, Callable[[], object]]] = {}
        """For each future: its deadline and the function that gives it up, in the order of the deadlines."""
        self._changed = threading.Condition()
        self._watched = False

    def watch(self, wait: Future[Any], give_up: Callable[[], object]) -> None:
        """Call ``give_up`` unless the future is settled in time."""
        if self._seconds is None:
            return
        with self._changed:
            self._waiting[wait] = (monotonic() + self._seconds, give_up)
            if not self._watched:
                self._watched = True
                threading.Thread(target=self._watch, name="cogstep-patience", daemon=True).start()
        wait.add_done_callback(self._remove)

    def _remove(self, wait: Future[Any]) -> None:
        with self._changed:
            self._waiting.pop(wait, None)
            self._changed.notify()

    def _watch(self) -> None:
        while (give_up := self._next()) is not None:
            give_up()

    def _next(self) -> Callable[[], object] | None:
        with self._changed:
            while self._waiting:
                wait, (when, give_up) = next(iter(self._waiting.items()))
                left = when - monotonic()
                if left <= 0.0:
                    del self._waiting[wait]
                    return give_up
                self._changed.wait(min(left, LONGEST_WAIT))
            self._watched = False
            return None


class Window:
    """Backpressure: blocks the turn while ``size`` events are unread.

    Args:
        size: the maximum; None for no limit.
    """

    def __init__(self, size: int | None) -> None:
        self._size = size
        self._unread = 0
        self._changed = threading.Condition()

    def take(self, *, wait: bool = True) -> None:
        """Count an event, after waiting for room; with ``wait=False`` immediately."""
        with self._changed:
            while wait and self._size is not None and self._unread >= self._size:
                self._changed.wait()
            self._unread += 1

    def read(self, count: int) -> None:
        """Mark ``count`` events as read."""
        with self._changed:
            self._unread -= count
            self._changed.notify_all()

    def open(self) -> None:
        """Stop waiting for the reader: the turn is about to end."""
        with self._changed:
            self._size = None
            self._changed.notify_all()


CLOSED = "the session is not open; begin another one"
MOST_WAITING = 100
"""Maximum number of requests queued for a session."""

BUSY = "another turn is under way; wait for its end or cancel it"


@frozen(eq=False)
class Wait:
    """An effect that the handle's side is carrying out."""

    effect: Forwarded
    answer: Future[Answered]
    context: ToolContext[Any] | None
    """For a tool call: receives the tool's progress reports."""


@define(eq=False)
class HostedTurn:
    """A turn that was accepted and has not ended."""

    number: int
    window: Window
    cancelled: str | None = None
    """The reason, if the turn was cancelled."""
    keep: bool = False
    """Whether open questions stay pending after a cancellation."""
    waits: dict[tuple[str, EffectId], Wait] = field(factory=dict)
    """The effects sent to the handle's side, by session and effect id."""


class RemoteTool(Tool[..., Any]):
    """A tool that runs on the handle's side, which knows its signature and checks its arguments."""

    def __init__(self, spec: ToolSpec) -> None:
        self.function = _refuse_local_call
        self.spec = spec
        self.is_async = False

    def prepare(self) -> None:
        """Do nothing: the handle's side checks the tool."""


class RemoteExternalTool(RemoteTool, ExternalTool):
    """An external tool of the handle's program; its calls keep waiting after that program has ended."""


def _refuse_local_call(*_: Any, **__: Any) -> Any:
    """Placeholder for a tool or hook on the handle's side; never called, since its effects are forwarded."""
    raise AssertionError("an effect of the handle's side was carried out on the host's")


Make = Callable[[dict[str, Any], list[RemoteTool]], Agent]
"""Makes a session's agent from the common options and its tools."""


class HostedSession:
    def __init__(self, name: str, config: AgentConfig, settings: say.Settings, send: Callable[[Notice], None]) -> None:
        self.name = name
        self.journal = settings.journal
        self._config = config
        self._settings = settings
        self._send = send
        self._agent: Agent | None = None
        self._work: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._lock = threading.RLock()
        self._gate = threading.Lock()
        """Held while the mode is set: outside a turn, that makes the agent busy for an instant."""
        self._turn: HostedTurn | None = None
        self._ahead: dict[int, tuple[str, bool]] = {}
        """Turns cancelled before they were accepted: the reason, and whether open questions stay pending."""
        self._newest = 0
        self._patience = Patience(settings.tool_wait)
        self._thread = threading.Thread(target=self._run, name=f"cogstep-{name}", daemon=True)
        self._thread.start()

    # --------------------------------------------------------------------------------- for the host's thread: no waits

    def begin(self, identity: str, make: Make, forget: Callable[[HostedSession], None]) -> None:
        """Make the agent on the session's thread and send ``ready``, or call ``forget`` and send the refusal."""
        self._work.put(partial(self._begin, identity, make, forget))

    def accept(self, number: int, run: Callable[[Agent], RunResult]) -> None:
        """Queue a turn, or report immediately why it can't run."""
        with self._lock:
            if number <= self._newest:
                self._send(say.Faulted(f"turn {number} of {self.name!r} is not newer than turn {self._newest}"))
                return
            self._newest = number
            if self._turn is not None:
                self._send(say.TurnBroken(self.name, number, "BusyError", BUSY))
                return
            turn = HostedTurn(number, Window(self._settings.window), *self._ahead.pop(number, ()))
            self._turn = turn
        self._work.put(partial(self._run_turn, turn, run))

    def take(self, message: say.Performed | say.EffectPostponed | say.ProgressReport | say.Read) -> None:
        """Handle a message about the running turn; drop it if it is about another turn."""
        turn = self._turn
        if turn is None or turn.number != message.turn:
            return
        match message:
            case say.Performed() | say.EffectPostponed():
                self._pass_answer(turn, message)
            case say.ProgressReport():
                wait = turn.waits.get((message.owner, message.effect_id))
                if wait is not None and wait.context is not None:
                    wait.context.progress(message.text)
            case say.Read():
                turn.window.read(message.count)

    def _pass_answer(self, turn: HostedTurn, message: say.Performed | say.EffectPostponed) -> None:
        """Pass on the answer to an effect, or that it is postponed; drop it if nothing awaits the effect."""
        with self._lock:
            wait = turn.waits.pop((message.owner, message.effect_id), None)
        if wait is None or not wait.answer.set_running_or_notify_cancel():
            return
        if isinstance(message, say.EffectPostponed) and isinstance(wait.effect, Postponable):
            wait.answer.set_result(LATER)
        elif isinstance(message, say.Performed) and _answers(wait.effect, message.input):
            wait.answer.set_result(message.input)
        else:
            given = type(message.input).__name__ if isinstance(message, say.Performed) else message.tag
            self._send(say.Faulted(f"{given} does not answer {type(wait.effect).__name__} {message.effect_id}"))
            wait.answer.set_result(unanswered_input(wait.effect))

    def cancel(self, number: int | None, reason: str, *, ahead: bool = False, keep: bool = False) -> None:
        """Stop a turn.

        Args:
            number: the turn; None for the running turn.
            reason: shown in the turn's outcome.
            ahead: also stop the turn if it has not been accepted yet.
            keep: open questions stay pending.
        """
        with self._lock:
            turn = self._turn
            if ahead and number is not None and number > self._newest:
                self._ahead.setdefault(number, (reason, keep))
            if turn is None or number not in (None, turn.number):
                return
            if turn.cancelled is None:
                turn.cancelled, turn.keep = reason, keep
        self._stop(turn)

    def queue(self, identity: str, work: Callable[[Agent], object]) -> None:
        """Run work on the session's thread, after all earlier requests."""
        if self._work.qsize() > MOST_WAITING:
            self._send(say.Refused(identity, "BusyError", "too much is waiting to be done already"))
            return
        self._work.put(partial(self._report, identity, work))

    def run_now(self, identity: str, work: Callable[[Agent], object]) -> None:
        """Run work immediately, also within a turn, such as setting the mode. It may return its own answer."""
        with self._gate:
            self._report(identity, work)

    def dispose(self, identity: str | None, reason: str) -> None:
        """End the running turn and the session; pending effects stay pending."""
        self.cancel(None, reason, keep=True)
        self._work.put(partial(self._end, identity))
        self._work.put(None)

    def join(self, seconds: float) -> bool:
        self._thread.join(seconds)
        return not self._thread.is_alive()

    # ------------------------------------------------------------------------------------------ on the session's thread

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()

    def _begin(self, identity: str, make: Make, forget: Callable[[HostedSession], None]) -> None:
        try:
            external = self._settings.external
            tools = [RemoteExternalTool(one) if one.name in external else RemoteTool(one) for one in self._config.tools]
            agent = make(self._options(), tools)
        except Exception as error:
            forget(self)
            self._work.put(None)
            self._send(say.Refused(identity, type(error).__name__, str(error)))
            return
        self._agent = agent
        self._send(say.Ready(identity, self.name, agent.unfinished, agent.pending))

    def _options(self) -> dict[str, Any]:
        """Return the agent options common to new, resumed and forked sessions."""
        settings = self._settings
        notes = None
        if settings.notes:
            notes = Notes() if settings.notes == ":memory:" else Notes(settings.notes)
        forwarded = [kind for kind in get_args(Forwarded) if kind is not AskApproval or settings.approvals]
        return {
            "performers": dict.fromkeys(forwarded, self._forward),
            "memory": notes,
            "hooks": dict.fromkeys(self._config.hooks, _refuse_local_call),
            "observers": [Inline(self._observe)],
            "owns_model": False,
            "worker_patience": settings.worker_patience,
            "fsync": settings.fsync,
            "redact": None if settings.redact is None else settings.redact.redaction(),
        }

    def _run_turn(self, turn: HostedTurn, run: Callable[[Agent], RunResult]) -> None:
        end: Notice
        try:
            result: RunResult = self._run_alone(run)
            parts = (result.outcome, result.usage, result.messages, result.turn)
            end = say.TurnEnded(self.name, turn.number, *parts)
        except BaseException as error:  # whatever ends it, the other side must hear of it
            pending = () if self._agent is None else self._agent.pending
            end = say.TurnBroken(self.name, turn.number, type(error).__name__, str(error), pending)
        with self._lock:
            waits = dict(turn.waits)
            turn.waits.clear()
            for owner, effect_id in waits:  # a cancellation on another thread may not have come to say it
                self._send(say.Dropped(self.name, turn.number, owner, effect_id))
            self._turn = None
            self._send(end)
        for wait in waits.values():
            wait.answer.cancel()

    def _report(self, identity: str, work: Callable[[Agent], object]) -> None:
        try:
            done = self._run_alone(work)
        except Exception as error:
            self._send(say.Refused(identity, type(error).__name__, str(error)))
        else:
            self._send(done if isinstance(done, say.Remembered) else say.Accepted(identity))

    def _run_alone(self, work: Callable[[Agent], Any]) -> Any:
        """Call ``work`` with the agent, and repeat it while setting a mode makes the agent busy.

        Raises:
            AgentClosedError: there is no agent, since the session has ended or did not begin.
        """
        if (agent := self._agent) is None:
            raise AgentClosedError(CLOSED)
        while True:
            try:
                return work(agent)
            except BusyError:
                with self._gate:
                    pass

    def _end(self, identity: str | None) -> None:
        agent, self._agent = self._agent, None
        notice: Notice | None = None if identity is None else say.Accepted(identity)
        try:
            if agent is not None:
                agent.close()
        except Exception as error:
            notice = None if identity is None else say.Refused(identity, type(error).__name__, str(error))
        if notice is not None:
            self._send(notice)

    # ------------------------------------------------------------------------------------------- called by the agent

    def _send_notice(self, turn: HostedTurn, notice: Notice) -> None:
        with self._lock:
            if turn is self._turn:
                self._send(notice)

    def _observe(self, event: Event) -> None:
        if (turn := self._turn) is None:
            return
        if turn.cancelled is not None:  # asked for before the interpreter had begun: see `cancel`
            self._stop(turn)
        # Before a turn has begun, a mode is set on the host's thread, which has to hear what was read and cancelled.
        turn.window.take(wait=threading.current_thread() is self._thread)
        self._send_notice(turn, say.EventHappened(self.name, turn.number, to_data(event)))

    def _stop(self, turn: HostedTurn) -> None:
        turn.window.open()
        if self._agent is None:
            return
        # Its run is stopped, which cancels what that waits for. Before it has begun, what is pending is left alone.
        interpreter, reason = self._agent._interpreter, turn.cancelled or ""
        if turn.keep:
            interpreter.suspend(reason)
        elif (run := interpreter.current_turn) is not None:
            interpreter.cancel_turn(run, reason)

    def _forward(self, effect: Forwarded, scope: Scope) -> Future[Answered]:
        """Have the handle's side carry out the effect. Cancelling the returned future informs it that the answer is not
        needed.
        """
        owner = scope.program.session
        wait = Wait(effect, Future(), scope.context)
        if (turn := self._turn) is not None and turn.cancelled is not None:  # see `_observe`
            self._stop(turn)
        with self._lock:
            turn = self._turn
            if turn is None or scope.turn.is_over():
                raise NotBegun  # the turn has ended while this was about to be asked; there may be the next one
            turn.waits[owner, effect.effect_id] = wait
            self._send(say.Perform(self.name, turn.number, owner, effect))
        if isinstance(effect, CallTool):
            self._patience.watch(wait.answer, partial(self._give_up, turn, owner, effect))
        wait.answer.add_done_callback(partial(self._settle, turn, owner, effect.effect_id))
        return wait.answer

    def _give_up(self, turn: HostedTurn, owner: str, effect: CallTool) -> None:
        """Fail a call that took too long. The time is real even with a fake clock: another program is awaited."""
        wait = turn.waits.pop((owner, effect.effect_id), None)
        if wait is not None and wait.answer.set_running_or_notify_cancel():
            self._send_notice(turn, say.Dropped(self.name, turn.number, owner, effect.effect_id))
            late = f"{effect.call.name} gave no result within {self._settings.tool_wait:g} seconds"
            wait.answer.set_result(ToolFailed(effect.effect_id, late))

    def _settle(self, turn: HostedTurn, owner: str, effect_id: EffectId, answer: Future[Answered]) -> None:
        with self._lock:  # else the turn may end in between
            if answer.cancelled() and turn.waits.pop((owner, effect_id), None) is not None:
                self._send_notice(turn, say.Dropped(self.name, turn.number, owner, effect_id))


def run_turn(request: say.Run, agent: Agent) -> RunResult:
    """Carry out a request that begins a turn. A summary is reported like a turn, but only its events matter.

    Raises:
        CogstepError: any error of the agent; no pending effect has the id of an answer, or the answer does not fit it.
    """
    match request:
        case say.RunTurn():
            said: Any = UserSpoke(request.text, parts=request.parts, system=request.system, context=request.context)
            return agent.run(said)
        case say.GoOn():
            return agent.resume_turn()
        case say.Compact():
            agent.compact()
            return RunResult(Completed(""), Usage(), (), agent.state.counters.turn)
        case say.GiveAnswer():
            return _hand_in(request, agent)


def _hand_in(message: say.GiveAnswer, agent: Agent) -> RunResult:
    """Continue the turn that waits for this answer; ``CancelAsked`` cancels it."""
    effect = agent._find_pending(message.effect_id)
    if isinstance(message.input, CancelAsked):
        if not agent.cancel(message.input.reason):
            raise BusyError(BUSY)
        return agent._result(start_of_turn(agent.state))
    if not _answers(effect, message.input):
        raise ConfigError(f"{type(message.input).__name__} does not answer {type(effect).__name__} {message.effect_id}")
    return agent._hand_in(message.input)


def _answers(effect: Forwarded, answer: say.Answer) -> bool:
    """Whether an input answers this effect. The user may also answer a question with ``CancelAsked``."""
    if isinstance(answer, CancelAsked):
        return isinstance(effect, AskUser)
    if not isinstance(answer, ANSWERS[type(effect)]) or answer.effect_id != effect.effect_id:
        return False
    try:
        check_answer(effect, answer)
    except ConfigError:
        return False
    return True
