"""DeepSeek R1, V3, V3.1, V3.2 and V4.

R1 and V3, the arguments in a block of code::

    <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>multiply
    ```json
    {"a": 17, "b": 23}
    ```<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>

V3.1::

    <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>multiply<｜tool▁sep｜>{"a": 17}<｜tool▁call▁end｜><｜tool▁calls▁end｜>

V3.2, whose parameters declare whether they are text. V4 writes the same, with ``tool_calls`` for ``function_calls``::

    <｜DSML｜function_calls>
    <｜DSML｜invoke name="multiply">
    <｜DSML｜parameter name="a" string="false">17</｜DSML｜parameter>
    <｜DSML｜parameter name="unit" string="true">cm</｜DSML｜parameter>
    </｜DSML｜invoke>
    </｜DSML｜function_calls><｜end▁of▁sentence｜>
"""

from __future__ import annotations

from attrs import evolve

from cognition.parsing.spec import CallFormat, FormatSpec, ParameterMarkers, ReasoningMarkers

REASONING = ReasoningMarkers("<think>", "</think>")
STOPS = ("<｜end▁of▁sentence｜>",)

V3_1_CALLS = CallFormat(
    "named_json",
    start="<｜tool▁call▁begin｜>",
    end="<｜tool▁call▁end｜>",
    section_start="<｜tool▁calls▁begin｜>",
    section_end="<｜tool▁calls▁end｜>",
    separator="\n",
    name_end="<｜tool▁sep｜>",
)

DSML_CALLS = CallFormat(
    "tagged_parameters",
    start='<｜DSML｜invoke name="',
    end="</｜DSML｜invoke>",
    section_start="<｜DSML｜function_calls>",
    section_end="</｜DSML｜function_calls>",
    separator="\n",
    name_end='">',
    parameters=ParameterMarkers('<｜DSML｜parameter name="', '"', ">", "</｜DSML｜parameter>", 'string="true"'),
)

DEEPSEEK_R1 = FormatSpec(
    "deepseek_r1",
    reasoning=REASONING,
    calls=evolve(V3_1_CALLS, name_start="function<｜tool▁sep｜>", name_end="\n```json\n", body_end="\n```"),
    stops=STOPS,
)
DEEPSEEK_V3_1 = FormatSpec("deepseek_v3_1", reasoning=REASONING, calls=V3_1_CALLS, stops=STOPS)
DEEPSEEK_V3_2 = FormatSpec("deepseek_v3_2", reasoning=REASONING, calls=DSML_CALLS, stops=STOPS)
DEEPSEEK_V4 = FormatSpec(
    "deepseek_v4",
    reasoning=REASONING,
    calls=evolve(DSML_CALLS, section_start="<｜DSML｜tool_calls>", section_end="</｜DSML｜tool_calls>"),
    stops=STOPS,
)
