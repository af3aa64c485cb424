"""Seed-OSS: as Qwen3-Coder, with other tags around calls, and values as Python prints them.

::

    <seed:think>The user wants a product.</seed:think>
    <seed:tool_call>
    <function=multiply>
    <parameter=a>17</parameter>
    <parameter=exact>True</parameter>
    </function>
    </seed:tool_call><seed:eos>
"""

from __future__ import annotations

from cognition.parsing.spec import CallFormat, FormatSpec, ParameterMarkers, ReasoningMarkers

SEED_OSS = FormatSpec(
    "seed_oss",
    reasoning=ReasoningMarkers("<seed:think>", "</seed:think>"),
    calls=CallFormat(
        "tagged_parameters",
        start="<seed:tool_call>",
        end="</seed:tool_call>",
        separator="\n",
        name_start="<function=",
        name_end=">",
        body_end="</function>",
        parameters=ParameterMarkers("<parameter=", ">", "", "</parameter>"),
    ),
    stops=("<seed:eos>",),
)
