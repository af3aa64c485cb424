"""MiniCPM 5: names as attributes, no tags around all calls.

::

    <function name="multiply"><param name="a">17</param><param name="b">23</param></function><|im_end|>

A string that contains XML characters is written between ``<![CDATA[`` and ``]]>``.
"""

from __future__ import annotations

from cognition.parsing.spec import CallFormat, FormatSpec, ParameterMarkers, ReasoningMarkers

MINICPM5 = FormatSpec(
    "minicpm5",
    reasoning=ReasoningMarkers("<think>", "</think>"),
    calls=CallFormat(
        "tagged_parameters",
        start='<function name="',
        end="</function>",
        separator="\n",
        name_end='">',
        parameters=ParameterMarkers('<param name="', '">', "", "</param>", "", "<![CDATA[", "]]>"),
    ),
    stops=("<|im_end|>",),
)
