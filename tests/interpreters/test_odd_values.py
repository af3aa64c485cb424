"""Values that a program hands in by mistake, or that nobody thought of: each is an error in plain words, or right."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from cognition import CogstepError, ConfigError, Failed, ProposedCall, UserSpoke
from interpreters import LATER, Agent, AsyncAgent, HookAnswer, rehearse, tool
from interpreters.loop.program import program
from interpreters.recording.journal import JournalWriteError, _file_recorder as file
from interpreters.recording.journal._file_recorder import LOOK_HOLDS
from interpreters.recording.replay import replay
from interpreters.recording.sessions import Hit, search_sessions
from interpreters.testing import fakes
from interpreters.testing.cassettes import Cassette
from runtime import load_model

TWO = {
    "questions": [
        {"question": "Which colours?", "options": ["red", "blue", "green"], "multiple": True},
        {"question": "Which size?", "options": ["small", "large"]},
    ]
}


def asking() -> Any:
    return fakes.ScriptedModel([fakes.Reply(calls=[ProposedCall("ask_user", TWO)]), "Thank you."])


def unfit() -> Any:
    return fakes.ScriptedModel(["Hello."])


@pytest.mark.parametrize(
    ("do", "expected"),
    [
        (lambda: Agent(unfit(), session=""), "session is empty: give a name, or leave it out"),
        (lambda: Agent(unfit(), journal=""), "journal is empty: give a name, or leave it out"),
        (lambda: HookAnswer(arguments={"a": object()}), "HookAnswer: arguments have no form in JSON"),
        (lambda: load_model(threads=0), "threads must be at least 1, not 0"),
        (lambda: load_model(threads=-4), "threads must be at least 1, not -4"),
    ],
)
def test_a_value_that_can_not_be_meant_is_refused_where_it_is_handed_in(
    do: Callable[[], object], expected: str
) -> None:
    with pytest.raises(CogstepError, match=expected):
        do()


@pytest.mark.parametrize("odd", ["done", " ", 7])
def test_a_reply_that_ends_in_a_way_that_there_is_not_is_a_failure_and_not_a_recording_that_nobody_reads(
    odd: Any, tmp_path: Path
) -> None:
    reply = fakes.Reply("Hello.")
    object.__setattr__(reply, "finish_reason", odd)
    with Agent(fakes.ScriptedModel([reply]), journal=tmp_path / "s.jsonl") as agent:
        outcome = agent.run("Hello").outcome

    assert isinstance(outcome, Failed)
    assert "the runtime says that its reply ended by" in outcome.message
    assert replay(tmp_path / "s.jsonl").raise_for_divergence().turns == 1


# --------------------------------------------------------------------------------------------------------- answers


CHOICES: list[tuple[Any, tuple[tuple[str, ...], ...]]] = [
    ([["red", "blue"], "small"], (("red", "blue"), ("small",))),
    ([("red",), ["large"]], (("red",), ("large",))),
    (["none of these, it is purple", "small"], (("none of these, it is purple",), ("small",))),
]
"""The last one: people may answer in words of their own, which the model reads as they stand."""


@pytest.mark.parametrize(("chosen", "expected"), CHOICES)
def test_several_choices_and_words_of_ones_own_are_answers_to_both_kinds_of_agents(
    chosen: Any, expected: tuple[tuple[str, ...], ...]
) -> None:
    said: list[str] = []
    with Agent(asking(), features=["questions"], ask=lambda _request: LATER) as agent:
        (pending,) = agent.run("Order.").pending
        assert agent.answer(pending.effect_id, chosen).text == "Thank you."
        said.append(agent.state.history[2].content)  # type: ignore[union-attr]  # the result of the question

    async def in_a_loop() -> None:
        async with AsyncAgent(asking(), features=["questions"], ask=lambda _request: LATER) as other:
            (waiting,) = (await other.run("Order.")).pending
            assert (await other.answer(waiting.effect_id, chosen)).text == "Thank you."
            said.append(other.state.history[2].content)  # type: ignore[union-attr]  # as above

    asyncio.run(in_a_loop())

    assert said[0] == said[1]
    assert all(choice in said[0] for choices in expected for choice in choices)


@tool(approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


PAYING = [fakes.Reply(calls=[ProposedCall("pay", {"amount": 5})]), "Done."]


@pytest.mark.parametrize("wrong", [LATER, "yes", None, 1, Future()])
def test_an_answer_that_is_none_is_refused_in_words_that_say_what_answer_takes(wrong: object) -> None:
    with Agent(fakes.ScriptedModel(PAYING), [pay], approve=lambda _request: LATER) as agent:
        (pending,) = agent.run("Pay.").pending
        with pytest.raises(ConfigError, match="answer takes True, False or an Approval") as raised:
            agent.answer(pending.effect_id, wrong)

        assert "LATER, not" not in str(raised.value)
        assert agent.pending == (pending,)
        assert agent.answer(pending.effect_id, False).text == "Done."


# ------------------------------------------------------------------------------------------------------- rehearsals


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (LATER, "approve gave LATER, and nothing waits for it here"),
        (Future(), "approve gave a Future that had no answer"),
    ],
)
def test_a_rehearsal_does_not_wait_for_an_approval_that_never_comes(
    given: Any, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "PATIENCE", 0.01)
    path = tmp_path / "s.jsonl"
    with Agent(fakes.ScriptedModel(PAYING), [pay], approve=lambda _request: True, journal=path) as agent:
        agent.run("Pay.")
    foreign = tmp_path / "copied.jsonl"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    foreign.write_bytes(path.read_bytes())

    with pytest.raises(ConfigError, match=expected):
        rehearse(foreign, [pay], foreign=True, approve=lambda _request: given)


# -------------------------------------------------------------------------------------------------------- recordings


def test_a_recording_that_is_replaced_while_its_session_lives_is_noticed_at_the_next_write(tmp_path: Path) -> None:
    """What goes on being written to a file without a name is lost without a word."""
    path = tmp_path / "s.jsonl"
    with Agent(fakes.FunctionModel(lambda _request: "Well."), journal=path) as agent:
        agent.run("First.")
        kept = tmp_path / "kept.jsonl"
        kept.write_bytes(path.read_bytes())
        os.replace(kept, path)
        with pytest.raises(JournalWriteError, match="was replaced by another while its session is recorded"):
            agent.run("Second.")

    assert replay(path).state.history[0].text == "First."  # type: ignore[union-attr]  # the user's message


class StillClock:
    """What a file's recorder looks at: it stands, but for what each look at it adds."""

    def __init__(self, step: float) -> None:
        self.seconds, self._step = 100.0, step

    def __call__(self) -> float:
        self.seconds += self._step
        return self.seconds


