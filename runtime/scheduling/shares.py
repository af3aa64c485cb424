"""Whose turn it is: owners of requests share a model by the work that it does for them, as a value.

Work is counted in tokens: those of a prompt that no cache holds, and those of its reply. The next to begin is a request
of the owner for whom the least was done. Who asks for nothing saves nothing up: an owner that comes, or comes back, is
put level with the one whose turn it is (start-time fair queueing: Goyal, Vin and Cheng, 1996).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, TypeVar

from attrs import field, frozen


class Owned(Protocol):
    """A request."""

    @property
    def owner(self) -> int: ...


Request = TypeVar("Request", bound=Owned)


@frozen
class Shares:
    """What was done for whom."""

    level: int = 0
    """Where the owner stood whose request began last."""
    ahead: Mapping[int, int] = field(factory=dict)
    """Where those stand for whom more was done than that."""

    def of(self, owner: int) -> int:
        """Where an owner stands."""
        return max(self.ahead.get(owner, 0), self.level)

    def begun(self, owner: int, work: int) -> Shares:
        """After a request of this owner has begun, which takes so much work at the most."""
        level = self.of(owner)
        ahead = {other: place for other, place in self.ahead.items() if place > level}
        return Shares(level, {**ahead, owner: level + work})

    def given_back(self, owner: int, work: int) -> Shares:
        """After so much of the work that a request of this owner was to take was not done."""
        place = self.ahead.get(owner)
        return self if place is None or not work else Shares(self.level, {**self.ahead, owner: place - work})

    def in_turn(self, waiting: Iterable[Request]) -> list[Request]:
        """Requests in the order in which they may begin: of one owner, and of owners that are level, as they came."""
        places: dict[int, int] = {}
        for request in waiting:
            if request.owner not in places:
                places[request.owner] = self.of(request.owner)
        return sorted(waiting, key=lambda request: places[request.owner])
