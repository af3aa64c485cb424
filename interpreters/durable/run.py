"""The durable run: the same loop for all engines.

A run starts with one outer input (a message, an answer, a cancellation). It ends when only pending effects are in
flight. So a session that waits for a person uses no process and no place in a queue. The recovery of a long session is
as cheap as that of a short one. The recording is the truth about decisions; the engine stores the results of steps and
has a run executed until it has ended.

1. The first step takes the session over and replays its recording; it stores the number of lines.
2. Each execution replays these lines. Later lines are decisions of an earlier execution of this run: this one must
   decide the same, and their effects may have started.
3. New decisions are recorded before any of their effects start, and only by the owner of the session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from attrs import evolve, frozen

from cognition import CogstepError, Input
from interpreters.agents.resume import replay_into
from interpreters.agents.session_builder import Parts
from interpreters.durable._errors import DurableDivergedError
from interpreters.durable._interpreter import DurableInterpreter, RunClock, reserve_numbers
from interpreters.durable._verifying_writer import VerifyingWriter
from interpreters.durable.context import DurableContext
from interpreters.durable.definition import DurableAgent
from interpreters.durable.serialization import RunOutcome, StepResult, WorkerStart, input_text, read_input
from interpreters.loop.errors import PendingError
from interpreters.loop.program.pending import outlives_its_run
from interpreters.recording.journal import Journal, JournalReader, NotAJournalError, Record
from interpreters.recording.recorder import MayWait, Recorder
from interpreters.recording.redactor import Redactor
from interpreters.recording.replay import ReplayDivergedError, replay
from interpreters.tools.offloading import run_to_end

Result = TypeVar("Result")

Take = Callable[[str], Recorder]
"""Returns the recorder of a session by its name. Its ``lock`` takes the session over: any append of the previous owner
raises ``TakenOverError``.
"""


@frozen(eq=False)
class OpenedRun:
    recorder: Recorder
    parts: Parts
    journal: Journal
    redactor: Redactor
    records: tuple[Record, ...]


async def run_durably(
    agent: DurableAgent, session: str, event: str, context: DurableContext, take: Take, *, queued: bool = False
) -> str:
    """Execute a run of a session, for the first time or again; return an ``RunOutcome`` as JSON.

    Args:
        agent: the definition.
        session: its name in the store. A new session is created.
        event: the outer input as JSON, from ``serialization.input_text``.
        context: the engine.
        take: returns the session's recorder.
        queued: whether the engine keeps a message that comes while the turn waits for answers, and executes its run
            again later. Otherwise such a message is refused.

    Raises:
        PendingError: ``queued``, and the turn waits for answers. Nothing was stored or recorded.
        TakenOverError: another process now executes the run.
        DurableDivergedError: the agent's logic differs from that which started the session, or this run.
        JournalError: the recording can't be read or written.
    """
    return await _execute(agent, session, read_input(event), context, take, None, queued)


async def run_worker(agent: DurableAgent, session: str, task: str, context: DurableContext, take: Take) -> str:
    """``run_durably`` for a worker; ``task`` is an ``WorkerStart`` as JSON."""
    errand = WorkerStart.read(task)
    return await _execute(agent, session, errand.task, context, take, errand, False)


async def _execute(
    agent: DurableAgent,
    session: str,
    event: Input | None,
    context: DurableContext,
    take: Take,
    errand: WorkerStart | None,
    queued: bool,
) -> str:
    clock = RunClock(agent.given.get("clock"))
    too_early: list[PendingError] = []
    opened: list[tuple[OpenedRun, DurableInterpreter]] = []

    async def open_at(lines: int | None) -> tuple[OpenedRun, DurableInterpreter]:
        recorder = take(session)
        one = await _ask(recorder, partial(_open, agent, session, recorder, errand))
        try:
            opened[:] = [(one, _fold(one, lines or len(one.records) + 1, context, clock))]
        except BaseException:
            await _ask(recorder, one.journal.close)
            raise
        return opened[0]

    async def begin() -> str:
        one, interpreter = await open_at(None)
        try:
            given = event if event is None or errand is not None else agent.redactor().reveal(event)
            one.redactor.adopt(given)  # the sender, or the parent, has hidden it
            interpreter.check_waits(given)
            happened = await interpreter.prepare_input(given)
        except CogstepError as error:
            if queued and isinstance(error, PendingError):
                too_early.append(error)
                raise asyncio.CancelledError from error  # of a step that was cancelled, no engine stores anything
            happened = StepResult(clock.real.time(), error=agent.hide(f"{type(error).__name__}: {error}"))
        return evolve(happened, lines=len(one.records) + 1).text()

    try:
        beginning = StepResult.read(await context.step("begin", begin, alone=True))
        if beginning.error:
            return RunOutcome(beginning.at, error=beginning.error).text()
        one, interpreter = opened[0] if opened else await open_at(beginning.lines)
        reserve_numbers(one.redactor, input_text(beginning.event))
        return (await interpreter.carry(beginning)).text()
    except BaseException:
        if too_early:
            raise too_early[0] from None
        raise
    finally:
        for one, _ in opened:
            await _ask(one.recorder, one.journal.close)


async def _ask(recorder: Recorder, ask: Callable[[], Result]) -> Result:
    """Run a recorder's blocking call, on a thread if it may wait for a database: the loop serves other sessions."""
    return await run_to_end(ask) if isinstance(recorder, MayWait) else ask()


