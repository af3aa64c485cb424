"""``DurableAgent``: a named agent definition, the same in every process that works at its sessions.

The pending effects of its recorded sessions can be read and answered in any process.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from threading import Lock
from typing import Any, Final, Unpack, get_args

from attrs import evolve

from cognition import AgentConfig, AgentState, CancelAsked, CancelEffect, ConfigError, Input, from_data
from cognition.base.checking import show
from interpreters.agents.options import AgentOptions, ProgramOptions, declared_options, fill
from interpreters.agents.resume import reopen
from interpreters.agents.session_builder import Parts, assemble, find_weakened, make_parts, make_program, make_redactor
from interpreters.loop.program.message_sources import PromptFunction
from interpreters.loop.program.pending import Postponable, find_pending, outlives_its_run
from interpreters.loop.program.program import read_answer
from interpreters.recording.journal import Journal, JournalReader, Record
from interpreters.recording.recorder import Recorder
from interpreters.recording.redactor import Redactor
from interpreters.tools.external import Usable, as_tools
from interpreters.tools.tool import Tool
from runtime.checking import checked_call
from runtime.protocol.model import Runtime

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
NOT_HERE = {
    "session": "it is given with each message",
    "journal": "sessions are recorded in the store",
    "state": "a session begins with its first message",
    "owns_model": "the model serves all sessions of a process",
}
"""Options of ``Agent`` that a definition rejects, with the reason."""

POSTPONABLE: Final = frozenset(kind.tag for kind in get_args(Postponable))
"""The tags of effects that may wait for an answer."""


class DurableAgent:
    """A named definition of an agent. Any process can create any of its sessions from it.

    A session keeps the configuration that it started with. Its tools and callbacks are those of the process that works
    at it.

    Args:
        name: letters, digits, ``_``, ``.`` and ``-``, 64 characters at most.
        model: a runtime, or a function that returns one. The function is called once per process, at the first use.
        tools: as in ``Agent``.
        system: as in ``Agent``; a function is called for each message.
        version: the version of the agent's logic, chosen by you. Processes of the same version finish the runs it
            started.
        given: the other options of ``Agent``, except the session's name, its recording and its first state.

    Raises:
        ConfigError: the name is invalid, or an option is not allowed in a definition.
    """

    @checked_call
    def __init__(
        self,
        name: str,
        model: Any,
        tools: Iterable[Usable] = (),
        system: str | PromptFunction = "",
        *,
        version: str = "1",
        **given: Unpack[AgentOptions],
    ) -> None:
        if not NAME.fullmatch(name) or not NAME.fullmatch(version):
            raise ConfigError(
                f"name and version of a durable agent are letters, digits, '_', '.' and '-', 64 at most: not "
                f"{show(name)}, {show(version)}"
            )
        for option, why in NOT_HERE.items():
            if given.get(option) is not None:
                raise ConfigError(f"{option} is no option of a durable agent: {why}")
        if not isinstance(model, Runtime) and not callable(model):
            raise ConfigError(f"model has to be a Runtime, or a function that gives one, not {show(model)}")
        self.name = name
        self.version = version
        self.tools: tuple[Tool[..., Any], ...] = as_tools(tools)
        self.system = system
        self.given: AgentOptions = given
        self._model: Runtime | None = model if isinstance(model, Runtime) else None
        self._load: Callable[[], Runtime] | None = None if isinstance(model, Runtime) else model
        self._loading = Lock()

    @property
    def model(self) -> Runtime:
        """The model; the first use loads it."""
        with self._loading:  # sessions begin on threads
            if self._model is None:
                assert self._load is not None
                self._model = self._load()
            return self._model

    def on(self, model: Runtime | Callable[[], Runtime]) -> DurableAgent:
        """Return the same definition with another model, such as that of a host."""
        other = copy(self)
        other._loading = Lock()
        other._model, other._load = (model, None) if isinstance(model, Runtime) else (None, model)
        return other

    def close(self) -> None:
        """Close the model, if this definition has loaded it."""
        if self._load is not None and self._model is not None:
            model, self._model = self._model, None
            model.close()

    def redactor(self) -> Redactor:
        """Return a redactor that hides secrets before a session exists: the engine's tables store messages to it."""
        return make_redactor(self._program_options(), self.tools)

    def hide(self, text: str) -> str:
        """Return an error text without secrets: engines store it and show it to their operators."""
        full = fill(self._program_options(), ProgramOptions)
        names = frozenset(tool.spec.name for tool in self.tools)
        return Redactor(full["redact"], keep=names, literal=False).hide(CancelAsked(text))[0].reason

    def begin(self, session: str, recorder: Recorder) -> Parts:
        """Return the parts of a new session, and start its recording.

        Raises:
            JournalError: the recording can't be started.
            ConfigError: the definition is inconsistent.
        """
        given: AgentOptions = {**self.given, "session": session, "journal": recorder}
        return assemble(self.model, self.tools, self.system, given)

    def begin_worker(
        self, session: str, recorder: Recorder, config: AgentConfig, state: AgentState, redactor: Redactor
    ) -> Parts:
        """``begin`` for a worker's session, with the configuration from its parent."""
        full = fill(self._program_options(), ProgramOptions)
        names = tuple(tool.name for tool in config.tools)
        program = make_program(self.model, self.tools, session, full).for_worker(session, names)
        program = evolve(program, reveal=redactor.reveal)
        engine = program.engine(config)
        program.check(engine)
        weakened = find_weakened(config, self.model)
        clock = full["clock"]
        journal = Journal.create(
            recorder,
            session=session,
            engine=engine,
            config=config,
            fsync=full["fsync"],
            created=None if clock is None else clock.time(),
            start=state,
        )
        journal.redactor = redactor
        return make_parts(config, engine, program, journal, full, state, weakened)

    def reopen(self, recorder: Recorder, names: tuple[str, ...] | None = None) -> tuple[Parts, tuple[Record, ...]]:
        """Return the parts and the records of a recorded session; from now on this process writes the recording.

        Args:
            recorder: the session's recorder.
            names: for a worker's session the names of its tools; None for any other session.

        Raises:
            JournalError: the recording can't be read or written.
            ConfigError: the tools are not those of the recording.
        """
        tools = self.tools if names is None else [tool for tool in self.tools if tool.spec.name in names]
        system = None if isinstance(self.system, str) or names is not None else self.system
        parts, records = reopen(recorder, self.model, tools, self._program_options(), system)
        if names is not None:
            parts = evolve(parts, program=parts.program.for_worker(parts.program.session, names))
        return parts, records

    def _program_options(self) -> ProgramOptions:
        own: Any = {name: self.given[name] for name in declared_options(ProgramOptions) if name in self.given}  # type: ignore[literal-required]  # names of options
        brought: ProgramOptions = own
        return brought


