"""LFM2 and LFM2.5: calls as in Python, in a list.

::

    <|tool_call_start|>[multiply(a=17, b=23), current_time(zone='UTC')]<|tool_call_end|><|im_end|>
"""

from __future__ import annotations

from cognition.parsing.spec import CallFormat, FormatSpec, ReasoningMarkers

LFM2 = FormatSpec(
    "lfm2",
    reasoning=ReasoningMarkers("<think>", "</think>"),
    calls=CallFormat("pythonic", start="<|tool_call_start|>", end="<|tool_call_end|>"),
    stops=("<|im_end|>",),
)
