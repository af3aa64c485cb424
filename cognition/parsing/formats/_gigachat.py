"""GigaChat 3: one call a reply, a JSON object behind a token.

3.0 writes it as a separate message, 3.1 behind a token::

    <|message_sep|>

    function call<|role_sep|>
    {"name": "multiply", "arguments": {"a": 17, "b": 23}}<|message_sep|>

    <|function_call|>{"name": "multiply", "arguments": {"a": 17, "b": 23}}<|message_sep|>
"""

from __future__ import annotations

from cognition.parsing.spec import CallFormat, FormatSpec

GIGACHAT = FormatSpec(
    "gigachat",
    calls=CallFormat("json_object", start="<|message_sep|>\n\nfunction call<|role_sep|>"),
    stops=("<|message_sep|>", "</s>"),
)

GIGACHAT_3_1 = FormatSpec(
    "gigachat_3_1",
    calls=CallFormat("json_object", start="<|function_call|>"),
    stops=("<|message_sep|>", "</s>"),
)
