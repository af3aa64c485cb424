"""Replies as models write them, for the parser's tests: what was said, and the text in which a format says it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from attrs import frozen
from hypothesis import strategies as st

from cognition.outcomes import FinishReason
from cognition.parsing import (
    ArgumentsDelta,
    FormatSpec,
    Output,
    ReasoningDelta,
    TextDelta,
    advance,
    finish,
    start,
)
from cognition.parsing.formats import (
    BARE_JSON,
    GLM,
    HERMES,
    LLAMA3,
    MISTRAL,
    MISTRAL_LIST,
    QWEN3_CODER,
    TOOL_CALLS_LIST,
)


@frozen
class Call:
    name: str
    arguments: dict[str, Any]


def dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def read(spec: FormatSpec, chunks: Iterable[str], reason: FinishReason = "stop") -> list[Output]:
    """The outputs for a reply that comes in these chunks, adjacent deltas joined."""
    state = start(spec)
    outputs: list[Output] = []
    for chunk in chunks:
        state, more = advance(spec, state, chunk)
        outputs += more
    _, more = finish(spec, state, reason)
    return merged([*outputs, *more])


def merged(outputs: Iterable[Output]) -> list[Output]:
    result: list[Output] = []
    for output in outputs:
        last = result[-1] if result else None
        if isinstance(output, TextDelta) and isinstance(last, TextDelta):
            result[-1] = TextDelta(last.text + output.text)
        elif isinstance(output, ReasoningDelta) and isinstance(last, ReasoningDelta):
            result[-1] = ReasoningDelta(last.text + output.text)
        elif isinstance(output, ArgumentsDelta) and isinstance(last, ArgumentsDelta) and last.index == output.index:
            result[-1] = ArgumentsDelta(last.index, last.text + output.text)
        else:
            result.append(output)
    return result


def pieces(text: str, cuts: Iterable[int]) -> list[str]:
    places = sorted({cut % (len(text) + 1) for cut in cuts})
    return [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]


def markers_of(spec: FormatSpec) -> list[str]:
    """Every text that must never be shown."""
    found = [*spec.stops, *spec.dropped]
    if spec.reasoning:
        found += [spec.reasoning.start, spec.reasoning.end]
    if spec.calls:
        found += [spec.calls.start, spec.calls.end, spec.calls.section_start, spec.calls.section_end]
    return [marker for marker in found if marker]


def inner_markers_of(spec: FormatSpec) -> list[str]:
    if spec.calls is None:
        return []
    found = [spec.calls.name_start, spec.calls.name_end, spec.calls.id_start, spec.calls.body_end]
    if spec.calls.parameters:
        around = spec.calls.parameters
        found += [around.key_start, around.key_end, around.value_start, around.value_end]
    return [marker for marker in found if marker]


# ------------------------------------------------------------------------------------------------------- writers

Writer = Callable[[Sequence[Call]], list[tuple[str, bool]]]
"""Writes calls as pieces of text; True with each piece that ends by announcing a call."""


def in_tags(calls: Sequence[Call]) -> list[tuple[str, bool]]:
    written: list[tuple[str, bool]] = []
    for call in calls:
        body = f'{{"name": {dumped(call.name)}, "arguments": {dumped(call.arguments)}}}'
        written += [("\n<tool_call>" if written else "<tool_call>", True), (f"\n{body}\n</tool_call>", False)]
    return written


def in_list(before: str, after: str) -> Writer:
    def write(calls: Sequence[Call]) -> list[tuple[str, bool]]:
        written = [(before + "[", False)]
        for place, call in enumerate(calls):
            body = f'"name": {dumped(call.name)}, "arguments": {dumped(call.arguments)}, "id": "call0000{place}"}}'
            written += [(", {" if place else "{", True), (body, False)]
        return [*written, ("]" + after, False)]

    return write


def named(calls: Sequence[Call]) -> list[tuple[str, bool]]:
    return [
        piece
        for call in calls
        for piece in (
            ("[TOOL_CALLS]", True),
            (f"{call.name}[CALL_ID]call00001[ARGS]{dumped(call.arguments)}", False),
        )
    ]


def tagged(calls: Sequence[Call]) -> list[tuple[str, bool]]:
    written: list[tuple[str, bool]] = []
    for call in calls:
        parameters = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in call.arguments.items())
        written += [
            ("<tool_call>", True),
            (f"\n<function={call.name}>\n{parameters}</function>\n</tool_call>\n", False),
        ]
    return written


def keyed(calls: Sequence[Call]) -> list[tuple[str, bool]]:
    written: list[tuple[str, bool]] = []
    for call in calls:
        parameters = "".join(
            f"<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n" for key, value in call.arguments.items()
        )
        written += [("<tool_call>", True), (f"{call.name}\n{parameters}</tool_call>\n", False)]
    return written


def bare(calls: Sequence[Call]) -> list[tuple[str, bool]]:
    return [
        piece
        for call in calls
        for piece in (
            (f'{{"name": {dumped(call.name)}, "parameters": {{', True),
            (dumped(call.arguments)[1:] + "}", False),
        )
    ]


def bare_arguments(calls: Sequence[Call]) -> list[tuple[str, bool]]:
    return [
        (text.replace('"parameters": {', '"arguments": {') if starts else text, starts) for text, starts in bare(calls)
    ]


WRITERS: dict[str, tuple[FormatSpec, Writer]] = {
    "hermes": (HERMES, in_tags),
    "llama3": (LLAMA3, bare),
    "bare_json": (BARE_JSON, bare_arguments),
    "mistral": (MISTRAL, named),
    "mistral_list": (MISTRAL_LIST, in_list("[TOOL_CALLS]", "")),
    "tool_calls_list": (TOOL_CALLS_LIST, in_list("<tool_calls>", "</tool_calls>")),
    "qwen3_coder": (QWEN3_CODER, tagged),
    "glm": (GLM, keyed),
}

# ---------------------------------------------------------------------------------------------------- strategies

NAMES = st.sampled_from(["multiply", "Read", "current_time", "a", "ns.tool-2", "recall"])

TRICKS = st.sampled_from(
    [
        "</tool_call>", "<tool_call>", "<think>", "</think>", "<|im_end|>", "</tool_calls>", "[TOOL_CALLS]", "[ARGS]",
        '"', "'", "\\", "\\\"", "{", "}", "[", "]", ",", ":", "\n", "\t", "<", "</", "😀", "é", "日本", "\x00",
        "\u2028", '{"name": "a", "arguments": {}}', "</arg_value", "</parameter", "null", "it's", "   ",
    ]
)  # fmt: skip
STRINGS = st.lists(st.one_of(TRICKS, st.text(st.characters(codec="utf-8"), max_size=4)), max_size=5).map("".join)

VALUES = st.recursive(
    st.one_of(STRINGS, st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(STRINGS, inner, max_size=3)),
    max_leaves=6,
)


def calls_for(spec: FormatSpec) -> st.SearchStrategy[Call]:
    """Calls that the format can carry: any JSON, or, between tags, texts that don't hold the tag."""
    if spec.calls is None or spec.calls.parameters is None:
        return st.builds(Call, NAMES, st.dictionaries(STRINGS, VALUES, max_size=3))
    end = spec.calls.parameters.value_end
    # A value can't begin or end with a line break, which is the template's, nor come to hold the tag that ends it.
    values = STRINGS.filter(lambda text: end not in f"{text}\n{end}"[: -len(end)] and text.strip("\n") == text)
    return st.builds(Call, NAMES, st.dictionaries(st.sampled_from(["q", "path", "x_1"]), values, max_size=3))


