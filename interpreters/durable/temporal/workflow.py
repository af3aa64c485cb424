"""Sessions on Temporal: a workflow that runs the core, and activities that carry its decisions out. Needs the extra
``temporal``, and a Temporal server.

    worker = Worker(client, task_queue="cogstep", workflows=[SessionWorkflow], activities=activities(agent))
    await client.start_workflow(SessionWorkflow.run, beginning(agent), id="ada", task_queue="cogstep",
                                start_signal="put", start_signal_args=[message(agent, "Pay the invoice.")])

The session's history on the server is its recording. The workflow receives inputs as signals, steps the engine, has an
activity carry out each effect, and takes the answers in the order of decisions. All of it is a function of the history.
The id of each activity contains a digest of the decision, so ``temporalio.worker.Replayer`` finds the point at which
other agent logic decides differently.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from hashlib import blake2b
from random import SystemRandom
from typing import Any, Final

from attrs import evolve
from temporalio import activity, workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, FailureError

from cognition import (
    AgentConfig,
    CallModel,
    CallTool,
    CancelAsked,
    CancelEffect,
    CognitiveEngine,
    ConfigError,
    Decision,
    EffectId,
    Failure,
    Input,
    LLMEngine,
    ModelFailed,
    Rejected,
    Remember,
    SpawnWorker,
    StartTimer,
    TimerFired,
    ToolFailed,
    TurnFinished,
    UserSpoke,
    WorkerFailed,
    from_data,
    to_data,
)
from cognition.steps.decisions import EFFECT_TYPES, Effect
from cognition.steps.phases import Closed, Idle
from interpreters.agents.options import AgentOptions
from interpreters.agents.session_builder import assemble
from interpreters.durable._errors import DurableError
from interpreters.durable._interpreter import DurableInterpreter, RunClock
from interpreters.durable._verifying_writer import VerifyingWriter
from interpreters.durable.definition import DurableAgent
from interpreters.durable.serialization import RunOutcome, StepResult, encode_json, input_text, read_input
from interpreters.durable.temporal._serialization import (
    TAKES,
    Beginning,
    WaitingInput,
    beginning as beginning,
    cancellation as cancellation,
    fits,
    message as message,
    reply as reply,
)
from interpreters.loop.mailbox_messages import Turn
from interpreters.loop.program.pending import Postponable
from interpreters.loop.program.program import Program
from interpreters.loop.workers import make_worker, worker_answer
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

LONGEST: Final = timedelta(days=1)
"""Maximum time of an activity; a tool with a ``timeout`` ends earlier."""

AGAIN: Final = RetryPolicy(initial_interval=timedelta(milliseconds=100), maximum_interval=timedelta(seconds=10))
"""An activity whose process died is attempted again; the second attempt knows that the effect may have happened."""

REFUSED: Final = 2000

NOBODY: Final = EffectId("")


# The core is pure, and the sandbox hides modules from its codec.
@workflow.defn(name="cogstep.session", sandboxed=False)
class SessionWorkflow:
    """A session, until it receives ``end``. A subclass, declared in the same way, may have another engine."""

    @workflow.init
    def __init__(self, given: str) -> None:
        self._given = Beginning.read(given)
        self._engine = self.engine(self._given.config)
        self._state = self._given.state
        self._inbox = [WaitingInput.read(one) for one in self._given.waiting]
        self._hearing: WaitingInput | None = None
        self._in_flight: dict[EffectId, Effect] = {one.effect_id: one for one in self._given.pending}
        self._steps: dict[EffectId, asyncio.Task[str]] = {}
        """The running steps of effects in flight, in the order of decisions; all other effects in flight are pending.
        """
        self._started: set[EffectId] = set()
        """The steps whose activity, timer or workflow Temporal has started."""
        self._beside: set[asyncio.Task[str]] = set()
        """Notes being saved; only the workflow's end waits for them."""
        self._heard = 0
        self._noted = 0
        self._finished = self._given.finished
        self._at = self._given.at
        self._error = self._given.error
        self._ending = self._given.ending

    def engine(self, config: AgentConfig) -> CognitiveEngine:
        return LLMEngine(config)

    @workflow.run
    async def run(self, given: str) -> str:
        """Run the session; return its final status, an ``RunOutcome`` as JSON."""
        for effect in self._given.unstarted:
            self._begin(effect)
        while not self._is_over():
            await workflow.wait_condition(
                lambda: self._next_input() is not None or self._has_answer() or self._is_over()
            )
            if (letter := self._next_input()) is not None:
                await self._take_in(letter)
            elif self._has_answer():
                effect_id = next(iter(self._steps))
                self._advance(StepResult.read(await self._steps.pop(effect_id)))
            if self._is_resting() and workflow.info().is_continue_as_new_suggested():
                await asyncio.gather(*self._beside)
            if self._may_go_on_as_new():
                so_far = self._current_outcome()
                if fits(so_far):  # else it goes on here for as long as Temporal lets it
                    for task in self._steps.values():
                        task.cancel()
                    workflow.continue_as_new(so_far)
        await asyncio.gather(*self._beside)
        return self.status()

    @workflow.signal
    def put(self, event: str = "", *_more: Any) -> None:
        """Receive an input: a message, an answer, a cancellation. A message waits for the end of the turn."""
        self._error = ""
        try:
            self._inbox.append(WaitingInput.read(event))
        except DurableError as error:  # raised, it would stop the workflow for good
            self._refuse(str(error))

    @workflow.signal
    def end(self, *_more: Any) -> None:
        """End the workflow once its turn has ended."""
        self._ending = True

    @workflow.query
    def status(self) -> str:
        """Return the session's status, an ``RunOutcome`` as JSON: pending effects, the newest turn's end, refusals
        since the last ``put``.

        A ``put`` counts immediately: while a message waits, no turn counts as ended.
        """
        unheard = [*self._inbox, *([self._hearing] if self._hearing else [])]
        pending: tuple[Postponable, ...] = ()
        if not any(isinstance(one.event, CancelAsked) for one in unheard):
            answered = {getattr(one.event, "effect_id", NOBODY) for one in unheard} | self._steps.keys()
            waiting = [one for effect_id, one in self._in_flight.items() if effect_id not in answered]
            pending = tuple(one for one in waiting if isinstance(one, Postponable))
        finished = None if any(one.is_message for one in unheard) else self._finished
        return RunOutcome(self._at, self._state.counters.turn, finished, pending, self._error).text()

    def _is_over(self) -> bool:
        return (self._ending or self._given.is_worker) and self._is_resting() and not self._inbox

    def _is_resting(self) -> bool:
        return isinstance(self._state.phase, Idle | Closed)

    def _may_go_on_as_new(self) -> bool:
        """Whether the history is long and no step has started that a new workflow would not know.

        This may be in the middle of a turn, since a turn may be longer than a history.
        """
        is_between = not self._beside and self._started.isdisjoint(self._steps)
        return is_between and not self._is_over() and workflow.info().is_continue_as_new_suggested()

    def _current_outcome(self) -> str:
        waiting = tuple(one.text for one in self._inbox)
        pending = tuple(one for effect_id, one in self._in_flight.items() if effect_id not in self._steps)
        unstarted = tuple(self._in_flight[effect_id] for effect_id in self._steps)
        kept = evolve(self._given, state=self._state, waiting=waiting, pending=pending, unstarted=unstarted)
        return evolve(kept, at=self._at, finished=self._finished, error=self._error, ending=self._ending).text()

    # ---------------------------------------------------------------------------------------------------------- inputs

    def _next_input(self) -> WaitingInput | None:
        """Return the oldest input that can be taken now: a message waits for the end of the turn."""
        return next((one for one in self._inbox if self._is_resting() or not one.is_message), None)

    def _cancellation(self) -> WaitingInput | None:
        return next((one for one in self._inbox if isinstance(one.event, CancelAsked)), None)

    async def _take_in(self, letter: WaitingInput) -> None:
        """Have an activity add an input's prompt, token counts and time, and take it. A cancellation does not wait for
        that.
        """
        self._inbox.remove(letter)
        self._hearing = letter
        self._heard += 1
        hearing = asyncio.create_task(self._perform("cogstep.hear", f"hear-{self._heard}", letter.text))
        if not isinstance(letter.event, CancelAsked):
            await workflow.wait_condition(lambda: hearing.done() or self._cancellation() is not None)
        cancelled = self._cancellation()
        if hearing.done() or cancelled is None:
            happened = StepResult.read(await hearing)
            if not happened.error:
                self._advance(happened)
            else:
                self._refuse(happened.error)
                self._finished = None if letter.is_message else self._finished
        else:
            hearing.cancel()
            self._inbox.remove(cancelled)
            for event in (letter.event, cancelled.event) if letter.is_message else (cancelled.event,):
                self._step(event)  # nothing that is decided in between begins
        self._hearing = None

    def _refuse(self, why: str) -> None:
        self._error = "; ".join(filter(None, (self._error, why)))[:REFUSED]

    def _has_answer(self) -> bool:
        return bool(self._steps) and next(iter(self._steps.values())).done()

    def _advance(self, happened: StepResult) -> None:
        self._at = max(self._at, happened.at)
        if happened.error:
            self._refuse(happened.error)
            self._step(CancelAsked(happened.error))
        elif happened.event is not None:  # else it is answered later, by a signal
            self._step(happened.event)

    def _step(self, event: Input) -> None:
        if isinstance(event, UserSpoke):
            self._finished = None
        transition = self._engine.step(self._state, evolve(event, at=self._at))
        self._state = transition.next_state
        if not any(isinstance(one, Rejected) for one in transition.decisions):
            self._in_flight.pop(getattr(event, "effect_id", NOBODY), None)
        for decision in transition.decisions:
            self._begin(decision)

    # --------------------------------------------------------------------------------------------------------- effects

    def _begin(self, decision: Decision) -> None:
        match decision:
            case TurnFinished():
                self._finished = decision
            case CancelEffect(effect_id=effect_id):
                self._in_flight.pop(effect_id, None)
                if (task := self._steps.pop(effect_id, None)) is not None:
                    task.cancel()
            case Remember():
                self._noted += 1
                note = self._perform("cogstep.remember", f"remember-{self._noted}", _encode(decision))
                self._beside.add(noting := asyncio.create_task(note))
                noting.add_done_callback(self._beside.discard)
            case _ if isinstance(decision, EFFECT_TYPES):
                self._in_flight[decision.effect_id] = decision
                self._steps[decision.effect_id] = asyncio.create_task(self._carry_out(decision))
            case _:
                pass

    async def _carry_out(self, effect: Effect) -> str:
        self._started.add(effect.effect_id)
        match effect:
            case StartTimer(effect_id=effect_id, seconds=seconds):
                at = self._at + seconds
                await asyncio.sleep(seconds)
                return StepResult(at, TimerFired(effect_id)).text()
            case SpawnWorker():
                return await self._run_worker(effect)
            case _:
                return await self._perform("cogstep.perform", str(effect.effect_id), _encode(effect), effect)

    async def _perform(self, what: str, name: str, text: str, effect: Effect | None = None) -> str:
        """Return an activity's result. Its id is the name with a digest of the text, so that a replay compares both."""
        if not fits(text):
            return self._too_large(text, effect)
        try:
            given: str = await workflow.execute_activity(
                what,
                args=[self._given.agent, workflow.info().workflow_id, text, self._given.is_worker],
                activity_id=f"{name}-{blake2b(text.encode(), digest_size=6).hexdigest()}",
                result_type=str,
                start_to_close_timeout=LONGEST,
                heartbeat_timeout=HEARTBEAT,
                retry_policy=AGAIN,
            )
        except ActivityError as error:  # raised, it would end the workflow
            return StepResult(self._at, error=f"an activity failed: {error.cause or error}").text()
        return given

    def _too_large(self, text: str, effect: Effect | None) -> str:
        large = f"it has {len(text):,} bytes, and {TAKES}"
        if isinstance(effect, CallModel):  # the engine may ask with less
            why = Failure(f"the request is too large: {large}", kind="context_overflow")
            return StepResult(self._at, ModelFailed(effect.effect_id, why)).text()
        return StepResult(self._at, error=f"what was to be done is too large: {large}").text()

    async def _run_worker(self, effect: SpawnWorker) -> str:
        session = workflow.info().workflow_id
        nothing: Any = None  # its program is where its activities are
        worker = make_worker(effect, self._engine, Program(nothing, {}, session=session), self._state)
        config: Any = getattr(worker.engine, "config", None)
        task = input_text(worker.task)
        own = Beginning(self._given.agent, config, worker.state, (task,), is_worker=True).text()
        if not fits(own):
            return _unfinished_error(self._at, effect, f"its task has {len(own):,} bytes, and {TAKES}")
        try:
            name = f"{session}/{effect.effect_id}"
            text: str = await workflow.execute_child_workflow("cogstep.session", own, id=name, result_type=str)
        except FailureError as error:  # it failed, somebody ended it, or another workflow has its name
            return _unfinished_error(self._at, effect, f"its workflow failed: {error.__cause__ or error}")
        ended = RunOutcome.read(text)
        if ended.finished is None and ended.error:
            return _unfinished_error(ended.at, effect, ended.error)
        return StepResult(ended.at, worker_answer(effect, ended.finished)).text()


