"""A short name for what a model was asked: equal for equal requests, cheap for long conversations.

A request of message 10,000 holds 10,000 messages, and writing or hashing them anew for each call would make sessions
cost the square of their length. So messages are hashed as a chain, ``link(n) = hash(link(n - 1), message n)``, and the
chain is carried on from the request before.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from cognition import History, ModelRequest, to_data
from cognition.encoding import encoder
from cognition.tools import ToolSpec

SIZE = 8
"""Bytes, so 16 hexadecimal digits: two of the requests of a session share a name by chance in 1 of 10**12 sessions."""

EMPTY = blake2b(digest_size=SIZE)
"""Copied for each hash, in half of the time that making one takes."""

ENCODE = encoder(ascii_only=True, sort_keys=True)


class RequestDigest:
    """Names the requests of one session."""

    def __init__(self) -> None:
        self._messages = History()
        self._link = b""
        self._head: ModelRequest | None = None
        self._head_digest = b""

    def of(self, request: ModelRequest) -> str:
        """The digest of a request, as hexadecimal digits."""
        messages = request.messages
        known, link = len(self._messages), self._link
        if not messages.continues(self._messages):
            known, link = 0, b""
        for message in messages[known:]:
            link = _hash(link, ENCODE(to_data(message)).encode())
        self._messages, self._link = messages, link
        return _hash(self._head_of(request), link).hex()

    def _head_of(self, request: ModelRequest) -> bytes:
        """Of what stands before the messages; it hardly ever changes."""
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
