"""Mistral: a marker, then either a list of JSON objects, or for each call its name and its arguments.

Nemo and Small up to 3.1::

    [TOOL_CALLS][{"name": "multiply", "arguments": {"a": 17, "b": 23}, "id": "call00001"}]</s>

Small 3.2, Devstral, Ministral 3 (the id is not always there)::

    [TOOL_CALLS]multiply[CALL_ID]call00001[ARGS]{"a": 17, "b": 23}[TOOL_CALLS]current_time[ARGS]{}</s>
"""

from __future__ import annotations

from cognition.parsing.spec import CallFormat, FormatSpec, ReasoningMarkers

MISTRAL_LIST = FormatSpec(
    "mistral_list",
    calls=CallFormat("json_object", section_start="[TOOL_CALLS]", separator=", "),
    stops=("</s>",),
)

MISTRAL = FormatSpec(
    "mistral",
    reasoning=ReasoningMarkers("[THINK]", "[/THINK]"),
    calls=CallFormat("named_json", start="[TOOL_CALLS]", name_end="[ARGS]", id_start="[CALL_ID]"),
    stops=("</s>",),
)
