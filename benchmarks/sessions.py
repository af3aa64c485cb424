"""Sessions of ``LLMEngine`` by hand: what happens in each turn, without an interpreter."""

from __future__ import annotations

from benchmarks.peers.protocol import ANSWER, ARGUMENTS, ARGUMENTS_JSON, RESULT, TOOL, TOOL_TEXT, question
from cognition import (
    AgentConfig,
    EffectId,
    Input,
    LLMEngine,
    ModelReplied,
    ProposedCall,
    ToolReturned,
    ToolSpec,
    UserSpoke,
)

CONTEXT = 10_000_000
"""Tokens: so many that no history here is trimmed; the peers do not trim theirs either."""
KINDS = ("UserSpoke", "ModelReplied, a call", "ToolReturned", "ModelReplied, an answer")
"""The inputs of a turn, each of which adds one message to the history."""

CALLS = (ProposedCall(TOOL, ARGUMENTS_JSON),)
SCHEMA = {
    "type": "object",
    "properties": {name: {"type": "integer"} for name in ARGUMENTS},
    "required": list(ARGUMENTS),
}


def new_engine() -> LLMEngine:
    return LLMEngine(AgentConfig(tools=(ToolSpec(TOOL, TOOL_TEXT, SCHEMA, read_only=True),), context_tokens=CONTEXT))


def turn_inputs(turn: int, text: str = "") -> tuple[Input, Input, Input, Input]:
    """What happens in a session's turn of this number, from 1; effect ids are known beforehand."""
    return (
        UserSpoke(text or question(turn)),
        ModelReplied(EffectId(f"{turn}.1.0"), calls=CALLS),
        ToolReturned(EffectId(f"{turn}.1.1"), RESULT),
        ModelReplied(EffectId(f"{turn}.2.0"), ANSWER),
    )
