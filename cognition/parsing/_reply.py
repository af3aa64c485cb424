"""A whole reply."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from cognition.parsing.outputs import CallFinished, CallMalformed, Output, ReasoningDelta, TextDelta
from cognition.parsing.parser import Parser
from cognition.parsing.spec import FormatSpec
from cognition.values.messages import MalformedToolCall, ProposedCall
from cognition.values.outcomes import FinishReason
from cognition.values.tools import ToolSpec


@frozen
class Reply:
    """A model's reply: its text, its reasoning and its calls, each in order."""

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ProposedCall, ...] = ()
    malformed: tuple[MalformedToolCall, ...] = ()


def collect(outputs: Iterable[Output]) -> Reply:
    """Return the reply that consists of these outputs."""
    text: list[str] = []
    reasoning: list[str] = []
    calls: list[ProposedCall] = []
    malformed: list[MalformedToolCall] = []
    for output in outputs:
        match output:
            case TextDelta():
                text.append(output.text)
            case ReasoningDelta():
                reasoning.append(output.text)
            case CallFinished():
                calls.append(output.call)
            case CallMalformed():
                malformed.append(output.malformed)
            case _:
                pass  # announced calls and argument text: what closes the call holds them
    return Reply("".join(text), "".join(reasoning), tuple(calls), tuple(malformed))


def parse_reply(
    spec: FormatSpec, text: str, *, tools: Iterable[ToolSpec] = (), finish_reason: FinishReason = "stop"
) -> Reply:
    """Parse a whole reply. The result equals that of feeding it in pieces."""
    parser = Parser(spec, tools)
    return collect((*parser.feed(text), *parser.finish(finish_reason)))
