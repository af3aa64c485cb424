"""Keys: read from the environment for each request, never stored, and masked in everything that comes back.

A server may repeat a key in its error, plain or encoded by its gateway (URL, base64, JSON). A library may repeat a
header that it cannot send. Their texts are truncated, possibly within a key. So ``scrub`` processes each such text
before it becomes a failure or a log line, and also finds parts of a key. Text from the model is not processed.
"""

from __future__ import annotations

import html
import json
import logging
import os
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable
from urllib.parse import quote

from attrs import evolve

from cognition import Failure
from runtime.providers.backends import Backend

LONGEST_PIECE = 12
"""Parts of a key with this many characters are masked; of a short key, a third of it."""

SHORTEST_SECRET = 6
"""Characters. A shorter value is a placeholder such as ``none``, and occurs in ordinary texts."""


class NoKeyError(Exception):
    """A request lacks its key. Becomes the failure of that request."""


def key_of(backend: Backend) -> str:
    """Return the key of a backend; empty if it needs none.

    Raises:
        NoKeyError: its variable is not set, or has characters invalid in a header; the message does not repeat it.
    """
    if not backend.key_env:
        return ""
    key = os.environ.get(backend.key_env, "").strip()
    if not key:
        if backend.key_optional:
            return ""
        raise NoKeyError(f"{backend.key_env} is not set, which has the key of {backend.name!r}; set it")
    if re.search(r"[^\x21-\x7e]", key):
        raise NoKeyError(f"{backend.key_env} holds white space or other signs that no key has; set it anew")
    return key


def key_headers(backend: Backend, key: str) -> list[tuple[str, str]]:
    """Return the headers that carry a key."""
    if not key:
        return []
    header = backend.key_header or ("x-api-key" if backend.dialect == "anthropic" else "Authorization")
    return [(header, f"Bearer {key}" if header.lower() == "authorization" else key)]


def scrub(text: str, backend: Backend) -> str:
    """Return a text with the backend's key masked, in all encodings, including long parts of it."""
    return _scrub(text, backend.key_env)


def _scrub(text: str, key_env: str) -> str:
    key = os.environ.get(key_env, "").strip() if key_env else ""
    if len(key) < SHORTEST_SECRET:
        return text
    for form in forms_of(key):
        text = _without(text, form, f"[{key_env}]")
    return text


def forms_of(key: str) -> list[str]:
    """Return a key as plain text, and encoded for URLs, JSON, HTML, hexadecimal, and base64 at any offset."""
    whole = key.encode()
    forms = [key, json.dumps(key)[1:-1], key.replace("/", "\\/"), html.escape(key), whole.hex(), whole.hex().upper()]
    forms += ["".join(f"\\u{ord(character):04x}" for character in key)]
    for safe in ("", "/"):
        quoted = quote(key, safe=safe)
        forms += [quoted, re.sub("%..", lambda found: found[0].lower(), quoted)]
    for before in range(3):  # what stands before it shifts how its bytes fall into groups of three
        begin, length = -(-before * 4 // 3), (before + len(whole)) // 3 * 4
        shifted = b"\0" * before + whole
        forms += [encoded(shifted).decode()[begin:length] for encoded in (b64encode, urlsafe_b64encode)]
    return list(dict.fromkeys(forms))


def _without(text: str, secret: str, mark: str) -> str:
    """Replace each sufficiently long part of a secret by ``mark``."""
    size = max(min(len(secret), SHORTEST_SECRET), min(LONGEST_PIECE, len(secret) // 3))
    found: list[tuple[int, int]] = []
    for at in range(len(secret) - size + 1):
        piece, place = secret[at : at + size], -1
        while (place := text.find(piece, place + 1)) >= 0:
            found.append((place, place + size))
    kept, end = list[str](), 0
    for begin, until in sorted(found):
        if begin > end or not kept:
            kept += [text[end:begin], mark]
        end = max(end, until)
    return "".join(kept) + text[end:]


class KeyFilter(logging.Filter):
    """A logging filter that masks keys in the HTTP library's logs, which include response headers."""

    def __init__(self, loggers: Iterable[str]) -> None:
        super().__init__()
        self._key_envs: frozenset[str] = frozenset()
        for name in loggers:
            logging.getLogger(name).addFilter(self)

    def add(self, backend: Backend) -> None:
        """Also mask this backend's key."""
        if backend.key_env:
            self._key_envs |= {backend.key_env}

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        for key_env in self._key_envs:
            text = _scrub(text, key_env)
        record.msg, record.args = text, None
        return True


LOGS = KeyFilter(f"httpcore2.{name}" for name in ("connection", "http11", "http2", "proxy", "socks"))


def scrub_failure(failure: Failure, backend: Backend) -> Failure:
    """Return a failure with the backend's key masked in its texts."""
    return evolve(failure, message=scrub(failure.message, backend), code=scrub(failure.code, backend))
