"""What a person or the program outside is asked may be answered later, in another process; it happens exactly once."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from cognition import (
    AskApproval,
    AskUser,
    CallTool,
    CogstepError,
    Completed,
    ConfigError,
    Idle,
    Limits,
    ReviewPlan,
    ToolMessage,
    ToolSpec,
)
from interpreters import (
    LATER,
    Agent,
    Approval,
    AsyncAgent,
    BusyError,
    PendingError,
    PlanAnswer,
    Suspended,
    replay,
    tool,
)
from interpreters.testing._promising import in_a_process
from interpreters.testing.fakes import FakeClock, ScriptedModel, call
from tests.cognition.told import MAY_HAVE_HAPPENED
from tests.interpreters.signs import PATIENCE
from tests.interpreters.test_workers import spawn

QUESTIONS = [{"question": "Which one?", "options": ["red", "blue"]}]
ORDER = ToolSpec(
    "order",
    "Order pieces.",
    {"type": "object", "properties": {"pieces": {"type": "integer"}}, "required": ["pieces"]},
)


@frozen
class Case:
    """Something that is asked, and an answer to it."""

    call: Any
    effect: type
    answer: Any
    result: str
    """What the model reads."""


CASES = {
    "an approval": Case(call("pay", amount=3), AskApproval, True, "paid 3"),
    "an approval in full": Case(call("pay", amount=3), AskApproval, Approval(True, always=True), "paid 3"),
    "a refusal": Case(
        call("pay", amount=3), AskApproval, Approval(False, "too much"), "Error: the user refused this call: too much"
    ),
    "a question": Case(call("ask_user", questions=QUESTIONS), AskUser, ["blue"], "Which one? blue"),
    "a plan": Case(
        call("submit_plan", steps=["Look."]),
        ReviewPlan,
        PlanAnswer(False, "shorter"),
        "The user wants another plan: shorter",
    ),
    "an external call": Case(call("order", pieces=2), CallTool, {"left": 7}, '{"left": 7}'),
    "an external call that failed": Case(
        call("order", pieces=2), CallTool, ValueError("none are left"), "Error: none are left"
    ),
}


def tools_of(folder: Path) -> list[Any]:
    @tool(approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        with (folder / "paid").open("a") as file:
            file.write(f"{amount}\n")
        return f"paid {amount}"

    return [pay, ORDER]


def options(asked: Callable[[Any], Any] = lambda request: LATER) -> dict[str, Any]:
    return {"features": ["questions", "plan"], "approve": asked, "ask": asked, "review": asked}


def resumed(asked: Callable[[Any], Any] = lambda request: LATER) -> dict[str, Any]:
    return {name: value for name, value in options(asked).items() if name != "features"}


def interrupt(_request: Any) -> Any:
    raise KeyboardInterrupt


def terminate(_request: Any) -> Any:
    """What a signal handler for SIGTERM does that ends the program in order."""
    signal.signal(signal.SIGTERM, lambda number, frame: (_ for _ in ()).throw(SystemExit(143)))
    os.kill(os.getpid(), signal.SIGTERM)
    return LATER


def kill(_request: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def put_away(path: Path, case: Case, tools: list[Any]) -> None:
    with Agent(ScriptedModel([case.call]), tools, journal=path, **options()) as agent:
        result = agent.run("Go!")
        assert (False, "", result.pending) == (result.ok, result.text, agent.pending)
        assert [case.effect] == [type(effect) for effect in result.pending]


def put_away_in_asyncio(path: Path, case: Case, tools: list[Any]) -> None:
    async def main() -> None:
        async with AsyncAgent(ScriptedModel([case.call]), tools, journal=path, **options()) as agent:
            assert [case.effect] == [type(effect) for effect in (await agent.run("Go!")).pending]

    asyncio.run(main())


def interrupted(asked: Callable[[Any], Any], expected: type[BaseException]) -> Callable[[Path, Case, list[Any]], None]:
    def session(path: Path, case: Case, tools: list[Any]) -> None:
        with pytest.raises(expected), Agent(ScriptedModel([case.call]), tools, journal=path, **options(asked)) as agent:
            agent.run("Go!")

    return session


def cancelled_in_asyncio(path: Path, case: Case, tools: list[Any]) -> None:
    """As a server's shutdown does it."""

    async def main() -> None:
        asked = asyncio.Event()

        async def ask(_request: Any) -> Any:
            asked.set()
            await asyncio.sleep(PATIENCE)

        async with AsyncAgent(ScriptedModel([case.call]), tools, journal=path, **options(ask)) as agent:
            running = asyncio.create_task(agent.run("Go!"))
            await asked.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

    asyncio.run(main())


