"""The parser of any format: a pure function over (format, state, text), and a small object that holds the state.

Joined in order, its outputs are the same for every chunking of a reply. It reads each character once (twice after a
broken call). It holds back only text that may still become a marker, and white space before it.
"""

from __future__ import annotations

from collections.abc import Iterable

from cognition.parsing._machine import Run
from cognition.parsing._plan import plan_of
from cognition.parsing.outputs import Output
from cognition.parsing.spec import FormatSpec
from cognition.parsing.state import ParserState
from cognition.parsing.typed_values import NO_TYPES, ParameterTypes, types_of
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
    run = Run(plan_of(spec), state, types)
    outputs = run.feed(text)
    return run.state, outputs


def finish(
    spec: FormatSpec, state: ParserState, reason: FinishReason = "stop", types: ParameterTypes = NO_TYPES
) -> tuple[ParserState, Outputs]:
    """End the reply: output all text that was held back, and close an open call as finished or malformed."""
    run = Run(plan_of(spec), state, types)
    outputs = run.read("", final=True, reason=reason)
    return run.state, outputs


class Parser:
    """Reads one reply. ``raw`` has all of its text, including the parts that the outputs omit."""

    def __init__(self, spec: FormatSpec, tools: Iterable[ToolSpec] = ()) -> None:
        self.spec = spec
        self.types = types_of(tools, nested=spec.calls is not None and spec.calls.shape == "nested_tags")
        """The types of the offered tools' parameters, for formats that write them as bare text."""
        self._chunks: list[str] = []
        plan = plan_of(spec)
        self._run = Run(plan, plan.fresh, self.types)

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
