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

from __future__ import annotations

from cognition.parsing.spec import CallFormat, FormatSpec, ParameterMarkers, ReasoningMarkers

QWEN3_CODER = FormatSpec(
    "qwen3_coder",
    reasoning=ReasoningMarkers("<think>", "</think>"),
    calls=CallFormat(
        "tagged_parameters",
        start="<tool_call>",
        more_starts=("<function=",),
        end="</tool_call>",
        separator="\n",
        name_start="<function=",
        name_end=">",
        body_end="</function>",
        parameters=ParameterMarkers("<parameter=", ">", "", "</parameter>"),
    ),
    stops=("<|im_end|>",),
)
