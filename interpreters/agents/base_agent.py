"""The common base of ``Agent`` and ``AsyncAgent``: starting, resuming, forking and inspecting a session."""

from __future__ import annotations

import builtins
import inspect
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, ClassVar, Self, Unpack

from attrs import evolve, frozen

from cognition import (
    AgentConfig,
    AgentState,
    ApprovalsForgotten,
    CogstepError,
    Compacted,
    Compacting,
    ConfigError,
    Input,
    ModeChanged,
    ModelChosen,
    NotCompacted,
    Outcome,
    Rule,
)
from cognition.base.checking import nearest, show
from cognition.base.display import shown_name
from cognition.values.features import Mode
from cognition.values.messages import schema_text
from cognition.values.routing import order_of
from interpreters.agents._other_words import explain_options
from interpreters.agents._state_restore import in_flight_of
from interpreters.agents.options import AgentOptions, ProgramOptions, format_help
from interpreters.agents.results import RunResult, Suspended
from interpreters.agents.resume import fork_parts, reopen, replay_into, state_after
from interpreters.agents.session_builder import NO_TYPE, Parts, assemble
from interpreters.agents.structured_answers import StructuredResult, answer_type, objection_to
from interpreters.loop.errors import AgentClosedError, BusyError, PendingError
from interpreters.loop.interpreter import BUSY, Interpreter
from interpreters.loop.mailbox_messages import Turn
from interpreters.loop.program.message_sources import PromptFunction
from interpreters.loop.program.pending import Postponable, find_pending
from interpreters.loop.program.program import read_answer
from interpreters.observing.observers import Observers
from interpreters.recording.recorder import Where
from interpreters.recording.undo.checkpoints import checkpoints_of
from interpreters.recording.undo.restore import UNRECORDED, Restored, UndoError, undo, undo_after
from interpreters.tools.external import Usable
from runtime.checking import checked_call
from runtime.constrained.nodes import Weakened
from runtime.protocol.model import ModelInfo, Runtime

Model = Annotated[Runtime, "a Runtime, such as load_model() gives"]

LOG = logging.getLogger("cogstep")

BEHIND = 64
"""Maximum number of unread events before a turn that is streamed waits for the reader: some lines of text."""

TOOLS_PLACE = {"__init__": 1, "resume": 2, "fork": 2}
"""The place of ``tools`` among the arguments of a method."""

CLOSE_SECONDS = 5.0
"""Seconds ``close`` waits for tools that ignore cancellation."""


@frozen
class AgentInfo:
    """A description of an agent."""

    session: str
    model: ModelInfo
    tools: tuple[str, ...]
    """The names of all offered tools, including those of features."""
    weakened: Mapping[str, tuple[Weakened, ...]]
    """For each tool, the parts of its schema that sampling can't enforce; calls are checked against them afterwards."""
    confinement: tuple[str, ...] = ()
    """What confines the tools that run commands, such as ``commands confined by bubblewrap``."""


