"""The handle's side: sessions in a thread or a process, used much like an ``Agent``.

    with AgentHost.in_process() as host:
        cook = host.open("cook", tools=[weigh], system="You are a cook.")
        print(cook.run("How much flour is left?").text)

Tools, approvals, questions and hooks run here, in the program; the model and the agents run in the host.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, Protocol, get_args

from cognition import (
    AgentConfig,
    AskApproval,
    AskUser,
    CallTool,
    CancelAsked,
    CogstepError,
    Compacted,
    ConfigError,
    EffectId,
    NotCompacted,
    ReviewPlan,
    Rule,
)
from cognition.base.display import LONGEST_LINE, shown_name
from cognition.values.features import Mode
from interpreters.agents.base_agent import LOG, loop_runs_here
from interpreters.agents.options import HandleOptions, config_fields, fill
from interpreters.agents.results import RunResult
from interpreters.agents.resume import state_after
from interpreters.agents.session_builder import make_program, user_input
from interpreters.hosting import _protocol as say
from interpreters.hosting._errors import HostDiedError
from interpreters.hosting._handle_undo import HandleUndo
from interpreters.hosting._protocol import ProtocolError
from interpreters.hosting._turn_stream import ToolWait, TurnStream
from interpreters.loop.errors import AgentClosedError, BusyError
from interpreters.loop.program.message_content import Content
from interpreters.loop.program.message_sources import PromptFunction, PromptSource, prompt_source
from interpreters.loop.program.pending import Postponable, find_pending
from interpreters.loop.program.program import Program, read_answer
from interpreters.observing.events import Event
from interpreters.observing.observers import Observers
from interpreters.recording.undo.restore import Restored, undo, undo_after
from interpreters.tools.external import ExternalTool, Usable, as_tools
from interpreters.tools.log_lines import hidden_line
from interpreters.tools.tool import Tool
from runtime.checking import checked_call

BUSY = "a turn is under way; wait for its end or call cancel()"
IN_A_LOOP = (
    "reading a turn by `for`, as AgentHandle.run does, blocks the event loop that runs on this thread until it ends; "
    "in async code, use run_async() or `async for`"
)


LOOP_SECONDS = 2.0
"""Seconds that the end of a handle waits for what its tools have left in the event loop."""


class HandleObservers(Observers):
    """Observers of a session in a host."""

    def warn(self, message: str) -> None:
        """Log the warning; it can't be an event, since only the session itself emits events."""
        LOG.warning("%s", shown_name(hidden_line(message, self.hides), LONGEST_LINE))


class HostLink(Protocol):
    """The part of a host that a handle uses."""

    ended: str | None
    model: say.Started | None
    answer_wait: float | None
    files: str | None

    def send(self, request: say.Request) -> None: ...
    def request(self, make: Callable[[str], say.Request], seconds: float | None) -> say.Notice: ...
    def cancel_turn(self, session: str, turn: int, reason: str, keep: bool) -> None: ...
    def begin_turn(self, handle: AgentHandle) -> int: ...
    def end_turn(self, number: int) -> None: ...
    def forget(self, handle: AgentHandle) -> None: ...
    def begin_fork(self, handle: AgentHandle, fork: say.Fork) -> AgentHandle: ...


