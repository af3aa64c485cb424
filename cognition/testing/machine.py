"""A Hypothesis state machine that drives any engine through arbitrary interleavings and checks all laws on
each step.
"""

from __future__ import annotations

import cognition.testing.needs_hypothesis  # noqa: F401  # before Hypothesis itself: it names the extra

# isort: split
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from cognition.steps.inputs import Input, UserSpoke
from cognition.testing._engine_under_test import EngineUnderTest
from cognition.testing._laws import laws
from cognition.testing._search import Walk
from cognition.testing._world import AnyEngine
from cognition.testing.strategies import OTHERS, answers, cancels, misplaced, texts


def machine(engine: AnyEngine, *, leave_out: tuple[str, ...] = (), start: Any = None) -> type[RuleBasedStateMachine]:
    """Return the state machine for an engine; its attribute ``TestCase`` is a test for pytest and unittest.

    Each step is checked against all ten laws except those named in ``leave_out`` (such as ``"L2"``). A broken law
    raises ``LawViolation`` with the run so far. ``start``: as in ``laws``.
    """
    checked = [law for law in laws(engine, start=start) if law.name not in leave_out]
    config = EngineUnderTest.of(engine).config

    class EngineMachine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.walk = Walk(checked)

        @precondition(lambda self: not (self.walk.world.in_turn or self.walk.world.is_closed))
        @rule(text=texts)
        def the_user_speaks(self, text: str) -> None:
            self.walk.take(UserSpoke(text))

        @precondition(lambda self: self.walk.world.open)
        @rule(data=st.data())
        def an_effect_is_answered(self, data: st.DataObject) -> None:
            effect = data.draw(st.sampled_from(self.walk.world.open))
            self.walk.take(data.draw(answers(effect, config)))

        @rule(data=st.data())
        def something_comes_that_does_not_belong(self, data: st.DataObject) -> None:
            self.walk.take(data.draw(misplaced(self.walk.world, config)))

        @precondition(lambda self: self.walk.world.in_turn)
        @rule(data=st.data())
        def the_user_cancels(self, data: st.DataObject) -> None:
            self.walk.take(data.draw(cancels(self.walk.world)))

        @precondition(lambda self: not self.walk.world.is_closed)
        @rule(event=OTHERS)
        def the_user_does_anything_else(self, event: Input) -> None:
            self.walk.take(event)

    EngineMachine.__name__ = f"{type(engine).__name__}Machine"
    return EngineMachine
