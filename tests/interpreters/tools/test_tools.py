"""Tools: from a function to a schema, from arguments to values, from what goes wrong to words."""

import asyncio
import enum
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

import annotated_types
import attrs
import jsonschema
import pytest
from hypothesis import given, strategies as st

from cognition import CallTool, ConfigError, EffectId, ToolCall, ToolFailed, ToolReturned
from interpreters import Tool, ToolContext, ToolError, ToolRetry, tool
from interpreters.tools.context import ToolCancelled
from interpreters.tools.schema import problems
from interpreters.tools.tool import LEFT, run_tool
from tests.interpreters.tools.drawn_types import schema_of


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@attrs.frozen
class Point:
    x: int
    y: int = 0


@dataclass
class Line:
    start: Point
    label: str = ""


class Options(TypedDict):
    depth: int
    name: NotRequired[str]


class Row(NamedTuple):
    n: int
    point: Point


@attrs.frozen
class Positive:
    value: int = attrs.field(validator=attrs.validators.gt(0))


@attrs.frozen
class Endless:
    child: "Endless"


TYPES: tuple[Any, ...] = (
    str, int, float, bool, type(None), str | None, int | str, Literal["a", "b"], Literal[1, "one"], Colour, list[int],
    list[list[str]], tuple[int, str], tuple[int, ...], dict[str, int], dict[str, Any], Point, Line, Options, Any,
    Point | None, list[Point | str],
)  # fmt: skip

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.sampled_from(["a", "one", "red", "5", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["x", "y", "start", "label", "depth", "name"]), inner, max_size=3)
    ),
    max_leaves=6,
)


def answer_of(made: Tool[..., Any], arguments: dict[str, Any], deps: Any = None) -> ToolReturned | ToolFailed:
    call = CallTool(EffectId("1.1.1"), ToolCall("call-1-1-1", made.spec.name, arguments))
    return run_tool(made, call, ToolContext(deps))


def failure_of(made: Tool[..., Any], **arguments: Any) -> str:
    answer = answer_of(made, arguments)
    assert isinstance(answer, ToolFailed)
    return answer.message


# ------------------------------------------------------------------------------------------------------ the schema


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_every_schema_is_a_json_schema(kind: Any) -> None:
    """What we write is valid by the standard's own meta-schema."""
    jsonschema.Draft202012Validator.check_schema(schema_of(kind, "x"))


@given(kind=st.sampled_from(TYPES), value=json_values)
def test_the_checker_agrees_with_the_standard(kind: Any, value: Any) -> None:
    """A value has problems exactly when a validator of the standard refuses it."""
    schema = schema_of(kind, "x")
    expected = jsonschema.Draft202012Validator(schema).is_valid(value)

    assert expected == (list(problems(value, schema)) == [])


@given(kind=st.sampled_from(TYPES), value=json_values)
def test_a_call_runs_exactly_when_its_arguments_fit_the_schema(kind: Any, value: Any) -> None:
    """Nothing is coerced and nothing that the schema allows fails to become a value."""

    def function(value):  # type: ignore[no-untyped-def]  # annotated below, with each type in turn
        return "ran"

    function.__annotations__["value"] = kind
    made = Tool(function)
    expected = jsonschema.Draft202012Validator(made.spec.parameters).is_valid({"value": value})

    assert expected == (answer_of(made, {"value": value}) == ToolReturned(EffectId("1.1.1"), "ran"))


def test_two_numbers_give_the_exact_form() -> None:
    """The form that the shipped model was trained on, to the key order."""

    @tool
    def multiply(a: int, b: int) -> int:
        """Multiply two whole numbers."""
        return a * b

    expected = (
        '{"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}'
    )

    assert expected == json.dumps(multiply.spec.parameters)
    assert (multiply.spec.name, multiply.spec.description) == ("multiply", "Multiply two whole numbers.")


