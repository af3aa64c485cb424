"""A short name for what a model was asked: equal for equal requests, cheap for long conversations.

A request of message 10,000 holds 10,000 messages, and writing or hashing them anew for each call would make sessions
cost the square of their length. So messages are hashed as a chain, ``link(n) = hash(link(n - 1), message n)``, and the
chain is carried on from the request before.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

from cognition import History, ModelRequest, to_data
from cognition.tools import ToolSpec

SIZE = 8
"""Bytes, so 16 hexadecimal digits: two of the requests of a session share a name by chance in 1 of 10**12 sessions."""

ENCODE = json.JSONEncoder(ensure_ascii=True, sort_keys=True, separators=(",", ":")).encode


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
        known = len(self._messages)
        if not continues(messages, self._messages):
            known, self._link = 0, b""
        link = self._link
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


def continues(messages: History, before: History) -> bool:
    """Whether ``messages`` begins with all of ``before``.

    Histories only ever grow at their end or lose messages at their beginning, and a message is one object for as long
    as it lives. So positions tell: the first, and the last back in growing strides, are compared by identity.
    """
    length = len(before)
    if length == 0 or length > len(messages) or messages[0] is not before[0]:
        return False
    back = 1
    while back <= length:
        if messages[length - back] is not before[length - back]:
            return False
        back *= 4
    return True


def _hash(*parts: bytes) -> bytes:
    lengths_and_parts = [each for part in parts for each in (len(part).to_bytes(8), part)]
    return blake2b(b"".join(lengths_and_parts), digest_size=SIZE).digest()
