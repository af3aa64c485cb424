"""One session on the host's side: an agent on a thread of its own, driven by messages.

The host's thread reads messages and hands them in here; it never waits. What takes time (a turn, a reset, the end) runs
on the session's thread, in order. Whatever carries a turn's number is sent under a lock that the turn's end takes too,
so that nothing of a turn comes after its end.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from functools import partial
from queue import SimpleQueue
from typing import Any

from attrs import define, field

from cognition import ToolCall
from interpreters.agent import Agent
from interpreters.approvals import Approval, ApprovalRequest
from interpreters.asking import HookAnswer, HookRequest, PlanAnswer, PlanRequest, QuestionRequest
from interpreters.context import ToolCancelled, ToolContext
from interpreters.errors import AgentClosedError, BusyError
from interpreters.events import Event, Inline, ToolFinished, ToolStarted
from interpreters.handles import messages as say
from interpreters.handles.messages import Notice, event_data
from interpreters.handles.window import Window
from interpreters.results import RunResult
from interpreters.tools import Tool, ToolError
from runtime.memory import Notes

CLOSED = "the session is not open; begin another one"
BUSY = "another turn is under way; wait for its end or cancel it"


@define(eq=False)
class HostedTurn:
    """A turn that was accepted and has not ended."""

    number: int
    window: Window
    """How far it may run ahead of its reader."""
    cancelled: str | None = None
    """The reason, once it was asked for."""
    waits: dict[int, Future[Any]] = field(factory=dict)
    """What was asked of the handle's side, by number."""
    contexts: dict[int, ToolContext[Any]] = field(factory=dict)
    calls: dict[tuple[str, str], int] = field(factory=dict)
    """The numbers of the calls among them, by session and id."""


class RemoteTool(Tool[..., str]):
    """A tool that runs on the handle's side. Its arguments are checked there, where its signature is known."""

    def __init__(self, offer: say.ToolOffer, run: Callable[[Mapping[str, Any], ToolContext[Any]], str]) -> None:
        self.function = run
        self.spec = offer.spec
        self.timeout = offer.timeout
        self.is_async = False

    def prepare(self) -> None:
        """Nothing is checked here."""

    def call(self, arguments: Mapping[str, Any], context: ToolContext[Any]) -> str:
        context.begin()
        return self.function(arguments, context)


Make = Callable[[dict[str, Any], list[RemoteTool]], Agent]
"""Makes a session's agent, of the options that all have and its tools."""


