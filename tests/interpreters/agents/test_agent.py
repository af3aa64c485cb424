"""The facade and the sync interpreter below it: whole turns on a scripted model."""

import asyncio
import gc
import threading
import weakref
from typing import Any

import pytest
from hypothesis import given, strategies as st

from cognition import (
    AgentState,
    AssistantMessage,
    CallModel,
    CogstepError,
    Completed,
    ConfigError,
    EchoEngine,
    EffectId,
    Failed,
    Failure,
    Idle,
    Input,
    LimitReached,
    Limits,
    LLMEngine,
    MalformedToolCall,
    ModelRequest,
    StartTimer,
    ToolMessage,
    Transition,
    Usage,
    UserMessage,
    UserSpoke,
)
from interpreters import (
    Agent,
    AgentClosedError,
    AsyncAgent,
    ToolContext,
    TurnFailedError,
    fakes,
    tool,
)
from interpreters.loop.driver import Driver
from interpreters.testing.fakes import Reply, ScriptedApprovals, ScriptedModel, ScriptError, call
from tests.interpreters.simple_tools import multiply, pay, statuses

# --------------------------------------------------------------------------------------------------------- one turn


def test_a_turn_with_one_call() -> None:
    """The call runs, its result goes to the model, the answer comes back."""
    model = ScriptedModel([call("multiply", a=17, b=23), Reply("17 * 23 is 391.", usage=Usage(30, 8))])

    with Agent(model, tools=[multiply], system="Be brief.") as agent:
        result = agent.run("What is 17 * 23?")

    assert result.text == "17 * 23 is 391."
    assert Completed("17 * 23 is 391.") == result.outcome
    assert [(c.name, c.arguments, c.content, c.status) for c in result.calls] == [
        ("multiply", {"a": 17, "b": 23}, "391", "ok")
    ]
    assert [UserMessage, AssistantMessage, ToolMessage, AssistantMessage] == [type(m) for m in result.messages]
    assert (Usage(30, 8), 1, True, result) == (result.usage, result.turn, result.ok, result.raise_for_failure())
    assert [request.system for request in model.requests] == ["Be brief.", "Be brief."]


def test_the_conversation_goes_on_over_several_runs() -> None:
    """Each run sees what was said before; its result holds its own messages only."""
    model = ScriptedModel(["Hello!", "You said hi.", "Who are you?"])

    with Agent(model) as agent:
        agent.run("hi")
        second = agent.run("What did I say?")
        assert [m.text for m in model.requests[1].messages if hasattr(m, "text")] == ["hi", "Hello!", "What did I say?"]
        assert len(second.messages) == 2
        agent.reset()
        agent.run("And now?")

    assert len(model.requests[2].messages) == 1


@pytest.mark.parametrize("read_only", [True, False])
def test_what_a_tool_does_wrong_is_told_to_the_model(read_only: bool) -> None:
    """Wrong arguments and exceptions are results with the status ``error``; the turn goes on."""

    @tool(read_only=read_only)
    def divide(a: int, b: int) -> float:
        return a / b

    model = ScriptedModel([call("divide", a=1, b=0), call("divide", a="1"), "I can't."])

    with Agent(model, tools=[divide]) as agent:
        assert agent.run("1 / 0?").text == "I can't."

    assert statuses(agent) == [
        ("Error: division by zero", "error"),
        ('Error: wrong arguments for divide: a must be a whole number, not "1"; b is missing', "error"),
    ]


def test_what_the_model_does_wrong_is_in_the_outcome() -> None:
    """``run`` raises nothing for it; ``raise_for_failure`` does."""
    with Agent(ScriptedModel([Failure("no such model", kind="fatal")])) as agent:
        result = agent.run("hi")

    assert ("", Failed("fatal", "no such model"), False) == (result.text, result.outcome, result.ok)
    with pytest.raises(TurnFailedError, match=r"fatal.*no such model"):
        result.raise_for_failure()


