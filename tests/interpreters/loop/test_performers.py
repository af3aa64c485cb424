"""Performers: a program carries an effect out itself, and whatever it does wrong never lets anything run."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

from cognition import (
    ApprovalGiven,
    AskApproval,
    AskUser,
    CallModel,
    CallTool,
    CancelAsked,
    Cancelled,
    ConfigError,
    HookReturned,
    Input,
    MemoryRecalled,
    ModelFailed,
    ModelReplied,
    QuestionAnswered,
    Recall,
    RunHook,
    SpawnWorker,
    StartTimer,
    TimerFired,
    ToolReturned,
    WorkerFinished,
)
from cognition.values.outcomes import Failure
from interpreters import Agent, AsyncAgent, tool
from interpreters.loop.mailbox_messages import NotBegun
from interpreters.loop.performers import Scope, call_tool, call_tool_async
from interpreters.testing.fakes import FunctionModel, Reply, ScriptedModel, call
from tests.interpreters.signs import PATIENCE
from tests.interpreters.ways import Way, every_way

RAN: list[str] = []


@tool
def pay(amount: int) -> str:
    """Pay."""
    RAN.append(f"paid {amount}")
    return f"paid {amount}"


@tool(approval=True)
def delete(name: str) -> str:
    """Delete."""
    RAN.append(f"deleted {name}")
    return f"deleted {name}"


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    RAN.clear()


def script(*calls: Any) -> ScriptedModel:
    return ScriptedModel([*calls, "Done."])


@every_way
def test_one_stands_in_for_a_tool(talk: Way) -> None:
    """The tool is not run; its performer knows the program, and its answer is the result."""

    def dry_run(effect: CallTool, scope: Scope) -> Input:
        assert scope.program.tools[effect.call.name] is pay
        assert scope.context is not None
        scope.context.progress("dry")
        return ToolReturned(effect.effect_id, f"would call {effect.call.name}")

    done = talk(script(call("pay", amount=1)), "Go!", tools=[pay], performers={CallTool: dry_run})

    assert done.tool_results == [("would call pay", "ok")]
    assert RAN == []


@every_way
def test_one_wraps_the_usual_one(talk: Way) -> None:
    """As a durable engine's step does: before and after, and the same in between."""
    steps: list[str] = []

    def step(effect: CallTool, scope: Scope) -> Input:
        steps.append(f"begin {effect.effect_id}")
        answer = call_tool(effect, scope)
        steps.append(f"end {effect.effect_id}")
        return answer

    calls = Reply(calls=(call("pay", amount=1), call("pay", amount=2)))
    done = talk(script(calls), "Go!", tools=[pay], performers={CallTool: step})

    assert done.tool_results == [("paid 1", "ok"), ("paid 2", "ok")]
    assert sorted(RAN) == ["paid 1", "paid 2"]
    assert sorted(steps) == ["begin 1.1.1", "begin 1.1.2", "end 1.1.1", "end 1.1.2"]


def test_one_that_is_async_awaits_the_usual_one() -> None:
    async def step(effect: CallTool, scope: Scope) -> Input:
        return await call_tool_async(effect, scope)

    async def main() -> str:
        async with AsyncAgent(script(call("pay", amount=3)), [pay], performers={CallTool: step}) as agent:
            return (await agent.run("Go!")).text

    assert asyncio.run(main()) == "Done."
    assert RAN == ["paid 3"]


def test_one_that_is_async_needs_asyncio() -> None:
    async def step(effect: CallTool, scope: Scope) -> Input:
        return await call_tool_async(effect, scope)

    agent = Agent(ScriptedModel([call("pay", amount=3)]), [pay], performers={CallTool: step})
    with agent, pytest.raises(ConfigError, match="async function, which needs an AsyncAgent"):
        agent.run("Go!")
    assert RAN == []


