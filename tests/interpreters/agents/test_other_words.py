"""Words of other frameworks lead to those of cogstep, and mistakes of a first program are explained in words."""

import asyncio
import copy
import pickle
import re
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from hypothesis import given, strategies as st

import cogstep
from cognition import ConfigError
from interpreters import Agent, AsyncAgent, fakes, tool
from interpreters.agents._other_words import OPTIONS, RESULTS
from interpreters.agents.options import AgentOptions, declared_options
from interpreters.agents.structured_answers import AnswerError, answer_type
from interpreters.observing.events import Event, WarningRaised

KINDS: Any = [Agent, AsyncAgent]

LEADS = [
    ("instructions", "system="),
    ("system_prompt", "system="),
    ("output_type", "returns="),
    ("result_type", "returns="),
    ("response_model", "returns="),
    ("max_turns", "Limits(steps="),
    ("max_iterations", "Limits(steps="),
    ("recursion_limit", "Limits(steps="),
    ("message_history", "import_messages("),
    ("messages", "import_messages("),
    ("callbacks", "observers="),
    ("checkpointer", "journal="),
    ("stream", "agent.stream("),
    ("thread_id", "session="),
    ("session_id", "session="),
    ("name", "session="),
    ("interrupt_before", "approve="),
    ("handoffs", "workers"),
    ("guardrails", "policy="),
    ("deps_type", "deps="),
    ("toolsets", "tools="),
    ("functions", "tools="),
    ("llm", "load_model("),
    ("model_settings", "GenerationOptions("),
    ("usage_limits", "Limits("),
    ("timeout", "Limits(seconds="),
    ("mcp_servers", "MCPServers("),
    ("verbose", "observers=[print]"),
    ("retries", "RetryPolicy("),
    ("temperature", "options=GenerationOptions(temperature="),
]


def model() -> fakes.FunctionModel:
    return fakes.FunctionModel(lambda request: "Yes.")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("word", "ours"), LEADS)
def test_a_word_of_another_framework_leads_to_ours(kind: Any, word: str, ours: str) -> None:
    with pytest.raises(ConfigError) as raised:
        kind(model(), **{word: 1})

    assert str(raised.value).startswith(f"{kind.__name__} has no option {word!r}; ")
    assert ours in str(raised.value)


@pytest.mark.parametrize("word", OPTIONS)
def test_no_word_is_one_of_ours(word: str) -> None:
    """A word of the table that becomes an option would still be accepted, but the table would be wrong."""
    assert word not in (*declared_options(AgentOptions), "model", "tools", "system", "returns")


@pytest.mark.parametrize("meaning", sorted({*OPTIONS.values(), *RESULTS.values()}))
def test_a_meaning_names_only_what_exists(meaning: str) -> None:
    """Each option with ``=`` is an agent's or a method's, and each class is a public name."""
    options = {*declared_options(AgentOptions), "model", "tools", "system", "returns"}
    of_classes = {"steps", "seconds", "attempts", "corrections", "retries", "approval", "backends"}
    named = set(re.findall(r"\b([a-z_]+)=", meaning))
    classes = set(re.findall(r"\b([A-Z][A-Za-z]+)\(", meaning)) | set(re.findall(r"\b([a-z]+_[a-z]+)\(", meaning))

    assert named <= options | of_classes
    assert [name for name in classes if not hasattr(cogstep, name)] == []


@pytest.mark.parametrize("word", ["output_type", "max_turns"])
def test_a_resume_and_a_fork_lead_too(word: str) -> None:
    for method in (Agent.resume, Agent.fork):
        with pytest.raises(ConfigError, match=rf"Agent\.{method.__name__} has no option '{word}'; "):
            method("nowhere.jsonl", model(), **{word: 1})  # type: ignore[arg-type]  # what is tested


@pytest.mark.parametrize(
    ("word", "ours"),
    [
        ("message_history", "import_messages("),
        ("output_type", "returns="),
        ("stream", "agent.stream("),
        ("deps", r"the agent takes it: Agent(..., deps=...)"),
        ("limits", r"the agent takes it: Agent(..., limits=...)"),
        ("tools", r"the agent takes it: Agent(..., tools=...)"),
        ("wibble", "there are text and returns"),
    ],
)
def test_run_and_stream_lead_too(word: str, ours: str) -> None:
    """Nothing of the turn has begun."""
    agent: Any = Agent(model())
    other: Any = AsyncAgent(model())
    with agent:
        for method in (agent.run, agent.stream):
            with pytest.raises(ConfigError) as raised:
                method("Hi", **{word: 1})
            assert ours in str(raised.value)
            assert f"Agent.{method.__name__} has no option {word!r}" in str(raised.value)
        assert len(agent.state.history) == 0

    async def use() -> None:
        async with other:
            with pytest.raises(ConfigError, match=r"AsyncAgent\.run has no option"):
                await other.run("Hi", **{word: 1})
            with pytest.raises(ConfigError, match=r"AsyncAgent\.stream has no option"):
                other.stream("Hi", **{word: 1})

    asyncio.run(use())


