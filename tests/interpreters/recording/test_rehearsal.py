"""Rehearsals: the recorded model, the tools live, and where the world answers otherwise."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from cognition import ConfigError, ToolSpec
from interpreters import Agent, Redaction, Tool, ToolContext, rehearse, tool
from interpreters.recording.journal import JournalError
from interpreters.testing.fakes import ScriptedModel, call
from tests.interpreters.signs import PATIENCE


def test_a_rehearsal_shows_what_is_otherwise_today(tmp_path: Path) -> None:
    """Side by side, with the record that holds the old result; what is the same is counted."""
    prices = {"apple": 2, "plum": 3}

    @tool
    def price(item: str) -> int:
        return prices[item]

    path = tmp_path / "s.jsonl"
    model = ScriptedModel([[call("price", item=item) for item in ("apple", "plum", "pear")], "Well."])
    with Agent(model, [price], journal=path) as agent:
        agent.run("Prices?")
    before = path.read_bytes()

    assert ((report := rehearse(path, [price])).same, report.calls) == (True, 3)
    prices.update(plum=4, pear=5)
    report = rehearse(path, [price])

    assert [str(difference) for difference in report.differences] == [
        'record 4: price({"item": "plum"}) differs\n  recorded: ok: 3\n  live:     ok: 4',
        'record 5: price({"item": "pear"}) differs\n  recorded: error: KeyError: pear\n  live:     ok: 5',
    ]
    assert [difference.live for difference in rehearse(path, []).differences] == [
        ("error", "this program has no tool 'price'")
    ] * 3
    assert before == path.read_bytes()


def test_a_call_without_a_result_is_not_run(tmp_path: Path) -> None:
    """As a crash leaves it: what may have happened must not happen here."""

    @tool
    def pay() -> str:
        return "paid"

    path = tmp_path / "s.jsonl"
    with Agent(ScriptedModel([call("pay"), "Paid."]), [pay], journal=path) as agent:
        agent.run("Pay!")
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]))

    assert rehearse(path, [pay]).calls == 0
    with pytest.raises(JournalError):
        rehearse(tmp_path / "nothing", [pay])


def test_secrets_that_were_hidden_are_no_differences(tmp_path: Path) -> None:
    """A call that needs one is not run with a placeholder, unless the secret is given again by its name."""
    key, ran = "sk-" + "proj-abcDEF123456789012345678", []

    @tool
    def login(password: str) -> str:
        ran.append(password)
        return f"hello {password}, your key is {key}"

    path = tmp_path / "s.jsonl"
    known = Redaction({"DB": "hunter2"})
    script = [[call("login", password="hunter2"), call("login", password=key)], "Done."]
    with Agent(ScriptedModel(script), [login], journal=path, redact=known) as agent:
        agent.run("Log in!")
    ran.clear()

    without, given = rehearse(path, [login]), rehearse(path, [login], redact=known)
    assert (without.calls, without.skipped, without.same) == (0, 2, True)
    assert (given.calls, given.skipped, given.same, ran) == (1, 1, True, ["hunter2"])
    key = "none"
    assert rehearse(path, [login], redact=known).same


def test_tools_that_work_in_a_directory_get_a_scratch_one(tmp_path: Path) -> None:
    """A function that makes them for a directory is given a new, empty one, which goes afterwards, or a named one."""
    places: list[Path] = []

    def tools_in(root: Path) -> list[Tool[..., Any]]:
        places.append(root)

        @tool
        def write(text: str) -> str:
            here = sorted(path.name for path in root.iterdir())
            (root / "note.txt").write_text(text)
            return f"beside {here}"

        return [write]

    world = tmp_path / "world"
    world.mkdir()
    path = tmp_path / "s.jsonl"
    script = [call("write", text="one"), call("write", text="two"), "Written."]
    with Agent(ScriptedModel(script), tools_in(world), journal=path) as agent:
        agent.run("Write!")
    (world / "note.txt").write_text("mine")

    assert rehearse(path, tools_in).same
    assert ((world / "note.txt").read_text(), places[-1].exists(), places[-1] == world) == ("mine", False, False)
    report = rehearse(path, tools_in, cwd=world)
    assert [difference.live for difference in report.differences] == [("ok", "beside ['note.txt']")]
    assert ((world / "note.txt").read_text(), places[-1]) == ("two", world)
    with pytest.raises(ConfigError, match="a function that makes them"):
        rehearse(path, tools_in(world), cwd=world)


def test_a_call_that_takes_too_long_today_is_a_difference(tmp_path: Path) -> None:
    """In the words that the model would read; it is told that nobody waits, and the rehearsal goes on."""
    release, told = threading.Event(), threading.Event()

    @tool(name="look", timeout=0.02)
    def slow(context: ToolContext[Any]) -> str:
        assert release.wait(PATIENCE)
        if context.cancelled:
            told.set()
        return "seen"

    @tool
    def look() -> str:
        return "seen"

    @tool
    def close() -> str:
        release.set()
        return "closed"

    path = tmp_path / "s.jsonl"
    with Agent(ScriptedModel([call("look"), call("close"), "Seen."]), [look, close], journal=path) as agent:
        agent.run("Look!")
    release.clear()
    report = rehearse(path, [slow, close])

    assert [difference.live for difference in report.differences] == [
        ("error", "look took longer than 0.02 seconds"),
    ]
    assert (report.calls, told.wait(PATIENCE)) == (2, True)


def test_calls_of_an_external_tool_are_left_out(tmp_path: Path) -> None:
    """The program ran them: there is nothing to run them with."""
    ship = ToolSpec("ship", "Ship it.", {"type": "object", "properties": {"to": {"type": "string"}}})
    path = tmp_path / "s.jsonl"
    with Agent(ScriptedModel([call("ship", to="Oslo"), "Sent."]), [ship], journal=path) as agent:
        agent.answer(agent.run("Ship!").pending[0].effect_id, "parcel 7")

    report = rehearse(path, [ship])

    assert (report.same, report.calls, report.skipped) == (True, 0, 0)


@pytest.mark.parametrize("foreign", ["no", 1, None])
def test_only_true_lets_a_strangers_recording_run(tmp_path: Path, foreign: Any) -> None:
    """A word is no yes, whichever word it is."""
    with pytest.raises(ConfigError, match="foreign must be True or False"):
        rehearse(tmp_path / "s.jsonl", [], foreign=foreign)
