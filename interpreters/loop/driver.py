"""The loop of every session: take an input, step, record, carry out, repeat.

It does not depend on models, tools, threads or files, and never waits. A table of handlers defines how effects begin.
The interpreter supplies the inputs: the sync one waits at a queue, the asyncio one awaits, and a resumed session begins
with its recorded inputs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from time import time
from typing import Any, Protocol, TypeVar

from attrs import evolve, fields, frozen

from cognition import (
    AgentState,
    CallTool,
    CancelEffect,
    CognitiveEngine,
    ConfigError,
    Decision,
    EffectId,
    Input,
    ToolFailed,
    ToolReturned,
    Transition,
    WorkerFinished,
)
from cognition.steps.decisions import EFFECT_TYPES, Effect
from cognition.steps.inputs import INPUT_TYPES

V = TypeVar("V")

SECRET_LOST = (
    "the program ended before this call ran, and a secret in it was not recorded; ask for the secret again if it is "
    "needed"
)

Handler = Callable[[Any, Any], object]
"""Begins to carry out decisions of one type: an unbound method of an interpreter that takes the decision.

The answer comes later, as an input.
"""

Handlers = Mapping[type[Decision], Handler]
"""Handlers by decision type. Every effect needs a handler; a notice may have one.

One table serves all interpreters of a kind.
"""

Reveal = Callable[[V], V]
"""Returns a value with placeholders replaced by the real texts."""

Watcher = Callable[[AgentState, Input, Transition, Reveal[Any]], None]
"""Called for each step with the state before it, the input, the transition and a function that reveals its messages."""


Settle = Callable[[Effect, float], "Effect | Input"]
"""Takes an effect and the seconds since its interruption; returns the effect to begin again, or the input that answers
it.
"""


Elsewhere = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Calls a function on another thread. The call has ended when this returns or raises, even if the task is cancelled."""


class InputRedactor(Protocol):
    """Hides secrets before the engine sees them, and restores them where decisions are carried out."""

    def hide(self, value: V) -> tuple[V, Sequence[Any]]:
        """Return the value with placeholders for secrets, and a note of each secret for the recorder."""

    def reveal(self, value: V) -> V:
        """Return the value with placeholders replaced by the real texts."""

    def lacks(self, value: object) -> bool:
        """Whether the value contains a placeholder whose real text is lost."""


class Writer(Protocol):
    """A destination for inputs and decisions, such as a ``Journal``."""

    @property
    def redactor(self) -> InputRedactor | None:
        """The redactor that hides secrets from this recording; None if it hides none."""

    @property
    def written(self) -> int:
        """The number of records written permanently."""

    def waits(self, event: Input, transition: Transition) -> bool:
        """Whether ``write`` is expected to wait for the disk."""

    def write(self, event: Input, transition: Transition, redacted: Sequence[Any] = ()) -> None:
        """Write an input with its decisions and the notes of hidden secrets.

        If it raises, no decision of the transition is carried out.
        """


class InputCounter(Protocol):
    """Adds token counts to inputs; implemented by ``Counter``."""

    def has_texts(self, event: Input) -> bool:
        """Whether an input contains anything to count."""

    def add_counts(self, event: Input) -> Input:
        """Return the input with token counts added (may block on the model), or unchanged."""


NO_EFFECTS: frozenset[EffectId] = frozenset()
"""One constant for all sessions, so that the garbage collector has fewer objects to scan."""

BEGINNING = AgentState()

NOTHING = (0.0, Transition(BEGINNING))
"""Initial value for the time of the newest input and its transition."""


@frozen(eq=False)
class Step:
    """An input and the decisions about it."""

    original: Input
    event: Input
    """The input as the engine sees it."""
    redacted: Sequence[Any]
    transition: Transition
    shown: tuple[Decision, ...]
    """The decisions with real secrets in place of placeholders, for the handlers."""