@given(st.text(max_size=20).filter(lambda word: word not in ("model", "tools", "system", "text", "returns", "self")))
def test_any_unknown_word_is_refused_in_words(word: str) -> None:
    agent: Any = Agent
    if word not in declared_options(AgentOptions):
        with pytest.raises(ConfigError, match="has no option"):
            agent(model(), **{word: 1})
    with agent(model()) as made, pytest.raises(ConfigError, match=r"Agent\.run has no option"):
        made.run("Hi", **{word: 1})


@tool
def search(words: str) -> str:
    """Search."""
    return words


def plain(words: str) -> str:
    """Search."""
    return words


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("tools", "said"),
    [
        (search, r"tools must be a list; write tools=\[search\]"),
        (plain, r"tools must be a list; write tools=\[plain\]"),
        (lambda words: words, r"tools must be a list; write tools=\[function\]"),
        ("search", "tools is the name 'search'; pass the function itself"),
        (["search"], r"tools\[0\] is the name 'search'; pass the function itself"),
        ([plain, {"type": "function"}], r"tools\[1\] is a description, not a function; pass the function.* ToolSpec\("),
        ({"search": search}, "tools must be a list; its functions bring their own names"),
        (None, "tools must be a list, not None"),
        ([3], r"tools\[0\] must be a Tool or a ToolSpec or a function, not 3"),
    ],
)
def test_tools_that_are_no_list_of_functions(kind: Any, tools: Any, said: str) -> None:
    for given_tools in ((model(), tools), (model(),)):
        with pytest.raises(ConfigError, match=f"{kind.__name__}: {said}"):
            kind(*given_tools) if len(given_tools) == 2 else kind(*given_tools, tools=tools)


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("value", "the turn had no returns=: run(text, returns=City)"),
        ("output", "result.text"),
        ("final_output", "result.text"),
        ("content", "result.text"),
        ("tool_calls", "result.calls"),
        ("all_messages", "result.messages"),
        ("error", "result.outcome"),
        ("cost", "result.usage"),
    ],
)
def test_an_attribute_of_another_result_leads_to_ours(name: str, ours: str) -> None:
    with Agent(model()) as agent:
        result = agent.run("Hi")
    with pytest.raises(AttributeError) as raised:
        getattr(result, name)

    assert str(raised.value).startswith(f"a RunResult has no attribute {name!r}; ")
    assert ours in str(raised.value)
    assert not hasattr(result, name)


def test_a_result_still_copies_and_pickles() -> None:
    with Agent(model()) as agent:
        result = agent.run("Hi")

    assert copy.deepcopy(result) == pickle.loads(pickle.dumps(result)) == copy.copy(result) == result
    with pytest.raises(AttributeError, match=r"^a RunResult has no attribute 'wibble'$"):
        result.wibble  # type: ignore[attr-defined]  # noqa: B018 - what is tested


@dataclass
class City:
    name: str


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        (City, "Paris.", "the answer is no JSON, which City needs (it is plain text): 'Paris.'"),
        (
            list[int],
            "[1, 2",
            "the answer is no JSON, which list[int] needs (line 1, column 6: Expecting ',' delimiter)",
        ),
        (Literal["a", "b"], "a", "the answer is no JSON, which Literal['a', 'b'] needs (it is plain text): 'a'"),
        (dict[str, int], '{"a": 1, "a": 2}', "the answer is no JSON, which dict[str, int] needs ("),
    ],
)
def test_an_answer_that_is_no_json_is_explained(kind: Any, text: str, said: str) -> None:
    """It names the type, and where the text goes wrong."""
    with Agent(fakes.FunctionModel(lambda request: text), limits=cogstep.Limits(corrections=0)) as agent:
        result = agent.run("Where?", returns=kind)
    with pytest.raises((AnswerError, cogstep.TurnFailedError)) as raised:
        result.value  # noqa: B018 - what is tested

    assert said in str(raised.value)


def test_an_empty_answer_is_called_empty() -> None:
    with pytest.raises(AnswerError, match=r"City needs \(it is empty\): ' '"):
        answer_type(City).read(" ")


def undescribed(n: int) -> int:
    return n


def warnings_of(*tools: Any) -> list[str]:
    seen: list[Event] = []
    with Agent(model(), tools, observers=[seen.append]) as agent:
        agent.run("Hi")
    return [event.value.message for event in seen if isinstance(event.value, WarningRaised)]


def test_a_tool_without_a_docstring_is_warned_of() -> None:
    """The model chooses tools by their descriptions."""
    (warning,) = warnings_of(undescribed, search)

    assert warning.startswith("the tool 'undescribed' has no description")
    assert "write a docstring" in warning


def test_a_description_by_itself_is_enough() -> None:
    """One that is given to ``@tool``; and a tool that runs elsewhere is described by its owner."""
    described = tool(description="Return a number.")(undescribed)

    assert warnings_of(described, cogstep.ToolSpec("elsewhere")) == []
