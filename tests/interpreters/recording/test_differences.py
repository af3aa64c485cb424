"""Where two values differ, and where two requests to a model do."""

from __future__ import annotations

import json
from typing import Any

from attrs import evolve
from hypothesis import given, strategies as st

from cognition import GenerationOptions, History, ModelRequest, ToolSpec, UserMessage
from interpreters.recording.differences import differences, request_differences

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("xy", min_size=1, max_size=1), inner),
    max_leaves=8,
)


@given(JSON, JSON)
def test_differences_are_found_where_and_only_where_there_are_some(left: Any, right: Any) -> None:
    """Each at a place of its own, with both sides."""
    found = list(differences(left, right, "at"))

    assert (json.dumps(left, sort_keys=True) != json.dumps(right, sort_keys=True)) == bool(found)
    assert len({one.field for one in found}) == len(found)
    for one in found:
        assert str(one).count("\n") == 2
        assert len(set(str(one).replace("decided: ", "recorded:").splitlines())) == 3


TOOLS = (ToolSpec("price", "Say what something costs."), ToolSpec("order", approval=True))
REQUEST = ModelRequest("You sell fruit.", History([UserMessage("m1", "Hi")]), TOOLS, GenerationOptions())

CHANGES: list[tuple[dict[str, Any], list[str]]] = [
    ({}, []),
    ({"system": "No."}, ["r.system"]),
    ({"tools": TOOLS[:1]}, ["r.tools.order"]),
    ({"tools": TOOLS[::-1]}, ["r.tools"]),
    ({"tools": (evolve(TOOLS[0], description=""), TOOLS[1])}, ["r.tools.price.description"]),
    ({"options": GenerationOptions(seed=1, top_k=3)}, ["r.options.seed", "r.options.top_k"]),
    ({"protocol": "tool_tags"}, ["r.protocol"]),
    ({"messages": History()}, ["r.messages.length"]),
    ({"messages": History([UserMessage("m1", "Ho")])}, ["r.messages[0].text"]),
    (
        {"system": "No.", "protocol": "tool_tags", "tools": ()},
        ["r.system", "r.tools.price", "r.tools.order", "r.protocol"],
    ),
]


def test_each_part_of_a_request_that_differs_is_named() -> None:
    for change, expected in CHANGES:
        found = request_differences(REQUEST, evolve(REQUEST, **change), "r")
        assert expected == [one.field for one in found]
