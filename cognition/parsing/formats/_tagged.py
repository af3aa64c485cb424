"""Formats with tagged parameters, and the other formats of the same families."""

from __future__ import annotations

from attrs import evolve

from cognition.parsing.spec import CallFormat, FormatSpec, ParameterMarkers, ReasoningMarkers

THINK = ReasoningMarkers("<think>", "</think>")
DEEPSEEK_STOPS = ("<｜end▁of▁sentence｜>",)

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
    reasoning=THINK,
    calls=evolve(V3_1_CALLS, name_start="function<｜tool▁sep｜>", name_end="\n```json\n", body_end="\n```"),
    stops=DEEPSEEK_STOPS,
)
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
DEEPSEEK_V3_1 = FormatSpec("deepseek_v3_1", reasoning=THINK, calls=V3_1_CALLS, stops=DEEPSEEK_STOPS)
DEEPSEEK_V3_2 = FormatSpec("deepseek_v3_2", reasoning=THINK, calls=DSML_CALLS, stops=DEEPSEEK_STOPS)
DEEPSEEK_V4 = FormatSpec(
    "deepseek_v4",
    reasoning=THINK,
    calls=evolve(DSML_CALLS, section_start="<｜DSML｜tool_calls>", section_end="</｜DSML｜tool_calls>"),
    stops=DEEPSEEK_STOPS,
)

