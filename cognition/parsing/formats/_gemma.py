"""Gemma 4 and FunctionGemma: an object with bare keys, and strings between tokens.

Gemma 4::

    <|channel>thought
    The user wants a product.<channel|><|tool_call>call:multiply{a:17,unit:<|"|>cm<|"|>}<tool_call|><turn|>

FunctionGemma::

    <start_function_call>call:multiply{a:17,unit:<escape>cm<escape>}<end_function_call>

Gemma 2 and 3 have no call format.
"""

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
