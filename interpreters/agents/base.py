"""What ``Agent`` and ``AsyncAgent`` have in common: a session that is begun, resumed or forked, and asked about."""

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
    Rule,
)
from cognition.checking import nearest, shown
from cognition.features import Mode
from cognition.messages import schema_text
from cognition.routing import order_of
from cognition.shown import shown_name
from interpreters.agents.answers import answer_schema, objection_to
from interpreters.agents.assembly import NO_TYPE, Parts, assemble, start_of_turn, turn_result
from interpreters.agents.options import AgentOptions, ProgramOptions, as_help
from interpreters.agents.results import RunResult
from interpreters.agents.resuming import fork_parts, reopen, state_after, take_up
from interpreters.agents.standing import in_flight_of
from interpreters.loop.errors import AgentClosedError, BusyError, PendingError
from interpreters.loop.interpreter import BUSY, Interpreter
from interpreters.loop.letters import Turn
from interpreters.observing.observers import Observers
from interpreters.program.later import Postponable, waiting_under
from interpreters.program.program import read_answer
from interpreters.program.prompting import PromptFunction
from interpreters.recording.recorder import Where
from interpreters.tools.external import Usable
from interpreters.workspace.checkpoints import checkpoints_of
from interpreters.workspace.undoing import UNRECORDED, Restored, UndoError, undo, undo_after
from runtime.checking import checked_call
from runtime.constrained.nodes import Weakened
from runtime.protocol import ModelInfo, Runtime

Model = Annotated[Runtime, "a Runtime, such as load_model() gives"]

LOG = logging.getLogger("cogstep")

CLOSE_SECONDS = 5.0
"""How long ``close`` waits for tools that don't heed a cancellation."""


@frozen
class AgentInfo:
    """What an agent is made of."""

    session: str
    model: ModelInfo
    tools: tuple[str, ...]
    """The names of all that the model is offered, those of features too."""
    weakened: Mapping[str, tuple[Weakened, ...]]
    """For each tool whose calls are not held to all of its schema: what is left to the check after the call."""