def cancelled_while_it_streams(path: Path, case: Case, tools: list[Any]) -> None:
    """The task that reads a stream is cancelled, as a server's shutdown does it."""

    async def main() -> None:
        asked = asyncio.Event()

        async def ask(_request: Any) -> Any:
            asked.set()
            await asyncio.sleep(PATIENCE)

        async def read(agent: AsyncAgent) -> None:
            async with agent.stream("Go!") as stream:
                async for _event in stream:
                    pass

        async with AsyncAgent(ScriptedModel([case.call]), tools=tools, journal=path, **options(ask)) as agent:
            reading = asyncio.create_task(read(agent))
            await asked.wait()
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading

    asyncio.run(main())


def closed_meanwhile(path: Path, case: Case, tools: list[Any]) -> None:
    """The agent is closed while the program thinks about it."""

    async def main() -> None:
        asked = asyncio.Event()

        async def ask(_request: Any) -> Any:
            asked.set()
            await asyncio.sleep(PATIENCE)

        agent = AsyncAgent(ScriptedModel([case.call]), tools, journal=path, **options(ask))
        running = asyncio.create_task(agent.run("Go!"))
        await asked.wait()
        await agent.close()
        assert isinstance((await running).outcome, Suspended)

    asyncio.run(main())


LEAVING = {
    "later": put_away,
    "later in asyncio": put_away_in_asyncio,
    "Ctrl-C": interrupted(interrupt, KeyboardInterrupt),
    "SIGTERM": interrupted(terminate, SystemExit),
    "a cancelled task": cancelled_in_asyncio,
    "a cancelled reader": cancelled_while_it_streams,
    "close": closed_meanwhile,
}
ASKED_AT_ONCE = [name for name in CASES if "external" not in name]


def answered(path: Path, case: Case, tools: list[Any]) -> None:
    with Agent.resume(path, ScriptedModel(["Done."]), tools, **resumed()) as agent:
        (effect,) = agent.pending
        assert isinstance(effect, case.effect)
        result = agent.answer(effect.effect_id, case.answer)
        assert (result.text, result.pending, agent.pending) == ("Done.", (), ())
        assert result.messages[0].text == "Go!"  # type: ignore[union-attr]  # the turn's own first message
        assert [case.result] == [m.content for m in agent.state.history if isinstance(m, ToolMessage)]


def answered_in_asyncio(path: Path, case: Case, tools: list[Any]) -> None:
    async def main() -> None:
        async with AsyncAgent.resume(path, ScriptedModel(["Done."]), tools, **resumed()) as agent:
            (effect,) = agent.pending
            assert (await agent.answer(effect.effect_id, case.answer)).text == "Done."
            assert [case.result] == [m.content for m in agent.state.history if isinstance(m, ToolMessage)]

    asyncio.run(main())


@pytest.mark.behaviour("P16a")
@pytest.mark.parametrize("leaves", LEAVING)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("answers", [answered, answered_in_asyncio])
def test_what_waits_survives_the_end_of_its_process_and_is_answered_in_another(
    leaves: str, name: str, answers: Callable[[Path, Case, list[Any]], None], tmp_path: Path
) -> None:
    if name not in ASKED_AT_ONCE and not leaves.startswith("later"):
        pytest.skip("nobody is asked about an external call")
    path, case, tools = tmp_path / "s.jsonl", CASES[name], tools_of(tmp_path)

    in_a_process(lambda: LEAVING[leaves](path, case, tools))
    in_a_process(lambda: answers(path, case, tools))

    assert replay(path).raise_for_divergence().state.phase == Idle()
    paid = (tmp_path / "paid").read_text() if (tmp_path / "paid").exists() else ""
    assert ("3\n" if case.result == "paid 3" else "") == paid


@pytest.mark.behaviour("P16a")
@pytest.mark.parametrize("name", ASKED_AT_ONCE)
@pytest.mark.parametrize("answers", [answered, answered_in_asyncio])
def test_what_waits_survives_a_kill(name: str, answers: Callable[..., None], tmp_path: Path) -> None:
    path, case, tools = tmp_path / "s.jsonl", CASES[name], tools_of(tmp_path)

    in_a_process(lambda: interrupted(kill, SystemExit)(path, case, tools), signal.SIGKILL)
    in_a_process(lambda: answers(path, case, tools))

    assert replay(path).raise_for_divergence().state.phase == Idle()


