"""Sessions on Temporal: a workflow that is the core, and activities that carry its decisions out. Needs the extra
``temporal``, and a Temporal server.

    worker = Worker(client, task_queue="cogstep", workflows=[SessionWorkflow], activities=activities(agent))
    await client.start_workflow(SessionWorkflow.run, beginning(agent), id="ada", task_queue="cogstep",
                                start_signal="put", start_signal_args=[message("Pay the invoice.")])

Here the session's history on the server is its recording. The workflow takes inputs as signals, steps the engine, has
an activity carry out each effect, and takes the answers in the order of decisions. All of it is a function of the
history: ``temporalio.worker.Replayer`` says where other agent logic would have decided otherwise, since the id of each
activity holds a digest of what was decided.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from functools import partial
from hashlib import blake2b
from typing import Any, Final

from attrs import evolve, frozen
from temporalio import activity, workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError, ChildWorkflowError

from cognition import (
    AgentConfig,
    AgentState,
    CancelAsked,
    CancelEffect,
    CognitiveEngine,
    CogstepError,
    Decision,
    EffectId,
    LLMEngine,
    Remember,
    SpawnWorker,
    StartTimer,
    TimerFired,
    TurnFinished,
    UserSpoke,
    WorkerFailed,
    from_data,
    to_data,
)
from cognition.decisions import EFFECT_TYPES, Effect
from cognition.phases import Closed, Idle
from interpreters.agents.assembly import assemble, user_input
from interpreters.agents.options import AgentOptions
from interpreters.durable.ahead import Ahead
from interpreters.durable.definition import DurableAgent
from interpreters.durable.interpreter import DurableInterpreter, RunClock
from interpreters.durable.texts import Ended, Happened, input_text, read_input, written
from interpreters.loop.letters import Turn
from interpreters.loop.spawning import make_worker, worker_answer
from interpreters.program.content import Content
from interpreters.program.later import Postponable
from interpreters.program.program import Program, read_answer
from interpreters.recording.veil import NUMBERED, Veil

HEARTBEAT: Final = timedelta(seconds=30)
"""After so long without a sign of life an activity's process is taken to be dead."""

LONGEST: Final = timedelta(days=1)
"""How long an activity may take: a tool with a ``timeout`` ends by itself."""

LOG = logging.getLogger("cogstep")

AGAIN: Final = RetryPolicy(initial_interval=timedelta(milliseconds=100), maximum_interval=timedelta(seconds=10))
"""An activity whose process died is attempted again; the second attempt knows that the effect may have happened."""


NOBODY: Final = EffectId("")

KNOWN: Final = 1000
"""Sessions whose secrets a process remembers at most."""


@frozen
class Beginning:
    """What a session's workflow begins with, or goes on with."""

    agent: str
    config: AgentConfig
    state: AgentState
    waiting: tuple[str, ...] = ()
    """Inputs that came and were not taken yet, as JSON."""
    task: str = ""
    """Of a worker: its only message, as JSON."""

    def text(self) -> str:
        """As JSON."""
        data = {"agent": self.agent, "config": to_data(self.config), "state": to_data(self.state), "task": self.task}
        return written(data | {"waiting": list(self.waiting)})

    @classmethod
    def read(cls, text: str) -> Beginning:
        """From JSON."""
        data = json.loads(text)
        config, state = from_data(data["config"], AgentConfig), from_data(data["state"], AgentState)
        return cls(data["agent"], config, state, tuple(data["waiting"]), data["task"])


def beginning(agent: DurableAgent) -> str:
    """What the workflow of a new session is started with."""
    parts = assemble(agent.model, agent.tools, agent.system, agent.given)
    return Beginning(agent.name, parts.config, parts.start or AgentState()).text()


def message(content: Content) -> str:
    """What the user says, for the signal ``put``."""
    return input_text(user_input(content))


def reply(agent: DurableAgent, effect: Postponable, answer: Any) -> str:
    """An answer to what a session waits for, for the signal ``put``; raises ConfigError if it is none."""
    return input_text(read_answer(effect, answer, {tool.spec.name: tool for tool in agent.tools}))


def cancellation(reason: str = "") -> str:
    """For the signal ``put``: stop what the session does or waits for."""
    return input_text(CancelAsked(reason))


# --------------------------------------------------------------------------------------------------------- the workflow