def test_an_exception_out_of_a_runtime_is_a_failed_call() -> None:
    """No runtime should raise; one that does can't take the program with it."""

    class Broken(ScriptedModel):
        def submit(self, request: ModelRequest) -> Any:
            raise OSError("the driver is gone")

    with Agent(Broken([])) as agent:
        assert Failed("fatal", "OSError: the driver is gone") == agent.run("hi").outcome


def test_a_stream_without_an_end_is_a_failed_call() -> None:
    class Cut(ScriptedModel):
        def submit(self, request: ModelRequest) -> Any:
            generation = super().submit(request)
            list(generation)
            return generation

    with Agent(Cut(["hi"])) as agent:
        assert Failed("fatal", "the model's stream broke off without an end") == agent.run("hi").outcome


def test_an_unreadable_call_goes_back_to_the_model() -> None:
    malformed = MalformedToolCall('{"name": "multiply"', "unclosed object")
    model = ScriptedModel([Reply(malformed=(malformed,)), "Sorry."])

    with Agent(model, tools=[multiply]) as agent:
        assert agent.run("2 * 3?").text == "Sorry."

    assert "unclosed object" in str(model.requests[1].messages[-1])


def test_a_limit_ends_the_turn_with_a_last_answer() -> None:
    model = ScriptedModel([call("multiply", a=1, b=2), "It is 2, I think."])

    with Agent(model, tools=[multiply], limits=Limits(steps=1)) as agent:
        result = agent.run("1 * 2?")

    assert LimitReached("steps", "It is 2, I think.") == result.outcome
    assert (result.text, result.ok) == ("It is 2, I think.", False)
    assert result is result.raise_for_failure()


def test_a_retry_waits_by_the_clock_and_asks_again() -> None:
    """The waiting is the clock's matter: with a fake one it takes no time and is on record."""
    clock = fakes.FakeClock(1000.0)
    model = ScriptedModel([Failure("slow down", status=429, retry_after=7.0), "Now it works."])

    with Agent(model, clock=clock) as agent:
        assert agent.run("hi").text == "Now it works."

    assert (clock.waits, clock.now) == ([7.0], 1007.0)


def test_a_failure_after_text_is_retried_only_when_nobody_read_it() -> None:
    """With an observer the beginning has been shown, and a second, different answer would contradict it."""
    broken = Reply("Once upon", failure=Failure("connection reset", kind="transient"))

    with Agent(ScriptedModel([broken, "A whole story."]), clock=fakes.FakeClock()) as agent:
        assert agent.run("Tell me a story.").text == "A whole story."
    with Agent(ScriptedModel([broken]), clock=fakes.FakeClock(), observers=[lambda event: None]) as agent:
        assert Failed("transient", "connection reset", "Once upon") == agent.run("Tell me a story.").outcome


# ------------------------------------------------------------------------------------------------------ the context


def test_a_tool_gets_its_context() -> None:
    """``deps``, the session and the call's own id."""
    seen: list[tuple[Any, str, str, str]] = []

    @tool
    def look(context: ToolContext[dict[str, int]]) -> str:
        seen.append((context.deps, context.session, context.call_id, context.tool))
        return "ok"

    deps = {"a": 1}
    with Agent(ScriptedModel([call("look"), "done"]), tools=[look], deps=deps, session="s1") as agent:
        agent.run("look")

    assert [(deps, "s1", "call-1-1-1", "look")] == seen
    assert seen[0][0] is deps


# ------------------------------------------------------------------------------------------------------- the threads


def test_a_read_only_call_that_stands_alone_runs_on_the_session_s_thread() -> None:
    """So it costs no thread; any other call runs elsewhere, so that a cancellation need not wait for it."""
    names: list[tuple[str, bool]] = []

    def here(name: str) -> str:
        names.append((name, threading.current_thread() is threading.main_thread()))
        return "ok"

    @tool(read_only=True)
    def look() -> str:
        return here("look")

    @tool
    def change() -> str:
        return here("change")

    @tool(read_only=True, timeout=60)
    def fetch() -> str:
        return here("fetch")

    model = ScriptedModel([call("look"), call("change"), call("fetch"), "done"])
    with Agent(model, tools=[look, change, fetch]) as agent:
        agent.run("go")

    assert names == [("look", True), ("change", False), ("fetch", False)]


