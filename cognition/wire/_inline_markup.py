"""Parses reasoning and calls that a server has left in the text of a reply, as for a local model.

It transforms the outputs of the wire format's reader. Calls that the server has parsed pass through; after the first
such call, the text is no longer parsed.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve, frozen

from cognition.parsing.outputs import (
    CallFinished,
    CallMalformed,
    CallStarted,
    Output,
    ReasoningDelta,
    TextDelta,
)
from cognition.parsing.parser import advance, finish, start
from cognition.parsing.rope import EMPTY, Rope, added, joined
from cognition.parsing.spec import FormatSpec
from cognition.parsing.state import ParserState
from cognition.parsing.typed_values import NO_TYPES, ParameterTypes, types_of
from cognition.steps.requests import ModelRequest
from cognition.values.messages import MalformedToolCall, ProposedCall
from cognition.values.outcomes import FinishReason
from cognition.wire._names import Names
from cognition.wire._replies import BROKE_OFF, WireReply

Closing = CallFinished | CallMalformed


@frozen
class Writing:
    """How to parse the text of a reply."""

    format: FormatSpec
    names: Names
    types: ParameterTypes = NO_TYPES


@frozen
class WrittenState:
    """The parser's state and the results so far."""

    parser: ParserState
    text: Rope = EMPTY
    reasoning: Rope = EMPTY
    closings: tuple[Closing, ...] = ()
    """Parsed calls, output when the reply has ended."""
    passing: bool = False
    """Whether the server has parsed a call itself."""


def writing_of(format: FormatSpec, names: Names, request: ModelRequest) -> Writing:
    """Return how to parse the text of the reply to a request."""
    nested = format.calls is not None and format.calls.shape == "nested_tags"
    return Writing(format, names, types_of(request.tools, nested=nested))


def fresh(writing: Writing) -> WrittenState:
    return WrittenState(start(writing.format))


def read(writing: Writing, state: WrittenState, outputs: Iterable[Output]) -> tuple[WrittenState, tuple[Output, ...]]:
    """Return the outputs with reasoning and calls parsed from their text."""
    told: list[Output] = []
    for output in outputs:
        if isinstance(output, TextDelta) and not state.passing:
            parser, found = advance(writing.format, state.parser, output.text, writing.types)
            state = _taken(writing, evolve(state, parser=parser), found, told)
        elif isinstance(output, TextDelta | ReasoningDelta):
            state = _taken(writing, state, (output,), told)
        else:
            if not state.passing:
                state = evolve(_ended(writing, state, "stop", told), passing=True)
            told.append(evolve(output, index=output.index + state.parser.calls))
    return state, tuple(told)


def ended(writing: Writing, state: WrittenState, reply: WireReply) -> WireReply:
    """Return ``reply`` with reasoning and calls parsed from its text; show its ``outputs`` after those of ``read``."""
    told: list[Output] = []
    texts = [one for one in reply.outputs if isinstance(one, TextDelta | ReasoningDelta)]
    state, outputs = read(writing, state, texts)
    told += outputs
    reason: FinishReason = reply.finish_reason
    if not state.passing:
        state = _ended(writing, state, reason, told)
    closings = state.closings
    if reply.failure is not None:  # as of the calls that a server has read: none of a reply that failed counts
        closings = tuple(map(_broken_off, closings))
    told += closings
    for one in reply.outputs:
        if not isinstance(one, TextDelta | ReasoningDelta):
            told.append(evolve(one, index=one.index + state.parser.calls))
    calls = tuple([one.call for one in closings if isinstance(one, CallFinished)]) + reply.calls
    malformed = tuple([one.malformed for one in closings if isinstance(one, CallMalformed)]) + reply.malformed
    return evolve(
        reply,
        text=joined(state.text),
        reasoning=joined(state.reasoning),
        calls=calls,
        malformed=malformed,
        finish_reason="tool_calls" if reason == "stop" and calls else reason,
        outputs=tuple(told),
    )


def _ended(writing: Writing, state: WrittenState, reason: FinishReason, told: list[Output]) -> WrittenState:
    """End the parser, and output the text that it held back."""
    parser, found = finish(writing.format, state.parser, reason, writing.types)
    return _taken(writing, evolve(state, parser=parser), found, told)


def _taken(writing: Writing, state: WrittenState, found: Iterable[Output], told: list[Output]) -> WrittenState:
    text, reasoning, closings = state.text, state.reasoning, list[Closing]()
    for output in found:
        match output:
            case CallFinished(_, call):
                closings.append(evolve(output, call=evolve(call, name=writing.names.of_wire(call.name))))
                continue
            case CallMalformed():
                closings.append(output)
                continue
            case CallStarted():
                output = evolve(output, name=writing.names.of_wire(output.name))
            case TextDelta():
                text = added(text, output.text)
            case ReasoningDelta():
                reasoning = added(reasoning, output.text)
            case _:
                pass  # a call's arguments, as they are written
        told.append(output)
    return evolve(state, text=text, reasoning=reasoning, closings=(*state.closings, *closings))


def _broken_off(closing: Closing) -> Closing:
    if isinstance(closing, CallMalformed):
        return closing
    call: ProposedCall = closing.call
    raw = f"{call.name} {call.arguments_json}"
    return CallMalformed(closing.index, MalformedToolCall(raw, BROKE_OFF))
