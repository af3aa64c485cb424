"""A JSON list of calls in tags: Apriel, Nemotron Nano v2 (with other tags).

::

    <tool_calls>[{"name": "multiply", "arguments": {"a": 17, "b": 23}}, {"name": "now", "arguments": {}}]</tool_calls>
"""

from __future__ import annotations

from attrs import evolve

from cognition.parsing.spec import CallFormat, FormatSpec, ReasoningMarkers

TOOL_CALLS_LIST = FormatSpec(
    "tool_calls_list",
    reasoning=ReasoningMarkers("<think>", "</think>"),
    calls=CallFormat("json_object", section_start="<tool_calls>", section_end="</tool_calls>", separator=", "),
    stops=("<|end|>",),
)

NEMOTRON_NANO = evolve(
    TOOL_CALLS_LIST,
    name="nemotron_nano",
    calls=CallFormat("json_object", section_start="<TOOLCALL>", section_end="</TOOLCALL>", separator=", "),
    stops=(),
)
