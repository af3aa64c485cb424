"""Performers: plain functions ``(effect, scope) -> input`` that carry out one kind of effect.

    def dry_run(effect: CallTool, scope: Scope) -> Input:
        return ToolReturned(effect.effect_id, f"would call {effect.call.name}")

    Agent(model, tools=[pay], performers={CallTool: dry_run})

``SYNC`` and ``ASYNC`` contain the default performers, by effect type. Interpreters decide only where a performer runs
and how they wait for its answer. So a program can replace a performer: to answer an effect in a test, to forward it to
another process, or to wrap the default in the step of a durable engine. Interpreters implement two effects themselves:
a worker is a session in itself, and a timer is a way to wait. A program may have performers for these too.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import nullcontext
from contextvars import copy_context
from functools import partial
from typing import Any, NoReturn

from attrs import define, evolve

from cognition import (
    ApprovalRefused,
    AskApproval,
    AskUser,
    CallModel,
    CallTool,
    CancelAsked,
    CogstepError,
    ConfigError,
    EffectId,
    HookReturned,
    Input,
    MemoryRecalled,
    ModelFailed,
    PlanReviewed,
    QuestionAnswered,
    Recall,
    ReviewPlan,
    RunHook,
    SpawnWorker,
    StartTimer,
    TimerFired,
    ToolFailed,
    ToolReturned,
    WorkerFailed,
    from_data,
    to_data,
)
from cognition.steps.decisions import ANSWERS, Effect
from interpreters.loop._reply_stream import BROKEN_OFF, ReplyStream
from interpreters.loop.mailbox_messages import NotBegun, ProgramFailure, Turn
from interpreters.loop.program.approvals import NOT_ASKED
from interpreters.loop.program.pending import LATER, Later, Postponable
from interpreters.loop.program.program import NEEDS_A_LOOP, Consulted, Program, consultation
from interpreters.loop.program.questions import chosen_options
from interpreters.loop.workers import IN_PART
from interpreters.observing.observers import Observers
from interpreters.tools.context import ToolContext
from interpreters.tools.external import ExternalTool
from interpreters.tools.failures import TaskWatch, describe, is_fault
from interpreters.tools.offloading import await_answer, run_in_thread
from interpreters.tools.tool import LEFT, MEANT, Tool, run_tool, run_tool_async
from runtime import MemoryStoreError
from runtime.async_adapter import start_async
from runtime.scheduling.owners import owned_by

HOOK_FAILED = "the hook failed"
CALL_UNKNOWN = (
    "the program ended while this call ran, and nobody knows whether it happened; look before you call it again"
)
WORK_UNKNOWN = f"the program ended while it worked; {IN_PART}"


@define(eq=False)
class Scope:
    """The arguments of a performer besides its effect."""

    program: Program
    """Model, tools, memory and functions of the program."""
    turn: Turn
    """The run that waits for the answer. No effect begins once ``turn.is_over()``."""
    observers: Observers
    reply: ReplyStream | None = None
    """For ``CallModel``: collects the model's output, and can be cancelled."""
    context: ToolContext[Any] | None = None
    """For ``CallTool``: context of the tool, which also signals cancellation."""
    elsewhere: Callable[[Callable[[], Any]], Any] | None = None
    """Calls a function on the session's own thread, and returns a future of its answer. None: call it directly."""
    notes: Any = nullcontext()
    """Lock of the memory: one user at a time, workers included."""
    room: Callable[[], Awaitable[object]] | None = None
    """Awaited after each piece of a reply; it stops the model while a reader is behind (backpressure)."""

    def is_over(self) -> bool:
        """Whether the session no longer waits for the effect: the turn is over, or the call took too long."""
        return self.turn.is_over() or (self.context is not None and self.context.cancelled)

    def begin(self, effect: Effect) -> None:
        """Note that an effect begins. Call it just before the beginning.

        Raises:
            NotBegun: the turn is over, and the effect must not begin.
        """
        if self.turn.is_over() or not self.turn.try_begin(effect.effect_id):
            raise NotBegun


Performer = Callable[[Any, Scope], Any]
"""Returns the input that answers the effect.

Alternatives are a ``concurrent.futures.Future`` of that input, under asyncio an awaitable, or ``LATER`` if the answer
is handed in after the run. None is allowed only if the session no longer waits for the effect.
"""

Performers = Mapping[type[Effect], Performer]

Answered = Input | Later | ProgramFailure


