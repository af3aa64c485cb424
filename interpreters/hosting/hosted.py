"""One session on the host's side: an agent on a thread of its own, driven by messages.

The host's thread reads messages and hands them in here; it never waits. What takes time (a turn, a reset, the end) runs
on the session's thread, in order. Whatever carries a turn's number is sent under a lock that the turn's end takes too,
so that nothing of a turn comes after its end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
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
    to_data,
)
from cognition.decisions import ANSWERS
from interpreters.agents.agent import Agent
from interpreters.agents.assembly import start_of_turn
from interpreters.agents.results import RunResult
from interpreters.hosting import messages as say
from interpreters.hosting.messages import Forwarded, Notice
from interpreters.hosting.patience import Patience
from interpreters.hosting.window import Window
from interpreters.loop.errors import AgentClosedError, BusyError
from interpreters.loop.letters import NotBegun
from interpreters.observing.events import Event, Inline
from interpreters.performers import Answered, Scope, checked_answer, unanswered
from interpreters.program.later import LATER, Postponable
from interpreters.tools.context import ToolContext
from interpreters.tools.external import ExternalTool
from interpreters.tools.tool import Tool
from runtime.stores.memory import Notes

CLOSED = "the session is not open; begin another one"
MOST_WAITING = 100
"""What a handle may have asked for that a session has not come to yet."""

BUSY = "another turn is under way; wait for its end or cancel it"


@frozen(eq=False)
class Wait:
    """An effect that the handle's side carries out."""

    effect: Forwarded
    answer: Future[Answered]
    context: ToolContext[Any] | None
    """Of a call: what the tool says of itself goes there."""


@define(eq=False)
class HostedTurn:
    """A turn that was accepted and has not ended."""

    number: int
    window: Window
    """How far it may run ahead of its reader."""
    cancelled: str | None = None
    """The reason, once it was asked for."""
    keep: bool = False
    """Whether what is asked then stays pending."""
    waits: dict[tuple[str, EffectId], Wait] = field(factory=dict)
    """What was asked of the handle's side, by session and effect."""


class RemoteTool(Tool[..., str]):
    """A tool that runs on the handle's side, where its signature is known and its arguments are checked."""

    def __init__(self, spec: ToolSpec) -> None:
        self.function = _elsewhere
        self.spec = spec
        self.is_async = False

    def prepare(self) -> None:
        """Nothing is checked here."""


class RemoteExternalTool(ExternalTool):
    """One whose calls are run outside also of the handle's program; they go on waiting when it has ended."""

    def __init__(self, spec: ToolSpec) -> None:
        self.function = _elsewhere
        self.spec = spec
        self.is_async = False

    def prepare(self) -> None:
        """Nothing is checked here."""


Remote = RemoteTool | RemoteExternalTool


def _elsewhere(*_: Any, **__: Any) -> Any:
    """Stands for a tool or a hook of the handle's side: its effects are forwarded before it could be called."""
    raise AssertionError("an effect of the handle's side was carried out on the host's")


Make = Callable[[dict[str, Any], list[Remote]], Agent]
"""Makes a session's agent, of the options that all have and its tools."""


