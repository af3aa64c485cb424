"""Bounds of annotated-types and of pydantic's ``Field``: each stands in the schema, or in words, and is checked."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NewType
from uuid import UUID

import annotated_types as at
import pydantic
import pytest
from pydantic import Field

from cognition import ConfigError
from interpreters import Tool, ToolContext, ToolError, tool
from tests.interpreters.tools.drawn_types import schema_of

UTC = UTC
Metres = NewType("Metres", float)


def called(kind: Any, value: Any) -> Any:
    """What a function gets whose argument is of this type."""
    given: list[Any] = []

    def function(value):  # type: ignore[no-untyped-def]  # annotated below
        given.append(value)

    function.__annotations__["value"] = kind
    Tool(function).call({"value": value}, ToolContext(None))
    return given[0]


@pytest.mark.parametrize(
    ("kind", "expected", "good", "bad"),
    [
        (Annotated[int, at.Gt(0)], {"type": "integer", "exclusiveMinimum": 0}, [1], [0, -1, 0.5]),
        (Annotated[int, at.Ge(0), at.Lt(5)], {"type": "integer", "minimum": 0, "exclusiveMaximum": 5}, [0, 4], [-1, 5]),
        (Annotated[float, at.Le(1.5)], {"type": "number", "maximum": 1.5}, [1.5, -9], [1.6]),
        (Annotated[float, at.Interval(ge=0, lt=1)], {"type": "number", "minimum": 0, "exclusiveMaximum": 1}, [0], [1]),
        (Annotated[int, at.MultipleOf(5)], {"type": "integer", "multipleOf": 5}, [0, 10, -5], [3]),
        (Annotated[float, at.MultipleOf(0.01)], {"type": "number", "multipleOf": 0.01}, [0.07, 1], [0.075]),
        (Annotated[Decimal, at.Gt(Decimal("0.5"))], {"type": "number", "exclusiveMinimum": 0.5}, [1, 0.75], [0.5, "1"]),
        (Annotated[int, at.Ge(1), at.Ge(3)], {"type": "integer", "minimum": 3}, [3], [2]),
        (Annotated[int, at.Ge(-math.inf)], {"type": "integer"}, [-9], []),
        (Annotated[str, at.Len(1, 3)], {"type": "string", "minLength": 1, "maxLength": 3}, ["a", "äöü"], ["", "abcd"]),
        (Annotated[list[Any], at.MinLen(1)], {"type": "array", "items": {}, "minItems": 1}, [[1]], [[]]),
        (
            Annotated[set[int], at.MaxLen(2)],
            {"type": "array", "items": {"type": "integer"}, "uniqueItems": True, "maxItems": 2},
            [[], [1, 2]],
            [[1, 1], [1, 2, 3]],
        ),
        (
            Annotated[dict[str, int], at.Len(1, 2)],
            {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1, "maxProperties": 2},
            [{"a": 1}],
            [{}, {"a": 1, "b": 2, "c": 3}],
        ),
        (
            Annotated[int | None, at.Gt(0)],
            {"anyOf": [{"type": "integer", "exclusiveMinimum": 0}, {"type": "null"}]},
            [1, None],
            [0],
        ),
        (Annotated[Metres, at.Gt(0)], {"type": "number", "exclusiveMinimum": 0}, [1], [0]),
        (Annotated[int, Field(gt=0, le=9)], {"type": "integer", "exclusiveMinimum": 0, "maximum": 9}, [9], [0, 10]),
        (
            Annotated[int, Field(multiple_of=3, description="n")],
            {"type": "integer", "multipleOf": 3, "description": "n"},
            [3],
            [4],
        ),
        (
            Annotated[str, Field(min_length=2, pattern="^a")],
            {"type": "string", "minLength": 2, "pattern": "^a"},
            ["ab"],
            ["a", "bb"],
        ),
        (Annotated[str, Field(pattern=re.compile("b"))], {"type": "string", "pattern": "b"}, ["abc"], ["ac"]),
        (pydantic.PositiveInt, {"type": "integer", "exclusiveMinimum": 0}, [1], [0]),
        (pydantic.conint(ge=2), {"type": "integer", "minimum": 2}, [2], [1]),
        (pydantic.StrictInt, {"type": "integer"}, [1], ["1"]),
        (
            Annotated[str, at.Predicate(str.islower)],
            {"type": "string", "description": "has to satisfy islower"},
            ["a"],
            ["A"],
        ),
        (
            Annotated[date, at.Ge(date(2020, 1, 1)), "the day"],
            {"type": "string", "format": "date", "description": "the day; not before 2020-01-01"},
            ["2020-01-01"],
            ["2019-12-31", "2020-02-30", "today", 1],
        ),
        (
            Annotated[datetime, at.Lt(datetime(2020, 1, 1, tzinfo=UTC))],
            {"type": "string", "format": "date-time", "description": "before 2020-01-01T00:00:00+00:00"},
            ["2019-12-31T23:00:00Z"],
            ["2020-01-01T00:00:00Z", "2019-01-01T00:00:00"],
        ),
    ],
)  # fmt: skip
def test_a_bound_is_told_and_checked(kind: Any, expected: dict[str, Any], good: list[Any], bad: list[Any]) -> None:
    """In the schema where it has a keyword for it, else in the description."""
    assert schema_of(kind, "x") == expected
    for value in good:
        called(kind, value)
    for value in bad:
        with pytest.raises(ToolError):
            called(kind, value)


@pytest.mark.parametrize(
    "kind",
    [
        Annotated[str, at.Gt(0)],
        Annotated[int, at.MinLen(1)],
        Annotated[Any, at.Gt(0)],
        Annotated[UUID, at.Len(1, 3)],
        Annotated[Literal[1, 2], at.Gt(1)],
        Annotated[int, at.Gt(5), at.Lt(3)],
        Annotated[int, at.Gt(math.nan)],
        Annotated[int, at.Gt(math.inf)],
        Annotated[int, at.Gt("0")],
        Annotated[str, at.Len(3, 2)],
        Annotated[str, at.MinLen(-1)],
        Annotated[int, at.MultipleOf(0)],
        Annotated[datetime, at.Timezone(...)],
        Annotated[date, at.Ge(2020)],
        Annotated[str, Field(pattern="(")],
        Annotated[int | None, at.MinLen(1)],
    ],
    ids=str,
)
def test_a_bound_that_can_not_be_kept_is_refused_at_the_decorator(kind: Any) -> None:
    """It is never left out in silence."""
    with pytest.raises(ConfigError, match="x"):
        schema_of(kind, "x")


@pytest.mark.parametrize(
    ("kind", "data", "value"),
    [
        (date, "2024-02-29", date(2024, 2, 29)),
        (datetime, "2026-11-24T17:30:00+01:00", datetime.fromisoformat("2026-11-24T17:30:00+01:00")),
        (datetime, "2026-11-24T17:30:00.5Z", datetime(2026, 11, 24, 17, 30, 0, 500000, UTC)),
        (datetime, "2026-11-24T17:30:00", datetime(2026, 11, 24, 17, 30)),
        (time, "17:30:00", time(17, 30)),
        (time, "17:30:00Z", time(17, 30, tzinfo=UTC)),
        (UUID, "123e4567-e89b-12d3-a456-426614174000", UUID("123e4567-e89b-12d3-a456-426614174000")),
        (Path, "a/b.txt", Path("a/b.txt")),
        (Decimal, "1.10", Decimal("1.10")),
        (Decimal, 0.1, Decimal("0.1")),
        (Decimal, 12345678901234567890123, Decimal("12345678901234567890123")),
        (Decimal, "-0.12345678901234567890123", Decimal("-0.12345678901234567890123")),
        (frozenset[int], [1, 2], frozenset({1, 2})),
        (tuple[()], [], ()),
        (tuple[int, ...], [1], (1,)),
        (int, 5.0, 5),
        (Literal[1, 2], 1.0, 1),
    ],
)
def test_a_value_is_made_of_its_data(kind: Any, data: Any, value: Any) -> None:
    made = called(kind, data)

    assert (made, type(made)) == (value, type(value))


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (date, "2026-02-29"), (date, "20260228"), (date, 0), (datetime, "2026-11-24"),
        (datetime, "2026-11-24T25:00:00"),
        (time, "25:00:00"), (time, "7"), (UUID, "{123e4567-e89b-12d3-a456-42661417400}"), (UUID, "1"), (Path, 1),
        (Decimal, "NaN"), (Decimal, "1,5"), (Decimal, "Infinity"), (Decimal, True), (Decimal, "1\n"),
        (set[int], [1, 1.0]),
        (tuple[()], [1]), (tuple[int, str], [1]), (Literal[1, 2], True), (Literal[1, 2], "1"), (bool, 1), (int, True),
    ],
)  # fmt: skip
def test_data_that_is_no_such_value_is_refused(kind: Any, data: Any) -> None:
    with pytest.raises(ToolError, match="wrong arguments for function: value must be"):
        called(kind, data)


@pytest.mark.parametrize(
    "kind", [set[list[int]], set[dict[str, int]], frozenset[set[int]], set[int | list[int]]], ids=str
)
def test_a_set_of_what_has_no_hash_is_refused_at_the_decorator(kind: Any) -> None:
    with pytest.raises(ConfigError, match="can't be in a set"):
        schema_of(kind, "x")


def test_a_field_of_pydantics_may_be_the_default() -> None:
    """As its own functions have it: the bound holds, and what is left out has the field's default."""

    @tool
    def search(text: str = Field(min_length=1), limit: int = Field(10, gt=0, description="how many")) -> str:
        return f"{text} {limit}"

    limit = {"type": "integer", "exclusiveMinimum": 0, "description": "how many", "default": 10}
    assert search.spec.parameters["properties"]["limit"] == limit
    assert search.spec.parameters["required"] == ["text"]
    assert search.call({"text": "a"}, ToolContext(None)) == "a 10"
    for wrong in ({"text": ""}, {"text": "a", "limit": 0}, {}):
        with pytest.raises(ToolError):
            search.call(wrong, ToolContext(None))


def test_neither_package_is_imported_for_types_without_them() -> None:
    """They are no dependency."""
    program = """
import sys
from dataclasses import dataclass
from typing import Annotated
from interpreters import Agent, fakes, tool

@dataclass
class Point:
    x: int

@tool
def move(to: Point, steps: Annotated[int, "how many"]) -> str:
    return str(to)

with Agent(fakes.ScriptedModel([fakes.call("move", to={"x": 1}, steps=2), '{"x": 2}']), [move]) as agent:
    assert agent.run("Go", returns=Point).value == Point(2)
assert not {"pydantic", "annotated_types"} & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