def _unfinished_error(at: float, effect: SpawnWorker, why: str) -> str:
    return StepResult(at, WorkerFailed(effect.effect_id, why)).text()


def _encode(decision: Decision) -> str:
    data = to_data(decision, Decision)
    if isinstance(decision, CallModel):
        for message in data["request"]["messages"]:
            message.pop("left_out", None)  # not sent to a model, and workflows of older versions have other ids
    return encode_json(data)


# ------------------------------------------------------------------------------------------------------- the activities


class _Performer(DurableInterpreter):
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
        try:
            event = self._named.reveal(read_input(text))
            self._redactor.adopt(event)  # the sender has hidden it
            heard = (await self.prepare_input(event)).text()
        except MediaError as error:
            return StepResult(self._stamp(), error=self._hide(f"{type(error).__name__}: {error}")).text()
        if fits(heard):
            return heard
        return StepResult(self._stamp(), error=f"an input has {len(heard):,} bytes, and {TAKES}").text()

    async def perform(self, text: str, again: bool) -> str:
        """Return the result of an effect; ``again``: it may have happened already."""
        effect: Any = self._redactor.reveal(from_data(json.loads(text), Decision))
        done = await self._carry_out_in_step(effect, again, ())
        if fits(done):
            return done
        large = f"it was done, but what came of it is lost: it has {len(done):,} bytes, and {TAKES}"
        if isinstance(effect, CallTool):
            return StepResult(self._stamp(), ToolFailed(effect.effect_id, large)).text()
        return StepResult(self._stamp(), error=large).text()

    async def save(self, text: str) -> str:
        note, memory = self._redactor.reveal(from_data(json.loads(text), Decision)), self.program.memory
        return "{}" if memory is None else await self._save_note(partial(memory.remember, note.text))

    async def do(self, work: Callable[[_Performer], Awaitable[str]]) -> str:
        """Do the work of an activity, and end with it what it has begun."""
        self._turn = Turn()
        try:
            return await work(self)
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

    async def run_activity(agent: str, session: str, worker: bool, work: Callable[[_Performer], Awaitable[str]]) -> str:
        if agent not in named:
            raise ApplicationError(f"this process has no agent {agent!r}")
        own = session.rpartition("/")[0] if worker else session
        if (redactor := redactors.pop(own, None)) is None:
            redactor = named[agent].redactor()
            redactor.reserve_numbers(CHANCE.randrange(*NUMBERS))
        redactors[own] = redactor  # the newest one stands last
        if len(redactors) > KNOWN:
            del redactors[next(iter(redactors))]
        beating = asyncio.create_task(_beat())
        try:
            return await _Performer(named[agent], session, redactor, worker).do(work)
        except Exception as error:
            LOG.error("an activity failed, and is attempted again", exc_info=error)
            said = named[agent].hide(f"{type(error).__name__}: {error}")
            raise ApplicationError(said, type=type(error).__name__) from None  # the server keeps what is raised
        finally:
            beating.cancel()

    @activity.defn(name="cogstep.hear")
    async def hear(agent: str, session: str, text: str, worker: bool = False) -> str:
        return await run_activity(agent, session, worker, lambda one: one.hear(text))

    @activity.defn(name="cogstep.perform")
    async def perform(agent: str, session: str, text: str, worker: bool = False) -> str:
        again = activity.info().attempt > 1
        return await run_activity(agent, session, worker, lambda one: one.perform(text, again))

    @activity.defn(name="cogstep.remember")
    async def remember(agent: str, session: str, text: str, worker: bool = False) -> str:
        return await run_activity(agent, session, worker, lambda one: one.save(text))

    return [hear, perform, remember]


async def _beat() -> None:
    while True:
        activity.heartbeat()
        await asyncio.sleep(HEARTBEAT.total_seconds() / 3)
