"""FireFunction v2: a JSON list of calls behind a word that is not a token.

::

     functools[{"name": "multiply", "arguments": {"a": 17, "b": 23}}]<|eot_id|>
"""

from __future__ import annotations

from cognition.parsing.spec import CallFormat, FormatSpec

FIREFUNCTION = FormatSpec(
    "firefunction",
    calls=CallFormat("json_object", section_start="functools[", separator=", "),
    stops=("<|eot_id|>",),
)
