"""Whose turn it is: owners of requests share a model by the work that is done for them, as a value.

Each owner has an account of tokens: those of a prompt that no cache held and the first of a reply, when its request
begins; and the rest of a reply as it comes. The next to begin is a request of the owner with the least on its account.
Who asks for nothing saves nothing up: no account counts as less than the *level*, the least among those who waited when
a request last began. This is start-time fair queueing (Goyal, Vin and Cheng, 1996); what it guarantees, and why, is in
``docs/scheduler.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, TypeVar

from attrs import field, frozen

ACCOUNTS = 1024
"""Owners that may be ahead of the level at once: past that all are level again. So a stream of new owners without end,
each of which is level, neither fills the memory nor keeps somebody waiting for ever who was given something before."""


class Owned(Protocol):
    """A request."""

    @property
    def owner(self) -> int: ...


Request = TypeVar("Request", bound=Owned)


@frozen
class Shares:
    """What was done for whom, in tokens."""

    level: int = 0
    """The least account of those who waited when a request last began."""
    ahead: Mapping[int, int] = field(factory=dict)
    """The accounts that have more than that."""

    def of(self, owner: int) -> int:
        """What an owner's account counts as."""
        return max(self.ahead.get(owner, 0), self.level)

    def given(self, works: Mapping[int, int]) -> Shares:
        """After these owners were charged so many tokens."""
        return Shares(self.level, {**self.ahead, **{owner: self.of(owner) + work for owner, work in works.items()}})

    def begun(self, owner: int, work: int, *, turn: int) -> Shares:
        """After a request has begun.

        Args:
            owner: whose request it is.
            work: what its owner is charged.
            turn: whose turn it was: the owner itself, or one that waits for a prompt that it can share.
        """
        level = self.of(turn)
        ahead = {other: account for other, account in self.ahead.items() if account > level}
        return Shares(level, ahead if len(ahead) < ACCOUNTS else {}).given({owner: work})

    def in_turn(self, waiting: Iterable[Request]) -> list[Request]:
        """Requests in the order in which they may begin: of one owner, and of owners that are level, as they came."""
        accounts: dict[int, int] = {}
        for request in waiting:
            if request.owner not in accounts:
                accounts[request.owner] = self.of(request.owner)
        return sorted(waiting, key=lambda request: accounts[request.owner])