class AgentHandle:
    """A session, made by ``AgentHost.open``. Use it from one thread at a time, apart from ``cancel``."""

    def __init__(
        self, host: HostLink, key: str, tools: Iterable[Usable], system: str | PromptFunction, given: HandleOptions
    ) -> None:
        self.key = key
        self.unfinished: bool = False
        """Whether a turn is open: a crash interrupted it (``resume_turn`` ends it), or it waits for answers."""
        self._pending: tuple[Postponable, ...] = ()
        # Of a ToolSpec the calls come in the stream, and the program answers them by hand, or later.
        self.tools: tuple[Tool[..., Any], ...] = as_tools(tools)
        self.names: frozenset[str] = frozenset(tool.spec.name for tool in self.tools)
        """The names of its tools: the calls that a host may forward."""
        full: Any = fill(given, HandleOptions)
        for name in ("features", "context"):  # of an iterator they can be taken once only
            full[name] = tuple(full[name])
        self.given = full
        self.program: Program = make_program(_ELSEWHERE, self.tools, key, full)
        """Carries out the effects that the host forwards."""
        for kind in self.program.performers:
            if kind not in get_args(say.Forwarded):
                raise ConfigError(f"performers: {kind.__name__} is carried out by the host, where no function can go")
        self.window: int | None = full["window"]
        redact = full["redact"]
        self._secrets = None if redact is None else say.Secrets.of(redact)
        for feature, asker, kind in (("questions", "ask", AskUser), ("plan", "review", ReviewPlan)):
            if feature in full["features"] and given.get(asker) is None and kind not in self.program.performers:
                raise ConfigError(f"the agent is missing {asker}=, which the feature {feature!r} needs")
        self.prompting: PromptSource | None = None if isinstance(system, str) else prompt_source(system)
        """Makes the system prompt for each message, on this side."""
        if self.prompting is not None and self.prompting.is_async:
            raise ConfigError("the function of system is an async function; a handle needs a plain one")
        for source in self.program.context:
            if source.is_async:
                raise ConfigError(f"{source.what} is async; a handle needs a plain one")
        fields = config_fields(full)
        if full["context_tokens"] is None and host.model is not None and not full["resume"]:
            fields["context_tokens"] = host.model.context_tokens
        specs, hooks = tuple(tool.spec for tool in self.tools), tuple(self.program.hooks)
        self.config: AgentConfig = AgentConfig(system if isinstance(system, str) else "", specs, hooks=hooks, **fields)
        self.observers: Observers = HandleObservers(full["observers"], key)
        self.observers.hides = self.program.hides
        self._host = host
        parts = full["journal"], host.files
        self.kept: HandleUndo = HandleUndo(key, *parts, resumed=full["resume"], force=full["fsync"] != "never")
        """Saves copies of the files that its tools overwrite."""
        self._turn: TurnStream | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._warned = False

    @property
    def alive(self) -> bool:
        """Whether the handle can be used: it was not disposed of, and its host runs."""
        return not self._closed and self._host.ended is None

    def run(self, text: Content) -> RunResult:
        """Send a user message and wait for the end of the turn, as ``Agent.run``.

        Raises:
            HostError: an error of the program itself broke off the turn, such as a journal that can't be written.
            HostDiedError: the host has ended. A recorded session can be resumed.
            HostTimeoutError: the turn was cancelled, and the host did not end it in time. BusyError, AgentClosedError:
                as ``Agent.run``.
        """
        return self._read_to_end(self.stream(text))

    def stream(self, text: Content) -> TurnStream:
        """Send a user message and iterate over the turn's events as they arrive; raises as ``run``:

        with handle.stream("Tell me a story.") as events:
            for event in events:
                print(event)
        print(events.result.text)
        """
        said = user_input(text)
        self._check_usable()
        given = self.program.deps, self.key, said.text
        system = None if self.prompting is None else self.prompting.make(*given)
        found = [source.make(*given) for source in self.program.context]
        context = said.context or tuple(chain.from_iterable(found))
        return self._begin(lambda number: say.RunTurn(self.key, number, said.text, said.parts, system, context))

    async def run_async(self, text: Content) -> RunResult:
        """``run`` without blocking the event loop; raises as ``run``. Cancelling the task cancels the turn."""
        return await self._read_to_end_async(self.stream(text))

    def resume_turn(self) -> RunResult:
        """Continue the open turn, and ask the pending questions again; see ``unfinished``."""
        return self._read_to_end(self._begin(lambda number: say.GoOn(self.key, number)))

    @property
    def pending(self) -> tuple[Postponable, ...]:
        """The effects that wait for an answer, oldest first; empty while a turn is running. See ``answer``."""
        return () if self._turn is not None else self._pending

    def answer(self, effect_id: str, answer: Any) -> RunResult:
        """Answer a pending effect of the open turn and continue the turn, as ``Agent.answer``; raises as that and
        ``run``.
        """
        return self._read_to_end(self.stream_answer(effect_id, answer))

    def stream_answer(self, effect_id: str, answer: Any) -> TurnStream:
        """``answer`` as a stream of the events that follow."""
        self._check_usable()
        event: Any = read_answer(find_pending(effect_id, self.pending), answer, self.program.tools)
        return self._begin(lambda number: say.GiveAnswer(self.key, number, EffectId(effect_id), event))

    async def answer_async(self, effect_id: str, answer: Any) -> RunResult:
        """``answer`` without blocking the event loop."""
        return await self._read_to_end_async(self.stream_answer(effect_id, answer))

    def cancel(self, reason: str = "") -> bool:
        """Stop the running turn, or the turn that waits for answers. Return False if there is no turn.

        Callable from any thread. For a turn that waits for answers, this waits until the host has ended it.
        """
        turn, pending = self._turn, self.pending
        if turn is not None:
            turn.cancel(reason)
            return True
        if not (pending and self.alive):
            return False
        effect_id = pending[0].effect_id
        ending = self._begin(lambda number: say.GiveAnswer(self.key, number, effect_id, CancelAsked(reason)))
        ending.drain(reason)
        return True

    def reset(self) -> None:
        """Cancel the running turn, abandon pending effects, and forget the conversation."""
        self._host.request(lambda identity: say.Reset(identity, self.key), self.answer_wait)
        self.note_status(False, ())

    def compact(self) -> Compacted | NotCompacted:
        """Have the model summarise the conversation so far, as ``Agent.compact``; raises as that and ``run``."""
        with self._begin(lambda number: say.Compact(self.key, number)) as events:
            told = [event.value for event in events if isinstance(event, Event) and event.session == self.key]
        return [value for value in told if isinstance(value, Compacted | NotCompacted)][-1]

    def set_mode(self, mode: Mode) -> None:
        """Set how much may happen without approval, also in the running turn."""
        self._host.request(lambda identity: say.SetMode(identity, self.key, mode), self.answer_wait)

    @property
    def remembered(self) -> tuple[Rule, ...]:
        """The approvals and refusals that the user gave "from now on", oldest first, requested from the host. See
        ``forget``.
        """
        told: Any = self._host.request(lambda identity: say.AskRemembered(identity, self.key), self.answer_wait)
        return tuple(told.rules)

    def forget(self, *patterns: str) -> None:
        """Remove approvals and refusals given "from now on": the rules with these patterns, or all; as
        ``Agent.forget``.

        Raises:
            HostError: no remembered rule has such a pattern; nothing was removed.
        """
        self._host.request(lambda identity: say.Forget(identity, self.key, patterns), self.answer_wait)

    @checked_call
    def undo(
        self, turn: int | None = None, *, redo: bool = False, force: bool = False, dry_run: bool = False
    ) -> Restored:
        """Restore the files that this session's tools have changed, as ``Agent.undo``. The files are on this side.

        Raises:
            BusyError: a turn is running.
            UndoError: there is nothing to undo, or a file prevents it; nothing was changed.
        """
        self._check_usable()
        if self._turn is not None:
            raise BusyError(BUSY)
        return undo(self.kept.file, turn, redo=redo, force=force, dry_run=dry_run)

    def fork(
        self,
        key: str,
        *,
        after: int | None = None,
        system: str = "",
        journal: str | os.PathLike[str] | None = None,
        foreign: bool = False,
        files: bool = False,
    ) -> AgentHandle:
        """Start a new session on the same host from the state of this one after a turn. This session is not changed.

        Args:
            key: the name of the new session.
            after: the turn; None for the newest that has ended.
            system: another system prompt.
            journal: the recording of the new session.
            foreign: as in ``Agent.fork``, for a journal without seals: the new session then uses this handle's own
                options.
            files: also restore the files that its tools have changed since, as in ``Agent.fork``.

        Raises:
            HostError: this session has no journal, or there is no such turn.
            UndoError: the files can't be restored; nothing was changed.
        """
        if files:  # as in `Agent.fork`: what stands in the way is told before anything is begun
            after = state_after(self.kept.file, after, foreign=foreign).turn
            undo_after(self.kept.file, after, dry_run=True)
        prompting = None if self.prompting is None else self.prompting.function
        given: Any = {**self.given, "journal": journal}
        made = AgentHandle(self._host, key, self.tools, system or prompting or "", given)
        self._host.begin_fork(made, say.Fork("", self.key, key, made.config, made.settings(), after, foreign))
        if files and after is not None:
            try:
                undo_after(self.kept.file, after)
            except BaseException:
                made.dispose()
                raise
        return made

    def dispose(self) -> None:
        """End the running turn and the session; pending effects stay pending in the recording. A second call does
        nothing.
        """
        if self._closed:
            return
        self._closed = True
        self._host.forget(self)
        try:
            if self._host.ended is None:
                self._host.request(lambda identity: say.Dispose(identity, self.key), self.answer_wait)
        finally:
            self.end()

    def __enter__(self) -> AgentHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.dispose()

    # --------------------------------------------------------------------------------------------------------- inside

    def end(self) -> None:
        """End what runs on this side."""
        self.observers.close()
        self.program.tool_loop.close(LOOP_SECONDS)

    def _begin(self, make: Callable[[int], say.Request]) -> TurnStream:
        with self._lock:
            self._check_usable()
            if self._turn is not None:
                raise BusyError(BUSY)
            turn = self._turn = TurnStream(self, self._host.begin_turn(self))
        self.send(make(turn.number))
        if self._host.ended is not None:  # it went in between, and its end may have missed this turn
            self.fail_turn(HostDiedError(self._host.ended))
        return turn

    def _check_usable(self) -> None:
        if self._closed:
            raise AgentClosedError("the session was disposed of; open another one")
        if self._host.ended is not None:
            raise HostDiedError(self._host.ended)

    def _read_to_end(self, turn: TurnStream) -> RunResult:
        with turn:
            for item in turn:
                _postpone(item)
        return turn.result

    async def _read_to_end_async(self, turn: TurnStream) -> RunResult:
        async with turn:
            async for item in turn:
                _postpone(item)
        return turn.result

    def note_status(self, unfinished: bool, pending: tuple[Postponable, ...]) -> None:
        """Store the turn's status as reported by the host.

        Raises:
            ProtocolError: a call of an unknown tool is pending.
        """
        for effect in pending:
            if isinstance(effect, CallTool) and effect.call.name not in self.names:
                raise ProtocolError(f"a call of {effect.call.name!r}, which the session has not, is pending")
        self._pending, self.unfinished = pending, unfinished or bool(pending)

    def send(self, request: say.Request) -> None:
        self._host.send(request)

    def cancel_turn(self, number: int, reason: str, keep: bool) -> None:
        """Cancel the turn by a message; also directly if the host is in this process."""
        self._host.cancel_turn(self.key, number, reason, keep)

    def check_for_loop(self) -> None:
        """Warn, once, that an event loop is blocked."""
        if not self._warned and loop_runs_here():
            self._warned = True
            LOG.warning(IN_A_LOOP)

    @property
    def answer_wait(self) -> float | None:
        return self._host.answer_wait

    def receive(self, notice: Any, length: int) -> None:
        """Handle a message of a turn of this session; drop it if it is not of the running turn.

        Raises:
            ProtocolError: the message is not possible at this point.
        """
        turn = self._turn
        if turn is None or turn.number != notice.turn:
            return
        if isinstance(notice, say.TurnEnded | say.TurnBroken):
            self.note_status(False, say.pending_in(notice))
            self._turn = None
            self._host.end_turn(turn.number)
        turn.receive(notice, length)

    def fail_turn(self, error: CogstepError, of: TurnStream | None = None) -> None:
        """End the running turn with an error: the host has ended, or does not end this turn."""
        with self._lock:
            if of is not None and self._turn is not of:
                return
            turn, self._turn = self._turn, None
        if turn is not None:
            self._host.end_turn(turn.number)
            turn.end(error)

    def settings(self) -> say.Settings:
        given, journal = self.given, self.given["journal"]
        return say.Settings(
            self.program.approve is not None or AskApproval in self.program.performers,
            redact=self._secrets,
            external=tuple(tool.spec.name for tool in self.tools if isinstance(tool, ExternalTool)),
            journal=None if journal is None else os.fspath(journal),
            **{name: given[name] for name in ("worker_patience", "notes", "tool_wait", "window", "fsync")},
        )


def _postpone(item: object) -> None:
    """Postpone a call of an external tool: ``run`` has no reader who could answer it during the turn."""
    if isinstance(item, ToolWait):
        item.later()


_ELSEWHERE: Any = None
"""Placeholder for the model, which the host has."""