UNANSWERED: Mapping[type[Effect], Callable[[EffectId], Input]] = {
    CallModel: lambda effect_id: ModelFailed(effect_id, BROKEN_OFF),
    CallTool: lambda effect_id: ToolFailed(effect_id, LEFT),
    AskApproval: lambda effect_id: ApprovalRefused(effect_id, NOT_ASKED),
    AskUser: lambda _: CancelAsked(NOT_ASKED),
    ReviewPlan: lambda effect_id: PlanReviewed(effect_id, False, NOT_ASKED),
    Recall: MemoryRecalled,
    RunHook: lambda effect_id: HookReturned(effect_id, "refuse", HOOK_FAILED),
    SpawnWorker: lambda effect_id: WorkerFailed(effect_id, f"it was cancelled; {IN_PART}"),
    StartTimer: TimerFired,
}


def unanswered_input(effect: Effect) -> Input:
    """Return the input for an effect that could not be carried out. It fails closed: at most a refusal."""
    return UNANSWERED[type(effect)](effect.effect_id)


def settle(tools: Mapping[str, Tool[..., Any]], effect: Effect, waited: float) -> Effect | Input:
    """Settle an effect that a crash interrupted: return the effect to begin again, or the input that answers it.

    An effect on file without an answer may have been carried out completely, partly or not at all.

    - A read-only or idempotent tool runs again. Any other call counts as failed (at most once).
    - A call of an external tool continues to wait for its result.
    - A worker does not run again, since its own calls are unknown here.
    - A timer runs for the rest of its time, ``waited`` seconds less.
    - The model is asked again, and so is the program: approvals, questions, plans, hooks, notes. The process lost the
      question, and a second answer has the same effect as one.
    """
    match effect:
        case CallTool(effect_id=effect_id, call=call):
            tool = tools.get(call.name)
            repeatable = tool is not None and tool.spec.repeatable
            return effect if repeatable or isinstance(tool, ExternalTool) else ToolFailed(effect_id, CALL_UNKNOWN)
        case SpawnWorker(effect_id=effect_id):
            return WorkerFailed(effect_id, WORK_UNKNOWN)
        case StartTimer(seconds=seconds):
            return evolve(effect, seconds=min(max(seconds - waited, 0.0), seconds))
        case _:
            return effect


# ------------------------------------------------------------------------------------------------- the usual performers


def call_model(effect: CallModel, scope: Scope) -> Input | None:
    """Ask the model and show its output."""
    reply = scope.reply or _missing()
    scope.begin(effect)
    with reply.watch():
        with owned_by(scope.program.owner):
            generation = scope.program.runtime(effect.model).submit(effect.request)
        for output in reply.begin(generation):
            if reply.take(output):
                break
    return reply.answer()


async def call_model_async(effect: CallModel, scope: Scope) -> Input | None:
    """``call_model`` under asyncio, also for a model that blocks."""
    reply = scope.reply or _missing()
    scope.begin(effect)
    with reply.watch(asyncio.get_running_loop().call_later):
        with owned_by(scope.program.owner):
            generation = start_async(scope.program.runtime(effect.model), effect.request)
        async for output in reply.begin(generation):
            if reply.take(output):
                break
            if scope.room is not None and scope.observers:
                await scope.room()
    return reply.answer()


def call_tool(effect: CallTool, scope: Scope) -> Input | ProgramFailure:
    """Run the tool. Its errors become a result that the model can read."""
    context = scope.context or _missing()
    return _check_fault(run_tool(scope.program.tools[effect.call.name], effect, context), context, scope)


async def call_tool_async(effect: CallTool, scope: Scope) -> Input | ProgramFailure:
    """``call_tool`` under asyncio: an ``async def`` runs in the loop, others on a thread."""
    tool = scope.program.tools[effect.call.name]
    if tool.is_async:
        context = scope.context or _missing()
        return _check_fault(await run_tool_async(tool, effect, context), context, scope)
    return await run_in_thread(partial(call_tool, effect, scope))


def _check_fault(answer: Input, context: ToolContext[Any], scope: Scope) -> Input | ProgramFailure:
    """Return the result of a call, or a ``ProgramFailure`` for a tool's exception if ``raise_tool_errors`` is set."""
    answer, error = _drop_refused_pictures(answer, scope), context.error
    if error is None or not scope.program.raise_tool_errors or isinstance(error, MEANT):
        return answer
    return ProgramFailure(scope.turn, error)


