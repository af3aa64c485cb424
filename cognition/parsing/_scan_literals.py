"""Scan a call whose values are not JSON: find only its end, outside of its strings.

Such a call is announced once it is complete: one pair of markers may enclose several calls, or their text is useless
before it is decoded.
"""

from __future__ import annotations

import re

from cognition.parsing._open_call import OpenScan
from cognition.parsing._plan import FormatPlan
from cognition.parsing._scan_json import CLOSED, INSIDE, NO_CALL, Scanned
from cognition.parsing.rope import EMPTY, append_text, join_pieces

HEAD = re.compile(r"[\s\w.-]*+")
NAME = re.compile(r"[A-Za-z_][\w.-]*")
"""The beginning that a list of calls must have."""


def scan_bare(plan: FormatPlan, scan: OpenScan, text: str, start: int, *, final: bool) -> Scanned:
    """Continue reading a list of pythonic calls without a start marker: ``[``, a name and ``(`` begin it, ``]`` ends
    it.
    """
    role, token, name, at, depth = scan.role, scan.token, "", start, scan.depth
    if role == "before":  # the bracket itself
        role, at, depth = "head", at + 1, 1
    if role == "head":
        end = HEAD.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing as well
        token, at = append_text(token, text[at:end]), end
        if at < len(text):
            name = join_pieces(token).strip()
            if text[at] != "(" or not NAME.fullmatch(name):
                return at, "", "", NO_CALL
            role, token = "arguments", EMPTY
    quote, escaped, ending = scan.quote, scan.escaped, ""
    while role == "arguments" and at < len(text) and not ending:
        if quote:
            stop = INSIDE[quote].match(text, at + escaped).end()  # type: ignore[union-attr]  # as above
            escaped = stop < len(text) and text[stop] != quote
            quote = quote if escaped or stop == len(text) else ""
            at = min(stop + 1, len(text))
            continue
        found = plan.bare.search(text, at)
        stop = found.start() if found else len(text)
        held = None if final else plan.in_call.find_held(text, at, stop)
        if found is None or held is not None:
            at = stop if held is None else held
            break
        sign, at = found[0], stop
        if sign in plan.in_call.texts:
            ending = sign
            break
        at += 1
        if sign in INSIDE:
            quote = sign
        else:
            depth += 1 if sign in "([{" else -1
            ending = "" if depth else CLOSED
    scan.role, scan.token, scan.name, scan.announced = role, token, name or scan.name, scan.announced or bool(name)
    scan.depth, scan.quote, scan.escaped = depth, quote, escaped
    return at, name, "", ending


def scan_literals(plan: FormatPlan, scan: OpenScan, text: str, start: int, *, final: bool = False) -> Scanned:
    """Continue reading a call of the shapes ``pythonic`` and ``named_object``."""
    if plan.calls is not None and not plan.calls.start and not plan.calls.section_start:
        return scan_bare(plan, scan, text, start, final=final)
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
    scan.quote = quote
    return at, "", "", ending


def skim_literals(plan: FormatPlan, scan: OpenScan, text: str) -> str | None:
    """Continue reading a chunk without the start or end of a string or marker, like ``skim_json``.

    Calls without a start marker are not skimmed: their brackets must be counted. Without this fast path, a call with a
    long argument takes 2.9 times as long to read (``benchmarks/scanning.py``).
    """
    calls = plan.calls
    if (calls is not None and calls.start) and plan.quoted[scan.quote].sign(text) is None:
        return ""
    return None
