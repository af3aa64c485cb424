"""The calls of a session as a contract: on a live agent, a result, a journal, a cassette."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from cognition import AssistantMessage, ToolCall, UserMessage
from interpreters import Agent, tool
from interpreters.recording.journal import NotAJournalError
from interpreters.testing.cassettes import Cassette, CassetteError
from interpreters.testing.contracts import (
    Called,
    ContractError,
    MadeCall,
    about,
    anything,
    assert_calls,
    called,
    calls_of,
    in_any_order,
    matching,
    of_type,
    one_of,
)
from interpreters.testing.fakes import ScriptedModel, call
from runtime import Runtime
from tests.interpreters.ways import Talk, every_way


@tool(read_only=True)
def look(city: str) -> str:
    """Look."""
    return f"sunny in {city}"


@tool(approval=True)
def pay(amount: float, note: str = "") -> str:
    """Pay."""
    return "paid"


SCRIPT: list[Any] = [
    [call("look", city="Oslo"), call("look", city="Rome")],
    call("pay", amount=3, note="for the ice"),
    "Done.",
]
CONTRACT: list[Any] = [
    in_any_order(called("look", city="Rome"), called("look", city=matching("^Os"))),
    called("pay", amount=about(3.0)).with_others(),
]


def talk(agent: Agent) -> Any:
    return agent.run("Go!")


# ----------------------------------------------------------------------------------------------------------- sessions


def test_a_contract_holds_for_an_agent_and_for_the_result_of_a_turn() -> None:
    """What was refused is a call too, and says so."""
    with Agent(ScriptedModel(SCRIPT), tools=[look, pay]) as agent:
        result = agent.run("Go!")
        for session in (agent, result, result.messages, agent.state.history):
            made = assert_calls(session, *CONTRACT[:1], CONTRACT[1].ended("refused", matching("nobody is here")))

    assert (made[0].status, made[0].content) == ("ok", "sunny in Oslo")


def test_a_contract_holds_for_a_journal_and_for_what_was_before_a_reset(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    with Agent(ScriptedModel(SCRIPT * 2), tools=[look, pay], approve=lambda request: True, journal=path) as agent:
        talk(agent)
        agent.reset()
        talk(agent)

    assert_calls(path, *CONTRACT, *CONTRACT)
    assert_calls(str(path), called("pay", amount=3).with_others().ended("ok", "paid"), others_allowed=True)
    assert_calls(agent, *CONTRACT)


def test_a_contract_holds_for_a_cassette(tmp_path: Path) -> None:
    """In its file or as it was played; how calls ended is not on it."""
    path = tmp_path / "c.json"
    with Cassette(path, "record") as cassette:
        model: Runtime = cassette.model(lambda: ScriptedModel(SCRIPT))
        with Agent(model, tools=[look, pay]) as agent:
            talk(agent)
        assert_calls(cassette, *CONTRACT)

    assert_calls(path, *CONTRACT)
    assert_calls(Cassette(path), *CONTRACT)
    with pytest.raises(ContractError, match=r"the status: expected 'ok', made None"):
        assert_calls(path, CONTRACT[0], CONTRACT[1].ended("ok"))


def test_what_is_no_session_says_so(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("something else")

    with pytest.raises(NotAJournalError):
        calls_of(tmp_path / "a")
    (tmp_path / "b").write_text('{"format": "cogstep-cassette"}')
    with pytest.raises(CassetteError):
        calls_of(tmp_path / "b")


def test_calls_without_a_result_and_without_arguments_are_calls() -> None:
    """As a session leaves them that broke off, and as a model writes them wrongly."""
    calls = (ToolCall("1", "look", "{"), ToolCall("2", "pay", "[1]"))
    replies = (AssistantMessage("m2", calls=calls), AssistantMessage("m3", calls=calls))
    made = calls_of([UserMessage("m1", "Hi!"), *replies])

    assert (MadeCall("look", "{"), MadeCall("pay", [1])) * 2 == made
    with pytest.raises(ContractError, match=r"the arguments are no object: '\{'"):
        assert_calls([AssistantMessage("m2", calls=calls[:1])], called("look"))


# ----------------------------------------------------------------------------------------------------------- messages


def made(*calls: Any) -> list[AssistantMessage]:
    return [AssistantMessage("m", calls=tuple(ToolCall(str(i), c.name, c.arguments_json) for i, c in enumerate(calls)))]


def test_a_failure_shows_both_sequences_side_by_side() -> None:
    session = made(call("look", city="Oslo"), call("pay", amount=4), call("look", city="Bonn"))

    with pytest.raises(ContractError) as caught:
        assert_calls(session, called("look", city="Oslo"), called("pay", amount=about(3.0)), called("sell"))

    assert str(caught.value).splitlines() == [
        "the calls are not those of the contract (3 expected, 3 made)",
        "  expected                   made",
        "  look(city='Oslo')       =  look(city='Oslo')",
        "  pay(amount=about(3.0))  ≠  pay(amount=4)",
        "      amount: expected about(3.0), made 4",
        "                          +  look(city='Bonn')",
        "      made, and not expected here",
        "  sell()                  -",
        "      expected, and not made here",
    ]


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        (called("sell", amount=3, note="a"), "expected, and not made"),
        (called("pay", amount=3), "note: not expected, made 'a'"),
        (called("pay", amount=3, note="a", to="me"), "to: expected 'me', made without it"),
        (called("pay", amount=4).with_others(), "amount: expected 4, made 3"),
        (called("pay").with_others().ended("ok"), "the status: expected 'ok', made None"),
        (called("pay").with_others().ended(anything, "paid"), "the result: expected 'paid', made None"),
    ],
    ids=str,
)
def test_each_difference_is_named(wanted: Called, problem: str) -> None:
    with pytest.raises(ContractError, match=problem):
        assert_calls(made(call("pay", amount=3, note="a")), wanted)


def test_order_matters_unless_it_is_said_not_to() -> None:
    session = made(call("a"), call("b"), call("c"))
    a, b, c = called("a"), called("b"), called("c")

    assert_calls(session, a, b, c)
    assert_calls(session, in_any_order(c, a, b))
    assert_calls(session, a, in_any_order(c, b))
    assert_calls(session, a, c, others_allowed=True)
    assert_calls(session, in_any_order(c, a), others_allowed=True)
    for wrong in ([a, c, b], [a, b], [a, b, c, c], [in_any_order(a, c), b], []):
        with pytest.raises(ContractError):
            assert_calls(session, *wrong)
    with pytest.raises(ContractError):
        assert_calls(session, c, a, others_allowed=True)
    assert assert_calls([]) == ()


def test_calls_in_any_order_find_their_places_where_there_are_any() -> None:
    """A call that fits several expected ones takes none away from another."""
    session = made(call("a", n=1), call("a", n=2))

    assert_calls(session, in_any_order(called("a", n=anything), called("a", n=1)))
    assert_calls(session, in_any_order(called("a", n=1), called("a", n=anything)))
    with pytest.raises(ContractError, match="n: expected 3, made 2"):
        assert_calls(session, in_any_order(called("a", n=anything), called("a", n=3)))


# ----------------------------------------------------------------------------------------------------------- matchers


@pytest.mark.parametrize(
    ("matcher", "equal", "unequal", "shown"),
    [
        (anything, [None, 1, "a", []], [], "anything"),
        (matching("a.c"), ["abc", "xaxcx"], ["ab", "", None, 5, b"abc"], "matching('a.c')"),
        (about(3.0), [3, 3.0000001], [3.1, "3", True, None], "about(3.0)"),
        (about(3, within=0.5), [2.5, 3.5], [2.4], "about(3, within=0.5)"),
        (one_of("a", about(1)), ["a", 1], ["b", 2], "one_of('a', about(1))"),
        (of_type(int), [1], [True, 1.0, "1"], "of_type(int)"),
        (of_type(bool), [True], [1], "of_type(bool)"),
    ],
    ids=str,
)
def test_matchers_equal_what_they_accept(matcher: Any, equal: list[Any], unequal: list[Any], shown: str) -> None:
    assert all(matcher == value and value == matcher for value in equal)
    assert not any(matcher == value for value in unequal)
    assert (shown, True) == (repr(matcher), matcher == matcher)


def test_matchers_stand_anywhere_also_those_of_other_libraries() -> None:
    session = made(call("plot", points=[{"x": 1.00000001, "y": 2}], title="A plot"))

    assert_calls(session, called(matching("^pl"), points=[{"x": pytest.approx(1), "y": of_type(int)}], title=anything))


# --------------------------------------------------------------------------------------------------------- properties

letters = st.sampled_from("abc")


@given(st.lists(letters, max_size=5), st.lists(letters, max_size=5))
def test_a_contract_of_plain_calls_is_the_comparison_of_lists(expected: list[str], calls: list[str]) -> None:
    """And with others allowed, that of a subsequence."""
    session, contract = made(*map(call, calls)), [called(name) for name in expected]
    remaining = iter(calls)

    assert (expected == calls) == holds(session, contract)
    assert all(name in remaining for name in expected) == holds(session, contract, others_allowed=True)


@given(st.lists(st.lists(letters | st.just("?"), max_size=3), max_size=2), st.lists(letters, max_size=5))
def test_groups_hold_exactly_where_some_order_of_them_does(groups: list[list[str]], calls: list[str]) -> None:
    """The quick search for places finds one whenever there is one: compared with trying all orders. ``?`` fits all."""
    contract = [in_any_order(*(called(anything if name == "?" else name) for name in group)) for group in groups]
    orders = itertools.product(*(itertools.permutations(group) for group in groups))

    def fits(order: tuple[tuple[str, ...], ...]) -> bool:
        names = [name for group in order for name in group]
        return len(names) == len(calls) and all(name in ("?", made) for name, made in zip(names, calls, strict=True))

    assert any(map(fits, orders)) == holds(made(*map(call, calls)), contract)


def holds(session: Any, contract: list[Any], **options: Any) -> bool:
    try:
        assert_calls(session, *contract, **options)
    except ContractError:
        return False
    return True


@every_way
def test_a_contract_holds_for_both_kinds_of_agents(talk: Any) -> None:
    agents: list[Any] = []
    said: Talk = talk(ScriptedModel(SCRIPT), "Go!", tools=[look, pay], use=agents.append)

    assert_calls(agents[0], *CONTRACT)
    assert_calls(said.results[0], *CONTRACT)