def _drop_refused_pictures(answer: Input, scope: Scope) -> Input:
    """Return a result without the pictures that the model does not accept. Its text names them."""
    if not isinstance(answer, ToolReturned) or not answer.images:
        return answer
    model: Any = scope.program.model
    if model is None:  # on a handle's side; the host's, which has the model, looks at it too
        return answer
    media = model.describe().media
    return evolve(answer, images=tuple([image for image in answer.images if image.media_type in media]))


def ask_program(effect: Consulted, scope: Scope) -> Answered | Future[Answered]:
    """Ask the program for an approval, an answer, a verdict on a plan or a hook, or its notes. See
    ``interpreters.loop.program``.
    """
    asked = consultation(scope.program, effect, scope.turn.is_over)

    def begin() -> Any:
        scope.begin(effect)
        with scope.notes if isinstance(effect, Recall) else nullcontext():
            return asked.ask()

    try:
        answer = begin() if scope.elsewhere is None else scope.elsewhere(partial(copy_context().run, begin))
        if isinstance(answer, Future):
            return _in_future(answer, partial(_read, effect, scope, asked.read), partial(unanswered_input, effect))
        return _read(effect, scope, asked.read_at_once, answer)
    except Exception as error:
        return _report_failure(effect, scope, asked.what, error)


async def ask_program_async(effect: Consulted, scope: Scope) -> Answered:
    """``ask_program`` under asyncio: an ``async def`` runs in the loop, others on a thread."""
    asked = consultation(scope.program, effect, scope.turn.is_over)

    try:
        async with scope.notes if isinstance(effect, Recall) else nullcontext():
            return _read(effect, scope, asked.read, await await_answer(asked.ask, partial(_begin_by, scope, effect)))
    except Exception as error:
        return _report_failure(effect, scope, asked.what, error)


def _begin_by(scope: Scope, effect: Effect, call: Callable[[], Any]) -> Any:
    scope.begin(effect)
    return call()


def _read(effect: Effect, scope: Scope, read: Callable[[Any], Input], answer: Any) -> Answered:
    return _postpone(effect, scope) if answer is LATER and isinstance(effect, Postponable) else read(answer)


def _postpone(effect: Effect, scope: Scope) -> Answered:
    if scope.program.postpones:
        return LATER
    scope.observers.warn(f"a worker can't wait for an answer that comes later, so {type(effect).__name__} is refused")
    return unanswered_input(effect)


CONSULTED: tuple[type[Consulted], ...] = (AskApproval, AskUser, ReviewPlan, Recall, RunHook)
"""Effects that are carried out by asking the program."""

SYNC: Performers = {CallModel: call_model, CallTool: call_tool, **dict.fromkeys(CONSULTED, ask_program)}
ASYNC: Performers = {
    CallModel: call_model_async,
    CallTool: call_tool_async,
    **dict.fromkeys(CONSULTED, ask_program_async),
}


# ------------------------------------------------------------------------------------------------ for the interpreters


def sync_performers(program: Program) -> Performers:
    """Return the default performers, with the program's own checked and in place of some.

    A performer raises ``NotBegun`` if the turn was already over. It raises ``CogstepError`` for a fault of the
    embedding program, such as an answer that does not fit its effect.
    """
    return {**SYNC, **{kind: partial(_call_own, own) for kind, own in program.performers.items()}}


def async_performers(program: Program) -> Performers:
    """``sync_performers`` under asyncio: each is an ``async def``."""
    own: Performers = {kind: partial(_call_own_async, own) for kind, own in program.performers.items()}
    return {kind: partial(_perform_within_async, performer) for kind, performer in {**ASYNC, **own}.items()}


def perform_within(performer: Performer, effect: Effect, scope: Scope) -> Any:
    """Carry out an effect in the context of the session's observers, such as the current span."""
    with scope.observers.within(effect, scope.program.session):
        return performer(effect, scope)


def _perform_within_async(performer: Performer, effect: Effect, scope: Scope) -> Any:
    return performer(effect, scope) if not scope.observers.surrounding else _await_within(performer, effect, scope)


async def _await_within(performer: Performer, effect: Effect, scope: Scope) -> Any:
    with scope.observers.within(effect, scope.program.session):
        return await performer(effect, scope)


def _call_own(own: Performer, effect: Effect, scope: Scope) -> Answered | Future[Answered] | None:
    scope.begin(effect)
    try:
        answer = own(effect, scope)
    except BaseException as error:
        return _report_own_failure(effect, scope, error, is_fault)
    if isinstance(answer, Future):
        return _in_future(answer, partial(_check_own_answer, effect, scope), partial(unanswered_input, effect))
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()
        raise ConfigError(f"the performer of {type(effect).__name__} is an async function, {NEEDS_A_LOOP}")
    return _check_own_answer(effect, scope, answer)


