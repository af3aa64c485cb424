"""Formats whose values are not JSON: calls as in Python, and objects with bare keys."""

from __future__ import annotations

from cognition.parsing.spec import CallFormat, FormatSpec, ReasoningMarkers

GEMMA4 = FormatSpec(
    "gemma4",
    reasoning=ReasoningMarkers("<|channel>thought", "<channel|>"),
    calls=CallFormat(
        "named_object",
        start="<|tool_call>",
        end="<tool_call|>",
        name_start="call:",
        quotes=('<|"|>',),
    ),
    dropped=("<|channel>",),
    stops=("<turn|>", "<|tool_response>"),
)
"""Gemma 4 and FunctionGemma: an object with bare keys, and strings between tokens.

Gemma 4::

    <|channel>thought
    The user wants a product.<channel|><|tool_call>call:multiply{a:17,unit:<|"|>cm<|"|>}<tool_call|><turn|>

FunctionGemma::

    <start_function_call>call:multiply{a:17,unit:<escape>cm<escape>}<end_function_call>

Gemma 2 and 3 have no call format.
"""

FUNCTIONGEMMA = FormatSpec(
    "functiongemma",
    calls=CallFormat(
        "named_object",
        start="<start_function_call>",
        end="<end_function_call>",
        name_start="call:",
        quotes=("<escape>",),
    ),
    stops=("<end_of_turn>", "<start_function_response>"),
)

LFM2 = FormatSpec(
    "lfm2",
    reasoning=ReasoningMarkers("<think>", "</think>"),
    calls=CallFormat("pythonic", start="<|tool_call_start|>", end="<|tool_call_end|>"),
    stops=("<|im_end|>",),
)
"""LFM2 and LFM2.5: calls as in Python, in a list.

::

    <|tool_call_start|>[multiply(a=17, b=23), current_time(zone='UTC')]<|tool_call_end|><|im_end|>
"""

LLAMA4 = FormatSpec(
    "llama4",
    calls=CallFormat("pythonic"),
    dropped=("<|python_start|>", "<|python_end|>"),
    stops=("<|eot|>", "<|eom|>", "<|eot_id|>", "<|eom_id|>"),
)
"""Llama 4, and small Llama 3.2 models if prompted for it: the whole reply is one list of pythonic calls.

::

    [multiply(a=17, b=23), current_time(zone="UTC")]<|eot|>

No marker announces it, so the parser holds back a reply that begins with ``[`` until it sees whether a name and an
opening parenthesis follow. Llama 4 also writes ``<|python_start|>`` and ``<|python_end|>`` around the list.

Source: https://github.com/meta-llama/llama-models/blob/main/models/llama4/prompt_format.md
"""

OLMO3 = FormatSpec(
    "olmo3",
    reasoning=ReasoningMarkers("<think>", "</think>"),
    calls=CallFormat("pythonic", start="<function_calls>", end="</function_calls>", separator="\n"),
    stops=("<|im_end|>",),
)
"""Olmo 3: calls as in Python, one per line, without a list around them.

::

    <function_calls>
    multiply(a=17, b=23)
    current_time(zone='UTC')
    </function_calls><|im_end|>

The thinking editions begin their reasoning in the prompt.
"""
