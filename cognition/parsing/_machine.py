"""Reads a reply piece by piece, from one state to the next.

``ParserRun`` is the reading in progress. It changes in place, for speed; its outputs and its ``state`` are frozen. It
handles phases, markers and white space. The inside of a call is read by ``scan_json``, ``scan_tags`` and ``decode``.
"""

from __future__ import annotations

import re

from cognition.parsing._decode import decode
from cognition.parsing._headers import LONGEST_HEADER, read_header
from cognition.parsing._open_call import OpenCall
from cognition.parsing._plan import FormatPlan
from cognition.parsing._scan import (
    CLOSED,
    Scanner,
    scan_json,
    scan_literals,
    scan_tags,
    skim_json,
    skim_literals,
    skim_tags,
)
from cognition.parsing.call_builder import Decoded, Decoding
from cognition.parsing.markers import Markers
from cognition.parsing.outputs import (
    ArgumentsDelta,
    CallFinished,
    CallMalformed,
    CallStarted,
    Output,
    ReasoningDelta,
    TextDelta,
)
from cognition.parsing.rope import EMPTY, Rope, append_text, join_pieces, length
from cognition.parsing.spec import CallFormat
from cognition.parsing.state import (
    BehindCall,
    Ended,
    Flow,
    InCall,
    InHeader,
    InReasoning,
    InSection,
    InText,
    ParserPhase,
    ParserState,
)
from cognition.parsing.typed_values import NO_TYPES, ParameterTypes
from cognition.values.messages import MalformedToolCall, ProposedCall
from cognition.values.outcomes import FinishReason

IN_REASONING = "it stands in reasoning that was never ended: end the reasoning before you call"
NO_MESSAGE = "the header of its message has no end"
IN_A_STRING = "it stands behind a text that was never closed, or in it"
"""Reasons reported when text that reads as a call is not accepted as a call."""

BROKEN_OFF = {
    "length": "the reply reached the token limit inside the call",
    "cancelled": "the reply was cancelled inside the call",
    "error": "the reply broke off inside the call",
}

LONGEST_HEAD = 1024
"""Characters within which a call without markers must show its name and the beginning of its arguments. Text that looks
like such a call is held back up to this length. Calls that templates write need less than 100.
"""

BETWEEN_BARE_CALLS = re.compile(r"(\s*+)([,;]?)")
"""The white space is shown if text follows; the comma or semicolon never is."""

IN_TEXT = InText()
BEHIND = InText(behind=True)


