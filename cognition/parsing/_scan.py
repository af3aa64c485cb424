"""Scan a call as it arrives: find its name, the text of its arguments, and its end. This module does not decode.

- A call's JSON: the scan follows only quotes and brackets, so it also gets through broken JSON. A marker counts only
  outside of strings, so a string may contain one.
- Tagged parameters: inside a value only the value's own end marker counts, so a value may contain any other marker.
- Values that are not JSON: only the end is found, outside of strings. Such a call is announced once it is complete: one
  pair of markers may enclose several calls, or their text is useless before it is decoded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from cognition.parsing._decode import ARGUMENT_KEYS
from cognition.parsing._open_call import OpenScan
from cognition.parsing._plan import FormatPlan
from cognition.parsing.call_builder import find_name
from cognition.parsing.rope import EMPTY, append_text, join_pieces
from cognition.parsing.state import Role

CLOSED = "closed"
NO_CALL = "no call"

# To the end of a string, its closing quote not included. What is left after it is that quote, a backslash that ends
# the chunk, or nothing.
INSIDE = {
    '"': re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL),
    "'": re.compile(r"[^'\\]*+(?:\\.[^'\\]*+)*+", re.DOTALL),
}


Scanned = tuple[int, str, str, str]
"""The result of scanning a piece of a call's text:

- the position reached;
- the name of the call, in the piece where it becomes known, else empty;
- more text of the call's arguments;
- the ending: the marker at that position, ``CLOSED`` if the JSON ended, ``NO_CALL`` if the text is not a call; empty if
  the call continues.
"""

Scanner = Callable[[FormatPlan, OpenScan, str, int, bool], Scanned]
"""Continues reading a call, from a position in a piece of text; the last parameter: it is the last piece of the reply.
"""

# --------------------------------------------------------------------------------------------------------------- JSON


def scan_json(plan: FormatPlan, scan: OpenScan, text: str, start: int, final: bool) -> Scanned:
    """Continue reading a call of a JSON shape."""
    if scan.role in ("head", "id"):
        start, role, ending = _scan_head(plan, scan, text, start, final)
        scan.role = role
        if ending or role != "gap":
            return (start, *scan.take_ready(""), ending)
    scan.ended, scan.since = "", start if scan.role == "arguments" else -1
    at, ending = _follow(plan, scan, text, start, final)
    name, arguments = scan.name, scan.ended if scan.since < 0 else scan.ended + text[scan.since : at]
    if scan.announced:
        return at, "", arguments, ending
    if arguments or name:
        return (at, *scan.take_ready(arguments), ending)
    return at, "", "", ending


def _follow(plan: FormatPlan, scan: OpenScan, text: str, at: int, final: bool) -> tuple[int, str]:
    """Follow quotes, brackets and markers; return the position reached and the ending."""
    calls = plan.calls
    assert calls is not None  # only formats with calls have calls to scan
    size, held = len(text), -1  # not looked for yet
    search, markers = plan.outside.search, plan.in_call_texts
    while at < size:
        quote = scan.quote
        if quote:
            begun, at = at, _read_string(scan, text, at)
            if scan.quote:
                break
            if scan.depth == scan.level:
                _end_string(scan, text, quote, begun, at)
                unsure_yet = scan.tentative and scan.role == "colon" and not (scan.name and scan.reached)
                if unsure_yet and scan.key not in plan.head_keys:
                    return at, NO_CALL
            continue
        found = search(text, at)
        stop = found.start() if found else size
        if not final and (stop > at or found is None or text[at] in plan.firsts):
            if held < at:  # one look serves until a string has led past it
                unsure = plan.in_call.find_held(text, at, size)
                held = size if unsure is None else unsure
            if held <= stop:
                found, stop = None, held
        if stop > at:
            piece, at = text[at:stop], stop
            if not piece.isspace():  # such as a number
                if scan.role == "gap":
                    scan.begin_arguments(at - len(piece.lstrip()))
                if scan.tentative and scan.role in ("key", "colon") and not (scan.name and scan.reached):
                    return at, NO_CALL
        if found is None:
            break
        sign = found.group()
        if sign in markers:
            return at, sign
        if scan.role == "gap":
            scan.begin_arguments(at)
        at += 1
        if sign in "\"'":
            scan.quote = sign
        elif sign in "{[":
            scan.depth += 1
            if scan.role == "before" and sign == "{":  # the call's own object
                scan.level, scan.role = scan.depth, "key"
        elif sign in "}]":
            _end_bracket(scan, text, at)
            if scan.depth == 0 and not calls.end:
                return at, CLOSED
        elif scan.depth == scan.level > 0:
            _take_separator(plan, scan, text, sign, at)
    return at, ""


def _read_string(scan: OpenScan, text: str, at: int) -> int:
    """Continue reading a string, to its end or the end of the text. If it ended, ``scan.quote`` is empty."""
    quote, escaped, size = scan.quote, scan.escaped, len(text)
    stop = text.find(quote, at)
    stop = size if stop < 0 else stop
    # Looked for within the string only: a text may hold many, all of which would be searched each time.
    if escaped or text.find("\\", at, stop) >= 0:
        match = INSIDE[quote].match(text, at + escaped)
        stop = match.end() if match else at
        scan.escaped = escaped = stop < size and text[stop] != quote
    if stop < size and not escaped:
        scan.quote = ""
        return stop + 1
    if scan.depth == scan.level and scan.role in ("key", "name"):
        scan.token = append_text(scan.token, text[at : stop + escaped])
    return size


def _end_string(scan: OpenScan, text: str, quote: str, begun: int, at: int) -> None:
    """Take a string of the call's own object, which extends from ``begun`` to its closing quote before ``at``."""
    role = scan.role
    if role == "arguments":
        scan.role = "skipped"
        scan.end_arguments(text, at)
    elif role in ("key", "name"):
        content = text[begun : at - 1]
        content = _unquote(join_pieces(append_text(scan.token, content)) if scan.token else content, quote)
        scan.token = EMPTY
        if role == "key":
            scan.key, scan.role = content, "colon"
        else:  # a second name is one too many: the first may have been told
            scan.name, scan.role = scan.name or content.strip(), "skipped"


