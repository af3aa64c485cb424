"""Find markers hidden by a broken call: inside a string that seems open, or in an end marker that was truncated."""

from __future__ import annotations

from cognition.parsing._decode import decode
from cognition.parsing._plan import FormatPlan
from cognition.parsing.call_builder import Decoding
from cognition.parsing.spec import CallFormat
from cognition.parsing.typed_values import ParameterTypes

IN_REASONING = "it stands in reasoning that was never ended: end the reasoning before you call"
IN_A_STRING = "it stands behind a text that was never closed, or in it"
"""Reasons reported when text that reads as a call is not accepted as a call."""

BROKEN_OFF = {
    "length": "the reply reached the token limit inside the call",
    "cancelled": "the reply was cancelled inside the call",
    "error": "the reply broke off inside the call",
}


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
    place = plan.in_call.held(raw, 0, len(raw))
    decoding = None if place is None else decode(calls, raw[:place], terminated=False, types=types)
    return decoding if decoding and decoding.flawless else None