class Driver:
    """One session: its engine, its state and its effects in flight.

    Args:
        engine: makes the decisions.
        handlers: begin the decisions.
        interpreter: first argument of the handlers.
        now: returns the time for inputs, in seconds since the epoch.
        state: start of the session; None for a new session.
        recorder: records inputs and decisions; None for no recording.
        watcher: called for each step.

    Raises:
        ConfigError: an effect that the engine lists has no handler.
    """

    def __init__(
        self,
        engine: CognitiveEngine,
        handlers: Handlers,
        interpreter: object = None,
        *,
        now: Callable[[], float],
        state: AgentState | None = None,
        recorder: Writer | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        needed: tuple[type[Effect], ...] = getattr(engine, "effects", ())  # an engine need not say
        missing = [kind.__name__ for kind in needed if kind not in handlers]
        if missing:
            raise ConfigError(f"a driver needs a handler for each effect; there is none for {', '.join(missing)}")
        self.engine = engine
        self.state: AgentState = BEGINNING if state is None else state
        self.in_flight: dict[EffectId, Effect] = {}
        """Effects that were decided and neither answered nor cancelled, oldest first."""
        self.pending: set[EffectId] = set()
        """Effects in flight whose answers are handed in later. No run waits for them."""
        self.left = False
        """Whether the run ends with its turn open. A later run continues the effects in flight."""
        self.lost: frozenset[EffectId] = NO_EFFECTS
        """Effects whose answer arrived but could not be recorded."""
        self.counter: InputCounter | None = None
        """Adds token counts to inputs before they get their time; None if sizes are estimated."""
        self._last = NOTHING
        """The time of the newest restored input, and its transition."""
        self._handlers = handlers
        self._interpreter = interpreter
        self._now = now
        self._recorder = recorder
        self._watcher = watcher

    @property
    def written(self) -> int:
        return 0 if self._recorder is None else self._recorder.written

    @property
    def is_busy(self) -> bool:
        """Whether an effect in flight is being worked on."""
        return len(self.in_flight) > len(self.pending) and not self.left

    @property
    def redactor(self) -> InputRedactor | None:
        """The redactor of the recording. With it, the engine may see placeholders in place of secrets."""
        return None if self._recorder is None else self._recorder.redactor

    def advance(self, event: Input) -> None:
        """Take one input: stamp it, step, record it with its decisions, then begin to carry them out."""
        before, written, step = self.state, self.written, None
        try:
            if self.counter is not None and self.counter.has_texts(event):
                event = self.counter.add_counts(event)
            step = self.step(event)
            if self._recorder is not None:
                self.record(step)
            self.publish(step)
            self._hand_over(step.shown)
        except BaseException:
            self.abandon(event, step, before, written)
            raise

    async def advance_async(self, event: Input, elsewhere: Elsewhere) -> None:
        """``advance``, but waits for the disk and for token counts on another thread."""
        before, written, step = self.state, self.written, None
        try:
            if self.counter is not None and self.counter.has_texts(event):
                event = await elsewhere(partial(self.counter.add_counts, event))
            step = self.step(event)
            await self.conclude(step, written, self.begin_recording(step, elsewhere))
        except BaseException:
            self.abandon(event, step, before, written)
            raise

    # ``advance`` in parts, for who has to do something between them. Nothing else is asked of the driver meanwhile.

    def step(self, event: Input) -> Step:
        """Stamp an input that already has its counts, and decide. Neither the recording nor the state changes."""
        # Milliseconds: finer ones would only swell recordings. In a fifth of the time that `round` takes.
        at = (self._now() * 1000.0 + 0.5) // 1.0 / 1000.0
        kind: Any = type(event)
        others = OTHER_FIELDS.get(kind)
        original: Input = kind(*others(event), at=at) if others is not None else evolve(event, at=at)
        if self._recorder is None:
            transition = self.engine.step(self.state, original)
            return Step(original, original, (), transition, transition.decisions)
        redactor = self._recorder.redactor
        event, redacted = (original, ()) if redactor is None else redactor.hide(original)
        transition = self.engine.step(self.state, event)
        return Step(original, event, redacted, transition, self.reveal(transition.decisions))

    def record(self, step: Step) -> None:
        """Record a step before any of its decisions begins."""
        if self._recorder is not None:
            self._recorder.write(step.event, step.transition, step.redacted)

    def begin_recording(self, step: Step, elsewhere: Elsewhere) -> Awaitable[None] | None:
        """Record a step. If that waits for the disk, return an awaitable that records it on another thread."""
        if self._recorder is not None and self._recorder.waits(step.event, step.transition):
            return elsewhere(partial(self.record, step))
        self.record(step)
        return None

    async def conclude(self, step: Step, written: int, recording: Awaitable[None] | None) -> None:
        """Begin the decisions of a step, once it is recorded.

        Args:
            step: the step.
            written: number of records before the step.
            recording: result of ``begin_recording``.
        """
        if recording is not None:
            try:
                await recording
            except BaseException:
                if self.written > written:  # the task was cancelled meanwhile: what was written holds
                    self.carry_out(step)
                raise
        self.carry_out(step)

    def carry_out(self, step: Step) -> None:
        """Begin the decisions of a recorded step."""
        self.publish(step)
        self._hand_over(step.shown)

    def publish(self, step: Step) -> None:
        """Move to the state after a recorded step and call the watcher. No decision begins."""
        before, transition, decisions = self.state, step.transition, step.shown
        self._take_over(step.event, transition)
        if self._watcher is not None:
            revealed = transition if decisions is transition.decisions else Transition(self.state, decisions)
            self._watcher(before, step.original, revealed, self.reveal)

    def abandon(self, event: Input, step: Step | None, before: AgentState, written: int) -> None:
        """Leave a step that an error or an interrupt ended. A recorded step is kept; an unrecorded answer is noted as
        lost.

        Args:
            event: the input.
            step: the step; None if it failed before the decision.
            before: state before the step.
            written: number of records before the step.
        """
        if self.state is not before:  # it came when the session stood where the step leads to
            return
        if step is not None and self.written > written:
            self._take_over(step.event, step.transition)
        elif isinstance(event, ToolReturned | WorkerFinished):
            self.lost |= {event.effect_id}

    def _take_over(self, event: Input, transition: Transition) -> None:
        """Move to the state after a step and update the effects in flight. Idempotent."""
        answered: EffectId | None = getattr(event, "effect_id", None)
        if answered is not None:
            self.in_flight.pop(answered, None)
            self.pending.discard(answered)
        for decision in transition.decisions:
            effect: Any = decision
            if IS_EFFECT[type(decision)]:
                self.in_flight[effect.effect_id] = effect
            elif isinstance(decision, CancelEffect):
                self.in_flight.pop(decision.effect_id, None)
                self.pending.discard(decision.effect_id)
        self.state = transition.next_state

    def waits(self, event: Input) -> bool:
        """Whether an input without decisions would wait for the disk."""
        return self._recorder is not None and self._recorder.waits(event, Transition(self.state))

    def reveal(self, value: V) -> V:
        """Return the value with the real secrets in place of the recording's placeholders."""
        redactor = self.redactor
        return value if redactor is None else redactor.reveal(value)

    def _hand_over(self, decisions: Iterable[Decision]) -> None:
        for decision in decisions:
            kind = type(decision)
            handler = self._handlers.get(kind)
            if handler is not None:
                handler(self._interpreter, decision)
            elif IS_EFFECT[kind]:  # it would be waited for without end
                raise ConfigError(f"nothing here can carry out {type(decision).__name__}, which the engine decided")

    def dispose(self) -> None:
        """Drop the handlers. No decision is carried out afterwards."""
        self._handlers, self._interpreter, self.counter = {}, None, None

    def restore(self, event: Input) -> Transition:
        """Apply an input that is already on file: the state changes, but it is neither written nor carried out."""
        transition = self.engine.step(self.state, event)
        self._take_over(event, transition)
        self._last = event.at, transition
        return transition

    def resume(self, settle: Settle) -> Iterator[Input]:
        """Resume all interrupted effects except pending ones, and yield the inputs to advance with.

        Notices of the last record are carried out again, since they may have been lost. Saving a note twice has no
        effect.
        """
        (at, transition), self._last = self._last, NOTHING
        notices = [decision for decision in transition.decisions if not isinstance(decision, EFFECT_TYPES)]
        self._hand_over(self.reveal(tuple(notices)))
        waited, redactor = self._now() - at, self.redactor
        for effect in list(self.in_flight.values()):
            # An answer to one may have ended the turn, and the others with it.
            if effect.effect_id in self.in_flight and effect.effect_id not in self.pending:
                outcome = settle(effect, waited)
                if isinstance(outcome, CallTool) and redactor is not None and redactor.lacks(outcome):
                    outcome = ToolFailed(effect.effect_id, SECRET_LOST)
                if isinstance(outcome, EFFECT_TYPES):
                    self._hand_over((self.reveal(outcome),))
                elif isinstance(outcome, INPUT_TYPES):
                    yield outcome


class _Effects(dict[type, bool]):
    """Whether the decisions of a class are effects; a lookup that replaces slower ``isinstance`` checks."""

    def __missing__(self, kind: type) -> bool:
        self[kind] = issubclass(kind, EFFECT_TYPES)
        return self[kind]


IS_EFFECT = _Effects()

NOTHING_TO_DO: Handlers = dict.fromkeys(EFFECT_TYPES, lambda _interpreter, _decision: None)


def follower(engine: CognitiveEngine, start: AgentState) -> Driver:
    """Return a driver that follows a recording with ``restore`` and carries nothing out."""
    return Driver(engine, NOTHING_TO_DO, now=time, state=start)


def set_time(event: Input, at: float) -> Input:
    """Return the input with its time. ``evolve`` takes twice as long: 5 us for a model's reply."""
    kind: Any = type(event)
    others = OTHER_FIELDS.get(kind)
    return kind(*others(event), at=at) if others is not None else evolve(event, at=at)


def _fields_before_at(kind: type[Input]) -> Callable[[Any], tuple[Any, ...]] | None:
    names = [item.name for item in fields(kind) if item.name != "at"]
    return attrgetter(*names) if len(names) > 1 else None  # of one name it gives the bare value


OTHER_FIELDS = {kind: _fields_before_at(kind) for kind in INPUT_TYPES}
