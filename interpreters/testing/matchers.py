"""Values that are equal to many others: for tests that know only a part of a value.

    called("search", query=matching("weather in .*"), limit=anything, nearby=about(3.0))

They compare with ``==``, so they work anywhere within a list or an object. Matchers of other libraries work too, such
as ``pytest.approx``.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from attrs import frozen


class Matcher(ABC):
    """Equal to every value that it accepts."""

    @abstractmethod
    def accepts(self, value: Any) -> bool:
        """Whether this value is accepted."""

    def __eq__(self, other: object) -> bool:
        return other is self or self.accepts(other)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # what is equal to many values has no hash that fits them all


class _Anything(Matcher):
    def accepts(self, value: Any) -> bool:
        return True

    def __repr__(self) -> str:
        return "anything"


anything: Matcher = _Anything()
"""Equal to every value."""


@frozen(eq=False, repr=False)
class matching(Matcher):  # noqa: N801 - it reads as a word in a test
    """Equal to every text that contains a match of the pattern; ``^`` and ``$`` anchor it."""

    pattern: str

    def accepts(self, value: Any) -> bool:
        return isinstance(value, str) and re.search(self.pattern, value) is not None

    def __repr__(self) -> str:
        return f"matching({self.pattern!r})"


@frozen(eq=False, repr=False)
class about(Matcher):  # noqa: N801
    """Equal to every close number: within a relative 1e-6, or within the given distance."""

    number: float
    within: float | None = None

    def accepts(self, value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        near = {"rel_tol": 1e-6, "abs_tol": 1e-12} if self.within is None else {"rel_tol": 0.0, "abs_tol": self.within}
        return math.isclose(value, self.number, **near)

    def __repr__(self) -> str:
        return f"about({self.number!r}{'' if self.within is None else f', within={self.within!r}'})"


@frozen(eq=False, repr=False, init=False)
class one_of(Matcher):  # noqa: N801
    """Equal to each of these values."""

    values: tuple[Any, ...]

    def __init__(self, *values: Any) -> None:
        self.__attrs_init__(values)

    def accepts(self, value: Any) -> bool:
        return any(value == each for each in self.values)

    def __repr__(self) -> str:
        return f"one_of({', '.join(map(repr, self.values))})"


@frozen(eq=False, repr=False)
class of_type(Matcher):  # noqa: N801
    """Equal to every value of a type; ``of_type(int)`` is not equal to True."""

    kind: type

    def accepts(self, value: Any) -> bool:
        return isinstance(value, self.kind) and (self.kind is bool or not isinstance(value, bool))

    def __repr__(self) -> str:
        return f"of_type({self.kind.__name__})"
