"""What of a docstring reaches the model: all of it, the parameters' descriptions at the parameters."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Iterator
from enum import Flag
from typing import Any

import pytest
import typing_extensions
from hypothesis import given, strategies as st

from cognition import ConfigError
from interpreters import Agent, ToolContext, ToolError, fakes, tool
from interpreters.tools._docstrings import read_docstring

GOOGLE = """Clean a folder.

Never the user's own.

Args:
    folder: an absolute
        path
    *rest (str): further ones

    force: whether to ask

Returns:
    how many"""

NUMPY = """Clean a folder.

Never the user's own.

Parameters
----------
folder : str, optional
    an absolute
    path
rest, force : str
    further ones

Returns
-------
int
    how many"""

SPHINX = """Clean a folder.

:param str folder: an absolute
    path
:type folder: str
:param force: whether to ask
:returns: how many"""


@pytest.mark.parametrize(
    ("text", "description", "parameters"),
    [
        (
            GOOGLE,
            "Clean a folder.\n\nNever the user's own.\n\nReturns:\n    how many",
            {"folder": "an absolute path", "rest": "further ones", "force": "whether to ask"},
        ),
        (
            NUMPY,
            "Clean a folder.\n\nNever the user's own.\n\nReturns\n-------\nint\n    how many",
            {"folder": "an absolute path", "rest": "further ones", "force": "further ones"},
        ),
        (
            SPHINX,
            "Clean a folder.\n\n:returns: how many",
            {"folder": "an absolute path", "force": "whether to ask"},
        ),
        ("A\nb.\n\n- c\n- d\n\n    e\n  f", "A b.\n\n- c\n- d\n\n    e\n  f", {}),
        ("Args:", "Args:", {}),
        ("Args:\nfolder: x", "Args:\nfolder: x", {}),
        ("A.\n\nArgs:\n    a: b", "A.", {"a": "b"}),
        ("Keyword Args:\n    a: b", "", {"a": "b"}),
        ("A.\n\nParameters:\n    a: b\n\nc", "A.\n\nc", {"a": "b"}),
        ("Parameters\n\na", "Parameters\n\na", {}),
        ("Parameters\n---\na\n    b\nc d", "c d", {"a": "b"}),
        ("@param a: b", "", {"a": "b"}),
        (":param a:\n    b", "", {"a": "b"}),
        ("", "", {}),
    ],
)
def test_each_style_is_read(text: str, description: str, parameters: dict[str, str]) -> None:
    assert read_docstring(text) == (description, parameters)


WORDS = st.text("abc de", min_size=1, max_size=30).map(str.strip).filter(bool)
STYLES: dict[str, Callable[[dict[str, str]], str]] = {
    "google": lambda told: "Args:\n" + "\n".join(f"    {name}: {text}" for name, text in told.items()),
    "numpy": lambda told: (
        "Parameters\n----------\n" + "\n".join(f"{name} : str\n    {text}" for name, text in told.items())
    ),
    "sphinx": lambda told: "\n".join(f":param {name}: {text}" for name, text in told.items()),
}


@given(
    st.lists(WORDS, min_size=1, max_size=3),
    st.dictionaries(st.sampled_from(("a", "b", "c1", "d_e")), WORDS, min_size=1),
    st.sampled_from(sorted(STYLES)),
)
def test_no_word_of_a_docstring_is_lost(paragraphs: list[str], told: dict[str, str], style: str) -> None:
    text = "\n\n".join([*paragraphs, STYLES[style](told)])
    expected = "\n\n".join(" ".join(one.split()) for one in paragraphs)

    assert read_docstring(text) == (expected, {name: text.strip() for name, text in told.items()})


def weather(api_key: str, city: str, days: int = 1) -> str:
    """Tell the weather.

    Args:
        api_key: the program's own.
        city: where.
    """
    return f"{api_key} {city} {days}"


@pytest.mark.parametrize(
    "bound",
    [
        functools.partial(weather, api_key="k"),
        functools.partial(weather, "k"),
        functools.partial(functools.partial(weather, "k")),
        functools.update_wrapper(functools.partial(weather, "k"), weather),
        functools.update_wrapper(functools.partial(weather, api_key="k"), weather),
    ],
    ids=["keyword", "position", "twice", "updated", "updated keyword"],
)
def test_what_a_partial_binds_is_no_parameter(bound: Callable[..., str]) -> None:
    made = tool(bound)

    assert (made.spec.name, made.spec.description) == ("weather", "Tell the weather.")
    assert list(made.spec.parameters["properties"]) == ["city", "days"]
    assert made.spec.parameters["properties"]["city"]["description"] == "where."
    assert made.call({"city": "Oslo"}, ToolContext(None)) == "k Oslo 1"
    with pytest.raises(ToolError, match="api_key"):
        made.call({"city": "Oslo", "api_key": "another"}, ToolContext(None))


def test_a_partial_that_binds_too_much_is_refused_when_it_is_made() -> None:
    with pytest.raises(ConfigError, match="binds more arguments than there are"):
        tool(functools.partial(weather, "k", "Oslo", 1, 2))


class Lookup:
    """A class."""

    def __call__(self, order: str) -> str:
        """Find an order."""
        return order


class Plain:
    """Find something."""

    def __call__(self, order: str) -> str:
        return order


def test_an_object_that_can_be_called_is_described_by_its_call_or_its_class() -> None:
    assert (tool(Lookup()).spec.name, tool(Lookup()).spec.description) == ("Lookup", "Find an order.")
    assert tool(Plain()).spec.description == "Find something."


def pages(n: int) -> Iterator[str]:
    yield "a"


@functools.wraps(pages)
def around(*arguments: Any) -> Any:
    return pages(*arguments)


@pytest.mark.parametrize("function", [pages, around, functools.partial(pages, 1)])
def test_a_generator_is_refused_when_it_is_made(function: Callable[..., Any]) -> None:
    with pytest.raises(ConfigError, match="'pages' is a generator"):
        tool(function)
    with pytest.raises(ConfigError, match="'x' is a generator"):
        tool.__globals__["Tool"].from_schema(name="x", parameters={"type": "object"}, function=function)


def logged(function: Callable[..., Awaitable[str]]) -> Callable[..., Any]:
    @functools.wraps(function)
    def inner(*arguments: Any, **more: Any) -> Any:
        return function(*arguments, **more)

    return inner


@logged
async def fetch(n: int) -> str:
    """Fetch a page."""
    return f"page {n}"


def test_what_a_plain_function_around_an_async_one_returns_is_awaited() -> None:
    made = tool(fetch)
    assert not inspect.iscoroutinefunction(fetch)
    assert not made.is_async
    assert made.call({"n": 1}, ToolContext(None)) == "page 1"
    with Agent(fakes.ScriptedModel([fakes.call("fetch", n=2), "Done."]), [made]) as agent:
        assert agent.run("Fetch!").calls[0].content == "page 2"


class Guest(typing_extensions.TypedDict):
    name: str
    age: typing_extensions.NotRequired[int]
    room: typing_extensions.ReadOnly[typing_extensions.Required[int]]


def test_a_typed_dict_of_typing_extensions_is_one() -> None:
    @tool
    def book(guest: Guest) -> str:
        """Book a room."""
        return f"{guest['name']} {guest['room']}"

    shape = book.spec.parameters["properties"]["guest"]
    assert (list(shape["properties"]), shape["required"]) == (["name", "age", "room"], ["name", "room"])
    assert book.call({"guest": {"name": "Ada", "room": 3}}, ToolContext(None)) == "Ada 3"


class Rights(Flag):
    READ = 1
    WRITE = 2


def test_flags_are_refused_when_the_tool_is_made() -> None:
    def grant(rights: Rights) -> str:
        return str(rights)

    with pytest.raises(ConfigError, match=r"combined; use list\[\.\.\.\] of an Enum"):
        tool(grant)


RESULTS: list[dict[Any, str]] = [
    {1: "a", "1": "b"},
    {True: "a", "true": "b"},
    {None: "a", "null": "b"},
    {1: "a", 2.5: "b", None: "c"},
]


def test_two_keys_with_one_text_are_refused() -> None:
    def keys(which: int) -> dict[Any, str]:
        return [{1: "a", "1": "b"}, {True: "a", "true": "b"}, {None: "a", "null": "b"}, {1: "a", 2.5: "b", None: "c"}][
            which
        ]

    made = tool(keys)
    for which in range(3):
        with pytest.raises(ToolError, match="two keys have the same text"):
            made.call({"which": which}, ToolContext(None))
    assert made.call({"which": 3}, ToolContext(None)) == '{"1": "a", "2.5": "b", "null": "c"}'


def test_a_number_that_is_not_exact_is_refused() -> None:
    def big(number: int) -> str:
        return str(number)

    with pytest.raises(ToolError, match="whole number"):
        tool(big).call({"number": 9007199254740992.0}, ToolContext(None))
    assert tool(big).call({"number": 9007199254740991.0}, ToolContext(None)) == "9007199254740991"
