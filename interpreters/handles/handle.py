"""The handle's side: sessions in a thread or a process, used much like an ``Agent``.

    with AgentHost.in_process() as host:
        cook = host.open("cook", tools=[weigh], system="You are a cook.")
        print(cook.run("How much flour is left?").text)

Tools, approvals, questions and hooks run here, in the program; model and agents live with the host.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from attrs import fields

from cognition import CogstepError, ConfigError, ToolSpec
from cognition.features import Mode
from interpreters.base_agent import LOG, loop_runs_here
from interpreters.errors import AgentClosedError, BusyError
from interpreters.handles import messages as say
from interpreters.handles.errors import HostDiedError, HostError, HostTimeoutError
from interpreters.handles.turns import End, TurnStream
from interpreters.observers import Observers
from interpreters.options import HandleOptions, filled
from interpreters.results import RunResult
from interpreters.tools import Tool, Usable, as_tools

if TYPE_CHECKING:
    from interpreters.handles.agent_host import AgentHost

WINDOW = 256
"""Events of a turn that may be unread, unless it is said otherwise: some 40 KB, and more than come in the time that a
message takes to the host and back."""


IN_A_LOOP = (
    "reading a turn by `for`, as AgentHandle.run does, blocks the event loop that runs on this thread until it ends; "
    "in async code, use run_async() or `async for`"
)


class HandleObservers(Observers):
    """Told of the events of a session elsewhere, as they come."""

    def warn(self, message: str) -> None:
        """To the log only: events are the session's own."""
        LOG.warning("%s", message)