@pytest.mark.parametrize(
    ("step", "fsync", "asked", "whole"),
    [
        (2 * LOOK_HOLDS, "never", 1, 0),  # at a record that comes later than a look holds: that of the tool's result
        (0.0, "record", 1, 0),  # at one that is forced to the disk
        (0.0, "turn", 2, 0),  # as the last one of a turn is
        (0.0, "never", 2, 1),  # no time passed: when the next turn begins
    ],
)
def test_a_tool_that_moves_the_recording_away_is_noticed_while_a_turn_runs_faster_than_a_look_holds(
    step: float, fsync: Any, asked: int, whole: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "monotonic", StillClock(step))
    path, requests = tmp_path / "s.jsonl", []

    @tool
    def tidy() -> str:
        """Tidy up."""
        path.rename(path.with_suffix(".old"))
        return "tidied"

    def answer(request: Any) -> Any:
        requests.append(request)
        return fakes.Reply(calls=[ProposedCall("tidy", {})]) if len(requests) == 1 else "Done."

    with Agent(fakes.FunctionModel(answer), [tidy], journal=path, fsync=fsync) as agent:
        for _ in range(whole):
            agent.run("Tidy up.")
        with pytest.raises(JournalWriteError, match="was deleted or moved away"):
            agent.run("Tidy up.")
        assert len(requests) == asked
        path.with_suffix(".old").rename(path)
        agent.run("Go on.")

    assert replay(path).same


@pytest.mark.parametrize("away", [Path.unlink, lambda path: path.rename(path.with_suffix(".old"))])
def test_a_recording_that_is_gone_while_its_session_lives_is_noticed(
    away: Callable[[Path], object], tmp_path: Path
) -> None:
    path = tmp_path / "s.jsonl"
    with Agent(fakes.FunctionModel(lambda _request: "Well."), journal=path) as agent:
        agent.run("First.")
        away(path)
        with pytest.raises(JournalWriteError, match="was deleted or moved away"):
            agent.run("Second.")


def test_a_recording_that_is_cut_short_while_its_session_lives_is_noticed(tmp_path: Path) -> None:
    """As what turns logs over does it in their place: behind a hole no record can be read."""
    path = tmp_path / "s.jsonl"
    with Agent(fakes.FunctionModel(lambda _request: "Well."), journal=path) as agent:
        agent.run("First.")
        whole = path.read_bytes()
        path.write_bytes(whole[:-20])
        with pytest.raises(JournalWriteError, match="was cut short while its session is recorded"):
            agent.run("Second.")
        assert path.read_bytes() == whole[:-20]
        path.write_bytes(whole)  # the same file, as it was
        agent.run("Third.")

    assert replay(path).same


def test_a_search_marks_what_stands_in_somebody_elses_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.jsonl"
    with Agent(unfit(), journal=path) as agent:
        agent.run("A plum.")
    (own,) = search_sessions("plum", path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    (others,) = search_sessions("plum", path)

    assert isinstance(own, Hit)
    assert isinstance(others, Hit)
    assert own.foreign == ""
    assert others.foreign


def test_a_cassette_is_written_where_it_was_named_wherever_the_program_stands_by_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)
    with Cassette("tape.json", "record") as cassette:
        with Agent(cassette.model(unfit)) as agent:
            agent.run("Hi!")
        monkeypatch.chdir(elsewhere)

    assert (tmp_path / "tape.json").is_file()
    assert UserSpoke("Hi!").text in (tmp_path / "tape.json").read_text("utf-8")
