"""Resuming and forking of recorded sessions.

Both replay the recorded inputs; no recorded effect is carried out again. ``settling`` settles the effects that a crash
interrupted, when the session continues.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import evolve, frozen

from cognition import (
    AgentConfig,
    AgentState,
    CallModel,
    CancelAsked,
    CogstepError,
    ConfigError,
    Idle,
    TurnFinished,
    to_data,
)
from cognition.steps.phases import Closed
from cognition.values.routing import OWN
from cognition.values.tools import ToolSpec
from interpreters.agents._state_restore import conversation_of
from interpreters.agents.options import CONFIGURED, AgentOptions, ProgramOptions, fill
from interpreters.agents.session_builder import (
    Parts,
    assemble,
    check_prices,
    find_weakened,
    make_parts,
    make_program,
    make_redactor,
)
from interpreters.loop.driver import Driver, follower
from interpreters.loop.program.message_sources import PromptFunction, prompt_source
from interpreters.recording.differences import differences
from interpreters.recording.journal import DecisionWriter, Header, Journal, JournalReader, Origin, Record
from interpreters.recording.journal.format import ENCODE
from interpreters.recording.recorder import Where
from interpreters.recording.redactor import looks_like
from interpreters.recording.replay import ReplayDivergedError, compare, engine_of
from interpreters.tools.external import Usable, as_tools
from runtime.protocol.model import Runtime


def reopen(
    path: Where,
    model: Runtime,
    tools: Iterable[Usable],
    given: ProgramOptions,
    system: PromptFunction | None = None,
) -> tuple[Parts, tuple[Record, ...]]:
    """Return the parts and the records of a session that continues in its own journal, and lock the journal.

    Raises:
        JournalError: it can't be read or written, is damaged, was not written by this user, or another session is
            writing it.
        ConfigError: the tools differ from the recorded tools.
    """
    tools = as_tools(tools)
    full = fill(given, ProgramOptions)
    made = None if system is None else prompt_source(system)
    journal, reader = Journal.reopen(path, fsync=full["fsync"])
    try:
        with reader:
            reader.check_own("resumed")  # the header says it already of what is somebody else's from the beginning
            records = tuple(reader)
        reader.check_own("resumed")
        header = reader.header
        journal.redactor = make_redactor(given, tools, reader.secrets)
        if header.config is None and "engine" not in given:
            engine_of(header)  # raises, and says what to do
        config = header.config or AgentConfig()
        _check_tools(config.tools, tuple(tool.spec for tool in tools))
        program = evolve(make_program(model, tools, header.session, full, made), reveal=journal.redactor.reveal)
        engine = program.engine(config) if "engine" in given else engine_of(header)
        program.check(engine)
        check_prices(config, (model, *full["models"].values()))
        weakened = find_weakened(config, model)
    except BaseException:
        journal.close()
        raise
    return make_parts(config, engine, program, journal, full, header.start, weakened), records


def replay_into(records: Iterable[Record], driver: Driver) -> None:
    """Replay records into a driver at the session's start.

    Only the newest record and the newest with a model call must have the same decisions as recorded. The digest of a
    request covers the whole conversation, so it reveals earlier differences. Comparing every record would take most of
    the time of a resume.

    Raises:
        ReplayDivergedError: another engine recorded the session.
    """
    asked = newest = None
    for record in records:
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


@frozen(eq=False)
class RecordedState:
    """The state of a recorded session after a turn."""

    header: Header
    state: AgentState
    turn: int
    secrets: int
    """The highest secret number used so far."""
    foreign: str
    """The reason why the recording is not trusted as this user's own; empty if it is."""


