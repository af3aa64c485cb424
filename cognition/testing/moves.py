"""What is tried in a situation: the inputs of an alphabet, addressed to what they can answer and to what they can't."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from cognition.decisions import ANSWERS, Effect
from cognition.ids import EffectId
from cognition.inputs import Input
from cognition.testing.edge_laws import read_back
from cognition.testing.subject import UNREADABLE
from cognition.testing.world import World, addressed

FOREIGN = EffectId("999999.9.9")
"""An id that no exploration gets to."""


def moves(world: World, alphabet: Sequence[Input]) -> list[Input]:
    """What is tried in this world, well-placed and not.

    Every input of the alphabet that answers nothing; every answer for each effect in flight that it can answer; the
    first answer to each effect that is just over (late and duplicate answers), to an effect in flight that it can't
    answer, and to one that never was.
    """
    return [
        alphabet[place] if effect_id is None else addressed(alphabet[place], effect_id)
        for place, effect_id in moves_by_name(names_of(world.open), names_of(world.over), alphabet)
    ]


Names = tuple[tuple[type[Effect], EffectId], ...]
"""Kinds and ids of effects: all that moves depend on."""


def names_of(effects: Sequence[Effect]) -> Names:
    return tuple([(type(effect), effect.effect_id) for effect in effects])


def moves_by_name(open_: Names, over: Names, alphabet: Sequence[Input]) -> list[tuple[int, EffectId | None]]:
    """The moves: for each the place of its letter in the alphabet, and the effect that it is to answer."""
    found: list[tuple[int, EffectId | None]] = []
    misfit: int | None = None
    for place, letter in enumerate(alphabet):
        if getattr(letter, "effect_id", None) is None:
            found.append((place, None))
            continue
        # By type alone: an answer of a wrong shape is worth a try.
        fitting = [(place, effect_id) for effect, effect_id in open_ if type(letter) in ANSWERS[effect]]
        found += fitting
        if misfit is None and not fitting:
            misfit = place
    for effect, effect_id in over:
        late = next((place for place, letter in enumerate(alphabet) if type(letter) in ANSWERS[effect]), None)
        if late is not None:
            found.append((late, effect_id))
    if misfit is not None:
        found += [(misfit, effect_id) for effect_id in (*(named for _, named in open_[:1]), FOREIGN)]
    return found


@frozen(eq=False)
class Move:
    """An input to try, and a copy that no engine gets to see; None if the input can't be recorded."""

    input: Input
    copy: Input | None

    def afresh(self) -> Input:
        """The input as it was before any engine saw it."""
        fresh: Input = self.input if self.copy is None else read_back(self.copy, Input)
        return fresh


class Moves:
    """As ``moves``, for many worlds: each input is made once."""

    def __init__(self, alphabet: Sequence[Input]) -> None:
        self._alphabet = tuple(alphabet)
        self._made: dict[tuple[int, EffectId | None], Move] = {}
        self._moves: dict[tuple[Names, Names], tuple[Move, ...]] = {}

    def __call__(self, world: World) -> tuple[Move, ...]:
        """The moves in this world; worlds in which the same effects are in flight, and over, share them."""
        key = names_of(world.open), names_of(world.over)
        found = self._moves.get(key)
        if found is None:
            found = self._moves[key] = tuple(self._move(*move) for move in moves_by_name(*key, self._alphabet))
        return found

    def changed(self) -> bool:
        """Whether an engine has changed an input."""
        return any(move.copy is not None and move.input != move.copy for move in self._made.values())

    def _move(self, place: int, effect_id: EffectId | None) -> Move:
        made = self._made.get((place, effect_id))
        if made is None:
            letter = self._alphabet[place]
            event = letter if effect_id is None else addressed(letter, effect_id)
            copy = copy_of(event, Input)
            made = self._made[place, effect_id] = Move(event, copy if copy == event else None)
        return made


def copy_of(value: Any, kind: Any) -> Any:
    """An equal value that shares no part with this one; None for one that can't be recorded, which L8 will say."""
    try:
        return read_back(value, kind)
    except UNREADABLE:
        return None
