"""The workers of one session. Each is an interpreter on its own thread or in its own task."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any, Protocol

from attrs import define

from cognition import (
    ApprovalsForgotten,
    EffectId,
    Input,
    ModeChanged,
    ModeSet,
    RulesForgotten,
    SpawnWorker,
    Usage,
)
from interpreters.loop.clock import Clock
from interpreters.loop.driver import Driver
from interpreters.loop.mailbox_messages import HandedInput, Turn, WorkerRequest
from interpreters.loop.worker_setup import worker_stalled


class WorkerInterpreter(Protocol):
    """The part of a worker's interpreter that the crew uses, from any thread."""

    driver: Driver

    def cancel_turn(self, turn: Turn, reason: str) -> None: ...
    def hand_in(self, event: HandedInput) -> None: ...


@define(eq=False)
class RunningWorker:
    """One running worker."""

    effect: SpawnWorker
    child: WorkerInterpreter
    turn: Turn


class Workers:
    """Watches the workers and passes on cancellations, modes and forgotten approvals.

    Args:
        deadlines: deadlines of the session; a silent worker gets one here.
        clock: clock of the session.
        patience: seconds without a sign of life before a worker is given up; None waits for ever.
    """

    def __init__(
        self, deadlines: dict[EffectId, tuple[float, Callable[[], Input]]], clock: Clock, patience: float | None
    ) -> None:
        self._deadlines = deadlines
        self._clock = clock
        self._patience = patience
        self._members: dict[EffectId, RunningWorker] = {}
        self._stopping: dict[EffectId, RunningWorker] = {}
        """Abandoned workers that are being stopped.

        ``cancel`` stops these too, since none of their effects may begin after it.
        """

    def add(self, effect: SpawnWorker, child: WorkerInterpreter) -> Turn:
        """Watch a worker that is about to begin. Return the turn that it has to run."""
        member = self._members[effect.effect_id] = RunningWorker(effect, child, Turn())
        self.note_activity(effect.effect_id)
        return member.turn

    def waits_for(self, turn: Turn) -> bool:
        """Whether the session still waits for the answer of a worker's turn."""
        return any(member.turn is turn for member in list(self._members.values()))

    def note_activity(self, effect_id: EffectId) -> None:
        """Extend the deadline of a worker that has done something."""
        member, patience = self._members.get(effect_id), self._patience
        if member is not None and patience is not None:
            when = self._clock.monotonic() + patience
            self._deadlines[effect_id] = (when, partial(_make_stalled, member, patience))

    def stop(self, effect_id: EffectId, reason: str = "its parent needs it no longer") -> None:
        """Stop a worker that has become unnecessary."""
        member = self._members.get(effect_id)
        if member is not None:
            self._stopping[effect_id] = member
            self._members.pop(effect_id, None)
            member.child.cancel_turn(member.turn, reason)
            self._stopping.pop(effect_id, None)

    def cancel(self, reason: str) -> None:
        """Cancel all workers, because their parent's turn is cancelled. Safe in a signal handler."""
        for member in [*list(self._members.values()), *list(self._stopping.values())]:
            member.child.cancel_turn(member.turn, reason)

    def pass_on(self, decision: ModeSet | RulesForgotten) -> None:
        """Pass a mode or forgotten approvals on to all workers. Workers may never do more than their parent."""
        told = ModeChanged(decision.mode) if isinstance(decision, ModeSet) else ApprovalsForgotten(decision.rules)
        for member in self._members.values():
            member.child.hand_in(told)

    def usage(self) -> list[Usage]:
        return [member.child.driver.state.spent.usage for member in self._members.values()]

    def remove(self, effect_id: EffectId) -> None:
        """Forget a worker whose answer has arrived."""
        self._members.pop(effect_id, None)

    def stop_all(self) -> None:
        for effect_id in list(self._members):
            self.stop(effect_id)


def _make_stalled(member: RunningWorker, patience: float) -> Input:
    return worker_stalled(member.effect, patience, member.child.driver.state)


def run_worker_request(errand: WorkerRequest, *, wanted: bool) -> None:
    """Ask the program for a worker, on the session's own thread.

    ``wanted`` is False if the worker's turn is over; the answer is then cancelled.
    """
    if not wanted:
        errand.answer.cancel()
    if not errand.answer.set_running_or_notify_cancel():
        return
    try:
        answer = errand.ask()
    except Exception as error:  # ``NotBegun`` too: the worker's own turn may be over
        errand.answer.set_exception(error)
        return
    if isinstance(answer, Future):
        answer.add_done_callback(partial(_pass_on, errand.answer))
    else:
        errand.answer.set_result(answer)


def _pass_on(answer: Future[Any], source: Future[Any]) -> None:
    try:
        answer.set_result(source.result())
    except (CancelledError, Exception) as error:
        answer.set_exception(error)
