"""The small door to all of it: an agent that keeps a conversation with a model and your tools."""

from __future__ import annotations

from functools import partial
from types import TracebackType
from typing import Any, NoReturn, TypeVar, overload

from cognition import Compacted, CompactionAsked, ConfigError, Input, NotCompacted, SessionReset
from interpreters.agents.answers import StructuredResult
from interpreters.agents.assembly import NO_TYPE, start_of_turn, user_input
from interpreters.agents.base import CLOSE_SECONDS, LOG, BaseAgent, closing_after, loop_runs_here
from interpreters.agents.results import RunResult
from interpreters.agents.streaming import TurnEvents
from interpreters.program.content import Content
from interpreters.program.owning import closed_with
from interpreters.sync import SyncInterpreter
from runtime.checking import checked_call

T = TypeVar("T")

HURRY = 0.5
"""How long it waits where Ctrl-C came meanwhile."""

IN_A_LOOP = (
    "Agent.run blocks the event loop that runs on this thread until the turn ends; in async code, use AsyncAgent"
)


class Agent(BaseAgent):
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
        model: what ``load_model`` gave, or a fake. It stays open when the agent is closed, for the next one;
            ``owns_model=True`` hands it over to this one.
        tools: functions decorated with ``@tool``.
        system: the system prompt, or a function that makes it anew for each message: it may take the deps, and the
            ``ToolContext`` that tools are given.
        given: see ``AgentOptions``; each has a default.

    Raises:
        ConfigError: the options contradict each other, or a feature misses what carries it out.
        JournalError: the recording can't begin.
    """

    _kind = SyncInterpreter
    _interpreter: SyncInterpreter
    _ended = False
    """All of ``close`` is done."""
    _warned = False
    """That ``run`` blocks an event loop is said once."""

    @overload
    def run(self, text: Content) -> RunResult: ...
    @overload
    def run(self, text: Content, *, returns: type[T]) -> StructuredResult[T]: ...
    @overload
    def run(self, text: Content, *, returns: Any) -> StructuredResult[Any]: ...
    def run(self, text: Content, *, returns: Any = NO_TYPE) -> RunResult:
        """Say something and wait for the end of the turn. What goes wrong in it is in the result's ``outcome``.

        Args:
            text: what the user says: a text, or a list of texts and images.
            returns: the type of the answer, which is then in ``result.value``: an attrs class, dataclass or TypedDict,
                or any other type that a tool's parameter may have. The model may call tools before it answers.

        Raises:
            ConfigError: JSON has no form for ``returns``, or ``text`` is no message.
            MediaError: the model doesn't take such images.
            SystemPromptError: the function that makes the system prompt failed.
            BusyError: another turn is under way.
            PendingError: the turn before waits for answers.
            AgentClosedError: after ``close()``.
            JournalWriteError: the recording can't go on.
        """
        event = user_input(text, returns)
        self._check_open()
        self._look_for_loop()
        self._interpreter.run(event, self._turn(returns))
        return self._result(self._interpreter.began, returns)

    def go_on(self, *, returns: Any = NO_TYPE) -> RunResult:
        """Carry the interrupted turn to its end; raises as ``run`` does, and CogstepError if there is none.

        Calls that were at work run again if their tool is read-only or idempotent. Of any other the model is told that
        it may have happened.

        Args:
            returns: the type that ``run`` was given, where another process was: no recording holds it.
        """
        began = self._interrupted_at()
        self._look_for_loop()
        returns = self._awaited(returns)
        self._interpreter.run(None, self._turn(returns))
        return self._result(began, returns)

    def stream(self, text: Content, *, returns: Any = NO_TYPE) -> TurnEvents:
        """Say something and read the turn's events as they come; takes and raises what ``run`` does.

            for event in agent.stream("Tell me a story."):
                if isinstance(event.value, events.TextDelta):
                    print(event.value.text, end="")

        The turn runs on a thread of its own, and so do ``approve`` and the like. A reader that is slow holds the model
        up. Leaving the loop early cancels the turn; ``with agent.stream(...) as events`` says when, and keeps
        ``events.result``.
        """
        self._check_open()
        return TurnEvents(
            self._interpreter,
            partial(self.run, text, returns=returns),
            lambda: self._result(self._interpreter.began, returns),
        )

    @checked_call
    def answer(self, effect_id: str, answer: Any, *, returns: Any = NO_TYPE) -> RunResult:
        """Hand in what the open turn waits for, and go on with it until it ends or waits again.

        Args:
            effect_id: of one of ``pending``.
            answer: to an ``AskApproval`` True, False or an ``Approval``; to an ``AskUser`` what ``ask`` returns; to a
                ``ReviewPlan`` True, False or a ``PlanAnswer``; to a ``CallTool`` the tool's result, or the exception
                that it failed with.
            returns: as for ``go_on``.

        Raises:
            CogstepError: nothing of this id is pending; and what ``run`` raises.
            BusyError: a turn is under way, such as that of another answer.
            ConfigError: it is no answer to that.
        """
        return self._hand_in(self._answering(effect_id, answer), returns)

    def _hand_in(self, event: Input, returns: Any = NO_TYPE) -> RunResult:
        self._look_for_loop()
        returns = self._awaited(returns)
        self._interpreter.run(event, self._turn(returns))
        return self._result(start_of_turn(self.state), returns)

    def _look_for_loop(self) -> None:
        if not self._warned and loop_runs_here():
            self._warned = True
            self._interpreter.observers.warn(IN_A_LOOP)

    def reset(self) -> None:
        """Forget the conversation. What the user allowed or refused "from now on" stays."""
        self._check_open()
        self._interpreter.run(SessionReset())

    def compact(self) -> Compacted | NotCompacted:
        """Have the model summarise the conversation so far; later requests show that in its place.

        Says what came of it. The messages stay in the history and in the recording. Where ``compact_at`` says so, it
        happens by itself.

        Raises:
            BusyError: a turn is under way.
            PendingError: a turn is open: it waits for answers, or was interrupted.
            AgentClosedError, JournalWriteError: as ``run``.
        """
        self._check_between_turns()
        self._look_for_loop()
        self._interpreter.run(CompactionAsked())
        return self._compacted()

    def close(self) -> None:
        """Stop what runs, end the recording, and close the model if ``owns_model`` says so. A second call does nothing.

        What waits for an answer stays pending on file (``resume``); any other turn under way is cancelled.

        Ctrl-C while it waits for tools ends it at once, and in order. A second call does what is left then.
        """
        if self._ended:
            return
        self._closed = True
        try:
            self._close()
        except Exception:  # such as a turn that can't be closed on file: it would fail again
            self._ended = True
            raise
        self._ended = True

    def _close(self) -> None:
        try:
            try:
                self._end_session(CLOSE_SECONDS)
            except KeyboardInterrupt:
                self._end_session(HURRY)
                raise
        finally:
            try:
                if self._journal is not None:
                    self._journal.close()
            finally:
                if closed_with(self.model, self._owns_model):
                    self.model.close()

    def _end_session(self, seconds: float) -> None:
        """Close the turn under way. To do it twice is to do it once."""
        left = 0 if self._resting else self._interpreter.close(seconds)  # what rests, may be resumed again
        if left:
            LOG.warning("%d tool calls still run after %g seconds and are left alone", left, seconds)

    def __enter__(self) -> Agent:
        return self

    async def __aenter__(self) -> NoReturn:
        raise ConfigError("an Agent is opened by `with`, and blocks; in an event loop, use AsyncAgent")

    async def __aexit__(self, *_: object) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with closing_after(error):
            self.close()
