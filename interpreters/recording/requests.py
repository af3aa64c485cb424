"""What the model was asked in a recorded session, request by request: a fold of its journal, in one pass.

A journal holds inputs, and of each request only a digest. So the requests are made again by the engine that recorded
them, and each is compared with its digest: what is given here is what the model was shown, or it is said that it is
not. No model is asked, no tool runs, nothing is written. Memory holds one state, as the session itself did.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from attrs import evolve, frozen

from cognition import (
    AgentConfig,
    AgentState,
    CallModel,
    CallTool,
    CancelEffect,
    CogstepError,
    ContextAssembled,
    ContextChosen,
    Decision,
    Input,
    Message,
    ModelFailed,
    ModelInterrupted,
    ModelReplied,
    Rejected,
    ToolCall,
    ToolFailed,
    ToolMessage,
    ToolReturned,
    Usage,
    UserSpoke,
)
from cognition.context import result_limit
from cognition.ids import EffectId
from interpreters.driver import follower
from interpreters.recording.digest import RequestDigest
from interpreters.recording.journal import JournalReader, Record
from interpreters.recording.recorder import Where
from interpreters.recording.replaying import EngineGiven, logic_of

Ended = Literal["replied", "failed", "interrupted", "cancelled", "open"]
"""How a model call ended; ``open``: the recording ends before it did."""


@frozen
class Ending:
    """What became of a model call."""

    ended: Ended = "open"
    usage: Usage = Usage()
    """As the runtime counted it; zeros where it counted nothing, and of a call that was cancelled."""
    detail: str = ""
    """Why a reply ended, as in ``ModelReplied.finish_reason``, or what failed."""


OPEN = Ending()


@frozen
class RecordedRequest:
    """One model call of a session, with all that it was made of."""

    number: int
    """Counts the model calls of the recording from 1."""
    record: int
    """The record whose input led to it, from 1."""
    at: float
    """The time of that input, in seconds since the epoch."""
    call: CallModel
    state: AgentState
    """The state that the call was decided in: its history and window are those that the request shows."""
    assembled: ContextAssembled | None
    """The engine's own account; None of an engine that gives none."""
    chosen: ContextChosen | None
    """What became of the candidates for this turn's sections; None where there were none."""
    same: bool
    """Whether it is the request that was sent, by its digest."""
    ending: Ending = OPEN

    @property
    def step(self) -> str:
        """``turn.step``, such as ``2.1``: attempts of the same step share it."""
        return str(self.call.effect_id).rpartition(".")[0]


class LongResults:
    """What is left out of tool results as they come into history: the rest of them stands in the journal only.

    Attributes:
        hidden: by the id of a call, how many characters of its result history does not have.
    """

    def __init__(self, config: AgentConfig | None) -> None:
        """``config``: what the engine was made of; of an engine without one, nothing is known."""
        self.hidden: dict[str, int] = {}
        tools = () if config is None else config.tools
        self._limit = None if config is None else result_limit(config)
        self._limits = {tool.name: tool.output_limit for tool in tools if tool.output_limit is not None}
        self._whole: dict[str, str] = {}
        """Results that are too long and have not come into history yet, by the ids of their calls."""

    def returned(self, call: ToolCall, event: ToolReturned | ToolFailed) -> None:
        """A call has given this, which may be too long for history."""
        text = event.content if isinstance(event, ToolReturned) else event.message
        if self._limit is not None and len(text) > min(self._limit, self._limits.get(call.name, self._limit)):
            self._whole[call.id] = text

    def appended(self, history: Sequence[Message], before: int) -> None:
        """History has grown by what stands behind its first ``before`` messages; or it was emptied."""
        if not self._whole or len(history) == before:
            return
        for message in history[before:]:
            if isinstance(message, ToolMessage):
                self.came(message)
        self._whole.clear()

    def came(self, message: ToolMessage) -> None:
        """This message has come into history."""
        whole = self._whole.pop(message.call_id, "")
        if whole not in message.content:  # the program's own note may stand behind it
            self.hidden[message.call_id] = len(whole) - kept_of(whole, message.content)