def test_what_may_be_left_out_is_not_required() -> None:
    """``Optional[str] = None`` is a text that need not be there; no ``required`` when nothing is."""

    @tool
    def search(path: str | None = None) -> str:
        return path or "none"

    assert search.spec.parameters == {"type": "object", "properties": {"path": {"type": "string"}}}
    assert [search.call(a, ToolContext(None)) for a in ({}, {"path": None}, {"path": "x"})] == ["none", "none", "x"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Colour, {"type": "string", "enum": ["red", "blue"]}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Annotated[int, "how many"], {"type": "integer", "description": "how many"}),
        (
            Point,
            {
                "type": "object",
                "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
                "required": ["x"],
                "additionalProperties": False,
            },
        ),
    ],
)
def test_types_have_their_schema(kind: Any, expected: dict[str, Any]) -> None:
    """Optional, choices, mappings, descriptions and classes, each in its usual form."""
    assert expected == schema_of(kind, "x")


def test_descriptions_come_from_the_docstring() -> None:
    """The ``Args:`` section describes parameters, ``Annotated`` before it, and all else the tool."""

    @tool(name="paint_it", read_only=True, approval=True)
    def paint(colour: Colour, coats: int = 2, note: Annotated[str, "seen by nobody"] = "") -> str:
        """Paint the wall
        in a colour.

        More for people.

        Args:
            colour (Colour): which one,
                of the two.
            coats: how many.
            note: not this.

        Returns:
            nothing: much
        """
        return f"{coats} x {colour.value}{note}"

    expected = {
        "colour": {"type": "string", "enum": ["red", "blue"], "description": "which one, of the two."},
        "coats": {"type": "integer", "description": "how many.", "default": 2},
        "note": {"type": "string", "description": "seen by nobody", "default": ""},
    }

    assert expected == paint.spec.parameters["properties"]
    text = "Paint the wall in a colour.\n\nMore for people.\n\nReturns:\n    nothing: much"
    assert (paint.spec.name, paint.spec.description) == ("paint_it", text)
    assert (paint.spec.read_only, paint.spec.idempotent, paint.spec.approval) == (True, False, True)
    assert paint(Colour.RED, 3) == "3 x red"


def test_a_tool_may_say_that_it_polls() -> None:
    @tool(polls=True)
    def look(job: str) -> str:
        """Look whether a job has ended."""
        return job

    made = Tool.from_schema(name="look", parameters={"type": "object"}, function=lambda given: "x", polls=True)

    assert look.spec.polls
    assert made.spec.polls
    assert not tool(look.function).spec.polls


def no_type(a) -> str:  # type: ignore[no-untyped-def]  # the missing type is what is tested
    return str(a)


def bytes_argument(a: bytes) -> str:
    return str(a)


def any_number(*a: int) -> str:
    return str(a)


def keywords(**a: int) -> str:
    return str(a)


def positional(a: int, /) -> str:
    return str(a)


def number_keys(a: dict[int, str]) -> str:
    return str(a)


def endless(a: Endless) -> str:
    return str(a)


def unknown_name(a: "Nowhere") -> str:  # type: ignore[name-defined]  # noqa: F821 - the unknown name is what is tested
    return str(a)


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (no_type, "parameter 'a' has no type"),
        (bytes_argument, "bytes has no form in JSON"),
        (any_number, "models name their arguments"),
        (keywords, "models name their arguments"),
        (positional, "models name their arguments"),
        (number_keys, "keys of a JSON object are texts"),
        (endless, "contains itself"),
        (unknown_name, "an annotation can't be read"),
    ],
)
def test_a_function_that_can_be_no_tool_is_refused_at_once(function: Callable[..., Any], problem: str) -> None:
    """An error at the decorator, which names the tool."""
    with pytest.raises(ConfigError, match=f"(?s){function.__name__}.*{problem}"):
        tool(function)


def test_an_async_function_is_a_tool_too() -> None:
    """Where nobody awaits, it runs in an event loop of its own; what it raises is told like any other."""

    @tool
    async def later(a: int) -> str:
        await asyncio.sleep(0)
        if a < 0:
            raise ToolRetry("a must not be negative")
        return str(a)

    def run(a: int) -> Any:
        return run_tool(later, CallTool(EffectId("1.1.1"), ToolCall("c", "later", {"a": a})), ToolContext(None))

    assert run(5) == ToolReturned(EffectId("1.1.1"), "5")
    assert run(-1) == ToolFailed(EffectId("1.1.1"), "a must not be negative\nTry again.")


