"""Hermes: one JSON object in tags for each call. Qwen2.5, Qwen3, Hermes 2 and 3, Granite 4, SmolLM3, ours.

::

    <think>
    The user wants a product.
    </think>

    Let me multiply.
    <tool_call>
    {"name": "multiply", "arguments": {"a": 17, "b": 23}}
    </tool_call>
    <tool_call>
    {"name": "current_time", "arguments": {}}
    </tool_call><|im_end|>

Models that do not think leave the first block out, or write an empty one.
"""

from __future__ import annotations

from attrs import evolve

from cognition.parsing.spec import CallFormat, FormatSpec, ReasoningMarkers

HERMES = FormatSpec(
    "hermes",
    reasoning=ReasoningMarkers("<think>", "</think>"),
    calls=CallFormat("json_object", start="<tool_call>", end="</tool_call>", separator="\n"),
    stops=("<|im_end|>",),
)

HERMES_THINKING = evolve(HERMES, name="hermes_thinking", reasoning=ReasoningMarkers("<think>", "</think>", opened=True))
"""For templates whose generation prompt ends with ``<think>``."""