def _end_bracket(scan: OpenScan, text: str, at: int) -> None:
    """Take a closing bracket right before ``at``. The bracket that closes the arguments belongs to them."""
    scan.depth = max(scan.depth - 1, 0)
    if scan.role == "arguments" and scan.depth == scan.level:
        scan.role = "skipped" if scan.level else "after"
        scan.end_arguments(text, at)
    elif scan.depth < scan.level:
        if scan.role == "arguments":
            scan.end_arguments(text, at - 1)
        scan.role = "after"


def _take_separator(plan: FormatPlan, scan: OpenScan, text: str, sign: str, at: int) -> None:
    """Take a comma or a colon of the call's own object, right before ``at``."""
    calls = plan.calls
    if sign == "," and scan.role != "after":
        if scan.role == "arguments":
            scan.end_arguments(text, at - 1)
        scan.role = "key"
    elif sign == ":" and scan.role == "colon":
        scan.role = _role_of(plan, scan.key, scan.reached)
        if calls is not None and calls.shape == "name_as_key":
            # A second name is one too many.
            scan.role, scan.name = ("skipped", scan.name) if scan.name else ("gap", scan.key)


def skim_json(plan: FormatPlan, scan: OpenScan, text: str) -> str | None:
    """Continue reading a chunk that changes little, as most do. Return its arguments, or None if ``scan_json`` must
    read it.

    Such a chunk lies wholly within the arguments, or has no quote or bracket outside of them. The result equals that of
    ``scan_json``; this function exists for speed. Without it, a call with long arguments takes 1.7 to 2.2 times as long
    to read, and many short calls 1.3 times as long (``benchmarks/scanning.py``).
    """
    if scan.escaped:
        return None
    quote = scan.quote
    if scan.role != "arguments":
        return _skim_head(plan, scan, quote, text)
    level, depth = scan.level, scan.depth
    if not scan.announced or (depth == level and not quote):  # no object and no list: a comma ends it
        return None
    escapes = "\\" in text
    if quote and quote not in text and not escapes:
        return text
    at, size = 0, len(text)
    while True:
        if quote:
            if escapes:
                match = INSIDE[quote].match(text, at)
                at = match.end() if match else size
                if at < size and text[at] != quote:  # the chunk ends within an escape
                    return None
            else:
                at = text.find(quote, at)
            if at < 0 or at == size:
                break
            at += 1
            quote = ""
            if depth == level:  # the arguments were a string, and end here
                return None
        if (found := plan.skimmed(text, at)) is None:
            break
        sign, at = found.group(), found.end()
        if sign == '"':
            quote = sign
        elif sign in plan.firsts:  # maybe a marker
            return None
        elif sign in "{[":
            depth += 1
        elif sign in "}]" and depth > level + 1:
            depth -= 1
        else:  # the end of the arguments, or a single quote
            return None
    scan.quote, scan.depth = quote, depth
    return text


