"""System prompts that a function of the program makes: when it is called, with what, and what of it is recorded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cognition import Cancelled, ConfigError, ModelRequest, UserMessage
from interpreters import Agent, AsyncAgent, BusyError, SystemPromptError, ToolContext, replay, tool
from interpreters.hosting import AgentHost
from interpreters.recording.sessions import (
    read_transcript,
    transcript_to_data,
    transcript_to_markdown,
    transcript_to_openai,
)
from interpreters.testing.fakes import FunctionModel, call
from tests.interpreters.secrets import KEY
from tests.interpreters.ways import Way, every_way, resumed_in_asyncio, resumed_in_sync


def telling(request: ModelRequest) -> str:
    """The system prompt that the model was given."""
    return request.system


class Counting:
    """Makes prompts, and counts them."""

    def __init__(self, *prompts: Any) -> None:
        self.prompts = prompts
        self.calls = 0

    def __call__(self) -> Any:
        prompt = self.prompts[self.calls % len(self.prompts)]
        self.calls += 1
        if isinstance(prompt, BaseException):
            raise prompt
        return prompt


@every_way
def test_it_is_made_anew_for_each_message_and_stays_for_all_of_its_turn(talk: Way) -> None:
    @tool(read_only=True)
    def look() -> str:
        """Look."""
        return "seen"

    def reply(request: ModelRequest) -> Any:
        last = request.messages[-1]
        return call("look") if isinstance(last, UserMessage) and last.text == "Look!" else request.system

    made = Counting("one", "two", "three")
    assert talk(FunctionModel(reply), "a", "Look!", "b", tools=[look], system=made).texts == ["one", "two", "three"]
    assert made.calls == 3


# ----------------------------------------------------------------------------------------------------- what it is given


def nothing() -> str:
    return "no one"


def by_name(deps: str) -> str:
    return deps


def by_place(user: str) -> str:
    return user


def placed(user: str, /) -> str:
    return user


def keyword(*, deps: str) -> str:
    return deps


def in_context(context: ToolContext[str]) -> str:
    return f"{context.deps} in {context.session}"


def under_any_name(it: ToolContext[str]) -> str:
    return f"{it.deps} in {it.session}"


def without_annotation(ctx):  # type: ignore[no-untyped-def]  # as people write it
    return f"{ctx.deps} in {ctx.session}"


def both(context: ToolContext[str], deps: str) -> str:
    return f"{deps} in {context.session}"


def both_in_another_order(who: str, where: ToolContext[str]) -> str:
    return f"{who} in {where.session}"


def with_defaults(deps: str, greeting: str = "Hi", *more: str, **rest: str) -> str:
    return f"{greeting} {deps}{more}{rest}"


def only_defaults(greeting: str = "Hi") -> str:
    return greeting


class Prompts:
    def __call__(self, deps: str) -> str:
        return deps

    def method(self, deps: str) -> str:
        return deps

    @staticmethod
    def static() -> str:
        return "no one"


GIVEN: list[tuple[Any, str]] = [
    (nothing, "no one"),
    (by_name, "Ann"),
    (by_place, "Ann"),
    (placed, "Ann"),
    (keyword, "Ann"),
    (in_context, "Ann in S"),
    (under_any_name, "Ann in S"),
    (without_annotation, "Ann in S"),
    (both, "Ann in S"),
    (both_in_another_order, "Ann in S"),
    (with_defaults, "Hi Ann(){}"),
    (only_defaults, "Hi"),
    (Prompts(), "Ann"),
    (Prompts().method, "Ann"),
    (Prompts.static, "no one"),
    (partial(both, deps="Bob"), "Ann in S"),
    (lambda deps: f"<{deps}>", "<Ann>"),
    (lambda: "", ""),
]


@every_way
@pytest.mark.parametrize(("function", "text"), GIVEN)
def test_it_takes_nothing_or_the_deps_or_the_context_of_tools(talk: Way, function: Any, text: str) -> None:
    assert talk(FunctionModel(telling), "Hello", system=function, deps="Ann", session="S").texts == [text]


@pytest.mark.parametrize(
    "function",
    [lambda a, b: "", lambda deps, other: "", lambda context, ctx: "", str, Counting, 3, None, b"text", ["text"]],
)
def test_what_can_not_be_called_so_is_refused_at_once(function: Any) -> None:
    for make in (Agent, AsyncAgent):
        with pytest.raises(ConfigError, match="system"):
            make(FunctionModel(telling), system=function)


def test_it_may_be_async_under_asyncio_and_nowhere_else() -> None:
    async def system(deps: str) -> str:
        await asyncio.sleep(0)
        return f"async {deps}"

    async def main() -> str:
        async with AsyncAgent(FunctionModel(telling), system=system, deps="Ann") as agent:
            return (await agent.run("Hello")).text

    assert asyncio.run(main()) == "async Ann"
    with pytest.raises(ConfigError, match="system is an async function, which needs an AsyncAgent"):
        Agent(FunctionModel(telling), system=system)
    with AgentHost.in_thread(FunctionModel(telling)) as host, pytest.raises(ConfigError, match="needs a plain one"):
        host.open("a", system=system)


def test_a_coroutine_that_only_shows_when_it_is_called_is_refused_without_a_warning() -> None:
    async def system() -> str:
        return "x"

    agent = Agent(FunctionModel(telling), system=lambda: system())
    with agent, pytest.raises(SystemPromptError, match="has to return a text"):
        agent.run("Hello")


# ------------------------------------------------------------------------------------------------------------ mistakes


def safely(run: Any, errors: list[Exception]) -> Any:
    def safe(text: str) -> Any:
        while True:
            try:
                return run(text)
            except SystemPromptError as error:
                errors.append(error)

    async def safe_async(text: str) -> Any:
        while True:
            try:
                return await run(text)
            except SystemPromptError as error:
                errors.append(error)

    return safe_async if asyncio.iscoroutinefunction(run) else safe


@every_way
def test_a_function_that_fails_is_an_error_of_run_and_the_session_goes_on(talk: Way, tmp_path: Path) -> None:
    path, errors = tmp_path / "s.jsonl", list[Exception]()
    made = Counting(
        "one", ValueError("no such user"), KeyError("name"), None, 3, b"x", "two", StopIteration("x"), "three"
    )

    def use(agent: Any) -> None:
        agent.run = safely(agent.run, errors)

    done = talk(FunctionModel(telling), "a", "b", "c", system=made, journal=path, use=use)

    assert done.texts == ["one", "two", "three"]
    said = [str(error) for error in errors]
    assert said[0] == (
        "the function of system failed (no such user); nothing was said to the model, and the session can go on"
    )
    assert [text for text in said if "has to return a text, not" in text] == said[2:5]
    assert (len(said), len(done.state.history)) == (6, 6)
    assert isinstance(errors[0].__cause__, ValueError)
    assert (replay(path).turns, replay(path).state) == (3, done.state)


@every_way
def test_a_subclass_of_text_is_recorded_as_text(talk: Way, tmp_path: Path) -> None:
    class Rich(str):
        __slots__ = ()

    path = tmp_path / "s.jsonl"
    live = talk(FunctionModel(telling), "a", system=lambda: Rich("rich"), journal=path)

    assert replay(path).state == live.state


def test_an_interrupt_passes_through_and_the_session_goes_on() -> None:
    with Agent(FunctionModel(telling), system=Counting(KeyboardInterrupt(), "two")) as agent:
        with pytest.raises(KeyboardInterrupt):
            agent.run("a")
        assert agent.run("a").text == "two"


def test_it_may_not_use_its_own_agent_meanwhile() -> None:
    def system() -> str:
        return str(agent.run("again").text)

    agent = Agent(FunctionModel(telling), system=system)
    with pytest.raises(SystemPromptError, match="a turn is under way") as caught:
        agent.run("Hello")
    assert isinstance(caught.value.__cause__, BusyError)


def test_a_cancellation_while_it_is_made_ends_the_turn_and_nothing_of_it_begins() -> None:
    model = FunctionModel(telling)

    def system() -> str:
        if len(agent.state.history) == 0:
            assert agent.cancel("enough")
        return "x"

    with Agent(model, system=system) as agent:
        assert agent.run("Hello").outcome == Cancelled("enough")
        assert model.requests == []
        assert agent.run("Hello").text == "x"


def test_a_task_that_is_cancelled_while_it_is_made_leaves_the_session_usable() -> None:
    async def main() -> str:
        asked = asyncio.Event()
        hang = True

        async def system() -> str:
            if hang:
                asked.set()
                await asyncio.Event().wait()
            return "x"

        async with AsyncAgent(FunctionModel(telling), system=system) as agent:
            task = asyncio.create_task(agent.run("Hello"))
            await asked.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            hang = False
            assert len(agent.state.history) == 0
            return (await agent.run("Hello")).text

    assert asyncio.run(main()) == "x"


# ---------------------------------------------------------------------------------------------------------- recordings


def systems(path: Path) -> Iterator[Any]:
    for line in path.read_text().splitlines()[1:]:
        event = json.loads(line)["input"]
        if event["type"] == "user_spoke":
            yield event.get("system")


@every_way
def test_what_it_gave_is_recorded_where_it_changed_and_a_replay_needs_no_function(talk: Way, tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    made = Counting("one", "one", "two", "two", "one")
    live = talk(FunctionModel(telling), *"abcde", system=made, journal=path)
    report = replay(path)

    assert list(systems(path)) == ["one", None, "two", None, "one"]
    assert (report.divergence, report.state, made.calls) == (None, live.state, 5)


@every_way
def test_a_resume_keeps_the_last_one_or_goes_on_with_a_function(talk: Way, tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    talk(FunctionModel(telling), "a", system=Counting("one"), journal=path)

    assert resumed_in_sync(path, FunctionModel(telling), "b").texts == ["one"]
    assert resumed_in_asyncio(path, FunctionModel(telling), "b", system=by_name, deps="Ann").texts == ["Ann"]
    assert resumed_in_sync(path, FunctionModel(telling), "b", system=Counting("three", "four")).texts == ["three"]
    assert resumed_in_asyncio(path, FunctionModel(telling), "b").texts == ["three"]
    assert replay(path).divergence is None
    with pytest.raises(ConfigError, match="system"):
        Agent.resume(path, FunctionModel(telling), system="a text")  # type: ignore[arg-type]  # what is tried


def test_a_fork_keeps_the_one_of_its_turn_or_has_its_own(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    with Agent(FunctionModel(telling), system=Counting("one", "two"), journal=path) as agent:
        agent.run("a")
        agent.run("b")

    def forked(**given: Any) -> str:
        with Agent.fork(path, FunctionModel(telling), **given) as fork:
            text: str = fork.run("c").text
            return text

    assert [forked(), forked(turn=1), forked(system="mine"), forked(system="")] == ["two", "one", "mine", ""]
    assert forked(system=Counting("new"), journal=tmp_path / "f.jsonl") == "new"
    assert replay(tmp_path / "f.jsonl").divergence is None
    assert forked(foreign=True) == "two"  # it is the user's own all the same


def test_the_message_after_a_reset_brings_it_again_though_it_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    with Agent(FunctionModel(telling), system=lambda: "one", journal=path) as agent:
        agent.run("a")
        agent.reset()
        assert agent.run("b").text == "one"

    assert list(systems(path)) == ["one", "one"]


def test_a_state_keeps_it_until_the_program_says_another() -> None:
    with Agent(FunctionModel(telling), system=Counting("one")) as agent:
        agent.run("a")
        kept = agent.state

    def told(system: Any = "") -> str:
        with Agent(FunctionModel(telling), system=system, state=kept) as agent:
            return agent.run("b").text

    assert [told(), told("mine"), told(Counting("two"))] == ["one", "mine", "two"]


def test_a_secret_in_it_is_hidden_in_the_recording_and_the_model_is_given_it(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    with Agent(FunctionModel(telling), system=lambda: f"The key is {KEY}.", journal=path) as agent:
        assert [agent.run("a").text, agent.run("b").text] == [f"The key is {KEY}."] * 2

    assert KEY not in path.read_text()
    assert list(systems(path)) == ["The key is [redacted:api_key:1].", None]
    assert replay(path).divergence is None
    assert resumed_in_sync(path, FunctionModel(telling), "c", system=lambda: f"The key is {KEY}.").texts == [
        f"The key is {KEY}."
    ]


def test_transcripts_and_exports_say_which_prompt_held(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    with Agent(FunctionModel(lambda _: "ok"), system=Counting("one", "two", "three"), journal=path) as agent:
        agent.run("a")
        agent.run("b")
        agent.reset()
        agent.run("c")
    transcript = read_transcript(path)

    assert "*The program made a new system prompt.*\n\n> two\n\n**User**\n\n> b\n" in transcript_to_markdown(transcript)
    assert [body["messages"][0] for body in transcript_to_openai(transcript)] == [
        {"role": "system", "content": "two"},
        {"role": "system", "content": "three"},
    ]
    assert transcript_to_data(transcript)["turns"][0]["entries"][0]["system"] == "one"


# --------------------------------------------------------------------------------------------------- workers and hosts


@every_way
def test_a_worker_works_with_the_prompt_that_its_parent_has(talk: Way) -> None:
    heard: list[str] = []

    def reply(request: ModelRequest) -> Any:
        first, last = request.messages[0], request.messages[-1]
        if isinstance(first, UserMessage) and first.text == "Dig.":
            heard.append(request.system)
            return "dug"
        return call("spawn_worker", name="digger", objective="Dig.") if isinstance(last, UserMessage) else "Done."

    made = Counting("one", "two")
    assert talk(FunctionModel(reply), "a", "b", system=made, features=["workers"]).texts == ["Done."] * 2
    assert (heard, made.calls) == (["one", "two"], 2)


def test_a_handle_makes_it_on_its_own_side(tmp_path: Path) -> None:
    path, made = tmp_path / "s.jsonl", Counting("one", "one", ValueError("no such user"), "two", "three", "four")
    with AgentHost.in_thread(FunctionModel(telling)) as host:
        handle = host.open("a", system=made, journal=path)
        assert [handle.run("a").text, handle.run("b").text] == ["one", "one"]
        with pytest.raises(SystemPromptError, match="no such user"):
            handle.run("c")
        assert asyncio.run(handle.run_async("c")).text == "two"
        assert handle.fork("b").run("d").text == "three"
        assert handle.fork("c", system="mine").run("d").text == "mine"
        assert handle.fork("d", after=1).run("d").text == "four"
    assert list(systems(path)) == ["one", None, "two"]
    assert replay(path).divergence is None

    with AgentHost.in_thread(FunctionModel(telling)) as host:
        assert host.open("a", journal=path, resume=True).run("e").text == "two"
    with AgentHost.in_thread(FunctionModel(telling)) as host:
        handle = host.open("a", journal=path, resume=True, system=by_name, deps="Ann")
        assert handle.run("f").text == "Ann"


def test_a_handle_that_is_busy_or_gone_says_so(tmp_path: Path) -> None:
    with AgentHost.in_thread(FunctionModel(telling)) as host:
        handle = host.open("a", system=lambda: "x")
        handle.dispose()
        with pytest.raises(Exception, match="disposed"):
            handle.run("a")
