"""Candidates that functions of the program give: when they are asked, with what, and what of it is recorded."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from cognition import Candidate, ConfigError, Failure, ModelRequest, Section, UserSpoke
from interpreters import Agent, AsyncAgent, ContextFiles, ContextSourceError, ToolContext, fakes, replay, tool
from interpreters.hosting import AgentHost
from interpreters.testing.fakes import FunctionModel, call
from tests.interpreters.secrets import KEY
from tests.interpreters.ways import Way, every_way, in_sync, resumed_in_asyncio, resumed_in_sync

IDENTITY = Candidate("identity", "You are Ada.")


def telling(request: ModelRequest) -> str:
    """What the model was given: the system prompt, and the newest message."""
    return f"{request.system}|{getattr(request.messages[-1], 'text', '')}"


class Counting:
    """Gives candidates, and counts how often it is asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers = answers
        self.calls = 0

    def __call__(self) -> Any:
        answer = self.answers[self.calls % len(self.answers)]
        self.calls += 1
        if isinstance(answer, BaseException):
            raise answer
        return answer


@every_way
def test_they_are_asked_anew_for_each_message_and_stand_in_all_of_its_turn(talk: Way) -> None:
    @tool(read_only=True)
    def look() -> str:
        """Look."""
        return "seen"

    def reply(request: ModelRequest) -> Any:
        return call("look") if getattr(request.messages[-1], "text", "").endswith("Look!") else request.system

    made = Counting([IDENTITY], [], iter([Candidate("identity", "You are Bob.")]))
    done = talk(FunctionModel(reply), "Look!", "Look!", "Look!", tools=[look], context=[made])

    assert done.texts == ["<identity>\nYou are Ada.\n</identity>", "", "<identity>\nYou are Bob.\n</identity>"]
    assert made.calls == 3


def with_everything(text: str, deps: str, context: ToolContext[str]) -> list[Candidate]:
    return [Candidate("identity", f"{text} {deps} {context.session}")]


def with_text(text: str) -> list[Candidate]:
    return [Candidate("identity", text)]


def with_deps(user: str) -> list[Candidate]:
    return [Candidate("identity", user)]


def with_nothing() -> list[Candidate]:
    return [Candidate("identity", "nothing")]


class Object:
    def __call__(self, text: str, more: int = 3) -> list[Candidate]:
        return [Candidate("identity", f"{text} {more}")]


@every_way
@pytest.mark.parametrize(
    ("function", "text"),
    [
        (with_everything, "Hello Ann S"),
        (with_text, "Hello"),
        (with_deps, "Ann"),
        (with_nothing, "nothing"),
        (Object(), "Hello 3"),
        (lambda text, /: [Candidate("identity", text)], "Hello"),
    ],
)
def test_they_take_what_the_user_said_the_deps_and_the_context_of_tools(talk: Way, function: Any, text: str) -> None:
    done = talk(FunctionModel(telling), "Hello", context=[function], deps="Ann", session="S")

    assert done.texts == [f"<identity>\n{text}\n</identity>|Hello"]


@every_way
def test_what_several_give_stands_together_behind_the_programs_own_prompt(talk: Way) -> None:
    plums = Counting([Candidate("memory", "Ada likes plums."), Candidate("memory", "Bob likes pears.")])
    done = talk(FunctionModel(telling), "plums", context=[Counting([IDENTITY]), plums], system=lambda: "Be brief.")

    assert done.texts == [
        "Be brief.\n\n<identity>\nYou are Ada.\n</identity>|<memory>\nAda likes plums.\n</memory>\n\nplums"
    ]


@every_way
def test_sections_are_an_option(talk: Way) -> None:
    sections = [Section("style", 0.2, changes="seldom")]
    done = talk(FunctionModel(telling), "Hi", sections=sections, context=[Counting([Candidate("style", "Rhyme.")])])

    assert done.texts == ["<style>\nRhyme.\n</style>|Hi"]