class RecordedRequests:
    """The requests of a recording, in order, by folding it once; a context manager that is iterated once.

    Args:
        path: the journal: a file, or a ``Recorder``.
        engine: see ``replay``; needed for sessions of engines that only their program knows.

    Attributes:
        config: what the engine was made from; None of one that has no such configuration.
        long_results: what was left out of results as they came into history.
        diverged: the first record whose request is not the recorded one; 0: there is none so far.
        count, records: how many requests and records were read so far.

    Raises:
        JournalError: it can't be read; by iterating, that it is damaged.
        CogstepError: an engine has to be given.
    """

    def __init__(self, path: Where, engine: EngineGiven = None) -> None:
        self._reader = JournalReader(path)
        try:
            header = self._reader.header
            self._driver = follower(logic_of(header, engine), header.start)
        except BaseException:
            self._reader.__exit__()
            raise
        self.config = header.config
        self.long_results = LongResults(self.config)
        self.diverged = self.count = self.records = 0
        self._digest = RequestDigest()

    def __enter__(self) -> RecordedRequests:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.__exit__()

    @property
    def path(self) -> str:
        """The journal's name, for messages."""
        return str(self._reader.path)

    @property
    def session(self) -> str:
        """The session's name."""
        return self._reader.header.session

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was found and left out, such as a torn last line; complete once all was read."""
        return tuple(self._reader.warnings)

    @property
    def foreign(self) -> str:
        """Why what was read so far doesn't count as this user's own; empty if it does."""
        return self._reader.foreign

    def __iter__(self) -> Iterator[RecordedRequest]:
        """Each request once it is known how it ended.

        Raises:
            JournalDamagedError, UnknownTagError: at the line in question.
        """
        under_way, chosen = list[RecordedRequest](), None
        for record in self._reader:
            self.records = record.seq
            event, before = record.input, len(self._driver.state.history)
            if isinstance(event, ToolReturned | ToolFailed):
                effect = self._driver.in_flight.get(event.effect_id)
                if isinstance(effect, CallTool):
                    self.long_results.returned(effect.call, event)
            transition = self._driver.restore(event)
            self.long_results.appended(transition.next_state.history, before)
            decisions = transition.decisions
            refused = bool(decisions) and isinstance(decisions[0], Rejected)
            if isinstance(event, UserSpoke) and not refused:
                chosen = next((one for one in decisions if isinstance(one, ContextChosen)), None)
            for request in tuple(under_way):
                ending = OPEN
                for value in () if refused else (event, *decisions):
                    ending = ending_of(request.call.effect_id, value, ending)
                if ending is not OPEN:
                    under_way.remove(request)
                    yield evolve(request, ending=ending)
            assembled: ContextAssembled | None = None
            calls = 0
            for decision in decisions:
                if isinstance(decision, ContextAssembled):
                    assembled = decision
                elif isinstance(decision, CallModel):
                    self.count, calls = self.count + 1, calls + 1
                    same = self._digest.of(decision.request) == _recorded_digest(record, decision.effect_id)
                    self._diverge(record, same=same)
                    state = transition.next_state
                    under_way.append(
                        RecordedRequest(self.count, record.seq, event.at, decision, state, assembled, chosen, same)
                    )
                    assembled = None
            self._diverge(record, same=calls == sum(map(_asks_the_model, record.decisions)))
        yield from under_way

    def _diverge(self, record: Record, *, same: bool) -> None:
        if not same and not self.diverged:
            self.diverged = record.seq


def kept_of(whole: str, shown: str) -> int:
    """How many characters of a text still stand at the beginning and at the end of a shorter one."""
    head = _alike(whole, shown)
    return head + _alike(whole[head:][::-1], shown[head:][::-1])


def _alike(one: str, other: str) -> int:
    """How many characters both begin with."""
    parts = (place for place, (left, right) in enumerate(zip(one, other, strict=False)) if left != right)
    return next(parts, min(len(one), len(other)))


def ending_of(effect_id: EffectId, value: Input | Decision, before: Ending = OPEN) -> Ending:
    """How a model call ended by this input or decision; ``before`` where it did not."""
    match value:
        case ModelReplied(effect_id=answered, finish_reason=reason, usage=usage) if answered == effect_id:
            return Ending("replied", usage, reason)
        case ModelFailed(effect_id=answered, failure=failure, usage=usage) if answered == effect_id:
            return Ending("failed", usage, failure.message)
        case ModelInterrupted(effect_id=answered, usage=usage, late=late) if answered == effect_id:
            return Ending("interrupted", usage, "its time was over" if late else "")
        case CancelEffect(effect_id=cancelled) if cancelled == effect_id:
            return Ending("cancelled")
        case _:
            return before


def _asks_the_model(decision: Any) -> bool:
    return isinstance(decision, dict) and decision.get("type") == CallModel.tag


def _recorded_digest(record: Record, effect_id: EffectId) -> Any:
    """The digest that stands on file for this model call; None if there is no such call."""
    for decision in record.decisions:
        if _asks_the_model(decision) and decision.get("effect_id") == effect_id:
            return decision.get("digest")
    return None


def request_named(requests: RecordedRequests, *names: str) -> tuple[RecordedRequest, ...]:
    """The requests of these names, in their order.

    A name is a number from 1, a step such as ``2.1`` (of several attempts the last one), or the effect id of one
    attempt, such as ``2.1.0``. ``last`` is the newest.

    Raises:
        CogstepError: there is no request of a name.
        JournalDamagedError, UnknownTagError: as by iterating.
    """
    found: dict[str, RecordedRequest] = {}
    newest: RecordedRequest | None = None
    for request in requests:
        for name in {str(request.number), request.step, str(request.call.effect_id), "last"}.intersection(names):
            found[name] = request
        newest = request
    for name in names:
        if name not in found:
            there = "it has none" if newest is None else f"its {newest.number} end with step {newest.step}"
            raise CogstepError(f"{requests.path}: there is no request {name}; {there}")
    return tuple(found[name] for name in names)
