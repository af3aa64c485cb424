"""The parser of any format: a pure function over (format, state, text), and a small object that holds the state.

Joined in order, its outputs are the same for every chunking of a reply. It reads each character once (twice after a
broken call). It holds back only text that may still become a marker, and white space before it.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from cognition.parsing._machine import ParserRun
from cognition.parsing._plan import plan_of
from cognition.parsing.outputs import CallFinished, CallMalformed, Output, ReasoningDelta, TextDelta
from cognition.parsing.spec import FormatSpec
from cognition.parsing.state import ParserState
from cognition.parsing.typed_values import NO_TYPES, ParameterTypes, types_of
from cognition.values.messages import MalformedToolCall, ProposedCall
from cognition.values.outcomes import FinishReason
from cognition.values.tools import ToolSpec

Outputs = tuple[Output, ...]


def start(spec: FormatSpec) -> ParserState:
    """Return the state before the first text of a reply."""
    return plan_of(spec).fresh


def advance(
    spec: FormatSpec, state: ParserState, text: str, types: ParameterTypes = NO_TYPES
) -> tuple[ParserState, Outputs]:
    """Read the next piece of a reply. Accepts any text and never raises. ``types``: see ``types_of``."""
    run = ParserRun(plan_of(spec), state, types)
    outputs = run.feed(text)
    return run.state, outputs


def finish(
    spec: FormatSpec, state: ParserState, reason: FinishReason = "stop", types: ParameterTypes = NO_TYPES
) -> tuple[ParserState, Outputs]:
    """End the reply: output all text that was held back, and close an open call as finished or malformed."""
    run = ParserRun(plan_of(spec), state, types)
    outputs = run.read("", final=True, reason=reason)
    return run.state, outputs


class Parser:
    """Reads one reply. ``raw`` has all of its text, including the parts that the outputs omit."""

    def __init__(self, spec: FormatSpec, tools: Iterable[ToolSpec] = ()) -> None:
        self.spec = spec
        self.types: ParameterTypes = types_of(
            tools, nested=spec.calls is not None and spec.calls.shape == "nested_tags"
        )
        """The types of the offered tools' parameters, for formats that write them as bare text."""
        self._chunks: list[str] = []
        plan = plan_of(spec)
        self._run = ParserRun(plan, plan.fresh, self.types)

    def feed(self, text: str) -> Outputs:
        """Read the next piece of the reply, together with the text held back before."""
        self._chunks.append(text)
        return self._run.feed(text)

    def finish(self, reason: FinishReason = "stop") -> Outputs:
        """End the reply: output the text that was held back. Text fed afterwards appears only in ``raw``."""
        return self._run.read("", final=True, reason=reason)

    @property
    def state(self) -> ParserState:
        """The state of the reading; ``advance`` and ``finish`` continue from it."""
        return self._run.state

    @property
    def raw(self) -> str:
        return "".join(self._chunks)


@frozen
class Reply:
    """A model's reply: its text, its reasoning and its calls, each in order."""

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ProposedCall, ...] = ()
    malformed: tuple[MalformedToolCall, ...] = ()


def collect(outputs: Iterable[Output]) -> Reply:
    """Return the reply that consists of these outputs."""
    # Announced calls and argument text are left out: the output that closes a call contains them.
    outputs = tuple(outputs)
    return Reply(
        "".join([one.text for one in outputs if isinstance(one, TextDelta)]),
        "".join([one.text for one in outputs if isinstance(one, ReasoningDelta)]),
        tuple([one.call for one in outputs if isinstance(one, CallFinished)]),
        tuple([one.malformed for one in outputs if isinstance(one, CallMalformed)]),
    )


def parse_reply(
    spec: FormatSpec, text: str, *, tools: Iterable[ToolSpec] = (), finish_reason: FinishReason = "stop"
) -> Reply:
    """Parse a whole reply. The result equals that of feeding it in pieces."""
    parser = Parser(spec, tools)
    return collect((*parser.feed(text), *parser.finish(finish_reason)))