class BaseAgent:
    """A session and its interpreter. How a turn is waited for is the subclass's matter."""

    _kind: ClassVar[type[Interpreter]]
    """The class of the interpreter."""
    _delivery: ClassVar[Mapping[str, Any]] = {}
    """How observers are reached, as options of ``Observers``."""
    _interpreter: Interpreter

    def __init_subclass__(cls) -> None:
        if cls.__doc__ and "Options:" not in cls.__doc__:  # what `help` shows; none under python -OO
            cls.__doc__ = f"{inspect.cleandoc(cls.__doc__)}\n\nOptions:\n{as_help(AgentOptions)}"

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
        """Go on with a recorded session in its own journal, also after a crash: see ``unfinished`` and ``go_on``.

        Args:
            path: the journal, a file or a ``Recorder``; no other session can write it meanwhile.
            model: may be another one than then.
            tools: those of the recording.
            system: makes the system prompt for each message from now on. None: it stays what it was last.
            given: how it is carried out from now on; see ``ProgramOptions``.

        Raises:
            JournalError: the journal can't be read or written, is damaged, or is being written.
            ForeignRecordingError: nothing shows that this user wrote it; ``fork`` can take its conversation over.
            ConfigError: the tools are not those of the recording.
            ReplayDivergedError: it was recorded by other agent logic.
        """
        agent, reopened = cls.__new__(cls), reopen(path, model, tools, given, system)
        agent._begin(reopened.parts)
        try:
            take_up(reopened.records, agent._interpreter.driver)
        except BaseException:
            agent._let_go()
            raise
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
        """A new session that begins where a recorded one stood after a turn, and leaves that one as it is.

        Args:
            path: the journal of the recorded session, a file or a ``Recorder``.
            model, tools, system: of the new one; without ``system`` the recorded one, as it was by then.
            turn: its number; None for the newest that has ended.
            foreign: whether the recording may be one that this user did not write. Of such a one only the conversation
                is taken over, and what is not given is as for a new session: its policy and limits don't count, nor
                what was approved "from now on".
            files: whether the files that its tools have changed since are put back too: see ``interpreters.undo``.
            given: see ``AgentOptions``; what is not given is as recorded. ``journal`` records the new session with its
                origin.

        Raises:
            ForeignRecordingError: nothing shows that this user wrote it, and ``foreign`` is not set.
            UndoError: the files can't be put back; nothing was changed.
            CogstepError: there is no such turn; and what the constructor raises.
        """
        if files:  # what stands in the way is told before anything is begun or changed
            turn = state_after(path, turn, foreign=foreign).turn
            undo_after(path, turn, dry_run=True)
        agent = cls.__new__(cls)
        agent._begin(fork_parts(path, model, tools, system, turn, foreign, given))
        if files and turn is not None:
            try:
                undo_after(path, turn)
            except BaseException:
                agent._let_go()
                raise
        return agent

    def _begin(self, parts: Parts) -> None:
        self.model = parts.program.model
        self.session = parts.program.session
        self.config = parts.config
        self._owns_model = parts.owns_model
        self._weakened = parts.weakened
        self._journal = parts.journal
        self._closed = False
        self._returns: Any = NO_TYPE
        """The type of the answer that the open turn waits to give."""
        self._resting = False
        """Taken up again, and not gone on with yet."""
        try:
            keeper = checkpoints_of(parts.journal, self.session)
            self._interpreter = self._kind(
                parts.engine,
                parts.program if keeper is None else evolve(parts.program, keeper=keeper),
                observers=Observers(
                    parts.observers,
                    self.session,
                    weakened=parts.weakened,
                    warnings=parts.warnings,
                    **self._delivery,
                ),
                recorder=parts.journal,
                state=parts.start,
                clock=parts.clock,
            )
            if keeper is not None:
                driver = self._interpreter.driver
                keeper.turn = lambda: driver.state.counters.turn
            if parts.start is not None:
                self._interpreter.driver.in_flight |= in_flight_of(parts.engine, parts.start)
                self._resting = self.unfinished
        except BaseException:
            self._let_go()
            raise

    def __del__(self) -> None:
        """Dropped without ``close``: recording and model are let go of at once, before any garbage is collected."""
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
        """Everything the agent knows now: an immutable value that may be kept and compared."""
        return self._interpreter.driver.state

    def describe(self) -> AgentInfo:
        """What the agent is made of. Works after ``close()`` too."""
        tools = tuple(tool.name for tool in self.config.offered)
        return AgentInfo(self.session, self.model.describe(), tools, self._weakened)

    @property
    def unfinished(self) -> bool:
        """Whether a turn of this session is open: a crash interrupted it, or it waits for answers.

        ``go_on`` carries it on, and asks again what is pending. ``run`` would cancel what a crash interrupted.
        """
        return bool(self._interpreter.driver.in_flight) and not self._summarising

    @property
    def _summarising(self) -> bool:
        """Whether a summary is written between two turns; what comes next gives up one that a crash interrupted."""
        phase = getattr(self.state, "phase", None)  # an engine may have states of its own
        return isinstance(phase, Compacting) and phase.attempt is None

    @property
    def pending(self) -> tuple[Postponable, ...]:
        """What waits for an answer, oldest first: approvals, questions, plans, calls of external tools.

        Empty while a turn is under way. See ``answer``.
        """
        return self._interpreter.driver.revealed(tuple(self._interpreter.waiting()))

    def _answering(self, effect_id: str, answer: object) -> Input:
        """The input that an answer to something pending means.

        Raises:
            CogstepError: nothing of this id is pending.
            BusyError: a turn is under way.
            ConfigError: it is no answer to that.
        """
        return read_answer(self._waiting_under(effect_id), answer, self._interpreter.program.tools)

    def _waiting_under(self, effect_id: str) -> Postponable:
        self._check_open()
        if self._interpreter.under_way is not None:  # what waits is not known before its end
            raise BusyError(BUSY)
        return waiting_under(effect_id, self._interpreter.waiting())

    def cancel(self, reason: str = "") -> bool:
        """Stop the turn under way, from any thread, a tool, an observer or a signal handler; False if there is none.

        A turn that waits for answers is given up.

        When this has returned True, nothing of the turn begins any more.
        """
        return self._interpreter.cancel(reason)

    @checked_call
    def set_mode(self, mode: Mode) -> None:
        """Let more or less happen without being asked: from now on, in the turn under way too, from any thread."""
        self._check_open()
        self._interpreter.hand_in(ModeChanged(mode))

    @checked_call
    def use_model(self, name: str) -> None:
        """Have another model answer from the next call on, in the turn under way too, from any thread.

        Args:
            name: one of ``models``, or empty for the agent's own.

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
        """The name of the model that is called first to answer, empty for the agent's own: the one that was chosen, and
        where none was that of ``routes``.
        """
        return order_of(self.state.model, self.config.routes, (), "answer")[0]

    @checked_call
    def undo(
        self, turn: int | None = None, *, redo: bool = False, force: bool = False, dry_run: bool = False
    ) -> Restored:
        """Put the files that this session's own tools have changed back: ``interpreters.undo`` of its recording.

        The model is not told. Its tools know: what it has read of these files counts no more.

        Raises:
            BusyError: a turn is under way.
            UndoError: there is nothing to undo, or a file stands in the way; nothing was changed.
        """
        self._check_open()
        if self._interpreter.under_way is not None:
            raise BusyError(BUSY)
        if self._journal is None:
            raise UndoError(UNRECORDED)
        return undo(self._journal.where, turn, redo=redo, force=force, dry_run=dry_run)

    @property
    def remembered(self) -> tuple[Rule, ...]:
        """What the user said "from now on", oldest first. See ``forget``."""
        remembered: tuple[Rule, ...] = getattr(self.state, "remembered", ())  # an engine may have states of its own
        return self._interpreter.driver.revealed(remembered)

    def forget(self, *patterns: str) -> None:
        """Take back what the user said "from now on", refusals too: the rules with these patterns, or all of them.

        As ``set_mode``: for the turn under way too and its workers, from any thread.

        Raises:
            ConfigError: no rule with such a pattern is remembered, and nothing was forgotten.
        """
        self._check_open()
        known = [rule.tool for rule in self.remembered]
        unknown = [pattern for pattern in patterns if pattern not in known]
        if unknown:
            names = ", ".join(map(repr, dict.fromkeys(known))) or "nothing"
            raise ConfigError(f"{unknown[0]!r} is no rule that is remembered; there is {names}")
        self._interpreter.hand_in(ApprovalsForgotten(patterns))

    def _check_between_turns(self) -> None:
        """See that no turn is open.

        Raises:
            BusyError: one is under way.
            PendingError: one waits for answers, or was interrupted.
        """
        self._check_open()
        if self._interpreter.under_way is not None:
            raise BusyError(BUSY)
        if self.unfinished:
            raise PendingError("a turn is open; carry it on with go_on() or answer(), or give it up with cancel()")

    def _compacted(self) -> Compacted | NotCompacted:
        """What came of the summary that was asked for.

        Raises:
            CogstepError: the engine makes none.
        """
        done = self._interpreter.compacted
        if done is None:
            raise CogstepError("this engine makes no summaries: it decided nothing on CompactionAsked")
        return self._interpreter.driver.revealed(done)

    def _interrupted_at(self) -> int:
        """Where in the history the turn began that a crash interrupted.

        Raises:
            CogstepError: none was.
        """
        self._check_open()
        if not self.unfinished:
            raise CogstepError("no turn was interrupted; go on with run()")
        return start_of_turn(self.state)

    def _awaited(self, returns: Any) -> Any:
        """The type of the answer that the open turn is to give: as given now, or to ``run``.

        Raises:
            ConfigError: the turn was begun for another type.
        """
        if returns is NO_TYPE:
            return self._returns
        if schema_text(answer_schema(returns)) != self.state.returns:
            raise ConfigError(f"the open turn was not asked for an answer of the type {shown(returns)}")
        return returns

    def _turn(self, returns: Any) -> Turn:
        """A run whose answer has to be of a type."""
        return Turn(objection=None if returns is NO_TYPE else objection_to(returns, self.config))

    def _result(self, began: int, returns: Any = NO_TYPE) -> RunResult:
        """What the turn gave that has just ended; ``began`` is how many messages there were before it."""
        finished = self._interpreter.finished
        pending = self.pending if finished is None else ()
        self._returns = returns if pending else NO_TYPE
        return turn_result(self._interpreter.driver, began, finished, pending, returns)

    def _check_open(self) -> None:
        self._resting = False
        if self._closed:
            raise AgentClosedError("the agent is closed; make a new one")

    def _let_go(self) -> None:
        """Nothing has begun: release the journal."""
        self._closed = True
        if self._journal is not None:
            self._journal.close()


@contextmanager
def closing_after(error: BaseException | None) -> Iterator[None]:
    """Around the ``close`` at the end of a ``with`` block: an error that left the block tells more than one of this."""
    try:
        yield
    except CogstepError:
        if error is None:
            raise
        LOG.warning("while closing the agent after an error", exc_info=True)


def loop_runs_here() -> bool:
    """Whether an event loop waits for this thread. Not so in a notebook, where nothing else is served by the loop."""
    running = sys.modules.get("asyncio.events")  # a program that never imported it has no loop
    return running is not None and running._get_running_loop() is not None and not hasattr(builtins, "__IPYTHON__")
