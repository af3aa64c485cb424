"""What happened in a session stands in its memory: each turn, and how each call went, without secrets."""

from __future__ import annotations

import logging
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from cognition import Limits, Policy, Rule, ToolMessage, UserMessage
from cognition.values.outcomes import Failure
from interpreters import LATER, Agent, EpisodeWriter, Redaction, fakes, hide_secrets, replay, tool
from interpreters.testing.fakes import call
from runtime import MemoryFolder, MemoryStoreError
from tests.interpreters.secrets import KEY
from tests.interpreters.ways import Way, every_way

NOON = datetime(2026, 11, 25, 12, 30)


@tool
def pay(amount: int) -> str:
    """Pay."""
    if amount > 100:
        raise ValueError("too much")
    return f"paid {amount}"


@pytest.fixture
def memory(tmp_path: Path) -> MemoryFolder:
    return MemoryFolder(tmp_path / "memory", now=lambda: NOON, hide=hide_secrets)


def written(memory: MemoryFolder, source: str) -> str:
    return (memory.path / source / "2026-11-25.md").read_text()


def test_a_turn_is_an_episode_and_each_call_an_outcome(memory: MemoryFolder) -> None:
    model = fakes.ScriptedModel(
        [
            [call("pay", amount=12), call("pay", amount=500)],
            call("pay", amount=7),
            "Paid 12.",
            call("remember", text=f"The key is {KEY}."),
            "Noted.",
        ]
    )
    policy = Policy((Rule("ask", "pay"),))
    refused: Any = iter([True, True, False])
    with Agent(
        model,
        [pay],
        policy=policy,
        approve=lambda _request: next(refused),
        features=["memory"],
        memory=memory,
        observers=[EpisodeWriter(memory, origin="desk")],
    ) as agent:
        agent.run("Pay the baker.")
        agent.run(f"Remember {KEY}")

    assert (
        written(memory, "episodes")
        == """\
# 2026-11-25

## 12:30 [desk] — Pay the baker.

- **User:** Pay the baker.
- **Tools:** pay {"amount": 12} (ok); pay {"amount": 500} (error); pay {"amount": 7} (refused)
- **Response:** Paid 12.

## 12:30 [desk] — Remember [redacted:api_key]

- **User:** Remember [redacted:api_key]
- **Response:** Noted.
"""
    )
    lines = written(memory, "outcomes").splitlines()[2:]
    assert sorted(line.split(" | ")[2] for line in lines) == ["approved", "approved", "denied", "failed", "succeeded"]
    assert '- 12:30 | pay | succeeded | {"amount": 12} | paid 12' in lines
    assert "pay: 1 succeeded, 1 failed, 1 denied, 2 approved" in memory.digest()
    assert memory.search("key", sources="knowledge")[0].text == "The key is [redacted:api_key]."


def test_turns_that_do_not_end_well_are_kept_too(memory: MemoryFolder) -> None:
    """The reference loses them."""
    model = fakes.ScriptedModel([Failure("the disk is full", "fatal"), call("pay", amount=1), call("pay", amount=2)])
    with Agent(model, [pay], limits=Limits(steps=1), observers=[EpisodeWriter(memory)]) as agent:
        agent.run("One.")
        agent.run("Two.")

    assert "- **User:** One.\n- **Response:** (failed: fatal)" in written(memory, "episodes")
    assert "- **Response:** (ended at the limit of steps)" in written(memory, "episodes")


def test_a_turn_that_is_resumed_is_an_episode_too(memory: MemoryFolder, tmp_path: Path) -> None:
    policy = Policy((Rule("ask", "pay"),))
    script: Any = [call("pay", amount=3)]
    with Agent(
        fakes.ScriptedModel(script), [pay], policy=policy, approve=lambda _: LATER, journal=tmp_path / "s.jsonl"
    ) as agent:
        agent.run("Pay.")
    writer = EpisodeWriter(memory)
    with Agent.resume(tmp_path / "s.jsonl", fakes.ScriptedModel(["Paid."]), [pay], observers=[writer]) as agent:
        agent.answer("1.1.1", True)

    assert "(a turn that was resumed)" in written(memory, "episodes")
    assert "(ok)" in written(memory, "episodes")
    assert "Paid." in written(memory, "episodes")