@every_way
@pytest.mark.parametrize("kind", [CallModel, CallTool, AskApproval, Recall, RunHook, SpawnWorker, StartTimer])
def test_each_effect_may_have_one_and_its_answer_may_come_later(talk: Way, kind: type) -> None:
    """A future is answered by another thread, as one that is forwarded is."""
    met: list[type] = []

    def answer(effect: Any) -> Input:
        match effect:
            case CallModel():
                return ModelReplied(effect.effect_id, "Performed.")
            case CallTool():
                return ToolReturned(effect.effect_id, "performed")
            case AskApproval():
                return ApprovalGiven(effect.effect_id)
            case Recall():
                return MemoryRecalled(effect.effect_id, ("a note",))
            case RunHook():
                return HookReturned(effect.effect_id)
            case SpawnWorker():
                return WorkerFinished(effect.effect_id, "performed")
            case _:
                return TimerFired(effect.effect_id)

    def later(effect: Any, scope: Scope) -> Future[Input]:
        met.append(type(effect))
        future: Future[Input] = Future()
        threading.Timer(0.01, lambda: future.set_result(answer(effect))).start()
        return future

    worker = call("spawn_worker", name="ann", objective="look")
    replies: dict[type, list[Any]] = {
        CallModel: [],
        CallTool: [call("pay", amount=1), "Done."],
        AskApproval: [call("delete", name="x"), "Done."],
        SpawnWorker: [worker, "Done."],
        StartTimer: [Reply(failure=Failure("busy", kind="transient")), "Done."],
    }
    options: dict[type, dict[str, Any]] = {
        SpawnWorker: {"features": ["workers"]},
        Recall: {"recall_first": True},
        RunHook: {"hooks": {"user_message": lambda request: pytest.fail("the performer stands in for it")}},
    }

    model = ScriptedModel(replies.get(kind, ["Done."]))
    talk(model, "Go!", tools=[pay, delete], performers={kind: later}, **options.get(kind, {}))

    assert met == [kind]


@every_way
@pytest.mark.parametrize("late", [False, True])
def test_one_that_fails_lets_nothing_run(talk: Way, late: bool) -> None:
    """An approval that could not be asked for is refused, and a hook that failed refuses."""

    def broken(effect: Any, scope: Scope) -> Any:
        if not late:
            raise OSError("the other side is gone")
        future: Future[Input] = Future()
        future.set_exception(OSError("the other side is gone"))
        return future

    done = talk(script(call("delete", name="x")), "Go!", tools=[delete], performers={AskApproval: broken})
    assert [status for _, status in done.tool_results] == ["refused"]

    hooks = {"before_tool": lambda request: None}
    done = talk(script(call("pay", amount=1)), "Go!", tools=[pay], hooks=hooks, performers={RunHook: broken})
    assert [status for _, status in done.tool_results] == ["refused"]
    done = talk(script(call("pay", amount=1)), "Go!", tools=[pay], performers={CallTool: broken})
    assert [status for _, status in done.tool_results] == ["error"]
    assert RAN == []


WRONG = [
    pytest.param(lambda effect: True, id="a bare answer"),
    pytest.param(lambda effect: "ok", id="a text"),
    pytest.param(lambda effect: ToolReturned(effect.effect_id, "ok"), id="of another effect"),
    pytest.param(lambda effect: ApprovalGiven("9.9.9"), id="of another id"),
]


@every_way
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("answer", WRONG)
def test_an_answer_that_is_none_is_an_error_and_nothing_runs(talk: Way, answer: Any, late: bool) -> None:
    def wrong(effect: Any, scope: Scope) -> Any:
        future: Future[Any] = Future()
        future.set_result(answer(effect))
        return future if late else answer(effect)

    with pytest.raises(ConfigError, match=r"AskApproval has to return ApprovalGiven or ApprovalRefused .* 1\.1\.1"):
        talk(ScriptedModel([call("delete", name="x")]), "Go!", tools=[delete], performers={AskApproval: wrong})
    assert RAN == []