@given(order=st.permutations(range(3)))
def test_read_only_calls_of_one_reply_run_together_and_keep_their_order(order: list[int]) -> None:
    """All are at work at once (each waits for the barrier); results stand in call order, whoever comes first."""
    barrier = threading.Barrier(3, timeout=60)
    turns = [threading.Event() for _ in range(4)]
    turns[0].set()

    @tool(read_only=True)
    def look(n: int) -> int:
        barrier.wait()
        place = order.index(n)
        assert turns[place].wait(60)
        turns[place + 1].set()
        return n

    with Agent(ScriptedModel([[call("look", n=n) for n in range(3)], "done"]), tools=[look]) as agent:
        result = agent.run("look")

    assert [c.content for c in result.calls] == ["0", "1", "2"]


def test_calls_that_change_something_run_one_after_the_other() -> None:
    order: list[str] = []

    @tool
    def change(n: int) -> str:
        order.append(f"begin {n}")
        order.append(f"end {n}")
        return "ok"

    with Agent(ScriptedModel([[call("change", n=1), call("change", n=2)], "done"]), tools=[change]) as agent:
        agent.run("go")

    assert order == ["begin 1", "end 1", "begin 2", "end 2"]


def test_an_agent_that_is_closed_leaves_no_thread() -> None:
    before = set(threading.enumerate())

    @tool
    def change(n: int) -> int:
        return n

    with Agent(ScriptedModel([[call("change", n=1), call("change", n=2)], "done"]), tools=[change]) as agent:
        agent.run("go")

    assert set() == set(threading.enumerate()) - before


def test_a_tool_that_takes_too_long_is_a_failed_call() -> None:
    """The turn goes on, the tool sees that it is cancelled, and what it gives later goes nowhere."""
    release, cancelled = threading.Event(), []

    @tool(timeout=30)
    def slow(context: ToolContext[Any]) -> str:
        release.wait(60)
        cancelled.append(context.cancelled)
        return "at last"

    clock = fakes.FakeClock()
    with Agent(ScriptedModel([call("slow"), "It did not answer."]), tools=[slow], clock=clock) as agent:
        assert agent.run("go").text == "It did not answer."
        release.set()

    assert statuses(agent) == [("Error: slow took longer than 30 seconds", "error")]
    assert cancelled == [True]


# ------------------------------------------------------------------------------------------------- misuse and closing


def test_a_second_run_at_the_same_time_is_refused() -> None:
    """Also one out of a tool of the same agent."""
    agents: list[Agent] = []

    @tool(read_only=True)
    def again() -> str:
        return agents[0].run("more").text

    with Agent(ScriptedModel([call("again"), "done"]), tools=[again]) as agent:
        agents.append(agent)
        agent.run("go")

    assert statuses(agent) == [("Error: a turn is under way; wait for its end or call cancel()", "error")]


def test_a_closed_agent_says_so() -> None:
    agent = Agent(ScriptedModel([]))
    agent.close()
    agent.close()

    with pytest.raises(AgentClosedError):
        agent.run("hi")
    with pytest.raises(AgentClosedError):
        agent.reset()


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="multiply"):
        Agent(ScriptedModel([]), tools=[multiply, multiply])


def test_the_context_is_the_model_s_unless_less_is_asked_for() -> None:
    assert Agent(ScriptedModel([], context_tokens=2048)).config.context_tokens == 2048
    assert Agent(ScriptedModel([], context_tokens=2048), context_tokens=1024).config.context_tokens == 1024


# ------------------------------------------------------------------------------------------------- engines and driver


