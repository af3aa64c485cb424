"""Replies in every format there is: the written ones, and those that are derived from other projects' templates.

``replies.py`` writes as the families do, for some of them. Here a call is written by the format's own data, so that
each format has one, with the places at which its calls are complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from attrs import frozen

from cognition.parsing import FORMATS, CallFormat, FormatSpec
from cognition.steps.codec import from_data
from tests.cognition.parsing.replies import Call, bare_keys, dumped, python_text
from tests.cognition.parsing.stated_cases import PROJECTS


def _derived() -> Iterator[tuple[str, FormatSpec]]:
    for project, stated in PROJECTS.items():
        for name, data in stated["formats"].items():
            spec = from_data(data, FormatSpec)
            assert isinstance(spec, FormatSpec)
            yield f"{project}: {name}", spec


EVERY: Mapping[str, FormatSpec] = {**FORMATS, **dict(_derived())}
CALLING = {name: spec for name, spec in EVERY.items() if spec.calls is not None}
THINKING = {name: spec for name, spec in CALLING.items() if spec.reasoning is not None}

IDS = {"muse": '<|message|><atem:function_calls>\n<atem:invoke name="N', "kimi_k3": '" index="1"', "kimi_k2": ":0"}
"""What a family writes between a name and what ends it, where its format reads something over there. N: the name."""


@frozen
class Piece:
    """One call's text, and how much of it has to be there for the call to be complete."""

    text: str
    complete: int


@frozen
class WrittenReply:
    raw: str
    calls: tuple[Call, ...]
    complete: tuple[int, ...]
    """For each call the place from which on it is complete."""


def piece_of(spec: FormatSpec, call: Call) -> Piece:
    """A call with its own markers. Its end marker is not needed where the text before it ends by itself."""
    calls = spec.calls
    assert calls is not None
    if calls.shape == "json_object":
        body = dumped({calls.fields.name: call.name, calls.fields.arguments: call.arguments})
    elif calls.shape == "name_as_key":
        body = dumped({call.name: call.arguments})
    elif calls.shape == "pythonic":
        body = f"{call.name}({', '.join(f'{key}={python_text(value)}' for key, value in call.arguments.items())})"
    elif calls.shape == "named_object":
        arguments = bare_keys(call.arguments).replace('<|"|>', calls.quotes[0])
        body = calls.name_start + call.name + arguments
    else:
        name = call.name + IDS.get(spec.name, "").replace("N", call.name)
        head = calls.start if calls.name_start == calls.start else calls.start + calls.name_start
        head += name + calls.name_end
        if calls.shape == "named_json":
            body = head + dumped(call.arguments)
            return Piece(body + calls.body_end + calls.end, len(body))
        body = head + "".join(_parameter(calls, key, value) for key, value in call.arguments.items()) + calls.body_end
        return Piece(body + calls.end, len(body) if calls.body_end else len(body + calls.end))
    return Piece(calls.start + body + calls.end, len(calls.start + body))


def _parameter(calls: CallFormat, key: str, value: object) -> str:
    around = calls.parameters
    assert around is not None
    if calls.shape == "nested_tags":
        return f"{around.key_start}{key}{around.key_end}{value}{around.value_end}{key}{around.key_end}"
    mark = f" {around.string_mark}" if around.string_mark else ""
    return f"{around.key_start}{key}{around.key_end}{mark}{around.value_start}{value}{around.value_end}"


def thought(spec: FormatSpec, text: str) -> str:
    """Reasoning, begun and ended, as far as the prompt has not begun it."""
    around = spec.reasoning
    assert around is not None
    return f"{'' if around.opened else around.start}\n{text}\n{around.end}"


def reply_of(spec: FormatSpec, calls: Sequence[Call], *, text: str = "", reasoning: str = "") -> WrittenReply:
    """Reasoning, text and calls behind one another, each of which may be missing."""
    form = spec.calls
    assert form is not None
    raw = thought(spec, reasoning) if spec.reasoning and (reasoning or spec.reasoning.opened) else ""
    raw += (spec.answers[0] if spec.answers else "") + text if text else ""
    listed = bool(form.section_start and not form.start) or (form.shape == "pythonic" and not form.start)
    raw += form.section_start if calls else ""
    raw += "[" if calls and listed and not form.section_start.endswith("[") else ""
    complete: list[int] = []
    for place, call in enumerate(calls):
        piece = piece_of(spec, call)
        raw += (", " if listed else form.separator) if place else ""
        complete.append(len(raw) + piece.complete)
        raw += piece.text
    raw += ("]" if calls and listed else "") + (form.section_end if calls else "")
    if raw.startswith(spec.prompted):
        cut = len(spec.prompted)
        raw, complete = raw[cut:], [place - cut for place in complete]
    return WrittenReply(raw, tuple(calls), tuple(complete))
