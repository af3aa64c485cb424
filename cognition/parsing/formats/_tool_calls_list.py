"""A JSON list of calls in tags: Apriel, Nemotron Nano v2 (with other tags).

Apriel 1.6 ends its reasoning with ``[BEGIN FINAL RESPONSE]``; the generation prompt begins it.

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

APRIEL_1_6 = evolve(
    TOOL_CALLS_LIST,
    name="apriel_1_6",
    reasoning=ReasoningMarkers("Here are my reasoning steps:\n", "[BEGIN FINAL RESPONSE]", opened=True),
)
