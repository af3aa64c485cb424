"""What stands in for models, users and tools in tests."""

import asyncio
import itertools
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from cognition import (
    Cancelled,
    Completed,
    ConfigError,
    Failed,
    Failure,
    MalformedToolCall,
    ModelRequest,
    RetryPolicy,
    ToolMessage,
    Usage,
)
from cognition.parsing import ReasoningDelta
from interpreters import Agent, AsyncAgent, PlanAnswer, events, fakes, tool
from interpreters.observing.events import Event
from interpreters.testing.fakes import FunctionModel, Reply, ScriptedModel, ScriptedTool, ScriptError, call
from interpreters.tools.tool import ToolError
from runtime import Runtime
from runtime.async_adapter import AsyncRuntime
from runtime.errors import RuntimeClosedError
from tests.interpreters.ways import Way, every_way

ROOT = Path(__file__).resolve().parents[3]


@tool
def order(item: str, count: int = 1) -> str:
    """Order something."""
    raise ConnectionError("no test gets here")


def echo(request: ModelRequest) -> str:
    return f"You said: {getattr(request.messages[-1], 'text', '')}"


# ------------------------------------------------------------------------------------------------- models by function


@every_way
def test_a_function_answers_each_request(talk: Way) -> None:
    """It sees what was asked, and is asked as often as the agent likes."""
    model = FunctionModel(echo)

    assert talk(model, "Hi!", "Bye!").texts == ["You said: Hi!", "You said: Bye!"]
    assert [len(request.messages) for request in model.requests] == [1, 3]


@every_way
def test_a_function_may_return_whatever_a_script_may_hold(talk: Way) -> None:
    answers: Iterator[fakes.Scripted] = iter(
        [call("nowhere"), [call("a"), call("b")], Reply("Sorry.", usage=Usage(3, 4))]
    )

    said = talk(FunctionModel(lambda request: next(answers)), "Hi!")

    assert said.results[0].text == "Sorry."
    assert said.results[0].usage == Usage(3, 4)
    assert len(said.tool_results) == 3


@every_way
def test_a_generator_streams_its_pieces(talk: Way) -> None:
    """Each piece is shown before the next one is made."""
    shown: list[str] = []
    at_the_second: list[list[str]] = []

    def story(request: ModelRequest) -> Iterator[fakes.Piece]:
        yield ReasoningDelta("A story. ")
        yield "Once "
        at_the_second.append(list(shown))
        yield "upon a time."
        yield Usage(5, 6)

    def watch(event: Event) -> None:
        if isinstance(event.value, events.TextDelta):
            shown.append(event.value.text)

    said = talk(FunctionModel(story), "A story!", observers=[events.Inline(watch)])

    assert said.results[0].text == "Once upon a time."
    assert (shown, at_the_second) == (["Once ", "upon a time."], [["Once "]])
    assert said.results[0].usage == Usage(5, 6)
    assert said.state.history[1].reasoning == "A story. "  # type: ignore[union-attr]  # it is an assistant's


@every_way
def test_a_generator_may_call_tools_and_fail(talk: Way) -> None:
    def pieces(request: ModelRequest) -> Iterator[fakes.Piece]:
        if len(request.messages) == 1:
            yield "Let me see."
            yield call("order", item="plum")
            yield MalformedToolCall("{", "cut")
        else:
            yield Failure("the key is wrong", status=401)
            yield "never said"

    bought = ScriptedTool(order, ["bought"])
    said = talk(FunctionModel(pieces), "A plum!", tools=[bought])

    assert said.results[0].outcome == Failed("auth", "the key is wrong")
    assert bought.calls == [{"item": "plum"}]


@every_way
def test_a_cancel_stops_a_generator_and_closes_it(talk: Way) -> None:
    """No piece is asked for that nobody wants, and its clean-up runs."""
    agents: list[Any] = []
    closed: list[bool] = []

    def endless(request: ModelRequest) -> Iterator[str]:
        try:
            yield from itertools.repeat("on and ")
        finally:
            closed.append(True)

    def watch(event: Event) -> None:
        if isinstance(event.value, events.TextDelta):
            agents[0].cancel("enough")

    said = talk(FunctionModel(endless), "Go!", observers=[events.Inline(watch)], use=agents.append)

    assert said.results[0].outcome == Cancelled("enough", "on and ")
    assert closed == [True]


