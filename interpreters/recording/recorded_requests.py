"""The model requests of a recorded session, recreated by replaying its journal in one pass.

A journal contains inputs, but only a digest of each request. The engine recreates the requests, and each is compared
with its digest. So each result either is the request that was sent, or is marked as different. Nothing calls a model,
runs a tool or writes. Memory use is that of one state, as in the session itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from attrs import evolve, frozen

from cognition import (
    AgentConfig,
    AgentState,
    CallModel,
    CancelEffect,
    CogstepError,
    ContextAssembled,
    ContextChosen,
    Decision,
    Input,
    ModelFailed,
    ModelInterrupted,
    ModelReplied,
    Rejected,
    Usage,
    UserSpoke,
)
from cognition.base.ids import EffectId
from interpreters.loop.driver import follower
from interpreters.recording.journal import JournalReader, Record
from interpreters.recording.recorder import Where
from interpreters.recording.replay import EngineGiven, logic_of
from interpreters.recording.request_digest import RequestDigest
from runtime.closeable import Closeable

EndingKind = Literal["replied", "failed", "interrupted", "cancelled", "open"]
"""How a model call ended. ``open``: the recording ends before the call did."""


@frozen
class Ending:
    """The end of a model call."""

    ended: EndingKind = "open"
    usage: Usage = Usage()
    """Usage counted by the runtime; zeros without a count, and for a cancelled call."""
    detail: str = ""
    """Why a reply ended, as in ``ModelReplied.finish_reason``, or the failure."""


OPEN = Ending()


@frozen
class RecordedRequest:
    """One model call of a session, with everything that it was built from."""

    number: int
    """Number of the model call in the recording, from 1."""
    record: int
    """The record whose input led to the call, from 1; 0 for a running session."""
    at: float
    """Time of that input, in seconds since the epoch; 0 for a running session."""
    call: CallModel
    state: AgentState
    """State in which the call was decided. The request shows its history and window."""
    assembled: ContextAssembled | None
    """The engine's own account of the request; None if it gives none."""
    chosen: ContextChosen | None
    """Results for the candidates of this turn's sections; None without candidates."""
    same: bool
    """Whether the digest shows that this is the request sent."""
    ending: Ending = OPEN

    @property
    def step(self) -> str:
        """``turn.step``, such as ``2.1``. Attempts of the same step share it."""
        return str(self.call.effect_id).rpartition(".")[0]


class RecordedRequests(Closeable):
    """The requests of a recording, in order, from one replay. A context manager that can be iterated once.

    Args:
        path: the journal: a file, or a ``Recorder``.
        engine: see ``replay``; necessary for custom engines of a program.

    Attributes:
        config: configuration of the engine; None if it has none.
        diverged: the first record whose request differs from the recorded one; 0 if there is none so far. count,
            records: number of requests and records read so far.

    Raises:
        JournalError: the journal can't be read; during iteration, it is damaged.
        CogstepError: an engine is necessary.
    """

    diverged: int
    count: int
    records: int

    def __init__(self, path: Where, engine: EngineGiven = None) -> None:
        self._reader = JournalReader(path)
        try:
            header = self._reader.header
            self._driver = follower(logic_of(header, engine), header.start)
        except BaseException:
            self._reader.close()
            raise
        self.config: AgentConfig | None = header.config
        self.diverged = self.count = self.records = 0
        self._digest = RequestDigest()

    def close(self) -> None:
        self._reader.close()

    @property
    def path(self) -> str:
        """The journal's name, for messages."""
        return str(self._reader.path)

    @property
    def session(self) -> str:
        return self._reader.header.session

    @property
    def warnings(self) -> tuple[str, ...]:
        """Problems that were skipped, such as a torn last line; complete after the iteration."""
        return tuple(self._reader.warnings)

    @property
    def foreign(self) -> str:
        """Why the records read so far do not count as this user's own; empty if they do."""
        return self._reader.foreign

    def __iter__(self) -> Iterator[RecordedRequest]:
        """Yield each request once its end is known.

        Raises:
            JournalDamagedError, UnknownTagError: at the line in question.
        """
        under_way, chosen = list[RecordedRequest](), None
        for record in self._reader:
            self.records = record.seq
            event = record.input
            transition = self._driver.restore(event)
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
            calls = list[bool]()
            for decision in decisions:
                if isinstance(decision, ContextAssembled):
                    assembled = decision
                elif isinstance(decision, CallModel):
                    self.count += 1
                    same = self._digest.of(decision.request) == _recorded_digest(record, decision.effect_id)
                    calls.append(same)
                    state = transition.next_state
                    under_way.append(
                        RecordedRequest(self.count, record.seq, event.at, decision, state, assembled, chosen, same)
                    )
                    assembled = None
            if not self.diverged and (not all(calls) or len(calls) != sum(map(_calls_model, record.decisions))):
                self.diverged = record.seq
        yield from under_way


def ending_of(effect_id: EffectId, value: Input | Decision, before: Ending = OPEN) -> Ending:
    """Return how this input or decision ended a model call, or ``before`` if it did not."""
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


def _calls_model(decision: Any) -> bool:
    return isinstance(decision, dict) and decision.get("type") == CallModel.tag


def _recorded_digest(record: Record, effect_id: EffectId) -> Any:
    for decision in record.decisions:
        if _calls_model(decision) and decision.get("effect_id") == effect_id:
            return decision.get("digest")
    return None


def find_requests(requests: RecordedRequests, *names: str) -> tuple[RecordedRequest, ...]:
    """Return the requests with these names, in the order of the names.

    A name is a number from 1, a step such as ``2.1`` (its last attempt), or the effect id of one attempt, such as
    ``2.1.0``. ``last`` is the newest request.

    Raises:
        CogstepError: a request does not exist. JournalDamagedError, UnknownTagError: as by iterating.
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
