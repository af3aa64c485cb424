"""Command R7B, Command A and North: a JSON list of actions; text and reasoning are between tokens too.

::

    <|START_THINKING|>The user wants a product.<|END_THINKING|><|START_ACTION|>[
        {"tool_call_id": "0", "tool_name": "multiply", "parameters": {"a": 17, "b": 23}}
    ]<|END_ACTION|><|END_OF_TURN_TOKEN|>

    <|START_RESPONSE|>It is 391.<|END_RESPONSE|>

Command R and R+ write the list as a block of code::

    Action:
    ```json
    [{"tool_name": "multiply", "parameters": {"a": 17, "b": 23}}]```<|END_OF_TURN_TOKEN|>
"""

from __future__ import annotations

from cognition.parsing.spec import CallFormat, FormatSpec, JsonFields, ReasoningMarkers

FIELDS = JsonFields("tool_name", "parameters")

COMMAND_R7B = FormatSpec(
    "command_r7b",
    reasoning=ReasoningMarkers("<|START_THINKING|>", "<|END_THINKING|>"),
    calls=CallFormat(
        "json_object",
        section_start="<|START_ACTION|>",
        section_end="<|END_ACTION|>",
        separator=",\n    ",
        fields=FIELDS,
    ),
    dropped=("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"),
    answers=("<|START_RESPONSE|>", "<|START_TEXT|>"),
    stops=("<|END_OF_TURN_TOKEN|>",),
)

COMMAND_R = FormatSpec(
    "command_r",
    calls=CallFormat(
        "json_object", section_start="Action:\n```json\n", section_end="```", separator=",\n    ", fields=FIELDS
    ),
    dropped=("<|CHATBOT_TOKEN|>",),
    stops=("<|END_OF_TURN_TOKEN|>", "<|START_OF_TURN_TOKEN|>"),
)
