"""From what a caller hands in to the parts of a session: the same for ``Agent`` and ``AsyncAgent``."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from secrets import token_hex
from typing import Any, TypedDict

from attrs import evolve, frozen

from cognition import (
    AgentConfig,
    AgentState,
    CognitiveEngine,
    CogstepError,
    ConfigError,
    GenerationOptions,
    Limits,
    LLMEngine,
    Policy,
    RetryPolicy,
    TurnFinished,
    UserMessage,
    UserSpoke,
)
from cognition.checking import nearest, shown
from cognition.features import Feature
from cognition.text_protocol import TextProtocol
from interpreters.answers import StructuredResult, answer_schema
from interpreters.approvals import Approve
from interpreters.asking import AskQuestions, Hooks, ReviewPlans
from interpreters.clock import Clock
from interpreters.driver import Driver
from interpreters.events import Observer
from interpreters.journal import Fsync, Journal, Origin
from interpreters.program import WORKER_PATIENCE, Program
from interpreters.redaction import Redaction
from interpreters.results import RunResult
from interpreters.tools import Tool, Usable, as_tools
from interpreters.veil import Redacted, Veil
from runtime.constrained.calls import read_tools
from runtime.constrained.nodes import Weakened
from runtime.constrained.replies import weakened_tools
from runtime.constrained.schema import read_schema
from runtime.memory import Memory
from runtime.protocol import Runtime

NO_TYPE: Any = object()
"""Stands for no type of an answer, since None is one."""

USUAL = AgentConfig()
"""What holds where nothing else is said; immutable, and shared by all sessions."""

EngineFactory = Callable[[AgentConfig], CognitiveEngine]


class ProgramOptions(TypedDict, total=False):
    """How a session is carried out. None of it is recorded: it may be another at each resume."""

    approve: Approve | None
    """Asked for calls that need an approval; without it they are refused."""
    ask: AskQuestions | None
    """Answers the model's questions to the user; needed with the feature ``questions``."""
    review: ReviewPlans | None
    """Judges the model's plans; needed with the feature ``plan``."""
    memory: Memory | None
    """Keeps the model's notes; needed with the feature ``memory`` and with ``recall_first``."""
    hooks: Hooks
    """Asked at the points that are its keys."""
    observers: Iterable[Observer]
    """Told of every event."""
    fsync: Fsync
    """When the recording is forced to the disk: at every ``"record"``, every ``"turn"`` (default), or ``"never"``."""
    deps: Any
    """Handed to tools as ``ToolContext.deps``."""
    owns_model: bool
    """False: somebody else closes the model. Agents that share one need that."""
    clock: Clock | None
    """Where time comes from; tests give a ``fakes.FakeClock``."""
    engine: EngineFactory
    """Makes the agent's logic of its configuration; ``LLMEngine`` if not given."""
    redact: Redaction | None
    """What is kept out of the recording: by default what looks like a secret; None for nothing."""
    worker_patience: float | None
    """Seconds without a sign of life after which a worker is given up; None waits for ever. Default: 300."""


class AgentOptions(ProgramOptions, total=False):
    """Everything that may be said of a new session beside its model, tools and system prompt."""

    options: GenerationOptions | None
    """How replies are sampled."""
    limits: Limits | None
    """The budgets of a turn."""
    policy: Policy | None
    """Which calls may run."""
    retry: RetryPolicy | None
    """When failed model calls are made again."""
    context_tokens: int | None
    """For less context than the model has."""
    features: Iterable[Feature]
    """What the agent may do beside calling tools: ``questions``, ``tasks``, ``plan``, ``memory``, ``workers``."""
    protocol: TextProtocol
    """How a model without native tool calls writes them."""
    recall_first: bool
    """Whether the notes are searched for each message of the user's."""
    journal: str | os.PathLike[str] | None
    """A file that must not exist yet, for the recording."""
    session: str | None
    """The session's name; a new one if not given."""


@frozen(eq=False)
class Parts:
    """What a session is made of."""

    config: AgentConfig
    engine: CognitiveEngine
    program: Program
    observers: tuple[Observer, ...]
    journal: Journal | None
    owns_model: bool
    clock: Clock | None
    weakened: Mapping[str, tuple[Weakened, ...]]
    """Of each tool whose calls are not held to all of its schema: what is left to the check after the call."""
    warnings: tuple[str, ...]
    """What may be a mistake and is no error, one sentence each."""


