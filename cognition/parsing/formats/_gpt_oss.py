"""gpt-oss (Harmony): every part of a reply is a message in a channel; a message that names a recipient is a call.

::

    <|channel|>analysis<|message|>The user wants a product.<|end|>
    <|start|>assistant<|channel|>commentary<|message|>Let me multiply.<|end|>
    <|start|>assistant<|channel|>commentary to=functions.multiply <|constrain|>json<|message|>{"a": 17, "b": 23}<|call|>

    <|start|>assistant<|channel|>final<|message|>It is 391.<|return|>

Shown here with line breaks; the model writes none between messages. The recipient may also come before the channel, as
the template writes calls::

    <|start|>assistant to=functions.multiply<|channel|>commentary json<|message|>{"a": 17, "b": 23}<|call|>

The generation prompt is ``<|start|>assistant``, so a reply may begin in the middle of a marker.

Source: https://cookbook.openai.com/articles/openai-harmony
"""

from __future__ import annotations

from cognition.parsing.spec import CallFormat, FormatSpec, ReasoningMarkers

GPT_OSS = FormatSpec(
    "gpt_oss",
    reasoning=ReasoningMarkers("<|channel|>analysis<|message|>", "<|end|>"),
    calls=CallFormat(
        "named_json",
        start="<|start|>assistant to=",
        more_starts=("<|channel|>commentary to=", "<|channel|>analysis to="),
        end="<|call|>",
        name_start="functions.",
        name_end="<|message|>",
        id_start="<|constrain|>",
        more_id_starts=("<|channel|>",),
    ),
    dropped=(
        "<|start|>assistant",
        "<|channel|>commentary<|message|>",
        "<|channel|>commentary to=assistant",
        "<|channel|>final<|message|>",
        "<|channel|>final <|constrain|>json<|message|>",
    ),
    answers=(
        "<|channel|>commentary<|message|>",
        "<|channel|>final<|message|>",
        "<|channel|>final <|constrain|>json<|message|>",
    ),
    stops=("<|return|>",),
    prompted="<|start|>assistant",
)