class ParserRun:
    """A reply being read, or a part of one."""

    __slots__ = (
        "at", "braces", "calls", "final", "literal", "outputs", "phase", "plan", "quoted", "reason",
        "reasoning", "scan", "skim", "text", "types", "visible",
    )  # fmt: skip

    def __init__(
        self,
        plan: FormatPlan,
        state: ParserState,
        types: ParameterTypes = NO_TYPES,
        *,
        literal: bool = False,
        braces: bool = True,
        quoted: str = "",
    ) -> None:
        self.plan = plan
        phase = state.phase
        self.phase: InText | BehindCall | InReasoning | InSection | OpenCall | InHeader | Ended = (
            OpenCall(*phase) if isinstance(phase, InCall) else phase
        )
        self.visible = state.text
        self.reasoning = state.reasoning
        self.calls = state.calls
        self.types = types
        self.skim = skim_tags if plan.tags else skim_literals if plan.quoted else skim_json
        self.scan: Scanner = scan_tags if plan.tags else scan_literals if plan.quoted else scan_json
        self.literal = literal  # second reading of a broken call: markers count inside strings too
        self.braces = braces  # False: second reading of what looked like a call without markers
        self.quoted = quoted  # second reading of what may be quoted: why nothing in it is a call
        # Of the text at hand:
        self.text = ""
        self.at = 0
        self.final = False  # nothing follows: what is held back is let go
        self.reason: FinishReason = "stop"
        self.outputs: list[Output] = []

    @property
    def state(self) -> ParserState:
        phase = self.phase.freeze() if isinstance(self.phase, OpenCall) else self.phase
        return ParserState(phase, self.visible, self.reasoning, self.calls)

    def feed(self, text: str) -> tuple[Output, ...]:
        """``read`` for a piece that is not the last, with a fast path for the usual pieces, which change little."""
        phase, plan = self.phase, self.plan
        kind = type(phase)
        if kind is OpenCall:
            assert isinstance(phase, OpenCall)  # for the type checker
            if phase.scan.tentative:
                return self.read(text)
            arguments = None if phase.held else self.skim(plan, phase.scan, text)
            if arguments is None:
                return self._feed_call(phase, text)
            phase.fresh.append(text)
            return (ArgumentsDelta(self.calls - 1, arguments),) if arguments else ()
        if phase.held or not text:
            return self.read(text) if text else ()
        if kind is InText:
            if not plan.meanings:
                return (TextDelta(text),)
            if plan.in_text.sign(text) is None and not self.visible.tail:
                self.visible, shown = advance_flow(self.visible, text)
                return (TextDelta(shown),) if shown else ()
        elif isinstance(phase, InReasoning) and plan.in_reasoning.sign(text) is None and not self.reasoning.tail:
            if phase.kept:
                self.phase = InReasoning("", append_text(phase.kept, text))
            self.reasoning, shown = advance_flow(self.reasoning, text)
            return (ReasoningDelta(shown),) if shown else ()
        return self.read(text)

    def _feed_call(self, phase: OpenCall, text: str) -> tuple[Output, ...]:
        """``feed`` within a call that is certain. It returns the same as ``read``."""
        plan = self.plan
        if phase.held:
            text = phase.held + text
            if plan.tags and text in plan.tags[phase.scan.role].prefixes:
                phase.held = text
                return ()
        at, name, arguments, ending = self.scan(plan, phase.scan, text, 0, False)
        phase.fresh.append(text[:at])
        if ending or name:
            self.text, self.at, self.final, self.reason, self.outputs = text, at, False, "stop", []
            if name:
                self.outputs.append(CallStarted(self.calls - 1, name))
            if arguments:
                self.outputs.append(ArgumentsDelta(self.calls - 1, arguments))
            phase.held = text[at:]
            if ending:
                self._close(phase, ending)
                self._read_on()
            return tuple(self.outputs)
        phase.held = text[at:]
        return (ArgumentsDelta(self.calls - 1, arguments),) if arguments else ()

    def read(self, text: str, *, final: bool = False, reason: FinishReason = "stop") -> tuple[Output, ...]:
        """Read a piece of text to its end, and return its outputs.

        ``final``: the piece is the last one. ``reason``: why the reply ended.
        """
        held = self.phase.held
        self.text, self.at = held + text if held else text, 0
        self.final, self.reason, self.outputs = final, reason, []
        self._read_on()
        if final:
            self._end_reply()
        return tuple(self.outputs)

    def _read_on(self) -> None:
        """Read to the end of the text, and once more if text is held back or the reply has ended."""
        while self._read() and (self.at < len(self.text) or self.phase.held or self.final):
            pass

    def _read(self) -> bool:
        """Read on in the present phase. Return False once only held-back text is left."""
        phase = self.phase
        match phase:
            case OpenCall():
                # Without end markers there is nothing that a string could have hidden.
                by_markers = self.literal and self.plan.calls is not None and self.plan.calls.end
                return self._read_literally(phase) if by_markers else self._read_call(phase)
            case InText():
                return self._read_text(phase)
            case BehindCall():
                return self._read_behind_call()
            case InReasoning():
                return self._read_reasoning(phase)
            case InSection():
                return self._read_section(phase)
            case InHeader():
                return self._read_header(phase)
            case _:  # Ended
                self.phase, self.at = Ended(), len(self.text)
                return False

    # ------------------------------------------------------------------------------------------------------ text

    def _read_text(self, phase: InText) -> bool:
        calls = self.plan.calls
        braced = self.braces and (not self.visible.started or (calls is not None and calls.anywhere))
        markers = self.plan.markers[InText] if braced else self.plan.unbraced
        at, marker = markers.next(self.text, self.at, self.final)
        before, meaning = self.text[self.at : at], self.plan.meanings.get(marker)
        if meaning == "lead" and (self.visible.started or before.strip()):
            before += marker  # text came first: it leads to nothing
            self._emit_text(before)
            self.at += len(before)
            return True
        if braced and calls and not calls.anywhere and before.strip() and meaning == "brace":
            self._emit_text(before)  # text came first: the brace is part of it
            self.at = at
            return True
        if before:
            self._emit_text(before)
        self.at = at
        if not marker:
            self.phase = InText(self.text[at:], phase.behind)
            return False
        if self.plan.move(InText, marker) == "stray" and not (phase.behind and self.visible.touching):
            self._emit_text(marker)
            self.at += len(marker)
            self.phase = IN_TEXT
            return True
        self._move(phase, marker)
        return True

    def _read_behind_call(self) -> bool:
        """Skip the separator between two calls without markers: it is not shown as text."""
        found = BETWEEN_BARE_CALLS.match(self.text, self.at)
        assert found is not None  # it matches nothing, too
        self._emit_text(found[1])
        self.at = found.end()
        if self.at == len(self.text) and not found[2]:
            return False
        self.phase = InText()
        return True

    def _emit_text(self, text: str) -> None:
        self.visible, text = advance_past_marker(self.visible, text, self.plan.unbraced)
        if text:
            self.outputs.append(TextDelta(text))

    def _read_reasoning(self, phase: InReasoning) -> bool:
        at, marker = self.plan.in_reasoning.next(self.text, self.at, self.final)
        before, kept = self.text[self.at : at], phase.kept
        self._emit_reasoning(before)
        self.at = at
        if kept:
            kept = append_text(kept, before)
        if not marker:
            self.phase = InReasoning(self.text[at:], kept)
            return False
        # Within a quoted call, a token of its header is a part of the quotation.
        quoted = self.plan.move(InReasoning, marker) == "quote" or (kept and self.plan.meanings[marker] == "token")
        if kept or quoted:
            kept = append_text(kept, marker)
        self.phase = phase = InReasoning("", kept)
        if quoted:
            self._emit_reasoning(marker)
            self.at += len(marker)
        else:
            self._move(phase, marker)
        return True

    def _emit_reasoning(self, text: str) -> None:
        self.reasoning, text = advance_past_marker(self.reasoning, text, self.plan.unbraced)
        if text:
            self.outputs.append(ReasoningDelta(text))

    def _emit_calls_in_reasoning(self, kept: Rope) -> None:
        if not kept:
            return
        again = ParserRun(self.plan, ParserState(calls=self.calls), self.types, quoted=IN_REASONING)
        for output in again.read(join_pieces(kept), final=True, reason=self.reason):
            if isinstance(output, CallMalformed) and output.malformed.reason == IN_REASONING:
                self.outputs.append(CallMalformed(self.calls, output.malformed))
                self.calls += 1

    def _read_section(self, phase: InSection) -> bool:
        markers = self.plan.markers[InSection]
        at, marker = markers.next(self.text, self.at, self.final)
        if self.final and not marker and self.reason in BROKEN_OFF:
            # What is there of a marker that the reply broke off in was not meant as a call.
            cut = markers.find_held(self.text, self.at, at)
            self.text, at = (self.text, at) if cut is None else (self.text[:cut], cut)
        calls = self.plan.calls
        assert calls is not None
        bracketed, junk = phase.bracketed, phase.junk
        for offset in range(self.at, at):
            sign = self.text[offset]
            if not junk and sign == "]" and bracketed and not calls.section_end:
                return self._leave_section(offset + 1)
            if junk or not (sign.isspace() or sign in "[],;"):
                if not calls.section_end:  # nothing marks the section's end, so this text does
                    return self._leave_section(offset)
                junk = append_text(junk, self.text[offset:at])
                break
            bracketed = bracketed or sign == "["
        self.at = at
        if not marker:
            self.phase = InSection(self.text[at:], bracketed, junk)
            return False
        self._refuse(junk)
        self.phase = phase = InSection("", bracketed)
        self._move(phase, marker)
        return True

    def _leave_section(self, at: int) -> bool:
        self.phase, self.at = BEHIND, at
        return True

    def _refuse(self, junk: Rope) -> None:
        if text := join_pieces(junk).strip():
            self.outputs.append(CallMalformed(self.calls, MalformedToolCall(text, "a call was expected here")))
            self.calls += 1

    def _move(self, phase: InText | InReasoning | InSection, marker: str) -> None:
        move = self.plan.move(type(phase), marker)
        if move != "try_call":  # its text may yet turn out to be text like any other
            self.visible = mark_touching(self.visible)
            self.reasoning = mark_touching(self.reasoning)
            self.at += len(marker)
        outer = phase if isinstance(phase, InSection) else IN_TEXT
        match move:
            case "reason":
                if self.quoted != IN_REASONING:
                    self.phase = InReasoning()
            case "answer":
                self.phase = BEHIND if isinstance(phase, InSection) else IN_TEXT
            case "drop":
                if isinstance(phase, InText):
                    self.phase = IN_TEXT
            case "enter_section":
                self.phase = InSection(bracketed=marker.endswith("["))
            case "begin_call":
                if self.plan.meanings[marker] == "brace":
                    self.at -= 1  # it belongs to the call
                # A marker that stands right before the name, and so is a part of the call.
                named = self.plan.calls is not None and marker == self.plan.calls.name_start
                raw = (marker,) if named else EMPTY
                self.phase = OpenCall(raw, self.plan.named if named else self.plan.first, outer)
                self.calls += 1
            case "header":
                assert not isinstance(phase, InSection)  # MOVES
                self.phase = InHeader(marker, phase)
            case "try_call":
                self.phase = OpenCall(EMPTY, self.plan.first, outer, tentative=True)
            case "end":
                self._end_flows()
                if isinstance(phase, InReasoning):
                    self._emit_calls_in_reasoning(phase.kept)
                self.phase = Ended()
            case _:  # stray, a marker too many; plain and close_call do not occur in these phases
                pass

    # --------------------------------------------------------------------------------------------------- headers

    def _read_header(self, phase: InHeader) -> bool:
        at, marker = self.plan.in_header.next(self.text, self.at, self.final)
        raw = append_text(phase.raw, self.text[self.at : at])
        self.at = at
        if not (marker or self.final or length(raw) > LONGEST_HEADER):
            self.phase = InHeader(phase.start, phase.outer, self.text[at:], raw)
            return False
        text = join_pieces(raw)
        # One that is too long ends at the same place for every cut of the reply.
        marker, long = ("", True) if len(text) > LONGEST_HEADER else (marker, False)
        self._close_header(phase, text, marker, long)
        self.reasoning = mark_touching(self.reasoning)
        return True

    def _close_header(self, phase: InHeader, text: str, marker: str, long: bool) -> None:
        """End a header before ``marker``, which is empty if the reply has ended or the header is too long."""
        plan, outer = self.plan, phase.outer
        headers, calls = plan.spec.headers, plan.calls
        assert headers is not None  # only such formats have headers
        complete = marker == headers.end
        header = read_header(headers, text[:LONGEST_HEADER], complete=complete)
        self.phase = outer
        if isinstance(outer, InReasoning) and not (complete and header.channel == "answer" and header.tool < 0):
            if outer.kept or header.tool >= 0:  # a call in reasoning is quoted, like those with the usual headers
                self.phase = InReasoning("", append_text(outer.kept, phase.start + ("" if long else text)))
            if long:
                self._read_from(text)
            elif header.tool >= 0 or not header.known:
                self._emit_reasoning(header.text)
        elif header.tool >= 0 and calls is not None:
            if marker in ("", headers.end, calls.end, *plan.id_starts):
                self._read_from(text[header.tool :])
                self.phase = OpenCall(EMPTY, plan.first, IN_TEXT)
            else:
                self.outputs.append(CallMalformed(self.calls, MalformedToolCall(text.strip(), NO_MESSAGE)))
            self.calls += 1
        elif long:
            self._read_from(text)
            self.phase = InReasoning()
        else:
            if not header.known:
                self._emit_reasoning(header.text)
            reasons = complete and header.channel == "reasoning" and self.quoted != IN_REASONING
            self.phase = InReasoning() if reasons else IN_TEXT

    def _read_from(self, text: str) -> None:
        """Read again what has been read last."""
        if len(text) <= self.at:
            self.at -= len(text)
        else:  # it came with an earlier chunk
            self.text, self.at = text + self.text[self.at :], 0

    # ----------------------------------------------------------------------------------------------------- calls

    def _read_call(self, phase: OpenCall) -> bool:
        tentative, start = phase.scan.tentative, self.at
        room = LONGEST_HEAD - phase.size if tentative else len(self.text)
        cut = tentative and start + room <= len(self.text)
        text, start = (self.text[start : start + room], 0) if cut else (self.text, start)
        at, name, arguments, ending = self.scan(self.plan, phase.scan, text, start, self.final)
        if tentative and not name and (ending or cut):
            at = at if ending else start + room  # no call, or its head is too long for one
            phase.add(text[start:at])
            self.at += at - start
            if self.quoted:  # nobody wants the text
                self.phase = IN_TEXT
            else:  # it only looked like a call: read it again as plain text
                self._read_again(InText(), phase.raw, literal=self.literal, braces=False, final=False)
            return True
        phase.add(text[start:at])
        self.at += at - start
        if tentative and name:
            self.visible = mark_touching(self.visible)
            self.calls += 1
            phase.scan.tentative = False
        if name:
            self.outputs.append(CallStarted(self.calls - 1, name))
        if arguments:
            self.outputs.append(ArgumentsDelta(self.calls - 1, arguments))
        if ending:
            self._close(phase, ending)
            return True
        phase.held = "" if cut else self.text[self.at :]
        return cut  # announced within its head: there is more of it to read

    def _close(self, phase: OpenCall, ending: str) -> None:
        """Close a call that is complete, or that a marker interrupted."""
        marker = "" if ending == CLOSED else ending
        self._settle(phase.outer, phase.raw, marker, not marker or self.plan.ends_call(marker), phase.scan.announced)

    def _settle(self, outer: InText | InSection, raw: str, marker: str, terminated: bool, announced: bool) -> None:
        """Decode a call's text. If that fails and the text contains a marker, end the call at the marker.

        An unbalanced quote makes all text after it look like a string, including the end marker and later calls. That
        text is read a second time, and each marker then counts. So each character is read at most twice.
        """
        calls = self.plan.calls
        assert calls is not None
        passed = bool(marker) and not terminated
        decoding = decode(calls, raw, terminated=terminated, passed=passed, types=self.types)
        # What is open then, is open because the reply broke off.
        broken_off = self.final and not marker and self.reason in BROKEN_OFF
        if broken_off and not decoding.flawless:
            decoding = without_cut_marker(self.plan, calls, raw, self.types) or decoding
        doubt = decoding.doubt
        after = outer if isinstance(outer, InSection) else BEHIND
        again = self.literal or self.quoted  # a text is read a second time, but never a third
        place, cut = hidden_marker(calls, raw, doubt.place) if doubt and not (again or broken_off) else (-1, "")
        if doubt and cut:
            shorter = decode(calls, raw[:place], terminated=self.plan.ends_call(cut), types=self.types)
            if shorter.readable or not decoding.readable:
                self._emit_calls(shorter.calls, raw[:place], self.plan.ends_call(cut), announced)
                self.at += len(marker)
                final = self.final and not marker and self.at >= len(self.text)
                quoted = IN_A_STRING if doubt.open else ""
                self._read_again(after, raw[place:] + marker, literal=True, quoted=quoted, final=final)
                return
        self._emit_calls(decoding.calls, raw, terminated, announced)
        bare = not (marker or calls.start) and isinstance(outer, InText)
        self.phase = BehindCall() if bare else after
        self.visible = mark_touching(self.visible)
        if marker and self.plan.meanings[marker] == "call_end":
            self.at += len(marker)

    def _emit_calls(self, decoded: list[Decoded], raw: str, terminated: bool, announced: bool) -> None:
        """Close the call being read, and output the other calls in its text."""
        if self.quoted and [item for item in decoded if isinstance(item, ProposedCall)]:
            decoded = [MalformedToolCall(raw.strip(), self.quoted)]
        for position, item in enumerate(decoded):
            if position:
                self.calls += 1
            index = self.calls - 1
            if isinstance(item, ProposedCall):
                if position or not announced:
                    self.outputs.append(CallStarted(index, item.name))
                    self.outputs.append(ArgumentsDelta(index, item.arguments_json))
                self.outputs.append(CallFinished(index, item, terminated))
            else:
                if not terminated and self.final and self.reason in BROKEN_OFF:
                    item = MalformedToolCall(item.raw, f"{BROKEN_OFF[self.reason]}: {item.reason}")
                self.outputs.append(CallMalformed(index, item))

    def _read_literally(self, phase: OpenCall) -> bool:
        """Read the rest of a broken call, which is complete: it ends at the next marker, even inside a string."""
        at, marker = self.plan.in_call.next(self.text, self.at, True)
        raw = self.text[self.at : at]
        self.at = at
        self._settle(phase.outer, raw, marker, bool(marker) and self.plan.ends_call(marker), False)
        return True

    def _read_again(
        self, phase: ParserPhase, text: str, *, literal: bool, final: bool, braces: bool = True, quoted: str = ""
    ) -> None:
        visible = mark_touching(self.visible) if literal else self.visible
        state = ParserState(phase, visible, self.reasoning, self.calls)
        again = ParserRun(self.plan, state, self.types, literal=literal, braces=braces and self.braces, quoted=quoted)
        self.outputs += again.read(text, final=final, reason=self.reason)
        self.visible, self.reasoning, self.calls, self.phase = again.visible, again.reasoning, again.calls, again.phase
        self._read_from(again.phase.held)

    # ------------------------------------------------------------------------------------------------------- end

    def _end_reply(self) -> None:
        phase = self.phase
        if isinstance(phase, OpenCall):
            if phase.scan.tentative and not self.quoted:
                self._read_again(InText(), phase.raw, literal=False, braces=False, final=True)
            elif not phase.scan.tentative:
                self._settle(phase.outer, phase.raw, "", False, phase.scan.announced)
        elif isinstance(phase, InSection):
            self._refuse(phase.junk)
        if not isinstance(self.phase, Ended):
            self._end_flows()
            if isinstance(phase, InReasoning):
                self._emit_calls_in_reasoning(phase.kept)
            self.phase = Ended()

    def _end_flows(self) -> None:
        """Output the white space at the very end too, unless a marker precedes it."""
        for flow, delta in ((self.reasoning, ReasoningDelta), (self.visible, TextDelta)):
            if flow.blank and not flow.touching:
                self.outputs.append(delta(join_pieces(flow.blank)))
        self.reasoning, self.visible = Flow(touching=True), Flow(touching=True)


