"""A recorded session as a conversation: turn by turn, with messages, calls, questions and decisions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from attrs import define, evolve, field, frozen

from cognition import (
    AgentState,
    ApprovalGiven,
    ApprovalRefused,
    ApprovalsForgotten,
    AskApproval,
    AssistantMessage,
    BreakerClosed,
    BreakerOpened,
    CallJudged,
    Cancelled,
    Compacted,
    Completed,
    Decision,
    EffectId,
    Failed,
    FellBack,
    HookReturned,
    Input,
    LimitHit,
    LimitReached,
    Message,
    ModeChanged,
    ModelChosen,
    ModelReplied,
    NotCompacted,
    Outcome,
    PlanReviewed,
    Rejected,
    RetryPlanned,
    RunHook,
    SessionReset,
    ShutdownAsked,
    ToolMessage,
    Transition,
    TurnFinished,
    Usage,
    UserMessage,
    UserSpoke,
    in_flight,
)
from cognition.base.display import LONGEST_LINE
from cognition.context.window import shorten
from cognition.steps.decisions import EFFECT_TYPES
from interpreters.observing.events import EventValue
from interpreters.observing.step_events import events_of
from interpreters.recording.journal import Header, JournalReader
from interpreters.recording.recorder import Where
from interpreters.recording.replay import EngineGiven, logic_of

NEW_PROMPT = "The program made a new system prompt."


@frozen
class TranscriptEntry:
    """A message, or an event between messages."""

    record: int
    """Number of the record that contains it, from 1."""
    at: float
    """Seconds since the epoch."""
    message: Message | None = None
    note: str = ""
    """Description of an event, in one sentence of at most some 2,000 characters; empty for a message."""
    resets: bool = False
    """Whether a new conversation begins here."""
    system: str | None = None
    """The system prompt from here on, if a message changed it."""


@frozen
class TranscriptTurn:
    """Everything from one message of the user to the next."""

    number: int
    """Number of the turn in the session; 0 for events before the first turn."""
    entries: tuple[TranscriptEntry, ...]
    outcome: Outcome | None
    """How the turn ended; None if it was interrupted, or is under way."""
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
    """Class names of the effects in flight at the end of the recording, such as ``CallTool``."""
    warnings: tuple[str, ...]
    foreign: str
    """Why the recording does not count as this user's own; empty if it does."""

    def messages(self) -> Iterator[tuple[Message, ...]]:
        """Yield the messages of each conversation, including the recorded start of a fork. A reset begins a new
        conversation.
        """
        for _, messages in self.conversations():
            yield messages

    def conversations(self) -> Iterator[tuple[str | None, tuple[Message, ...]]]:
        """Yield the same, each with its last system prompt from a message; None for the configuration's prompt."""
        messages, system = list(self.header.start.history), self.header.start.system
        for turn in self.turns:
            for entry in turn.entries:
                system = system if entry.system is None else entry.system
                if entry.message is not None:
                    messages.append(entry.message)
                elif entry.resets and messages:
                    yield system, tuple(messages)
                    messages = []
        if messages:
            yield system, tuple(messages)


def read_transcript(path: Where, engine: EngineGiven = None) -> Transcript:
    """Return the conversation in a journal by replaying it, exactly as the engine had it.

    Args:
        path: the journal: a file, or a ``Recorder``.
        engine: see ``replay``; necessary for custom engines of a program.

    Raises:
        JournalError: the journal can't be read, or is damaged.
        CogstepError: an engine is necessary.
    """
    with JournalReader(path) as reader:
        logic = logic_of(reader.header, engine)
        state, writer = reader.header.start, _TurnCollector()
        writer.begin(state.counters.turn, reader.header.created)
        for record in reader:
            transition = logic.step(state, record.input)
            writer.step(record.seq, state, record.input, transition)
            state = transition.next_state
        return Transcript(
            reader.path,
            reader.header,
            tuple(turn for index, turn in enumerate(writer.turns) if index or turn.entries),
            tuple(writer.effects[one].__name__ for one in in_flight(state.phase) if one in writer.effects),
            tuple(reader.warnings),
            reader.foreign,
        )


@define
class _TurnCollector:
    """Collects turns from the values that observers would receive for each step."""

    turns: list[TranscriptTurn] = field(factory=list)
    effects: dict[EffectId, type[Decision]] = field(factory=dict)
    asked: dict[EffectId, Decision] = field(factory=dict)
    """The effects whose answers are described. Not the others: a request to a model holds the whole conversation."""
    _calls: dict[str, str] = field(factory=dict)
    """The tool of each call of a reply, by call id."""

    def begin(self, number: int, at: float) -> None:
        self.turns.append(TranscriptTurn(number, (), None, Usage(), at, at))

    def step(self, record: int, before: AgentState, event: Input, transition: Transition) -> None:
        messages: list[Message] = []
        notes: list[str] = []
        for decision in transition.decisions:
            if isinstance(decision, Rejected):
                notes.append(f"{decision.input} came and was not used ({decision.reason.replace('_', ' ')}).")
            elif isinstance(decision, EFFECT_TYPES):
                self.effects[decision.effect_id] = type(decision)
                if isinstance(decision, AskApproval | RunHook):
                    self.asked[decision.effect_id] = decision
        end: TurnFinished | None = None
        resets, system = False, None
        for state, value in events_of(before, event, transition):
            match value:
                case UserSpoke():
                    self.begin(state.counters.turn, event.at)
                    system = value.system
                case UserMessage() | AssistantMessage() | ToolMessage():
                    messages.append(value)
                    if isinstance(value, AssistantMessage):
                        self._calls |= {call.id: f"`{call.name}`" for call in value.calls}
                case TurnFinished():
                    end = value
                case _:
                    notes += _describe_event(value, self.asked, self._calls)
                    resets = resets or isinstance(value, SessionReset)
        turn = self.turns[-1]
        entries = (
            *([] if system is None else [TranscriptEntry(record, event.at, note=NEW_PROMPT, system=system)]),
            *(TranscriptEntry(record, event.at, one) for one in messages),
            *(TranscriptEntry(record, event.at, note=shorten(note, LONGEST_LINE), resets=resets) for note in notes),
        )
        outcome, usage = (turn.outcome, turn.usage) if end is None else (end.outcome, end.usage)
        self.turns[-1] = evolve(turn, entries=(*turn.entries, *entries), ended=event.at, outcome=outcome, usage=usage)


