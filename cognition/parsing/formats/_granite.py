"""Granite 3: a JSON list of calls behind a token. Granite 4 writes Hermes.

::

    <|tool_call|>[{"name": "multiply", "arguments": {"a": 17, "b": 23}}]<|end_of_text|>
"""

from __future__ import annotations

from cognition.parsing.spec import CallFormat, FormatSpec, ReasoningMarkers

GRANITE = FormatSpec(
    "granite",
    reasoning=ReasoningMarkers("<think>", "</think>"),
    calls=CallFormat("json_object", section_start="<|tool_call|>", separator=", "),
    dropped=("<response>", "</response>"),
    stops=("<|end_of_text|>",),
)