def paying(*replies: Any, **given: Any) -> Agent:
    @tool(approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    return Agent(ScriptedModel(list(replies)), [pay, ORDER], **{"approve": lambda request: LATER, **given})


@pytest.mark.behaviour("P16a")
def test_an_external_and_an_internal_call_of_one_reply_are_answered_one_after_the_other() -> None:
    with paying([call("pay", amount=1), call("order", pieces=2)], "Done.") as agent:
        (approval,) = agent.run("Go!").pending
        (order,) = agent.answer(approval.effect_id, True).pending

        assert isinstance(order, CallTool)
        assert order.call.arguments == {"pieces": 2}
        assert [made.content for made in agent.answer(order.effect_id, 7).calls] == ["paid 1", "7"]


def test_calls_that_only_look_wait_beside_each_other_and_are_answered_in_any_order() -> None:
    looks = [ToolSpec(name, read_only=True) for name in ("a", "b")]
    with Agent(ScriptedModel([[call("b"), call("a")], "Done."]), looks) as agent:
        first, second = agent.run("Go!").pending
        (left,) = agent.answer(second.effect_id, "second").pending
        assert left == first

        result = agent.answer(first.effect_id, "first")

    assert [made.content for made in result.calls] == ["first", "second"]


def test_wrong_arguments_for_an_external_tool_go_back_to_the_model() -> None:
    with paying(call("order", pieces="two"), "Sorry.") as agent:
        result = agent.run("Go!")

    assert (result.pending, result.text) == ((), "Sorry.")
    assert "pieces" in result.calls[0].content


@pytest.mark.behaviour("P16a")
def test_a_new_message_gives_up_nothing_that_waits_and_only_cancel_does() -> None:
    with paying(call("pay", amount=1), "Hello.") as agent:
        agent.run("Go!")
        with pytest.raises(PendingError, match=r"AskApproval 1\.1\.1"):
            agent.run("And now?")
        assert len(agent.pending) == 1

        assert agent.cancel("not today")
        assert (agent.pending, agent.cancel()) == ((), False)
        assert agent.run("And now?").text == "Hello."


@pytest.mark.parametrize("fsync", ["never", "record"])
def test_an_async_agent_gives_up_what_waits_when_it_is_cancelled(fsync: Any, tmp_path: Path) -> None:
    async def main() -> None:
        model = ScriptedModel([call("order", pieces=1), "Hello."])
        async with AsyncAgent(model, [ORDER], journal=tmp_path / "s.jsonl", fsync=fsync) as agent:
            await agent.run("Go!")
            with pytest.raises(PendingError):
                await agent.run("And now?")
            assert await asyncio.to_thread(agent.cancel, "not today")  # from another thread
            assert (await agent.run("And now?")).text == "Hello."
            assert [m.content for m in agent.state.history if isinstance(m, ToolMessage)] == [MAY_HAVE_HAPPENED]

    asyncio.run(main())
    assert replay(tmp_path / "s.jsonl").raise_for_divergence().turns == 2


def test_go_on_asks_again() -> None:
    answers = iter([LATER, True])
    with paying(call("pay", amount=1), "Done.", approve=lambda request: next(answers)) as agent:
        agent.run("Go!")
        assert agent.unfinished
        assert agent.resume_turn().text == "Done."


def test_a_future_may_say_that_the_answer_comes_later() -> None:
    asked: Future[Any] = Future()
    asked.set_result(LATER)
    with paying(call("pay", amount=1), "Done.", approve=lambda request: asked) as agent:
        (effect,) = agent.run("Go!").pending
        assert agent.answer(effect.effect_id, True).text == "Done."


def test_the_request_says_under_which_id_it_is_answered() -> None:
    asked: list[Any] = []

    def approve(request: Any) -> Any:
        asked.append(request.effect_id)
        return LATER

    with paying(call("pay", amount=1), approve=approve) as agent:
        assert asked == [effect.effect_id for effect in agent.run("Go!").pending]


@pytest.mark.parametrize(
    ("effect_id", "answer", "error", "told"),
    [
        ("9.9.9", True, CogstepError, "nothing waits for an answer under '9.9.9'; pending: AskApproval 1.1.1"),
        ("1.1.1", "yes", ConfigError, "answer takes True"),
        ("1.1.1", None, ConfigError, "answer takes True"),
    ],
)
def test_what_is_no_answer_changes_nothing(effect_id: str, answer: Any, error: Any, told: str) -> None:
    with paying(call("pay", amount=1), "Done.") as agent:
        agent.run("Go!")
        before = agent.state

        with pytest.raises(error, match=told):
            agent.answer(effect_id, answer)

        assert before == agent.state
        assert agent.answer("1.1.1", True).text == "Done."
        with pytest.raises(CogstepError, match="pending: nothing"):
            agent.answer("1.1.1", True)


def test_a_result_without_a_form_in_json_is_refused() -> None:
    with paying(call("order", pieces=1), "Done.") as agent:
        agent.run("Go!")
        with pytest.raises(ConfigError, match="no form in JSON"):
            agent.answer("1.1.1", object())
        assert agent.answer("1.1.1", "x").text == "Done."


def test_a_tool_can_not_answer_later_and_says_what_to_do() -> None:
    """It would be lost with the process: who runs a call elsewhere gives the agent an external tool."""

    @tool
    def ship() -> Any:
        """Ship."""
        return LATER

    with Agent(ScriptedModel([call("ship"), "Sorry."]), [ship]) as agent:
        result = agent.run("Go!")
    assert "can't answer later; give the agent a ToolSpec" in result.calls[0].content

    with paying(call("order", pieces=1), "Done.") as agent:
        agent.run("Go!")
        with pytest.raises(ConfigError, match="can't answer later"):
            agent.answer("1.1.1", LATER)
        assert agent.answer("1.1.1", "x").text == "Done."


def test_a_suspended_result_has_no_answer_to_raise_for() -> None:
    with paying(call("pay", amount=1)) as agent, pytest.raises(PendingError, match="hand them in with answer"):
        agent.run("Go!").raise_for_failure()


@pytest.mark.behaviour("P16a")
def test_waiting_for_a_person_takes_nothing_of_the_turn_s_time() -> None:
    clock = FakeClock()
    with paying(call("pay", amount=1), "Done.", limits=Limits(seconds=60.0), clock=clock) as agent:
        agent.run("Go!")
        clock.advance(86_400.0)

        assert Completed("Done.") == agent.answer("1.1.1", True).outcome


@pytest.mark.parametrize("Kind", [Agent, AsyncAgent])
def test_a_worker_can_not_wait_and_its_call_is_refused(Kind: Any) -> None:  # noqa: N803 - it is a class
    def reply(request: Any) -> Any:
        text = request.messages[-1].text if hasattr(request.messages[-1], "text") else ""
        return call("order", pieces=1) if text.startswith("ann") else "Told."

    model = ScriptedModel([spawn("ann"), reply, reply, "Done."])
    given: dict[str, Any] = {"features": ["workers"]}
    if Kind is Agent:
        with Agent(model, [ORDER], **given) as agent:
            result = agent.run("Go!")
    else:

        async def main() -> Any:
            async with AsyncAgent(model, [ORDER], **given) as agent:
                return await agent.run("Go!")

        result = asyncio.run(main())

    assert (result.pending, result.text) == ((), "Done.")


def test_a_performer_may_answer_a_call_later() -> None:
    @tool
    def pay() -> str:
        """Pay."""
        raise AssertionError("the performer stands in its place")

    with Agent(
        ScriptedModel([call("pay"), "Done."]), [pay], performers={CallTool: lambda effect, scope: LATER}
    ) as agent:
        (effect,) = agent.run("Go!").pending
        assert agent.answer(effect.effect_id, "paid").text == "Done."


def test_a_hook_can_not_answer_later() -> None:
    hooks: Any = {"user_message": lambda request: LATER}
    with paying(hooks=hooks) as agent, pytest.raises(ConfigError, match="has to return None or"):
        agent.run("Go!")


def test_results_of_calls_that_ran_beside_an_interrupted_question_are_told_truthfully(tmp_path: Path) -> None:
    """A tool that had begun may have happened; one that had not runs once the turn goes on."""

    @tool(read_only=True, approval=True)
    def peek() -> str:
        """Peek."""
        return "seen"

    @tool(read_only=True)
    def look() -> str:
        """Look."""
        return "looked"

    model = ScriptedModel([[call("peek"), call("look")], "Done."])
    with Agent(model, [peek, look], approve=interrupt) as agent:
        with pytest.raises(KeyboardInterrupt):
            agent.run("Go!")
        result = agent.answer(agent.pending[0].effect_id, True)

    assert [(made.content, made.status) for made in result.calls] == [("seen", "ok"), ("looked", "ok")]


def test_two_answers_at_once_are_one_and_an_error() -> None:
    import threading

    begun, release = threading.Event(), threading.Event()

    def slow(request: Any) -> Any:
        begun.set()
        assert release.wait(PATIENCE)
        return "Done."

    with paying(call("pay", amount=1), slow) as agent:
        agent.run("Go!")
        first = threading.Thread(target=lambda: agent.answer("1.1.1", True))
        first.start()
        assert begun.wait(PATIENCE)
        with pytest.raises(BusyError):  # and not that nothing waits: this turn may wait again
            agent.answer("1.1.1", True)
        release.set()
        first.join(PATIENCE)
        assert [m.content for m in agent.state.history if isinstance(m, ToolMessage)] == ["paid 1"]