def _describe_event(value: EventValue, asked: Mapping[EffectId, Decision], calls: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for an event that is not visible in a message. ``calls``: their tools, by id."""
    match value:
        case ApprovalGiven(effect_id=effect_id, arguments_json=edited):
            other = "" if edited is None else f" with the arguments `{edited}`"
            yield f"The user allowed {_find_asked_name(asked, effect_id)}{other}{_describe_rule(value)}."
        case ApprovalRefused(effect_id=effect_id, reason=reason, failed=True):
            yield f"{_find_asked_name(asked, effect_id)} would fail, so nobody was asked: {reason}."
        case ApprovalRefused(effect_id=effect_id, reason=reason):
            why = f": {reason}" if reason else ""
            yield f"{_find_asked_name(asked, effect_id)} was refused{_describe_rule(value)}{why}."
        case ApprovalsForgotten(rules=rules):
            what = ", ".join(f"`{rule}`" for rule in rules) or "all of it"
            yield f"The user took back what was said from now on: {what}."
        case CallJudged(call_id=call_id):
            yield _describe_judgement(value, calls.get(call_id, "A call"))
        case PlanReviewed(approved=approved, feedback=feedback):
            yield f"The plan was {'approved' if approved else 'sent back'}{f': {feedback}' if feedback else ''}."
        case HookReturned(effect_id=effect_id, verdict=verdict, reason=reason) if verdict != "continue":
            hook = asked.get(effect_id)
            point = hook.point if isinstance(hook, RunHook) else "?"
            yield f"The hook {point} said {verdict}{f': {reason}' if reason else ''}."
        case ModelReplied(malformed=malformed):
            for one in malformed:
                yield f"A call could not be read ({one.reason})."
        case ModeChanged(mode=mode):
            yield f"The mode was set to {mode}."
        case SessionReset():
            yield "The conversation was reset."
        case ShutdownAsked():
            yield "The session was closed."
        case RetryPlanned(kind=kind, message=message, attempt=attempt, seconds=seconds, call_id=call_id):
            when = f"after {seconds:g} s" if seconds else "at once"
            whose = f"The call {call_id}" if call_id else "The model"
            yield f"{whose} failed ({kind.replace('_', ' ')}: {message}); attempt {attempt} {when}."
        case FellBack(model=model, to=to, kind=kind, message=message):
            failed = f"{model or 'The model'} failed ({kind.replace('_', ' ')}: {message})"
            yield f"{failed}; {to or 'the own model'} is called instead."
        case BreakerOpened(model=model, seconds=seconds):
            yield f"{model or 'The model'} is not called for {seconds:g} s where there is another one."
        case BreakerClosed(model=model):
            yield f"{model or 'The model'} answers again."
        case ModelChosen(model=model):
            yield f"{model or 'The own model'} was chosen to answer."
        case Compacted(messages=count, before=before, after=after):
            yield f"{count} messages were summarised: a prompt of about {before} tokens has {after} now."
        case NotCompacted(reason=reason):
            yield f"No summary was made: {reason}."
        case LimitHit(limit=limit, detail=detail):
            yield f"The limit of {limit.replace('_', ' ')} was reached{f': {detail}' if detail else ''}."
        case _:
            pass


def _describe_rule(answer: ApprovalGiven | ApprovalRefused) -> str:
    if not answer.always:
        return ""
    return f", from now on for `{answer.rule}`" if answer.rule else ", from now on"


def _describe_judgement(judged: CallJudged, name: str) -> str:
    done = {"allow": "was allowed", "ask": "was to be asked about", "deny": "was denied"}[judged.action]
    rule = f" by the rule `{judged.rule}`" if judged.rule else "" if judged.reason else " by default"
    return f"{name} {done}{rule}{f': {judged.reason}' if judged.reason else ''}."


def _find_asked_name(asked: Mapping[EffectId, Decision], effect_id: EffectId) -> str:
    decision = asked.get(effect_id)
    return f"`{decision.call.name}`" if isinstance(decision, AskApproval) else "A call"


def outcome_text(outcome: Outcome | None) -> str:
    """Return how a turn ended, in a sentence; empty if the answer shows it."""
    match outcome:
        case None:
            return "The turn was interrupted here."
        case Completed(finish_reason="length") | LimitReached(limit="max_tokens"):  # the first in earlier recordings
            return "The answer was cut at the token limit."
        case LimitReached(limit=limit):
            return f"The turn ended at its limit of {limit.replace('_', ' ')}."
        case Cancelled(reason=reason):
            return f"The turn was cancelled{f': {reason}' if reason else ''}."
        case Failed(kind=kind, message=message):
            return f"The turn failed ({kind.replace('_', ' ')}): {message}"
        case _:
            return ""
