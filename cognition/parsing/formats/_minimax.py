"""MiniMax M1, M2 and M3.

M1, a JSON object in each line::

    <tool_calls>
    {"name": "multiply", "arguments": {"a": 17, "b": 23}}
    {"name": "current_time", "arguments": {}}
    </tool_calls>

M2, names as attributes::

    <minimax:tool_call>
    <invoke name="multiply">
    <parameter name="a">17</parameter>
    <parameter name="b">23</parameter>
    </invoke>
    </minimax:tool_call>[e~[

M3, a special token before every tag, and objects and lists as nested tags (shown here with line breaks)::

    ]<]minimax[>[<tool_call>
    ]<]minimax[>[<invoke name="multiply">]<]minimax[>[<a>17]<]minimax[>[</a>
    ]<]minimax[>[<more>]<]minimax[>[<item>23]<]minimax[>[</item>]<]minimax[>[</more>]<]minimax[>[</invoke>
    ]<]minimax[>[</tool_call>[e~[
"""

from __future__ import annotations

from cognition.parsing.spec import CallFormat, FormatSpec, ParameterMarkers, ReasoningMarkers

MINIMAX_M1 = FormatSpec(
    "minimax_m1",
    reasoning=ReasoningMarkers("<think>", "</think>"),
    calls=CallFormat("json_object", section_start="<tool_calls>", section_end="</tool_calls>", separator="\n"),
    stops=("<end_of_sentence>",),
)

MINIMAX_M2 = FormatSpec(
    "minimax_m2",
    reasoning=ReasoningMarkers("<think>", "</think>"),
    calls=CallFormat(
        "tagged_parameters",
        start='<invoke name="',
        end="</invoke>",
        section_start="<minimax:tool_call>",
        section_end="</minimax:tool_call>",
        separator="\n",
        name_end='">',
        parameters=ParameterMarkers('<parameter name="', '">', "", "</parameter>"),
    ),
    stops=("[e~[",),
)

MINIMAX_M3 = FormatSpec(
    "minimax_m3",
    reasoning=ReasoningMarkers("<mm:think>", "</mm:think>"),
    calls=CallFormat(
        "nested_tags",
        start=']<]minimax[>[<invoke name="',
        end="]<]minimax[>[</invoke>",
        section_start="]<]minimax[>[<tool_call>",
        section_end="]<]minimax[>[</tool_call>",
        separator="\n",
        name_end='">',
        parameters=ParameterMarkers("]<]minimax[>[<", ">", "", "]<]minimax[>[</"),
    ),
    stops=("[e~[",),
)
