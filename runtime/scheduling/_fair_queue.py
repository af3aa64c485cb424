"""Whose turn it is: owners share a model by the work done for them, as a value.

Each owner has an account of tokens. When a request begins, the uncached prompt tokens and the first reply tokens are
charged; later reply tokens when generated. The next request comes from the owner with the smallest account. An idle
owner saves nothing up: no account counts as less than the *level*. The level is the smallest account among waiting
owners when a request last began. This is start-time fair queueing (Goyal, Vin and Cheng, 1996);
``docs/concepts/fair-shares.md`` describes its guarantees.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, TypeVar

from attrs import field, frozen

ACCOUNTS = 1024
"""Maximum owners ahead of the level; beyond that all become level again. So an endless stream of new owners, each
level, neither fills the memory nor makes an owner that was served before wait forever.
"""


class OwnedRequest(Protocol):
    """A request."""

    @property
    def owner(self) -> int: ...


Request = TypeVar("Request", bound=OwnedRequest)


@frozen
class FairShares:
    """The work done for each owner, in tokens."""

    level: int = 0
    """The smallest account among waiting owners when a request last began."""
    ahead: Mapping[int, int] = field(factory=dict)
    """The accounts above the level."""

    def of(self, owner: int) -> int:
        """Return an owner's account, at least the level."""
        return max(self.ahead.get(owner, 0), self.level)

    def charge(self, works: Mapping[int, int]) -> FairShares:
        """Charge these owners."""
        return FairShares(self.level, {**self.ahead, **{owner: self.of(owner) + work for owner, work in works.items()}})

    def begin(self, owner: int, work: int, *, turn: int) -> FairShares:
        """Charge a request that begins, and update the level.

        Args:
            owner: the request's owner.
            work: the tokens to charge.
            turn: the owner whose turn it was: ``owner``, or one that waits for a prompt that it can share.
        """
        level = self.of(turn)
        ahead = {other: account for other, account in self.ahead.items() if account > level}
        return FairShares(level, ahead if len(ahead) < ACCOUNTS else {}).charge({owner: work})

    def order(self, waiting: Iterable[Request]) -> list[Request]:
        """Sort requests by their owners' accounts; requests with equal accounts stay in order of arrival."""
        accounts = {owner: self.of(owner) for owner in {request.owner for request in waiting}}
        return sorted(waiting, key=lambda request: accounts[request.owner])