def _open(agent: DurableAgent, session: str, recorder: Recorder, errand: WorkerStart | None) -> OpenedRun:
    if not _exists(recorder):
        if errand is None:
            parts = agent.begin(session, recorder)
        else:
            redactor = agent.redactor()
            reserve_numbers(redactor, errand.text())
            parts = agent.begin_worker(session, recorder, errand.config, errand.state, redactor)
        records: tuple[Record, ...] = ()
    else:
        names = None if errand is None else tuple(tool.name for tool in errand.config.tools)
        parts, records = agent.reopen(recorder, names)
    journal = parts.journal
    assert journal is not None
    hidden = journal.redactor
    assert hidden is not None
    if errand is not None:  # it works beside its parent and other workers, and what it says goes to the parent
        hidden.set_number_suffix(session.rpartition("/")[2].replace(".", "x"))
    return OpenedRun(recorder, parts, journal, hidden, records)


def _exists(recorder: Recorder) -> bool:
    """Whether the session exists.

    Raises:
        JournalError: it can't be read; also if it has lines but no header, so that it can neither continue nor start.
    """
    try:
        with JournalReader(recorder):
            return True
    except NotAJournalError:
        if next(iter(recorder.lines()), None) is None:
            return False
    with JournalReader(recorder):  # another process may have begun it in this moment
        return True


def _fold(one: OpenedRun, lines: int, context: DurableContext, clock: RunClock) -> DurableInterpreter:
    """Return an interpreter in the state after the first ``lines`` lines; the later lines are ahead of it."""
    folded = one.records[: lines - 1]
    tools = one.parts.program.tools
    writer = VerifyingWriter(
        one.journal, len(folded), one.records[lines - 1 :], one.redactor, tools, context.calls_meanwhile
    )
    interpreter = DurableInterpreter(one.parts, writer, one.redactor, context, clock)
    try:
        replay_into(folded, interpreter.driver)
        effects: list[Any] = list(interpreter.driver.in_flight.values())
        writer.waiting = {effect.effect_id for effect in effects if outlives_its_run(effect, tools)}
    except ReplayDivergedError as error:
        # Of the newest record often nothing differs but a digest: the first one says what was changed.
        first = replay(one.recorder, engine=interpreter.driver.engine).divergence or error
        raise DurableDivergedError(
            f"other agent logic began the session; its version has to finish it, or fork it to go on: {first}"
        ) from error
    return interpreter
