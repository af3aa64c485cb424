"""Reading a call's JSON as it comes: where its name is, which text its arguments are, and where it ends.

Nothing is decoded here. The scan follows quotes and brackets only, so it gets through broken JSON too; a marker counts
outside of strings only, so a string may hold one.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from cognition.parsing.decode import ARGUMENT_KEYS, name_in
from cognition.parsing.plan import Plan
from cognition.parsing.rope import EMPTY, Rope, added, joined
from cognition.parsing.state import Fields, Role, Scan

CLOSED = "closed"
NO_CALL = "no call"

# To the end of a string, its closing quote not included. What is left after it is that quote, a backslash that ends
# the chunk, or nothing.
INSIDE = {
    '"': re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL),
    "'": re.compile(r"[^'\\]*+(?:\\.[^'\\]*+)*+", re.DOTALL),
}


class Reading(NamedTuple):
    """What came out of a piece of text."""

    scan: Scan
    at: int
    """Up to where the text was read."""
    name: str = ""
    """Of the call, once: when it is known."""
    arguments: str = ""
    """More of their text."""
    ending: str = ""
    """Empty: more is needed. Else the marker at ``at``, or CLOSED: the JSON ended, or NO_CALL: it is none."""


def scan_json(plan: Plan, scan: Scan, text: str, start: int, *, final: bool, tentative: bool) -> Reading:
    """Read on in a call of a JSON shape."""
    fields = scan.fields
    if fields.role in ("head", "id"):
        fields, start, ending = _scan_head(plan, fields, text, start, final)
        if ending or fields.role != "gap":
            return _reading(Scan(fields), fields, start, [], ending, tentative)
        scan = Scan(fields)
    calls = plan.calls
    assert calls is not None  # only formats with calls have calls to scan
    in_call, outside = plan.in_call, plan.outside
    depth, quote, escaped = scan.depth, scan.quote, scan.escaped
    role, level, key, token, name = fields.role, fields.level, fields.key, fields.token, fields.name
    reached, balanced = fields.reached, not calls.end
    at, size, said, ending = start, len(text), list[str](), ""
    held = -1  # not looked for yet
    while at < size:
        if quote:
            match = INSIDE[quote].match(text, at + escaped)
            stop = match.end() if match else at
            escaped = stop < size and text[stop] != quote
            closed = stop < size and not escaped
            stop = min(stop + 1, size)
            piece = text[at:stop]
            at = stop
            if role == "arguments":
                said.append(piece)
            elif role in ("key", "name") and depth == level:
                token = added(token, piece[:-1] if closed else piece)
            if not closed:
                break
            if depth == level:
                if role == "key":
                    key, token, role = _unquoted(token, quote), EMPTY, "colon"
                    if tentative and not (name and reached) and key not in plan.head_keys:
                        ending = NO_CALL
                        break
                elif role == "name":
                    name, token, role = _unquoted(token, quote).strip(), EMPTY, "skipped"
                elif role == "arguments":
                    role = "skipped"
            quote = ""
            continue
        found = outside.search(text, at)
        stop = found.start() if found else size
        if held < at and not final:  # one look serves until a string has led past it
            unsure = in_call.held(text, at, size) if in_call.sign(text, at) else None
            held = size if unsure is None else unsure
        if held <= stop and not final:
            found, stop = None, held
        if stop > at:
            piece = text[at:stop]
            at = stop
            if role == "arguments":
                said.append(piece)
            elif role == "gap" and not piece.isspace():
                role, reached = "arguments", True
                said.append(piece.lstrip())
            elif tentative and role in ("key", "colon") and not (name and reached) and not piece.isspace():
                ending = NO_CALL
                break
        if found is None:
            break
        sign = found.group()
        if sign in plan.meanings and sign in in_call.texts:
            ending = sign
            break
        at += 1
        if role == "gap":
            role, reached = "arguments", True
        if sign in "\"'":
            quote = sign
            if role == "arguments":
                said.append(sign)
        elif sign in "{[":
            depth += 1
            if role == "before" and sign == "{":
                level, role = depth, "key"
            elif role == "arguments":
                said.append(sign)
        elif sign in "}]":
            depth = max(depth - 1, 0)
            if role == "arguments" and depth >= level:
                said.append(sign)
                if depth == level:
                    role = "skipped" if level else "after"
            elif depth < level:
                role = "after"
            if balanced and depth == 0:
                ending = CLOSED
                break
        elif depth == level > 0 and sign == "," and role != "after":
            role = "key"
        elif depth == level > 0 and sign == ":" and role == "colon":
            role = _role_of(plan, key, reached)
            if calls.shape == "name_as_key":
                role, name = ("skipped", name) if name else ("gap", key)  # a second name is one too many
        elif role == "arguments":
            said.append(sign)
    if (
        role != fields.role
        or token is not fields.token
        or key != fields.key
        or name != fields.name
        or reached != fields.reached
        or level != fields.level
    ):
        fields = Fields(role, level, key, token, name, fields.waiting, reached, fields.announced)
        scan = Scan(fields, depth, quote, escaped)
    elif depth != scan.depth or quote != scan.quote or escaped != scan.escaped:
        scan = Scan(fields, depth, quote, escaped)
    if not said and (fields.announced or not fields.name):
        return Reading(scan, at, "", "", ending)
    return _reading(scan, fields, at, said, ending, tentative)


def skim_json(plan: Plan, scan: Scan, text: str) -> Scan | None:
    """The scan after a chunk that changes little, as most do; None where it takes a closer look.

    Such a chunk lies wholly within the arguments, or brings neither a quote nor a bracket before or behind them.

    It says nothing that ``scan_json`` would not say; it is here for speed, since such a chunk comes with each token.
    """
    fields, quote, depth = scan.fields, scan.quote, scan.depth
    if scan.escaped:
        return None
    if fields.role != "arguments":
        return _skim_head(plan, scan, text)
    if not fields.announced:
        return None
    at, size, escapes = 0, len(text), "\\" in text
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
            if depth == fields.level:  # the arguments were a string, and end here
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
        elif sign in "}]" and depth > fields.level + 1:
            depth -= 1
        else:  # the end of the arguments, or a single quote
            return None
    return scan if quote == scan.quote and depth == scan.depth else Scan(fields, depth, quote)


def _skim_head(plan: Plan, scan: Scan, text: str) -> Scan | None:
    """The same for a chunk before or behind the arguments: white space, or more of a key or a name."""
    fields, quote = scan.fields, scan.quote
    role = fields.role
    if quote:
        if quote in text or "\\" in text or role in ("head", "id"):
            return None
        if scan.depth != fields.level or role not in ("key", "name"):
            return scan
        more = Fields(
            role, fields.level, fields.key, added(fields.token, text), fields.name, fields.waiting, fields.reached,
            fields.announced,
        )  # fmt: skip
        return Scan(more, scan.depth, quote)
    return scan if text.isspace() and role not in ("head", "id") and plan.signs(text) is None else None


def _reading(scan: Scan, fields: Fields, at: int, said: list[str], ending: str, tentative: bool) -> Reading:
    """Arguments wait for the name; a call that may be none also keeps its name until its arguments begin."""
    if fields.announced:
        return Reading(scan, at, "", "".join(said), ending)
    if fields.name and (fields.reached or not tentative):
        arguments = joined(fields.waiting) + "".join(said)
        told = Fields(fields.role, fields.level, fields.key, fields.token, fields.name, EMPTY, fields.reached, True)
        return Reading(Scan(told, scan.depth, scan.quote, scan.escaped), at, fields.name, arguments, ending)
    if said:
        waiting = added(fields.waiting, "".join(said))
        kept = Fields(fields.role, fields.level, fields.key, fields.token, "", waiting, fields.reached)
        scan = Scan(kept, scan.depth, scan.quote, scan.escaped)
    return Reading(scan, at, "", "", ending)


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


def _scan_head(plan: Plan, fields: Fields, text: str, start: int, final: bool) -> tuple[Fields, int, str]:
    """Read a name that stands before its JSON, and the id behind it."""
    calls = plan.calls
    assert calls is not None
    role, token, name = fields.role, fields.token, fields.name
    while True:
        at, marker = plan.head.next(text, start, final)
        if role == "head":
            token = added(token, text[start:at])
        if marker and (marker == calls.name_end or marker in plan.id_starts):
            if role == "head":
                name, token = name_in(calls, joined(token)), EMPTY
            role, start = ("gap" if marker == calls.name_end else "id"), at + len(marker)
            if role == "id":
                continue
            marker = ""
        else:
            start = at
        return Fields(role, 0, "", token, name, EMPTY, role == "gap", fields.announced), start, marker