@every_way
def test_an_assertion_in_a_function_fails_the_test(talk: Way) -> None:
    """It must not become a failed call that the agent retries."""

    def strict(request: ModelRequest) -> str:
        assert request.system == "Be brief.", "there is no system prompt"
        return "ok"

    def streaming(request: ModelRequest) -> Iterator[str]:
        yield "a"
        raise AssertionError("there is no system prompt")

    for function in (strict, streaming):
        with pytest.raises(ScriptError, match=r"AssertionError: there is no system prompt"):
            talk(FunctionModel(function), "Hi!")
    with pytest.raises(ScriptError, match=r"function strict raised AssertionError"):
        talk(ScriptedModel([strict]), "Hi!")


@every_way
def test_what_is_no_piece_is_an_error_of_the_test(talk: Way) -> None:
    def wrong(request: ModelRequest) -> Iterator[Any]:
        yield 5

    with pytest.raises(ScriptError, match="not 5"):
        talk(FunctionModel(wrong), "Hi!")


def test_an_async_function_is_awaited_under_asyncio() -> None:
    async def slow(request: ModelRequest) -> fakes.Scripted:
        await asyncio.sleep(0)
        return "slow" if len(request.messages) == 1 else Failure("gone", kind="fatal")

    async def pieces(request: ModelRequest) -> AsyncIterator[fakes.Piece]:
        yield "one "
        await asyncio.sleep(0)
        yield "two"

    async def main() -> list[str]:
        async with AsyncAgent(FunctionModel(slow)) as agent:
            first = await agent.run("Hi!")
            second = await agent.run("And?")
        async with AsyncAgent(FunctionModel(pieces)) as agent, agent.stream("Count!") as stream:
            deltas = [event.value.text async for event in stream if isinstance(event.value, events.TextDelta)]
        return [first.text, str(second.outcome), *deltas]

    assert asyncio.run(main()) == ["slow", "Failed(kind='fatal', message='gone', text='')", "one ", "two"]


def test_an_async_function_needs_asyncio() -> None:
    """A plain agent says so, and leaves no coroutine behind that nobody awaits."""

    async def slow(request: ModelRequest) -> str:
        return "never"

    async def pieces(request: ModelRequest) -> AsyncIterator[str]:
        yield "never"

    for function in (slow, pieces):
        with pytest.raises(ConfigError, match="AsyncAgent"), Agent(FunctionModel(function)) as agent:
            agent.run("Hi!")


def test_a_cancel_reaches_what_an_async_function_awaits() -> None:
    """Also from the other side: a cancelled task passes its cancellation on."""

    async def main(function: Any) -> tuple[Any, bool]:
        async with AsyncAgent(FunctionModel(function)) as agent:
            turn = asyncio.create_task(agent.run("Hi!"))
            await began.wait()
            agent.cancel("enough")
            outcome = (await turn).outcome
            began.clear()
            another = asyncio.create_task(agent.run("Hi again!"))
            await began.wait()
            another.cancel()
            await asyncio.wait([another])
            return outcome, another.cancelled()

    began = asyncio.Event()

    async def whole(request: ModelRequest) -> str:
        began.set()
        await asyncio.get_running_loop().create_future()
        return "never"

    async def pieces(request: ModelRequest) -> AsyncIterator[str]:
        yield "so far"
        began.set()
        await asyncio.get_running_loop().create_future()

    assert asyncio.run(main(whole)) == (Cancelled("enough"), True)
    began = asyncio.Event()
    assert asyncio.run(main(pieces)) == (Cancelled("enough", "so far"), True)


def test_an_exception_of_an_async_function_fails_the_test() -> None:
    async def whole(request: ModelRequest) -> str:
        raise KeyError("a")

    async def pieces(request: ModelRequest) -> AsyncIterator[str]:
        yield "a"
        raise KeyError("a")

    async def main(function: Any) -> None:
        async with AsyncAgent(FunctionModel(function)) as agent:
            await agent.run("Hi!")

    for function in (whole, pieces):
        with pytest.raises(ScriptError, match="KeyError"):
            asyncio.run(main(function))


def test_function_models_and_generated_ones_are_runtimes() -> None:
    models: list[Any] = [FunctionModel(echo), fakes.GeneratedModel([])]
    for model in models:
        assert isinstance(model, Runtime)
        assert isinstance(model, AsyncRuntime)
        with model:
            assert model.describe().context_tokens == 4096
        with pytest.raises(RuntimeClosedError):
            model.submit(None)


@every_way
def test_a_crash_is_raised_in_place_of_the_end(talk: Way) -> None:
    """As by a runtime with a fault in it; what was shown of the reply before is kept."""
    said = talk(
        ScriptedModel([Reply("Once ", crash=OSError("the driver is gone"))]), "Hi!", retry=RetryPolicy(attempts=1)
    )

    assert said.results[0].outcome == Failed("fatal", "OSError: the driver is gone")


