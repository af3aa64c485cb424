"""Replay a recording and compare every decision. It calls no model, runs no tool and writes nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from cognition import (
    AgentConfig,
    AgentState,
    CallJudged,
    CallModel,
    CognitiveEngine,
    CogstepError,
    Decision,
    EchoEngine,
    LLMEngine,
    TurnFinished,
)
from cognition.base.display import LONGEST_LINE, shown_name
from interpreters.loop.driver import Driver, follower
from interpreters.recording.differences import Difference, differences, request_differences
from interpreters.recording.journal import DecisionWriter, Header, JournalDamagedError, JournalReader, Record
from interpreters.recording.recorder import Where
from runtime.checking import checked_call

EngineGiven = CognitiveEngine | Callable[[AgentConfig], CognitiveEngine] | None
"""Engine to use instead of the recorded one, or a function that creates it from the recorded configuration."""


class ReplayDivergedError(CogstepError):
    """A replay made a different decision than the recording. Raised by ``ReplayReport.raise_for_divergence``."""

    lines = True


@frozen
class ReplayDivergence:
    """The first difference between recorded and present decisions. ``str()`` gives two lines, one per side."""

    record: int
    """Number of the record, from 1."""
    line: int
    """Line in the file, from 1."""
    field: str
    """Path in the record, such as ``decisions[1].call.name``."""
    recorded: Any
    decided: Any
    parts: tuple[Difference, ...]
    """All differences in the request to the model, if the request differs and the recorded one is known."""
    _first: Difference

    def __str__(self) -> str:
        first, *others = self.parts or (self._first,)
        lines = (f"record {self.record} (line {self.line}) differs at {first}", *(f"and at {one}" for one in others))
        return "\n".join(lines)


@frozen
class ReplayReport:
    """The result of a replay."""

    path: Path
    header: Header
    records: int
    """Number of replayed records. A replay normally stops at the first divergence."""
    decisions: int
    turns: int
    """Number of finished turns."""
    state: AgentState
    divergences: tuple[ReplayDivergence, ...]
    """The records with different decisions: all of them, or only the first."""
    warnings: tuple[str, ...]
    foreign: str
    """Why the replayed records do not count as this user's own; empty if they do."""

    @property
    def divergence(self) -> ReplayDivergence | None:
        """The first difference; None if all decisions are equal."""
        return self.divergences[0] if self.divergences else None

    @property
    def same(self) -> bool:
        """Whether every decision equals the recorded one."""
        return self.divergence is None

    def raise_for_divergence(self) -> ReplayReport:
        """Return this report, unless a decision differs.

        Raises:
            ReplayDivergedError: there is a divergence; the message shows it.
        """
        if self.divergence is not None:
            raise ReplayDivergedError(f"{shown_name(str(self.path), LONGEST_LINE)}: {self.divergence}")
        return self


@checked_call
def replay(
    path: Where,
    engine: EngineGiven = None,
    *,
    to: int | None = None,
    every: bool = False,
) -> ReplayReport:
    """Replay the inputs of a journal and compare the decisions with the recorded ones, up to the first difference.

    Args:
        path: the journal: a file, or a ``Recorder``.
        engine: an engine to use instead of the recorded one, or a function that creates one from the recorded
            configuration. Shows the effect of changed agent logic. By default the journal's header recreates the
            engine.
        to: the last record to replay; the report's ``state`` is the state after it.
        every: whether to continue after the first difference. Each record is then judged separately: ``engine`` decides
            in the state that the session was recorded in.

    Raises:
        JournalError: the file is not a journal, has another version or is damaged.
        CogstepError: record ``to`` does not exist.
    """
    with JournalReader(path) as reader:
        if to is not None and to < 0:
            raise CogstepError(f"{reader.path}: there is no record {to}; the first is 1")
        logic = logic_of(reader.header, engine)
        writer, guide = DecisionWriter(), None if engine is None else _RecordedEngine.of(reader.header)
        driver = follower(logic, reader.header.start)
        records = decisions = turns = 0
        divergences, warnings = list[ReplayDivergence](), reader.warnings
        for record, damage in islice(_read_records(reader), to):
            if every and guide is not None:
                driver.state = guide.state
            transition = driver.restore(record.input)
            if guide is not None:
                guide.follow(record)
            records = record.seq
            divergence = compare(record, writer.data(transition.decisions))
            if divergence is not None:
                if guide is not None:
                    divergence = guide.explain(divergence, transition.decisions)
                divergences.append(divergence)
                warnings = [*warnings, *([] if damage is None else [str(damage)])]
                if not every:
                    break
            elif damage is not None:
                raise damage
            decisions += len(record.decisions)
            turns += any(isinstance(decision, TurnFinished) for decision in transition.decisions)
        if to is not None and records < to and not divergences:
            raise CogstepError(f"{reader.path}: there is no record {to}; the newest is {records}")
        return ReplayReport(
            reader.path,
            reader.header,
            records,
            decisions,
            turns,
            driver.state,
            tuple(divergences),
            tuple(warnings),
            reader.foreign,
        )