class HostedSession:
    """A session, its thread and its agent."""

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
        """Held while the mode is set: outside of a turn, that takes the agent for an instant."""
        self._turn: HostedTurn | None = None
        self._ahead: dict[int, tuple[str, bool]] = {}
        """Turns that were cancelled before they were accepted: why, and whether what is asked stays pending."""
        self._newest = 0
        """The highest number of a turn so far."""
        self._patience = Patience(settings.tool_wait)
        self._thread = threading.Thread(target=self._run, name=f"cogstep-{name}", daemon=True)
        self._thread.start()

    # --------------------------------------------------------------------------------- for the host's thread: no waits

    def begin(self, identity: str, make: Make, forget: Callable[[HostedSession], None]) -> None:
        """Make the agent, and say that it is ready or why not; then it is forgotten first, on the session's thread."""
        self._work.put(partial(self._begin, identity, make, forget))

    def accept(self, number: int, run: Callable[[Agent], RunResult]) -> None:
        """Queue a turn, or say at once why it can't run."""
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
        self._work.put(partial(self._play, turn, run))

    def take(self, message: say.Performed | say.Postponed | say.ToolProgress | say.Read) -> None:
        """Take what the handle's side says of the turn under way; what it says of another turn is dropped."""
        turn = self._turn
        if turn is None or turn.number != message.turn:
            return
        match message:
            case say.Performed() | say.Postponed():
                self._performed(turn, message)
            case say.ToolProgress():
                wait = turn.waits.get((message.owner, message.effect_id))
                if wait is not None and wait.context is not None:
                    wait.context.progress(message.text)
            case say.Read():
                turn.window.read(message.count)

    def _performed(self, turn: HostedTurn, message: say.Performed | say.Postponed) -> None:
        """Hand over the answer to an effect, or that it comes later; one that nobody waits for any more is dropped."""
        with self._lock:
            wait = turn.waits.pop((message.owner, message.effect_id), None)
        if wait is None or not wait.answer.set_running_or_notify_cancel():
            return
        if isinstance(message, say.Postponed) and isinstance(wait.effect, Postponable):
            wait.answer.set_result(LATER)
        elif isinstance(message, say.Performed) and _answers(wait.effect, message.input):
            wait.answer.set_result(message.input)
        else:
            given = type(message.input).__name__ if isinstance(message, say.Performed) else message.tag
            self._send(say.Faulted(f"{given} does not answer {type(wait.effect).__name__} {message.effect_id}"))
            wait.answer.set_result(unanswered(wait.effect))

    def cancel(self, number: int | None, reason: str, *, ahead: bool = False, keep: bool = False) -> None:
        """Stop this turn; None for whichever is under way. ``ahead``: or as soon as it is accepted.

        ``keep``: what is asked in it stays pending.
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
        """Do something on the session's thread, behind what was asked for before."""
        if self._work.qsize() > MOST_WAITING:
            self._send(say.Refused(identity, "BusyError", "too much is waiting to be done already"))
            return
        self._work.put(partial(self._report, identity, work))

    def at_once(self, identity: str, work: Callable[[Agent], object]) -> None:
        """Do something right now, also within a turn, such as to set a mode."""
        with self._gate:
            self._report(identity, work)

    def tell_remembered(self, identity: str) -> None:
        """Say what the user said "from now on"."""
        agent = self._agent
        if agent is None:
            self._send(say.Refused(identity, "AgentClosedError", CLOSED))
        else:
            self._send(say.Remembered(identity, agent.remembered))

    def dispose(self, identity: str | None, reason: str) -> None:
        """End the turn under way and the session; what is pending stays so."""
        self.cancel(None, reason, keep=True)
        self._work.put(partial(self._end, identity))
        self._work.put(None)

    def join(self, seconds: float) -> bool:
        """Wait for the end; False if it takes longer."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    # ------------------------------------------------------------------------------------------ on the session's thread

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()

    def _begin(self, identity: str, make: Make, forget: Callable[[HostedSession], None]) -> None:
        try:
            agent = make(self._options(), self._tools())
        except Exception as error:
            forget(self)
            self._work.put(None)
            self._send(say.Refused(identity, type(error).__name__, str(error)))
            return
        self._agent = agent
        self._send(say.Ready(identity, self.name, agent.unfinished, agent.pending))

    def _tools(self) -> list[Remote]:
        external = self._settings.external
        return [RemoteExternalTool(spec) if spec.name in external else RemoteTool(spec) for spec in self._config.tools]

    def _options(self) -> dict[str, Any]:
        """What is given to an agent whether it is new, resumed or forked."""
        settings = self._settings
        notes = None
        if settings.notes:
            notes = Notes() if settings.notes == ":memory:" else Notes(settings.notes)
        forwarded = [kind for kind in get_args(Forwarded) if kind is not AskApproval or settings.approvals]
        return {
            "performers": dict.fromkeys(forwarded, self._forward),
            "memory": notes,
            "hooks": dict.fromkeys(self._config.hooks, _elsewhere),
            "observers": [Inline(self._observe)],
            "owns_model": False,
            "worker_patience": settings.worker_patience,
            "fsync": settings.fsync,
            "redact": None if settings.redact is None else settings.redact.redaction(),
        }

    def _play(self, turn: HostedTurn, run: Callable[[Agent], RunResult]) -> None:
        end: Notice
        try:
            if self._agent is None:
                end = say.TurnBroken(self.name, turn.number, "AgentClosedError", CLOSED)
            else:
                result = self._alone(partial(run, self._agent))
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
            if self._agent is None:
                raise AgentClosedError(CLOSED)
            self._alone(partial(work, self._agent))
        except Exception as error:
            self._send(say.Refused(identity, type(error).__name__, str(error)))
        else:
            self._send(say.Accepted(identity))

    def _alone(self, work: Callable[[], Any]) -> Any:
        """Call ``work``, again as often as a mode that is just being set keeps the agent busy."""
        while True:
            try:
                return work()
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

    def _tell(self, turn: HostedTurn, notice: Notice) -> bool:
        """Send something that belongs to a turn, if that has not ended."""
        with self._lock:
            if turn is not self._turn:
                return False
            self._send(notice)
            return True

    def _observe(self, event: Event) -> None:
        turn = self._turn
        if turn is None:
            return
        if turn.cancelled is not None:  # asked for before the interpreter had begun: see `cancel`
            self._stop(turn)
        # Before a turn has begun, a mode is set on the host's thread, which has to hear what was read and cancelled.
        turn.window.take(wait=threading.current_thread() is self._thread)
        self._tell(turn, say.Happened(self.name, turn.number, to_data(event)))

    def _stop(self, turn: HostedTurn) -> None:
        turn.window.open()
        if self._agent is None:
            return
        # Its run is stopped, which cancels what that waits for. Before it has begun, what is pending is left alone.
        interpreter, reason = self._agent._interpreter, turn.cancelled or ""
        if turn.keep:
            interpreter.leave(reason)
        elif (run := interpreter.under_way) is not None:
            interpreter.cancel_turn(run, reason)

    def _forward(self, effect: Forwarded, scope: Scope) -> Future[Answered]:
        """A performer: the handle's side carries the effect out. Cancelling the answer tells it that nobody waits."""
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
        wait.answer.add_done_callback(partial(self._settled, turn, owner, effect.effect_id))
        return wait.answer

    def _give_up(self, turn: HostedTurn, owner: str, effect: CallTool) -> None:
        """It took too long in real time, whatever clock the session has: it is another program that is waited for."""
        wait = turn.waits.pop((owner, effect.effect_id), None)
        if wait is not None and wait.answer.set_running_or_notify_cancel():
            self._tell(turn, say.Dropped(self.name, turn.number, owner, effect.effect_id))
            late = f"{effect.call.name} gave no result within {self._settings.tool_wait:g} seconds"
            wait.answer.set_result(ToolFailed(effect.effect_id, late))

    def _settled(self, turn: HostedTurn, owner: str, effect_id: EffectId, answer: Future[Answered]) -> None:
        with self._lock:  # else the turn may end in between
            if answer.cancelled() and turn.waits.pop((owner, effect_id), None) is not None:
                self._tell(turn, say.Dropped(self.name, turn.number, owner, effect_id))


