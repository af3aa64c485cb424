"""Reading a call of values that are not JSON as it comes: only where it ends is looked for, outside of its strings.

Such a call is told when it is complete: there are several of them between one pair of markers, or their text is of no
use to anybody before it is decoded.
"""

from __future__ import annotations

from cognition.parsing.plan import Plan
from cognition.parsing.scan_json import Reading
from cognition.parsing.state import Scan


def scan_literals(plan: Plan, scan: Scan, text: str, start: int, *, final: bool) -> Reading:
    """Read on in a call of the shapes ``pythonic`` and ``named_object``."""
    at, quote, ending = start, scan.quote, ""
    while True:
        stop, marker = plan.quoted[quote].next(text, at, final)
        at = stop
        if not marker:
            break
        if not quote and marker in plan.in_call.texts:
            ending = marker
            break
        at += len(marker)
        if not quote:
            quote = marker
        elif marker == quote:
            quote = ""
    return Reading(scan if quote == scan.quote else Scan(scan.fields, 0, quote), at, ending=ending)
