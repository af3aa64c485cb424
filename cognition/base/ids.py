"""Deterministic ids of effects: ``turn.step.index``, such as ``1.2.0``.

``turn`` counts the user's messages, ``step`` the model calls of this turn, and ``index`` the effects decided in this
step. Ids are unique within a session, also after a reset.
"""

from __future__ import annotations

from typing import NewType

EffectId = NewType("EffectId", str)


def effect_id(turn: int, step: int, index: int) -> EffectId:
    made: EffectId = f"{turn}.{step}.{index}"  # type: ignore[assignment]  # a call of EffectId would take as long again
    return made


def parse_effect_id(text: str) -> tuple[int, int, int] | None:
    """Return the three counters of an id, or None if the text is not an id."""
    parts = text.split(".")
    if len(parts) != 3 or not all(part.isascii() and part.isdecimal() for part in parts):
        return None
    if any(len(part) > 18 for part in parts):  # no session counts that far, and int() refuses very long texts
        return None
    return int(parts[0]), int(parts[1]), int(parts[2])
