"""Replies as models write them, for the parser's tests: what was said, and the text in which a format says it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from attrs import frozen
from hypothesis import strategies as st

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
    APERTUS,
    BARE_JSON,
    COMMAND_R7B,
    DEEPSEEK_R1,
    DEEPSEEK_V3_2,
    FIREFUNCTION,
    GEMMA4,
    GLM,
    GPT_OSS,
    HERMES,
    KIMI_K2,
    KIMI_K3,
    LFM2,
    LLAMA3,
    LLAMA4,
    MINIMAX_M2,
    MINIMAX_M3,
    MISTRAL,
    MISTRAL_LIST,
    OLMO3,
    QWEN3_CODER,
    TOOL_CALLS_LIST,
)
from cognition.values.outcomes import FinishReason


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
    if spec.headers:
        found += [*spec.headers.starts, spec.headers.end, *spec.headers.tokens]
    return [marker for marker in found if marker]


def shown_markers(spec: FormatSpec, output: TextDelta | ReasoningDelta) -> list[str]:
    """The markers that an output holds and must not hold.

    Where no call is open, what ends one is text; and in reasoning, all that belongs to calls is.
    """
    text, calls = output.text, spec.calls
    ends = [calls.end, calls.section_end] if calls else []
    hidden = set(markers_of(spec)) - set(ends)
    if calls and isinstance(output, ReasoningDelta):
        starts = sorted({calls.start, calls.section_start, *calls.more_starts} - {""}, key=len, reverse=True)
        hidden -= set(starts)
        for start in starts:  # a shorter marker may be a part of it
            text = text.replace(start, "")
    return [marker for marker in sorted(hidden) if marker in text]


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


def in_section(
    spec: FormatSpec, before: str, after: str, *, section: tuple[str, str] = ("", ""), between: str = ""
) -> Writer:
    """Calls of a name and JSON. In ``before`` stands N for the name and I for the place."""
    assert spec.calls is not None
    start = spec.calls.start

    def write(calls: Sequence[Call]) -> list[tuple[str, bool]]:
        written = [(section[0], False)] if section[0] else []
        for place, call in enumerate(calls):
            head = before.replace("I", str(place)).replace("N", call.name)
            written += [((between if place else "") + start, True), (head + dumped(call.arguments) + after, False)]
        return [*written, (section[1], False)] if section[1] else written

    return write


def key_named(calls: Sequence[Call]) -> list[tuple[str, bool]]:
    written = [("<|tools_prefix|>[", False)]
    for place, call in enumerate(calls):
        body = f"{dumped(call.name)}: {dumped(call.arguments)}}}"
        written += [(", {" if place else "{", True), (body, False)]
    return [*written, ("]<|tools_suffix|>", False)]


def actions(calls: Sequence[Call]) -> list[tuple[str, bool]]:
    written = [("<|START_ACTION|>[\n", False)]
    for place, call in enumerate(calls):
        body = f'"tool_call_id": "{place}", "tool_name": {dumped(call.name)}, "parameters": {dumped(call.arguments)}}}'
        written += [(",\n    {" if place else "    {", True), (body, False)]
    return [*written, ("\n]<|END_ACTION|>", False)]


def attributed(spec: FormatSpec, before_value: str, *, head: str) -> Writer:
    """Calls whose names and keys are attributes. In ``head`` and ``before_value`` stands N for the name or key."""
    assert spec.calls is not None
    assert spec.calls.parameters is not None
    calls_format, around = spec.calls, spec.calls.parameters

    def write(calls: Sequence[Call]) -> list[tuple[str, bool]]:
        written = [(calls_format.section_start, False)]
        for call in calls:
            parameters = "".join(
                f"{around.key_start}{before_value.replace('N', key)}{value}{around.value_end}\n"
                for key, value in call.arguments.items()
            )
            body = head.replace("N", call.name) + parameters + calls_format.end
            written += [("\n" + calls_format.start, True), (body, False)]
        return [*written, (calls_format.section_end, False)]

    return write


def python_text(value: Any) -> str:
    """A value as Python writes it; half a surrogate pair and its like come as escapes."""
    if isinstance(value, str):
        return repr(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(python_text, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {python_text(item)}" for key, item in value.items()) + "}"
    return repr(value)


def pythonic(calls: Sequence[Call]) -> list[tuple[str, bool]]:
    """All calls stand between one pair of markers: the second is known to be one when its name begins."""
    written = [("<|tool_call_start|>", True)]
    for place, call in enumerate(calls):
        name = call.name.replace("-", "_")
        body = ", ".join(f"{key}={python_text(value)}" for key, value in call.arguments.items())
        if place:
            written += [(f", {name[0]}", True), (f"{name[1:]}({body})", False)]
        else:
            written += [(f"[{name}({body})", False)]
    return [*written, ("]<|tool_call_end|>", False)]


def pythonic_lines(calls: Sequence[Call]) -> list[tuple[str, bool]]:
    """The same without the list, one call a line."""
    written = [("<function_calls>", True)]
    for place, call in enumerate(calls):
        name = call.name.replace("-", "_")
        body = ", ".join(f"{key}={python_text(value)}" for key, value in call.arguments.items())
        if place:
            written += [(f"\n{name[0]}", True), (f"{name[1:]}({body})", False)]
        else:
            written += [(f"\n{name}({body})", False)]
    return [*written, ("\n</function_calls>", False)]


def bare_pythonic(calls: Sequence[Call]) -> list[tuple[str, bool]]:
    """The list itself, known to be one of calls when the first parenthesis opens."""
    written: list[tuple[str, bool]] = []
    for place, call in enumerate(calls):
        name = call.name.replace("-", "_")
        body = ", ".join(f"{key}={python_text(value)}" for key, value in call.arguments.items())
        start = f", {name[0]}" if place else f"[{name}("
        written += [(start, True), ((f"{name[1:]}(" if place else "") + f"{body})", False)]
    return [*written, ("]", False)]


def in_elements(calls: Sequence[Call]) -> list[tuple[str, bool]]:
    mark = "]<]minimax[>["
    written = [(f"{mark}<tool_call>\n", False)]
    for call in calls:
        values = "".join(f"{mark}<{key}>{value}{mark}</{key}>" for key, value in call.arguments.items())
        written += [(f'{mark}<invoke name="', True), (f'{call.name}">{values}{mark}</invoke>\n', False)]
    return [*written, (f"{mark}</tool_call>", False)]


def bare_keys(value: Any) -> str:
    if isinstance(value, str):
        return f'<|"|>{value}<|"|>'
    if isinstance(value, list):
        return "[" + ",".join(map(bare_keys, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{bare_keys(item)}" for key, item in value.items()) + "}"
    return dumped(value)


def gemma(calls: Sequence[Call]) -> list[tuple[str, bool]]:
    return [
        piece
        for call in calls
        for piece in (
            ("<|tool_call>", True),
            (f"call:{call.name}{bare_keys(call.arguments)}<tool_call|>", False),
        )
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
    "apertus": (APERTUS, key_named),
    "command_r7b": (COMMAND_R7B, actions),
    "kimi_k2": (
        KIMI_K2,
        in_section(
            KIMI_K2,
            "functions.N:I<|tool_call_argument_begin|>",
            "<|tool_call_end|>",
            section=("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
        ),
    ),
    "deepseek_r1": (
        DEEPSEEK_R1,
        in_section(
            DEEPSEEK_R1,
            "function<｜tool▁sep｜>N\n```json\n",
            "\n```<｜tool▁call▁end｜>",
            section=("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
            between="\n",
        ),
    ),
    "gpt_oss": (GPT_OSS, in_section(GPT_OSS, "functions.N<|channel|>commentary json<|message|>", "<|call|>")),
    "minimax_m2": (MINIMAX_M2, attributed(MINIMAX_M2, 'N">', head='N">\n')),
    "deepseek_v3_2": (DEEPSEEK_V3_2, attributed(DEEPSEEK_V3_2, 'N" string="true">', head='N">\n')),
    "kimi_k3": (KIMI_K3, attributed(KIMI_K3, 'N" type="string"<|sep|>', head='N" index="1"<|sep|>')),
    "minimax_m3": (MINIMAX_M3, in_elements),
    "firefunction": (FIREFUNCTION, in_list(" functools", "")),
    "lfm2": (LFM2, pythonic),
    "olmo3": (OLMO3, pythonic_lines),
    "llama4": (LLAMA4, bare_pythonic),
    "gemma4": (GEMMA4, gemma),
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


WORDS = st.sampled_from(["q", "path", "x_1", "limit"])


def values_of(strings: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    """Values whose keys are words."""
    return st.recursive(
        st.one_of(strings, st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.none()),
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=3)),
        max_leaves=6,
    )


def calls_for(spec: FormatSpec) -> st.SearchStrategy[Call]:
    """Calls that the format can carry: any JSON, or, between tags, texts that don't hold the tag."""
    if spec.calls is not None and spec.calls.shape in ("pythonic", "named_object"):
        names = NAMES.map(lambda name: name.replace("-", "_"))
        quotes = spec.calls.quotes if spec.calls.shape == "named_object" else ()
        strings = STRINGS.filter(lambda text: not any(quote in text + quote[:-1] + " " for quote in quotes))
        strings = strings.filter(lambda text: not any(f"{text}{quote}".index(quote) < len(text) for quote in quotes))
        return st.builds(Call, names, st.dictionaries(WORDS, values_of(strings), max_size=3))
    if spec.calls is None or spec.calls.parameters is None:
        return st.builds(Call, NAMES, st.dictionaries(STRINGS, VALUES, max_size=3))
    end = spec.calls.parameters.value_end
    # A value can't begin or end with a line break, which is the template's, nor come to hold the tag that ends it.
    values = STRINGS.filter(lambda text: end not in f"{text}\n{end}"[: -len(end)] and text.strip("\n") == text)
    return st.builds(Call, NAMES, st.dictionaries(st.sampled_from(["q", "path", "x_1"]), values, max_size=3))


def prose(spec: FormatSpec) -> st.SearchStrategy[str]:
    """Text in which no marker stands, nor begins at its end; no white space at its ends, no brace at its start."""
    bare = spec.calls is not None and not spec.calls.start
    markers = [*markers_of(spec), *(["{", "["] if bare else [])]
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
        "True", "1", '{"name": "a", "arguments": 5', '{"name": "b", "parameters": {"y": "z"}}', "\ud800",
    ]  # fmt: skip
    return spec, "".join(draw(st.lists(st.sampled_from(bits), max_size=30)))
