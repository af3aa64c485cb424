"""Removes a server's keys from all texts about it or from it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from interpreters.recording.redaction import Redaction
from runtime.children.start import SECRET

HIDDEN = "[hidden]"

SHORTEST = 4
"""Minimum characters of a key to search for; a shorter one would occur in any text."""

PUBLIC = frozenset({"accept", "accept-language", "content-type", "user-agent", "mcp-protocol-version"})
"""Headers that contain no key."""


@cache
def _shapes() -> Redaction:
    return Redaction()


class HidesKeys(Protocol):
    """The fields of ``MCPServer`` that may contain keys; its own ``repr`` hides them."""

    @property
    def args(self) -> tuple[str, ...]: ...
    @property
    def env(self) -> Mapping[str, str]: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def url(self) -> str: ...


class Hider:
    """Removes a server's keys from texts.

    Keys are environment variables and arguments that are named or look like a key, headers, and secret parts of the
    URL.
    """

    def __init__(self, server: HidesKeys) -> None:
        found = sorted({one for one in _keys(server) if len(one) >= SHORTEST}, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, found))) if found else None

    def __call__(self, text: str) -> str:
        return text if self._pattern is None else self._pattern.sub(HIDDEN, text)


def _keys(server: HidesKeys) -> Iterator[str]:
    for name, value in server.env.items():
        if SECRET.search(name):
            yield value
        yield from _find_shaped(f"{name}={value}", value)
    before = ""
    for arg in server.args:
        name, sign, value = arg.partition("=")
        if sign and SECRET.search(name.lstrip("-").replace("-", "_")):
            yield value
        elif before.startswith("-") and "=" not in before and SECRET.search(before.lstrip("-").replace("-", "_")):
            yield arg
        yield from _find_shaped(arg, arg)
        before = arg
    for name, value in server.headers.items():
        if name.lower() not in PUBLIC:
            yield value
            yield value.rpartition(" ")[2]  # what stands behind "Bearer"
    if server.url:
        parts = urlsplit(server.url)
        for text in (parts.username, parts.password, *(value for _, value in parse_qsl(parts.query))):
            if text:
                yield from (text, unquote(text))
        yield from (parts.query, parts.fragment)


def _find_shaped(text: str, value: str) -> Iterator[str]:
    for one in _shapes().find_secrets(text):
        part = text[one.start : one.end]
        if part in value:
            yield part