@workflow.defn(
    name="cogstep.session", sandboxed=False
)  # the core is pure, and the sandbox hides modules from its codec
class SessionWorkflow:
    """One session, until it is told to ``end``. A subclass, declared in the same way, may have another engine."""

    @workflow.init
    def __init__(self, given: str) -> None:
        self._given = Beginning.read(given)
        self._engine = self.engine(self._given.config)
        self._state = self._given.state
        self._inbox = deque((*self._given.waiting, *filter(None, [self._given.task])))
        self._in_flight: dict[EffectId, Effect] = {}
        self._steps: dict[EffectId, asyncio.Task[str]] = {}
        """Of the effects in flight those at which somebody works, in the order of decisions; the others are pending."""
        self._beside: list[asyncio.Task[str]] = []
        """What nobody waits for but the workflow's end."""
        self._heard = 0
        self._finished: TurnFinished | None = None
        self._at = 0.0
        """The time of the newest input, in seconds since the epoch."""
        self._ending = False

    def engine(self, config: AgentConfig) -> CognitiveEngine:
        """What decides."""
        return LLMEngine(config)

    @workflow.run
    async def run(self, given: str) -> str:
        """Gives how things stand at its end, an ``Ended`` as JSON."""
        while not self._over():
            await workflow.wait_condition(lambda: self._next_input() is not None or self._answered() or self._over())
            if self._next_input() is not None:
                await self._take_in()
            elif self._answered():
                effect_id = next(iter(self._steps))
                self._advance(_happened(await self._steps.pop(effect_id)))
            if self._resting() and not self._given.task and workflow.info().is_continue_as_new_suggested():
                await asyncio.gather(*self._beside)
                workflow.continue_as_new(self._so_far())
        await asyncio.gather(*self._beside)
        return self.standing()

    @workflow.signal
    def put(self, event: str) -> None:
        """Give the session an input: a message, an answer, a cancellation. A message waits for the end of the turn."""
        self._inbox.append(event)

    @workflow.signal
    def end(self) -> None:
        """End the workflow once its turn has ended."""
        self._ending = True

    @workflow.query
    def standing(self) -> str:
        """How things stand: an ``Ended`` as JSON, which says what is pending and how the newest turn ended."""
        pending: Any = tuple(one for effect_id, one in self._in_flight.items() if effect_id not in self._steps)
        return Ended(self._at, self._state.counters.turn, self._finished, pending).text()

    def _over(self) -> bool:
        if self._given.task:
            return self._finished is not None
        return self._ending and self._resting() and not self._inbox

    def _resting(self) -> bool:
        return isinstance(self._state.phase, Idle | Closed)

    def _so_far(self) -> str:
        return evolve(self._given, state=self._state, waiting=tuple(self._inbox)).text()

    # ---------------------------------------------------------------------------------------------------------- inputs

    def _next_input(self) -> str | None:
        """The oldest input that can be taken now: a message waits for the end of the turn."""
        if not self._inbox or self._resting():
            return self._inbox[0] if self._inbox else None
        return next((one for one in self._inbox if json.loads(one)["type"] != UserSpoke.tag), None)

    async def _take_in(self) -> None:
        text = self._next_input()
        assert text is not None
        self._inbox.remove(text)
        self._advance(await self._told(text))

    async def _told(self, text: str) -> Happened:
        """An input from outside as the engine gets it: with its prompt, its counts and its time."""
        self._heard += 1
        return _happened(await self._performed("cogstep.hear", f"hear-{self._heard}", text))

    def _answered(self) -> bool:
        return bool(self._steps) and next(iter(self._steps.values())).done()

    def _advance(self, happened: Happened) -> None:
        """Step the engine, and begin what it decides."""
        self._at = max(self._at, happened.at)
        event: Any = CancelAsked(happened.error) if happened.error else happened.event
        if event is None:  # it is answered later, by a signal
            return
        self._in_flight.pop(getattr(event, "effect_id", NOBODY), None)
        if isinstance(event, UserSpoke):
            self._finished = None
        transition = self._engine.step(self._state, evolve(event, at=self._at))
        self._state = transition.next_state
        for decision in transition.decisions:
            self._begin(decision)

    # --------------------------------------------------------------------------------------------------------- effects

    def _begin(self, decision: Decision) -> None:
        match decision:
            case TurnFinished():
                self._finished = decision
            case CancelEffect(effect_id=effect_id):
                self._in_flight.pop(effect_id, None)
                task = self._steps.pop(effect_id, None)
                if task is not None:
                    task.cancel()
            case Remember():
                text, name = _written(decision), f"remember-{len(self._beside)}"
                self._beside.append(asyncio.create_task(self._performed("cogstep.remember", name, text)))
            case _ if isinstance(decision, EFFECT_TYPES):
                self._in_flight[decision.effect_id] = decision
                self._steps[decision.effect_id] = asyncio.create_task(self._carried(decision))
            case _:
                pass

    async def _carried(self, effect: Effect) -> str:
        match effect:
            case StartTimer(effect_id=effect_id, seconds=seconds):
                at = self._at + seconds
                await asyncio.sleep(seconds)
                return Happened(at, TimerFired(effect_id)).text()
            case SpawnWorker():
                return await self._worked(effect)
            case _:
                text = _written(effect)
                name = f"{effect.effect_id}-{blake2b(text.encode(), digest_size=6).hexdigest()}"
                return await self._performed("cogstep.perform", name, text)

    async def _performed(self, what: str, name: str, text: str) -> str:
        given: str = await workflow.execute_activity(
            what,
            args=[self._given.agent, workflow.info().workflow_id, text],
            activity_id=name,
            result_type=str,
            start_to_close_timeout=LONGEST,
            heartbeat_timeout=HEARTBEAT,
            retry_policy=AGAIN,
        )
        return given

    async def _worked(self, effect: SpawnWorker) -> str:
        session = workflow.info().workflow_id
        nothing: Any = None  # its program is where its activities are
        worker = make_worker(effect, self._engine, Program(nothing, {}, session=session), self._state)
        config: Any = getattr(worker.engine, "config", None)
        own = Beginning(self._given.agent, config, worker.state, task=input_text(worker.task)).text()
        try:
            name = f"{session}/{effect.effect_id}"
            text: str = await workflow.execute_child_workflow("cogstep.session", own, id=name, result_type=str)
        except ChildWorkflowError as error:
            return Happened(self._at, WorkerFailed(effect.effect_id, f"its workflow failed: {error.cause}")).text()
        ended = Ended.read(text)
        return Happened(ended.at, worker_answer(effect, ended.finished)).text()


