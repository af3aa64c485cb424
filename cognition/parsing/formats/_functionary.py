"""Functionary: the name in the tag (3.1), or a reply in parts, each with its recipient in the first line (3.2).

3.1::

    <function=multiply>{"a": 17, "b": 23}</function><|eom_id|>

3.2, whose generation prompt ends with the first ``>>>``::

    >>>all
    Let me multiply.>>>multiply
    {"a": 17, "b": 23}<|eot_id|>
"""

from __future__ import annotations

from cognition.parsing.spec import CallFormat, FormatSpec

FUNCTIONARY_3_1 = FormatSpec(
    "functionary_3_1",
    calls=CallFormat("named_json", start="<function=", end="</function>", name_end=">"),
    stops=("<|eom_id|>", "<|eot_id|>"),
)

FUNCTIONARY_3_2 = FormatSpec(
    "functionary_3_2",
    calls=CallFormat("named_json", start=">>>", name_end="\n"),
    dropped=(">>>all\n",),
    stops=("<|eot_id|>",),
    prompted=">>>",
)
