"""Deals one budget to several claims: what each must have, then its share, then what others leave."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

WHOLE = 1_000
"""Shares are in thousandths, and so are amounts while they are dealt: whole numbers, which never exceed the total by
rounding, and never shrink where the total grows."""


@frozen
class Claim:
    """What somebody wants of the budget."""

    share: int
    """Of the total, in thousandths; those of all claims together are ``WHOLE`` at most."""
    needed: int
    """What it must have, whatever its share."""
    wanted: int
    """What it can use; ``needed`` at least."""
    steady: bool = False
    """Whether what it gets must not depend on what claims that are not steady want."""


def thousandths(share: float) -> int:
    """A share from 0 to 1 as a ``Claim`` has it, rounded down."""
    return int(share * WHOLE + 1e-6)


def dealt(total: int, claims: Sequence[Claim]) -> tuple[int, ...] | None:
    """What each claim gets, in the order of the claims; None where what they need is more than the total.

    First each gets what it needs, then its share as far as it wants it, then what is left goes round once; always in
    the order of the claims, each taking what it still wants. What steady claims leave goes to steady ones first; what
    the others leave goes to none of those, since it is another amount each time.
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
