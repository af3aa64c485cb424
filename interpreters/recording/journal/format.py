"""Contents of a journal: the header, the records, the format of decisions, and the end of each line."""

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
from cognition.base.encoding import encoder
from interpreters.recording.journal.seals import BEFORE, BEHIND, DIGITS_FROM, SUM_LENGTH
from interpreters.recording.request_digest import RequestDigest

FORMAT = "cogstep-journal"
ENGINES: dict[type, str] = {LLMEngine: "llm", EchoEngine: "echo"}
"""Engines that a reader can recreate from the header. Others are named by their class and must be passed in."""

REPORTS = (ContextAssembled, ContextChosen)
"""Decisions that only explain another decision. They are not recorded, since the request shows their content.

A better estimate of a request's size is therefore not a divergence.
"""


@frozen
class Origin:
    """Origin of a fork: the session, and the last common turn."""

    session: str
    turn: int
    foreign: bool = False
    """Whether the recording was not the user's own, so that only its conversation was used."""


@frozen
class Header:
    """The first line."""

    session: str
    engine: str
    config: AgentConfig | None
    """Configuration of the engine; None for engines without one."""
    created: float
    start: AgentState = AgentState()
    """Initial state; for a fork, the forked state."""
    origin: Origin | None = None
    redacted: tuple[Any, ...] = ()
    """Secrets hidden in the configuration: dicts with ``field``, ``kind`` and ``count``."""


@frozen
class Record:
    """One input with its recorded decisions."""

    seq: int
    """Number of the record, from 1."""
    input: Input
    decisions: list[Any] = field(eq=False)
    """Plain data, which a replay compares with its own decisions."""
    redacted: tuple[Any, ...] = ()
    """Secrets hidden in the input: dicts with ``field``, ``kind`` and ``count``."""


@frozen
class LineEnd:
    """The end of a complete line."""

    end: int
    """Bytes from the beginning of the file."""
    number: int
    """Number of the record; 0 for the header."""
    sum: int
    """Sum of the line, from which the sum of the next line starts."""
    seal: blake2b | None = field(default=None, eq=False, repr=False)
    """Hash that seals the next line, to be copied before use; None for a line without a seal."""


class DecisionWriter:
    """Converts decisions to plain data, with digests of requests. Use one writer per session, since the digest is a
    chain.
    """

    def __init__(self) -> None:
        self._digest = RequestDigest()

    def data(self, decisions: Iterable[Decision]) -> list[Any]:
        """Return the decisions of one step without reports."""
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
    """Return an object as a line of the journal, with a seal and a sum over it and all earlier lines.

    The sum is the CRC-32 of the text before ``,"sum":``, started with the sum of the previous line (0 for the header).
    It finds every change of up to 32 adjacent bits, and all but 1 in 4 billion of other changes. The seal proves that
    nothing was changed on purpose: see ``seals``.

    Args:
        value: must not be empty.
        before: sum of the previous line.
        seal: hash of all earlier lines, not modified; None for a line without a seal.

    Returns:
        The line with its line break, its sum, and the hash of all lines including this one.

    Raises:
        ValueError: JSON can't represent the value.
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
    """Return the sum of a line, or None if the line was changed."""
    total = zlib.crc32(memoryview(line)[:-SUM_LENGTH], before)
    return total if line[-SUM_LENGTH:] == b',"sum":"%08x"}\n' % total else None
