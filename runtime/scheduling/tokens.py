"""Immutable token sequences with cheap appending; shorter versions stay valid. And the common prefix of two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, overload


class Tokens(Sequence[int]):
    """An immutable sequence of tokens.

    A sequence and its extensions share one list, each with its own length. Only the longest can extend the list in
    place; any other copies it first. So each step creates new states of eight replies with thousands of tokens without
    copying them. Not thread-safe.
    """

    __slots__ = ("_length", "_storage")

    def __init__(self, tokens: Iterable[int] = ()) -> None:
        self._storage = list(tokens)
        self._length = len(self._storage)

    @classmethod
    def _view(cls, storage: list[int], length: int) -> Tokens:
        view = cls.__new__(cls)
        view._storage, view._length = storage, length
        return view

    def extend(self, more: Iterable[int]) -> Tokens:
        """Return the sequence with more tokens at its end."""
        storage = self._storage
        if len(storage) != self._length:
            storage = storage[: self._length]
        storage.extend(more)
        return self._view(storage, len(storage))

    def cut(self, length: int) -> Tokens:
        """Return the first ``length`` tokens (0 <= length <= len)."""
        if not 0 <= length <= self._length:
            raise ValueError(f"{length} of {self._length} tokens can't be kept")
        return self._view(self._storage, length)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> list[int]: ...

    def __getitem__(self, index: int | slice) -> int | list[int]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._length)
            if step == 1:
                return self._storage[start:stop]
            return [self._storage[place] for place in range(start, stop, step)]
        if not -self._length <= index < self._length:
            raise IndexError(f"there is no token {index} in a row of {self._length}")
        return self._storage[index if index >= 0 else index + self._length]

    def __iter__(self) -> Iterator[int]:
        return iter(self[:])

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Tokens):
            return self._length == other._length and self[:] == other[:]
        return NotImplemented

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # equality is that of a list: comparing is for tests

    def __repr__(self) -> str:
        return f"Tokens({self[:]!r})"


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """Return the length of the common prefix. It bisects, since comparing slices is nearly free."""
    low, high = 0, min(len(a), len(b))
    if a[:high] == b[:high]:
        return high
    while high - low > 1:  # a[:low] is shared, a[:high] is not
        middle = (low + high) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle
    return low
