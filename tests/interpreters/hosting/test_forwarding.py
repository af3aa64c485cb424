"""Effects that a host forwards: carried out here by the usual performers or by the program, and answered or refused."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Any

import pytest

from cognition import (
    AgentConfig,
    ApprovalGiven,
    AskApproval,
    CallModel,
    CallTool,
    Cancelled,
    ConfigError,
    EffectId,
    Input,
    QuestionAnswered,
    ToolReturned,
    ToolSpec,
)
from interpreters import AgentHost, tool
from interpreters.agents.agent import Agent
from interpreters.hosting import _protocol as say
from interpreters.hosting._hosted_session import HostedSession
from interpreters.loop.performers import Scope, call_tool
from interpreters.testing.fakes import ScriptedModel, call
from tests.interpreters.signs import PATIENCE

RAN: list[int] = []


@tool(approval=True)
def pay(amount: int) -> str:
    """Pay."""
    RAN.append(amount)
    return f"paid {amount}"


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    RAN.clear()


def results(run: Any) -> list[tuple[str, str]]:
    return [(made.name, made.status) for made in run.calls]


def test_a_program_carries_out_here_what_it_says_it_does() -> None:
    """Its performers count as they do with an agent, also ones that answer later; the host knows nothing of it."""
    met: list[str] = []

    def approve(effect: AskApproval, scope: Scope) -> Future[Input]:
        met.append(f"{scope.program.session} asks about {effect.call.name}")
        later: Future[Input] = Future()
        threading.Timer(0.01, lambda: later.set_result(ApprovalGiven(effect.effect_id))).start()
        return later

    def step(effect: CallTool, scope: Scope) -> Input:
        met.append(f"step {effect.effect_id}")
        return call_tool(effect, scope)

    with AgentHost.in_thread(ScriptedModel([call("pay", amount=7), "Done."])) as host:
        handle = host.open("a", [pay], performers={AskApproval: approve, CallTool: step})
        assert handle.run("Pay!").text == "Done."
    assert RAN == [7]
    assert met == ["a asks about pay", "step 1.1.2"]


def test_one_that_is_async_is_awaited_where_the_stream_is_read() -> None:
    async def dry(effect: CallTool, scope: Scope) -> Input:
        await asyncio.sleep(0)
        return ToolReturned(effect.effect_id, "would pay")

    with AgentHost.in_thread(ScriptedModel([call("pay", amount=7), "Done."])) as host:
        handle = host.open("a", [pay], approve=lambda request: True, performers={CallTool: dry})
        assert asyncio.run(handle.run_async("Pay!")).text == "Done."
    assert RAN == []


def test_what_the_host_carries_out_can_not_be_carried_out_here() -> None:
    with (
        AgentHost.in_thread(ScriptedModel([])) as host,
        pytest.raises(ConfigError, match="CallModel is carried out by"),
    ):
        host.open("a", performers={CallModel: lambda effect, scope: None})


@pytest.mark.parametrize(
    "wrong",
    [
        ToolReturned(EffectId("1.1.1"), "yes"),
        ApprovalGiven(EffectId("1.1.2")),
        say.CancelAsked("declined"),
    ],
    ids=lambda answer: type(answer).__name__,
)
def test_what_does_not_answer_an_effect_refuses_it(wrong: Any) -> None:
    """By whatever the other side is written: an approval that is answered with something else is not given."""
    said: list[Any] = []
    asked, ended = threading.Event(), threading.Event()

    def send(notice: Any) -> None:
        said.append(notice)
        if isinstance(notice, say.Perform):
            asked.set()
        elif isinstance(notice, say.TurnEnded):
            ended.set()

    config = AgentConfig(tools=(ToolSpec("pay", approval=True),))
    session = HostedSession("a", config, say.Settings(approvals=True), send)
    model = ScriptedModel([call("pay", amount=1), "Done."])
    session.begin("1", lambda given, tools: Agent(model, tools, session="a", **given), lambda _session: None)
    session.accept(1, lambda agent: agent.run("Go!"))
    assert asked.wait(PATIENCE)
    session.take(say.Performed("a", 1, "a", EffectId("1.1.1"), wrong))
    assert ended.wait(PATIENCE)
    session.dispose("2", "over")
    assert session.join(PATIENCE)

    (ended_so,) = [notice for notice in said if isinstance(notice, say.TurnEnded)]
    assert [message.status for message in ended_so.messages if hasattr(message, "status")] == ["refused"]
    assert [type(notice.effect) for notice in said if isinstance(notice, say.Perform)] == [AskApproval]
    (fault,) = [notice for notice in said if isinstance(notice, say.Faulted)]
    assert "does not answer AskApproval 1.1.1" in fault.message


def test_a_deadline_that_has_no_end_is_refused_where_it_is_set() -> None:
    with AgentHost.in_thread(ScriptedModel(["Hello."])) as host:
        with pytest.raises(ConfigError, match="not finite, which JSON does not have"):
            host.open("a", tool_wait=float("inf"))
        assert host.open("a").run("Hi!").text == "Hello."


def test_answers_that_do_not_fit_the_questions_end_the_turn_as_declined() -> None:
    """The engine could do nothing with them, and the turn would break without an outcome."""
    question = call("ask_user", questions=[{"question": "Red or blue?", "options": ["red", "blue"]}])
    said: list[Any] = []
    asked, ended = threading.Event(), threading.Event()

    def send(notice: Any) -> None:
        said.append(notice)
        if isinstance(notice, say.Perform):
            asked.set()
        elif isinstance(notice, say.TurnEnded | say.TurnBroken):
            ended.set()

    session = HostedSession("a", AgentConfig(features=("questions",)), say.Settings(), send)

    def make(given: Any, tools: Any) -> Agent:
        return Agent(ScriptedModel([question]), tools, session="a", features=("questions",), **given)

    session.begin("1", make, lambda _session: None)
    session.accept(1, lambda agent: agent.run("Go!"))
    assert asked.wait(PATIENCE)
    session.take(say.Performed("a", 1, "a", EffectId("1.1.1"), QuestionAnswered(EffectId("1.1.1"), ())))
    assert ended.wait(PATIENCE)
    session.dispose("2", "over")
    assert session.join(PATIENCE)

    (end,) = [notice.outcome for notice in said if isinstance(notice, say.TurnEnded)]
    assert isinstance(end, Cancelled)
    (fault,) = [notice for notice in said if isinstance(notice, say.Faulted)]
    assert "does not answer AskUser 1.1.1" in fault.message


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.timeout(30)
def test_an_answer_that_no_message_can_hold_is_an_error_of_the_turn(asynchronous: bool, late: bool) -> None:
    """Nobody would hear of it otherwise, and the host would wait for it."""

    def answer(effect: AskApproval, scope: Scope) -> Any:
        given = ApprovalGiven(effect.effect_id, at=float("nan"))
        future: Future[Input] = Future()
        threading.Timer(0.01, future.set_result, [given]).start()
        return future if late else given

    with AgentHost.in_thread(ScriptedModel([call("pay", amount=7)])) as host:
        handle = host.open("a", [pay], performers={AskApproval: answer})
        with pytest.raises(ConfigError, match="not finite"):
            asyncio.run(handle.run_async("Pay!")) if asynchronous else handle.run("Pay!")
    assert RAN == []
