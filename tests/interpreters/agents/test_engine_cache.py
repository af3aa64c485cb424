"""Sessions of the same options share a configuration and an engine, and no others do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from cognition import AgentConfig, Limits, LLMEngine, Policy, RetryPolicy, Rule
from interpreters import Agent, fakes, tool
from interpreters.agents import session_builder as alike
from interpreters.agents.options import AgentOptions, config_fields, fill


@tool(read_only=True)
def look(what: str) -> str:
    """Look at something."""
    return what


def agent(**options: Any) -> Agent:
    return Agent(fakes.ScriptedModel(["Hi."] * 9), **options)


def engine(of: Agent) -> object:
    return of._interpreter.driver.engine


def test_sessions_begun_alike_share_their_configuration_and_engine() -> None:
    one, other = agent(tools=[look], system="Be brief."), agent(tools=[look], system="Be brief.")

    assert one.config is other.config
    assert engine(one) is engine(other)
    assert one.run("Hello").text == other.run("Hello").text == "Hi."
    assert one.state.history == other.state.history
    assert one.session != other.session


@pytest.mark.parametrize(
    "options",
    [
        {"system": "Be long."},
        {"tools": []},
        {"limits": Limits(steps=3)},
        {"features": ("tasks",)},
        {"policy": Policy((Rule("deny", "look"),))},
        {"context_tokens": 5000},
        {"hooks": {"stop": lambda text: None}},
        {"retry": RetryPolicy(attempts=1)},
    ],
)
def test_whoever_differs_in_one_option_gets_its_own(options: dict[str, Any]) -> None:
    usual = {"tools": [look], "system": "Be brief."}
    one = agent(**usual)
    other = agent(**usual | options)

    assert one.config != other.config
    assert engine(other).config == other.config  # type: ignore[attr-defined]  # an LLMEngine
    assert agent(**usual).config == one.config


def test_a_list_that_changes_between_two_sessions_is_read_anew() -> None:
    features: Any = ["tasks"]
    one = agent(features=features, ask=lambda _: ())
    features.append("questions")
    other = agent(features=features, ask=lambda _: ())

    assert (one.config.features, other.config.features) == (("tasks",), ("tasks", "questions"))


def test_an_engine_of_ones_own_is_made_for_each_session() -> None:
    class Own(LLMEngine):
        pass

    assert engine(agent(engine=Own)) is not engine(agent(engine=Own))


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "context_tokens": st.sampled_from([4096, 8192]),
    "limits": st.sampled_from([Limits(), Limits(steps=2), Limits(steps=2)]),
    "features": st.sampled_from([(), ("tasks",), ["tasks"], ("tasks", "plan")]),
    "recall_first": st.sampled_from([False]),
    "policy": st.sampled_from([Policy(), Policy((Rule("deny", "look"),))]),
}


@given(
    st.lists(st.tuples(st.sampled_from(["", "Be brief.", "Be " + "brief."]), st.fixed_dictionaries(VALUES)), max_size=6)
)
def test_what_is_shared_is_what_would_have_been_made(begun: list[tuple[str, dict[str, Any]]]) -> None:
    for system, options in begun:
        fields = config_fields(fill(options, AgentOptions))
        fields["protocol"] = "native"

        assert alike.config_of(system, (look.spec,), (), fields) == AgentConfig(system, (look.spec,), **fields)
