"""The parser of any format: a pure function over (format, state, text), and a small object that keeps the state.

Joined in order, what it says is the same for every way of cutting a reply into chunks. It reads each character once
(twice behind a broken call), and holds back only what may still turn out to be a marker, or white space before one.
"""

from __future__ import annotations

from collections.abc import Iterable

from cognition.outcomes import FinishReason
from cognition.parsing.machine import Run, flowed
from cognition.parsing.outputs import ArgumentsDelta, CallStarted, Output, ReasoningDelta, TextDelta
from cognition.parsing.plan import Plan, plan_of
from cognition.parsing.rope import added
from cognition.parsing.scan_json import scan_json, skim_json
from cognition.parsing.spec import FormatSpec
from cognition.parsing.state import InCall, InReasoning, InText, ParserState
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
    return _advance(plan_of(spec), state, text, types)


def finish(
    spec: FormatSpec, state: ParserState, reason: FinishReason = "stop", types: ParameterTypes = NO_TYPES
) -> tuple[ParserState, Outputs]:
    """Let go of all that was held back: the reply has ended. A call under way is closed, one way or the other."""
    return Run(plan_of(spec), state, "", final=True, reason=reason, types=types).finish()


def _advance(plan: Plan, state: ParserState, text: str, types: ParameterTypes) -> tuple[ParserState, Outputs]:
    """``Run`` for any text; before it, the same for the usual chunks, which change next to nothing."""
    if not text:
        return state, ()
    if not plan.meanings:
        return state, (TextDelta(text),)
    phase = state.phase
    if not phase.held:
        kind = type(phase)
        if kind is InText:
            if plan.in_text.sign(text) is None and not state.text.tail:
                flow, said = flowed(state.text, text)
                if flow is not state.text:
                    state = ParserState(phase, flow, state.reasoning, state.calls)
                return state, (TextDelta(said),) if said else ()
        elif kind is InReasoning:
            if plan.in_reasoning.sign(text) is None and not state.reasoning.tail:
                flow, said = flowed(state.reasoning, text)
                if flow is not state.reasoning:
                    state = ParserState(phase, state.text, flow, state.calls)
                return state, (ReasoningDelta(said),) if said else ()
        elif isinstance(phase, InCall) and not phase.tentative:
            done = _advance_call(plan, state, phase, text)
            if done is not None:
                return done
    return Run(plan, state, text, types=types).finish()


def _advance_call(plan: Plan, state: ParserState, phase: InCall, text: str) -> tuple[ParserState, Outputs] | None:
    """A chunk from the middle of a call's JSON; None when there is more to it, which is once or twice a call."""
    if plan.tags or plan.quoted:
        return None
    outputs: Outputs
    raw, before, outer, _, _ = phase
    scan = skim_json(plan, before, text)
    if scan is not None:
        outputs = (ArgumentsDelta(state.calls - 1, text),) if scan.fields.role == "arguments" else ()
    else:
        scan, at, name, arguments, ending = scan_json(plan, before, text, 0, final=False, tentative=False)
        if ending or at < len(text):
            return None
        outputs = ()
        if name:
            outputs = (CallStarted(state.calls - 1, name),)
        if arguments:
            outputs = (*outputs, ArgumentsDelta(state.calls - 1, arguments))
    phase = InCall(added(raw, text), scan, outer)
    return ParserState(phase, state.text, state.reasoning, state.calls), outputs


class Parser:
    """Reads one reply. Keeps all of its text: whatever the outputs leave out is in ``raw``."""

    def __init__(self, spec: FormatSpec, tools: Iterable[ToolSpec] = ()) -> None:
        self.spec = spec
        self.types = types_of(tools, nested=spec.calls is not None and spec.calls.shape == "nested_tags")
        """Of the parameters of the tools that the model was offered: for formats that write them as bare text."""
        self._plan = plan_of(spec)
        self._chunks: list[str] = []
        self.state = self._plan.fresh

    def feed(self, text: str) -> Outputs:
        """What the next piece of the reply says, together with what was held back before."""
        self._chunks.append(text)
        self.state, outputs = _advance(self._plan, self.state, text, self.types)
        return outputs

    def finish(self, reason: FinishReason = "stop") -> Outputs:
        """The rest. Text that is fed afterwards is kept in ``raw`` only."""
        self.state, outputs = finish(self.spec, self.state, reason, self.types)
        return outputs

    @property
    def raw(self) -> str:
        """Everything that was fed."""
        return "".join(self._chunks)