def test_bound_methods_partials_and_objects_are_functions_too() -> None:
    """Whatever can be called with named, typed arguments can be a tool."""

    class Shop:
        def price(self, item: str) -> int:
            return len(item)

        def __call__(self, item: str) -> str:
            return item * 2

    assert Tool(Shop().price).call({"item": "apple"}, ToolContext(None)) == "5"
    assert Tool(Shop(), name="twice").call({"item": "a"}, ToolContext(None)) == "aa"
    assert Tool(partial(lambda: repr(Point(1, 2))), name="fixed").call({}, ToolContext(None)) == "Point(x=1, y=2)"


# --------------------------------------------------------------------------------------------------- the arguments


@tool
def draw(points: list[Point], colour: Colour = Colour.RED, options: Options | None = None) -> str:
    """Draw."""
    return f"{points} {colour} {options}"


def test_arguments_become_values_of_their_types() -> None:
    """JSON objects become instances, choices become members."""
    expected = "[Point(x=1, y=0), Point(x=1, y=2)] Colour.BLUE {'depth': 3}"
    arguments = {"points": [{"x": 1}, {"x": 1, "y": 2}], "colour": "blue", "options": {"depth": 3}}

    assert expected == draw.call(arguments, ToolContext(None))


def test_every_problem_is_named_in_one_message() -> None:
    """The model gets all of them at once, each with its path."""
    expected = (
        'wrong arguments for draw: points[0].x must be a whole number, not "1"; '
        'points[1].x is missing; colour must be one of "red", "blue", not "green"; '
        "colours is unknown; did you mean colour?"
    )

    assert expected == failure_of(draw, points=[{"x": "1"}, {}], colour="green", colours=1)
    assert failure_of(draw) == "wrong arguments for draw: points is missing"


@attrs.frozen
class Circle:
    kind: Literal["circle"]
    radius: Annotated[int, annotated_types.Gt(0)]


@attrs.frozen
class Square:
    kind: Literal["square"]
    side: int


@attrs.frozen
class Open:
    side: int


UNLIKE_ALL: list[tuple[Any, Any, str]] = [
    (Circle | Square, {"kind": "circle", "radius": 0}, "it.radius must be above 0, not 0"),
    (Circle | Square, {"kind": "square", "side": "x"}, 'it.side must be a whole number, not "x"'),
    (Circle | Square, {"kind": "eel"}, 'it.radius is missing; it.kind must be "circle", not "eel"'),
    (Circle | Square, {}, "it.kind is missing; it.radius is missing"),
    (Circle | Open, {"kind": "eel", "side": 1}, "it.kind is unknown; there are side"),
    (
        list[int] | tuple[str],
        [None],
        "it[0] must be a whole number, not null",
    ),
    (Circle | Square, 3, "it must be an object, not 3"),
]


@pytest.mark.parametrize(("kind", "value", "problem"), UNLIKE_ALL)
def test_what_no_form_of_a_union_takes_is_told_of_the_form_that_was_meant(kind: Any, value: Any, problem: str) -> None:
    """And an object is not told that it must be an object."""

    def take(it: Any) -> str:
        raise AssertionError

    take.__annotations__["it"] = kind

    assert failure_of(tool(take), it=value) == f"wrong arguments for take: {problem}"


@attrs.frozen
class Left:
    then: "Left | Right | None" = None


@attrs.frozen
class Right:
    then: "Left | Right | None" = None


Odd = Annotated[int, annotated_types.Predicate(lambda number: number % 2 == 1)]


@attrs.frozen
class Up:
    then: "Up | Down | Odd | None" = None


@attrs.frozen
class Down:
    then: "Up | Down | Odd | None" = None


@pytest.mark.parametrize("kind", [Left, Left | Right, list[Left] | Right, Up, Up | Down])
@pytest.mark.parametrize("leaf", [None, 3, 4])
def test_a_check_asks_once_whether_a_value_fits_a_form(kind: Any, leaf: Any) -> None:
    """Forty levels, each of which would be asked twice, would never end."""
    value: Any = leaf
    for _ in range(40):
        value = {"then": value}

    def take(it: Any) -> str:
        return "taken"

    take.__annotations__["it"] = kind
    made = tool(take)
    if leaf is None or (leaf == 3 and kind in (Up, Up | Down)):
        assert made.call({"it": value}, ToolContext(None)) == "taken"
    else:
        assert "wrong arguments" in failure_of(made, it=value)


