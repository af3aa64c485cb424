"""Kimi K2 and K3.

K2 writes ids of the form ``functions.NAME:COUNT``::

    <|tool_calls_section_begin|><|tool_call_begin|>functions.multiply:0<|tool_call_argument_begin|>{"a": 17, "b": 23}
    <|tool_call_end|><|tool_calls_section_end|><|im_end|>

K3 opens and closes everything with tokens, and declares each parameter's type. Shown here with line breaks; in names,
``"`` and ``&`` are written as ``&quot;`` and ``&amp;``::

    <|open|>think<|sep|>The user wants a product.<|close|>think<|sep|>
    <|open|>response<|sep|>Let me multiply.<|close|>response<|sep|>
    <|open|>tools<|sep|><|open|>call tool="multiply" index="1"<|sep|>
    <|open|>argument key="a" type="number"<|sep|>17<|close|>argument<|sep|>
    <|open|>argument key="unit" type="string"<|sep|>cm<|close|>argument<|sep|>
    <|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>
"""

from __future__ import annotations

from cognition.parsing.spec import CallFormat, FormatSpec, ParameterMarkers, ReasoningMarkers

KIMI_K2 = FormatSpec(
    "kimi_k2",
    reasoning=ReasoningMarkers("<think>", "</think>"),
    calls=CallFormat(
        "named_json",
        start="<|tool_call_begin|>",
        end="<|tool_call_end|>",
        section_start="<|tool_calls_section_begin|>",
        section_end="<|tool_calls_section_end|>",
        name_start="functions.",
        name_end="<|tool_call_argument_begin|>",
        id_start=":",
    ),
    stops=("<|im_end|>",),
)

KIMI_K3 = FormatSpec(
    "kimi_k3",
    reasoning=ReasoningMarkers("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
    calls=CallFormat(
        "tagged_parameters",
        start='<|open|>call tool="',
        end="<|close|>call<|sep|>",
        section_start="<|open|>tools<|sep|>",
        section_end="<|close|>tools<|sep|>",
        name_end="<|sep|>",
        id_start='"',
        escaped=True,
        parameters=ParameterMarkers(
            '<|open|>argument key="', '"', "<|sep|>", "<|close|>argument<|sep|>", 'type="string"'
        ),
    ),
    dropped=("<|open|>response<|sep|>", "<|close|>response<|sep|>"),
    answers=("<|open|>response<|sep|>",),
    stops=("<|close|>message<|sep|>", "<|end_of_msg|>"),
)
