"""Read the header of a message: its recipient, its channel, and words that no header has."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, NamedTuple

from cognition.parsing.spec import HeaderMarkers

LONGEST_HEADER = 1024
"""Characters of a header. Longer text behind its start is reasoning: models write no header of more than 100."""

Channel = Literal["reasoning", "answer", "unknown"]


class Header(NamedTuple):
    """The contents of a header."""

    tool: int
    """Where the name of the tool begins that receives the message; -1 if no tool does."""
    channel: Channel
    text: str
    """The header without markers."""
    known: bool
    """Whether all of its text belongs to a header, so that none of it is lost if the header is not shown."""


def read_header(markers: HeaderMarkers, text: str, *, complete: bool) -> Header:
    """Return the contents of a header. ``complete``: its end marker is present; otherwise a name may be cut."""
    found = _recipients(markers.recipient).finditer(text)
    tool = next((one.start(1) for one in found if one[1] not in markers.people), -1)
    plain = text
    for token in markers.tokens:
        plain = plain.replace(token, " ")
    words = plain.split()
    first = words[0] if words else ""
    names = (markers.reasoning, *markers.answers, *markers.people)
    if complete:
        known = first in names
    else:
        known = any(name.startswith(first) for name in names) and (len(words) <= 1 or plain != text)
    channel: Channel = "reasoning" if first == markers.reasoning else "unknown"
    return Header(tool, "answer" if first in markers.answers else channel, plain.strip(), known)


@lru_cache(maxsize=8)
def _recipients(sign: str) -> re.Pattern[str]:
    return re.compile(rf"\b{re.escape(sign)}\s*([\w.:-]+)")
