"""Breadth-first search over all interleavings of a small alphabet of inputs, with every law checked on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cognition.inputs import Input
from cognition.testing.breadth import Chunk, Exploration, Spread, spread_out
from cognition.testing.laws import laws
from cognition.testing.situations import default_alphabet
from cognition.testing.world import AnyEngine

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
    """Go everywhere that the alphabet leads to, nearest first, and hold every situation and step to all laws.

    Situations are identified up to the names of things, as ``situation`` says. With each one are tried: all inputs of
    the alphabet, the answers to all effects in flight in any order, late, duplicate, foreign and mismatched answers.

    Args:
        engine: Any engine.
        alphabet: Inputs, with ``ANY`` as the id of the effect that they answer. Without it ``default_alphabet``.
        limit: Once this many situations are known, no new ones are taken up. All that are known are held to the laws.
        leave_out: Names of laws that need not hold, such as ``"L2"``.
        on_progress: Called now and then with what was seen so far.
        spread: Applies a function to parts of the work. A ``map`` over forked processes uses several cores; the
            function reads the search as it stands when it is called.
        start: The state in which the search begins; ``AgentState()`` unless an engine has a state class of its own.

    Returns:
        How far the search came, and the first violation with a shortest way to it.
    """
    letters = default_alphabet(getattr(engine, "config", None)) if alphabet is None else tuple(alphabet)
    held = [law for law in laws(engine, start=start) if law.name not in leave_out]
    return spread_out(engine, held, letters, limit, on_progress=on_progress, spread=spread, start=start)