GLM = FormatSpec(
    "glm",
    reasoning=THINK,
    calls=CallFormat(
        "tagged_parameters",
        start="<tool_call>",
        end="</tool_call>",
        separator="\n",
        parameters=ParameterMarkers("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
    ),
    stops=("<|user|>", "<|observation|>", "<|endoftext|>"),
)
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
"""Hunyuan 3: as GLM, with a token behind the name and tags around all calls. Its tags carry the edition's name.

::

    <tool_calls:opensource>
    <tool_call:opensource>multiply<tool_sep:opensource>
    <arg_key:opensource>a</arg_key:opensource>
    <arg_value:opensource>17</arg_value:opensource>
    </tool_call:opensource>
    </tool_calls:opensource>
"""

KIMI_K2 = FormatSpec(
    "kimi_k2",
    reasoning=THINK,
    calls=CallFormat(
        "named_json",
        start="<|tool_call_begin|>",
        end="<|tool_call_end|>",
        section_start="<|tool_calls_section_begin|>",
        section_end="<|tool_calls_section_end|>",
        name_start="functions.",
        name_end="<|tool_call_argument_begin|>",
        id_start=":",
    ),
    stops=("<|im_end|>",),
)
"""Kimi K2 and K3.

K2 writes ids of the form ``functions.NAME:COUNT``::

    <|tool_calls_section_begin|><|tool_call_begin|>functions.multiply:0<|tool_call_argument_begin|>{"a": 17, "b": 23}
    <|tool_call_end|><|tool_calls_section_end|><|im_end|>

K3 opens and closes everything with tokens, and declares each parameter's type. Shown here with line breaks; in names,
``"`` and ``&`` are written as ``&quot;`` and ``&amp;``::

    <|open|>think<|sep|>The user wants a product.<|close|>think<|sep|>
    <|open|>response<|sep|>Let me multiply.<|close|>response<|sep|>
    <|open|>tools<|sep|><|open|>call tool="multiply" index="1"<|sep|>
    <|open|>argument key="a" type="number"<|sep|>17<|close|>argument<|sep|>
    <|open|>argument key="unit" type="string"<|sep|>cm<|close|>argument<|sep|>
    <|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>
"""

KIMI_K3 = FormatSpec(
    "kimi_k3",
    reasoning=ReasoningMarkers("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
    calls=CallFormat(
        "tagged_parameters",
        start='<|open|>call tool="',
        end="<|close|>call<|sep|>",
        section_start="<|open|>tools<|sep|>",
        section_end="<|close|>tools<|sep|>",
        name_end="<|sep|>",
        id_start='"',
        escaped=True,
        parameters=ParameterMarkers(
            '<|open|>argument key="', '"', "<|sep|>", "<|close|>argument<|sep|>", 'type="string"'
        ),
    ),
    dropped=("<|open|>response<|sep|>", "<|close|>response<|sep|>"),
    answers=("<|open|>response<|sep|>",),
    stops=("<|close|>message<|sep|>", "<|end_of_msg|>"),
)

MINICPM5 = FormatSpec(
    "minicpm5",
    reasoning=THINK,
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
"""MiniCPM 5: names as attributes, no tags around all calls.

::

    <function name="multiply"><param name="a">17</param><param name="b">23</param></function><|im_end|>

A string that contains XML characters is written between ``<![CDATA[`` and ``]]>``.
"""

MINIMAX_M1 = FormatSpec(
    "minimax_m1",
    reasoning=THINK,
    calls=CallFormat("json_object", section_start="<tool_calls>", section_end="</tool_calls>", separator="\n"),
    stops=("<end_of_sentence>",),
)
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

MINIMAX_M2 = FormatSpec(
    "minimax_m2",
    reasoning=THINK,
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

MUSE_ANSWERS = ("<|start|>assistant to=user<|message|>", "<|start|>assistant<|message|>")
"""Messages without a recipient are for the user."""

MUSE = FormatSpec(
    "muse",
    reasoning=ReasoningMarkers("<|start|>assistant to=self<|message|>", "<|eom|>"),
    calls=CallFormat(
        "tagged_parameters",
        start="<|start|>assistant to=",
        end="</atem:function_calls>",
        name_end='">',
        id_start="<|message|>",
        body_end="</atem:invoke>",
        parameters=ParameterMarkers('<atem:parameter name="', '">', "", "</atem:parameter>"),
    ),
    dropped=("<|start|>assistant", *MUSE_ANSWERS),
    answers=MUSE_ANSWERS,
    stops=("<|eot|>",),
    prompted="<|start|>assistant",
)
"""Muse: every part of a reply is a message with a recipient; a call names its tool twice.

::

    <|start|>assistant to=self<|message|>The user wants a product.<|eom|>
    <|start|>assistant to=multiply<|message|><atem:function_calls>
    <atem:invoke name="multiply">
    <atem:parameter name="a">17</atem:parameter>
    </atem:invoke>
    </atem:function_calls><|eot|>

    <|start|>assistant to=user<|message|>It is 391.<|eot|>

``<|start|>`` has no line break before it. The generation prompt is ``<|start|>assistant``.
"""

QWEN_CALLS = CallFormat(
    "tagged_parameters",
    start="<tool_call>",
    more_starts=("<function=",),
    end="</tool_call>",
    separator="\n",
    name_start="<function=",
    name_end=">",
    body_end="</function>",
    parameters=ParameterMarkers("<parameter=", ">", "", "</parameter>"),
)

QWEN3_CODER = FormatSpec(
    "qwen3_coder",
    reasoning=THINK,
    calls=QWEN_CALLS,
    stops=("<|im_end|>",),
)
"""Qwen3-Coder, Qwen3.5, Nemotron 3, StepFun 3.5: parameters as untyped text between tags.

::

    <tool_call>
    <function=multiply>
    <parameter=a>
    17
    </parameter>
    <parameter=b>
    23
    </parameter>
    </function>
    </tool_call><|im_end|>

Models of the family often leave out the first ``<tool_call>``, so ``<function=`` begins a call as well.
"""

SEED_OSS = FormatSpec(
    "seed_oss",
    reasoning=ReasoningMarkers("<seed:think>", "</seed:think>"),
    calls=evolve(QWEN_CALLS, start="<seed:tool_call>", more_starts=(), end="</seed:tool_call>"),
    stops=("<seed:eos>",),
)
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