def assemble(
    model: Runtime,
    tools: Iterable[Usable],
    system: str,
    given: AgentOptions,
    start: AgentState | None = None,
    origin: Origin | None = None,
    veil: Veil | None = None,
) -> Parts:
    """The parts of a new session; ``start``, ``origin`` and ``veil`` are those of a fork.

    Raises:
        ConfigError: the configuration contradicts itself.
        JournalError: the recording can't begin.
    """
    tools = as_tools(tools)
    context_tokens = given.get("context_tokens")
    config = AgentConfig(
        system,
        tuple(tool.spec for tool in tools),
        given.get("options") or USUAL.options,
        given.get("limits") or USUAL.limits,
        given.get("policy") or USUAL.policy,
        given.get("retry") or USUAL.retry,
        model.describe().context_tokens if context_tokens is None else context_tokens,
        tuple(given.get("features", ())),
        given.get("protocol", "native"),
        tuple(given.get("hooks", {})),
        given.get("recall_first", False),
    )
    for tool in tools:  # what can't be checked or sampled is better known now than at a call
        tool.prepare()
    if config.options.constrain:
        read_tools(config.offered)
        if config.options.response_format:
            read_schema(json.loads(config.options.response_format), "the response_format")
    program = make_program(model, tools, given.get("session") or token_hex(16), given)
    path = given.get("journal")
    redacted: tuple[Redacted, ...] = ()
    if path is not None:  # what is recorded is what the engine works with
        veil = veil or make_veil(given, tools)
        config, redacted = veil.hide(config)
        program = evolve(program, reveal=veil.reveal)
    engine = program.engine(config)
    journal = None
    if path is not None:
        program.check(engine)  # before the recording begins: no file is left behind by a mistake
        clock = given.get("clock")
        journal = Journal.create(
            path,
            session=program.session,
            engine=engine,
            config=config,
            fsync=given.get("fsync", "turn"),
            created=None if clock is None else clock.time(),
            start=start,
            origin=origin,
            redacted=redacted,
        )
        journal.veil = veil
    return make_parts(config, engine, program, journal, given)


def make_veil(given: ProgramOptions, tools: Iterable[Tool[..., Any]], after: int = 0) -> Veil:
    """What hides secrets from a recording that has so many placeholders already."""
    names = frozenset(tool.spec.name for tool in tools)
    return Veil(given.get("redact", Redaction()), after=after, keep=names)


def make_program(model: Runtime, tools: Iterable[Tool[..., Any]], session: str, given: ProgramOptions) -> Program:
    """What the embedding program brings, as one value."""
    return Program(
        model,
        {tool.spec.name: tool for tool in tools},
        given.get("approve"),
        given.get("ask"),
        given.get("review"),
        given.get("memory"),
        given.get("hooks", {}),
        given.get("deps"),
        session,
        given.get("engine", LLMEngine),
        given.get("worker_patience", WORKER_PATIENCE),
    )


def make_parts(
    config: AgentConfig, engine: CognitiveEngine, program: Program, journal: Journal | None, given: ProgramOptions
) -> Parts:
    return Parts(
        config,
        engine,
        program,
        tuple(given.get("observers", ())),
        journal,
        given.get("owns_model", True),
        given.get("clock"),
        weakened_tools(config.offered, program.model.describe().format) if config.options.constrain else {},
        tuple(_idle_rules(config)),
    )


def _idle_rules(config: AgentConfig) -> Iterator[str]:
    """The rules that judge no tool, as a misspelt one does."""
    names = [tool.name for tool in config.offered]
    for rule in config.policy.rules:
        if rule.tool != "*" and not any(map(rule.matches, names)):
            yield f"a rule of the policy is for {rule.tool!r}, and no tool has such a name{nearest(rule.tool, names)}"


def said(text: str, returns: Any) -> UserSpoke:
    """A message of the user's, with what its answer has to be; raises ConfigError for a type JSON has no form for."""
    if not isinstance(text, str):
        raise ConfigError(f"run: text must be a text, not {shown(text)}")
    return UserSpoke(text) if returns is NO_TYPE else UserSpoke(text, answer_schema(returns))


def turn_result(driver: Driver, began: int, finished: TurnFinished | None, returns: Any = NO_TYPE) -> RunResult:
    """What a run gave; ``began`` is how many messages there were before its turn.

    Raises:
        CogstepError: the engine ended the turn without saying how.
    """
    if finished is None:
        raise CogstepError("the engine ended the turn without TurnFinished; an engine has to decide it once a turn")
    after = driver.state
    parts = (finished.outcome, finished.usage, driver.revealed(after.history[began:]), after.counters.turn)
    return RunResult(*parts) if returns is NO_TYPE else StructuredResult(*parts, returns)


def start_of_turn(state: AgentState) -> int:
    """Where in the history the current turn begins: at the newest message of the user's."""
    for position in range(len(state.history) - 1, -1, -1):
        message = state.history[position]
        if isinstance(message, UserMessage) and message.origin == "user":
            return position
    return 0
