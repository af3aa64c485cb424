"""Requests to encode, and how replies to them are read in the tests of the wire formats."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from cognition import GenerationOptions, History, Message, ModelRequest, ToolSpec, UserMessage
from cognition.parsing import ArgumentsDelta, Output, ReasoningDelta, TextDelta
from cognition.values.outcomes import Failure
from cognition.wire import Decoder, Dialect, Quirks, WireReply

ADD = ToolSpec("add", "Add two numbers.", {"type": "object", "properties": {"a": {"type": "integer"}}})
WEATHER = ToolSpec("weather")
FAR = ToolSpec("mcp.far.look")
TOOLS = (ADD, WEATHER, FAR)


def asked(*messages: Message, system: str = "", tools: Sequence[ToolSpec] = TOOLS, **more: Any) -> ModelRequest:
    """A request; options of generation are given by their names."""
    protocol = more.pop("protocol", "native")
    history = History(messages or [UserMessage("m1", "Hello")])
    return ModelRequest(system, history, tuple(tools), GenerationOptions(**more), protocol)


def read(
    dialect: Dialect,
    pieces: Iterable[bytes],
    *,
    request: ModelRequest | None = None,
    quirks: Quirks | None = None,
    cut: Failure | None = None,
) -> tuple[tuple[Output, ...], WireReply]:
    """All outputs of a reply, those of its end too, and the reply."""
    decoder = Decoder(dialect, request or asked(), quirks)
    outputs: list[Output] = []
    for piece in pieces:
        outputs += decoder.feed(piece)
    reply = decoder.finish(cut)
    return (*outputs, *reply.outputs), reply


def joined(outputs: Iterable[Output]) -> list[Output]:
    """The outputs with neighbours of one kind joined, as which they are the same for any cut."""
    kept: list[Output] = []
    for output in outputs:
        last = kept[-1] if kept else None
        match (last, output):
            case (TextDelta(before), TextDelta(text)):
                kept[-1] = TextDelta(before + text)
            case (ReasoningDelta(before), ReasoningDelta(text)):
                kept[-1] = ReasoningDelta(before + text)
            case (ArgumentsDelta(one, before), ArgumentsDelta(other, text)) if one == other:
                kept[-1] = ArgumentsDelta(one, before + text)
            case _:
                kept.append(output)
    return kept


def pieces_of(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    """The bytes in pieces, cut at these places."""
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[begin:end] for begin, end in pairwise(places)]
