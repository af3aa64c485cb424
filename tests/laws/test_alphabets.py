"""The alphabet of an exploration says in a text protocol what it says natively, as the model would write it."""

from __future__ import annotations

import json
from typing import Literal, get_args

import pytest
from attrs import evolve

from cognition import AgentConfig, LLMEngine, ModelReplied, ProposedCall, ToolSpec
from cognition.parsing.text_protocol import read_text
from cognition.steps.vocabulary import engine_tools
from cognition.testing import default_alphabet, explore
from cognition.values.features import Feature

Protocol = Literal["short_keys", "tool_tags"]
CONFIG = AgentConfig(tools=(ToolSpec("look", read_only=True), ToolSpec("write")), features=get_args(Feature))
PROTOCOLS: tuple[Protocol, ...] = ("short_keys", "tool_tags")


def replies(config: AgentConfig) -> list[ModelReplied]:
    return [event for event in default_alphabet(config) if isinstance(event, ModelReplied)]


def plain(calls: tuple[ProposedCall, ...]) -> list[tuple[str, object]]:
    return [(call.name, json.loads(call.arguments_json)) for call in calls]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_each_call_is_read_back_from_its_text(protocol: Protocol) -> None:
    """The same calls in the same replies; then one beside an answer, and one that asks for a confirmation."""
    native, written = replies(CONFIG), replies(evolve(CONFIG, protocol=protocol))
    tools = {tool.name: tool for tool in (*CONFIG.tools, *engine_tools(CONFIG.features))}
    read = [read_text(protocol, reply.text, tools) for reply in written]

    assert [reply.calls for reply in written] == [()] * len(written)
    assert [reply.usage for reply in written[: len(native)]] == [reply.usage for reply in native]
    for one, reply in zip(read, native, strict=False):
        assert plain(one.calls) == plain(reply.calls)
        assert bool(one.malformed) == bool(reply.malformed)
        assert one.answer == reply.text
    more = [(plain(one.calls), one.answer) for one in read[len(native) :]]
    assert more == [([("look", {})], ""), ([("look", {})], "Done.")]
    assert [call.confirm for call in read[len(native)].calls] == [protocol == "short_keys"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_engine_of_a_text_protocol_keeps_the_laws(protocol: Protocol) -> None:
    """In a neighbourhood of the beginning; ``make prove`` goes on from there."""
    found = explore(LLMEngine(evolve(CONFIG, protocol=protocol, context_tokens=8192)), limit=150)

    assert found.violation is None
    assert found.states >= 150
