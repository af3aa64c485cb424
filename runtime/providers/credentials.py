"""Keys: read from the environment when a request is sent, kept nowhere, and taken out of whatever comes back.

A server may repeat a key in its error, and a library may repeat a header that it can't send. So no text of theirs
becomes a failure before ``scrubbed`` has been over it.
"""

from __future__ import annotations

import os
import re

from attrs import evolve

from cognition import Failure
from runtime.providers.backends import Backend

SHORTEST_SECRET = 6
"""Characters. A shorter value is a placeholder such as ``none``, and stands in ordinary texts."""


class NoKeyError(Exception):
    """A request can't be sent for want of a key. Becomes the failure of that request."""


def key_of(backend: Backend) -> str:
    """The key of a backend; empty where it needs none.

    Raises:
        NoKeyError: its variable is not set, or holds what no header can carry; the message doesn't repeat it.
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
    """The headers that carry a key."""
    if not key:
        return []
    header = backend.key_header or ("x-api-key" if backend.dialect == "anthropic" else "Authorization")
    return [(header, f"Bearer {key}" if header.lower() == "authorization" else key)]


def scrubbed(text: str, backend: Backend) -> str:
    """A text without the backend's key."""
    if not backend.key_env:
        return text
    key = os.environ.get(backend.key_env, "").strip()
    return text.replace(key, f"[{backend.key_env}]") if len(key) >= SHORTEST_SECRET else text


def scrubbed_failure(failure: Failure, backend: Backend) -> Failure:
    """A failure without the backend's key in its texts."""
    return evolve(failure, message=scrubbed(failure.message, backend), code=scrubbed(failure.code, backend))
