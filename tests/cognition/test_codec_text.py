"""What the codec writes is plain JSON data: its text gives back the same data, and the data the same value.

A recording is compared with what is decided now as data, so that a tuple where the text has a list, or a key that is no
text, would make an unharmed recording differ from itself.
"""

from __future__ import annotations

import json
import math
from typing import Any, get_args

import pytest
from attrs import fields, has, resolve_types
from hypothesis import example, given, strategies as st

from cognition import (
    AgentConfig,
    AgentState,
    ConfigError,
    GenerationOptions,
    Limits,
    Rule,
    SpawnWorker,
    ToolSpec,
    WorkerSpec,
    from_data,
    to_data,
)
from cognition.base.ids import EffectId
from cognition.steps.codec import tags_of
from cognition.values.features import Question
from tests.cognition.samples import UNIONS, some


def is_plain(data: Any) -> bool:
    """JSON data of exactly the types that a text gives back, and no number that JSON has no form for."""
    if type(data) is dict:
        return all(type(key) is str and is_plain(value) for key, value in data.items())
    if type(data) is list:
        return all(map(is_plain, data))
    return data is None or type(data) in (str, bool, int) or (type(data) is float and math.isfinite(data))


CLASSES = [member for union in UNIONS for member in tags_of(union)]


def reached(kind: type, found: dict[type, None]) -> dict[type, None]:
    """A class, and every class that its fields may hold."""

    def look(hint: Any) -> None:
        if isinstance(hint, type) and has(hint):
            reached(hint, found)
        for part in get_args(hint):
            look(part)

    if kind not in found:
        found[kind] = None
        for item in fields(resolve_types(kind)):
            look(item.type)
    return found


EVERY = list(dict.fromkeys(one for kind in (*CLASSES, AgentState, AgentConfig) for one in reached(kind, {})))
"""Every class that stands in a journal: members of unions, state, configuration, and all that they hold."""


def test_every_class_of_a_journal_is_tried() -> None:
    """The walk finds what only stands within others."""
    assert {GenerationOptions, WorkerSpec, Rule, Question, ToolSpec, *CLASSES} < set(EVERY)


@pytest.mark.behaviour("R13a")
@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_what_is_written_is_what_its_text_gives_back(kind: type, data: st.DataObject) -> None:
    """Types included: no tuple, no key that is no text, no NaN; and the value that comes back is equal."""
    value = data.draw(some(kind))

    written = to_data(value)
    read = json.loads(json.dumps(written, allow_nan=False))
    assert is_plain(written)
    assert written == read
    union = next((union for union in UNIONS if kind in tags_of(union)), kind)
    assert value == from_data(read, union)
    assert written == to_data(from_data(read, union))


@pytest.mark.behaviour("R13a")
@given(st.lists(st.tuples(st.text(), st.text()), min_size=1, max_size=3).map(tuple))
@example((("w1", "Found it."),))
def test_what_a_worker_waited_for_is_written_as_lists(context: tuple[tuple[str, str], ...]) -> None:
    """The field that made recordings of workers with ``after`` differ from themselves."""
    spawn = SpawnWorker(EffectId("1.1.1"), WorkerSpec("w2", "go on"), context, Limits(), (), "default")

    assert [list(pair) for pair in context] == to_data(spawn)["context"]


def test_a_tool_s_parameters_are_kept_as_their_text_gives_them_back() -> None:
    """A schema written in Python may hold tuples, numbers as keys, and what is changed later."""
    choices = ["a", "b"]
    spec = ToolSpec("t", "", {"properties": {"x": {"enum": ("a", "b")}, "y": {"enum": choices}}, 2: 1, 10: 1})  # type: ignore[dict-item]  # that is the point
    choices.append("c")

    assert spec.parameters == {"properties": {"x": {"enum": ["a", "b"]}, "y": {"enum": ["a", "b"]}}, "2": 1, "10": 1}
    assert spec == from_data(json.loads(json.dumps(to_data(spec))), ToolSpec)


@pytest.mark.parametrize("parameters", [{"a": {1}}, {"a": float("nan")}, {"a": object}, ["object"], "object"], ids=repr)
def test_parameters_that_are_no_json_are_refused(parameters: Any) -> None:
    with pytest.raises(ConfigError, match="a tool's parameters have to be"):
        ToolSpec("t", "", parameters)
