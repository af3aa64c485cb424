"""Phi-4-mini: a JSON list of calls in tokens.

::

    <|tool_call|>[{"name": "multiply", "arguments": {"a": 17, "b": 23}}]<|/tool_call|><|end|>
"""

from __future__ import annotations

from cognition.parsing.spec import CallFormat, FormatSpec, ReasoningMarkers

PHI4_MINI = FormatSpec(
    "phi4_mini",
    reasoning=ReasoningMarkers("<think>", "</think>"),
    calls=CallFormat("json_object", section_start="<|tool_call|>", section_end="<|/tool_call|>", separator=", "),
    stops=("<|end|>",),
)
