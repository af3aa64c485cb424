"""The small door to all of it: an agent that keeps a conversation with a model and your tools."""

from __future__ import annotations

import builtins
import logging
import os
import sys
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

from cognition import AgentState, CogstepError, SessionReset
from cognition.features import Mode
from interpreters.answers import StructuredResult
from interpreters.assembly import (
    NO_TYPE,
    AgentOptions,
    Parts,
    ProgramOptions,
    assemble,
    said,
    start_of_turn,
    turn_result,
)
from interpreters.errors import AgentClosedError
from interpreters.observers import Observers
from interpreters.results import RunResult
from interpreters.resuming import fork_parts, reopen, take_up
from interpreters.sync import SyncInterpreter
from interpreters.tools import Tool
from runtime.protocol import Runtime

T = TypeVar("T")

LOG = logging.getLogger("cogstep")

CLOSE_SECONDS = 5.0
"""How long ``close`` waits for tools that don't heed a cancellation."""

IN_A_LOOP = (
    "Agent.run blocks the event loop that runs on this thread until the turn ends; in async code, use AsyncAgent"
)


class Agent:
    """A conversation with a model that may call your tools.

    >>> from interpreters import Agent, fakes, tool
    >>> @tool
    ... def multiply(a: int, b: int) -> int:
    ...     '''Multiply two whole numbers.'''
    ...     return a * b
    >>> model = fakes.ScriptedModel([fakes.call("multiply", a=17, b=23), "17 * 23 is 391."])
    >>> with Agent(model, tools=[multiply]) as agent:
    ...     agent.run("What is 17 * 23?").text
    '17 * 23 is 391.'

    Args:
        model: what ``load_model`` gave, or a fake. The agent closes it when it is closed itself, unless
            ``owns_model=False`` says that somebody else does: agents that share a model need that.
        tools: functions decorated with ``@tool``.
        system: the system prompt.
        given: see ``AgentOptions``; each has a default.

    Raises:
        ConfigError: the options contradict each other, or a feature misses what carries it out.
        JournalError: the recording can't begin.
    """

    def __init__(
        self, model: Runtime, tools: Iterable[Tool[..., Any]] = (), system: str = "", **given: Unpack[AgentOptions]
    ) -> None:
        self._begin(assemble(model, tools, system, given))

    @classmethod
    def resume(
        cls,
        path: str | os.PathLike[str],
        model: Runtime,
        tools: Iterable[Tool[..., Any]] = (),
        **given: Unpack[ProgramOptions],
    ) -> Self:
        """Go on with a recorded session in its own journal, also after a crash: see ``unfinished`` and ``go_on``.

        Args:
            path: the journal; no other session can write it meanwhile.
            model: may be another one than then.
            tools: those of the recording.
            given: how it is carried out from now on; see ``ProgramOptions``.

        Raises:
            JournalError: the journal can't be read or written, is damaged, or is being written.
            ConfigError: the tools are not those of the recording.
            ReplayDivergedError: it was recorded by other agent logic.
        """
        agent, reopened = cls.__new__(cls), reopen(path, model, tools, given)
        agent._begin(reopened.parts, reopened.header.start)
        try:
            take_up(reopened, agent._interpreter.driver)
        except BaseException:
            agent._let_go()
            raise
        agent._resting = True
        return agent

    @classmethod
    def fork(
        cls,
        path: str | os.PathLike[str],
        model: Runtime,
        tools: Iterable[Tool[..., Any]] = (),
        system: str | None = None,
        *,
        turn: int | None = None,
        **given: Unpack[AgentOptions],
    ) -> Self:
        """A new session that begins where a recorded one stood after a turn, and leaves that one as it is.

        Args:
            path: the journal of the recorded session.
            model, tools, system: of the new one; without ``system`` the recorded one.
            turn: its number; None for the newest that has ended.
            given: see ``AgentOptions``; what is not given is as recorded. ``journal`` records the new session with its
                origin.

        Raises:
            CogstepError: there is no such turn; and what the constructor raises.
        """
        agent = cls.__new__(cls)
        parts, state = fork_parts(path, model, tools, system, turn, given)
        agent._begin(parts, state)
        return agent

    def _let_go(self) -> None:
        """Nothing has begun: release the journal."""
        self._closed = True
        if self._journal is not None:
            self._journal.close()

    def _begin(self, parts: Parts, state: AgentState | None = None) -> None:
        self.model = parts.program.model
        self.session = parts.program.session
        self.config = parts.config
        self._owns_model = parts.owns_model
        self._journal = parts.journal
        self._closed = False
        self._resting = False
        """Resumed, and not gone on with yet."""
        self._warned = False
        self._interpreter = SyncInterpreter(
            parts.engine,
            parts.program,
            observers=Observers(parts.observers, self.session),
            recorder=parts.journal,
            state=state,
            clock=parts.clock,
        )

    @property
    def state(self) -> AgentState:
        """Everything the agent knows now: an immutable value that may be kept and compared."""
        return self._interpreter.driver.state

    @overload
    def run(self, text: str) -> RunResult: ...
    @overload
    def run(self, text: str, *, returns: type[T]) -> StructuredResult[T]: ...
    @overload
    def run(self, text: str, *, returns: Any) -> StructuredResult[Any]: ...
    def run(self, text: str, *, returns: Any = NO_TYPE) -> RunResult:
        """Say something and wait for the end of the turn. What goes wrong in it is in the result's ``outcome``.

        Args:
            text: what the user says.
            returns: the type of the answer, which is then in ``result.value``: an attrs class, dataclass or TypedDict,
                or any other type that a tool's parameter may have. The model may call tools before it answers.

        Raises:
            ConfigError: JSON has no form for ``returns``.
            BusyError: another turn is under way.
            AgentClosedError: after ``close()``.
            JournalWriteError: the recording can't go on.
        """
        self._check_open()
        if not self._warned and _loop_runs_here():
            self._warned = True
            self._interpreter.observers.warn(IN_A_LOOP)
        began = len(self.state.history)
        self._interpreter.run(said(text, returns))
        return turn_result(self._interpreter.driver, began, self._interpreter.finished, returns)

    @property
    def unfinished(self) -> bool:
        """Whether a crash interrupted a turn of this resumed session. ``go_on`` ends it; ``run`` would cancel it."""
        return bool(self._interpreter.driver.in_flight)

    def go_on(self) -> RunResult:
        """Carry the interrupted turn to its end; raises as ``run`` does, and CogstepError if there is none.

        Calls that were at work run again if their tool is read-only or idempotent. Of any other the model is told that
        it may have happened.
        """
        self._check_open()
        if not self.unfinished:
            raise CogstepError("no turn was interrupted; go on with run()")
        began = start_of_turn(self.state)
        self._interpreter.run(None)
        return turn_result(self._interpreter.driver, began, self._interpreter.finished)

    def cancel(self, reason: str = "") -> bool:
        """Stop the turn under way, from any thread, a tool, an observer or a signal handler; False if there is none."""
        return self._interpreter.cancel(reason)

    def set_mode(self, mode: Mode) -> None:
        """Let more or less happen without being asked: from now on, in the turn under way too. From any thread."""
        self._check_open()
        self._interpreter.change_mode(mode)

    def reset(self) -> None:
        """Forget the conversation. What the user allowed or refused "from now on" stays."""
        self._check_open()
        self._interpreter.run(SessionReset())

    def close(self) -> None:
        """Cancel what runs, end the recording, and close the model if it is the agent's. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        try:
            left = 0 if self._resting else self._interpreter.close(CLOSE_SECONDS)  # what rests, may be resumed again
            if left:
                LOG.warning("%d tool calls still run after %g seconds and are left alone", left, CLOSE_SECONDS)
        finally:
            try:
                if self._journal is not None:
                    self._journal.close()
            finally:
                if self._owns_model:
                    self.model.close()

    def __enter__(self) -> Agent:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.close()
        except CogstepError:
            if error is None:
                raise
            LOG.warning("while closing the agent after an error", exc_info=True)  # the error on its way tells more

    def _check_open(self) -> None:
        self._resting = False
        if self._closed:
            raise AgentClosedError("the agent is closed; make a new one")


def _loop_runs_here() -> bool:
    """Whether an event loop waits for this thread. Not so in a notebook, where nothing else is served by the loop."""
    running = sys.modules.get("asyncio.events")  # a program that never imported it has no loop
    return running is not None and running._get_running_loop() is not None and not hasattr(builtins, "__IPYTHON__")
