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

from __future__ import annotations

from cognition.parsing.spec import CallFormat, FormatSpec, ParameterMarkers, ReasoningMarkers

ANSWERS = ("<|start|>assistant to=user<|message|>", "<|start|>assistant<|message|>")
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
    dropped=("<|start|>assistant", *ANSWERS),
    answers=ANSWERS,
    stops=("<|eot|>",),
    prompted="<|start|>assistant",
)
