"""A format prepared for reading: for each phase its markers, and the effect of each marker there.

``MOVES`` is the state machine. Rows are phases, columns are meanings of markers, and every cell is written out.
``PLAIN``: the marker has no meaning there and remains text. Two phases have no row: ``BehindCall`` ends before any
marker is searched for, and ``InHeader`` has its own markers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal, get_args

from attrs import astuple

from cognition.parsing._decode import ARGUMENT_KEYS
from cognition.parsing.markers import Markers
from cognition.parsing.spec import CallFormat, FormatSpec
from cognition.parsing.state import Ended, InCall, InReasoning, InSection, InText, ParserPhase, ParserState, Role, Scan

Meaning = Literal[
    "reasoning_start", "reasoning_end", "answer_start", "section_start", "section_end", "call_start", "call_end",
    "brace", "lead", "header", "token", "dropped", "stop",
]  # fmt: skip
"""The meaning of a marker. ``brace``: the ``{``, or for pythonic calls the ``[``, of calls without a start marker."""

Move = Literal[
    "plain", "drop", "stray", "quote", "reason", "answer", "enter_section", "begin_call", "try_call", "close_call",
    "header", "end",
]  # fmt: skip
"""The reaction to a marker. Markers of calls without a role in the phase are text:

- ``stray``: the end of a call or a section, in text. Directly after a call or a section it is redundant and dropped,
  elsewhere it is text.
- ``quote``: the start of a call or a section, in reasoning. Text after it remains reasoning even if it looks like a
  call; see ``InReasoning.kept``.
"""
PLAIN: Move = "plain"

MOVES: Mapping[type[ParserPhase], Mapping[Meaning, Move]] = {
    InText: {
        "reasoning_start": "reason",
        "reasoning_end": "drop",  # one too many
        "answer_start": "drop",
        "section_start": "enter_section",
        "section_end": "stray",
        "call_start": "begin_call",
        "call_end": "stray",
        "brace": "try_call",
        "lead": "drop",  # where text begins
        "header": "header",
        "token": "drop",
        "dropped": "drop",
        "stop": "end",
    },
    InReasoning: {
        "reasoning_start": "drop",
        "reasoning_end": "answer",
        "answer_start": "answer",  # the model forgot to end its reasoning: the answer counts
        "section_start": "quote",
        "section_end": PLAIN,
        "call_start": "quote",
        "call_end": PLAIN,
        "brace": "quote",
        "lead": PLAIN,
        "header": "header",
        "token": "drop",
        "dropped": "drop",
        "stop": "end",
    },
    InSection: {
        "reasoning_start": "reason",
        "reasoning_end": "drop",
        "answer_start": "answer",
        "section_start": "drop",
        "section_end": "answer",
        "call_start": "begin_call",
        "call_end": "drop",
        "brace": "begin_call",
        "lead": PLAIN,
        "header": "drop",
        "token": "drop",
        "dropped": "drop",
        "stop": "end",
    },
    InCall: {
        "reasoning_start": PLAIN,
        "reasoning_end": PLAIN,
        "answer_start": PLAIN,
        "section_start": PLAIN,
        "section_end": "close_call",
        "call_start": "close_call",  # the end marker was forgotten
        "call_end": "close_call",
        "brace": PLAIN,
        "lead": PLAIN,
        "header": PLAIN,
        "token": PLAIN,
        "dropped": PLAIN,
        "stop": "close_call",
    },
    Ended: dict.fromkeys(get_args(Meaning), PLAIN),
}


HEAD_KEYS = ("type", "id")
"""Keys that may precede the name and the arguments in a call without a start marker."""


class FormatPlan:
    """The tables of one format. Immutable after construction."""

    def __init__(self, spec: FormatSpec) -> None:
        calls = spec.calls
        self.spec = spec
        self.calls = calls
        self.meanings = _meanings(spec)
        self.markers: Mapping[type[ParserPhase], Markers] = {phase: Markers(self._wanted(phase)) for phase in MOVES}
        self.in_text = self.markers[InText]
        self.in_reasoning = self.markers[InReasoning]
        self.in_call = self.markers[InCall]
        self.in_call_texts = frozenset(self.in_call.texts)
        first = ("brace", "lead")
        self.unbraced = Markers(marker for marker in self._wanted(InText) if self.meanings[marker] not in first)
        """The markers of text without ``{`` and the lead, which count only where text begins."""
        # Markers before single characters: at one place the longer one counts.
        self.outside = re.compile("|".join([*map(re.escape, self.in_call.texts), r"""["'{}\[\],:]"""]))
        """Finds the significant characters and markers outside of strings in a call's JSON."""
        self.bare = re.compile("|".join([*map(re.escape, self.in_call.texts), r"""["'(){}\[\]]"""]))
        """The same for pythonic calls without a start marker."""
        self.firsts = frozenset(marker[0] for marker in self.in_call.texts)
        self.skimmed = re.compile("|".join(map(re.escape, sorted(self.firsts | set("\"'{}[]"))))).search
        """Like ``outside``, without commas and colons, and only the first character of each marker."""
        self.signs = re.compile("|".join(map(re.escape, sorted(self.firsts))) or "(?!)").search
        """Finds a position where a marker may begin."""
        self.id_starts = frozenset(() if calls is None else (calls.id_start, *calls.more_id_starts)) - {""}
        self.head = Markers(() if calls is None else (*self.in_call.texts, calls.name_end, *self.id_starts))
        """The markers that end a name before its JSON, and the id after that name."""
        self.head_keys = frozenset(() if calls is None else (*HEAD_KEYS, *ARGUMENT_KEYS, *astuple(calls.fields)))
        self.tags = _tag_markers(calls, self.in_call.texts)
        self.quoted = _quote_markers(calls, self.in_call.texts)
        self.first = _first_scan(spec)
        self.in_header = _header_markers(spec)
        self.named = Scan("head")
        """The initial scan after a marker that comes right before the name."""
        opened = spec.reasoning is not None and spec.reasoning.opened
        self.fresh = ParserState(InReasoning() if opened else InText(spec.prompted))

    def _wanted(self, phase: type[ParserPhase]) -> list[str]:
        return [marker for marker, meaning in self.meanings.items() if MOVES[phase][meaning] != PLAIN]

    def move(self, phase: type[ParserPhase], marker: str) -> Move:
        return MOVES[phase][self.meanings[marker]]

    def ends_call(self, marker: str) -> bool:
        """Return whether this marker properly ends a call. Other markers only interrupt it."""
        meaning = self.meanings[marker]
        return meaning == "call_end" or (meaning == "section_end" and self.calls is not None and not self.calls.end)


def _meanings(spec: FormatSpec) -> dict[str, Meaning]:
    """Return each marker of the format with its meaning; of two identical markers, the first."""
    pairs: list[tuple[str, Meaning]] = []
    if spec.calls is not None:
        calls = spec.calls
        pairs += [(calls.section_start, "section_start"), (calls.section_end, "section_end")]
        pairs += [(calls.start, "call_start"), (calls.end, "call_end")]
        pairs += [(start, "call_start") for start in calls.more_starts]
        if not calls.start:
            pairs.append(("[" if calls.shape == "pythonic" else "{", "brace"))
    if spec.reasoning is not None:
        pairs += [(spec.reasoning.start, "reasoning_start"), (spec.reasoning.end, "reasoning_end")]
    pairs += [(marker, "stop") for marker in spec.stops]
    pairs += [(marker, "answer_start") for marker in spec.answers]
    pairs += [(marker, "dropped") for marker in spec.dropped]
    pairs.append((spec.lead, "lead"))
    if spec.headers is not None:
        pairs += [(marker, "header") for marker in spec.headers.starts]
        pairs += [(marker, "token") for marker in (spec.headers.end, *spec.headers.tokens)]
    meanings: dict[str, Meaning] = {}
    for marker, meaning in pairs:
        if marker:
            meanings.setdefault(marker, meaning)
    return meanings


def _header_markers(spec: FormatSpec) -> Markers:
    """Return the markers that end a header: its own, the beginning of the next part, and the end of the message."""
    if spec.headers is None:
        return Markers(())
    ends = [spec.reasoning.end] if spec.reasoning is not None else []
    ends += [spec.calls.end] if spec.calls is not None else []
    return Markers([*spec.headers.starts, spec.headers.end, *ends, *spec.stops])


def _first_scan(spec: FormatSpec) -> Scan:
    calls = spec.calls
    if calls is not None and calls.shape == "named_json":
        return Scan("head")
    if calls is not None and calls.shape in ("tagged_parameters", "nested_tags"):
        return Scan("lead" if calls.name_start else "head")
    return Scan("before")


def _tag_markers(calls: CallFormat | None, ends: tuple[str, ...]) -> dict[Role, Markers]:
    """Return the markers that end each part of a call; ``skipped`` is the part between two parameters."""
    if calls is None or calls.parameters is None:
        return {}
    tree = calls.shape == "nested_tags"
    return {
        "lead": Markers([calls.name_start, *ends]),
        "head": Markers([calls.name_end or calls.parameters.key_start, *ends]),
        "skipped": Markers([calls.parameters.key_start, *ends]),
        "arguments": Markers(ends if tree else [calls.parameters.value_end, calls.parameters.text_start]),
        "text": Markers([calls.parameters.text_end]),
    }


def _quote_markers(calls: CallFormat | None, ends: tuple[str, ...]) -> dict[str, Markers]:
    """Return the markers outside of strings, under the key ``""``, and within strings, under their quotation mark."""
    if calls is None or calls.shape not in ("pythonic", "named_object"):
        return {}
    escapes = calls.shape == "pythonic"
    within = {mark: [mark, "\\\\", f"\\{mark}"] if escapes else [mark] for mark in calls.quotes}
    return {"": Markers([*calls.quotes, *ends]), **{mark: Markers(texts) for mark, texts in within.items()}}


@lru_cache(maxsize=64)
def plan_of(spec: FormatSpec) -> FormatPlan:
    return FormatPlan(spec)
