"""What stands in a journal: the header, the records, and how decisions are written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import field, frozen

from cognition import (
    AgentConfig,
    AgentState,
    CallModel,
    ContextAssembled,
    Decision,
    EchoEngine,
    Input,
    LLMEngine,
    to_data,
)
from interpreters.digest import RequestDigest

FORMAT = "cogstep-journal"
ENGINES: dict[type, str] = {LLMEngine: "llm", EchoEngine: "echo"}
"""Engines that a reader can make again from the header; others are named by their class and have to be given."""

REPORTS = (ContextAssembled,)
"""Decisions that only tell how another one came about. They are not recorded: what they tell of shows in the request,
and a better estimate of its size is no divergence."""


@frozen
class Origin:
    """The session that a fork comes from, and the turn after which it goes its own way."""

    session: str
    turn: int


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


@frozen
class Record:
    """One input with its decisions, as they stand on file."""

    seq: int
    """Counts the records from 1."""
    input: Input
    decisions: list[Any] = field(eq=False)
    """Plain data: a replay compares them with what it decides."""


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
        return {
            "type": "call_model",
            "effect_id": decision.effect_id,
            "purpose": decision.purpose,
            "request": {"digest": self._digest.of(decision.request)},
        }
