"""The workers of one session that runs on threads: each an interpreter of its own, on a thread of its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any, Protocol

from attrs import define

from cognition import CogstepError, EffectId, Input, ModeSet, SpawnWorker, TurnFinished, Usage, WorkerFailed
from cognition.features import Mode
from interpreters.clock import Clock
from interpreters.driver import Driver
from interpreters.letters import Errand, Fault, Letter, Turn, WorkerEvent
from interpreters.observers import Observers
from interpreters.spawning import Worker, worker_answer, worker_stalled
from interpreters.tools import describe
from interpreters.workers import Workers


class Child(Protocol):
    """What is needed of a worker's interpreter, from any thread."""

    driver: Driver
    finished: TurnFinished | None

    def run(self, event: Input | None, turn: Turn | None = None) -> None: ...
    def cancel_turn(self, turn: Turn, reason: str) -> None: ...
    def change_mode(self, mode: Mode) -> None: ...
    def close(self, seconds: float) -> int: ...


@define(eq=False)
class Member:
    """One worker at work."""

    effect: SpawnWorker
    child: Child
    turn: Turn


class Crew:
    """Starts workers, keeps watch over them, and tells them what they have to know.

    Args:
        threads: where they run.
        post: puts a letter into the session's mailbox.
        deadlines: the session's; a worker that gives no sign of life runs into its own.
        patience: seconds without such a sign; None waits for ever.
    """

    def __init__(
        self,
        threads: Workers,
        post: Callable[[Letter], object],
        deadlines: dict[EffectId, tuple[float, Callable[[], Input]]],
        clock: Clock,
        patience: float | None,
    ) -> None:
        self._threads = threads
        self._post = post
        self._deadlines = deadlines
        self._clock = clock
        self._patience = patience
        self._members: dict[EffectId, Member] = {}

    def start(
        self, effect: SpawnWorker, worker: Worker, parent: Turn, make: Callable[[Observers], Child], *, shown: bool
    ) -> None:
        """Begin a worker. Its events, and in the end its answer, come as letters.

        Args:
            effect: asks for it.
            worker: what it is made of.
            parent: the turn that it works for.
            make: gives its interpreter.
            shown: whether somebody reads what it writes.
        """
        identity = effect.effect_id
        tell = Observers([lambda event: self._post(WorkerEvent(identity, event))], worker.program.session, shown=shown)
        member = self._members[identity] = Member(effect, make(tell), Turn())
        self.sign_of_life(identity)
        self._threads.start(partial(self._work, member, worker.task, parent))

    def sign_of_life(self, identity: EffectId) -> None:
        """A worker has done something: its deadline moves."""
        member, patience = self._members.get(identity), self._patience
        if member is not None and patience is not None:
            when = self._clock.monotonic() + patience
            self._deadlines[identity] = (when, partial(self._stalled, member, patience))

    def stop(self, identity: EffectId, reason: str = "its parent needs it no longer") -> None:
        """Nobody waits for this worker any more."""
        member = self._members.pop(identity, None)
        if member is not None:
            member.child.cancel_turn(member.turn, reason)

    def cancel(self, reason: str) -> None:
        """The turn they work for is cancelled. Safe in a signal handler."""
        for member in list(self._members.values()):
            member.child.cancel_turn(member.turn, reason)

    def tell_mode(self, decision: ModeSet) -> None:
        """They may never do more than their parent, from this moment on."""
        for member in self._members.values():
            member.child.change_mode(decision.mode)

    def usage(self) -> list[Usage]:
        """What each worker has taken so far."""
        return [member.child.driver.state.spent.usage for member in self._members.values()]

    def settled(self, identity: EffectId) -> None:
        """A worker's answer has arrived."""
        self._members.pop(identity, None)

    def stop_all(self) -> None:
        for identity in list(self._members):
            self.stop(identity)

    def errand(self, parent: Turn, ask: Callable[[], Any]) -> Future[Any]:
        """On a worker's thread: have the program asked on the session's own."""
        answer: Future[Any] = Future()
        self._post(Errand(parent, ask, answer))
        return answer

    def _stalled(self, member: Member, patience: float) -> Input:
        return worker_stalled(member.effect, patience, member.child.driver.state)

    def _work(self, member: Member, task: Input, parent: Turn) -> None:
        child, effect = member.child, member.effect
        letter: Letter
        try:
            child.run(task, member.turn)
            letter = worker_answer(effect, child.finished)
        except CogstepError as error:  # the embedding program's own fault, as in a turn of its own
            letter = Fault(parent, error)
        except BaseException as error:  # whatever ends a worker's thread, the turn must not wait for ever
            letter = WorkerFailed(effect.effect_id, describe(error), child.driver.state.spent.usage)
        finally:
            child.close(0)
        if self._members.get(effect.effect_id) is member:  # else nobody waits for it any more
            self._post(letter)


def run_errand(errand: Errand, *, wanted: bool) -> None:
    """On the session's own thread: ask the program for a worker, if its turn still wants that."""
    if not wanted:
        errand.answer.cancel()
    if not errand.answer.set_running_or_notify_cancel():
        return
    try:
        answer = errand.ask()
    except Exception as error:
        errand.answer.set_exception(error)
        return
    if isinstance(answer, Future):
        answer.add_done_callback(partial(_pass_on, errand.answer))
    else:
        errand.answer.set_result(answer)


def _pass_on(answer: Future[Any], source: Future[Any]) -> None:
    """Settle a future as another one was settled."""
    try:
        answer.set_result(source.result())
    except (CancelledError, Exception) as error:
        answer.set_exception(error)
