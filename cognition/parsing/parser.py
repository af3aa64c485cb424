"""The parser of any format: a pure function over (format, state, text), and a small object that keeps the state.

Joined in order, what it says is the same for every way of cutting a reply into chunks. It reads each character once
(twice behind a broken call), and holds back only what may still turn out to be a marker, or white space before one.
"""

from __future__ import annotations

from cognition.outcomes import FinishReason
from cognition.parsing.machine import Run
from cognition.parsing.outputs import Output, TextDelta
from cognition.parsing.plan import Plan, plan_of
from cognition.parsing.spec import FormatSpec
from cognition.parsing.state import InText, ParserState

Outputs = tuple[Output, ...]


def start(spec: FormatSpec) -> ParserState:
    """The state before the first text of a reply."""
    return plan_of(spec).fresh


def advance(spec: FormatSpec, state: ParserState, text: str) -> tuple[ParserState, Outputs]:
    """Read the next piece of a reply. Any text is read; none raises."""
    return _advance(plan_of(spec), state, text)


def finish(spec: FormatSpec, state: ParserState, reason: FinishReason = "stop") -> tuple[ParserState, Outputs]:
    """Let go of all that was held back: the reply has ended. A call under way is closed, one way or the other."""
    return Run(plan_of(spec), state, "", final=True, reason=reason).finish()


def _advance(plan: Plan, state: ParserState, text: str) -> tuple[ParserState, Outputs]:
    if not text:
        return state, ()
    if not plan.meanings:
        return state, (TextDelta(text),)
    phase, flow = state.phase, state.text
    # Most chunks are a word in the middle of text: nothing to remember, nothing to hold back.
    if (
        type(phase) is InText
        and not phase.held
        and flow.started
        and not flow.blank
        and not text[-1].isspace()
        and not plan.markers[InText].possible(text)
    ):
        return state, (TextDelta(text),)
    return Run(plan, state, text).finish()


class Parser:
    """Reads one reply. Keeps all of its text: whatever the outputs leave out is in ``raw``."""

    def __init__(self, spec: FormatSpec) -> None:
        self.spec = spec
        self._plan = plan_of(spec)
        self._chunks: list[str] = []
        self.state = self._plan.fresh

    def feed(self, text: str) -> Outputs:
        """What the next piece of the reply says, together with what was held back before."""
        self._chunks.append(text)
        self.state, outputs = _advance(self._plan, self.state, text)
        return outputs

    def finish(self, reason: FinishReason = "stop") -> Outputs:
        """The rest. Text that is fed afterwards is kept in ``raw`` only."""
        self.state, outputs = finish(self.spec, self.state, reason)
        return outputs

    @property
    def raw(self) -> str:
        """Everything that was fed."""
        return "".join(self._chunks)