class HostedSession:
    """A session, its thread and its agent."""

    def __init__(self, name: str, settings: say.Settings, send: Callable[[Notice], None]) -> None:
        self.name = name
        self.journal: str | None = None
        self._settings = settings
        self._send = send
        self._agent: Agent | None = None
        self._work: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._lock = threading.RLock()
        self._gate = threading.Lock()
        """Held while the mode is set: outside of a turn, that takes the agent for an instant."""
        self._turn: HostedTurn | None = None
        self._ahead: dict[int, str] = {}
        """Turns that were cancelled before they were accepted, and why."""
        self._newest = 0
        """The highest number of a turn so far."""
        self._asked = 0
        """How much was asked of the handle's side."""
        self._calls: dict[tuple[str, str], ToolCall] = {}
        """The calls under way as the model wrote them, by session and id."""
        self._thread = threading.Thread(target=self._run, name=f"cogstep-{name}", daemon=True)
        self._thread.start()

    # --------------------------------------------------------------------------------- for the host's thread: no waits

    def begin(
        self, identity: str, make: Make, offers: tuple[say.ToolOffer, ...], forget: Callable[[HostedSession], None]
    ) -> None:
        """Make the agent, and say that it is ready or why not; then it is forgotten first, on the session's thread."""
        self._work.put(partial(self._begin, identity, make, offers, forget))

    def accept(self, number: int, run: Callable[[Agent], RunResult]) -> None:
        """Take a turn on, or say at once why it has ended."""
        with self._lock:
            if number <= self._newest:
                self._send(say.Faulted(f"turn {number} of {self.name!r} is not newer than turn {self._newest}"))
                return
            self._newest = number
            if self._turn is not None:
                self._send(say.TurnBroken(self.name, number, "BusyError", BUSY))
                return
            turn = HostedTurn(number, Window(self._settings.window), self._ahead.pop(number, None))
            self._turn = turn
        self._work.put(partial(self._play, turn, run))

    def answer(self, message: say.Answer) -> None:
        """Hand over what the handle's side was asked for; what nobody waits for any more is dropped."""
        turn = self._turn
        if turn is None or turn.number != message.turn:
            return
        with self._lock:
            wait = turn.waits.pop(message.number, None)
        if wait is not None and wait.set_running_or_notify_cancel():
            wait.set_result(message)

    def progress(self, message: say.ToolProgress) -> None:
        turn = self._turn
        if turn is not None and turn.number == message.turn:
            context = turn.contexts.get(message.number)
            if context is not None:
                context.progress(message.text)

    def read(self, message: say.Read) -> None:
        """There is room for more events."""
        turn = self._turn
        if turn is not None and turn.number == message.turn:
            turn.window.read(message.count)

    def cancel(self, number: int | None, reason: str, *, ahead: bool = False) -> None:
        """Stop this turn; None for whichever is under way. ``ahead``: or as soon as it is accepted."""
        with self._lock:
            turn = self._turn
            if ahead and number is not None and number > self._newest:
                self._ahead.setdefault(number, reason)
            if turn is None or number not in (None, turn.number):
                return
            turn.cancelled = turn.cancelled or reason
        self._stop(turn)

    def queue(self, identity: str, work: Callable[[Agent], object]) -> None:
        """Do something on the session's thread, behind what was asked for before."""
        self._work.put(partial(self._report, identity, work))

    def set_mode(self, identity: str, mode: Any) -> None:
        """At once, also within a turn."""
        with self._gate:
            self._report(identity, lambda agent: agent.set_mode(mode))

    def dispose(self, identity: str | None, reason: str) -> None:
        """End it: the turn under way is cancelled."""
        self.cancel(None, reason)
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

    def _begin(
        self, identity: str, make: Make, offers: tuple[say.ToolOffer, ...], forget: Callable[[HostedSession], None]
    ) -> None:
        tools = [RemoteTool(offer, self._call_tool) for offer in offers]
        try:
            agent = make(self._options(), tools)
        except Exception as error:
            forget(self)
            self._work.put(None)
            self._send(say.Refused(identity, type(error).__name__, str(error)))
            return
        self._agent = agent
        self._send(say.Ready(identity, self.name, agent.unfinished))

    def _options(self) -> dict[str, Any]:
        """What is given to an agent whether it is new, resumed or forked."""
        settings = self._settings
        notes = None
        if settings.notes:
            notes = Notes() if settings.notes == ":memory:" else Notes(settings.notes)
        return {
            "approve": self._approve if settings.approvals else None,
            "ask": self._ask if "questions" in settings.features else None,
            "review": self._review if "plan" in settings.features else None,
            "memory": notes,
            "hooks": dict.fromkeys(settings.hooks, self._hook),
            "observers": [Inline(self._observe)],
            "owns_model": False,
            "worker_patience": settings.worker_patience,
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
            end = say.TurnBroken(self.name, turn.number, type(error).__name__, str(error))
        with self._lock:
            self._turn = None
            self._calls.clear()
            self._send(end)
        for wait in list(turn.waits.values()):
            wait.cancel()

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
        """Do it when the mode is not being set."""
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
        if isinstance(event, ToolStarted):
            self._calls[event.session, event.call.id] = event.call
        elif isinstance(event, ToolFinished):  # by its timeout, perhaps: then nobody waits for its result any more
            wait = turn.waits.get(turn.calls.pop((event.session, event.call_id), 0))
            if wait is not None:
                wait.cancel()
        # Before a turn has begun, a mode is set on the host's thread, which has to hear what was read and cancelled.
        turn.window.take(wait=threading.current_thread() is self._thread)
        self._tell(turn, say.Happened(self.name, turn.number, event_data(event)))

    def _stop(self, turn: HostedTurn) -> None:
        turn.window.open()
        if self._agent is not None:
            self._agent.cancel(turn.cancelled or "")
        for wait in list(turn.waits.values()):
            wait.cancel()

    def _wait_for(self, make: Callable[[HostedTurn, int], Notice]) -> tuple[HostedTurn, int, Future[Any]]:
        """Ask the handle's side for something."""
        with self._lock:
            turn = self._turn
            if turn is None:
                raise ToolCancelled  # the turn has ended while a tool was about to be called
            self._asked += 1
            number = self._asked
            wait: Future[Any] = Future()
            turn.waits[number] = wait
            self._send(make(turn, number))
        if turn.cancelled is not None:
            wait.cancel()
        return turn, number, wait

    def _call_tool(self, arguments: Mapping[str, Any], context: ToolContext[Any]) -> str:
        written = self._calls.get((context.session, context.call_id))
        call = written or ToolCall(context.call_id, context.tool, json.dumps(arguments, ensure_ascii=False))

        def make(turn: HostedTurn, number: int) -> Notice:
            turn.contexts[number] = context
            turn.calls[context.session, context.call_id] = number
            return say.ToolCalled(self.name, turn.number, number, call, context.session)

        turn, number, wait = self._wait_for(make)
        try:
            result: say.ToolResult = wait.result(self._settings.tool_wait)
        except CancelledError:
            raise ToolCancelled from None
        except TimeoutError:
            seconds = self._settings.tool_wait
            raise ToolError(f"{call.name} gave no result within {seconds:g} seconds") from None
        finally:
            turn.contexts.pop(number, None)
            if turn.waits.pop(number, None) is not None:
                self._tell(turn, say.ToolDropped(self.name, turn.number, number))
        if not isinstance(result, say.ToolResult):
            raise ToolError(f"{call.name} was answered with {say.TAG_OF[type(result)]}")
        if result.failed:
            raise ToolError(result.content)
        return result.content

    def _approve(self, request: ApprovalRequest) -> Future[Any]:
        return self._consult(
            lambda turn, number: say.ApprovalAsked(
                self.name, turn.number, number, request.call, request.reason, request.session
            ),
            say.ApprovalAnswer,
            lambda answer: Approval(answer.allowed, answer.reason, always=answer.always),
        )

    def _ask(self, request: QuestionRequest) -> Future[Any]:
        return self._consult(
            lambda turn, number: say.QuestionsAsked(self.name, turn.number, number, request.questions, request.session),
            say.Choice,
            lambda answer: None if answer.declined else answer.chosen,
        )

    def _review(self, request: PlanRequest) -> Future[Any]:
        return self._consult(
            lambda turn, number: say.PlanAsked(self.name, turn.number, number, request.plan, request.session),
            say.PlanVerdict,
            lambda answer: PlanAnswer(answer.approved, answer.feedback),
        )

    def _hook(self, request: HookRequest) -> Future[Any]:
        return self._consult(
            lambda turn, number: say.HookAsked(
                self.name, turn.number, number, request.point, request.session, request.text, request.call
            ),
            say.HookVerdict,
            lambda a: HookAnswer(a.verdict, a.reason, arguments=a.arguments, context=a.context),
        )

    def _consult(
        self, make: Callable[[HostedTurn, int], Notice], expected: type, read: Callable[[Any], Any]
    ) -> Future[Any]:
        """A future of the answer, as agents take one: a cancellation ends the turn without waiting for it."""
        answer: Future[Any] = Future()

        def settled(wait: Future[Any]) -> None:
            if wait.cancelled():
                answer.cancel()
                return
            message = wait.result()
            if not answer.set_running_or_notify_cancel():
                return
            if isinstance(message, expected):
                answer.set_result(read(message))
            else:
                reason = message.reason if isinstance(message, say.NoAnswer) else f"no {expected.__name__} came"
                answer.set_exception(RuntimeError(reason))

        _, _, wait = self._wait_for(make)
        wait.add_done_callback(settled)
        return answer
