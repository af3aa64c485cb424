"""Sessions on file, taken up again: to go on with one after a crash, or to go another way from one of its turns.

Either folds the recorded inputs; nothing that stands on file is carried out a second time. What the crash interrupted
is settled by ``settling`` once the session goes on.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from attrs import evolve, frozen

from cognition import AgentConfig, AgentState, CallModel, CogstepError, ConfigError, Idle, TurnFinished, to_data
from cognition.tools import ToolSpec
from interpreters.agents.assembly import Parts, assemble, make_parts, make_program, make_veil
from interpreters.agents.options import CONFIGURED, AgentOptions, EngineFactory, ProgramOptions, filled
from interpreters.driver import Driver, follower
from interpreters.recording.journal import DecisionWriter, Header, Journal, JournalReader, Origin, Record
from interpreters.recording.journal.format import ENCODE
from interpreters.recording.replaying import ReplayDivergedError, compare, engine_of
from interpreters.recording.veil import looks_like
from interpreters.tools.tool import Usable, as_tools
from runtime.protocol import Runtime


@frozen(eq=False)
class Reopened:
    """A session as its journal leaves it."""

    parts: Parts
    header: Header
    records: tuple[Record, ...]
    warnings: tuple[str, ...]


def reopen(path: str | os.PathLike[str], model: Runtime, tools: Iterable[Usable], given: ProgramOptions) -> Reopened:
    """The parts of a session that goes on in its own journal, which is locked from here on.

    Raises:
        JournalError: it can't be read or written, is damaged, or another session writes it.
        ConfigError: the tools are not those that it was recorded with.
    """
    tools = as_tools(tools)
    full = filled(given, ProgramOptions)
    journal, reader = Journal.reopen(path, fsync=full["fsync"])
    try:
        with reader:
            records = tuple(reader)
        header = reader.header
        journal.veil = make_veil(given, tools, reader.secrets)
        config = _config_of(header, given.get("engine"))
        _check_tools(config.tools, tuple(tool.spec for tool in tools))
        program = evolve(make_program(model, tools, header.session, full), reveal=journal.veil.reveal)
        engine = program.engine(config) if "engine" in given else engine_of(header)
        program.check(engine)
    except BaseException:
        journal.close()
        raise
    return Reopened(make_parts(config, engine, program, journal, full), header, records, tuple(reader.warnings))


def take_up(reopened: Reopened, driver: Driver) -> None:
    """Fold the records into a driver that stands at the session's start.

    The newest record, and the newest that asks the model, have to be decided as they were then. The digest of a request
    covers the whole conversation, so that what differed earlier shows there; comparing every record would take most of
    the time of a resume.

    Raises:
        ReplayDivergedError: this engine is not the one that recorded the session.
    """
    asked = newest = None
    for record in reopened.records:
        transition = driver.restore(record.input)
        newest = record, transition.decisions
        if transition.decisions and isinstance(transition.decisions[-1], CallModel):
            asked = newest
    for checked in (asked, newest):
        difference = compare(checked[0], DecisionWriter().data(checked[1])) if checked is not None else None
        if difference is not None:
            raise ReplayDivergedError(
                f"the session was recorded by other agent logic; fork it to go on with this one: {difference}"
            )


def fork_parts(
    path: str | os.PathLike[str],
    model: Runtime,
    tools: Iterable[Usable],
    system: str | None,
    turn: int | None,
    given: AgentOptions,
) -> tuple[Parts, AgentState]:
    """The parts of a new session that begins where a recorded one stood after a turn, and that state.

    Raises:
        JournalError: the recorded one can't be read, or the new one's recording can't begin.
        CogstepError: there is no such turn.
    """
    tools = as_tools(tools)
    header, state, turn, secrets = state_after(path, turn)
    veil = make_veil(given, tools, secrets)
    recorded = veil.reveal(header.config or AgentConfig())
    # The context is the model's, which may be another one than then.
    defaults = {name: getattr(recorded, name) for name in CONFIGURED if name != "context_tokens"}
    text = recorded.system if system is None else system
    if given.get("journal") is None:  # then nothing is hidden from here on
        state = veil.reveal(state)
    merged: Any = defaults | {name: value for name, value in given.items() if value is not None}
    origin = Origin(header.session, turn)
    return assemble(model, tools, text, merged, start=state, origin=origin, veil=veil), state


def state_after(path: str | os.PathLike[str], turn: int | None) -> tuple[Header, AgentState, int, int]:
    """What a recorded session knew after a turn (None: after the newest that has ended), that turn's number, and the
    highest number of a secret until then.
    """
    with JournalReader(path) as reader:
        driver = follower(engine_of(reader.header), reader.header.start)
        found = reader.header.start
        number = found.counters.turn
        for record in reader:
            transition = driver.restore(record.input)
            state = driver.state
            if any(isinstance(decision, TurnFinished) for decision in transition.decisions):
                if turn is not None and state.counters.turn > turn:
                    break
                found, number = state, state.counters.turn
            elif isinstance(state.phase, Idle) and state.counters.turn == number:
                found = state  # a reset, a change of mode
        if turn is not None and number != turn:
            raise CogstepError(f"{path}: there is no turn {turn} that has ended; the newest one is {number}")
        return reader.header, found, number, reader.secrets


def _config_of(header: Header, engine: EngineFactory | None) -> AgentConfig:
    if header.config is not None:
        return header.config
    if engine is None:
        engine_of(header)  # says what to do
    return AgentConfig()


def _check_tools(recorded: tuple[ToolSpec, ...], given: tuple[ToolSpec, ...]) -> None:
    ours = {spec.name: spec for spec in given}
    wrong = [spec.name for spec in recorded if not _is_recorded_as(ours.get(spec.name), spec)]
    wrong += [name for name in ours if name not in {spec.name for spec in recorded}]
    if wrong:
        raise ConfigError(
            f"the session was recorded with other tools ({', '.join(wrong)} differ or are missing); "
            "give the same ones, or fork the session to go on with others"
        )


def _is_recorded_as(given: ToolSpec | None, recorded: ToolSpec) -> bool:
    """Whether a tool is the recorded one, apart from what was hidden of it."""
    if given == recorded:
        return True
    hidden = to_data(recorded) if given is not None else None
    return hidden is not None and looks_like(ENCODE(hidden), ENCODE(to_data(given)))
