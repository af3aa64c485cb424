"""The workers of a session, and the threads that stop them."""

from __future__ import annotations

from typing import Any

from cognition import EffectId, Limits, SpawnWorker
from cognition.values.features import WorkerSpec
from interpreters.loop.clock import SYSTEM_CLOCK
from interpreters.loop.mailbox_messages import Turn
from interpreters.loop.workers import Workers


def test_whoever_cancels_all_workers_stops_those_too_that_are_being_stopped_at_that_moment() -> None:
    """Else what they do could begin after that: one thread stops a worker, and another cancels the turn meanwhile."""
    crew = Workers({}, SYSTEM_CLOCK, None)
    heard: list[str] = []

    class Child:
        driver: Any = None

        def cancel_turn(self, turn: Turn, reason: str) -> None:
            heard.append(reason)
            if len(heard) == 1:  # on another thread, before this one has done anything
                assert not crew.waits_for(turn)
                crew.cancel("all of it")
                assert heard == ["not needed", "all of it"]

        def hand_in(self, event: object) -> None:
            raise AssertionError

    effect = SpawnWorker(EffectId("1.1.1"), WorkerSpec("w", "look"), (), Limits(), (), "default")
    crew.add(effect, Child())

    crew.stop(effect.effect_id, "not needed")

    assert heard == ["not needed", "all of it"]
    crew.cancel("again")
    assert heard == ["not needed", "all of it"]
