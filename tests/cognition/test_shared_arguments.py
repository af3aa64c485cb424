"""A large text that many calls of a reply have as their arguments is held once, as a recording names it."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from cognition import CallModel, Limits, ModelReplied, Policy, ProposedCall, Rule, ToolSpec, UserSpoke
from tests.cognition.session import Session, engine_with

LENGTH, CALLS = 100_000, 40
BIG = "x" * LENGTH
STRICT = ToolSpec(
    "read",
    parameters={
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"enum": ["a"]}},
        "additionalProperties": False,
    },
    read_only=True,
)
ANY = ToolSpec("read", parameters={"type": "object"}, read_only=True)


@pytest.mark.parametrize("edition", [1, 2])
@pytest.mark.parametrize(
    ("arguments", "tool", "rules"),
    [
        ('{"x": ' + BIG, STRICT, ()),
        (f'"{BIG}"', STRICT, ()),
        (f'{{"{BIG}": 1, "{BIG}": 2}}', STRICT, ()),
        (json.dumps({"x": BIG}), STRICT, ()),
        (json.dumps({"y": BIG}), STRICT, ()),
        (json.dumps({BIG: 1}), STRICT, ()),
        (json.dumps({"x": BIG}), ANY, (Rule("deny", "read"),)),
        (json.dumps({"x": BIG}), ANY, ()),
    ],
    ids=["cut", "no object", "a key twice", "another type", "no value of it", "another key", "denied", "allowed"],
)
def test_many_calls_with_the_same_large_arguments_take_little_memory(
    arguments: str, tool: ToolSpec, rules: tuple[Rule, ...], edition: int
) -> None:
    limits = Limits(tool_calls=None, refusals=1000)
    session = Session(engine_with(tool, policy=Policy(rules), limits=limits, context_tokens=4096, edition=edition))
    session(UserSpoke("Go!"))
    (asked,) = [decision for decision in session.decisions if isinstance(decision, CallModel)]
    reply = ModelReplied(asked.effect_id, calls=tuple(ProposedCall("read", arguments) for _ in range(CALLS)))

    tracemalloc.start()
    session(reply)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 12 * LENGTH
