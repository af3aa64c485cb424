"""Makes untrusted JSON safe to decode: parts that are nested too deeply are replaced by a text, the rest stays.

A decoder that rejects a message for its depth would lose a whole list of tools for one tool's schema.
"""

from __future__ import annotations

import re

from interpreters.tools.tool_lists import DEEPEST, shallow

LONGEST_MESSAGE = 16 * 2**20
"""Maximum bytes of a message; a longer message is not read."""

TOO_DEEP = "cogstep: this was nested too deeply, and was left out"
"""Replaces a part that was nested too deeply."""

_STAND_IN = f'"{TOO_DEEP}"'


ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
"""An escape in a string, matched whole so that each backslash is read once. The group is an unpaired surrogate."""

HALF = re.compile(rb"\\u[dD][89a-fA-F]")

REPLACEMENT = rb"\ufffd"


def limit_json(data: bytes) -> bytes:
    """Return a message with a nesting below ``DEEPEST`` levels and with valid texts only: no unpaired surrogates, and
    no bytes that are not UTF-8.
    """
    if not data.isascii():
        data = data.decode("utf-8", "replace").encode()
    if HALF.search(data):
        data = ESCAPE.sub(lambda found: found[0] if found[1] is None else REPLACEMENT, data)
    if data.count(b"{") + data.count(b"[") < DEEPEST:
        return data
    return shallow(data.decode(), _STAND_IN).encode()