def test_an_engine_of_your_own_runs_as_well() -> None:
    with Agent(ScriptedModel([]), engine=lambda config: EchoEngine()) as agent:
        assert agent.run("hi").text == "Echo: hi"


def test_an_engine_that_ends_no_turn_is_told_so() -> None:
    class Silent:
        def step(self, state: AgentState, input: Input | None) -> Transition:
            return Transition(state)

    with Agent(ScriptedModel([]), engine=lambda config: Silent()) as agent, pytest.raises(CogstepError, match="once"):
        agent.run("hi")


def test_a_driver_wants_a_handler_for_each_effect() -> None:
    """What its engine says it can decide; what an engine that says nothing decides nonetheless is an error then."""
    with pytest.raises(ConfigError, match="CallTool, AskApproval, StartTimer"):
        Driver(LLMEngine(), {CallModel: print}, now=lambda: 0.0)

    class Waits:
        def step(self, state: AgentState, input: Input | None) -> Transition:
            return Transition(state, (StartTimer(EffectId("1.1.0"), 1.0),))

    with pytest.raises(ConfigError, match="nothing here can carry out StartTimer"):
        Driver(Waits(), {CallModel: print}, now=lambda: 0.0).advance(UserSpoke("hi"))


# --------------------------------------------------------------------------------------------------------- the fakes


def test_a_script_that_is_too_short_fails_loudly() -> None:
    """The error passes through the agent: a test must not mistake it for an outcome."""
    with (
        pytest.raises(ScriptError, match=r"ends after 1 replies.*391"),
        Agent(ScriptedModel([call("multiply", a=17, b=23)]), tools=[multiply]) as agent,
    ):
        agent.run("17 * 23?")


def test_a_script_that_is_too_long_fails_loudly() -> None:
    agent = Agent(ScriptedModel(["one", "two"]))
    agent.run("hi")
    with pytest.raises(ScriptError, match=r"only 1 of the script's 2 replies.*'two'"):
        agent.close()


def test_an_error_in_the_block_is_not_hidden_by_what_the_script_still_holds() -> None:
    with pytest.raises(KeyError), Agent(ScriptedModel(["one"])):
        raise KeyError


def test_a_function_in_a_script_sees_the_request() -> None:
    def count(request: ModelRequest) -> str:
        return f"{len(request.messages)} messages"

    with Agent(ScriptedModel(["one", count])) as agent:
        agent.run("hi")
        assert agent.run("how many?").text == "3 messages"


def test_more_approvals_than_scripted_fail_loudly() -> None:
    with (
        pytest.raises(ScriptError, match="0 approvals"),
        Agent(ScriptedModel([call("pay", amount=1)]), tools=[pay], approve=ScriptedApprovals([])) as agent,
    ):
        agent.run("Pay.")


def test_after_a_broken_run_the_session_goes_on() -> None:
    """An exception that passes through leaves a turn that is closed, not one that is stuck."""

    def explode(request: ModelRequest) -> str:
        raise ScriptError("boom")

    with Agent(ScriptedModel(["first", explode, "third"])) as agent:
        agent.run("one")
        with pytest.raises(ScriptError, match="boom"):
            agent.run("two")
        assert Idle() == agent.state.phase
        assert agent.run("three").text == "third"


@pytest.mark.parametrize("kind", [Agent, AsyncAgent])
def test_a_closed_agent_is_freed_at_once(kind: Any) -> None:
    """By its reference count: thousands of short sessions leave nothing for the garbage collector to search."""

    async def soon() -> weakref.ref[Any]:
        async with AsyncAgent(fakes.ScriptedModel(["Hello!"])) as agent:
            await agent.run("Hi!")
            return weakref.ref(agent._interpreter)

    gc.disable()
    try:
        if kind is AsyncAgent:
            left = asyncio.run(soon())
        else:
            with Agent(fakes.ScriptedModel(["Hello!"])) as agent:
                agent.run("Hi!")
                left = weakref.ref(agent._interpreter)
            del agent
        assert left() is None
    finally:
        gc.enable()
