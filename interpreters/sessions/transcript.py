"""A recorded session as the conversation that it was: turn by turn, with what was said, called, asked and decided."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from attrs import define, evolve, field, frozen

from cognition import (
    AgentConfig,
    AgentState,
    ApprovalGiven,
    ApprovalRefused,
    AskApproval,
    Cancelled,
    CognitiveEngine,
    Completed,
    Decision,
    EffectId,
    Failed,
    HookReturned,
    Idle,
    Input,
    LimitHit,
    LimitReached,
    Message,
    ModeChanged,
    ModelReplied,
    Outcome,
    PlanReviewed,
    Rejected,
    RetryPlanned,
    RunHook,
    SessionReset,
    ShutdownAsked,
    TurnFinished,
    Usage,
    UserSpoke,
)
from interpreters.journal import Header, JournalReader
from interpreters.replaying import logic_of

EngineGiven = CognitiveEngine | Callable[[AgentConfig], CognitiveEngine] | None


@frozen
class Entry:
    """A message, or something that happened between messages."""

    record: int
    """The record at which it came to stand there, from 1."""
    at: float
    """Seconds since the epoch."""
    message: Message | None = None
    note: str = ""
    """What happened, in one sentence, where it is no message."""


@frozen
class TranscriptTurn:
    """What happened from one message of the user's to the next."""

    number: int
    """As in the session's own count; 0 is what happened before the first turn."""
    entries: tuple[Entry, ...]
    outcome: Outcome | None
    """None: it was interrupted, or is under way."""
    usage: Usage
    began: float
    ended: float


@frozen
class Transcript:
    """A whole session."""

    path: Path
    header: Header
    turns: tuple[TranscriptTurn, ...]
    in_flight: tuple[str, ...]
    """What was under way when the recording ended: types of decisions, such as ``CallTool``."""
    warnings: tuple[str, ...]

    def messages(self) -> Iterator[tuple[Message, ...]]:
        """The messages of each conversation in it, the recorded start of a fork included; a reset begins a new one."""
        messages = list(self.header.start.history)
        for turn in self.turns:
            for entry in turn.entries:
                if entry.message is not None:
                    messages.append(entry.message)
                elif entry.note == RESET and messages:
                    yield tuple(messages)
                    messages = []
        if messages:
            yield tuple(messages)


RESET = "The conversation was reset."


def read_transcript(path: str | os.PathLike[str], engine: EngineGiven = None) -> Transcript:
    """The conversation in a journal, by folding it: as the engine had it, to the message.

    Args:
        path: the journal.
        engine: see ``replay``; needed for sessions of engines that only their program knows.

    Raises:
        JournalError: it can't be read, or is damaged.
        CogstepError: an engine has to be given.
    """
    with JournalReader(path) as reader:
        logic = logic_of(reader.header, engine)
        state, writer = reader.header.start, _Writer(reader.header.start, reader.header.created)
        for record in reader:
            transition = logic.step(state, record.input)
            state = transition.next_state
            writer.step(record.seq, record.input, state, transition.decisions)
        return Transcript(
            reader.path, reader.header, writer.finished(), writer.in_flight(state), tuple(reader.warnings)
        )


