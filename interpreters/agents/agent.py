"""The main entry point: an agent that holds a conversation between a model, your tools and a user.

``stream`` runs a turn on a thread of its own, and sends its events to the reader through a bounded queue.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import Context, copy_context
from functools import partial
from queue import Empty, SimpleQueue
from threading import get_ident
from types import TracebackType
from typing import Any, Generic, NoReturn, Self, TypeVar, overload

from attrs import define, field

from cognition import (
    CogstepError,
    Compacted,
    CompactionAsked,
    ConfigError,
    Input,
    NotCompacted,
    SessionReset,
    UserSpoke,
)
from interpreters.agents._other_words import unknown_option
from interpreters.agents.base_agent import BEHIND, CLOSE_SECONDS, LOG, BaseAgent, close_quietly_after, loop_runs_here
from interpreters.agents.results import ResultT_co, RunResult
from interpreters.agents.session_builder import NO_TYPE, start_of_turn, user_input
from interpreters.agents.structured_answers import PartialAnswer, StructuredResult
from interpreters.loop.interpreter import Interpreter
from interpreters.loop.program.message_content import Content
from interpreters.loop.program.program import is_closed_with
from interpreters.loop.sync import SyncInterpreter
from interpreters.observing.events import Event, Inline
from runtime.checking import checked_call
from runtime.closeable import Closeable
from runtime.threads.pool import ThreadPool

T = TypeVar("T")

HURRY = 0.5
"""Seconds ``close`` waits for tools after Ctrl-C."""

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
        model: the result of ``load_model``, or a fake. It stays open when the agent closes, so that you can use it
            again; with ``owns_model=True`` the agent closes it.
        tools: functions decorated with ``@tool``.
        system: the system prompt, or a function that returns one for each message. The function may take the deps and
            the ``ToolContext`` that tools receive.
        given: see ``AgentOptions``; each option has a default.

    Raises:
        ConfigError: the options contradict each other, or a feature lacks the function or store it needs.
        JournalError: the recording can't be started.
    """

    _kind = SyncInterpreter
    _interpreter: SyncInterpreter
    _ended = False
    _warned = False
    """The warning that ``run`` blocks an event loop was sent; it is sent once."""

    @overload
    def run(self, text: Content) -> RunResult: ...
    @overload
    def run(self, text: Content, *, returns: type[T]) -> StructuredResult[T]: ...
    @overload
    def run(self, text: Content, *, returns: Any) -> StructuredResult[Any]: ...
    def run(self, text: Content, *, returns: Any = NO_TYPE, **unknown: Any) -> RunResult:
        """Send a user message and wait for the end of the turn.

        Failures of the turn itself do not raise: they are in the result's ``outcome``.

        Args:
            text: the message: a text, or a list of texts and images.
            returns: the type of the answer, read into ``result.value``: an attrs class, dataclass or TypedDict, or any
                other type that a tool's parameter may have. The model may call tools before it answers.

        Raises:
            ConfigError: ``returns`` has no JSON form, or ``text`` is not a message.
            MediaError: the model doesn't accept such images.
            SystemPromptError: the function that makes the system prompt failed.
            BusyError: another turn is running.
            PendingError: the previous turn waits for answers.
            AgentClosedError: after ``close()``.
            JournalWriteError: the recording can't be continued.
        """
        if unknown:
            raise unknown_option("Agent.run", unknown)
        if isinstance(text, str) and returns is NO_TYPE:
            event = UserSpoke(text)
        else:
            event = user_input(text, returns)
        self._check_open()
        self._check_for_loop()
        self._interpreter.run(event, self._turn(returns))
        return self._result(self._interpreter.began, returns)

    @overload
    def resume_turn(self) -> RunResult: ...
    @overload
    def resume_turn(self, *, returns: type[T]) -> StructuredResult[T]: ...
    @overload
    def resume_turn(self, *, returns: Any) -> StructuredResult[Any]: ...
    def resume_turn(self, *, returns: Any = NO_TYPE) -> RunResult:
        """Continue the interrupted turn to its end.

        Calls that were running are repeated if their tool is read-only or idempotent. For any other call the model is
        sent a note that it may have happened.

        Args:
            returns: the type passed to ``run``, if that happened in another process: the recording does not contain it.

        Raises:
            CogstepError: no turn was interrupted; also any error that ``run`` raises.
        """
        self._check_interrupted()
        return self._hand_in(None, returns)

    @overload
    def stream(self, text: Content) -> TurnEvents: ...
    @overload
    def stream(self, text: Content, *, returns: type[T]) -> TurnEvents[StructuredResult[T]]: ...
    @overload
    def stream(self, text: Content, *, returns: Any) -> TurnEvents[StructuredResult[Any]]: ...
    def stream(self, text: Content, *, returns: Any = NO_TYPE, **unknown: Any) -> TurnEvents:
        """Send a user message and iterate over the turn's events as they arrive; same arguments and errors as ``run``.

            for event in agent.stream("Tell me a story."):
                if isinstance(event.value, events.TextDelta):
                    print(event.value.text, end="")

        The turn runs on its own thread, and so do callbacks such as ``approve``. A slow reader delays the model.
        Leaving the loop early cancels the turn. ``with agent.stream(...) as events`` makes the time of that explicit
        and keeps ``events.result``.
        """
        if unknown:
            raise unknown_option("Agent.stream", unknown)
        self._check_open()
        run, given_up = partial(self.run, text, returns=returns), lambda: self._result(self._interpreter.began, returns)
        return TurnEvents(StreamedTurn(self._interpreter, run, given_up))

    @overload
    def answer(self, effect_id: str, answer: Any) -> RunResult: ...
    @overload
    def answer(self, effect_id: str, answer: Any, *, returns: type[T]) -> StructuredResult[T]: ...
    @overload
    def answer(self, effect_id: str, answer: Any, *, returns: Any) -> StructuredResult[Any]: ...
    @checked_call
    def answer(self, effect_id: str, answer: Any, *, returns: Any = NO_TYPE) -> RunResult:
        """Answer a pending effect of the open turn, and continue the turn until it ends or waits again.

        Args:
            effect_id: the id of an effect in ``pending``.
            answer: for an ``AskApproval`` True, False or an ``Approval``; for an ``AskUser`` the value ``ask`` would
                return; for a ``ReviewPlan`` True, False or a ``PlanAnswer``; for a ``CallTool`` the tool's result, or
                the exception it failed with.
            returns: as for ``resume_turn``.

        Raises:
            CogstepError: no pending effect has this id; also any error that ``run`` raises.
            BusyError: a turn is running, such as after another answer.
            ConfigError: the answer does not fit the effect.
        """
        return self._hand_in(self._answer_input(effect_id, answer), returns)

    def _hand_in(self, event: Input | None, returns: Any = NO_TYPE) -> RunResult:
        self._check_for_loop()
        returns = self._resolve_returns(returns)
        self._interpreter.run(event, self._turn(returns))
        return self._result(start_of_turn(self.state), returns)

    def _check_for_loop(self) -> None:
        if not self._warned and loop_runs_here():
            self._warned = True
            self._interpreter.observers.warn(IN_A_LOOP)

    def reset(self) -> None:
        """Forget the conversation. Approvals and refusals that the user gave "from now on" remain."""
        self._check_open()
        self._interpreter.run(SessionReset())

    def compact(self) -> Compacted | NotCompacted:
        """Have the model summarise the conversation so far; later requests contain the summary instead.

        The result reports success or the reason for failure. The messages stay in the history and in the recording.
        With ``compact_at``, this happens automatically.

        Raises:
            BusyError: a turn is running.
            PendingError: a turn is open: it waits for answers, or was interrupted. AgentClosedError, JournalWriteError:
                as ``run``.
        """
        self._check_between_turns()
        self._check_for_loop()
        self._interpreter.run(CompactionAsked())
        return self._compaction_result()

    def close(self) -> None:
        """Stop all running work, end the recording, and close the model if ``owns_model`` is true.

        A turn that waits for an answer stays pending in the recording (see ``resume``); any other running turn is
        cancelled. Ctrl-C while tools are awaited ends the wait after 0.5 seconds and still closes everything in order.
        A second call does only the steps that are left.
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
                if is_closed_with(self.model, self._owns_model):
                    self.model.close()

    def _end_session(self, seconds: float) -> None:
        left = 0 if self._resting else self._interpreter.close(seconds)  # what rests, may be resumed again
        if left:
            LOG.warning("%d tool calls still run after %g seconds and are left alone", left, seconds)

    def __enter__(self) -> Self:
        return self

    async def __aenter__(self) -> NoReturn:
        raise ConfigError("an Agent is opened by `with`, and blocks; in an event loop, use AsyncAgent")

    async def __aexit__(self, *_: object) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with close_quietly_after(error):
            self.close()


class TurnEvents(Iterator[Event], Closeable, Generic[ResultT_co]):
    """The events of a turn, and its result. The turn starts when the first event is requested.

    A slow reader delays the model. Stopping early cancels the turn and waits for its end: at the end of a ``with``
    block, at ``close()``, or when the loop over it is left and the last reference is gone.
    """

    def __init__(self, turn: StreamedTurn[ResultT_co]) -> None:
        self._turn = turn

    @property
    def result(self) -> ResultT_co:
        """The value ``run`` would have returned; available when the events have ended.

        Raises:
            CogstepError: the events have not ended yet; also any error that ``run`` would have raised.
        """
        if self._turn.error is not None:
            raise self._turn.error
        if self._turn.result is None:
            raise CogstepError("the turn has not ended yet; read its events to their end first")
        return self._turn.result

    def partials(self) -> Iterator[Any]:
        """Yield partial values of a structured answer instead of events: JSON data that grows, with a cut last string.

        Each reply restarts it. ``result.value`` is the complete, checked value.
        """
        answer = PartialAnswer()
        for event in self:
            yield from answer.take(event)

    def __next__(self) -> Event:
        event = self._turn.take()
        if event is not None:
            return event
        if self._turn.error is not None and not self._turn.left:
            raise self._turn.error
        raise StopIteration

    def close(self) -> None:
        """Cancel the turn if it has not ended, and wait for its end. A second call does nothing."""
        self._turn.abandon(CLOSE_SECONDS)

    def __del__(self) -> None:
        self._turn.abandon(CLOSE_SECONDS)


@define(eq=False)
class StreamedTurn(Generic[ResultT_co]):
    """The turn behind ``TurnEvents``. Its thread refers only to this object, so that the ``TurnEvents`` can be freed.

    It uses only queues and plain attributes: an interrupt in the reader's thread must not leave a lock held.
    """

    _interpreter: Interpreter
    _run: Callable[[], ResultT_co]
    _given_up: Callable[[], ResultT_co]
    """Returns the turn's result if the effects it waited for were cancelled since."""
    result: ResultT_co | None = None
    error: BaseException | None = None
    left: bool = False
    _events: SimpleQueue[Event | None] = field(factory=SimpleQueue)
    """The unread events; None marks the end."""
    _room: SimpleQueue[None] = field(factory=SimpleQueue)
    """An entry for each event that may still be added."""
    _ended: SimpleQueue[None] = field(factory=SimpleQueue)
    _context: Context = field(factory=copy_context)
    """The ``contextvars`` of the program where the stream was made."""
    _pool: ThreadPool | None = None
    _thread: int = 0
    _over: bool = False

    def __attrs_post_init__(self) -> None:
        for _ in range(BEHIND):
            self._room.put(None)

    def take(self) -> Event | None:
        """Return the next event; None at the end."""
        if self._over or self.left:
            return None
        if self._pool is None:
            self._pool = ThreadPool()
            self._pool.start(partial(self._context.run, self._drive))
        event = self._events.get()
        if event is None:
            self._over = True
        else:
            self._room.put(None)
        return event

    def abandon(self, seconds: float) -> None:
        """Cancel the turn if it has not ended, and wait for its end."""
        if self.left:
            return
        self.left = True
        if self._pool is not None and not self._over:
            stopped = self._interpreter.cancel("the stream was left")
            self._room.put(None)
            if self._thread != get_ident():  # else its own thread has dropped it
                with contextlib.suppress(Empty):
                    self._ended.get(timeout=seconds)
            if stopped and self.result is not None and self.result.pending:
                self.result = self._given_up()

    def _drive(self) -> None:
        self._thread = get_ident()
        observers, taker = self._interpreter.observers, Inline(self._add)
        observers.add(taker)
        try:
            self.result = self._run()
        except BaseException as error:  # raised where the events are read
            self.error = error
        finally:
            observers.remove(taker)
            self._events.put(None)
            self._ended.put(None)

    def _add(self, event: Event) -> None:
        if not self.left:
            self._room.get()
        if not self.left:
            self._events.put(event)
