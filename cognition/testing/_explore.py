"""Breadth-first search over all interleavings of a small alphabet of inputs, with every law checked on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cognition.steps.inputs import Input
from cognition.testing._breadth import Chunk, Exploration, Spread, explore_breadth
from cognition.testing._laws import laws
from cognition.testing._situations import default_alphabet
from cognition.testing._world import AnyEngine

__all__ = ["Chunk", "Exploration", "Spread", "explore"]


def explore(
    engine: AnyEngine,
    alphabet: Sequence[Input] | None = None,
    limit: int = 10_000,
    *,
    leave_out: Sequence[str] = (),
    on_progress: Callable[[Exploration], None] | None = None,
    spread: Spread = map,
    start: Any = None,
) -> Exploration:
    """Visit every situation that the alphabet leads to, nearest first, and check all laws on every situation and step.

    Situations are compared without the names in them, see ``situation``. Each is tried with all inputs of the alphabet,
    answers to all effects in flight in any order, and late, duplicate, foreign and mismatched answers.

    Args:
        engine: Any engine.
        alphabet: Inputs, with ``ANY`` as the id of the effect that they answer. Default: ``default_alphabet``.
        limit: Once this many situations are known, no new ones are added. All known situations are checked.
        leave_out: Names of laws to skip, such as ``"L2"``.
        on_progress: Called now and then with the result so far.
        spread: Applies a function to parts of the work. A ``map`` over forked processes uses several cores; the
            function reads the search's state at the time of the call.
        start: The state at the start of the search; ``AgentState()`` unless an engine has its own state class.

    Returns:
        The extent of the search, and the first violation with a shortest way to it.
    """
    letters = default_alphabet(getattr(engine, "config", None)) if alphabet is None else tuple(alphabet)
    held = [law for law in laws(engine, start=start) if law.name not in leave_out]
    return explore_breadth(engine, held, letters, limit, on_progress=on_progress, spread=spread, start=start)
