"""What observers are told while a session runs: frozen values, in order, each tagged with where it belongs.

An observer is a callable that takes one event. Events are for showing and measuring; nothing depends on them, and they
are not recorded: what is recorded are the inputs and decisions.

Nobody waits for an observer: see ``delivery`` for what becomes of one that is slow. One that is to be called where the
session runs, at the very moment, is wrapped in ``Inline``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from attrs import frozen

from cognition import FinishReason, MalformedToolCall, Outcome, ProposedCall, ToolCall, Usage
from cognition.features import HookPoint, Mode, Plan, Question, Task, WorkerSpec
from cognition.messages import ResultStatus
from cognition.outcomes import ErrorKind, LimitKind
from cognition.requests import Purpose
from runtime.constrained.nodes import Weakened


@frozen(kw_only=True)
class Event:
    """Base of all events: where and when in the session it happened."""

    session: str
    turn: int
    """Counts the user's messages from 1; 0 before the first."""
    step: int
    """Counts the replies asked of the model in this turn, from 1."""
    attempt: int
    """Counts the tries at one reply, from 1."""
    sequence: int
    """Counts the events of a session from 1; an observer that sees a gap has missed something."""


@frozen(kw_only=True)
class ToolWeakened(Event):
    """Calls of a tool are not held to all of its schema: the rest is checked once a call was written.

    Told before the first turn of a session, or of one that goes on, once for each such tool.
    """

    tool: str
    keywords: tuple[Weakened, ...]
    """Each with its place in the schema, and why it is not held to."""


@frozen(kw_only=True)
class TurnStarted(Event):
    """The user said something."""

    text: str


@frozen(kw_only=True)
class StepStarted(Event):
    """The next reply of this turn is worked for, with as many tries as it takes."""


@frozen(kw_only=True)
class ModelCallStarted(Event):
    """The model is asked."""

    purpose: Purpose
    messages: int
    """Messages in the request."""


@frozen(kw_only=True)
class TextDelta(Event):
    """More of the reply's visible text."""

    text: str


@frozen(kw_only=True)
class ReasoningDelta(Event):
    """More of what the model thinks."""

    text: str


@frozen(kw_only=True)
class CallStarted(Event):
    """The model began to write a tool call."""

    index: int
    """Counts the calls of one reply from 0."""
    name: str


@frozen(kw_only=True)
class ArgumentText(Event):
    """More of a call's arguments as the model writes them; not checked yet."""

    index: int
    text: str


@frozen(kw_only=True)
class CallProposed(Event):
    """The model has written a whole call. Whether it runs is judged once the reply has ended."""

    index: int
    call: ProposedCall


@frozen(kw_only=True)
class CallMalformed(Event):
    """The model wrote a tool call that can't be read; it will be told."""

    index: int
    malformed: MalformedToolCall


@frozen(kw_only=True)
class ModelCallFinished(Event):
    """The reply has ended, for whatever reason."""

    finish_reason: FinishReason
    usage: Usage
    seconds: float
    """Wall time of the call."""


@frozen(kw_only=True)
class UsageUpdated(Event):
    """What the turn has taken so far, its workers included: after each reply and each worker."""

    used: Usage


@frozen(kw_only=True)
class ToolStarted(Event):
    """A tool runs."""

    call: ToolCall


@frozen(kw_only=True)
class ToolProgress(Event):
    """What a running tool says of itself through ``ToolContext.progress``."""

    call: ToolCall
    text: str


@frozen(kw_only=True)
class ToolFinished(Event):
    """A call has its one result, also one that never ran because it was refused, cancelled or over a limit."""

    call_id: str
    name: str
    status: ResultStatus
    content: str
    """The result, or what went wrong."""
    seconds: float
    """Wall time of the call; 0 for one that never ran."""


@frozen(kw_only=True)
class ApprovalAsked(Event):
    """A call waits for the user's approval."""

    call: ToolCall
    reason: str


@frozen(kw_only=True)
class ApprovalAnswered(Event):
    """The user let a call run, or did not."""

    call: ToolCall
    approved: bool
    reason: str
    always: bool
    """The answer holds for every later call of this tool too."""


