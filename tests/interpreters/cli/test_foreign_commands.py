"""The commands on recordings that somebody else wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from interpreters import replay
from interpreters.testing.fakes import call
from tests.interpreters.cli.processes import Cogstep
from tests.interpreters.forged import as_somebody_else, resummed

CALL: Any = [call("calculate", expression="17 * 23"), "17 * 23 is 391."]


@pytest.fixture
def theirs(here: Cogstep, tmp_path: Path) -> Path:
    with as_somebody_else():
        assert here("run", "17 * 23?", "--record", "s.jsonl", "--system", "Obey.", replies=CALL).returncode == 0
    return tmp_path / "s.jsonl"


@pytest.mark.parametrize("command", ["resume s.jsonl", "resume s.jsonl And?", "fork s.jsonl And?", "rehearse s.jsonl"])
def test_without_the_option_it_is_refused_in_one_line(command: str, here: Cogstep, theirs: Path) -> None:
    """Before a model is loaded, with what to do."""
    before = theirs.read_bytes()
    done = here(*command.split(), replies=[])
    assert (done.returncode, done.stdout) == (2, "")
    assert "s.jsonl: not recorded by this user" in done.stderr
    assert "cogstep fork --foreign" in done.stderr
    assert done.stderr.count("\n") == 1
    assert theirs.read_bytes() == before


def test_a_fork_takes_the_conversation_over_and_nothing_else(here: Cogstep, theirs: Path, tmp_path: Path) -> None:
    """It has the tools, the prompt and the limits of a new session, and is the user's own from then on."""
    done = here("fork", "s.jsonl", "And?", "--foreign", "--record", "new.jsonl", replies=["On we go."])
    assert (done.returncode, done.stdout) == (0, "On we go.\n")
    here("run", "And?", "--record", "usual.jsonl", replies=["On we go."])
    new, usual = replay(tmp_path / "new.jsonl"), replay(tmp_path / "usual.jsonl")
    assert new.header.config == usual.header.config
    assert [getattr(message, "text", "") for message in new.state.history] == [
        "17 * 23?", "", "", "17 * 23 is 391.", "And?", "On we go.",
    ]  # fmt: skip
    assert new.header.origin is not None
    assert new.header.origin.foreign
    assert here("resume", "new.jsonl", "Thanks!", replies=["You are welcome."]).returncode == 0
    shown = here("sessions", "show", "new.jsonl").stdout
    assert "which was not this user's own" in shown
    assert "Foreign" not in shown


def test_a_rehearsal_with_the_option_runs_what_does_not_ask(here: Cogstep, theirs: Path) -> None:
    done = here("rehearse", "s.jsonl", "--foreign")
    assert done.returncode == 0
    assert "every result is the same (1 call)" in done.stdout
    assert "not recorded by this user" in done.stderr
    data = json.loads(here("rehearse", "s.jsonl", "--foreign", "--json").stdout)
    assert (data["refused"], data["calls"]) == (0, 1)
    assert "not made with this user's key" in data["foreign"]


def test_wherever_it_is_shown_it_is_marked(here: Cogstep, theirs: Path) -> None:
    here("run", "Hi!", "--record", "t.jsonl", replies=["Hello!"])
    assert "idle, foreign" in here("sessions", "list").stdout
    listed = [json.loads(line) for line in here("sessions", "list", "--json").stdout.splitlines()]
    assert {one["path"]: bool(one["foreign"]) for one in listed} == {"s.jsonl": True, "t.jsonl": False}
    assert "*Foreign: it was not recorded by this user" in here("sessions", "show", "s.jsonl").stdout
    assert "Foreign" not in here("sessions", "show", "t.jsonl").stdout
    assert json.loads(here("sessions", "export", "s.jsonl").stdout)["foreign"]
    assert here("sessions", "search", "17", "s.jsonl").returncode == 0
    replayed = here("replay", "s.jsonl")
    assert (replayed.returncode, "not recorded by this user" in replayed.stderr) == (0, True)
    assert json.loads(here("replay", "s.jsonl", "--json").stdout)["foreign"]


def test_an_edited_recording_of_ones_own_is_refused(here: Cogstep, tmp_path: Path) -> None:
    """Its sums fit, as any program can make them."""
    path = tmp_path / "s.jsonl"
    here("run", "17 * 23?", "--record", "s.jsonl", replies=CALL)
    resummed(path, lambda lines: lines[0].update(start={"mode": "auto"}))
    assert here("resume", "s.jsonl", "And?", replies=[]).returncode == 2
