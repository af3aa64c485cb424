"""Hunyuan 3: as GLM, with a token behind the name and tags around all calls. Its tags carry the edition's name.

::

    <tool_calls:opensource>
    <tool_call:opensource>multiply<tool_sep:opensource>
    <arg_key:opensource>a</arg_key:opensource>
    <arg_value:opensource>17</arg_value:opensource>
    </tool_call:opensource>
    </tool_calls:opensource>
"""

from __future__ import annotations

from cognition.parsing.spec import CallFormat, FormatSpec, ParameterMarkers, ReasoningMarkers

HUNYUAN3 = FormatSpec(
    "hunyuan3",
    reasoning=ReasoningMarkers("<think:opensource>", "</think:opensource>"),
    calls=CallFormat(
        "tagged_parameters",
        start="<tool_call:opensource>",
        end="</tool_call:opensource>",
        section_start="<tool_calls:opensource>",
        section_end="</tool_calls:opensource>",
        separator="\n",
        name_end="<tool_sep:opensource>",
        parameters=ParameterMarkers(
            "<arg_key:opensource>", "</arg_key:opensource>", "<arg_value:opensource>", "</arg_value:opensource>"
        ),
    ),
    stops=("<｜hy_eos:opensource｜>",),
)
