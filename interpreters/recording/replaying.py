"""Fold a recording again and compare every decision: no model is asked, no tool runs, nothing is written."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from attrs import frozen

from cognition import AgentConfig, AgentState, CognitiveEngine, CogstepError, EchoEngine, LLMEngine, TurnFinished
from cognition.shown import LONGEST_LINE, shown_name
from interpreters.driver import follower
from interpreters.recording.journal import DecisionWriter, Header, JournalDamagedError, JournalReader, Record
from runtime.checking import checked_call

ABSENT = "(nothing)"
"""How a value that only the other side has is shown."""


class ReplayDivergedError(CogstepError):
    """A replay decided something else than was recorded; raised by ``ReplayReport.raise_for_divergence``."""

    lines = True


@frozen
class ReplayDivergence:
    """The first difference between what was recorded and what is decided now. As text: two lines, side by side."""

    record: int
    """The record's number, from 1."""
    line: int
    """Its line in the file, from 1."""
    field: str
    """Where in the record, such as ``decisions[1].call.name``."""
    recorded: Any
    """The recorded value there; None if there is none."""
    decided: Any
    """The value there now; None if there is none."""
    _texts: tuple[str, str]

    def __str__(self) -> str:
        where = shown_name(self.field, LONGEST_LINE)
        left, right = (shown_name(text, LONGEST_LINE) for text in self._texts)
        return f"record {self.record} (line {self.line}) differs at {where}\n  recorded: {left}\n  decided:  {right}"


@frozen
class ReplayReport:
    """What a replay found."""

    path: Path
    header: Header
    records: int
    """Records that were folded; after a divergence no more are."""
    decisions: int
    turns: int
    """Turns that came to their end."""
    state: AgentState
    """After the last folded record."""
    divergence: ReplayDivergence | None
    """None: every decision is the same."""
    warnings: tuple[str, ...]
    foreign: str
    """Why the folded records don't count as this user's own; empty if they do."""

    @property
    def same(self) -> bool:
        """Whether every decision is the same as recorded."""
        return self.divergence is None

    def raise_for_divergence(self) -> ReplayReport:
        """This report, if nothing differs.

        Raises:
            ReplayDivergedError: something does; the message shows it.
        """
        if self.divergence is not None:
            raise ReplayDivergedError(f"{shown_name(str(self.path), LONGEST_LINE)}: {self.divergence}")
        return self


@checked_call
def replay(
    path: str | os.PathLike[str],
    engine: CognitiveEngine | Callable[[AgentConfig], CognitiveEngine] | None = None,
    *,
    to: int | None = None,
) -> ReplayReport:
    """Fold the inputs of a journal and compare the decisions with the recorded ones, up to the first difference.

    Args:
        path: the journal.
        engine: decides instead of the recorded one, which is made again from the journal's header; or what makes one
            of the recorded configuration. Shows what changed agent logic would have decided otherwise.
        to: the record after which to stop; the report's ``state`` is the one then.

    Raises:
        JournalError: the file is no journal, of another version, or damaged.
        CogstepError: there is no record ``to``.
    """
    with JournalReader(path) as reader:
        if to is not None and to < 0:
            raise CogstepError(f"{reader.path}: there is no record {to}; the first is 1")
        logic = logic_of(reader.header, engine)
        writer = DecisionWriter()
        driver = follower(logic, reader.header.start)
        records = decisions = turns = 0
        divergence, warnings = None, reader.warnings
        for record, damage in islice(_as_they_stand(reader), to):
            transition = driver.restore(record.input)
            records = record.seq
            divergence = compare(record, writer.data(transition.decisions))
            if divergence is not None:
                warnings = [*warnings, *([] if damage is None else [str(damage)])]
                break
            if damage is not None:
                raise damage
            decisions += len(record.decisions)
            turns += any(isinstance(decision, TurnFinished) for decision in transition.decisions)
        if to is not None and records < to and divergence is None:
            raise CogstepError(f"{reader.path}: there is no record {to}; the newest is {records}")
        return ReplayReport(
            reader.path,
            reader.header,
            records,
            decisions,
            turns,
            driver.state,
            divergence,
            tuple(warnings),
            reader.foreign,
        )


def _as_they_stand(reader: JournalReader) -> Iterator[tuple[Record, JournalDamagedError | None]]:
    """The records; one that was changed on file comes last, with what is wrong: its decisions may show what it was."""
    try:
        for record in reader:
            yield record, None
    except JournalDamagedError as error:
        if error.record is None:
            raise
        yield error.record, error


def logic_of(
    header: Header, engine: CognitiveEngine | Callable[[AgentConfig], CognitiveEngine] | None
) -> CognitiveEngine:
    if engine is None:
        return engine_of(header)
    return (
        engine
        if isinstance(engine, CognitiveEngine) and not isinstance(engine, type)
        else engine(header.config or AgentConfig())
    )


def engine_of(header: Header) -> CognitiveEngine:
    """The engine that recorded a journal, made again; raises CogstepError for one that only its program knows."""
    if header.engine == "llm" and header.config is not None:
        return LLMEngine(header.config)
    if header.engine == "echo":
        return EchoEngine()
    raise CogstepError(
        f"the session was recorded with the engine {header.engine}, which can't be made from the journal; "
        "give one: replay(path, engine=...)"
    )


def compare(record: Record, decided: list[Any]) -> ReplayDivergence | None:
    """Where a record's decisions first differ from those made now."""
    if record.decisions == decided:  # the usual case, at the speed of C
        return None
    where, recorded, now = _first_difference(record.decisions, decided, "decisions")
    return ReplayDivergence(
        record.seq,
        record.seq + 1,  # the header is line 1
        where,
        None if recorded is MISSING else recorded,
        None if now is MISSING else now,
        (_shown(recorded), _shown(now)),
    )


MISSING = object()


def _first_difference(recorded: Any, decided: Any, path: str) -> tuple[str, Any, Any]:
    """The path and the two values of the first leaf that differs."""
    if isinstance(recorded, dict) and isinstance(decided, dict):
        for name in (*recorded, *(name for name in decided if name not in recorded)):
            left, right = recorded.get(name, MISSING), decided.get(name, MISSING)
            if not _same(left, right):
                return _first_difference(left, right, f"{path}.{name}")
    elif isinstance(recorded, list) and isinstance(decided, list):
        for index in range(max(len(recorded), len(decided))):
            left = recorded[index] if index < len(recorded) else MISSING
            right = decided[index] if index < len(decided) else MISSING
            if not _same(left, right):
                return _first_difference(left, right, f"{path}[{index}]")
    return path, recorded, decided


def _same(left: Any, right: Any) -> bool:
    """Equal as JSON: ``1`` and ``true`` are not."""
    return _type(left) is _type(right) and bool(left == right)


def _type(value: Any) -> Any:
    return float if type(value) is int else dict if isinstance(value, Mapping) else type(value)


def _shown(value: Any) -> str:
    return ABSENT if value is MISSING else json.dumps(value, ensure_ascii=False)
