"""A session's state is a value: kept anywhere by the program, and gone on with from any place of a turn."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings, strategies as st

from cognition import (
    NO_RULES,
    AgentState,
    AskApproval,
    AssistantMessage,
    CallModel,
    CallTool,
    Closed,
    CogstepError,
    Completed,
    ConfigError,
    EchoEngine,
    EffectId,
    History,
    Idle,
    LLMEngine,
    SpawnWorker,
    StartTimer,
    ToolCall,
    ToolMessage,
    ToolSpec,
    Usage,
    UserMessage,
    from_data,
    to_data,
)
from cognition.steps.phases import Acting, AwaitingApproval, CallSlot, Hooked, ModelAttempt, Thinking
from cognition.steps.state import Counters, Spent, Summary, Window
from cognition.testing._world import World, take
from cognition.testing.strategies import configs, inputs
from interpreters import Agent, AsyncAgent, PendingError, replay
from interpreters.agents._state_restore import check_state, in_flight_of
from interpreters.testing._promising import in_a_process
from interpreters.testing.fakes import FunctionModel, ScriptedModel, call
from tests.interpreters.agents.test_resume import Thinking as ThinkingModel, World as Things
from tests.interpreters.test_later import CASES, options, resumed, tools_of
from tests.interpreters.thinking import FEATURES


def kept(state: AgentState) -> AgentState:
    """As a program gets it back from wherever it kept it."""
    back = from_data(json.loads(json.dumps(to_data(state))), AgentState)
    assert isinstance(back, AgentState)
    return back


def alike(effect: Any) -> Any:
    """An effect without what a state does not hold: how long a timer runs or a model call may take, what was left for
    a worker, why a person was asked where the answer would be another by now, and the access rules of an earlier mode.
    """
    match effect:
        case CallModel(seconds=seconds):
            return evolve(effect, seconds=None), seconds is None
        case StartTimer():
            return evolve(effect, seconds=0.0)
        case AskApproval():
            return evolve(effect, reason="", access=NO_RULES)
        case CallTool():
            return evolve(effect, access=NO_RULES)
        case SpawnWorker(effect_id=effect_id, worker=worker):
            return effect_id, worker
        case _:
            return effect


@pytest.mark.behaviour("P16s")
@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(configs(), st.data())
def test_what_is_in_flight_follows_from_the_state(config: Any, data: st.DataObject) -> None:
    """In every situation that an engine of any configuration gets into; and each of them is one to begin with."""
    engine, world = LLMEngine(config), World()
    for _ in range(data.draw(st.integers(0, 15))):
        world = take(engine, world, data.draw(inputs(world, config))).after
        if isinstance(world.state.phase, Closed):
            return
        state = kept(world.state)
        check_state(state)
        assert list(map(alike, in_flight_of(engine, state).values())) == list(map(alike, world.open))


def states_of_a_session(things: Things) -> list[AgentState]:
    """Every state that a turn with everything in it passes through, as observers might keep them."""
    states: list[AgentState] = []

    class Watched(LLMEngine):
        def step(self, state: AgentState, input: Any) -> Any:
            transition = super().step(state, input)
            states.append(transition.next_state)
            return transition

    given: dict[str, Any] = things.options()
    with Agent(ThinkingModel(), things.tools(), features=FEATURES, engine=Watched, session="s", **given) as agent:
        agent.run("Go!")
    return [state for state in states if state.history[0] == UserMessage("m1", "Go!")]  # no worker


def goes_on_in_sync(state: AgentState, things: Things, journal: Path | None) -> str:
    given = {**things.options(), "features": FEATURES, "state": state, "journal": journal}
    with Agent(ThinkingModel(), things.tools(), **given) as agent:
        if agent.unfinished:
            assert agent.resume_turn().outcome == Completed("All is done.")
        return agent.run("And again!").text


def goes_on_in_asyncio(state: AgentState, things: Things, journal: Path | None) -> str:
    async def main() -> str:
        given = {**things.options(), "features": FEATURES, "state": state, "journal": journal}
        async with AsyncAgent(ThinkingModel(), things.tools(), **given) as agent:
            if agent.unfinished:
                assert (await agent.resume_turn()).outcome == Completed("All is done.")
            return (await agent.run("And again!")).text

    return asyncio.run(main())


@pytest.mark.behaviour("P16s")
@pytest.mark.parametrize("goes_on", [goes_on_in_sync, goes_on_in_asyncio])
def test_a_session_goes_on_from_every_state_of_a_turn(goes_on: Callable[..., str], tmp_path: Path) -> None:
    """A payment that may have happened is not made again; and a recording that begins there replays."""
    for number, state in enumerate(states_of_a_session(Things())):
        for journal in (None, tmp_path / f"{number}.jsonl"):
            things = Things()
            assert goes_on(kept(state), things, journal) == "All is done."
            assert things.happened["pay"] <= 2, "once in each turn"
            if journal is not None:
                assert replay(journal).raise_for_divergence().state.phase == Idle()


@pytest.mark.behaviour("P16s")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("recorded", [False, True])
def test_what_waits_in_a_kept_state_is_answered_in_another_process(name: str, recorded: bool, tmp_path: Path) -> None:
    case, tools, row = CASES[name], tools_of(tmp_path), tmp_path / "row.json"
    journal = tmp_path / "s.jsonl" if recorded else None

    def asks() -> None:
        with Agent(ScriptedModel([case.call]), tools, **options()) as agent:
            assert agent.run("Go!").pending
            row.write_text(json.dumps(to_data(agent.state)))

    def answers() -> None:
        state = from_data(json.loads(row.read_text()), AgentState)
        given = {**options(), "state": state, "journal": journal}
        with Agent(ScriptedModel(["Done."]), tools, **given) as agent:
            (effect,) = agent.pending
            assert isinstance(effect, case.effect)
            assert agent.unfinished
            with pytest.raises(PendingError):
                agent.run("And now?")
            result = agent.answer(effect.effect_id, case.answer)
            assert (result.text, result.pending, agent.pending) == ("Done.", (), ())
            assert [case.result] == [m.content for m in agent.state.history if isinstance(m, ToolMessage)]

    in_a_process(asks)
    in_a_process(answers)

    assert ("3\n" if case.result == "paid 3" else "") == _paid(tmp_path)
    if journal is not None:
        assert replay(journal).raise_for_divergence().state.phase == Idle()


@pytest.mark.behaviour("P16s")
@pytest.mark.parametrize("name", CASES)
def test_what_waits_in_a_state_waits_in_the_recording_that_begins_with_it(name: str, tmp_path: Path) -> None:
    """Nothing has happened in it yet, and it is resumed."""
    case, tools, journal = CASES[name], tools_of(tmp_path), tmp_path / "s.jsonl"
    with Agent(ScriptedModel([case.call]), tools, **options()) as agent:
        agent.run("Go!")
        pending = agent.pending
    with Agent(ScriptedModel([]), tools, state=kept(agent.state), journal=journal, **options()) as agent:
        assert agent.pending == pending

    with Agent.resume(journal, ScriptedModel(["Done."]), tools, **resumed()) as agent:
        assert agent.pending == pending
        assert agent.answer(pending[0].effect_id, case.answer).text == "Done."


def _paid(folder: Path) -> str:
    return (folder / "paid").read_text() if (folder / "paid").exists() else ""


USER, REPLY = UserMessage("m1", "Go!"), AssistantMessage("m2", "", calls=(ToolCall("call-1-1-1", "pay"),))
RESULT = ToolMessage("m3", "call-1-1-1", "pay", "paid")
ASKED = Acting((CallSlot(REPLY.calls[0], AwaitingApproval(EffectId("1.1.1"))),))
UNREADABLE = Acting((CallSlot(ToolCall("call-1-1-1", "pay", "{"), ASKED.slots[0].status),))


def renamed(name: str) -> AssistantMessage:
    return evolve(REPLY, calls=(ToolCall("call-1-1-1", name),))


IN_ORDER = AgentState(History((USER, REPLY, RESULT)), counters=Counters(1, 2, 1, 3))
WAITING = AgentState(History((USER, REPLY)), ASKED, Counters(1, 1, 2, 2))


@pytest.mark.behaviour("P16s")
@pytest.mark.parametrize(
    ("state", "told"),
    [
        (evolve(IN_ORDER, phase=Closed()), "closed for good"),
        (evolve(IN_ORDER, window=Window(4)), "its window begins at message 4 of 3"),
        (evolve(IN_ORDER, window=Window(-1)), "its window begins at message -1 of 3"),
        (evolve(IN_ORDER, window=Window(cuts=((4, 100),))), "its window shortens results at places"),
        (evolve(IN_ORDER, window=Window(cuts=((2, 100), (2, 50)))), "its window shortens results at places"),
        (evolve(IN_ORDER, window=Window(cuts=((2, -1),))), "its window shortens results at places"),
        (evolve(IN_ORDER, window=Window(1, summary=Summary("x", 4))), "its summary is of messages"),
        (evolve(IN_ORDER, window=Window(1, summary=Summary("x", 1, tried=4))), "its summary is of messages"),
        (evolve(IN_ORDER, window=Window(1, summary=Summary("x", 1, -1))), "the middle of a turn that begins at -1"),
        (evolve(IN_ORDER, window=Window(2, summary=Summary("x", 2, 0))), "the middle of a turn that begins at 0"),
        (evolve(IN_ORDER, window=Window(3, summary=Summary("x", 3, 0))), "the middle of a turn that begins at 0"),
        (evolve(IN_ORDER, window=Window(1, summary=Summary("x", 1, 0))), "fewer messages than there are in its place"),
        (evolve(IN_ORDER, window=Window(0, summary=Summary("x", 0))), "fewer messages than there are in its place"),
        (evolve(IN_ORDER, history=History((USER, USER))), "the same id"),
        (evolve(IN_ORDER, counters=Counters(1, 2, 1, 2)), "it counts 2 messages and has one with the id m3"),
        (evolve(IN_ORDER, history=History((USER, RESULT))), "stands behind no reply with its call"),
        (evolve(IN_ORDER, history=History((USER, REPLY))), "the calls that its newest reply leaves open"),
        (evolve(IN_ORDER, history=History((REPLY, USER))), "the call 'call-1-1-1' has no result"),
        (evolve(WAITING, history=History((USER,))), "the calls that its newest reply leaves open"),
        (evolve(WAITING, history=History((USER, renamed("look")))), "the calls that its newest reply leaves open"),
        (evolve(WAITING, phase=evolve(ASKED, asked_at=float("nan"))), "can't be counted with"),
        (evolve(IN_ORDER, window=Window(0, float("inf"))), "can't be counted with"),
        (evolve(IN_ORDER, window=Window(0, 1.0, 0.0)), "can't be counted with"),
        (evolve(IN_ORDER, counters=Counters(1, 2, -1, 3)), "below zero"),
        (evolve(IN_ORDER, spent=Spent(steps=-1)), "below zero"),
        (evolve(IN_ORDER, total=Usage(cost=float("nan"))), "can't be counted with"),
        (evolve(WAITING, phase=UNREADABLE), "the arguments of an open call are no JSON object"),
        (evolve(WAITING, counters=Counters(1, 1, 1, 2)), "ids that it did not give"),
        (evolve(WAITING, counters=Counters(2, 1, 2, 2)), "ids that it did not give"),
        (AgentState(phase=Thinking(EffectId("x"), ModelAttempt())), "ids that it did not give"),
    ],
)
def test_a_state_whose_parts_do_not_fit_each_other_is_refused(state: AgentState, told: str) -> None:
    check_state(IN_ORDER)
    check_state(WAITING)
    for made in (Agent, AsyncAgent):
        with pytest.raises(ConfigError, match=told):
            made(ScriptedModel([]), state=state)


def test_a_turn_is_open_only_for_the_logic_that_opened_it() -> None:
    with pytest.raises(ConfigError, match="only an LLMEngine's can be gone on with"):
        Agent(ScriptedModel([]), state=WAITING, engine=lambda config: EchoEngine())
    with Agent(ScriptedModel([]), state=IN_ORDER, engine=lambda config: EchoEngine()) as agent:
        assert agent.run("Hello").text == "Echo: Hello"


def test_what_waits_needs_the_features_and_hooks_that_it_came_from() -> None:
    """Else its answer would be none for this agent, and the turn would never end."""
    case = CASES["a question"]
    with Agent(ScriptedModel([case.call]), **options()) as agent:
        agent.run("Go!")
    with pytest.raises(ConfigError, match="'ask_user' waits for an answer in it; give the agent the tools, features"):
        Agent(ScriptedModel([]), state=agent.state)

    with pytest.raises(ConfigError, match="'pay' waits for an approval in it; give the agent the tools"):
        Agent(ScriptedModel([]), state=WAITING)

    hooked: dict[str, Any] = {"phase": Hooked(EffectId("1.0.0"), "user_message"), "counters": Counters(1, 0, 1, 1)}
    state = AgentState(History((USER,)), **hooked)
    for hooks in ({}, {"stop": lambda request: None}):
        with pytest.raises(ConfigError, match="it waits for a RunHook; give the agent the tools, features and hooks"):
            Agent(ScriptedModel([]), state=state, hooks=hooks)
    with Agent(ScriptedModel(["Hi."]), state=state, hooks={"user_message": lambda request: None}) as agent:
        assert agent.resume_turn().text == "Hi."


def test_a_fork_has_its_state_already(tmp_path: Path) -> None:
    with Agent(ScriptedModel(["Hello."]), journal=tmp_path / "s.jsonl") as agent:
        agent.run("Hi!")
    with pytest.raises(ConfigError, match="state= is for a new one"):
        Agent.fork(tmp_path / "s.jsonl", ScriptedModel([]), state=agent.state)


def test_a_secret_of_a_kept_state_is_not_recorded_and_works_all_the_same(tmp_path: Path) -> None:
    key, sent = "sk-" + "proj-abcDEF123456789012345678", list[str]()
    login = ToolSpec("login")

    with Agent(ScriptedModel([call("login", key=key)]), [login]) as agent:
        agent.run(f"Log in with {key}.")
    with Agent(ScriptedModel(["In."]), [login], state=kept(agent.state), journal=tmp_path / "s.jsonl") as agent:
        (waiting,) = agent.pending
        sent.append(waiting.call.arguments["key"])  # type: ignore[union-attr]  # the external call
        agent.answer(waiting.effect_id, "welcome")

    assert sent == [key]
    assert key not in (tmp_path / "s.jsonl").read_text()
    assert replay(tmp_path / "s.jsonl").raise_for_divergence().same


def test_a_kept_state_is_not_changed_by_the_sessions_that_begin_with_it() -> None:
    with Agent(ScriptedModel(["One.", "Two."])) as agent:
        agent.run("1")
        state = agent.state
        agent.run("2")
    texts = []
    for _ in range(2):
        with Agent(ScriptedModel(["Other."]), state=state) as agent:
            agent.run("3")
            texts.append([message.text for message in agent.state.history if not isinstance(message, ToolMessage)])
    assert texts == [["1", "One.", "3", "Other."]] * 2


ODD: tuple[Any, ...] = (None, -1, 1.5, float("nan"), "", "x", "\ud83d", "m1", "1.1.1", [], {}, {"a": 1}, 10**400)


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place within plain data."""
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in inner:
        yield (*path, key)
        yield from places(value, (*path, key))


@pytest.mark.behaviour("P16s")
def test_a_kept_state_that_was_changed_at_any_place_is_refused_or_goes_on(tmp_path: Path) -> None:
    tools = tools_of(tmp_path)
    with Agent(ScriptedModel([[call("pay", amount=3), call("order", pieces=1)]]), tools, **options()) as agent:
        agent.run("Go!")
    whole = json.dumps(to_data(agent.state))

    for path in places(json.loads(whole)):
        for odd in ODD:
            data = json.loads(whole)
            within = data
            for key in path[:-1]:
                within = within[key]
            within[path[-1]] = odd
            with contextlib.suppress(CogstepError):
                state = from_data(data, AgentState)
                with Agent(FunctionModel(lambda request: "Done."), tools, state=state, **options()) as agent:
                    for effect in agent.pending:
                        agent.answer(effect.effect_id, True)
                    agent.cancel()
                    agent.run("And now?")
