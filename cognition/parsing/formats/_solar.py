"""Solar Open: parts of a reply with a token for each kind; calls with ids that the model generates.

::

    <|think|>The user wants a product.<|end|>
    <|begin|>assistant<|tool_calls|><|tool_call:begin|>a1b2c3<|tool_call:name|>multiply<|tool_call:args|>{"a": 17}
    <|tool_call:end|><|calls|>

    <|begin|>assistant<|content|>It is 391.<|end|>

Shown here with line breaks; the model writes none. The generation prompt is ``<|begin|>assistant``.
"""

from __future__ import annotations

from cognition.parsing.spec import CallFormat, FormatSpec, ReasoningMarkers

SOLAR_OPEN = FormatSpec(
    "solar_open",
    reasoning=ReasoningMarkers("<|think|>", "<|end|>"),
    calls=CallFormat(
        "named_json",
        start="<|tool_call:begin|>",
        end="<|tool_call:end|>",
        section_start="<|tool_calls|>",
        section_end="<|calls|>",
        name_start="<|tool_call:name|>",
        name_end="<|tool_call:args|>",
    ),
    dropped=("<|begin|>assistant", "<|content|>"),
)
