"""Reading a call's JSON as it comes: where its name is, which text its arguments are, and where it ends.

Nothing is decoded here. The scan follows quotes and brackets only, so it gets through broken JSON too; a marker counts
outside of strings only, so a string may hold one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from cognition.parsing.decode import ARGUMENT_KEYS
from cognition.parsing.making import name_in
from cognition.parsing.open_call import OpenScan
from cognition.parsing.plan import Plan
from cognition.parsing.rope import EMPTY, Rope, added, joined
from cognition.parsing.state import Role

CLOSED = "closed"
NO_CALL = "no call"

# To the end of a string, its closing quote not included. What is left after it is that quote, a backslash that ends
# the chunk, or nothing.
INSIDE = {
    '"': re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL),
    "'": re.compile(r"[^'\\]*+(?:\\.[^'\\]*+)*+", re.DOTALL),
}


Reading = tuple[int, str, str, str]
"""What came out of a piece of text:

- up to where it was read,
- the name of the call, once: when it is known,
- more of the text of its arguments,
- how it ended: empty when more is needed, else the marker that stands there, or CLOSED: the JSON ended, or NO_CALL: it
  is none.
"""

Scanner = Callable[[Plan, OpenScan, str, int], Reading]
"""Reads on in a call in a piece of text from a place on; more of the reply follows."""


def scan_json(
    plan: Plan, scan: OpenScan, text: str, start: int, *, final: bool = False, tentative: bool = False
) -> Reading:
    """Read on in a call of a JSON shape."""
    if scan.role in ("head", "id"):
        start, role, ending = _scan_head(plan, scan, text, start, final)
        scan.role = role
        if ending or role != "gap":
            return (start, *scan.told("", tentative=tentative), ending)
    calls = plan.calls
    assert calls is not None  # only formats with calls have calls to scan
    outside = plan.outside
    depth, quote, escaped = scan.depth, scan.quote, scan.escaped
    role, level, token, name, reached = scan.role, scan.level, scan.token, scan.name, scan.reached
    at, size, said, ending = start, len(text), "", ""
    since = at if role == "arguments" else -1  # where the arguments begin that are not in ``said`` yet
    held = -1  # not looked for yet
    while at < size:
        if quote:
            stop = text.find(quote, at)
            stop = size if stop < 0 else stop
            # Looked for within the string only: a text may hold many, all of which would be searched each time.
            if escaped or text.find("\\", at, stop) >= 0:
                match = INSIDE[quote].match(text, at + escaped)
                stop = match.end() if match else at
                escaped = stop < size and text[stop] != quote
            closed = stop < size and not escaped
            if depth == level and role in ("key", "name"):
                token = added(token, text[at : stop + escaped])
            at = min(stop + 1, size)
            if not closed:
                break
            if depth == level:
                if role == "key":
                    key, token, role = _unquoted(token, quote), EMPTY, "colon"
                    scan.key = key
                    if tentative and not (name and reached) and key not in plan.head_keys:
                        ending = NO_CALL
                        break
                elif role == "name":
                    # A second name is one too many: the first may have been told.
                    name, token, role = name or _unquoted(token, quote).strip(), EMPTY, "skipped"
                elif role == "arguments":
                    role, said, since = "skipped", said + text[since:at], -1
            quote = ""
            continue
        found = outside.search(text, at)
        stop = found.start() if found else size
        if not final and (stop > at or found is None or text[at] in plan.firsts):
            if held < at:  # one look serves until a string has led past it
                unsure = plan.in_call.held(text, at, size)
                held = size if unsure is None else unsure
            if held <= stop:
                found, stop = None, held
        if stop > at:
            piece = text[at:stop]
            if role == "gap" and not piece.isspace():
                role, reached, since = "arguments", True, stop - len(piece.lstrip())
            at = stop
            if tentative and role in ("key", "colon") and not (name and reached) and not piece.isspace():
                ending = NO_CALL
                break
        if found is None:
            break
        sign = found.group()
        if sign in plan.in_call_texts:
            ending = sign
            break
        if role == "gap":
            role, reached, since = "arguments", True, at
        at += 1
        if sign in "\"'":
            quote = sign
        elif sign in "{[":
            depth += 1
            if role == "before" and sign == "{":
                level, role = depth, "key"
        elif sign in "}]":
            depth = max(depth - 1, 0)
            if role == "arguments" and depth == level:
                role, said, since = "skipped" if level else "after", said + text[since:at], -1
            elif depth < level:
                role = "after"
            if depth == 0 and not calls.end:
                ending = CLOSED
        elif depth == level > 0 and sign == "," and role != "after":
            role = "key"
        elif depth == level > 0 and sign == ":" and role == "colon":
            role = _role_of(plan, scan.key, reached)
            if calls.shape == "name_as_key":
                role, name = ("skipped", name) if name else ("gap", scan.key)  # a second name is one too many
        if since >= 0 and role != "arguments":  # they ended before this sign
            said, since = said + text[since : at - 1], -1
        if ending:
            break
    if since >= 0:
        said += text[since:at]
    scan.role, scan.level, scan.token, scan.name, scan.reached = role, level, token, name, reached
    scan.depth, scan.quote, scan.escaped = depth, quote, escaped
    if scan.announced:
        return at, "", said, ending
    if said or name:
        return (at, *scan.told(said, tentative=tentative), ending)
    return at, "", "", ending


def skim_json(plan: Plan, scan: OpenScan, text: str) -> str | None:
    """Read on in a chunk that changes little, as most do: what it says. None: it takes a closer look, nothing was read.

    Such a chunk lies wholly within the arguments, or brings neither a quote nor a bracket before or behind them. It
    says nothing that ``scan_json`` would not say; this is here for speed, since such a chunk comes with each token.
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
        found = plan.skimmed(text, at)
        if found is None:
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


def _skim_head(plan: Plan, scan: OpenScan, quote: str, text: str) -> str | None:
    """The same for a chunk before or behind the arguments: white space, or more of a key or a name."""
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
        scan.token = added(scan.token, text)
    return ""


def _role_of(plan: Plan, key: str, reached: bool) -> Role:
    calls = plan.calls
    if calls is None or key == calls.fields.arguments or (key in ARGUMENT_KEYS and not reached):
        return "gap"
    return "name" if key == calls.fields.name else "skipped"


def _unquoted(token: Rope, quote: str) -> str:
    """What a string says, as far as it can be told."""
    text = joined(token)
    if "\\" not in text or quote == "'":
        return text
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        return text


def _scan_head(plan: Plan, scan: OpenScan, text: str, start: int, final: bool) -> tuple[int, Role, str]:
    """Read a name that stands before its JSON, and the id behind it: up to where, what comes next, and the ending."""
    calls, role = plan.calls, scan.role
    assert calls is not None
    while True:
        at, marker = plan.head.next(text, start, final)
        if role == "head":
            scan.token = added(scan.token, text[start:at])
        if not marker or not (marker == calls.name_end or marker in plan.id_starts):
            return at, role, marker
        if role == "head":
            scan.name, scan.token = name_in(calls, joined(scan.token)), EMPTY
        start = at + len(marker)
        if marker == calls.name_end:
            scan.reached = True
            return start, "gap", ""
        role = "id"