class BaseAgent:
    """A session and its interpreter. Subclasses define how to wait for a turn."""

    _kind: ClassVar[type[Interpreter]]
    _delivery: ClassVar[Mapping[str, Any]] = {}
    """Options of ``Observers`` for the delivery of events."""
    _interpreter: Interpreter

    def __init_subclass__(cls) -> None:
        if cls.__doc__ and "Options:" not in cls.__doc__:  # what `help` shows; none under python -OO
            cls.__doc__ = f"{inspect.cleandoc(cls.__doc__)}\n\nOptions:\n{format_help(AgentOptions)}"

    @classmethod
    def _explain_arguments(
        cls, method: str, known: Iterable[str], args: tuple[object, ...], given: Mapping[str, object]
    ) -> None:
        """Raise ConfigError if the arguments of a method are those of another framework, or its tools are no list."""
        unknown = [name for name in given if name not in known]
        place = TOOLS_PLACE.get(method)
        if unknown or place is not None:
            tools = given.get("tools", args[place] if place is not None and len(args) > place else ())
            owner = cls.__name__ if method == "__init__" else f"{cls.__name__}.{method}"
            explain_options(owner, unknown, tools)

    @checked_call
    def __init__(
        self,
        model: Model,
        tools: Iterable[Usable] = (),
        system: str | PromptFunction = "",
        **given: Unpack[AgentOptions],
    ) -> None:
        self._begin(assemble(model, tools, system, given))

    @classmethod
    @checked_call
    def resume(
        cls,
        path: Where,
        model: Model,
        tools: Iterable[Usable] = (),
        system: PromptFunction | None = None,
        **given: Unpack[ProgramOptions],
    ) -> Self:
        """Continue a recorded session in its own journal, also after a crash: see ``unfinished`` and
        ``resume_turn``.

        Args:
            path: the journal, a file or a ``Recorder``. It is locked: another session can't write it.
            model: may differ from the model of the recording.
            tools: the same tools as in the recording.
            system: makes the system prompt for each message from now on. None keeps the last system prompt.
            given: see ``ProgramOptions``; these options are not recorded.

        Raises:
            JournalError: the journal can't be read or written, is damaged, or another session is writing it.
            ForeignRecordingError: there is no proof that this user wrote it; ``fork`` can take over its conversation.
            ConfigError: the tools differ from those of the recording.
            ReplayDivergedError: it was recorded by other agent logic.
        """
        agent, (parts, records) = cls.__new__(cls), reopen(path, model, tools, given, system)
        agent._begin(parts)
        with agent._released_after_failure():
            replay_into(records, agent._interpreter.driver)
        agent._resting = True
        return agent

    @classmethod
    @checked_call
    def fork(
        cls,
        path: Where,
        model: Model,
        tools: Iterable[Usable] = (),
        system: str | PromptFunction | None = None,
        *,
        turn: int | None = None,
        foreign: bool = False,
        files: bool = False,
        **given: Unpack[AgentOptions],
    ) -> Self:
        """Start a new session from the state of a recorded session after a turn. The recorded session is not changed.

        Args:
            path: the journal of the recorded session, a file or a ``Recorder``. model, tools, system: for the new
                session. Without ``system``, the recorded system prompt of that time is used.
            turn: the number of the turn; None for the newest that has ended.
            foreign: accept a recording that another user may have written. Only its conversation is taken over: its
                policy, limits and remembered approvals are ignored, and missing options get the defaults of a new
                session.
            files: also restore the files that its tools have changed since: see ``interpreters.undo``.
            given: see ``AgentOptions``; missing options are as recorded. ``journal`` records the new session with its
                origin.

        Raises:
            ForeignRecordingError: there is no proof that this user wrote it, and ``foreign`` is not set.
            UndoError: the files can't be restored; nothing was changed.
            CogstepError: there is no such turn; also any error that the constructor raises.
        """
        if files:  # what stands in the way is told before anything is begun or changed
            turn = state_after(path, turn, foreign=foreign).turn
            undo_after(path, turn, dry_run=True)
        agent = cls.__new__(cls)
        agent._begin(fork_parts(path, model, tools, system, turn, foreign, given))
        if files and turn is not None:
            with agent._released_after_failure():
                undo_after(path, turn)
        return agent

    def _begin(self, parts: Parts) -> None:
        self.model: Runtime = parts.program.model
        self.session: str = parts.program.session
        self.config: AgentConfig = parts.config
        self._owns_model = parts.given["owns_model"]
        self._weakened = parts.weakened
        self._journal = parts.journal
        self._closed = False
        self._returns: Any = NO_TYPE
        self._resting = False
        """Resumed, but no method has continued it yet."""
        with self._released_after_failure():
            keeper = checkpoints_of(parts.journal, self.session)
            self._interpreter = self._kind(
                parts.engine,
                parts.program if keeper is None else evolve(parts.program, keeper=keeper),
                observers=Observers(
                    parts.given["observers"],
                    self.session,
                    weakened=parts.weakened,
                    warnings=parts.warnings,
                    **self._delivery,
                ),
                recorder=parts.journal,
                state=parts.start,
                clock=parts.given["clock"],
            )
            if keeper is not None:
                driver = self._interpreter.driver
                keeper.turn = lambda: driver.state.counters.turn
            if parts.start is not None:
                self._interpreter.driver.in_flight |= in_flight_of(parts.engine, parts.start)
                self._resting = self.unfinished

    def __del__(self) -> None:
        """Release the recording and the model immediately if the agent was not closed, without waiting for a garbage
        collection.
        """
        # The constructor may have failed before. Not by way of `__dict__`: made only now, it would be nothing that the
        # garbage collector knows, and keep what it refers to for another round.
        journal = getattr(self, "_journal", None)
        if journal is not None:
            journal.close()
        interpreter = getattr(self, "_interpreter", None)
        if interpreter is not None:  # its circles would hold the model, which may have gigabytes
            interpreter.dispose()

    @property
    def state(self) -> AgentState:
        """The complete current state: an immutable value that may be stored and compared."""
        return self._interpreter.driver.state

    def describe(self) -> AgentInfo:
        """Return the agent's session, model, tools and weakened schemas. Works after ``close()`` too."""
        tools = tuple(tool.name for tool in self.config.offered)
        made = self._interpreter.program.tools.values()
        confinement = tuple(dict.fromkeys(tool.confinement for tool in made if tool.confinement))
        return AgentInfo(self.session, self.model.describe(), tools, self._weakened, confinement)

    @property
    def unfinished(self) -> bool:
        """Whether a turn of this session is open: a crash interrupted it, or it waits for answers.

        ``resume_turn`` continues it and asks the pending questions again. ``run`` cancels an interrupted turn.
        """
        phase = getattr(self.state, "phase", None)  # an engine may have states of its own
        # Between two turns only a summary is written. The next input abandons one that a crash interrupted.
        between_turns = isinstance(phase, Compacting) and phase.attempt is None
        return bool(self._interpreter.driver.in_flight) and not between_turns

    @property
    def pending(self) -> tuple[Postponable, ...]:
        """The effects that wait for an answer, oldest first: approvals, questions, plans, calls of external tools.

        Empty while a turn is running. See ``answer``.
        """
        return self._interpreter.driver.reveal(tuple(self._interpreter.find_pending()))

    def _answer_input(self, effect_id: str, answer: object) -> Input:
        """Return the input for an answer to a pending effect.

        Raises:
            CogstepError: no pending effect has this id.
            BusyError: a turn is running.
            ConfigError: the answer does not fit the effect.
        """
        return read_answer(self._find_pending(effect_id), answer, self._interpreter.program.tools)

    def _find_pending(self, effect_id: str) -> Postponable:
        self._check_not_running()  # what waits is not known before the end of a run
        return find_pending(effect_id, self._interpreter.find_pending())

    def cancel(self, reason: str = "") -> bool:
        """Stop the running turn, or the turn that waits for answers. Return False if there is no turn.

        May be called from any thread, a tool, an observer or a signal handler. After it returned True, no further
        effect of the turn starts.
        """
        return self._interpreter.cancel(reason)

    @checked_call
    def set_mode(self, mode: Mode) -> None:
        """Set how much may happen without approval: from now on, also in the running turn; callable from any thread."""
        self._check_open()
        self._interpreter.hand_in(ModeChanged(mode))

    @checked_call
    def use_model(self, name: str) -> None:
        """Have another model answer from the next call on, also in the running turn; callable from any thread.

        Args:
            name: a name in ``models``, or empty for the agent's own model.

        Raises:
            ConfigError: the agent has no model of this name.
        """
        self._check_open()
        if name and name not in self.config.models:
            near = nearest(name, self.config.models) if self.config.models else "; models= brings others"
            raise ConfigError(f"there is no model {shown_name(name)!r} beside the agent's own{near}")
        self._interpreter.hand_in(ModelChosen(name))

    @property
    def active_model(self) -> str:
        """The name of the model called first for answers, empty for the agent's own: the model set by ``use_model``,
        otherwise the one in ``routes``.
        """
        return order_of(self.state.model, self.config.routes, (), "answer")[0]

    @checked_call
    def undo(
        self, turn: int | None = None, *, redo: bool = False, force: bool = False, dry_run: bool = False
    ) -> Restored:
        """Restore the files that this session's tools have changed: ``interpreters.undo`` of its recording.

        The model is not informed. The tools are: they treat these files as unread.

        Raises:
            BusyError: a turn is running.
            UndoError: there is nothing to undo, or a file prevents it; nothing was changed.
        """
        self._check_not_running()
        if self._journal is None:
            raise UndoError(UNRECORDED)
        return undo(self._journal.where, turn, redo=redo, force=force, dry_run=dry_run)

    @property
    def remembered(self) -> tuple[Rule, ...]:
        """The approvals and refusals that the user gave "from now on", oldest first. See ``forget``."""
        remembered: tuple[Rule, ...] = getattr(self.state, "remembered", ())  # an engine may have states of its own
        return self._interpreter.driver.reveal(remembered)

    def forget(self, *patterns: str) -> None:
        """Remove approvals and refusals given "from now on": the rules with these patterns, or all of them.

        Applies to the running turn and its workers too; callable from any thread, as ``set_mode``.

        Raises:
            ConfigError: no remembered rule has such a pattern; nothing was removed.
        """
        self._check_open()
        known = [rule.tool for rule in self.remembered]
        unknown = [pattern for pattern in patterns if pattern not in known]
        if unknown:
            names = ", ".join(map(repr, dict.fromkeys(known))) or "nothing"
            raise ConfigError(f"{unknown[0]!r} is no rule that is remembered; there is {names}")
        self._interpreter.hand_in(ApprovalsForgotten(patterns))

    def _check_between_turns(self) -> None:
        """Check that no turn is open.

        Raises:
            BusyError: a turn is running.
            PendingError: a turn waits for answers, or was interrupted.
        """
        self._check_not_running()
        if self.unfinished:
            raise PendingError(
                "a turn is open; carry it on with resume_turn() or answer(), or give it up with cancel()"
            )

    def _compaction_result(self) -> Compacted | NotCompacted:
        done = self._interpreter.compacted
        if done is None:
            raise CogstepError("this engine makes no summaries: it decided nothing on CompactionAsked")
        return self._interpreter.driver.reveal(done)

    def _check_interrupted(self) -> None:
        """Check that a turn was interrupted.

        Raises:
            CogstepError: none was.
        """
        self._check_open()
        if not self.unfinished:
            raise CogstepError("no turn was interrupted; go on with run()")

    def _resolve_returns(self, returns: Any) -> Any:
        """Return the requested type of the open turn's answer: ``returns`` if given, otherwise the type passed to
        ``run``.

        Raises:
            ConfigError: the turn was started with another type.
        """
        if returns is NO_TYPE:
            return self._returns
        if schema_text(answer_type(returns).schema) != self.state.returns:
            raise ConfigError(f"the open turn was not asked for an answer of the type {show(returns)}")
        return returns

    def _turn(self, returns: Any) -> Turn:
        return Turn(objection=None if returns is NO_TYPE else objection_to(returns, self.config))

    def _result(self, began: int, returns: Any = NO_TYPE) -> RunResult:
        """Return the result of a run. ``began`` is the number of messages before the turn.

        Raises:
            CogstepError: the engine ended the turn without ``TurnFinished``.
        """
        finished, driver = self._interpreter.finished, self._interpreter.driver
        after = driver.state
        pending = self.pending if finished is None else ()
        self._returns = returns if pending else NO_TYPE
        if finished is None and not driver.in_flight:
            raise CogstepError("the engine ended the turn without TurnFinished; an engine has to decide it once a turn")
        outcome: Outcome | Suspended = Suspended(pending) if finished is None else finished.outcome
        usage = after.spent.usage if finished is None else finished.usage
        parts = (outcome, usage, driver.reveal(after.history[began:]), after.counters.turn)
        return RunResult(*parts) if returns is NO_TYPE else StructuredResult(*parts, returns)

    def _check_not_running(self) -> None:
        self._check_open()
        if self._interpreter.current_turn is not None:
            raise BusyError(BUSY)

    def _check_open(self) -> None:
        self._resting = False
        if self._closed:
            raise AgentClosedError("the agent is closed; make a new one")

    @contextmanager
    def _released_after_failure(self) -> Iterator[None]:
        """Release the journal of an agent that fails to start."""
        try:
            yield
        except BaseException:
            self._closed = True
            if self._journal is not None:
                self._journal.close()
            raise


@contextmanager
def close_quietly_after(error: BaseException | None) -> Iterator[None]:
    """Wrap the ``close`` at the end of a ``with`` block: after an error in the block, an error of ``close`` is only
    logged.
    """
    try:
        yield
    except CogstepError:
        if error is None:
            raise
        LOG.warning("while closing the agent after an error", exc_info=True)


def loop_runs_here() -> bool:
    """Whether an event loop runs on this thread. False in a notebook, whose loop serves nothing else."""
    running = sys.modules.get("asyncio.events")  # a program that never imported it has no loop
    return running is not None and running._get_running_loop() is not None and not hasattr(builtins, "__IPYTHON__")