@define
class _Writer:
    """Turns made of steps."""

    _start: AgentState
    _created: float
    _turns: list[TranscriptTurn] = field(factory=list)
    _newest: str = ""
    """The id of the newest message that has been told."""
    _asked: dict[EffectId, Decision] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        history = self._start.history
        self._newest = history[-1].id if len(history) else ""
        self._begin(self._start.counters.turn, self._created)

    def _begin(self, number: int, at: float) -> None:
        self._turns.append(TranscriptTurn(number, (), None, Usage(), at, at))

    def step(self, record: int, event: Input, after: AgentState, decisions: tuple[Decision, ...]) -> None:
        if isinstance(event, UserSpoke) and not any(isinstance(decision, Rejected) for decision in decisions):
            self._begin(after.counters.turn, event.at)
        notes = [*_of_input(event, self._asked), *(_of_decision(decision) for decision in decisions)]
        for decision in decisions:
            if isinstance(decision, AskApproval | RunHook):
                self._asked[decision.effect_id] = decision
        entries = [
            *(Entry(record, event.at, message) for message in self._new(after)),
            *(Entry(record, event.at, note=note) for note in notes if note),
        ]
        turn = self._turns[-1]
        turn = evolve(turn, entries=(*turn.entries, *entries), ended=event.at)
        for decision in decisions:
            if isinstance(decision, TurnFinished):
                turn = evolve(turn, outcome=decision.outcome, usage=decision.usage)
        self._turns[-1] = turn

    def _new(self, after: AgentState) -> list[Message]:
        """The messages that came with a step. History only grows at its end, or is emptied."""
        new: list[Message] = []
        for position in range(len(after.history) - 1, -1, -1):
            message = after.history[position]
            if message.id == self._newest:
                break
            new.append(message)
        if new:
            self._newest = new[0].id
        return new[::-1]

    def finished(self) -> tuple[TranscriptTurn, ...]:
        return tuple(turn for index, turn in enumerate(self._turns) if index or turn.entries)

    @staticmethod
    def in_flight(state: AgentState) -> tuple[str, ...]:
        return () if isinstance(state.phase, Idle) else (type(state.phase).__name__.lower(),)


def _of_input(event: Input, asked: dict[EffectId, Decision]) -> Iterator[str]:
    match event:
        case ApprovalGiven(effect_id=identity, always=always):
            yield f"The user allowed {_asked_name(asked, identity)}{', from now on' if always else ''}."
        case ApprovalRefused(effect_id=identity, reason=reason, always=always):
            why = f": {reason}" if reason else ""
            yield f"{_asked_name(asked, identity)} was refused{', from now on' if always else ''}{why}."
        case PlanReviewed(approved=approved, feedback=feedback):
            yield f"The plan was {'approved' if approved else 'sent back'}{f': {feedback}' if feedback else ''}."
        case HookReturned(effect_id=identity, verdict=verdict, reason=reason) if verdict != "continue":
            hook = asked.get(identity)
            point = hook.point if isinstance(hook, RunHook) else "?"
            yield f"The hook {point} said {verdict}{f': {reason}' if reason else ''}."
        case ModelReplied(malformed=malformed):
            for one in malformed:
                yield f"A call could not be read ({one.reason})."
        case ModeChanged(mode=mode):
            yield f"The mode was set to {mode}."
        case SessionReset():
            yield RESET
        case ShutdownAsked():
            yield "The session was closed."
        case _:
            pass


def _asked_name(asked: dict[EffectId, Decision], identity: EffectId) -> str:
    decision = asked.get(identity)
    return f"`{decision.call.name}`" if isinstance(decision, AskApproval) else "A call"


def _of_decision(decision: Decision) -> str:
    match decision:
        case RetryPlanned(kind=kind, message=message, attempt=attempt, seconds=seconds):
            when = f"after {seconds:g} s" if seconds else "at once"
            return f"The model failed ({kind.replace('_', ' ')}: {message}); attempt {attempt} {when}."
        case LimitHit(limit=limit, detail=detail):
            return f"The limit of {limit.replace('_', ' ')} was reached{f': {detail}' if detail else ''}."
        case Rejected(reason=reason, input=name):
            return f"{name} came and was not used ({reason.replace('_', ' ')})."
        case _:
            return ""


def outcome_text(outcome: Outcome | None) -> str:
    """How a turn ended, in a sentence; empty where its answer says it."""
    match outcome:
        case None:
            return "The turn was interrupted here."
        case Completed(finish_reason="length"):
            return "The answer was cut at the token limit."
        case LimitReached(limit=limit):
            return f"The turn ended at its limit of {limit.replace('_', ' ')}."
        case Cancelled(reason=reason):
            return f"The turn was cancelled{f': {reason}' if reason else ''}."
        case Failed(kind=kind, message=message):
            return f"The turn failed ({kind.replace('_', ' ')}): {message}"
        case _:
            return ""
