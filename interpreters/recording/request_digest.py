"""A digest of model requests: equal for equal requests, and cheap for long conversations.

A request at message 10,000 contains 10,000 messages. Hashing all of them for each call would make the cost of a session
quadratic. So the hash of the messages is a chain, ``link(n) = hash(link(n - 1), message n)``, that continues from the
previous request.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from cognition import History, ModelRequest, to_data
from cognition.base.encoding import encoder
from cognition.values.tools import ToolSpec

SIZE = 8
"""Bytes of a digest: 16 hexadecimal digits. Two requests share a digest by chance in 1 of 10**12 sessions."""

EMPTY = blake2b(digest_size=SIZE)
"""Copied for each hash, which takes half the time of creating one."""

ENCODE = encoder(ascii_only=True, sort_keys=True)


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
            link = _hash(link, ENCODE(data).encode())
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
            self._head, self._head_digest = request, _hash(b"", ENCODE(data).encode())
        return self._head_digest


def _hash(first: bytes, second: bytes) -> bytes:
    parts = b"%b%b%b%b" % (len(first).to_bytes(8), first, len(second).to_bytes(8), second)
    hashed = EMPTY.copy()
    hashed.update(parts)
    return hashed.digest()