def hidden_marker(calls: CallFormat, raw: str, doubtful: int) -> tuple[int, str]:
    """Return position and text of the first marker from ``doubtful`` on that may have ended the call; (-1,
    "") if none.
    """
    markers = (calls.end, calls.section_end, calls.start, *calls.more_starts)
    wanted = [marker for marker in markers if marker and marker != calls.name_start]
    places = [(place, marker) for marker in wanted if (place := raw.find(marker, doubtful)) >= 0]
    return min(places, key=lambda found: found[0]) if places else (-1, "")


def without_cut_marker(plan: FormatPlan, calls: CallFormat, raw: str, types: ParameterTypes) -> Decoding | None:
    """Return the calls if a truncated end marker is their only defect; else None."""
    place = plan.in_call.find_held(raw, 0, len(raw))
    decoding = None if place is None else decode(calls, raw[:place], terminated=False, types=types)
    return decoding if decoding and decoding.flawless else None


def advance_flow(flow: Flow, text: str) -> tuple[Flow, str]:
    """Return the flow after a text without markers, and the part of the text to show now."""
    if not text:
        return flow, ""
    body = text.rstrip()
    if not body:
        return Flow(flow.started, flow.touching, append_text(flow.blank, text), flow.tail), ""
    blank = text[len(body) :]
    if flow.blank or flow.touching:
        body = join_pieces(flow.blank) + body if flow.started or not flow.touching else body.lstrip()
    elif flow.started and not blank and not flow.tail:
        return flow, body
    return Flow(True, False, (blank,) if blank else EMPTY), body


def advance_past_marker(flow: Flow, text: str, markers: Markers) -> tuple[Flow, str]:
    """Like ``advance_flow``, but never lets text around a removed marker join into another marker.

    Removing ``</b>`` from ``</a</b>>`` would leave ``</a>``, so a blank replaces ``</b>``.
    """
    after, text = advance_flow(flow, text)
    if not text:
        return after, text
    if flow.tail and flow.touching and markers.can_continue(flow.tail, text[0]):
        text = " " + text
    tail = markers.find_begun((flow.tail + text)[-markers.longest :])
    return (Flow(after.started, after.touching, after.blank, tail) if tail else after), text


def mark_touching(flow: Flow) -> Flow:
    if flow.touching:
        return flow
    return Flow(flow.started, True, flow.blank, flow.tail)
