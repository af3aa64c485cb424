"""The small door to all of it: an agent that keeps a conversation with a model and your tools."""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, TypeVar, overload

from cognition import (
    AgentConfig,
    AgentState,
    CognitiveEngine,
    CogstepError,
    GenerationOptions,
    Limits,
    LLMEngine,
    Policy,
    RetryPolicy,
    SessionReset,
    UserSpoke,
)
from interpreters.answers import StructuredResult, answer_schema
from interpreters.approvals import Approve
from interpreters.clock import Clock
from interpreters.driver import Recorder
from interpreters.errors import AgentClosedError
from interpreters.events import Observer
from interpreters.journal import Fsync, Journal
from interpreters.observers import Observers
from interpreters.results import RunResult
from interpreters.sync import SyncInterpreter
from interpreters.tools import Tool
from runtime.constrained.calls import read_tools
from runtime.protocol import Runtime

T = TypeVar("T")

LOG = logging.getLogger("cogstep")

NO_TYPE: Any = object()
"""Stands for no type, since None is one."""

CLOSE_SECONDS = 5.0
"""How long ``close`` waits for tools that don't heed a cancellation."""


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
        options, limits, policy, retry: see ``AgentConfig``; each has a default.
        context_tokens: for less context than the model has.
        approve: asked for calls that need an approval; without it they are refused.
        observers: told of every event.
        journal: a file that must not exist yet, for the recording; a ``Journal`` for more choice.
        fsync: when the recording is forced to the disk: at every ``"record"``, every ``"turn"``, or ``"never"``.
        deps: handed to tools as ``ToolContext.deps``.
        engine: makes the agent's logic of the configuration.
    """

    def __init__(
        self,
        model: Runtime,
        tools: Iterable[Tool[..., Any]] = (),
        system: str = "",
        *,
        options: GenerationOptions | None = None,
        limits: Limits | None = None,
        policy: Policy | None = None,
        retry: RetryPolicy | None = None,
        context_tokens: int | None = None,
        approve: Approve | None = None,
        observers: Iterable[Observer] = (),
        journal: str | os.PathLike[str] | None = None,
        fsync: Fsync = "turn",
        deps: Any = None,
        session: str | None = None,
        owns_model: bool = True,
        clock: Clock | None = None,
        engine: Callable[[AgentConfig], CognitiveEngine] = LLMEngine,
    ) -> None:
        tools = tuple(tools)
        self.model = model
        self.session = session or uuid.uuid4().hex
        self.config = AgentConfig(
            system,
            tuple(tool.spec for tool in tools),
            options or GenerationOptions(),
            limits or Limits(),
            policy or Policy(),
            retry or RetryPolicy(),
            context_tokens or model.describe().context_tokens,
        )
        if self.config.options.constrain:  # what sampling can't be held to is better known now than at a call
            read_tools(self.config.offered)
        self._owns_model = owns_model
        self._closed = False
        logic = engine(self.config)
        self._journal = None
        if journal is not None:
            self._journal = Journal.create(journal, session=self.session, engine=logic, config=self.config, fsync=fsync)
        recorder: Recorder | None = self._journal
        self._interpreter = SyncInterpreter(
            logic,
            model,
            tools,
            approve=approve,
            observers=Observers(observers, self.session),
            recorder=recorder,
            deps=deps,
            session=self.session,
            clock=clock,
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
        before = self.state
        typed = returns is not NO_TYPE
        self._interpreter.run(UserSpoke(text, answer_schema(returns) if typed else ""))
        finished, after = self._interpreter.finished, self.state
        if finished is None:
            raise CogstepError("the engine ended the turn without TurnFinished; an engine has to decide it once a turn")
        parts = (finished.outcome, finished.usage, after.history[len(before.history) :], after.counters.turn)
        return StructuredResult(*parts, returns) if typed else RunResult(*parts)

    def cancel(self, reason: str = "") -> bool:
        """Stop the turn under way, from any thread, a tool, an observer or a signal handler; False if there is none."""
        return self._interpreter.cancel(reason)

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
            left = self._interpreter.close(CLOSE_SECONDS)
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
        if self._closed:
            raise AgentClosedError("the agent is closed; make a new one")