@pytest.mark.parametrize(
    ("performers", "message"),
    [
        ({"call_tool": call_tool}, "the key 'call_tool'; each must be a type"),
        ({ToolReturned: call_tool}, "ToolReturned.* is no effect; the effects are CallModel, CallTool"),
        ({CallTool: "run"}, "'run' is no function to perform CallTool|performers"),
        ([CallTool], "performers"),
    ],
)
def test_what_is_none_is_refused_at_once(performers: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Agent(ScriptedModel(["Hello."]), performers=performers)


@every_way
def test_nothing_begins_in_one_after_a_cancellation(talk: Way) -> None:
    """A performer was under way when the turn was cancelled: the usual one does not run the tool any more."""
    agents: list[Any] = []
    ended = threading.Event()

    def slow(effect: CallTool, scope: Scope) -> Input | None:
        agents[0].cancel("enough")
        try:
            return call_tool(effect, scope)
        finally:
            ended.set()

    done = talk(
        ScriptedModel([call("pay", amount=1)]), "Go!", tools=[pay], use=agents.append, performers={CallTool: slow}
    )

    assert ended.wait(5)
    assert RAN == []
    assert done.results[0].outcome == Cancelled("enough")


@every_way
def test_what_is_awaited_is_cancelled_with_its_turn(talk: Way) -> None:
    """The future of an answer that nobody waits for any more is cancelled, which tells the other side."""
    futures: list[Future[Input]] = []
    agents: list[Any] = []

    def never(effect: Any, scope: Scope) -> Future[Input]:
        futures.append(Future())
        threading.Timer(0.05, partial(agents[0].cancel, "enough")).start()
        return futures[0]

    done = talk(
        ScriptedModel([call("delete", name="x")]),
        "Go!",
        tools=[delete],
        use=agents.append,
        performers={AskApproval: never},
    )

    deadline = time.monotonic() + 5
    while not futures[0].cancelled() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert futures[0].cancelled()
    assert done.results[0].outcome == Cancelled("enough")
    assert RAN == []


@every_way
def test_the_plan_for_failures_holds_whoever_performs(talk: Way) -> None:
    """A model that fails is asked again by the engine's plan, whoever performs."""
    tries: list[int] = []

    def model(effect: CallModel, scope: Scope) -> Input:
        tries.append(len(effect.request.messages))
        if len(tries) == 1:
            return ModelFailed(effect.effect_id, Failure("busy", kind="transient"))
        return ModelReplied(effect.effect_id, "Here.")

    given = {"performers": {CallModel: model, StartTimer: lambda effect, scope: TimerFired(effect.effect_id)}}
    done = talk(ScriptedModel([]), "Go!", **given)

    assert done.texts == ["Here."]
    assert tries == [1, 1]


def test_a_future_for_a_call_that_took_too_long_before_it_was_there_is_cancelled() -> None:
    """Whoever would complete it is told that nobody waits, though the turn goes on."""
    later: Future[Input] = Future()
    cancelled, pause = threading.Event(), threading.Event()
    later.add_done_callback(lambda one: one.cancelled() and cancelled.set())

    @tool(timeout=0.01)
    def work() -> None:
        RAN.append("work")

    def slow(effect: CallTool, scope: Scope) -> Future[Input]:
        assert scope.context is not None
        while not scope.context.cancelled:
            pause.wait(0.001)
        pause.wait(0.01)
        return later

    def goes_on(request: Any) -> Any:
        if len(request.messages) == 1:
            return call("work")
        assert cancelled.wait(PATIENCE)
        return "Done."

    with Agent(FunctionModel(goes_on), [work], performers={CallTool: slow}) as agent:
        assert agent.run("Go!").text == "Done."
    assert RAN == []


def _cancelled_future() -> Future[Any]:
    future: Future[Any] = Future()
    future.cancel()
    return future


def _failed_future(error: BaseException) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_exception(error)
    return future


def _not_begun(effect: Any) -> Any:
    raise NotBegun


@every_way
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(_not_begun, id="says that it has not begun"),
        pytest.param(lambda effect: _failed_future(NotBegun()), id="says so later"),
        pytest.param(lambda effect: _cancelled_future(), id="cancelled by somebody else"),
        pytest.param(lambda effect: _failed_future(asyncio.CancelledError()), id="ended as a task is cancelled"),
    ],
)
@pytest.mark.timeout(30)
def test_a_turn_never_waits_for_one_that_gave_up(talk: Way, answer: Any) -> None:
    """The turn goes on, since nobody cancelled it, and the model is told that the call was refused."""

    def gives_up(effect: Any, scope: Scope) -> Any:
        return answer(effect)

    done = talk(script(call("delete", name="x")), "Go!", tools=[delete], performers={AskApproval: gives_up})

    assert [status for _, status in done.tool_results] == ["refused"]
    assert RAN == []


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
@pytest.mark.timeout(30)
def test_a_future_that_holds_what_ends_a_program_is_no_answer(error: BaseException) -> None:
    """Another thread put it there, and it interrupts nobody here: also not who answers the future."""

    def broken(effect: Any, scope: Scope) -> Future[Any]:
        future: Future[Any] = Future()
        threading.Timer(0.01, future.set_exception, [error]).start()
        return future

    for given in ({"performers": {AskApproval: broken}}, {"approve": lambda request: broken(request, None)}):
        with Agent(script(call("delete", name="x")), [delete], **given) as agent:
            assert [one.status for one in agent.run("Go!").calls] == ["refused"]
    assert RAN == []


