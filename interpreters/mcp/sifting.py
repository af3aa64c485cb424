"""JSON of strangers, made safe to decode: what is nested too deeply is replaced by a text, and the rest stays.

A decoder that gives a message up for its depth would lose a whole list of tools for one tool's schema.
"""

from __future__ import annotations

from interpreters.tools.listings import DEEPEST, shallow

LONGEST_MESSAGE = 16 * 2**20
"""Bytes of a message that are read; what is longer is not."""

TOO_DEEP = "cogstep: this was nested too deeply, and was left out"
"""Stands in the place of what was nested too deeply."""

_STAND_IN = f'"{TOO_DEEP}"'


def sifted(data: bytes) -> bytes:
    """A message in which nothing is nested ``DEEPEST`` levels deep."""
    if data.count(b"{") + data.count(b"[") < DEEPEST:
        return data
    text = data.decode("utf-8", "surrogateescape")
    return shallow(text, _STAND_IN).encode("utf-8", "surrogateescape")
