"""Llama 3.1 to 3.3: the whole reply is one bare JSON object, with ``parameters`` for arguments.

::

    {"name": "multiply", "parameters": {"a": 17, "b": 23}}<|eom_id|>

No marker announces it, so a reply that begins with ``{`` is held back until its keys tell what it is; any other JSON
is text. Several calls follow one another, as they are or with a semicolon or a comma between two. Replies to a built-in
tool begin with ``<|python_tag|>``.
"""

from __future__ import annotations

from cognition.parsing.spec import CallFormat, FormatSpec, JsonFields

LLAMA3 = FormatSpec(
    "llama3",
    calls=CallFormat("json_object", fields=JsonFields(arguments="parameters")),
    dropped=("<|python_tag|>",),
    stops=("<|eot_id|>", "<|eom_id|>"),
)