def fork_parts(
    path: Where,
    model: Runtime,
    tools: Iterable[Usable],
    system: str | PromptFunction | None,
    turn: int | None,
    foreign: bool,
    given: AgentOptions,
) -> Parts:
    """Return the parts of a new session that starts from the state of a recorded session after a turn.

    If another user wrote the recording, only its conversation is used, not its options.

    Raises:
        JournalError: the recording can't be read, or the new recording can't be started.
        ForeignRecordingError: another user wrote the recording, and ``foreign`` is False.
        CogstepError: there is no such turn.
    """
    tools = as_tools(tools)
    if given.get("state") is not None:
        raise ConfigError("fork: the session begins where the recorded one stood; state= is for a new one")
    standing = state_after(path, turn, foreign=foreign)
    state = evolve(standing.state, health=())  # it is of the recorded session's models, which these may not be
    origin = Origin(standing.header.session, standing.turn, bool(standing.foreign))
    recorded = given.get("journal") is not None
    if standing.foreign:
        redactor = make_redactor(given, tools)
        if recorded:  # else a placeholder that somebody wrote would be shown as the secret that has its name here
            state = redactor.hide(state)[0]
        return assemble(model, tools, system or "", given, start=state, origin=origin, redactor=redactor)
    redactor = make_redactor(given, tools, standing.secrets)
    config = redactor.reveal(standing.header.config or AgentConfig())
    # The context is the model's, which may be another one than then.
    defaults = {name: getattr(config, name) for name in CONFIGURED if name != "context_tokens"}
    if models := given.get("models"):  # of which the new session may have others, or none
        there = (OWN, *models)
        defaults["fallback"] = tuple(name for name in config.fallback if name in there)
        defaults["routes"] = {task: name for task, name in config.routes if name in there}
        defaults["breaker"] = config.breaker
    if defaults["protocol"] == "native":  # of which another model may not be capable
        del defaults["protocol"]
    if isinstance(system, str):  # in place of what a function has made since
        state = evolve(state, system=None)
    if not recorded:  # then nothing is hidden from here on
        state = redactor.reveal(state)
    merged: Any = defaults | {name: value for name, value in given.items() if value is not None}
    again: Any = {"start": state, "origin": origin, "redactor": redactor, "recorded_system": config.system}
    return assemble(model, tools, config.system if system is None else system, merged, **again)


def state_after(path: Where, turn: int | None, *, foreign: bool = False) -> RecordedState:
    """Return the state of a recorded session after a turn; None: after the newest that has ended.

    If another user wrote the recording, which ``foreign`` allows, only the conversation is used. With ``turn=None`` it
    includes an interrupted last turn, since such a recording can't be resumed.
    """
    with JournalReader(path) as reader:
        if not foreign:
            reader.check_own("forked as it is")
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
        if not foreign:
            reader.check_own("forked as it is")
        if turn is not None and number != turn:
            raise CogstepError(f"{reader.path}: there is no turn {turn} that has ended; the newest one is {number}")
        reason = reader.foreign
        if reason:
            if turn is None and not isinstance(driver.state.phase, Idle | Closed):
                driver.restore(CancelAsked("the recording ends here"))
                found, number = driver.state, driver.state.counters.turn
            found = conversation_of(found.history)
        return RecordedState(reader.header, found, number, reader.secrets, reason)


def _check_tools(recorded: tuple[ToolSpec, ...], given: tuple[ToolSpec, ...]) -> None:
    ours = {spec.name: spec for spec in given}
    if len(ours) < len(given):
        twice = next(spec.name for place, spec in enumerate(given) if spec.name in [one.name for one in given[:place]])
        raise ConfigError(f"two tools are named {twice!r}; give one of them another name")
    wrong = [f"{spec.name} is missing" for spec in recorded if spec.name not in ours]
    wrong += [f"{name} is new" for name in ours if name not in {spec.name for spec in recorded}]
    wrong += [
        f"{spec.name} differs in {_first_difference(spec, ours[spec.name])}"
        for spec in recorded
        if spec.name in ours and not _is_recorded_as(ours[spec.name], spec)
    ]
    if wrong:
        raise ConfigError(
            f"the session was recorded with other tools ({'; '.join(wrong)}); "
            "give the same ones, or fork the session to go on with others"
        )


def _first_difference(recorded: ToolSpec, given: ToolSpec) -> str:
    """Return the path of the first difference between two tools of the same name, such as ``parameters.required[1]``.

    It omits the values: the given tool may contain a secret that is hidden in the recording.
    """
    first = next(differences(to_data(recorded), to_data(given), ""), None)
    return "what no JSON tells" if first is None else first.field.lstrip(".")


def _is_recorded_as(given: ToolSpec, recorded: ToolSpec) -> bool:
    """Whether a tool equals the recorded tool, ignoring redacted texts."""
    return given == recorded or looks_like(ENCODE(to_data(recorded)), ENCODE(to_data(given)))