@every_way
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(("kind", "name"), [(AskApproval, "delete"), (CallTool, "pay"), (CallModel, "pay")])
@pytest.mark.timeout(30)
def test_none_is_no_answer_while_the_turn_goes_on(talk: Way, kind: type, name: str, late: bool) -> None:
    """A forgotten ``return`` is an error that says so; the turn would wait for it without end."""

    def forgets(effect: Any, scope: Scope) -> Any:
        future: Future[Any] = Future()
        future.set_result(None)
        return future if late else None

    arguments = {"name": "x"} if name == "delete" else {"amount": 1}
    model = ScriptedModel([] if kind is CallModel else [call(name, **arguments)])
    with pytest.raises(ConfigError, match=f"performer of {kind.__name__} has to return .* not None"):
        talk(model, "Go!", tools=[pay, delete], performers={kind: forgets})
    assert RAN == []


@every_way
@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        (CallTool, lambda effect: ToolReturned(effect.effect_id, 5)),
        (CallTool, lambda effect: ToolReturned(effect.effect_id, b"bytes")),
        (CallModel, lambda effect: ModelReplied(effect.effect_id, calls=("pay",))),
        (CallModel, lambda effect: ModelFailed(effect.effect_id, "busy")),
    ],
)
def test_an_answer_whose_fields_are_of_other_types_is_an_error(talk: Way, kind: type, answer: Any) -> None:
    """No engine is given what its recording could not hold."""
    model = ScriptedModel([] if kind is CallModel else [call("pay", amount=1)])
    with pytest.raises(ConfigError, match=f"performer of {kind.__name__} returned no"):
        talk(model, "Go!", tools=[pay], performers={kind: lambda effect, scope: answer(effect)})


@every_way
@pytest.mark.parametrize("answers", [(), (("red",), ("blue",)), (("red", "blue"),), ((),)])
def test_answers_that_do_not_fit_the_questions_are_an_error(talk: Way, answers: Any) -> None:
    """The engine rejects them, and the turn would end without an outcome."""
    question = call("ask_user", questions=[{"question": "Red or blue?", "options": ["red", "blue"]}])

    def answer(effect: AskUser, scope: Scope) -> Input:
        return QuestionAnswered(effect.effect_id, answers)

    with pytest.raises(ConfigError, match=r"one answer for each of 1 questions|takes exactly one of its options"):
        talk(ScriptedModel([question]), "Go!", features=["questions"], performers={AskUser: answer})


@pytest.mark.timeout(30)
def test_cancelling_reaches_one_that_awaits_elsewhere_in_place_of_the_model() -> None:
    """It is awaited beside the session, which hears of the cancellation: there is no reply that could be stopped."""
    ended: list[str] = []

    async def never(effect: CallModel, scope: Scope) -> Input:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")
        raise AssertionError

    async def main() -> object:
        async with AsyncAgent(ScriptedModel([]), performers={CallModel: never}) as agent:
            asyncio.get_running_loop().call_later(0.05, agent.cancel, "enough")
            return (await agent.run("Go!")).outcome

    assert asyncio.run(main()) == Cancelled("enough")
    assert ended == ["cancelled"]


@every_way
@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit(), asyncio.CancelledError(), BaseException("no")])
def test_one_that_exits_fails_its_call_alone(talk: Way, error: BaseException) -> None:
    """As a tool that calls sys.exit() does, or raises anything else that is no ``Exception``."""

    def leave(effect: CallTool, scope: Scope) -> Input:
        raise error

    done = talk(script(call("pay", amount=1)), "Go!", tools=[pay], performers={CallTool: leave})

    assert [status for _, status in done.tool_results] == ["error"]
    assert done.texts == ["Done."]


@every_way
def test_only_a_question_is_answered_by_a_cancellation(talk: Way) -> None:
    """An approval is given or refused; whoever wants the turn to end cancels it."""

    def cancels(effect: AskApproval, scope: Scope) -> Input:
        return CancelAsked("no")

    with pytest.raises(ConfigError, match="AskApproval has to return ApprovalGiven or ApprovalRefused"):
        talk(
            ScriptedModel([call("pay", amount=1), call("delete", name="x")]),
            "Go!",
            tools=[delete, pay],
            performers={AskApproval: cancels},
        )
    assert RAN == ["paid 1"]