def prose(spec: FormatSpec) -> st.SearchStrategy[str]:
    """Text in which no marker stands, nor begins at its end; no white space at its ends, no brace at its start."""
    markers = [*markers_of(spec), *(["{"] if spec.calls and not spec.calls.start else [])]
    starts = {marker[:size] for marker in markers for size in range(1, len(marker))}
    return STRINGS.map(str.strip).filter(
        lambda text: (
            not any(marker in text for marker in markers) and not any(text.endswith(beginning) for beginning in starts)
        )
    )


@frozen
class Written:
    """A reply as it was meant, and its text."""

    spec: FormatSpec
    raw: str
    reasoning: str
    text: str
    calls: tuple[Call, ...]
    announced: tuple[int, ...]
    """For each call the place in ``raw`` from which on it is known to be one."""
    complete: tuple[int, ...]
    """For each call the place in ``raw`` at which its piece ends."""


@st.composite
def replies(draw: st.DrawFn, names: Sequence[str] = tuple(WRITERS)) -> Written:
    """Reasoning, text and calls, each of which may be missing, as the format's template writes them."""
    spec, write = WRITERS[draw(st.sampled_from(names))]
    reasoning = draw(prose(spec)) if spec.reasoning and draw(st.booleans()) else ""
    calls = draw(st.lists(calls_for(spec), max_size=3))
    # A bare call is one only as long as no text has come.
    mixes = spec.calls is not None and (bool(spec.calls.start or spec.calls.section_start) or spec.calls.anywhere)
    text = draw(prose(spec)) if mixes or not calls else ""
    raw = ""
    if spec.reasoning and (reasoning or draw(st.booleans())):
        raw = f"{spec.reasoning.start}\n{reasoning}\n{spec.reasoning.end}\n\n"
    raw += text + ("\n" if text and calls else "")
    announced: list[int] = []
    complete: list[int] = []
    for piece, starts in write(calls) if calls else []:
        raw += piece
        if starts:
            announced.append(len(raw))
        elif len(complete) < len(announced):
            complete.append(len(raw))
    return Written(spec, raw, reasoning, text, tuple(calls), tuple(announced), tuple(complete))


@st.composite
def hostile_replies(draw: st.DrawFn) -> tuple[FormatSpec, str]:
    """Markers, their pieces and bits of JSON in any order: what a model does at its worst."""
    spec, _ = WRITERS[draw(st.sampled_from(list(WRITERS)))]
    markers = [*markers_of(spec), *inner_markers_of(spec)]
    bits = [
        *markers, *(marker[:-1] for marker in markers), "{", "}", "[", "]", '"', "'", "\\", ":", ",", " ", "\n", "a",
        "é", '"name"', '"arguments"', '"parameters"', '{"name": "a", "arguments": {"x": 1}}', '{"x": "<tool_call>"}',
        "True", "1", '{"name": "b", "parameters": {"y": "z"}}', "\ud800",
    ]  # fmt: skip
    return spec, "".join(draw(st.lists(st.sampled_from(bits), max_size=30)))
