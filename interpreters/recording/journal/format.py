"""What stands in a journal: the header, the records, how decisions are written, and how each line ends."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

from attrs import field, frozen

from cognition import (
    AgentConfig,
    AgentState,
    CallModel,
    ContextAssembled,
    ContextChosen,
    Decision,
    EchoEngine,
    Input,
    LLMEngine,
    to_data,
)
from cognition.encoding import encoder
from interpreters.recording.digest import RequestDigest
from interpreters.recording.journal.seals import BEFORE, BEHIND, DIGITS_FROM, SUM_LENGTH

FORMAT = "cogstep-journal"
ENGINES: dict[type, str] = {LLMEngine: "llm", EchoEngine: "echo"}
"""Engines that a reader can make again from the header; others are named by their class and have to be given."""

REPORTS = (ContextAssembled, ContextChosen)
"""Decisions that only tell how another one came about. They are not recorded: what they tell of shows in the request,
and a better estimate of its size is no divergence."""


@frozen
class Origin:
    """The session that a fork comes from, and the turn after which it goes its own way."""

    session: str
    turn: int
    foreign: bool = False
    """It was not the user's own recording, so that nothing but its conversation was taken over."""


@frozen
class Header:
    """The first line."""

    session: str
    engine: str
    config: AgentConfig | None
    """What the engine was made from; None for engines that have no such configuration."""
    created: float
    start: AgentState = AgentState()
    """What the session began with: of a fork, the state it was forked from."""
    origin: Origin | None = None
    """Of a fork: where it comes from."""
    redacted: tuple[Any, ...] = ()
    """What of the configuration was hidden: as data, each with its ``field``, ``kind`` and ``count``."""


@frozen
class Record:
    """One input with its decisions, as they stand on file."""

    seq: int
    """Counts the records from 1."""
    input: Input
    decisions: list[Any] = field(eq=False)
    """Plain data: a replay compares them with what it decides."""
    redacted: tuple[Any, ...] = ()
    """What of the input was hidden: as data, each with its ``field``, ``kind`` and ``count``."""


@frozen
class Place:
    """Where a whole line ends."""

    end: int
    """In bytes from the beginning of the file."""
    number: int
    """Of its record; the header has 0."""
    sum: int
    """The line's sum, with which that of the next one begins."""
    seal: blake2b | None = field(default=None, eq=False, repr=False)
    """The hash with which the next line is sealed, and which is copied for it; None: it gets no seal."""


class DecisionWriter:
    """Decisions as the journal has them: plain data, requests by their digest. One a session: the digest is a chain."""

    def __init__(self) -> None:
        self._digest = RequestDigest()

    def data(self, decisions: Iterable[Decision]) -> list[Any]:
        """The decisions of one step, reports left out."""
        return [self._data(decision) for decision in decisions if not isinstance(decision, REPORTS)]

    def _data(self, decision: Decision) -> Any:
        if not isinstance(decision, CallModel):
            return to_data(decision)
        data = {"type": "call_model", "effect_id": decision.effect_id}
        if decision.purpose != "answer":  # as everywhere, the usual value is left out
            data["purpose"] = decision.purpose
        data["digest"] = self._digest.of(decision.request)
        return data


# --------------------------------------------------------------------------------------------------- lines and sums

ENCODE = encoder(ascii_only=False, allow_nan=False)
ENCODE_ASCII = encoder(ascii_only=True, allow_nan=False)

HALVES = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def line_of(value: dict[str, Any], before: int = 0, seal: blake2b | None = None) -> tuple[bytes, int, blake2b | None]:
    """An object as a line of the journal, which ends with a seal and with a sum over it and all lines before it.

    The sum is the CRC-32 of what stands before ``,"sum":``, begun with the sum of the line before (of the header: 0).
    It finds every change of up to 32 bits in a row, and others but for one in 4 billion. That nobody changed a journal
    on purpose, the seal shows: see ``seals``.

    Args:
        value: must not be empty.
        before: the sum of the line before.
        seal: the hash of all lines before, which is left as it is; None for a line without a seal.

    Returns:
        The line with its line break, its sum, and the hash of all lines with this one.

    Raises:
        ValueError: JSON has no form for it.
    """
    text = ENCODE(value)[:-1]
    try:
        content = text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which UTF-8 has no form for but JSON's \u has
        # Both halves, as two pieces of a stream may bring them, JSON would read as one character, and the fold as
        # another text: these are written as they are.
        halves = HALVES.search(text)
        content = ENCODE_ASCII(value)[:-1].encode() if halves is None else text.encode("utf-8", "surrogatepass")
    if seal is None:
        total = zlib.crc32(content, before)
        return b'%b,"sum":"%08x"}\n' % (content, total), total, None
    seal, content = seal.copy(), content + BEFORE
    seal.update(content)
    digits = seal.hexdigest().encode()
    content = b"%b%b%b" % (content, digits, BEHIND)
    total = zlib.crc32(content, before)
    line = b'%b,"sum":"%08x"}\n' % (content, total)
    seal.update(line[-DIGITS_FROM:])
    return line, total, seal


def sum_of(line: bytes, before: int) -> int | None:
    """The sum of a line, or None if what stands in it is not what was written."""
    total = zlib.crc32(memoryview(line)[:-SUM_LENGTH], before)
    return total if line[-SUM_LENGTH:] == b',"sum":"%08x"}\n' % total else None
