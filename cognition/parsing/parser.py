"""The parser of any format: a pure function over (format, state, text), and a small object that keeps the state.

Joined in order, its outputs are the same for every way of cutting a reply into chunks. It reads each character once
(twice behind a broken call), and holds back only what may still turn out to be a marker, or white space before one.
"""

from __future__ import annotations

from collections.abc import Iterable

from cognition.outcomes import FinishReason
from cognition.parsing.machine import Run
from cognition.parsing.outputs import Output
from cognition.parsing.plan import plan_of
from cognition.parsing.spec import FormatSpec
from cognition.parsing.state import ParserState
from cognition.parsing.typed import NO_TYPES, ParameterTypes, types_of
from cognition.tools import ToolSpec

Outputs = tuple[Output, ...]


def start(spec: FormatSpec) -> ParserState:
    """The state before the first text of a reply."""
    return plan_of(spec).fresh


def advance(
    spec: FormatSpec, state: ParserState, text: str, types: ParameterTypes = NO_TYPES
) -> tuple[ParserState, Outputs]:
    """Read the next piece of a reply. Any text is read; none raises. ``types``: see ``types_of``."""
    run = Run(plan_of(spec), state, types)
    outputs = run.feed(text)
    return run.state, outputs


def finish(
    spec: FormatSpec, state: ParserState, reason: FinishReason = "stop", types: ParameterTypes = NO_TYPES
) -> tuple[ParserState, Outputs]:
    """Let go of all that was held back: the reply has ended. A call under way is closed, one way or the other."""
    run = Run(plan_of(spec), state, types)
    outputs = run.read("", final=True, reason=reason)
    return run.state, outputs


class Parser:
    """Reads one reply. Keeps all of its text: whatever the outputs leave out is in ``raw``."""

    def __init__(self, spec: FormatSpec, tools: Iterable[ToolSpec] = ()) -> None:
        self.spec = spec
        self.types = types_of(tools, nested=spec.calls is not None and spec.calls.shape == "nested_tags")
        """The types of the offered tools' parameters, for formats that write these as bare text."""
        self._chunks: list[str] = []
        plan = plan_of(spec)
        self._run = Run(plan, plan.fresh, self.types)

    def feed(self, text: str) -> Outputs:
        """Read the next piece of the reply, together with what was held back before."""
        self._chunks.append(text)
        return self._run.feed(text)

    def finish(self, reason: FinishReason = "stop") -> Outputs:
        """Let go of what was held back: the reply has ended. Text that is fed afterwards is kept in ``raw`` only."""
        return self._run.read("", final=True, reason=reason)

    @property
    def state(self) -> ParserState:
        """Where the reading stands: ``advance`` and ``finish`` go on from there."""
        return self._run.state

    @property
    def raw(self) -> str:
        """Everything that was fed."""
        return "".join(self._chunks)
