"""Sessions taken up again: after a crash at any record, and forked from any turn. For every way of running."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from cognition import (
    AgentConfig,
    AgentState,
    Completed,
    ConfigError,
    Idle,
    Limits,
    LLMEngine,
    ToolMessage,
    UserMessage,
)
from interpreters import Agent, Approval, AsyncAgent, ReplayDivergedError, RunResult, fakes, replay, tool
from interpreters.loop.performers import CALL_UNKNOWN
from interpreters.recording.journal import JournalDamagedError, JournalError, JournalLockedError, JournalReader
from interpreters.testing.fakes import ScriptedModel, call
from runtime import Notes
from tests.interpreters.journals import replaced
from tests.interpreters.thinking import FEATURES, reply_to


class Thinking(ScriptedModel):
    def __init__(self) -> None:
        super().__init__(itertools.repeat(reply_to))


class World:
    """What really happened, counted from outside of the agent."""

    def __init__(self) -> None:
        self.happened: Counter[str] = Counter()
        self.notes = Notes()

    def tools(self) -> list[Any]:
        @tool(read_only=True)
        def look(n: int) -> int:
            self.happened[f"look {n}"] += 1
            return n

        @tool(approval=True)
        def pay(amount: int) -> str:
            self.happened["pay"] += 1
            return f"paid {amount}"

        @tool(idempotent=True)
        def mark(n: int) -> str:
            self.happened["mark"] += 1
            return f"marked {n}"

        return [look, pay, mark]

    def options(self) -> dict[str, Any]:
        return {
            "ask": lambda request: ["a"],
            "approve": lambda request: True,
            "memory": self.notes,
            "hooks": {"stop": lambda request: None},
            "clock": fakes.FakeClock(),
            "worker_patience": None,
            "fsync": "never",
        }


def whole_session(world: World, path: Path, *says: str) -> list[RunResult]:
    with Agent(Thinking(), world.tools(), features=FEATURES, journal=path, session="s", **world.options()) as agent:
        return [agent.run(text) for text in says]


def resume_in_sync(path: Path, world: World) -> tuple[RunResult | None, str]:
    with Agent.resume(path, Thinking(), world.tools(), **world.options()) as agent:
        result = agent.resume_turn() if agent.unfinished else None
        return result, agent.run("And again!").text


def resume_in_asyncio(path: Path, world: World) -> tuple[RunResult | None, str]:
    async def main() -> tuple[RunResult | None, str]:
        async with AsyncAgent.resume(path, Thinking(), world.tools(), **world.options()) as agent:
            result = await agent.resume_turn() if agent.unfinished else None
            return result, (await agent.run("And again!")).text

    return asyncio.run(main())


resume_each_way = pytest.mark.parametrize("resume", [resume_in_sync, resume_in_asyncio])


@resume_each_way
def test_a_session_goes_on_from_each_of_its_records(resume: Any, tmp_path: Path) -> None:
    """The crash comes when a record is on file and nothing of it is carried out; the turn comes to its end."""
    whole = tmp_path / "whole.jsonl"
    whole_session(World(), whole, "Go!", "Once more!")
    lines = whole.read_bytes().splitlines(keepends=True)
    ended = [number for number, line in enumerate(lines) if b'"turn_finished"' in line]

    for kept in range(1, len(lines) + 1):
        path = tmp_path / f"{kept}.jsonl"
        path.write_bytes(b"".join(lines[:kept]))
        world = World()
        result, again = resume(path, world)
        report = replay(path).raise_for_divergence()
        last = kept - 1
        interrupted = last not in (0, *ended)

        assert interrupted == (result is not None), f"after record {last}"
        assert again == "All is done."
        assert path.read_bytes().startswith(b"".join(lines[:kept]))
        assert isinstance(report.state.phase, Idle)
        if result is not None:
            assert Completed("All is done.") == result.outcome
            assert isinstance(result.messages[0], UserMessage)
            results = {m.name: m.content for m in result.messages if isinstance(m, ToolMessage)}
            unknown = b'"call_tool"' in lines[last] and b'"name":"pay"' in lines[last].split(b'"call_tool"')[-1]
            assert (f"Error: {CALL_UNKNOWN}" if unknown else "paid 5") == results["pay"]
            assert (0 if b'"paid 5"' in b"".join(lines[:kept]) or unknown else 1) <= world.happened["pay"] <= 2
        assert world.notes.recall("hurry") in ((), ("The user is in a hurry.",))


@resume_each_way
def test_what_is_torn_goes_and_what_is_damaged_is_refused(resume: Any, tmp_path: Path) -> None:
    """At every byte of the last two records; nothing else is changed by looking at it."""
    whole = tmp_path / "whole.jsonl"
    whole_session(World(), whole, "Go!")
    data = whole.read_bytes()
    lines = data.splitlines(keepends=True)
    start = len(data) - len(lines[-1]) - len(lines[-2])

    for cut in range(start, len(data), 7 if resume is resume_in_sync else 31):
        path = tmp_path / "cut.jsonl"
        path.write_bytes(data[:cut])
        _, again = resume(path, World())
        assert again == "All is done."
        assert replay(path).raise_for_divergence().warnings == ()

    path.write_bytes(data[: start - 5] + b"?" + data[start - 4 :])
    with pytest.raises(JournalDamagedError):
        resume(path, World())
    with pytest.raises(JournalError, match="no such file"):
        resume(tmp_path / "nothing.jsonl", World())


def test_a_session_is_written_by_one_at_a_time(tmp_path: Path) -> None:
    """The lock is held from the resume to the close, and what was refused leaves it free."""
    path, world = tmp_path / "s.jsonl", World()
    whole_session(world, path, "Go!")
    size = path.stat().st_size

    with (
        Agent.resume(path, Thinking(), world.tools(), **world.options()),
        pytest.raises(JournalLockedError, match="another session is writing"),
    ):
        Agent.resume(path, Thinking(), world.tools(), **world.options())
    with pytest.raises(ConfigError, match=r"other tools \(look is missing; pay is missing; mark"):
        Agent.resume(path, Thinking(), (), **world.options())
    with pytest.raises(ConfigError, match="missing ask="):
        Agent.resume(path, Thinking(), world.tools())
    assert path.stat().st_size == size


def test_a_session_that_rests_is_left_as_it_is(tmp_path: Path) -> None:
    """Resuming it to look, and closing it again, ends no turn; saying something else does."""
    path, world = tmp_path / "s.jsonl", World()
    whole_session(world, path, "Go!")
    data = b"".join(path.read_bytes().splitlines(keepends=True)[:4])
    path.write_bytes(data)

    with Agent.resume(path, Thinking(), world.tools(), **world.options()) as agent:
        assert agent.unfinished
    assert data == path.read_bytes()
    with Agent.resume(path, Thinking(), world.tools(), **world.options()) as agent:
        assert agent.run("Something else!").text == "All is done."
        assert agent.unfinished is False
        with pytest.raises(Exception, match="no turn was interrupted"):
            agent.resume_turn()
    assert b'"reason":"the turn before was broken off"' in path.read_bytes()


def test_other_agent_logic_is_found_out(tmp_path: Path) -> None:
    """A session goes on with the logic that recorded it, or is forked."""
    path, world = tmp_path / "s.jsonl", World()
    whole_session(world, path, "Go!")
    text = path.read_text()

    def other(config: AgentConfig) -> LLMEngine:
        return LLMEngine(evolve(config, system="Be another."))

    with pytest.raises(ReplayDivergedError, match=r"fork it(?s:.*)digest"):
        Agent.resume(path, Thinking(), world.tools(), engine=other, **world.options())
    replaced(path, '"text":"I look."', '"text":"I search."')
    with pytest.raises(ReplayDivergedError, match="fork it"):
        Agent.resume(path, Thinking(), world.tools(), **world.options())
    path.write_text(text)
    with Agent.resume(path, Thinking(), world.tools(), **world.options()):  # and nothing was left locked
        pass


def test_budgets_and_the_user_s_word_carry_on(tmp_path: Path) -> None:
    """What was used before the crash is used; what was allowed "from now on" is allowed."""
    path = tmp_path / "s.jsonl"
    asked: list[str] = []

    @tool(approval=True)
    def pay(amount: int) -> str:
        return f"paid {amount}"

    def approve(request: Any) -> Approval:
        asked.append(request.call.name)
        return Approval(True, always=True)

    script = [call("pay", amount=n) for n in range(3)]
    with Agent(
        ScriptedModel([*script, "Done."]), [pay], approve=approve, journal=path, limits=Limits(tool_calls=3)
    ) as agent:
        agent.run("Pay!")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:5]))  # asked, allowed, paid once, and the model is being asked

    model = ScriptedModel([call("pay", amount=1), call("pay", amount=2), call("pay", amount=9), "Enough."])
    with Agent.resume(path, model, [pay], approve=approve) as agent:
        result = agent.resume_turn()

    assert asked == ["pay"]
    assert [c.status for c in result.calls] == ["ok", "ok", "ok", "error"]


def test_a_fork_goes_its_own_way(tmp_path: Path) -> None:
    """From any turn, with another prompt, tools and model; the original is as it was, and the fork replays alone."""
    path, world = tmp_path / "s.jsonl", World()
    results = whole_session(world, path, "Go!", "Once more!")
    before = path.read_bytes()

    for turn in (0, 1, 2):
        forked = tmp_path / f"fork-{turn}.jsonl"
        model = ScriptedModel(["I am another."])
        with Agent.fork(path, model, system="Be another.", turn=turn, features=(), journal=forked) as agent:
            assert len(agent.state.history) == sum(len(result.messages) for result in results[:turn])
            assert agent.run("Who are you?").text == "I am another."
            state = agent.state
        with JournalReader(forked) as reader:
            origin = reader.header.origin
            assert origin is not None
            assert ("s", turn) == (origin.session, origin.turn)
        assert state == replay(forked).raise_for_divergence().state
        assert [request.system for request in model.requests] == ["Be another."]
        resumed = Agent.resume(forked, ScriptedModel(["Still."]))
        assert resumed.run("Still?").text == "Still."
        resumed.close()
    assert before == path.read_bytes()
    with pytest.raises(Exception, match="no turn 7"):
        Agent.fork(path, Thinking(), turn=7)


def fork_in_sync(path: Path, model: Any, text: str, **given: Any) -> tuple[RunResult, AgentState]:
    with Agent.fork(path, model, **given) as agent:
        return agent.run(text), agent.state


def fork_in_asyncio(path: Path, model: Any, text: str, **given: Any) -> tuple[RunResult, AgentState]:
    async def main() -> tuple[RunResult, AgentState]:
        async with AsyncAgent.fork(path, model, **given) as agent:
            return await agent.run(text), agent.state

    return asyncio.run(main())


@pytest.mark.parametrize("fork", [fork_in_sync, fork_in_asyncio])
def test_a_fork_has_tools_of_its_own(fork: Any, tmp_path: Path) -> None:
    """The model is offered them and calls them; what was said before with others stays in the conversation."""
    path, forked = tmp_path / "s.jsonl", tmp_path / "fork.jsonl"
    whole_session(World(), path, "Go!")
    measured: list[str] = []

    @tool
    def measure(what: str) -> int:
        """Measure."""
        measured.append(what)
        return 7

    model = ScriptedModel([call("measure", what="it"), call("pay", amount=1), "Seven."])
    given = {"tools": [measure], "features": (), "turn": 1, "journal": forked, "limits": Limits(steps=5)}
    result, state = fork(path, model, "Measure it!", **given)

    assert (measured, result.text) == (["it"], "Seven.")
    assert [(made.name, made.status) for made in result.calls] == [("measure", "ok"), ("pay", "error")]
    assert [[spec.name for spec in request.tools] for request in model.requests] == [["measure"]] * 3
    assert "look" in [message.name for message in model.requests[0].messages if isinstance(message, ToolMessage)]
    report = replay(forked).raise_for_divergence()
    assert (state, 1) == (report.state, report.turns)
    assert report.header.config is not None
    assert report.header.config.limits == Limits(steps=5)
