"""Finding the markers that a broken call hides, in a string that seems open or in an end marker that was cut."""

from __future__ import annotations

from cognition.parsing.decode import decode
from cognition.parsing.making import Decoding
from cognition.parsing.plan import FormatPlan
from cognition.parsing.spec import CallFormat
from cognition.parsing.typed import ParameterTypes

IN_REASONING = "it stands in reasoning that was never ended: end the reasoning before you call"
IN_A_STRING = "it stands behind a text that was never closed, or in it"
"""The reasons why something that reads as a call is no call."""

BROKEN_OFF = {
    "length": "the reply reached the token limit inside the call",
    "cancelled": "the reply was cancelled inside the call",
    "error": "the reply broke off inside the call",
}


def hidden_marker(calls: CallFormat, raw: str, doubtful: int) -> tuple[int, str]:
    """The first marker in a call's text from ``doubtful`` on, which may have ended the call: its place, and the marker.

    (-1, "") if there is none.
    """
    markers = (calls.end, calls.section_end, calls.start, *calls.more_starts)
    wanted = [marker for marker in markers if marker and marker != calls.name_start]
    places = [(place, marker) for marker in wanted if (place := raw.find(marker, doubtful)) >= 0]
    return min(places, key=lambda found: found[0]) if places else (-1, "")


def without_cut_marker(plan: FormatPlan, calls: CallFormat, raw: str, types: ParameterTypes) -> Decoding | None:
    """The calls, if all that is wrong with them is that the reply broke off within their end marker; else None."""
    place = plan.in_call.held(raw, 0, len(raw))
    decoding = None if place is None else decode(calls, raw[:place], terminated=False, types=types)
    return decoding if decoding and decoding.flawless else None
