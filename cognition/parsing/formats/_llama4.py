"""Llama 4, and small Llama 3.2 models if prompted for it: the whole reply is one list of pythonic calls.

::

    [multiply(a=17, b=23), current_time(zone="UTC")]<|eot|>

No marker announces it, so the parser holds back a reply that begins with ``[`` until it sees whether a name and an
opening parenthesis follow. Llama 4 also writes ``<|python_start|>`` and ``<|python_end|>`` around the list.

Source: https://github.com/meta-llama/llama-models/blob/main/models/llama4/prompt_format.md
"""

from __future__ import annotations

from cognition.parsing.spec import CallFormat, FormatSpec

LLAMA4 = FormatSpec(
    "llama4",
    calls=CallFormat("pythonic"),
    dropped=("<|python_start|>", "<|python_end|>"),
    stops=("<|eot|>", "<|eom|>", "<|eot_id|>", "<|eom_id|>"),
)
