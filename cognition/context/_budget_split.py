"""Divide a budget among claims: first needs, then shares, then the room left by others."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

WHOLE = 1_000
"""Shares and intermediate amounts are in thousandths. These integers never exceed the total through rounding, and never
shrink when the total grows.
"""


@frozen
class Claim:
    """A claim on the budget."""

    share: int
    """Its share of the total, in thousandths; the shares of all claims add up to ``WHOLE`` at most."""
    needed: int
    """The amount it must have, regardless of its share."""
    wanted: int
    """The amount it can use; at least ``needed``."""
    steady: bool = False
    """Whether its amount must not depend on the wants of claims that are not steady."""


def thousandths(share: float) -> int:
    """Return a share from 0 to 1 in thousandths, rounded down."""
    return int(share * WHOLE + 1e-6)


def split_budget(total: int, claims: Sequence[Claim]) -> tuple[int, ...] | None:
    """Return the amount for each claim, in order; None if the needs exceed the total.

    Each claim gets its need, then its share up to its want; then the rest is offered once, all in the order of the
    claims. Room left by steady claims goes to steady claims first. Room left by the others never goes to steady claims,
    since it differs each time.
    """
    rest = (total - sum([claim.needed for claim in claims])) * WHOLE
    if rest < 0:
        return None
    given = [claim.needed * WHOLE for claim in claims]

    def give(place: int, most: int) -> None:
        nonlocal rest
        amount = max(min(most, claims[place].wanted * WHOLE - given[place], rest), 0)
        given[place] += amount
        rest -= amount

    for place, claim in enumerate(claims):
        give(place, total * claim.share - given[place])
    left = sum([max(total * one.share - got, 0) for one, got in zip(claims, given, strict=True) if one.steady])
    for steady in (True, False):
        for place, claim in enumerate(claims):
            if claim.steady == steady:
                before = given[place]
                give(place, left if steady else rest)
                left -= given[place] - before if steady else 0
    return tuple([amount // WHOLE for amount in given])
