"""The loop that runs every session: take an input, step, record, carry out, repeat.

It knows nothing of models, tools, threads or files, and never waits. How an effect is begun stands in a table of
handlers, and where inputs come from is the interpreter's matter: the sync one waits at a queue, the one for asyncio
awaits, and a resumed session begins with what stands on file.
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
from cognition.decisions import EFFECT_TYPES, Effect
from cognition.inputs import INPUT_TYPES

V = TypeVar("V")

SECRET_LOST = (
    "the program ended before this call ran, and a secret in it was not recorded; ask for the secret again if it is "
    "needed"
)

Handler = Callable[[Any, Any], object]
"""Begins to carry out the decisions of one type: an unbound method of an interpreter that takes the decision. The
answer comes later, as an input."""

Handlers = Mapping[type[Decision], Handler]
"""Every effect has a handler; a notice may have one. One table serves all interpreters of a kind."""

Reveal = Callable[[V], V]
"""Gives a value with the real texts in place of their placeholders."""

Watcher = Callable[[AgentState, Input, Transition, Reveal[Any]], None]
"""Is told of each step: the state before it, the input, the transition, and how its messages are revealed."""


Settle = Callable[[Effect, float], "Effect | Input"]
"""Takes an effect and the seconds since it was interrupted; gives the effect to begin again, or the input that answers
it."""


Elsewhere = Callable[[Callable[[], None]], Awaitable[None]]
"""Calls a function on another thread. The call has ended when this returns or raises, also if the task is cancelled."""


class Veil(Protocol):
    """Hides secrets before the engine sees them, and puts them back where decisions are carried out."""

    def hide(self, value: V) -> tuple[V, Sequence[Any]]:
        """The value with placeholders for what is hidden, and a note of each for the recorder."""

    def reveal(self, value: V) -> V:
        """The value with the real texts in place of their placeholders."""

    def lacks(self, value: object) -> bool:
        """Whether the value holds a placeholder whose real text nobody knows any more."""


class Writer(Protocol):
    """Where inputs and decisions are written, such as a ``Journal``."""

    @property
    def veil(self) -> Veil | None:
        """What hides secrets from this recording; None where nothing is hidden."""

    @property
    def written(self) -> int:
        """The number of records that were written for good."""

    def waits(self, event: Input, transition: Transition) -> bool:
        """Whether ``write`` will wait for the disk, as far as that is known beforehand."""

    def write(self, event: Input, transition: Transition, redacted: Sequence[Any] = ()) -> None:
        """Write an input with its decisions and the notes of what was hidden in it.

        When it raises, none of the decisions is carried out.
        """


class InputCounter(Protocol):
    """Stamps inputs with the token counts of what they bring, such as ``loop.counting.Counter``."""

    def wants(self, event: Input) -> bool:
        """Whether there is something to be counted in an input."""

    def stamped(self, event: Input) -> Input:
        """The input with its counts, which may wait for the model; as it came where there are none."""


NO_EFFECTS: frozenset[EffectId] = frozenset()
"""One for all sessions: whatever each has of its own, the garbage collector looks through."""

BEGINNING = AgentState()
"""Where every new session stands."""

NOTHING = (0.0, Transition(BEGINNING))
"""The time of the newest input and its transition, before there is any."""


@frozen(eq=False)
class Step:
    """An input that was taken, and what was decided."""

    original: Input
    """As it came."""
    event: Input
    """As the engine sees it."""
    redacted: Sequence[Any]
    """Notes of what was hidden in it."""
    transition: Transition
    shown: tuple[Decision, ...]
    """What was decided, with secrets in place of their placeholders: for whoever carries it out."""


class Driver:
    """One session: its engine, its state, and what is in flight.

    Args:
        engine: decides.
        handlers: carry it out.
        interpreter: whose handlers they are.
        now: the time that inputs get, in seconds since the epoch.
        state: where the session begins; None for a new one.
        recorder: where inputs and decisions are written; None for nowhere.
        watcher: is told of each step.

    Raises:
        ConfigError: the engine says of an effect that it may decide it, and there is no handler for it.
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
        self.state = BEGINNING if state is None else state
        self.in_flight: dict[EffectId, Effect] = {}
        """Effects that were decided and have neither been answered nor cancelled, oldest first."""
        self.pending: set[EffectId] = set()
        """Those of them that nobody works at: their answers are handed in later, and no run waits for them."""
        self.left = False
        """The run is to end with its turn open: what is in flight is taken up by a later one."""
        self.lost = NO_EFFECTS
        """Effects whose answer came and could not be kept."""
        self.counter: InputCounter | None = None
        """Counts what inputs bring before they are stamped with their time; None where sizes are estimated."""
        self._last = NOTHING
        """The time of the newest restored input, and its transition."""
        self._handlers = handlers
        self._interpreter = interpreter
        self._now = now
        self._recorder = recorder
        self._watcher = watcher

    def run(self, take: Callable[[], Input | None]) -> None:
        """Carry on until nothing is in flight but what is pending. ``take`` waits for the next input; it may give None
        where an effect has become pending.
        """
        while self.busy:
            event = take()
            if event is not None:
                self.advance(event)

    async def run_async(self, take: Callable[[], Awaitable[Input | None]], elsewhere: Elsewhere) -> None:
        """``run`` for those who await the next input."""
        while self.busy:
            event = await take()
            if event is not None:
                await self.advance_async(event, elsewhere)

    @property
    def written(self) -> int:
        """The number of records that stand on file."""
        return 0 if self._recorder is None else self._recorder.written

    @property
    def busy(self) -> bool:
        """Whether an effect is in flight that somebody works at."""
        return len(self.in_flight) > len(self.pending) and not self.left

    def put_away(self, effect_id: EffectId) -> None:
        """Wait no longer for an effect; its answer is handed in later."""
        if effect_id in self.in_flight:
            self.pending.add(effect_id)

    def advance(self, event: Input) -> None:
        """Take one input: stamp it, step, record it with its decisions, then begin to carry them out."""
        before, written, step = self.state, self.written, None
        try:
            if self.counter is not None and self.counter.wants(event):
                event = self.counter.stamped(event)
            step = self.stepped(event)
            self.record(step)
            self.carry_out(step)
        except BaseException:
            self.leave(event, step, before, written)
            raise

    async def advance_async(self, event: Input, elsewhere: Elsewhere) -> None:
        """``advance`` that waits for the disk on another thread, where it has to."""
        before, written, step = self.state, self.written, None
        try:
            if self.counter is not None and self.counter.wants(event):
                counted = [event]
                counting = partial(self._count, counted)
                await elsewhere(counting)
                event = counted[-1]
            step = self.stepped(event)
            await self.conclude(step, written, self.recording(step, elsewhere))
        except BaseException:
            self.leave(event, step, before, written)
            raise

    # ``advance`` in parts, for who has to do something between them. Nothing else is asked of the driver meanwhile.

    def stepped(self, event: Input) -> Step:
        """Stamp an input, which brings its counts, and decide; nothing is recorded yet, nor is the state another."""
        original, event, redacted = self._stamped(event)
        transition = self.engine.step(self.state, event)
        shown = transition.decisions if self._recorder is None else self.revealed(transition.decisions)
        return Step(original, event, redacted, transition, shown)

    def record(self, step: Step) -> None:
        """Write a step down, before any of what was decided in it begins."""
        if self._recorder is not None:
            self._recorder.write(step.event, step.transition, step.redacted)

    def recording(self, step: Step, elsewhere: Elsewhere) -> Awaitable[None] | None:
        """``record``; on another thread where it waits for the disk, which is then to be awaited."""
        if self._recorder is not None and self._recorder.waits(step.event, step.transition):
            return elsewhere(partial(self.record, step))
        self.record(step)
        return None

    async def conclude(self, step: Step, written: int, recording: Awaitable[None] | None) -> None:
        """Begin what was decided in a step, once it is recorded.

        Args:
            step: the step.
            written: the number of records before it.
            recording: what ``recording`` gave.
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
        """Begin what was decided in a step that is recorded."""
        self.tell(step)
        self._hand_over(step.shown)

    def tell(self, step: Step) -> None:
        """Move to the state that a recorded step leads to, and tell the watcher; nothing begins."""
        before, transition, decisions = self.state, step.transition, step.shown
        self._take_over(step.event, transition)
        if self._watcher is not None:
            revealed = transition if decisions is transition.decisions else Transition(self.state, decisions)
            self._watcher(before, step.original, revealed, self.revealed)

    def leave(self, event: Input, step: Step | None, before: AgentState, written: int) -> None:
        """Leave a step that an error or an interrupt ended: what was recorded holds, and an answer may be lost.

        Args:
            event: the input.
            step: what came of it; None where that failed.
            before: the state before it.
            written: the number of records before it.
        """
        if self.state is not before:  # it came when the session stood where the step leads to
            return
        if step is not None and self.written > written:
            self._take_over(step.event, step.transition)
        elif isinstance(event, ToolReturned | WorkerFinished):
            self.lost |= {event.effect_id}

    def _count(self, events: list[Input]) -> None:
        """Append the input of a list with its counts: on another thread, whose results nobody is given."""
        if self.counter is not None:
            events.append(self.counter.stamped(events[0]))

    def _take_over(self, event: Input, transition: Transition) -> None:
        """Move to the state that a step leads to, and note what is in flight then. Doing so twice is the same as doing
        so once.
        """
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
        """Whether an input that decides nothing will wait for the disk."""
        return self._recorder is not None and self._recorder.waits(event, Transition(self.state))

    def _stamped(self, event: Input) -> tuple[Input, Input, Sequence[Any]]:
        """An input with its time: as it came, as the engine sees it, and a note of each secret hidden in it."""
        # Milliseconds: finer ones would only swell recordings. In a fifth of the time that `round` takes.
        at = (self._now() * 1000.0 + 0.5) // 1.0 / 1000.0
        event = at_time(event, at)
        veil = None if self._recorder is None else self._recorder.veil
        return (event, event, ()) if veil is None else (event, *veil.hide(event))

    def begin(self, decision: Decision) -> None:
        """Hand a decision to its handler: one just made, or one that a crash kept from being carried out."""
        self._hand_over((self.revealed(decision),))

    def revealed(self, value: V) -> V:
        """A value with all that it holds, where the recording has a placeholder for a secret."""
        veil = None if self._recorder is None else self._recorder.veil
        return value if veil is None else veil.reveal(value)

    def _hand_over(self, decisions: Iterable[Decision]) -> None:
        for decision in decisions:
            kind = type(decision)
            handler = self._handlers.get(kind)
            if handler is not None:
                handler(self._interpreter, decision)
            elif IS_EFFECT[kind]:  # it would be waited for without end
                raise ConfigError(f"nothing here can carry out {type(decision).__name__}, which the engine decided")

    def dispose(self) -> None:
        """Nothing will be carried out any more."""
        self._handlers, self._interpreter, self.counter = {}, None, None

    def restore(self, event: Input) -> Transition:
        """Take over an input that stands on file already: the state moves, and nothing is written or carried out."""
        transition = self.engine.step(self.state, event)
        self._take_over(event, transition)
        self._last = event.at, transition
        return transition

    def resume(self, settle: Settle) -> Iterator[Input]:
        """Take up what was interrupted, apart from what is pending, and give the inputs to advance by on the way.

        Notices of the last record are carried out again too: nobody knows whether they were, and a note that is saved
        twice is saved once.
        """
        (at, transition), self._last = self._last, NOTHING
        for decision in transition.decisions:
            if not isinstance(decision, EFFECT_TYPES):
                self.begin(decision)
        waited = self._now() - at
        for effect in list(self.in_flight.values()):
            # An answer to one may have ended the turn, and the others with it.
            if effect.effect_id in self.in_flight and effect.effect_id not in self.pending:
                outcome = self._settled(effect, settle(effect, waited))
                if isinstance(outcome, EFFECT_TYPES):
                    self.begin(outcome)
                elif isinstance(outcome, INPUT_TYPES):
                    yield outcome

    def _settled(self, effect: Effect, outcome: Effect | Input) -> Effect | Input:
        """A tool does not run again with a placeholder for what it needs."""
        veil = None if self._recorder is None else self._recorder.veil
        if veil is not None and isinstance(outcome, CallTool) and veil.lacks(outcome):
            return ToolFailed(effect.effect_id, SECRET_LOST)
        return outcome


class _Effects(dict[type, bool]):
    """Whether the decisions of a class are effects; looked up, where ``isinstance`` would ask for one after another."""

    def __missing__(self, kind: type) -> bool:
        self[kind] = issubclass(kind, EFFECT_TYPES)
        return self[kind]


IS_EFFECT = _Effects()

NOTHING_TO_DO: Handlers = dict.fromkeys(EFFECT_TYPES, lambda _interpreter, _decision: None)
"""For what stands on file: nothing is carried out."""


def follower(engine: CognitiveEngine, start: AgentState) -> Driver:
    """A driver that follows a recording: it takes each input over by ``restore``, and carries nothing out."""
    return Driver(engine, NOTHING_TO_DO, now=time, state=start)


def at_time(event: Input, at: float) -> Input:
    """An input with its time, as ``evolve`` gives it in twice the time: 5 us for a model's reply."""
    kind: Any = type(event)
    others = OTHER_FIELDS.get(kind)
    return kind(*others(event), at=at) if others is not None else evolve(event, at=at)


def _fields_before_at(kind: type[Input]) -> Callable[[Any], tuple[Any, ...]] | None:
    names = [item.name for item in fields(kind) if item.name != "at"]
    return attrgetter(*names) if len(names) > 1 else None  # of one name it gives the bare value


OTHER_FIELDS = {kind: _fields_before_at(kind) for kind in INPUT_TYPES}