def test_a_validator_of_the_class_is_asked_too() -> None:
    """What a schema can't say, the class says."""

    @tool
    def buy(amount: Positive) -> str:
        return "bought"

    assert "must be > 0" in failure_of(buy, amount={"value": -1})


# ---------------------------------------------------------------------------------------------- results and errors


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("as it is", "as it is"),
        (391, "391"),
        (0.5, "0.5"),
        (None, "null"),
        (True, "true"),
        (["é", 1], '["é", 1]'),
        ({"a": Point(1)}, '{"a": {"x": 1, "y": 0}}'),
        (Colour.RED, '"red"'),
        (PurePosixPath("a/b"), '"a/b"'),
        (Row(1, Point(2)), '{"n": 1, "point": {"x": 2, "y": 0}}'),
        (Line(Point(1), "a"), '{"start": {"x": 1, "y": 0}, "label": "a"}'),
        (datetime(2026, 11, 24, 17, tzinfo=UTC), '"2026-11-24T17:00:00+00:00"'),
        ({1, 2}, "[1, 2]"),
    ],
)
def test_results_become_text(value: Any, expected: str) -> None:
    """A text stays, everything else becomes JSON."""

    @tool
    def give() -> Any:
        return value

    assert expected == give.call({}, ToolContext(None))


def test_a_result_without_a_form_in_json_is_an_error_that_says_so() -> None:
    @tool
    def give() -> Any:
        return object()

    assert failure_of(give) == "give returned a value that has no form in JSON: object is no JSON value"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("the city is unknown"), "the city is unknown"),
        (KeyError("name"), "KeyError: name"),
        (ZeroDivisionError("division by zero"), "division by zero"),
        (RuntimeError(), "RuntimeError"),
        (FileNotFoundError(2, "No such file or directory", "a.txt"), "No such file or directory: a.txt"),
        (SystemExit(3), "SystemExit: 3"),
        (ToolError("short"), "short"),
        (ToolRetry("use a city in Europe"), "use a city in Europe\nTry again."),
        (ToolCancelled(), LEFT),
    ],
    ids=repr,
)
def test_exceptions_become_words_for_the_model(error: BaseException, expected: str) -> None:
    """The message, with the type where the message alone says nothing."""

    @tool
    def fail() -> str:
        raise error

    assert expected == failure_of(fail)


def test_an_interrupt_is_not_the_tools_to_swallow() -> None:
    """Ctrl-C goes on up."""

    @tool
    def interrupted() -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        answer_of(interrupted, {})


# ------------------------------------------------------------------------------------------------------ the context


def test_a_context_is_handed_in_and_left_out_of_the_schema() -> None:
    """Whatever its name and place; with and without a type for ``deps``."""

    @tool
    def whoami(context: ToolContext[dict[str, str]], shout: bool = False) -> str:
        name = context.deps["user"]
        return name.upper() if shout else name

    @tool
    def bare(*, where: ToolContext) -> str:  # type: ignore[type-arg]  # a bare annotation is what is tested
        return str(where.cancelled)

    assert list(whoami.spec.parameters["properties"]) == ["shout"]
    assert answer_of(whoami, {"shout": True}, {"user": "Ada"}) == ToolReturned(EffectId("1.1.1"), "ADA")
    assert answer_of(bare, {}) == ToolReturned(EffectId("1.1.1"), "False")


def test_a_model_can_not_fill_in_the_context() -> None:
    @tool
    def whoami(context: ToolContext[Any]) -> str:
        return "ran"

    assert "context is unknown" in failure_of(whoami, context="me")


def test_check_leaves_a_cancelled_tool_past_its_except_clauses() -> None:
    """``ToolCancelled`` is no ``Exception``, so that a tool's own error handling lets it pass."""

    @tool
    def stubborn(context: ToolContext[Any]) -> str:
        context.cancel()
        try:
            context.check()
        except Exception:
            return "swallowed"
        return "not cancelled"

    assert failure_of(stubborn) == LEFT
