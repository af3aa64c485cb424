"""An immutable sequence of messages that appends in constant time.

Old histories stay valid and share storage with newer histories, since replay, forks and exploration keep many of them
alive. Storage is a tuple of full chunks and a shorter last chunk: appending copies at most ``CHUNK`` references, and
every ``CHUNK`` appends also the tuple of chunks (10,000 messages: 156 references).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import is_
from typing import overload

from cognition.values.messages import Message

CHUNK = 64
"""Measured: 32 to 128 append equally fast; 64 keeps the tuple of chunks short for 100,000 messages."""

Chunk = tuple[Message, ...]

_new = object.__new__
_set = object.__setattr__
"""Sets the attributes of a new history, since its ``__setattr__`` raises."""


class History(Sequence[Message]):
    """Messages in order. Equal to any history with equal messages, however built."""

    __slots__ = ("_chunks", "_first", "_tail")

    _chunks: tuple[Chunk, ...]
    _tail: Chunk
    _first: int

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        all_messages = tuple(messages)
        full = len(all_messages) - len(all_messages) % CHUNK
        chunks = tuple(all_messages[i : i + CHUNK] for i in range(0, full, CHUNK))
        _set(self, "_chunks", chunks)
        _set(self, "_tail", all_messages[full:])
        _set(self, "_first", 0)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a History can't be changed; {name!r} was to be set")

    def append(self, *messages: Message) -> History:
        """Return a new history with these messages at its end; this history is unchanged."""
        chunks, tail = self._chunks, self._tail + messages
        while len(tail) >= CHUNK:
            chunks, tail = (*chunks, tail[:CHUNK]), tail[CHUNK:]
        new = _new(History)  # as in ``_history``: each message passes here
        _set(new, "_chunks", chunks)
        _set(new, "_tail", tail)
        _set(new, "_first", self._first)
        return new

    def drop(self, count: int) -> History:
        """Return the history without its first ``count`` messages (0 <= count <= len), sharing this one's storage."""
        if not count:
            return self
        if not 0 <= count <= len(self):
            raise ValueError(f"can't drop {count} of {len(self)} messages")
        return _history(self._chunks, self._tail, self._first + count)

    def by_chunks(self, first: int, end: int, change: Callable[[Chunk, int], Chunk]) -> History:
        """Return the history with the messages in ``first:end`` changed, at most ``CHUNK`` at a time.

        ``change`` receives some messages and the index of the first of them, and returns as many: the same tuple if
        nothing changes. It also receives some messages before ``first`` and from ``end`` on.
        """
        chunks, whole = list(self._chunks), len(self._chunks)
        for place in range(min((first + self._first) // CHUNK, whole), min(-(-(end + self._first) // CHUNK), whole)):
            chunks[place] = change(chunks[place], place * CHUNK - self._first)
        tail = whole * CHUNK - self._first
        return _history(tuple(chunks), change(self._tail, tail) if tail < end else self._tail, self._first)

    def continues(self, before: History) -> bool:
        """Return whether this is ``before`` plus zero or more messages, as far as shared storage shows.

        A history that grew from another shares its chunks, so comparing identities is enough. Histories built
        separately share no chunks: even if equal, they count as different once they are longer than a chunk.
        """
        whole, tail = len(before._chunks), before._tail
        if self._first != before._first or len(self._chunks) < whole:
            return False
        if self._chunks is not before._chunks and not all(map(is_, self._chunks, before._chunks)):
            return False
        behind = self._chunks[whole] if len(self._chunks) > whole else self._tail
        return behind[: len(tail)] == tail

    def __len__(self) -> int:
        return len(self._chunks) * CHUNK + len(self._tail) - self._first

    def __iter__(self) -> Iterator[Message]:
        whole, inside = divmod(self._first, CHUNK)
        if whole >= len(self._chunks):
            return iter(self._tail[self._first - len(self._chunks) * CHUNK :])
        stored = chain(chain.from_iterable(islice(self._chunks, whole, None)), self._tail)
        return islice(stored, inside, None)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Message, ...]: ...
    def __getitem__(self, index: int | slice) -> Message | tuple[Message, ...]:
        if isinstance(index, slice):
            start, stop, stride = index.indices(len(self))
            before_tail = len(self._chunks) * CHUNK - self._first
            if stride == 1 and start >= before_tail:  # the newest messages, which are asked for most
                return self._tail[start - before_tail : max(stop, start) - before_tail]
            if stride == 1:
                return tuple(islice(self.drop(start), max(stop - start, 0)))
            return tuple([self._at(i) for i in range(start, stop, stride)])
        length = len(self)
        position = index + length if index < 0 else index
        if not 0 <= position < length:
            raise IndexError(f"message {index} of {length}")
        return self._at(position)

    def _at(self, position: int) -> Message:
        chunk, inside = divmod(position + self._first, CHUNK)
        return self._chunks[chunk][inside] if chunk < len(self._chunks) else self._tail[inside]

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, History):
            return NotImplemented
        if self._first == other._first == 0:  # the usual case: tuples that share chunks compare them by identity
            return self._tail == other._tail and self._chunks == other._chunks
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash((len(self), self[-1] if len(self) else None))

    def __repr__(self) -> str:
        return f"History({list(self)!r})"

    def __copy__(self) -> History:
        return self

    def __deepcopy__(self, memo: object) -> History:
        return self  # messages can't be changed either

    def __reduce__(self) -> tuple[type[History], tuple[tuple[Message, ...]]]:
        return History, (tuple(self),)


def _history(chunks: tuple[Chunk, ...], tail: Chunk, first: int) -> History:
    """Build a history from its parts. Not a method: method calls are slower, and each step builds a history or two."""
    new = _new(History)
    _set(new, "_chunks", chunks)
    _set(new, "_tail", tail)
    _set(new, "_first", first)
    return new
