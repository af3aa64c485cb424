"""Thoughts and calls that a server has left in the text of a reply, as the model wrote them: read as a local model's.

It stands between what a reply's reader gives and what is told of it. Calls that the server has read itself pass by;
from the first of them on nothing is looked for in the text any more.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve, frozen

from cognition.messages import MalformedToolCall, ProposedCall
from cognition.outcomes import FinishReason
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
from cognition.parsing.typed import NO_TYPES, ParameterTypes, types_of
from cognition.requests import ModelRequest
from cognition.wire.names import Names
from cognition.wire.replies import BROKE_OFF, WireReply

Closing = CallFinished | CallMalformed


@frozen
class Writing:
    """How the text of a reply is read."""

    format: FormatSpec
    names: Names
    types: ParameterTypes = NO_TYPES


@frozen
class WrittenState:
    """What was found in the text so far."""

    parser: ParserState
    text: Rope = EMPTY
    reasoning: Rope = EMPTY
    closings: tuple[Closing, ...] = ()
    """Calls that have been read, which are closed when the reply has ended."""
    passing: bool = False
    """Whether the server has read a call itself."""


def writing_of(format: FormatSpec, names: Names, request: ModelRequest) -> Writing:
    """How the text of the reply to a request is read."""
    nested = format.calls is not None and format.calls.shape == "nested_tags"
    return Writing(format, names, types_of(request.tools, nested=nested))


def fresh(writing: Writing) -> WrittenState:
    """Before any text."""
    return WrittenState(start(writing.format))


def read(writing: Writing, state: WrittenState, outputs: Iterable[Output]) -> tuple[WrittenState, tuple[Output, ...]]:
    """The outputs of a server's reply with what stands in its text."""
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
    """The reply that these outputs led to, with what stood in its text; its last outputs are told behind ``read``'s."""
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
    """Nothing more is looked for in the text: what was held back comes out."""
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