def hand_in(message: say.GiveAnswer, agent: Agent) -> RunResult:
    """Go on with the turn that waits for this answer; ``CancelAsked`` gives it up.

    Raises:
        CogstepError: nothing of this id is pending, or it is no answer to that.
    """
    effect = agent._waiting_under(message.effect_id)
    if isinstance(message.input, CancelAsked):
        if not agent.cancel(message.input.reason):
            raise BusyError(BUSY)
        return agent._result(start_of_turn(agent.state))
    if not _answers(effect, message.input):
        raise ConfigError(f"{type(message.input).__name__} does not answer {type(effect).__name__} {message.effect_id}")
    return agent._hand_in(message.input)


def compact(agent: Agent) -> RunResult:
    """Have a summary made; a run like a turn, of which nothing but its events is told."""
    agent.compact()
    return RunResult(Completed(""), Usage(), (), agent.state.counters.turn)


def _answers(effect: Forwarded, answer: say.Answer) -> bool:
    """Whether an input is one that this effect can have; who is asked something may also end the turn."""
    if isinstance(answer, CancelAsked):
        return isinstance(effect, AskUser)
    if not isinstance(answer, ANSWERS[type(effect)]) or answer.effect_id != effect.effect_id:
        return False
    try:
        checked_answer(effect, answer)
    except ConfigError:
        return False
    return True
