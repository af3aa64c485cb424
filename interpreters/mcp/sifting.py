"""JSON of strangers, made safe to decode: what is nested too deeply is replaced by a text, and the rest stays.

A decoder that gives a message up for its depth would lose a whole list of tools for one tool's schema.
"""

from __future__ import annotations

import re

from interpreters.tools.listings import DEEPEST, shallow

LONGEST_MESSAGE = 16 * 2**20
"""Bytes of a message that are read; what is longer is not."""

TOO_DEEP = "cogstep: this was nested too deeply, and was left out"
"""Stands in the place of what was nested too deeply."""

_STAND_IN = f'"{TOO_DEEP}"'


ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
"""An escape in a string, taken whole so that no backslash is looked at twice; its group is half a character."""

HALF = re.compile(rb"\\u[dD][89a-fA-F]")

REPLACEMENT = rb"\ufffd"


def sifted(data: bytes) -> bytes:
    """A message in which nothing is nested ``DEEPEST`` levels deep, and every text is one: no half characters, and no
    bytes that are no UTF-8.
    """
    if not data.isascii():
        data = data.decode("utf-8", "replace").encode()
    if HALF.search(data):
        data = ESCAPE.sub(lambda found: found[0] if found[1] is None else REPLACEMENT, data)
    if data.count(b"{") + data.count(b"[") < DEEPEST:
        return data
    return shallow(data.decode(), _STAND_IN).encode()