class AgentHandle:
    """One session. Made by ``AgentHost.open``; used from one thread at a time, apart from ``cancel``."""

    def __init__(self, host: AgentHost, key: str, tools: Iterable[Usable | ToolSpec], given: HandleOptions) -> None:
        self.key = key
        self.unfinished = False
        """Whether a crash interrupted a turn of this resumed session: ``go_on`` ends it."""
        self.tools: dict[str, Tool[..., Any]] = {}
        self.offers: list[say.ToolOffer] = []
        for tool in tools:
            if isinstance(tool, ToolSpec):  # its calls come in the stream, and the program answers them by hand
                self.offers.append(say.ToolOffer(tool))
            else:
                (tool,) = as_tools((tool,))
                self.tools[tool.spec.name] = tool
                self.offers.append(say.ToolOffer(tool.spec, tool.timeout))
        full = filled(given, HandleOptions)
        self.approve = full["approve"]
        self.ask = full["ask"]
        self.review = full["review"]
        self.hooks = full["hooks"]
        self.deps = full["deps"]
        self.window = full["window"]
        redact = full["redact"]
        self._secrets = None if redact is None else say.Secrets.of(redact)
        features = tuple(full["features"])
        for feature, asker in (("questions", "ask"), ("plan", "review")):
            if feature in features and given.get(asker) is None:
                raise ConfigError(f"the agent is missing {asker}=, which the feature {feature!r} needs")
        self.observers = HandleObservers(full["observers"], key)
        self._host = host
        self.given = full
        self._turn: TurnStream | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._warned = False

    @property
    def alive(self) -> bool:
        """Whether it can be used: it was not disposed of, and its host lives."""
        return not self._closed and self._host.ended is None

    def run(self, text: str) -> RunResult:
        """Say something and wait for the end of the turn, as ``Agent.run``.

        Raises:
            HostError: the turn broke off by an error of the program's own, such as a journal that can't be written.
            HostDiedError: the host has gone. What was recorded can be resumed.
            HostTimeoutError: it was cancelled, and the host did not end it in time.
            BusyError, AgentClosedError: as ``Agent.run``.
        """
        return self._to_the_end(self.stream(text))

    def stream(self, text: str) -> TurnStream:
        """Say something and read the turn's events as they come; raises as ``run``.

        with handle.stream("Tell me a story.") as events:
            for event in events:
                print(event)
        print(events.result.text)
        """
        return self._begin(lambda number: say.RunTurn(self.key, number, text))

    async def run_async(self, text: str) -> RunResult:
        """``run`` in an event loop, which is not blocked; raises as ``run``. Cancelling the task cancels the turn."""
        async with self.stream(text) as turn:
            async for _ in turn:
                pass
        return turn.result

    def go_on(self) -> RunResult:
        """Carry the turn to its end that a crash had interrupted; see ``unfinished``."""
        self.unfinished = False
        return self._to_the_end(self._begin(lambda number: say.GoOn(self.key, number)))

    def cancel(self, reason: str = "") -> bool:
        """Stop the turn under way, from any thread; False if there is none."""
        turn = self._turn
        if turn is None:
            return False
        turn.cancel(reason)
        return True

    def reset(self) -> None:
        """Cancel the turn under way and forget the conversation."""
        self._host.request(lambda identity: say.Reset(identity, self.key), self.answer_wait)

    def set_mode(self, mode: Mode) -> None:
        """Let more or less happen without being asked, in the turn under way too."""
        self._host.request(lambda identity: say.SetMode(identity, self.key, mode), self.answer_wait)

    def fork(
        self,
        key: str,
        *,
        after: int | None = None,
        system: str = "",
        journal: str | os.PathLike[str] | None = None,
    ) -> AgentHandle:
        """A new session of the same host, that begins where this one stood after a turn, and leaves this one as it is.

        Args:
            key: of the new one.
            after: the turn; None for the newest that has ended.
            system: another system prompt.
            journal: where the new one is recorded.

        Raises:
            HostError: this session has no journal, or there is no such turn.
        """
        return self._host.branch(self, key, after, system, None if journal is None else os.fspath(journal))

    def dispose(self) -> None:
        """Cancel the turn under way and end the session. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        self._host.forget(self)
        try:
            if self._host.ended is None:
                self._host.request(lambda identity: say.Dispose(identity, self.key), self.answer_wait)
        finally:
            self.observers.close()

    def __enter__(self) -> AgentHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.dispose()

    # --------------------------------------------------------------------------------------------------------- inside

    def _begin(self, make: Callable[[int], say.Request]) -> TurnStream:
        with self._lock:
            if self._closed:
                raise AgentClosedError("the session was disposed of; open another one")
            if self._host.ended is not None:
                raise HostDiedError(self._host.ended)
            if self._turn is not None:
                raise BusyError("a turn is under way; wait for its end or call cancel()")
            turn = self._turn = TurnStream(self, self._host.begin_turn(self))
        self.send(make(turn.number))
        if self._host.ended is not None:  # it went in between, and its end may have missed this turn
            self.lost(HostDiedError(self._host.ended))
        return turn

    def _to_the_end(self, turn: TurnStream) -> RunResult:
        with turn:
            for _ in turn:
                pass
        return turn.result

    def send(self, request: say.Request) -> None:
        self._host.send(request)

    def cancel_turn(self, number: int, reason: str) -> None:
        """Tell the host: at once if it is in this process, and by a message."""
        self._host.cancel_turn(self.key, number, reason)

    def look_for_loop(self) -> None:
        """Say once that a loop is blocked."""
        if not self._warned and loop_runs_here():
            self._warned = True
            LOG.warning(IN_A_LOOP)

    @property
    def answer_wait(self) -> float | None:
        return self._host.answer_wait

    def too_late(self, what: str) -> HostTimeoutError:
        return HostTimeoutError(what, self.answer_wait or 0.0)

    def host_error(self, message: str, error: str) -> CogstepError:
        if error == "AgentClosedError":
            return AgentClosedError(message)
        return BusyError(message) if error == "BusyError" else HostError(message, error)

    def arrived(self, notice: Any) -> None:
        """Something that belongs to a turn of this session: of the one under way, or it is dropped."""
        turn = self._turn
        if turn is None or turn.number != notice.turn:
            return
        if isinstance(notice, say.TurnEnded | say.TurnBroken):
            self._turn = None
            self._host.end_turn(turn.number)
        turn.arrived(notice)

    def lost(self, error: CogstepError, of: TurnStream | None = None) -> None:
        """The host has gone, or doesn't end this turn."""
        with self._lock:
            if of is not None and self._turn is not of:
                return
            turn, self._turn = self._turn, None
        if turn is not None:
            self._host.end_turn(turn.number)
            turn.end(End(error=error))

    def settings(self, system: str) -> say.Settings:
        given: Any = self.given
        names = {one.name for one in fields(say.Settings)} - SAID_APART
        return say.Settings(
            system,
            features=tuple(given["features"]),
            hooks=tuple(self.hooks),
            approvals=self.approve is not None,
            redact=self._secrets,
            **{name: given[name] for name in names if given[name] is not None or name in MAY_BE_NONE},
        )


SAID_APART = {"system", "approvals", "hooks", "features", "redact"}
"""The settings that are not simply those given."""

MAY_BE_NONE = {"context_tokens", "worker_patience", "window"}
"""The settings of which None says something; elsewhere it stands for what is usual."""
