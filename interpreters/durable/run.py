"""The durable run: one loop for all engines.

A run goes from one outer input (a message, an answer, a cancellation) until nothing is in flight but what is pending;
then it ends. So a session that waits for a person costs no process and no place in a queue, and a long session's
recovery is no dearer than a short one's. The recording is the truth of what was decided; the engine keeps what steps
gave, and sees that a run is executed until it has ended.

1. The first step takes the session over and folds its recording; it keeps how many lines there were.
2. Any execution folds these lines. Those behind them are what an earlier execution of this run has decided: this one
   has to decide the same, and what they began may have happened.
3. What is decided anew is recorded, by the owner of the session only, before any of it begins.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from attrs import evolve, frozen

from cognition import CogstepError, Input
from interpreters.agents.assembly import Parts
from interpreters.agents.resuming import Reopened, take_up
from interpreters.durable.ahead import Ahead
from interpreters.durable.context import DurableContext
from interpreters.durable.definition import DurableAgent
from interpreters.durable.errors import DurableDivergedError
from interpreters.durable.interpreter import DurableInterpreter, RunClock
from interpreters.durable.texts import Ended, Errand, Happened, input_text, read_input
from interpreters.program.later import outlives_its_run
from interpreters.recording.journal import Journal, JournalReader, NotAJournalError, Record
from interpreters.recording.recorder import MayWait, Recorder
from interpreters.recording.replaying import ReplayDivergedError, replay
from interpreters.recording.veil import NUMBERED, Veil
from interpreters.threads.offloading import to_its_end

Result = TypeVar("Result")

Take = Callable[[str], Recorder]
"""Gives the recorder of a session by its name. Its ``lock`` takes the session over: whoever had it before can append
no more, and is told so by a ``TakenOverError``."""


@frozen(eq=False)
class Opened:
    """A session as one execution has taken it over."""

    recorder: Recorder
    parts: Parts
    journal: Journal
    veil: Veil
    records: tuple[Record, ...]

    @property
    def lines(self) -> int:
        return len(self.records) + 1


async def run_durably(agent: DurableAgent, session: str, event: str, context: DurableContext, take: Take) -> str:
    """Execute one run of a session, or execute it again; gives an ``Ended`` as JSON.

    Args:
        agent: the definition.
        session: its name in the store. One that is not there begins.
        event: the outer input as JSON, as ``texts.input_text`` gives it.
        context: the engine.
        take: gives the session's recorder.

    Raises:
        TakenOverError: another process executes the run by now.
        DurableDivergedError: the agent's logic is another than the one that began the session, or this run.
        JournalError: the recording can't be read or written.
    """
    return await _execute(agent, session, read_input(event), context, take, None)


async def run_worker(agent: DurableAgent, session: str, task: str, context: DurableContext, take: Take) -> str:
    """``run_durably`` of a worker; ``task`` is an ``Errand`` as JSON."""
    errand = Errand.read(task)
    return await _execute(agent, session, errand.task, context, take, errand)


async def _execute(
    agent: DurableAgent, session: str, event: Input | None, context: DurableContext, take: Take, errand: Errand | None
) -> str:
    clock = RunClock(agent.given.get("clock"))
    opened: list[tuple[Opened, DurableInterpreter]] = []

    async def open_at(lines: int | None) -> tuple[Opened, DurableInterpreter]:
        recorder = take(session)
        one = await _asked(recorder, partial(_opened, agent, session, recorder, errand))
        try:
            opened[:] = [(one, _folded(one, lines or one.lines, context, clock))]
        except BaseException:
            await _asked(recorder, one.journal.close)
            raise
        return opened[0]

    async def begin() -> str:
        one, interpreter = await open_at(None)
        try:
            given = event if event is None or errand is not None else agent.veil().reveal(event)
            one.veil.adopt(given)  # the sender, or the parent, has hidden it
            interpreter.check_waits(given)
            happened = await interpreter.said(given)
        except CogstepError as error:
            happened = Happened(clock.real.time(), error=agent.hidden(f"{type(error).__name__}: {error}"))
        return evolve(happened, lines=one.lines).text()

    try:
        beginning = Happened.read(await context.step("begin", begin, alone=True))
        if beginning.error:
            return Ended(beginning.at, error=beginning.error).text()
        one, interpreter = opened[0] if opened else await open_at(beginning.lines)
        one.veil.has_used(_numbers(beginning))
        ended = await interpreter.carry(beginning)
        return ended.text()
    finally:
        for one, _ in opened:
            await _asked(one.recorder, one.journal.close)


async def _asked(recorder: Recorder, ask: Callable[[], Result]) -> Result:
    """What a recorder is asked for a run's beginning and end: on a thread where it may wait for a database, since the
    loop has other sessions.
    """
    return await to_its_end(ask) if isinstance(recorder, MayWait) else ask()


def _numbers(happened: Happened) -> int:
    return max(map(int, NUMBERED.findall(input_text(happened.event).encode())), default=0)


def _opened(agent: DurableAgent, session: str, recorder: Recorder, errand: Errand | None) -> Opened:
    """Take the session over, or begin it."""
    if not _is_there(recorder):
        if errand is None:
            parts = agent.begin(session, recorder)
        else:
            veil = agent.veil()
            veil.has_used(max(map(int, NUMBERED.findall(errand.text().encode())), default=0))
            parts = agent.begin_worker(session, recorder, errand.config, errand.state, veil)
        records: tuple[Record, ...] = ()
    else:
        names = None if errand is None else tuple(tool.name for tool in errand.config.tools)
        reopened: Reopened = agent.reopen(recorder, names)
        parts, records = reopened.parts, reopened.records
    journal = parts.journal
    assert journal is not None
    hidden = journal.veil
    assert hidden is not None
    if errand is not None:  # it works beside its parent and other workers, and what it says goes to the parent
        hidden.number_beside(session.rpartition("/")[2].replace(".", "x"))
    return Opened(recorder, parts, journal, hidden, records)


def _is_there(recorder: Recorder) -> bool:
    """Whether the session has begun.

    Raises:
        JournalError: it can't be read; also where it has lines and no header, so that it can neither go on nor begin.
    """
    try:
        with JournalReader(recorder):
            return True
    except NotAJournalError:
        if next(iter(recorder.lines()), None) is None:
            return False
    with JournalReader(recorder):  # another process may have begun it in this moment
        return True


def _folded(one: Opened, lines: int, context: DurableContext, clock: RunClock) -> DurableInterpreter:
    """An interpreter that stands behind a number of lines; those after them lie ahead of it."""
    folded = one.records[: lines - 1]
    tools = one.parts.program.tools
    writer = Ahead(one.journal, len(folded), one.records[lines - 1 :], one.veil, tools, context.calls_meanwhile)
    interpreter = DurableInterpreter(one.parts, writer, one.veil, context, clock)
    try:
        take_up(folded, interpreter.driver)
        effects: list[Any] = list(interpreter.driver.in_flight.values())
        writer.waiting = {effect.effect_id for effect in effects if outlives_its_run(effect, tools)}
    except ReplayDivergedError as error:
        # Of the newest record often nothing differs but a digest: the first one says what was changed.
        first = replay(one.recorder, engine=interpreter.driver.engine).divergence or error
        raise DurableDivergedError(
            f"other agent logic began the session; its version has to finish it, or fork it to go on: {first}"
        ) from error
    return interpreter
