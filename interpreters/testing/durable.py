"""A durable engine in memory, whose processes die where a test wants it: for agents that are to run on a real one.

    engine = MemoryEngine(kills=[7])
    ended = await engine.run(agent, "ada", UserSpoke("Pay the invoice."))

Every place where a process may die has a number: before and behind each step's work, behind the record of it, before
and behind each line of a recording, and wherever a tool of the test says ``await engine.moment()``. At the numbers in
``kills`` everything that runs is lost, apart from what the engine has kept and what stands on file; then the run is
executed again, as another process would do it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from cognition import Input
from interpreters.durable.context import Meanwhile, Work
from interpreters.durable.definition import DurableAgent
from interpreters.durable.run import run_durably, run_worker
from interpreters.durable.texts import Ended, input_text
from interpreters.recording.journal import TakenOverError
from interpreters.recording.recorder import path_of


class Killed(asyncio.CancelledError):
    """The process is dead. A cancellation, since nobody may catch it to go on."""


class MemoryEngine:
    """Executes runs until they have ended, and keeps what a durable engine keeps.

    Args:
        kills: the numbers of the moments at which a process dies, counted from 1 over all executions.
        loses: whether with it, and after each run, the recordings lose the lines that were not forced to the disk, as
            when the machine of their database breaks down; what the engine keeps is elsewhere.

    Attributes:
        moments: how many there were so far.
        executions: how often a run was executed.
        sessions: the lines of each session.
        payloads: the large texts of each session, by their SHA-256.
    """

    def __init__(self, kills: Iterable[int] = (), *, loses: bool = False) -> None:
        self.moments = 0
        self.executions = 0
        self.sessions: dict[str, list[bytes]] = {}
        self.payloads: dict[str, dict[str, bytes]] = {}
        self._kills = frozenset(kills)
        self._loses = loses
        self._forced: dict[str, int] = {}
        """Of each session, how many lines are on the disk."""
        self._owners: dict[str, object] = {}
        self._kept: dict[str, dict[int, tuple[str, str]]] = {}
        self._runs = 0
        self._process = _Process(None)

    async def run(self, agent: DurableAgent, session: str, event: Input | None) -> Ended:
        """Execute one run to its end, as often as that takes.

        Raises:
            CogstepError: what ``run_durably`` raises.
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
                ended = Ended.read(await task)
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
        """A moment at which the process may die: for tools and models of a test."""
        process = self._process
        self.pass_moment(process)
        await asyncio.sleep(0)
        self.pass_moment(process)

    def pass_moment(self, process: _Process) -> None:
        """Die here, if a test wants it, or go on being dead."""
        self.moments += 1
        if self.moments in self._kills and not process.dead:
            process.dead = True
            if process.end is not None:
                process.end.set_result(None)
        if process.dead:
            raise Killed("the process was killed")

    def recorder(self, session: str) -> MemoryRecorder:
        """The recorder of a session: for readers, and for agents that go on with it elsewhere."""
        return MemoryRecorder(self, session, None)

    def kept(self, run: str) -> dict[int, tuple[str, str]]:
        """Name and text of each step of a run."""
        return self._kept.setdefault(run, {})


class _Process:
    """One process: what runs in it is lost when it dies."""

    def __init__(self, end: asyncio.Future[None] | None) -> None:
        self.dead = False
        self.end = end

    def taker(self, engine: MemoryEngine) -> Any:
        return lambda session: MemoryRecorder(engine, session, self)


class MemoryContext:
    """A ``DurableContext`` of one execution.

    Args:
        engine: keeps what is kept.
        process: in which it runs.
        agent: the definition, for workers.
        run: the run's name.
    """

    calls_meanwhile: Final = True

    def __init__(self, engine: MemoryEngine, process: _Process, agent: DurableAgent, run: str) -> None:
        self._engine = engine
        self._process = process
        self._agent = agent
        self._run = run
        self._calls = 0

    async def step(self, name: str, work: Work, *, alone: bool = False, meanwhile: Meanwhile | None = None) -> str:
        """See ``DurableContext.step``. What is done meanwhile is done before every second text is kept, and behind the
        others.
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
        """See ``DurableContext.child``."""
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
        known = self._engine.kept(self._run).get(number)
        if known is not None and known[0] != name:
            raise AssertionError(f"call {number} of {self._run} was {known[0]!r}, and is {name!r} when executed again")
        self._engine.pass_moment(self._process)
        return number, None if known is None else known[1]

    def _keep(self, number: int, name: str, text: str) -> str:
        self._engine.pass_moment(self._process)
        self._engine.kept(self._run)[number] = name, text
        self._engine.pass_moment(self._process)
        return text


class MemoryRecorder:
    """A ``Recorder`` of one session; the newest that has locked it is the one that may append.

    Args:
        engine: keeps the lines.
        session: its name.
        process: which may die while it appends; None for a reader.
    """

    def __init__(self, engine: MemoryEngine, session: str, process: _Process | None) -> None:
        self._engine = engine
        self._session = session
        self._process = process

    @property
    def name(self) -> str:
        """The session's."""
        return self._session

    def lock(self, new: bool) -> bool:
        """Take the session over."""
        self._engine._owners[self._session] = self
        return True

    def append(self, number: int, line: bytes, force: bool) -> None:
        """See ``Recorder.append``.

        Raises:
            TakenOverError: another one has taken the session over.
        """
        self.append_with(number, line, {}, force)

    def append_with(self, number: int, line: bytes, payloads: Mapping[str, bytes], force: bool) -> None:
        """See ``KeepsPayloads.append_with``; raises as ``append``."""
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
        """See ``KeepsPayloads.payload``."""
        return self._engine.payloads.get(self._session, {}).get(name)

    def lines(self) -> Iterator[bytes]:
        """See ``Recorder.lines``."""
        yield from list(self._engine.sessions.get(self._session, ()))

    def close(self) -> None:
        """See ``Recorder.close``."""
        if self._engine._owners.get(self._session) is self:
            del self._engine._owners[self._session]

    def _pass_moment(self) -> None:
        if self._process is not None:
            self._engine.pass_moment(self._process)
