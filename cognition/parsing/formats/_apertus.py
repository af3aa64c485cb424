"""Apertus: a JSON list in tokens, each call an object with one key, the tool's name.

::

    <|tools_prefix|>[{"multiply": {"a": 17, "b": 23}}, {"current_time": {}}]<|tools_suffix|><|assistant_end|>
"""

from __future__ import annotations

from cognition.parsing.spec import CallFormat, FormatSpec, ReasoningMarkers

APERTUS = FormatSpec(
    "apertus",
    reasoning=ReasoningMarkers("<|inner_prefix|>", "<|inner_suffix|>"),
    calls=CallFormat("name_as_key", section_start="<|tools_prefix|>", section_end="<|tools_suffix|>", separator=", "),
    stops=("<|assistant_end|>",),
)