@pytest.mark.parametrize("given", ["text", 3, ContextFiles, [ContextFiles], [3], [lambda a, b: []], with_text])
def test_what_can_not_be_asked_is_refused_at_once(given: Any) -> None:
    for make in (Agent, AsyncAgent):
        with pytest.raises(ConfigError, match="context"):
            make(FunctionModel(telling), context=given)


@every_way
@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (ValueError("no such user"), r"the function 'Counting' of context failed \(no such user\); nothing was said"),
        ("text", "has to return Candidates, not 'text'"),
        (None, "has to return Candidates, not None"),
        (["text"], "has to return Candidates, and gave 'text'"),
        ([None], "has to return Candidates, and gave None"),
        ([Candidate("nowhere", "x")], "a candidate is for 'nowhere', which is no section of this agent; its sections"),
        ([Candidate("history", "x")], "a candidate is for 'history', which is the conversation itself"),
    ],
)
def test_one_that_fails_is_an_error_of_run_and_the_session_goes_on(
    talk: Way, answer: Any, problem: str, tmp_path: Path
) -> None:
    path, model = tmp_path / "s.jsonl", FunctionModel(telling)
    source = Counting([IDENTITY], answer, [])

    def use(agent: Any) -> None:
        run = agent.run

        def safe(text: str) -> Any:
            if text != "b":
                return run(text)
            if isinstance(agent, Agent):
                with pytest.raises(ContextSourceError, match=problem):
                    run(text)
                return run("c")

            async def safely() -> Any:
                with pytest.raises(ContextSourceError, match=problem):
                    await run(text)
                return await run("c")

            return safely()

        agent.run = safe

    done = talk(model, "a", "b", context=[source], journal=path, use=use)

    assert done.texts[-1] == "|c"
    assert len(done.state.history) == 4
    assert replay(path).state == done.state


def test_they_may_be_async_under_asyncio_and_nowhere_else() -> None:
    async def source(text: str) -> list[Candidate]:
        await asyncio.sleep(0)
        return [Candidate("identity", text)]

    async def main() -> str:
        async with AsyncAgent(FunctionModel(telling), context=[source]) as agent:
            return (await agent.run("Hello")).text

    assert asyncio.run(main()) == "<identity>\nHello\n</identity>|Hello"
    with pytest.raises(ConfigError, match="'source' of context is an async function, which needs an AsyncAgent"):
        Agent(FunctionModel(telling), context=[source])
    with (
        AgentHost.in_thread(FunctionModel(telling)) as host,
        pytest.raises(ConfigError, match="a handle needs a plain"),
    ):
        host.open("a", context=[source])
    agent = Agent(FunctionModel(telling), context=[lambda text: source(text)])
    with agent, pytest.raises(ContextSourceError, match="has to return Candidates"):
        agent.run("Hello")


