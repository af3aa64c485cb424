"""Llama 3.1 to 3.3: the whole reply is one bare JSON object, with ``parameters`` for arguments.

::

    {"name": "multiply", "parameters": {"a": 17, "b": 23}}<|eom_id|>

No marker announces a call, so the parser holds back a reply that begins with ``{`` until its keys show whether it is a
call; any other JSON is text. Several calls may follow each other, also separated by a semicolon or a comma. Calls of a
built-in tool begin with ``<|python_tag|>``.
"""

from __future__ import annotations

from cognition.parsing.spec import CallFormat, FormatSpec, JsonFields

LLAMA3 = FormatSpec(
    "llama3",
    calls=CallFormat("json_object", fields=JsonFields(arguments="parameters")),
    dropped=("<|python_tag|>",),
    stops=("<|eot_id|>", "<|eom_id|>"),
)