def _skim_head(plan: FormatPlan, scan: OpenScan, quote: str, text: str) -> str | None:
    """``skim_json`` for a chunk outside of the arguments: white space, or more of a key or a name."""
    role = scan.role
    if role in ("head", "id"):
        return None
    if not quote:
        begins = text == '"' and role in ("key", "name")
        if not (begins or text.isspace()) or plan.signs(text) is not None:
            return None
        scan.quote = text if begins else ""
        return ""
    if quote in text or "\\" in text:
        return None
    if scan.depth == scan.level and role in ("key", "name"):
        scan.token = append_text(scan.token, text)
    return ""


def _role_of(plan: FormatPlan, key: str, reached: bool) -> Role:
    calls = plan.calls
    if calls is None or key == calls.fields.arguments or (key in ARGUMENT_KEYS and not reached):
        return "gap"
    return "name" if key == calls.fields.name else "skipped"


def _unquote(text: str, quote: str) -> str:
    if "\\" not in text or quote == "'":
        return text
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        return text


def _scan_head(plan: FormatPlan, scan: OpenScan, text: str, start: int, final: bool) -> tuple[int, Role, str]:
    """Read a name before its JSON, and the id after it. Return the position reached, the next role and the ending."""
    calls, role = plan.calls, scan.role
    assert calls is not None
    while True:
        at, marker = plan.head.next(text, start, final)
        if role == "head":
            scan.token = append_text(scan.token, text[start:at])
        if not marker or not (marker == calls.name_end or marker in plan.id_starts):
            return at, role, marker
        if role == "head":
            scan.name, scan.token = find_name(calls, join_pieces(scan.token)), EMPTY
        start = at + len(marker)
        if marker == calls.name_end:
            scan.reached = True
            return start, "gap", ""
        role = "id"


# ---------------------------------------------------------------------------------------------------- tagged parameters


def scan_tags(plan: FormatPlan, scan: OpenScan, text: str, start: int, final: bool) -> Scanned:
    """Continue reading a call of the shapes ``tagged_parameters`` and ``nested_tags``."""
    calls = plan.calls
    assert calls is not None
    assert calls.parameters is not None
    key_start = calls.parameters.key_start
    role, token, name = scan.role, scan.token, scan.name
    text_start = calls.parameters.text_start
    arguments: list[str] = []
    at = start
    ending = ""
    while True:
        stop, marker = plan.tags[role].next(text, at, final)
        if role == "head":
            token = append_text(token, text[at:stop])
        elif role in ("arguments", "text"):
            arguments.append(text[at:stop])
        at = stop
        if not marker:
            break
        if marker in plan.in_call.texts and (role != "lead" or marker != calls.name_start):
            name = name or find_name(calls, join_pieces(token))
            ending = marker
            break
        at += len(marker)
        if role == "lead":
            role = "head"
            continue
        if role == "head":
            name, token, role = find_name(calls, join_pieces(token)), EMPTY, "skipped"
        elif role == "arguments":
            arguments.append(marker)
            role = "text" if marker == text_start else "skipped"
        elif role == "text":
            arguments.append(marker)
            role = "arguments"
        if marker == key_start:
            arguments.append(marker)
            role = "arguments"
        if at == len(text):
            break
    scan.role, scan.token, scan.name = role, token, name
    new_name = "" if scan.announced else name
    scan.announced = scan.announced or bool(name)
    # What has no name is never announced, and arguments of a call that was not announced would belong to nothing.
    return at, new_name, "".join(arguments) if scan.announced else "", ending


def skim_tags(plan: FormatPlan, scan: OpenScan, text: str) -> str | None:
    """Continue reading a chunk without a possible marker. Return its arguments, or None if ``scan_tags`` must read it.

    The result equals that of ``scan_tags``; this function exists for speed. Without it, a call with a long parameter
    takes 2.2 times as long to read (``benchmarks/scanning.py``).
    """
    role = scan.role
    if plan.tags[role].sign(text) is not None:
        return None
    if role == "head":
        scan.token = append_text(scan.token, text)
    return text if scan.announced and role in ("arguments", "text") else ""


# --------------------------------------------------------------------------------------------- values that are not JSON

HEAD = re.compile(r"[\s\w.-]*+")
NAME = re.compile(r"[A-Za-z_][\w.-]*")
"""The beginning that a list of calls must have."""


def scan_bare(plan: FormatPlan, scan: OpenScan, text: str, start: int, final: bool) -> Scanned:
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


def scan_literals(plan: FormatPlan, scan: OpenScan, text: str, start: int, final: bool) -> Scanned:
    """Continue reading a call of the shapes ``pythonic`` and ``named_object``."""
    if plan.calls is not None and not plan.calls.start and not plan.calls.section_start:
        return scan_bare(plan, scan, text, start, final)
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
