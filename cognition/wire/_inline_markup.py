"""Parses reasoning and calls that a server has left in the text of a reply, as for a local model; or only the thoughts
at its beginning, if it is not known how its model writes.

It transforms the outputs of the wire format's reader. Calls that the server has parsed pass through; after the first
such call, the text is no longer parsed.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve, frozen

from cognition.parsing import parser as format_parser
from cognition.parsing.outputs import (
    ArgumentsDelta,
    CallFinished,
    CallMalformed,
    CallStarted,
    Output,
    ReasoningDelta,
    TextDelta,
)
from cognition.parsing.rope import EMPTY, Rope, append_text, join_pieces
from cognition.parsing.spec import FormatSpec
from cognition.parsing.state import ParserState
from cognition.parsing.typed_values import NO_TYPES, ParameterTypes, types_of
from cognition.steps.requests import ModelRequest
from cognition.values.messages import MalformedToolCall
from cognition.values.outcomes import FinishReason
from cognition.wire import _thoughts
from cognition.wire._names import Names
from cognition.wire._replies import BROKE_OFF, WireReply
from cognition.wire._thoughts import ThoughtState

Closing = CallFinished | CallMalformed
CallOutput = CallStarted | ArgumentsDelta | CallFinished | CallMalformed


@frozen
class MarkupPlan:
    """How to parse the text of a reply."""

    format: FormatSpec | None
    """How the model writes; None: only thoughts at the beginning are read."""
    names: Names
    types: ParameterTypes = NO_TYPES


@frozen
class MarkupState:
    """The parser's state and the results so far."""

    parser: ParserState | ThoughtState
    text: Rope = EMPTY
    reasoning: Rope = EMPTY
    closings: tuple[Closing, ...] = ()
    """Parsed calls, output when the reply has ended."""
    passing: bool = False
    """Whether the server has parsed a call itself."""


def markup_plan(format: FormatSpec | None, names: Names, request: ModelRequest) -> MarkupPlan:
    """Return how to parse the text of the reply to a request."""
    if format is None:
        return MarkupPlan(None, names)
    nested = format.calls is not None and format.calls.shape == "nested_tags"
    return MarkupPlan(format, names, types_of(request.tools, nested=nested))


def initial_state(plan: MarkupPlan) -> MarkupState:
    return MarkupState(ThoughtState() if plan.format is None else format_parser.start(plan.format))


def read(plan: MarkupPlan, state: MarkupState, outputs: Iterable[Output]) -> tuple[MarkupState, tuple[Output, ...]]:
    """Return the outputs with reasoning and calls parsed from their text."""
    told: list[Output] = []
    for output in outputs:
        if isinstance(output, TextDelta) and not state.passing:
            state = _parse(plan, state, output.text, told)
        elif isinstance(output, TextDelta | ReasoningDelta):
            if isinstance(state.parser, ThoughtState) and not state.passing:  # the server reads thoughts itself
                state = evolve(_end_parser(plan, state, "stop", told), passing=True)
            state = _take_outputs(plan, state, (output,), told)
        else:
            if not state.passing:
                state = evolve(_end_parser(plan, state, "stop", told), passing=True)
            told.append(_renumbered(state, output))
    return state, tuple(told)


def finish_markup(plan: MarkupPlan, state: MarkupState, reply: WireReply) -> WireReply:
    """Return ``reply`` with reasoning and calls parsed from its text; show its ``outputs`` after those of ``read``."""
    texts = [one for one in reply.outputs if isinstance(one, TextDelta | ReasoningDelta)]
    state, outputs = read(plan, state, texts)
    told, reason = list(outputs), reply.finish_reason
    if not state.passing:
        state = _end_parser(plan, state, reason, told)
    closings = state.closings
    if reply.failure is not None:  # as of the calls that a server has read: none of a reply that failed counts
        closings = tuple(map(_mark_broken, closings))
    own = [one for one in reply.outputs if not isinstance(one, TextDelta | ReasoningDelta)]
    told += [*closings, *(_renumbered(state, one) for one in own)]
    calls = tuple([one.call for one in closings if isinstance(one, CallFinished)]) + reply.calls
    malformed = tuple([one.malformed for one in closings if isinstance(one, CallMalformed)]) + reply.malformed
    return evolve(
        reply,
        text=join_pieces(state.text),
        reasoning=join_pieces(state.reasoning),
        calls=calls,
        malformed=malformed,
        finish_reason="tool_calls" if reason == "stop" and calls else reason,
        outputs=tuple(told),
    )


def _parse(plan: MarkupPlan, state: MarkupState, text: str, told: list[Output]) -> MarkupState:
    found: tuple[Output, ...]
    if isinstance(state.parser, ThoughtState):
        thoughts, found = _thoughts.advance(state.parser, text)
        state = evolve(state, parser=thoughts, passing=thoughts.place == "text")
    else:
        assert plan.format is not None
        parser, found = format_parser.advance(plan.format, state.parser, text, plan.types)
        state = evolve(state, parser=parser)
    return _take_outputs(plan, state, found, told)


def _end_parser(plan: MarkupPlan, state: MarkupState, reason: FinishReason, told: list[Output]) -> MarkupState:
    """End the parser, and output the text that it held back."""
    found: tuple[Output, ...]
    if isinstance(state.parser, ThoughtState):
        thoughts, found = _thoughts.finish(state.parser)
        state = evolve(state, parser=thoughts)
    else:
        assert plan.format is not None
        parser, found = format_parser.finish(plan.format, state.parser, reason, plan.types)
        state = evolve(state, parser=parser)
    return _take_outputs(plan, state, found, told)


def _renumbered(state: MarkupState, output: CallOutput) -> CallOutput:
    """Return an output about a call of the server's own, which follows those of the text."""
    if isinstance(state.parser, ThoughtState):
        return output
    return evolve(output, index=output.index + state.parser.calls)


def _take_outputs(plan: MarkupPlan, state: MarkupState, found: Iterable[Output], told: list[Output]) -> MarkupState:
    text, reasoning, closings = state.text, state.reasoning, list[Closing]()
    for output in found:
        match output:
            case CallFinished(_, call):
                closings.append(evolve(output, call=evolve(call, name=plan.names.of_wire(call.name))))
                continue
            case CallMalformed():
                closings.append(output)
                continue
            case CallStarted():
                output = evolve(output, name=plan.names.of_wire(output.name))
            case TextDelta():
                text = append_text(text, output.text)
            case ReasoningDelta():
                reasoning = append_text(reasoning, output.text)
            case _:
                pass  # a call's arguments, as they are written
        told.append(output)
    return evolve(state, text=text, reasoning=reasoning, closings=(*state.closings, *closings))


def _mark_broken(closing: Closing) -> Closing:
    if isinstance(closing, CallMalformed):
        return closing
    raw = f"{closing.call.name} {closing.call.arguments_json}"
    return CallMalformed(closing.index, MalformedToolCall(raw, BROKE_OFF))