def test_workers_calls_are_noted_and_their_turns_are_not(memory: MemoryFolder) -> None:
    model = fakes.FunctionModel(worker_or_boss)
    with Agent(model, [pay], features=["workers"], observers=[EpisodeWriter(memory)]) as agent:
        agent.run("Have it paid.")

    assert written(memory, "episodes").count("\n## ") == 1
    assert "pay | succeeded" in written(memory, "outcomes")
    assert "spawn_worker" not in written(memory, "outcomes")


def worker_or_boss(request: Any) -> Any:
    newest = request.messages[-1]
    if isinstance(newest, UserMessage):
        boss = any(spec.name == "spawn_worker" for spec in request.tools)
        return call("spawn_worker", name="w", objective="pay 5") if boss else call("pay", amount=5)
    assert isinstance(newest, ToolMessage)
    return "Done."


def test_what_can_t_be_written_does_not_end_the_session(memory: MemoryFolder, caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []
    (memory.path / "episodes").write_text("in the way")
    with caplog.at_level(logging.WARNING, "cogstep"):
        for writer in (EpisodeWriter(memory, on_problem=told.append), EpisodeWriter(memory)):
            with Agent(fakes.ScriptedModel(["One.", "Two."]), observers=[writer]) as agent:
                assert agent.run("1").text == "One."
                assert agent.run("2").text == "Two."

    assert len(told) == 2
    assert "the memory misses something" in told[0]
    assert [record for record in caplog.records if "the memory misses something" in record.getMessage()]


@pytest.mark.parametrize("recall_first", [True, False])
@every_way
def test_a_session_with_a_memory_is_replayed_without_it(
    talk: Way, memory: MemoryFolder, tmp_path: Path, recall_first: bool
) -> None:
    """Under asyncio it is used on threads; what was found is in the recording."""
    memory.remember("Ada likes plums.")
    script: Any = ["Plums."] if recall_first else [call("recall", query="What does Ada like?"), "Plums."]
    options: Any = {"features": ["memory"], "memory": memory, "recall_first": recall_first}

    done = talk(fakes.ScriptedModel(script), "What does Ada like?", journal=tmp_path / "s.jsonl", **options)

    assert done.texts == ["Plums."]
    memory.close()
    assert "Ada likes plums." in (tmp_path / "s.jsonl").read_text()
    replay(tmp_path / "s.jsonl")


def test_a_memory_that_fails_is_told_and_the_turn_goes_on(memory: MemoryFolder) -> None:
    memory.close()
    seen: list[str] = []
    script = [call("remember", text="x"), call("recall", query="x"), "Done."]
    with Agent(
        fakes.ScriptedModel(script),
        features=["memory"],
        memory=memory,
        observers=[lambda event: seen.append(str(getattr(event.value, "message", "")))],
    ) as agent:
        assert agent.run("?").text == "Done."
    assert len([message for message in seen if "it is closed" in message]) == 2


@given(st.text(max_size=100))
def test_hiding_is_the_same_each_time(text: str) -> None:
    hidden = hide_secrets(f"{text} {KEY} {text}")

    assert KEY not in hidden
    assert hidden == hide_secrets(f"{text} {KEY} {text}")


def test_own_secrets_are_hidden_by_name() -> None:
    hide = partial(hide_secrets, redact=Redaction(secrets={"door": "opensesame1"}))

    assert hide("say opensesame1") == "say [redacted:door]"
    assert hide_secrets("nothing of the kind") == "nothing of the kind"
    with pytest.raises(MemoryStoreError):
        MemoryFolder("/proc/none")
