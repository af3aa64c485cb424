"""A digest of model requests: equal for equal requests, and cheap for long conversations.

A request at message 10,000 contains 10,000 messages. Hashing all of them for each call would make the cost of a session
quadratic. So the hash of the messages is a chain, ``link(n) = hash(link(n - 1), message n)``, that continues from the
previous request.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

from cognition import AssistantMessage, History, ModelRequest, to_data
from cognition.base.encoding import encoder
from cognition.values.tools import ToolSpec

SIZE = 8
"""Bytes of a digest: 16 hexadecimal digits. Two requests share a digest by chance in 1 of 10**12 sessions."""

EMPTY = blake2b(digest_size=SIZE)
"""Copied for each hash, which takes half the time of creating one."""

ENCODE = encoder(ascii_only=True, sort_keys=True)

LARGE = 1 << 20
"""Characters of data that is hashed in parts, with one text in memory at a time."""


class RequestDigest:
    """Computes the digests of one session's requests."""

    def __init__(self) -> None:
        self._messages = History()
        self._link = b""
        self._head: ModelRequest | None = None
        self._head_digest = b""

    def of(self, request: ModelRequest) -> str:
        messages = request.messages
        known, link = len(self._messages), self._link
        if not messages.continues(self._messages):
            known, link = 0, b""
        for message in messages[known:]:
            data = to_data(message)
            data.pop("left_out", None)  # not sent to a model
            # What may refer to one text several times. Any other message needs the memory of some copies of its text.
            several = message.calls if isinstance(message, AssistantMessage) else getattr(message, "parts", ())
            large = len(several) > 1 and _is_large(data)
            link = _hash_large(link, data) if large else _hash(link, ENCODE(data).encode())
        self._messages, self._link = messages, link
        return _hash(self._head_of(request), link).hex()

    def _head_of(self, request: ModelRequest) -> bytes:
        """Return the hash of the parts before the messages, which rarely change."""
        head = self._head
        if (
            head is None
            or head.tools is not request.tools
            or (head.options is not request.options and head.options != request.options)
            or (head.system is not request.system and head.system != request.system)
        ):
            data: Any = [request.system, to_data(request.tools, tuple[ToolSpec, ...]), to_data(request.options)]
            digest = _hash_large(b"", data) if _is_large(data) else _hash(b"", ENCODE(data).encode())
            self._head, self._head_digest = request, digest
        return self._head_digest


def _hash(first: bytes, second: bytes) -> bytes:
    parts = b"%b%b%b%b" % (len(first).to_bytes(8), first, len(second).to_bytes(8), second)
    hashed = EMPTY.copy()
    hashed.update(parts)
    return hashed.digest()


def _is_large(data: Any) -> bool:
    """Whether the texts of plain data have more than ``LARGE`` characters together."""
    size, waiting = 0, [data]
    while waiting and size <= LARGE:
        value = waiting.pop()
        if isinstance(value, str):
            size += len(value)
        elif isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list | tuple):
            waiting += value
    return size > LARGE


def _hash_large(first: bytes, data: Any) -> bytes:
    """Return ``_hash(first, ENCODE(data).encode())``. A reply may have a thousand calls with the same large text."""
    hashed = EMPTY.copy()
    hashed.update(len(first).to_bytes(8) + first + sum(map(len, _pieces(data))).to_bytes(8))
    for piece in _pieces(data):
        hashed.update(piece.encode())
    return hashed.digest()


def _pieces(data: Any) -> Iterator[str]:
    """Yield ``ENCODE(data)`` in parts."""
    if isinstance(data, dict):
        for number, (name, value) in enumerate(sorted(data.items())):
            yield f"{',' if number else '{'}{ENCODE(name)}:"
            yield from _pieces(value)
        yield "}" if data else "{}"
    elif isinstance(data, list | tuple):
        for number, value in enumerate(data):
            yield "," if number else "["
            yield from _pieces(value)
        yield "]" if data else "[]"
    else:
        yield ENCODE(data)
