"""A structured answer while it is being written."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st

from cognition import EffectId, ModelReplied
from interpreters import Agent, AsyncAgent, events, fakes
from interpreters.agents import structured_answers as partial
from interpreters.agents.structured_answers import NOTHING, SHORT, PartialAnswer, partial_json
from tests.interpreters.test_workers import spawn

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6) | st.floats(-9, 9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def begins(part: Any, whole: Any) -> bool:
    """Whether a value is a beginning of another one."""
    if isinstance(part, str) and isinstance(whole, str):
        return whole.startswith(part)
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) <= len(whole) and all(map(begins, part, whole))
    if isinstance(part, dict) and isinstance(whole, dict):
        return list(part) == list(whole)[: len(part)] and all(begins(one, whole[name]) for name, one in part.items())
    return type(part) is type(whole) and bool(part == whole)


@given(values, st.booleans(), st.data())
def test_every_part_is_a_beginning_of_the_whole(value: Any, ascii: bool, data: st.DataObject) -> None:
    text = json.dumps(value, ensure_ascii=ascii)
    part = partial_json(text[: data.draw(st.integers(0, len(text)))])

    assert part is NOTHING or begins(part, value)
    if isinstance(value, dict | list | str):
        assert partial_json(text) == value


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", NOTHING), ("{", {}), ('{"na', {}), ('{"name"', {}), ('{"name": ', {}), ('{"name": "U', {"name": "U"}),
        ('{"name": "a\\', {"name": "a"}), ('{"name": "a\\u00e', {"name": "a"}), ('{"n": 12', {}),
        ('{"n": 12,', {"n": 12}),
        ('[1, tru', [1]), ('[[1], [2, 3', [[1], [2]]), ("Well", NOTHING), ("}", NOTHING),
    ],
)  # fmt: skip
def test_what_may_go_on_is_cut_or_left_out(text: str, part: Any) -> None:
    assert partial_json(text) == part or (part is NOTHING and partial_json(text) is NOTHING)


REPLIES = [fakes.Reply('{"a": "x', chunk=4), fakes.Reply('{"a": "yz"}', chunk=8)]
PARTS = [{}, {"a": "x"}, {"a": "y"}, {"a": "yz"}]


def test_partial_values_stream_and_begin_anew_with_a_correction() -> None:
    with Agent(fakes.ScriptedModel(REPLIES)) as agent:
        stream = agent.stream("Go", returns=dict[str, str])

        assert list(stream.partials()) == PARTS
        assert stream.result.value == {"a": "yz"}  # type: ignore[attr-defined]  # of a turn with a type


def test_partial_values_stream_under_asyncio() -> None:
    async def run() -> list[Any]:
        async with (
            AsyncAgent(fakes.ScriptedModel(REPLIES)) as agent,
            agent.stream("Go", returns=dict[str, str]) as stream,
        ):
            return [part async for part in stream.partials()]

    assert asyncio.run(run()) == PARTS


def told(pieces: list[str]) -> list[Any]:
    """What is told of a reply that comes in these pieces."""
    answer, parts = PartialAnswer(), list[Any]()
    for value in [*map(events.TextDelta, pieces), ModelReplied(EffectId("1.1.0"), "".join(pieces))]:
        parts += answer.take(events.Event("s", turn=1, step=1, attempt=1, sequence=1, value=value))
    return parts


LONG = st.builds(lambda value, count: [value] * count, values, st.integers(100, 300))


@given(values | LONG, st.integers(20, 300))
def test_the_last_part_is_what_is_read_of_the_whole(value: Any, size: int) -> None:
    """However long the answer is, and whatever pieces it comes in; and each part is a beginning of it."""
    text = json.dumps(value)

    parts = told([text[at : at + size] for at in range(0, len(text), size)])

    whole = partial_json(text)
    assert parts[-1:] == ([] if whole is NOTHING else [whole])
    assert all(begins(part, whole) for part in parts)
    assert all(one != other for one, other in pairwise(parts))


@pytest.mark.parametrize("length", [20_000, 200_000])
def test_what_is_read_grows_as_the_answer_does(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not as its square: each character of a long answer is read so many times at most."""
    read: list[int] = []

    def counted(text: str) -> Any:
        read.append(len(text))
        return NOTHING

    monkeypatch.setattr(partial, "partial_json", counted)

    told(["x" * 4] * (length // 4))

    assert sum(read) < 50 * length + SHORT**2
    assert read[: SHORT // 4] == list(range(4, SHORT + 1, 4))
    assert read[-1] == length


def test_what_a_worker_writes_is_no_part_of_the_answer() -> None:
    model = fakes.ScriptedModel(
        [spawn("ann"), fakes.Reply('{"a": "its"}', chunk=4), fakes.Reply('{"a": "b"}', chunk=8)]
    )
    with Agent(model, features=["workers"]) as agent:
        stream = agent.stream("Go", returns=dict[str, str])

        assert list(stream.partials()) == [{"a": "b"}]
