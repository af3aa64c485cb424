"""White space around markers: which part is shown, and when. See ``Flow`` for the rule."""

from __future__ import annotations

from cognition.parsing.markers import Markers
from cognition.parsing.rope import EMPTY, added, joined
from cognition.parsing.state import Flow


def flowed(flow: Flow, text: str) -> tuple[Flow, str]:
    """Return the flow after a text without markers, and the part of the text to show now."""
    if not text:
        return flow, ""
    body = text.rstrip()
    if not body:
        return Flow(flow.started, flow.touching, added(flow.blank, text), flow.tail), ""
    blank = text[len(body) :]
    if flow.blank or flow.touching:
        body = joined(flow.blank) + body if flow.started or not flow.touching else body.lstrip()
    elif flow.started and not blank and not flow.tail:
        return flow, body
    return Flow(True, False, (blank,) if blank else EMPTY), body


def parted(flow: Flow, text: str, markers: Markers) -> tuple[Flow, str]:
    """Like ``flowed``, but never lets text around a removed marker join into another marker.

    Removing ``</b>`` from ``</a</b>>`` would leave ``</a>``, so a blank replaces ``</b>``.
    """
    after, text = flowed(flow, text)
    if not text:
        return after, text
    if flow.tail and flow.touching and markers.goes_on(flow.tail, text[0]):
        text = " " + text
    tail = markers.begun((flow.tail + text)[-markers.longest :])
    return (Flow(after.started, after.touching, after.blank, tail) if tail else after), text


def touched(flow: Flow) -> Flow:
    if flow.touching:
        return flow
    return Flow(flow.started, True, flow.blank, flow.tail)