@every_way
def test_what_they_gave_is_recorded_and_a_replay_asks_nobody(talk: Way, tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    source = Counting([IDENTITY, Candidate("memory", "plums", "a.md", at=3.0)])
    live = talk(FunctionModel(telling), "plums", "pears", context=[source], journal=path)
    report = replay(path).raise_for_divergence()
    inputs = [json.loads(line)["input"] for line in path.read_text().splitlines()[1:]]

    assert report.state == live.state
    assert source.calls == 2
    assert inputs[0]["context"][1] == {"section": "memory", "text": "plums", "source": "a.md", "at": 3.0}


@every_way
def test_a_resume_goes_on_with_those_that_it_is_given(talk: Way, tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    talk(FunctionModel(telling), "a", context=[Counting([IDENTITY])], journal=path)

    assert resumed_in_sync(path, FunctionModel(telling), "b").texts == ["|b"]
    assert resumed_in_asyncio(path, FunctionModel(telling), "c", context=[with_text]).texts == [
        "<identity>\nc\n</identity>|c"
    ]
    with Agent.fork(path, FunctionModel(telling), context=[with_text]) as agent:
        assert agent.run("d").text == "<identity>\nd\n</identity>|d"


def test_secrets_in_them_are_kept_out_of_the_recording(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    done = in_sync(
        FunctionModel(telling), "Hello", context=[Counting([Candidate("identity", f"Use {KEY}.")])], journal=path
    )

    assert done.texts == [f"<identity>\nUse {KEY}.\n</identity>|Hello"]
    assert KEY not in path.read_text()
    assert replay(path).divergence is None


def test_a_message_may_bring_its_own() -> None:
    source = Counting([IDENTITY])
    with Agent(FunctionModel(telling), context=[source]) as agent:
        said: Any = UserSpoke("Hello", context=(Candidate("identity", "You are Bob."),))
        assert agent.run(said).text == "<identity>\nYou are Bob.\n</identity>|Hello"
    assert source.calls == 0


def test_a_handle_asks_them_on_its_own_side(tmp_path: Path) -> None:
    path = str(tmp_path / "s.jsonl")
    with AgentHost.in_thread(FunctionModel(telling)) as host:
        source = Counting([IDENTITY], [Candidate("news", "x")])
        with host.open("a", context=[source], journal=path) as handle:
            assert handle.run("Hello").text == "<identity>\nYou are Ada.\n</identity>|Hello"
        sections = [Section("style", 0.2, changes="seldom")]
        with host.open("b", context=iter([Counting([Candidate("style", "Rhyme.")])]), sections=sections) as handle:
            assert handle.run("Hello").text == "<style>\nRhyme.\n</style>|Hello"
    assert replay(path).divergence is None


def test_a_worker_has_what_stands_behind_its_parents_prompt() -> None:
    workers = {"name": "w", "objective": "Look.", "tools": []}

    def reply(request: ModelRequest) -> Any:
        if getattr(request.messages[-1], "text", "").endswith("Look."):
            return request.system
        last = request.messages[-1]
        return last.content if hasattr(last, "content") else call("spawn_worker", **workers)

    context = [Counting([IDENTITY, Candidate("memory", "a go")])]
    with Agent(FunctionModel(reply), system="Be brief.", features=["workers"], context=context) as agent:
        assert agent.run("Go").text.startswith("Be brief.\n\n<identity>\nYou are Ada.\n</identity>")


def test_a_workspace_is_read_anew_for_each_message_and_by_no_replay(tmp_path: Path) -> None:
    path, folder = tmp_path / "s.jsonl", tmp_path / "work"
    folder.mkdir()
    (folder / "AGENTS.md").write_text("Be kind.")
    with Agent(FunctionModel(telling), context=[ContextFiles(folder)], journal=path) as agent:
        first = agent.run("Hello").text
        (folder / "AGENTS.md").write_text("Be brief.")
        second = agent.run("Hello").text
        (folder / "AGENTS.md").unlink()
        folder.rmdir()
        with pytest.raises(ContextSourceError, match="ContextFiles"):
            agent.run("Hello")
        state = agent.state

    wanted = '<instructions>\n<source path="AGENTS.md">\nBe {}.\n</source>\n</instructions>|Hello'
    assert (first, second) == (wanted.format("kind"), wanted.format("brief"))
    assert replay(path).raise_for_divergence().state == state


def test_a_text_that_has_to_be_in_and_that_the_model_refuses_ends_the_turn_in_plain_words() -> None:
    refusal = Failure("the prompt is too long", "context_overflow")
    context = [Counting([Candidate("instructions", "x" * 20_000, "AGENTS.md")], [])]
    with Agent(fakes.ScriptedModel([refusal, "Hello."]), context=context, context_tokens=2048) as agent:
        outcome = agent.run("Hello").outcome
        assert "nothing more can be left out" in getattr(outcome, "message", "")
        assert agent.run("Hello").text == "Hello."
