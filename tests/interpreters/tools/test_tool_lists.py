"""OpenAI's lists of tools: parted into the program's own and others, with all that is wrong told and nothing raised."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from cognition import ConfigError, ToolSpec
from interpreters import Agent, ListProblem, Suspended, Tool, ToolList, read_tools, tool
from interpreters.testing.fakes import ScriptedModel, call

TEXT = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
NOTHING: dict[str, Any] = {"type": "object", "properties": {}}


@tool
def bash(command: str) -> str:
    """Run a command."""
    return f"ran {command}"


def chat(name: Any, parameters: Any = None, **more: Any) -> dict[str, Any]:
    """A definition as chat completions have it."""
    inner = {"name": name, **({} if parameters is None else {"parameters": parameters}), **more}
    return {"type": "function", "function": inner}


def responses(name: Any, parameters: Any = None, **more: Any) -> dict[str, Any]:
    """A definition as responses have it."""
    return {"type": "function", **chat(name, parameters, **more)["function"]}


forms = pytest.mark.parametrize("form", [chat, responses])


def deep(levels: int, inner: Any = None) -> str:
    return '{"a":' * levels + json.dumps(inner) + "}" * levels


def test_ours_run_others_are_handed_out_and_what_is_no_json_is_told() -> None:
    read = read_tools([chat("bash", TEXT), '{"type": "function", ', chat("browser_open", TEXT)], [bash])

    assert [one.spec.name for one in read.internal] == ["bash"]
    assert read.internal[0] is bash
    assert read.external == (ToolSpec("browser_open", parameters=TEXT),)
    (problem,) = read.problems
    assert (problem.place, problem.name, problem.left_out) == (1, "", True)
    assert problem.problem.startswith("it is no JSON: ")
    assert str(problem).startswith("tool 1: it is no JSON")


@forms
@pytest.mark.parametrize(
    "wrap",
    [
        lambda items: items,
        tuple,
        json.dumps,
        lambda items: json.dumps(items).encode(),
        lambda items: bytearray(b"\xef\xbb\xbf" + json.dumps(items).encode()),
        lambda items: "\ufeff" + json.dumps({"tools": items, "model": "m"}),
        lambda items: {"tools": items},
        lambda items: [json.dumps(one) for one in items],
        lambda items: [json.dumps(one).encode() for one in items],
    ],
)
def test_both_forms_are_read_as_text_bytes_or_values_in_their_order(form: Any, wrap: Any) -> None:
    items = [form("z", TEXT, description="The last."), form("bash", TEXT), form("a"), form("b", None, strict=True)]

    read = read_tools(wrap(items), [bash])

    assert read.problems == ()
    assert [one.name if isinstance(one, ToolSpec) else one.spec.name for one in read.tools] == ["z", "bash", "a", "b"]
    z, a, b = read.external
    assert (z.description, z.parameters) == ("The last.", TEXT)
    assert (a.parameters, b.parameters) == (NOTHING, NOTHING)
    assert read.internal == (bash,)


@pytest.mark.parametrize(
    ("definitions", "told"),
    [
        ("[", "it is no JSON: "),
        (b"\xff", "it is no UTF-8: "),
        ("7", "this is no list of tools"),
        (None, "this is no list of tools"),
        ({"functions": []}, "this is no list of tools"),
        ({"tools": "x"}, "this is no list of tools"),
        ('{"tools": [], "tools": []}', "it has the key 'tools' twice"),
        ("[" * 100_000, "it is no JSON: "),
        ("[" * 100_000 + "]" * 100_000, "it can't be read|it has to be an object"),
        (object(), "this is no list of tools"),
    ],
)
def test_what_is_no_list_is_told(definitions: Any, told: str) -> None:
    read = read_tools(definitions, [bash])

    assert read.tools == ()
    (problem,) = read.problems
    assert any(problem.problem.startswith(one) for one in told.split("|"))


CIRCLE: dict[str, Any] = {"type": "object"}
CIRCLE["properties"] = {"a": CIRCLE}
DEEP: Any = "end"
for _ in range(100_000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("item", "name", "told"),
    [
        (None, "", "it has to be an object, not null"),
        (7, "", "it has to be an object, not int"),
        ([], "", "it has to be an object, not list"),
        ("", "", "it is no JSON: "),
        ("7", "", "it has to be an object, not int"),
        (b"\xff", "", "it is no UTF-8: "),
        ({}, "", "it has no type, and only 'function' is known here"),
        ({"name": "a"}, "a", "it has no type, and only 'function' is known here"),
        ({"type": ["function"], "name": "a"}, "a", "it has no type"),
        ({"type": "web_search_preview"}, "", "its type is 'web_search_preview', and only 'function' is known here"),
        ({"type": "custom", "custom": {"name": "a"}}, "", "its type is 'custom'"),
        ({"type": "function"}, "", "it has no name"),
        ({"type": "function", "function": None}, "", "'function' has to be an object, not null"),
        ({"type": "function", "function": "x"}, "", "'function' has to be an object, not str"),
        (chat(None), "", "it has no name"),
        (chat(7), "", "its name has to be a text, not int"),
        (chat(""), "", "tool name ''"),
        (chat("a b"), "a b", "tool name 'a b': use 1 to 64 letters"),
        (chat("x" * 1000), "x" * 80, "tool name"),
        (chat("a", description=7), "a", "its description has to be a text, not int"),
        (chat("a", "{}"), "a", "its parameters have to be the JSON Schema of an object, not str"),
        (chat("a", [1]), "a", "its parameters have to be the JSON Schema of an object, not list"),
        (chat("a", {"type": "string"}), "a", 'the JSON Schema of an object, and their type is "string"'),
        (chat("a", {"type": ["object", "null"]}), "a", 'their type is ["object", "null"]'),
        (chat("a", {"type": "object", "properties": {"b": {"type": "no"}}}), "a", "no JSON Schema"),
        (chat("a", {"type": "object", "default": float("nan")}), "a", "have to be JSON"),
        (chat("a", {"type": "object", "default": object()}), "a", "have to be JSON"),
        (chat("a", {"type": "object", "default": 10**5000}), "a", "have to be JSON"),
        (chat("a", {"type": "object", "default": DEEP}), "a", "have to be JSON"),
        (chat("a", CIRCLE), "a", "have to be JSON"),
        (json.dumps(chat("a"))[:-2] + ', "name": "b"}}', "", "it can't be read: it has the key 'name' twice"),
        ('{"type": "function", "type": "function"}', "", "it has the key 'type' twice"),
        (f'{{"type": "function", "name": "a", "parameters": {deep(100_000)}}}', "a", "its parameters can't be read"),
        (f'{{"type": "function", "name": {deep(100_000)}}}', "", "its name can't be read: it is nested too deeply"),
        ('{"type": "function", "name": "a", "parameters": {"default": NaN}}', "a", "it holds NaN, which is no JSON"),
        ('{"type": "function", "name": "a", "parameters": {"a": ' + "9" * 5000 + "}}", "a", "a number of 5000 digits"),
        ({"type": "function", "name": "a", "parameters": json.loads(deep(200))}, "a", "nested too deeply"),
    ],
)
def test_what_can_not_be_used_is_told_with_its_place_and_the_others_are_there(item: Any, name: str, told: str) -> None:
    read = read_tools([chat("before"), item, chat("after")])

    assert [one.name for one in read.external] == ["before", "after"]
    (problem,) = read.problems
    assert (problem.place, problem.name, problem.left_out) == (1, name, True)
    assert told in problem.problem
    assert len(problem.problem) <= 1000


def test_of_two_of_one_name_the_first_is_there() -> None:
    read = read_tools([chat("a", TEXT), chat("a"), chat("bash", TEXT), responses("bash", TEXT)], [bash])

    assert (len(read.external), len(read.internal)) == (1, 1)
    assert read.external[0].parameters == TEXT
    assert [(one.place, one.problem) for one in read.problems] == [
        (1, "tool 0 has this name already"),
        (3, "tool 2 has this name already"),
    ]


def test_ours_runs_though_the_list_says_other_parameters_and_that_is_told() -> None:
    read = read_tools([chat("bash")], [bash])

    assert read.tools == (bash,)
    (problem,) = read.problems
    assert (problem.place, problem.name, problem.left_out) == (0, "bash", False)
    assert "the one that runs" in problem.problem


def test_what_is_wrong_with_a_definition_of_ours_leaves_it_out() -> None:
    """Whoever sent it believes that the tool is another one."""
    assert read_tools([chat("bash", {"type": "string"})], [bash]).tools == ()


def test_ours_are_tools_that_run_each_of_a_name_of_its_own() -> None:
    for wrong in (None, 5, "bash", {"bash": 1}, [5], [None]):
        with pytest.raises(ConfigError, match="ours must be a list of tools"):
            read_tools([], wrong)  # type: ignore[arg-type]  # that is the test
    with pytest.raises(ConfigError, match="two tools are named 'bash'"):
        read_tools([], [bash, bash])
    with pytest.raises(ConfigError, match="'a' is a ToolSpec, and nothing that could run"):
        read_tools([], [ToolSpec("a")])


def test_an_empty_list_has_nothing() -> None:
    assert read_tools([]) == read_tools("[]") == ToolList()


def test_an_agent_takes_them_as_they_are() -> None:
    read = read_tools([chat("browser_open", TEXT), chat("bash", TEXT)], [bash])
    model = ScriptedModel([call("bash", command="ls"), call("browser_open", command="x"), "Done."])
    with Agent(model, read.tools) as agent:
        result = agent.run("Go!")
        assert isinstance(result.outcome, Suspended)
        (pending,) = result.pending
        done = agent.answer(pending.effect_id, "opened")

    assert [one.content for one in done.calls] == ["ran ls", "opened"]


# ------------------------------------------------------------------------------------------------------ whatever comes

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | st.binary(max_size=6)
KEYS = st.sampled_from(("type", "function", "name", "description", "parameters", "properties", "$ref")) | st.text(
    max_size=3
)
ANYTHING = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=20
)
NAMES = st.sampled_from(("a", "b", "bash", "a b", "")) | ANYTHING
SCHEMAS = st.sampled_from((TEXT, NOTHING, {}, None, {"type": "array"}, {"properties": {"a": {"$ref": "#"}}})) | ANYTHING
NEARLY = st.builds(chat, NAMES, SCHEMAS) | st.builds(responses, NAMES, SCHEMAS, description=ANYTHING)
TYPED = st.builds(lambda one, sort: {**one, "type": sort}, NEARLY, st.just("function") | ANYTHING)
ITEMS = NEARLY | TYPED | ANYTHING | NEARLY.map(lambda one: json.dumps(one, default=str)) | st.text(max_size=20)


@given(st.lists(ITEMS, max_size=6))
def test_each_definition_is_a_tool_or_a_problem_in_its_place_whatever_it_is(items: list[Any]) -> None:
    """Pure: the same again gives the same."""
    read = read_tools(items, [bash])

    left_out = [one.place for one in read.problems if one.left_out]
    assert len(read.tools) + len(left_out) == len(items)
    assert left_out == sorted(set(left_out))
    assert all(one.problem for one in read.problems)
    names = [one.spec.name if isinstance(one, Tool) else one.name for one in read.tools]
    assert len(set(names)) == len(names)
    assert [one for one in read.internal if one is not bash] == []
    assert read_tools(items, [bash]) == read
    assert all(isinstance(one, ListProblem) for one in read.problems)


@given(st.text() | st.binary() | ANYTHING)
def test_whatever_is_given_for_a_list_raises_nothing(definitions: Any) -> None:
    read = read_tools(definitions, [bash])

    assert read.tools or read.problems or definitions in ([], {"tools": []}) or isinstance(definitions, str | bytes)