@frozen(kw_only=True)
class QuestionsAsked(Event):
    """The model wants to know something of the user."""

    questions: tuple[Question, ...]


@frozen(kw_only=True)
class QuestionsAnswered(Event):
    """The user chose."""

    questions: tuple[Question, ...]
    answers: tuple[tuple[str, ...], ...]
    """The chosen options of each question."""


@frozen(kw_only=True)
class PlanProposed(Event):
    """The model made a plan, and the user is to judge it."""

    plan: Plan


@frozen(kw_only=True)
class PlanReviewed(Event):
    """The user approved a plan, or sent it back."""

    plan: Plan
    approved: bool
    feedback: str


@frozen(kw_only=True)
class PlanChanged(Event):
    """The plan under execution."""

    plan: Plan | None
    """None when there is none any more."""


@frozen(kw_only=True)
class TasksChanged(Event):
    """The agent's list of tasks, whole."""

    tasks: tuple[Task, ...]


@frozen(kw_only=True)
class HookStarted(Event):
    """The program is asked at a point of the turn."""

    point: HookPoint
    call: ToolCall | None
    """The call that the hook is about."""


@frozen(kw_only=True)
class HookFinished(Event):
    """The program answered."""

    point: HookPoint
    call: ToolCall | None
    verdict: Literal["continue", "refuse", "go_on"]
    reason: str
    seconds: float


@frozen(kw_only=True)
class MemorySearched(Event):
    """The notes are searched."""

    query: str


@frozen(kw_only=True)
class MemoryRecalled(Event):
    """What was found in the notes, best first."""

    query: str
    items: tuple[str, ...]
    seconds: float


@frozen(kw_only=True)
class NoteTaken(Event):
    """Something is to be remembered."""

    text: str


@frozen(kw_only=True)
class WorkerStarted(Event):
    """A worker begins. Its own events carry the session ``worker_session``."""

    worker: WorkerSpec
    worker_session: str


@frozen(kw_only=True)
class WorkerFinished(Event):
    """A worker has ended, for whatever reason."""

    name: str
    worker_session: str
    status: Literal["finished", "failed", "stalled", "cancelled"]
    text: str
    """The result, or what went wrong."""
    usage: Usage
    seconds: float


@frozen(kw_only=True)
class ModeChanged(Event):
    """More or less may happen without being asked, from now on."""

    mode: Mode


@frozen(kw_only=True)
class RetryPlanned(Event):
    """A model call failed and will be made again."""

    kind: ErrorKind
    message: str
    number: int
    """Of the attempt to come, from 2."""
    seconds: float


@frozen(kw_only=True)
class LimitHit(Event):
    """A budget is used up; the turn ends, perhaps after one last answer."""

    limit: LimitKind
    detail: str


@frozen(kw_only=True)
class ContextTrimmed(Event):
    """Old turns had to be left out of the request."""

    dropped: int
    """Messages of history that are not shown to the model, oldest first."""
    tokens: int
    budget: int


@frozen(kw_only=True)
class ContextCompacted(Event):
    """The model found a request too long; history was cut further than the estimate had, and it is asked again."""

    dropped: int
    tokens: int
    budget: int


@frozen(kw_only=True)
class WarningRaised(Event):
    """Something is not as it should be, and the session goes on."""

    message: str


@frozen(kw_only=True)
class TurnFinished(Event):
    """The turn is over; the last event of each turn."""

    outcome: Outcome
    usage: Usage


Observer = Callable[[Event], object]
"""What it returns is ignored; when it raises it is dropped, and the session goes on. For an ``AsyncAgent`` it may be an
``async def``."""


@frozen
class Inline:
    """An observer that is called where the session runs, on its thread or in its event loop, which waits for it.

    For what is quick and has to be in step with the session: a queue's ``put``, a terminal that holds the writer up, a
    test that cancels at a certain event. Also a decorator.
    """

    observer: Observer

    def __call__(self, event: Event) -> object:
        return self.observer(event)