def test_a_reply_prints_as_it_is_written() -> None:
    written = "Reply('Hi', calls=(ProposedCall(name='a', arguments_json='{}', repairs=(), confirm=False),), chunk=2)"

    assert written == repr(Reply("Hi", call("a"), chunk=2))
    assert repr(Reply()) == "Reply()"


# ------------------------------------------------------------------------------------------------------------- users


def test_questions_and_plans_are_answered_as_scripted() -> None:
    questions = call("ask_user", questions=[{"question": "Which?", "options": ["a", "b"]}])
    answers = fakes.ScriptedAnswers([["b"]])
    with Agent(ScriptedModel([questions, "b it is."]), features=["questions"], ask=answers) as agent:
        assert agent.run("Choose!").calls[0].content == "Which? b"
    assert [question.text for question in answers.requests[0].questions] == ["Which?"]

    plan = [call("enter_plan_mode"), call("submit_plan", steps=["look", "tidy"])]
    reviews = fakes.ScriptedReviews([PlanAnswer(False, "too short")])
    with Agent(ScriptedModel([*plan, "Oh."]), features=["plan"], review=reviews) as agent:
        agent.run("Tidy up!")
    assert [request.plan.steps for request in reviews.requests] == [("look", "tidy")]


def test_a_question_too_many_ends_the_test() -> None:
    questions = call("ask_user", questions=[{"question": "Which?", "options": ["a", "b"]}])
    model = ScriptedModel([questions])

    with (
        pytest.raises(ScriptError, match="0 answers"),
        Agent(model, features=["questions"], ask=fakes.ScriptedAnswers([])) as agent,
    ):
        agent.run("Choose!")


# ------------------------------------------------------------------------------------------------------------- tools


@every_way
def test_a_scripted_tool_stands_in_for_one(talk: Way) -> None:
    """The model sees the same tool, its arguments are checked, and the results come as written."""
    scripted = ScriptedTool(
        order, ["bought", TimeoutError("the shop is closed"), lambda item, count=1: f"{count} {item}"]
    )
    orders = [call("order", item=item, count=2) for item in ("plum", "pear", "fig")]
    said = talk(ScriptedModel([*orders, call("order", item=5), "Done."]), "Buy!", tools=[scripted])

    assert order.spec == scripted.spec
    assert said.tool_results == [
        ("bought", "ok"),
        ("Error: the shop is closed", "error"),
        ("2 fig", "ok"),
        ("Error: wrong arguments for order: item must be a text, not 5", "error"),
    ]
    assert [{"item": item, "count": 2} for item in ("plum", "pear", "fig")] == scripted.calls
    scripted.check()


def test_a_scripted_tool_keeps_all_that_its_original_says() -> None:
    @tool(name="shop.buy", read_only=True, idempotent=True, approval=True, timeout=3)
    async def buy(item: str) -> str:
        """Buy."""
        return item

    scripted = ScriptedTool(buy, ["ok"])

    assert (buy.spec, 3, False) == (scripted.spec, scripted.timeout, scripted.is_async)

    def plain(item: str) -> None:
        """Do something plain."""

    assert ScriptedTool(plain, []).spec.name == "plain"


def test_a_scripted_tool_says_what_does_not_fit() -> None:
    scripted = ScriptedTool(order, ["bought", "never"])
    with Agent(ScriptedModel([call("order", item="a"), "Done."]), tools=[scripted]) as agent:
        agent.run("Buy!")
    with pytest.raises(ScriptError, match="called 1 times; left over is 'never'"):
        scripted.check()

    scripted = ScriptedTool(order, [])
    with Agent(ScriptedModel([call("order", item="a"), "Done."]), tools=[scripted]) as agent:
        result = agent.run("Buy!")
    assert "the script of order has 0 results" in result.calls[0].content
    with pytest.raises(ScriptError, match="called 1 times more"):
        scripted.check()
    assert isinstance(agent.state.history[2], ToolMessage)


def test_a_scripted_tool_may_fail_in_the_words_of_a_tool() -> None:
    scripted = ScriptedTool(order, [ToolError("sold out")])
    with Agent(ScriptedModel([call("order", item="a"), "Oh."]), tools=[scripted]) as agent:
        assert agent.run("Buy!").calls[0].content == "Error: sold out"
        assert agent._interpreter.finished.outcome == Completed("Oh.")  # type: ignore[union-attr]  # it has ended


def test_the_fakes_need_no_hypothesis() -> None:
    """The strategies do, and are loaded when they are asked for."""
    script = "import sys; from interpreters import fakes; fakes.GeneratedModel; print('hypothesis' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)

    assert run.stdout == "False\n"
    assert callable(fakes.generated_models)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        fakes.nothing  # noqa: B018 - that there is none is what is tested
