"""Olmo 3: calls as in Python, one per line, without a list around them.

::

    <function_calls>
    multiply(a=17, b=23)
    current_time(zone='UTC')
    </function_calls><|im_end|>

The thinking editions begin their reasoning in the prompt.
"""

from __future__ import annotations

from cognition.parsing.spec import CallFormat, FormatSpec, ReasoningMarkers

OLMO3 = FormatSpec(
    "olmo3",
    reasoning=ReasoningMarkers("<think>", "</think>"),
    calls=CallFormat("pythonic", start="<function_calls>", end="</function_calls>", separator="\n"),
    stops=("<|im_end|>",),
)
