"""The moves tried in a situation: the inputs of an alphabet, addressed to effects that they can and can't answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from cognition.base.ids import EffectId
from cognition.steps.decisions import ANSWERS, Effect
from cognition.steps.inputs import Input
from cognition.testing._edge_laws import read_back
from cognition.testing._engine_under_test import UNREADABLE
from cognition.testing._world import World, readdress

FOREIGN = EffectId("999999.9.9")
"""An id that no exploration reaches."""


def moves(world: World, alphabet: Sequence[Input]) -> list[Input]:
    """Return the inputs to try in this world, well-placed and misplaced:

    - every input of the alphabet that is not an answer;
    - every answer, for each effect in flight that it can answer;
    - the first answer, for each effect that has just ended (late and duplicate answers), for an effect in flight that
      it can't answer, and for an effect that never existed.
    """
    return [
        alphabet[place] if effect_id is None else readdress(alphabet[place], effect_id)
        for place, effect_id in moves_by_name(names_of(world.open), names_of(world.over), alphabet)
    ]


Names = tuple[tuple[type[Effect], EffectId], ...]
"""Kinds and ids of effects. Moves depend on nothing else."""


def names_of(effects: Sequence[Effect]) -> Names:
    return tuple([(type(effect), effect.effect_id) for effect in effects])


def moves_by_name(open_: Names, over: Names, alphabet: Sequence[Input]) -> list[tuple[int, EffectId | None]]:
    """Return the moves: for each the index of its letter in the alphabet, and the effect that it answers."""
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
    """An input to try, and a copy that engines never receive; None if the input can't be encoded."""

    input: Input
    copy: Input | None

    def afresh(self) -> Input:
        """Return the input as it was before any engine received it."""
        fresh: Input = self.input if self.copy is None else read_back(self.copy, Input)
        return fresh


class Moves:
    """Like ``moves``, for many worlds: creates each input once."""

    def __init__(self, alphabet: Sequence[Input]) -> None:
        self._alphabet = tuple(alphabet)
        self._made: dict[tuple[int, EffectId | None], Move] = {}
        self._moves: dict[tuple[Names, Names], tuple[Move, ...]] = {}

    def __call__(self, world: World) -> tuple[Move, ...]:
        """Return the moves in this world. Worlds with the same effects in flight and the same ended effects
        share them.
        """
        key = names_of(world.open), names_of(world.over)
        if (found := self._moves.get(key)) is None:
            found = self._moves[key] = tuple(self._move(*move) for move in moves_by_name(*key, self._alphabet))
        return found

    def has_changed(self) -> bool:
        return any(move.copy is not None and move.input != move.copy for move in self._made.values())

    def _move(self, place: int, effect_id: EffectId | None) -> Move:
        if (made := self._made.get((place, effect_id))) is None:
            letter = self._alphabet[place]
            event = letter if effect_id is None else readdress(letter, effect_id)
            copy = copy_of(event, Input)
            made = self._made[place, effect_id] = Move(event, copy if copy == event else None)
        return made


def copy_of(value: Any, kind: Any) -> Any:
    """Return an equal value without shared parts; None if it can't be encoded, which L8 reports."""
    try:
        return read_back(value, kind)
    except UNREADABLE:
        return None
