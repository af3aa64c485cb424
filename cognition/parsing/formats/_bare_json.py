"""Bare JSON anywhere in text: for models that were only asked, in the prompt, to write their calls so.

::

    I will look it up. {"name": "lookup", "arguments": {"q": "zebra"}}

A JSON object counts as a call when ``name`` and ``arguments`` are its first keys; any other JSON is text.
"""

from __future__ import annotations

from cognition.parsing.spec import CallFormat, FormatSpec, ReasoningMarkers

BARE_JSON = FormatSpec(
    "bare_json",
    reasoning=ReasoningMarkers("<think>", "</think>"),
    calls=CallFormat("json_object", anywhere=True),
)
