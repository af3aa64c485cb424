"""GLM 4.5 to 4.7, Ling 3, Laguna: the name, then keys and values, each in its own tag.

::

    <tool_call>multiply
    <arg_key>a</arg_key>
    <arg_value>17</arg_value>
    <arg_key>b</arg_key>
    <arg_value>23</arg_value>
    </tool_call>

GLM 4.7 writes the same without line breaks.
"""

from __future__ import annotations

from cognition.parsing.spec import CallFormat, FormatSpec, ParameterMarkers, ReasoningMarkers

GLM = FormatSpec(
    "glm",
    reasoning=ReasoningMarkers("<think>", "</think>"),
    calls=CallFormat(
        "tagged_parameters",
        start="<tool_call>",
        end="</tool_call>",
        separator="\n",
        parameters=ParameterMarkers("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
    ),
    stops=("<|user|>", "<|observation|>", "<|endoftext|>"),
)
