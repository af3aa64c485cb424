"""Reading a call with tagged parameters as it comes: its name, the text of its parameters, and where it ends.

Nothing is decoded here. Inside a value only the value's own end counts, so a value may hold any other marker.
"""

from __future__ import annotations

from cognition.parsing.decode import name_in
from cognition.parsing.plan import Plan
from cognition.parsing.rope import EMPTY, added, joined
from cognition.parsing.scan_json import Reading
from cognition.parsing.state import Fields, Scan


def scan_tags(plan: Plan, scan: Scan, text: str, start: int, *, final: bool) -> Reading:
    """Read on in a call of the shape ``tagged_parameters``."""
    calls = plan.calls
    assert calls is not None
    assert calls.parameters is not None
    key_start = calls.parameters.key_start
    role, token, name = scan.fields.role, scan.fields.token, scan.fields.name
    text_start = calls.parameters.text_start
    said: list[str] = []
    at = start
    ending = ""
    while True:
        stop, marker = plan.tags[role].next(text, at, final)
        if role == "head":
            token = added(token, text[at:stop])
        elif role in ("arguments", "text"):
            said.append(text[at:stop])
        at = stop
        if not marker:
            break
        if marker in plan.in_call.texts and (role != "lead" or marker != calls.name_start):
            name = name or name_in(calls, joined(token))
            ending = marker
            break
        at += len(marker)
        if role == "lead":
            role = "head"
            continue
        if role == "head":
            name, token, role = name_in(calls, joined(token)), EMPTY, "skipped"
        elif role == "arguments":
            said.append(marker)
            role = "text" if marker == text_start else "skipped"
        elif role == "text":
            said.append(marker)
            role = "arguments"
        if marker == key_start:
            said.append(marker)
            role = "arguments"
    announced = scan.fields.announced or bool(name)
    fields = scan.fields
    if role != fields.role or token is not fields.token or announced != fields.announced:
        scan = Scan(Fields(role, token=token, name=name, announced=announced))
    # What has no name is never announced, and arguments of a call that was not announced would belong to nothing.
    return Reading(scan, at, "" if fields.announced else name, "".join(said) if announced else "", ending)