def _happened(text: str) -> Happened:
    return Happened.read(text)


def _written(decision: Decision) -> str:
    return written(to_data(decision, Decision))


# ------------------------------------------------------------------------------------------------------ the activities


class Performer(DurableInterpreter):
    """Carries out one effect of a session whose engine is elsewhere."""

    def __init__(self, agent: DurableAgent, session: str, veil: Veil) -> None:
        given: AgentOptions = {**agent.given, "session": session}
        parts = assemble(agent.model, agent.tools, agent.system, given)
        if "/" in session:
            parts = evolve(parts, program=parts.program.for_worker(session, tuple(parts.program.tools)))
        parts = evolve(parts, program=evolve(parts.program, reveal=veil.reveal))
        nowhere: Any = None  # nothing is recorded here, and no step of an engine is begun
        super().__init__(parts, Ahead(nowhere, 0, (), veil), veil, nowhere, RunClock(agent.given.get("clock")))

    async def hear(self, text: str) -> str:
        """An outer input as the engine gets it."""
        return await self._within(self._heard(text))

    async def perform(self, text: str, again: bool) -> str:
        """What came of an effect; ``again``: it may have happened already."""
        effect = self._veil.reveal(from_data(json.loads(text), Decision))
        return await self._within(self._carried(effect, again, ()))

    async def save(self, text: str) -> str:
        """Save a note."""
        note, memory = self._veil.reveal(from_data(json.loads(text), Decision)), self.program.memory
        return "{}" if memory is None else await self._within(self._kept(partial(memory.remember, note.text)))

    async def _heard(self, text: str) -> str:
        try:
            return (await self.said(read_input(text))).text()
        except CogstepError as error:
            return Happened(self._stamp(), error=self._hidden(f"{type(error).__name__}: {error}")).text()

    async def _within(self, work: Coroutine[Any, Any, str]) -> str:
        self._turn = Turn()
        try:
            return await work
        finally:
            await self._leave_run()


def activities(*agents: DurableAgent) -> list[Callable[..., Any]]:
    """The activities of these agents, for a ``Worker``. Secrets are known to the process that has seen them."""
    named, veils = {agent.name: agent for agent in agents}, dict[str, Veil]()

    async def done(agent: str, session: str, text: str, work: Callable[[Performer], Awaitable[str]]) -> str:
        if agent not in named:
            raise ApplicationError(f"this process has no agent {agent!r}")
        own = session.partition("/")[0]
        veil = veils.setdefault(own, named[agent].veil())
        if len(veils) > KNOWN:
            del veils[next(iter(veils))]
        veil.has_used(max(map(int, NUMBERED.findall(text.encode())), default=0))
        beating = asyncio.create_task(_beat())
        try:
            return await work(Performer(named[agent], session, veil))
        except Exception as error:
            LOG.error("an activity failed, and is attempted again", exc_info=error)
            told = named[agent].hidden(f"{type(error).__name__}: {error}")
            raise ApplicationError(told, type=type(error).__name__) from None  # the server keeps what is raised
        finally:
            beating.cancel()

    @activity.defn(name="cogstep.hear")
    async def hear(agent: str, session: str, text: str) -> str:
        return await done(agent, session, text, lambda one: one.hear(text))

    @activity.defn(name="cogstep.perform")
    async def perform(agent: str, session: str, text: str) -> str:
        again = activity.info().attempt > 1
        return await done(agent, session, text, lambda one: one.perform(text, again))

    @activity.defn(name="cogstep.remember")
    async def remember(agent: str, session: str, text: str) -> str:
        return await done(agent, session, text, lambda one: one.save(text))

    return [hear, perform, remember]


async def _beat() -> None:
    """Say that this process lives, while it works at an activity."""
    while True:
        activity.heartbeat()
        await asyncio.sleep(HEARTBEAT.total_seconds() / 3)
