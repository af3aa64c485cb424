"""The activities of sessions on Temporal: each carries out an effect of a session whose engine is in the workflow."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from functools import partial
from random import SystemRandom
from typing import Any, Final

from attrs import evolve
from temporalio import activity
from temporalio.exceptions import ApplicationError

from cognition import CallTool, ConfigError, Decision, ToolFailed, from_data
from interpreters.agents.options import AgentOptions
from interpreters.agents.session_builder import assemble
from interpreters.durable._interpreter import DurableInterpreter, RunClock
from interpreters.durable._verifying_writer import VerifyingWriter
from interpreters.durable.definition import DurableAgent
from interpreters.durable.serialization import StepResult, read_input
from interpreters.durable.temporal._serialization import TAKES, fits
from interpreters.loop.mailbox_messages import Turn
from interpreters.recording.redactor import Redactor
from runtime.errors import MediaError

LOG = logging.getLogger("cogstep")

HEARTBEAT: Final = timedelta(seconds=15)
"""An activity without a heartbeat for this time counts as dead.

The SDK sends a heartbeat after at most four fifths of it. An activity learns of its cancellation only from the reply.
"""

KNOWN: Final = 1000
"""Maximum number of sessions whose secrets a process remembers."""

NUMBERS: Final = (10**15, 10**17)
"""The range of each process's random first placeholder number.

Two processes that work at a session must not use a number for two secrets, and don't learn of each other's numbers in
time. A client's own numbers begin at 1.
"""

CHANCE: Final = SystemRandom()


class Performer(DurableInterpreter):
    """Carries out an effect of a session whose engine runs elsewhere.

    Args:
        agent: its definition.
        session: its name.
        redactor: the process's redactor for this session.
        worker: whether it is a worker's session.
    """

    def __init__(self, agent: DurableAgent, session: str, redactor: Redactor, worker: bool) -> None:
        given: AgentOptions = {**agent.given, "session": session}
        parts = assemble(agent.model, agent.tools, agent.system, given)
        if worker:
            parts = evolve(parts, program=parts.program.for_worker(session, tuple(parts.program.tools)))
        parts = evolve(parts, program=evolve(parts.program, reveal=redactor.reveal))
        nowhere: Any = None  # nothing is recorded here, and no step of an engine is begun
        writer, clock = VerifyingWriter(nowhere, 0, (), redactor), RunClock(agent.given.get("clock"))
        super().__init__(parts, writer, redactor, nowhere, clock)
        self._named = redactor if worker else agent.redactor()
        """Reveals inputs. Placeholders of a client are known by name only; those of a worker's parent if this process
        knows them.
        """

    async def hear(self, text: str) -> str:
        """Return an outer input in the engine's form, or with an error if it can't be accepted.

        Other failures, such as of the function for the prompt, are raised, so that Temporal retries.
        """
        return await self._within(self._prepare(text))

    async def perform(self, text: str, again: bool) -> str:
        """Return the result of an effect; ``again``: it may have happened already."""
        effect: Any = self._redactor.reveal(from_data(json.loads(text), Decision))
        done = await self._within(self._carry_out_in_step(effect, again, ()))
        if fits(done):
            return done
        large = f"it was done, but what came of it is lost: it has {len(done):,} bytes, and {TAKES}"
        if isinstance(effect, CallTool):
            return StepResult(self._stamp(), ToolFailed(effect.effect_id, large)).text()
        return StepResult(self._stamp(), error=large).text()

    async def save(self, text: str) -> str:
        note, memory = self._redactor.reveal(from_data(json.loads(text), Decision)), self.program.memory
        return "{}" if memory is None else await self._within(self._save_note(partial(memory.remember, note.text)))

    async def _prepare(self, text: str) -> str:
        try:
            event = self._named.reveal(read_input(text))
            self._redactor.adopt(event)  # the sender has hidden it
            heard = (await self.prepare_input(event)).text()
        except MediaError as error:
            return StepResult(self._stamp(), error=self._hide(f"{type(error).__name__}: {error}")).text()
        if fits(heard):
            return heard
        return StepResult(self._stamp(), error=f"an input has {len(heard):,} bytes, and {TAKES}").text()

    async def _within(self, work: Coroutine[Any, Any, str]) -> str:
        self._turn = Turn()
        try:
            return await work
        finally:
            await self._abandon_run()


def activities(*agents: DurableAgent) -> list[Callable[..., Any]]:
    """Return the activities of these agents, for a ``Worker``. Secrets are known only to the process that has seen
    them.

    Raises:
        ConfigError: two of them have the same name.
    """
    named, redactors = {agent.name: agent for agent in agents}, dict[str, Redactor]()
    if len(named) < len(agents):
        raise ConfigError("two of the agents have the same name, by which a session knows its own")

    async def run_activity(
        agent: str, session: str, text: str, worker: bool, work: Callable[[Performer], Awaitable[str]]
    ) -> str:
        if agent not in named:
            raise ApplicationError(f"this process has no agent {agent!r}")
        own = session.rpartition("/")[0] if worker else session
        redactor = redactors.pop(own, None) or _number_apart(named[agent].redactor())
        redactors[own] = redactor  # the newest one stands last
        if len(redactors) > KNOWN:
            del redactors[next(iter(redactors))]
        beating = asyncio.create_task(_beat())
        try:
            return await work(Performer(named[agent], session, redactor, worker))
        except Exception as error:
            LOG.error("an activity failed, and is attempted again", exc_info=error)
            said = named[agent].hide(f"{type(error).__name__}: {error}")
            raise ApplicationError(said, type=type(error).__name__) from None  # the server keeps what is raised
        finally:
            beating.cancel()

    @activity.defn(name="cogstep.hear")
    async def hear(agent: str, session: str, text: str, worker: bool = False) -> str:
        return await run_activity(agent, session, text, worker, lambda one: one.hear(text))

    @activity.defn(name="cogstep.perform")
    async def perform(agent: str, session: str, text: str, worker: bool = False) -> str:
        again = activity.info().attempt > 1
        return await run_activity(agent, session, text, worker, lambda one: one.perform(text, again))

    @activity.defn(name="cogstep.remember")
    async def remember(agent: str, session: str, text: str, worker: bool = False) -> str:
        return await run_activity(agent, session, text, worker, lambda one: one.save(text))

    return [hear, perform, remember]


def _number_apart(redactor: Redactor) -> Redactor:
    redactor.reserve_numbers(CHANCE.randrange(*NUMBERS))
    return redactor


async def _beat() -> None:
    while True:
        activity.heartbeat()
        await asyncio.sleep(HEARTBEAT.total_seconds() / 3)