def _read_records(reader: JournalReader) -> Iterator[tuple[Record, JournalDamagedError | None]]:
    """Yield the records. A record changed on file comes last, with its error; its decisions may show the change."""
    try:
        for record in reader:
            yield record, None
    except JournalDamagedError as error:
        if error.record is None:
            raise
        yield error.record, error


def logic_of(header: Header, engine: EngineGiven) -> CognitiveEngine:
    """Return the given engine, or the engine that recorded a journal. Raises as ``engine_of``."""
    if engine is None:
        return engine_of(header)
    if isinstance(engine, CognitiveEngine) and not isinstance(engine, type):
        return engine
    return engine(header.config or AgentConfig())


def engine_of(header: Header) -> CognitiveEngine:
    """Recreate the engine that recorded a journal. Raises ``CogstepError`` for a custom engine of a program."""
    if header.engine == "llm" and header.config is not None:
        return LLMEngine(header.config)
    if header.engine == "echo":
        return EchoEngine()
    raise CogstepError(
        f"the session was recorded with the engine {header.engine}, which can't be made from the journal; "
        "give one with engine=, or on the command line with --engine MODULE:NAME"
    )


def compare(record: Record, decided: list[Any]) -> ReplayDivergence | None:
    """Return the first difference between a record's decisions and the present ones, or None."""
    if record.decisions == decided:  # the usual case, at the speed of C
        return None
    if not any(_is_judgement(one) for one in record.decisions):  # as in recordings of versions that wrote none
        decided = [one for one in decided if not _is_judgement(one)]
        if record.decisions == decided:
            return None
    if not any(map(_has_access, record.decisions)):  # as in recordings of versions that wrote none
        decided = list(map(_without_access, decided))
        if record.decisions == decided:
            return None
    first = next(differences(record.decisions, decided, "decisions"))
    return ReplayDivergence(
        record.seq,
        record.seq + 1,  # the header is line 1
        first.field,
        first.recorded,
        first.decided,
        (),
        first,
    )


ACCESS = "access"
"""The field of ``CallTool`` and ``AskApproval`` with policy's rules for what the call reaches."""


def _without_access(decision: Any) -> Any:
    return {key: value for key, value in decision.items() if key != ACCESS} if _has_access(decision) else decision


def _has_access(decision: Any) -> bool:
    return isinstance(decision, dict) and ACCESS in decision


def _is_judgement(decision: Any) -> bool:
    return isinstance(decision, dict) and decision.get("type") == CallJudged.tag


class _RecordedEngine:
    """The recorded engine, beside a different one: it recreates the recorded requests."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._writer = DecisionWriter()
        self._decisions: Sequence[Decision] = ()
        self._is_true = True
        """Whether its decisions equal the recorded ones."""

    @classmethod
    def of(cls, header: Header) -> _RecordedEngine | None:
        """Return None for an engine that can't be recreated from the journal."""
        try:
            return cls(follower(engine_of(header), header.start))
        except CogstepError:
            return None

    @property
    def state(self) -> AgentState:
        return self._driver.state

    def follow(self, record: Record) -> None:
        self._decisions = self._driver.restore(record.input).decisions
        self._is_true = compare(record, self._writer.data(self._decisions)) is None

    def explain(self, divergence: ReplayDivergence, decided: Sequence[Decision]) -> ReplayDivergence:
        """Return a divergence inside a request with the request's differences added."""
        found = REQUEST.fullmatch(divergence.field)
        if found is None or not self._is_true:
            return divergence
        # By its kind, since places count what is on file: the model is asked once a step.
        before, after = (next(d for d in side if isinstance(d, CallModel)) for side in (self._decisions, decided))
        parts = tuple(request_differences(before.request, after.request, f"decisions[{found[1]}].request"))
        if not parts:
            return divergence
        first = parts[0]
        return evolve(divergence, field=first.field, recorded=first.recorded, decided=first.decided, parts=parts)


REQUEST = re.compile(r"decisions\[(\d+)\]\.digest")