async def _call_own_async(own: Performer, effect: Effect, scope: Scope) -> Answered | None:
    watch = TaskWatch()
    try:
        answer = await await_answer(partial(own, effect, scope), partial(_begin_by, scope, effect))
        return _check_own_answer(effect, scope, answer)
    except BaseException as error:
        return _report_own_failure(effect, scope, error, watch.is_fault)


def _report_own_failure(
    effect: Effect, scope: Scope, error: BaseException, is_its_fault: Callable[[BaseException], bool]
) -> Input:
    """Return the input for a failure of the program's own performer. A call's is a tool's: it doesn't end the session.

    Raises the error again if it is the embedding program's, or if nobody waits for the effect any more.
    """
    if not isinstance(error, Exception) and not (isinstance(effect, CallTool) and is_its_fault(error)):
        raise error
    if isinstance(error, CogstepError) or (isinstance(error, NotBegun) and scope.is_over()):
        raise error
    return _warn_unanswered(effect, scope, f"perform {type(effect).__name__}", error)


def _check_own_answer(effect: Effect, scope: Scope, answer: Any) -> Answered | None:
    """Return the result of a program's own performer, if it answers its effect.

    Raises:
        ConfigError: the result is not an answer to this effect.
    """
    if answer is LATER and isinstance(effect, Postponable):
        return _postpone(effect, scope)
    expected = ANSWERS[type(effect)]
    if answer is None and scope.is_over():
        return None
    if isinstance(effect, AskUser) and isinstance(answer, CancelAsked):  # the user will not answer
        return check_answer(effect, answer)
    if not isinstance(answer, expected) or answer.effect_id != effect.effect_id:
        names = " or ".join(kind.__name__ for kind in expected)
        raise ConfigError(
            f"the performer of {type(effect).__name__} has to return {names} with the effect id {effect.effect_id}, "
            f"not {answer!r}"
        )
    return _drop_refused_pictures(check_answer(effect, answer), scope)


def check_answer(effect: Effect, answer: Input) -> Input:
    """Return the answer as a recording would load it, since an engine trusts the types of its inputs.

    Raises:
        ConfigError: a field has the wrong type, or the answer does not fit the questions of its effect.
    """
    try:
        read: Input = from_data(to_data(answer), Input)
    except Exception as error:  # whatever comes of a field that holds a value of another type
        raise ConfigError(
            f"the performer of {type(effect).__name__} returned no {type(answer).__name__}: {error}"
        ) from error
    if isinstance(effect, AskUser) and isinstance(read, QuestionAnswered):
        chosen_options(effect.questions, read.answers)
    return read


def _report_failure(effect: Effect, scope: Scope, what: str, error: Exception) -> Input:
    """Return the input for a failure of what the program was asked. Raises a fault of the embedding program again.

    A memory's is the disk's trouble, not the program's mistake: as with any memory that raises.
    """
    if isinstance(error, CogstepError | NotBegun) and not isinstance(error, MemoryStoreError):
        raise error
    return _warn_unanswered(effect, scope, what, error)


def _warn_unanswered(effect: Effect, scope: Scope, what: str, error: BaseException) -> Input:
    scope.observers.warn(f"the program could not {what}: {describe(error)}")
    return unanswered_input(effect)


def _in_future(
    source: Future[Any], read: Callable[[Any], Answered | None], otherwise: Callable[[], Input]
) -> Future[Answered]:
    """Return a future of the input that another future's answer becomes. Cancelling it cancels the other future."""
    later: Future[Any] = Future()

    def settle(source: Future[Any]) -> None:
        if not later.set_running_or_notify_cancel():
            return
        error = CancelledError() if source.cancelled() else source.exception()
        if error is not None and not isinstance(error, CogstepError):  # of any kind: it was set, and interrupts nothing
            later.set_result(otherwise())
            return
        try:
            later.set_result(read(source.result()))
        except CogstepError as fault:
            later.set_exception(fault)
        except Exception:
            later.set_result(otherwise())

    later.add_done_callback(lambda given_up: given_up.cancelled() and source.cancel())
    source.add_done_callback(settle)
    return later


def _missing() -> NoReturn:
    raise ConfigError("this performer can be called by an interpreter only, with the scope that it was given")