def agent_named(agents: Mapping[str, DurableAgent], name: str | None) -> DurableAgent:
    """Return the definition with this name; without a name, the only definition.

    Raises:
        ConfigError: the name is unknown, or it is missing and there are several definitions.
    """
    if name is None and len(agents) == 1:
        return next(iter(agents.values()))
    if name is None or name not in agents:
        raise ConfigError(f"agent has to be one of {', '.join(agents)}, not {show(name)}")
    return agents[name]


def pending_of(agent: DurableAgent, recorder: Recorder) -> tuple[Postponable, ...]:
    """Return the pending effects of a session, oldest first.

    They are read from the recorded decisions, without running the engine. So a process with newer agent logic can
    submit an answer too; the version that started the session then continues with it.

    Raises:
        JournalError: the recording can't be read.
    """
    tools = {tool.spec.name: tool for tool in agent.tools}
    in_flight: dict[str, dict[str, Any]] = {}
    with JournalReader(recorder) as reader:
        for record in reader:
            in_flight.pop(str(getattr(record.input, "effect_id", "")), None)
            for decision in record.decisions:
                if decision["type"] in POSTPONABLE:
                    in_flight[decision["effect_id"]] = decision
                elif decision["type"] == CancelEffect.tag:
                    in_flight.pop(decision["effect_id"], None)
    effects: list[Any] = [from_data(one, Postponable) for one in in_flight.values()]
    return tuple(effect for effect in effects if outlives_its_run(effect, tools))


def answer_input(agent: DurableAgent, recorder: Recorder, effect_id: str, answer: object) -> Input:
    """Return the input for an answer to a pending effect.

    Raises:
        CogstepError: no pending effect has this id.
        ConfigError: the answer does not fit the effect.
        JournalError: the recording can't be read.
    """
    effect = find_pending(effect_id, pending_of(agent, recorder))
    return read_answer(effect, answer, {tool.spec.name: tool for tool in agent.tools})
