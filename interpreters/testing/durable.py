"""A durable engine in memory whose processes die at chosen moments, for testing agents that will run on a real engine.

    engine = MemoryEngine(kills=[7])
    ended = await engine.run(agent, "ada", UserSpoke("Pay the invoice."))

Each possible death of a process has a number: before and after each step's work, after the engine stores it, before and
after each line of a recording, and at each ``await engine.moment()`` in a tool of the test. At the numbers in ``kills``
all running work is lost, except the engine's data and the recordings. Then the run is executed again, as by another
process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from cognition import Input
from interpreters.durable.context import Meanwhile, Work
from interpreters.durable.definition import DurableAgent
from interpreters.durable.run import run_durably, run_worker
from interpreters.durable.serialization import RunOutcome, input_text
from interpreters.recording.journal import TakenOverError
from interpreters.recording.recorder import path_of


class Killed(asyncio.CancelledError):
    """The process is dead. It is a cancellation, so that no code catches it and continues."""


class MemoryEngine:
    """Executes runs until they have ended, and stores the data of a durable engine.

    Args:
        kills: the numbers of the moments at which a process dies, counted from 1 over all executions.
        loses: whether the recordings lose all lines not forced to the disk, at each death and after each run. This
            simulates a crash of their database machine; the engine's data are elsewhere.

    Attributes:
        moments: the number of moments so far.
        executions: the number of executions of runs.
        sessions: the lines of each session.
        payloads: the large texts of each session, by their SHA-256.
    """

    def __init__(self, kills: Iterable[int] = (), *, loses: bool = False) -> None:
        self.moments: int = 0
        self.executions: int = 0
        self.sessions: dict[str, list[bytes]] = {}
        self.payloads: dict[str, dict[str, bytes]] = {}
        self._kills = frozenset(kills)
        self._loses = loses
        self._forced: dict[str, int] = {}
        """For each session, the number of lines on the disk."""
        self._owners: dict[str, object] = {}
        self._kept: dict[str, dict[int, tuple[str, str]]] = {}
        self._runs = 0
        self._process = _Process(None)

    async def run(self, agent: DurableAgent, session: str, event: Input | None) -> RunOutcome:
        """Execute a run to its end, as often as needed.

        Raises:
            CogstepError: any error that ``run_durably`` raises.
        """
        self._runs += 1
        name, text = f"run-{self._runs}", input_text(event)
        while True:
            end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            process = self._process = _Process(end)
            self.executions += 1
            context = MemoryContext(self, process, agent, name)
            task = asyncio.ensure_future(run_durably(agent, session, text, context, process.taker(self)))
            waited: list[asyncio.Future[Any]] = [task, end]
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if not process.dead:
                ended = RunOutcome.read(await task)
                self._lose()
                return ended
            task.cancel()
            await asyncio.wait([task])
            self._lose()

    def _lose(self) -> None:
        if self._loses:
            for session, lines in self.sessions.items():
                del lines[self._forced.get(session, 0) :]

    async def moment(self) -> None:
        """Allow the process to die here; for tools and models of a test."""
        process = self._process
        self.pass_moment(process)
        await asyncio.sleep(0)
        self.pass_moment(process)

    def pass_moment(self, process: _Process) -> None:
        """Die at this moment if the test asks for it, or if the process is already dead."""
        self.moments += 1
        if self.moments in self._kills and not process.dead:
            process.dead = True
            if process.end is not None:
                process.end.set_result(None)
        if process.dead:
            raise Killed("the process was killed")

    def recorder(self, session: str) -> MemoryRecorder:
        """Return the recorder of a session, for readers and for agents that continue it elsewhere."""
        return MemoryRecorder(self, session, None)

    def steps_of(self, run: str) -> dict[int, tuple[str, str]]:
        """Return the name and text of each step of a run."""
        return self._kept.setdefault(run, {})


class _Process:
    """A process; its running work is lost when it dies."""

    def __init__(self, end: asyncio.Future[None] | None) -> None:
        self.dead = False
        self.end = end

    def taker(self, engine: MemoryEngine) -> Any:
        return lambda session: MemoryRecorder(engine, session, self)


class MemoryContext:
    """A ``DurableContext`` for one execution.

    Args:
        engine: stores the results.
        process: the process of this execution.
        agent: the definition, for workers.
        run: the run's name.
    """

    calls_meanwhile: Final = True
    is_leaving: Final = False

    def __init__(self, engine: MemoryEngine, process: _Process, agent: DurableAgent, run: str) -> None:
        self._engine = engine
        self._process = process
        self._agent = agent
        self._run = run
        self._calls = 0

    async def step(self, name: str, work: Work, *, alone: bool = False, meanwhile: Meanwhile | None = None) -> str:
        """See ``DurableContext.step``. It calls ``meanwhile`` before it stores every second text, and after it stores
        the others.
        """
        number, kept = self._next(name)
        if kept is not None:
            return kept
        text = kept = await work()
        if meanwhile is None or number % 2:
            kept = self._keep(number, name, text)
        if meanwhile is not None:
            instead = meanwhile()
            await asyncio.sleep(0.001)  # it may wait for a thread
            if number % 2 == 0:
                kept = self._keep(number, name, instead or text)
        return kept

    async def sleep(self, name: str, seconds: float) -> None:
        """See ``DurableContext.sleep``. No time passes."""
        number, kept = self._next(name)
        if kept is None:
            await asyncio.sleep(0)
            self._keep(number, name, str(seconds))

    async def child(self, name: str, session: str, task: str) -> str:
        number, kept = self._next(name)
        if kept is not None:
            return kept
        run = f"{self._run}/{number}"
        context = MemoryContext(self._engine, self._process, self._agent, run)
        text = await run_worker(self._agent, session, task, context, self._process.taker(self._engine))
        return self._keep(number, name, text)

    def _next(self, name: str) -> tuple[int, str | None]:
        self._calls += 1
        number = self._calls
        known = self._engine.steps_of(self._run).get(number)
        if known is not None and known[0] != name:
            raise AssertionError(f"call {number} of {self._run} was {known[0]!r}, and is {name!r} when executed again")
        self._engine.pass_moment(self._process)
        return number, None if known is None else known[1]

    def _keep(self, number: int, name: str, text: str) -> str:
        self._engine.pass_moment(self._process)
        self._engine.steps_of(self._run)[number] = name, text
        self._engine.pass_moment(self._process)
        return text


class MemoryRecorder:
    """A ``Recorder`` of a session; only the newest that has locked it may append.

    Args:
        engine: stores the lines.
        session: its name.
        process: may die during an append; None for a reader.
    """

    def __init__(self, engine: MemoryEngine, session: str, process: _Process | None) -> None:
        self._engine = engine
        self._session = session
        self._process = process

    @property
    def name(self) -> str:
        return self._session

    def lock(self, new: bool) -> bool:
        """Take the session over."""
        self._engine._owners[self._session] = self
        return True

    def append(self, number: int, line: bytes, force: bool) -> None:
        """See ``Recorder.append``.

        Raises:
            TakenOverError: another recorder has taken the session over.
        """
        self.append_with(number, line, {}, force)

    def append_with(self, number: int, line: bytes, payloads: Mapping[str, bytes], force: bool) -> None:
        self._pass_moment()
        if self._engine._owners.get(self._session) is not self:
            raise TakenOverError("another process has taken this session over", path=path_of(self))
        lines = self._engine.sessions.setdefault(self._session, [])
        lines[number:] = [line]
        if force:
            self._engine._forced[self._session] = number + 1
        self._engine.payloads.setdefault(self._session, {}).update(payloads)
        self._pass_moment()

    def payload(self, name: str) -> bytes | None:
        return self._engine.payloads.get(self._session, {}).get(name)

    def lines(self) -> Iterator[bytes]:
        yield from list(self._engine.sessions.get(self._session, ()))

    def close(self) -> None:
        if self._engine._owners.get(self._session) is self:
            del self._engine._owners[self._session]

    def _pass_moment(self) -> None:
        if self._process is not None:
            self._engine.pass_moment(self._process)
