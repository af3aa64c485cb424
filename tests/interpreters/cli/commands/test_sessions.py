"""The commands on recorded sessions: resume, fork, rehearse, and what replay can show."""

from __future__ import annotations

import json
from pathlib import Path

from cognition import ModelRequest
from interpreters import replay
from interpreters.recording.journal import JournalReader
from interpreters.testing.fakes import call
from tests.interpreters.cli.processes import Cogstep
from tests.interpreters.journals import replaced

CALL = [call("calculate", expression="17 * 23"), "17 * 23 is 391."]


def recorded(here: Cogstep, tmp_path: Path, *, lines: int | None = None) -> Path:
    path = tmp_path / "s.jsonl"
    assert here("run", "17 * 23?", "--record", "s.jsonl", replies=CALL).returncode == 0
    if lines is not None:
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:lines]))
    return path


def test_an_interrupted_turn_goes_on(here: Cogstep, tmp_path: Path) -> None:
    """The call is of a read-only tool and runs again; then the next question is asked."""
    path = recorded(here, tmp_path, lines=3)

    done = here("resume", "s.jsonl", "Thanks!", replies=["17 * 23 is 391.", "You are welcome."])

    assert (done.returncode, done.stdout) == (0, "17 * 23 is 391.\nYou are welcome.\n")
    report = replay(path).raise_for_divergence()
    assert report.turns == 2


def test_where_nothing_was_interrupted_that_is_said(here: Cogstep, tmp_path: Path) -> None:
    path = recorded(here, tmp_path)
    before = path.read_bytes()

    done = here("resume", "s.jsonl", replies=[])

    assert (done.returncode, done.stdout) == (0, "")
    assert "no turn of s.jsonl was interrupted" in done.stderr
    assert before == path.read_bytes()


def test_a_fork_begins_where_a_turn_ended(here: Cogstep, tmp_path: Path) -> None:
    """With a recording of its own that says where it comes from."""
    recorded(here, tmp_path)

    done = here(
        "fork", "s.jsonl", "And?", "--turn", "1", "--record", "f.jsonl", "--system", "Be brief.", replies=["And on."]
    )

    assert (done.returncode, done.stdout) == (0, "And on.\n")
    with JournalReader(tmp_path / "f.jsonl") as reader:
        assert reader.header.origin is not None
        assert reader.header.origin.turn == 1
        assert reader.header.config is not None
        assert reader.header.config.system == "Be brief."
    wrong = here("fork", "s.jsonl", "And?", "--turn", "7", replies=[])
    assert (wrong.returncode, "there is no turn 7" in wrong.stderr) == (2, True)


def test_a_fork_takes_other_tools(here: Cogstep, tmp_path: Path) -> None:
    """By name, or none; without a word those of the recording. From turn 0 it is another input."""
    recorded(here, tmp_path)
    asked: list[ModelRequest] = []

    def note(request: ModelRequest) -> str:
        asked.append(request)
        return "On."

    for options, expected in (
        ((), ["calculate", "current_time", "Read", "Glob", "Grep"]),
        (("--tools", "Read,calculate"), ["calculate", "Read"]),
        (("--no-tools",), []),
    ):
        assert here("fork", "s.jsonl", "Else?", "--turn", "0", *options, replies=[note]).returncode == 0
        assert expected == [tool.name for tool in asked[-1].tools]
        assert [getattr(message, "text", "") for message in asked[-1].messages] == ["Else?"]


def test_secrets_stay_out_of_recordings_unless_asked_for(here: Cogstep, tmp_path: Path) -> None:
    key = "sk-" + "proj-abcDEF123456789012345678"

    def repeat(request: ModelRequest) -> str:
        return f"I heard {getattr(request.messages[-1], 'text', '')}"

    hidden = here("run", f"It is {key}", "--record", "hidden.jsonl", replies=[repeat])
    kept = here("run", f"It is {key}", "--record", "kept.jsonl", "--keep-secrets", replies=[repeat])

    assert f"I heard It is {key}\n" == hidden.stdout == kept.stdout
    found = [key in (tmp_path / name).read_text() for name in ("hidden.jsonl", "kept.jsonl")]
    assert found == [False, True]
    assert here("resume", "kept.jsonl", key, "--keep-secrets", replies=["On."]).returncode == 0
    assert here("fork", "hidden.jsonl", key, "--record", "f.jsonl", replies=["On."]).returncode == 0
    assert key not in (tmp_path / "f.jsonl").read_text()


def test_a_rehearsal_runs_the_tools(here: Cogstep, tmp_path: Path) -> None:
    """In an empty directory, unless another is named."""
    (tmp_path / "note.txt").write_text("hello")
    replies = [call("Read", path="note.txt"), "It says hello."]
    assert here("run", "Read it!", "--record", "r.jsonl", replies=replies).returncode == 0

    same = here("rehearse", "r.jsonl", "--cwd", ".")
    scratch = here("rehearse", "r.jsonl", "--json")

    assert (same.returncode, same.stdout) == (0, "r.jsonl: every result is the same (1 call)\n")
    assert scratch.returncode == 1
    (difference,) = json.loads(scratch.stdout)["differences"]
    assert (
        difference["call"], difference["recorded"]["status"], difference["live"]["status"]
    ) == ("Read", "ok", "error")  # fmt: skip


def test_a_replay_stops_where_it_is_told(here: Cogstep, tmp_path: Path) -> None:
    """And prints the state then."""
    recorded(here, tmp_path)

    done = here("replay", "s.jsonl", "--to", "2")
    beyond = here("replay", "s.jsonl", "--to", "9")

    assert json.loads(done.stdout)["phase"]["type"] == "acting"
    assert (beyond.returncode, "there is no record 9" in beyond.stderr) == (2, True)


def test_a_replay_with_other_logic_shows_what_it_decides(here: Cogstep, tmp_path: Path) -> None:
    """A function of the recorded configuration, named as module:name."""
    recorded(here, tmp_path)
    (tmp_path / "strict_logic.py").write_text(
        "from attrs import evolve\n"
        "from cognition import LLMEngine, Policy, Rule\n"
        "def strict(config):\n"
        "    return LLMEngine(evolve(config, policy=Policy((Rule('deny', '*'),))))\n"
    )

    done = here("replay", "s.jsonl", "--engine", "strict_logic:strict")
    wrong = here("replay", "s.jsonl", "--engine", "strict_logic:nothing")

    assert done.returncode == 1
    assert "record 2" in done.stdout
    assert "call_tool" in done.stdout
    assert (wrong.returncode, "there is no 'nothing' in" in wrong.stderr) == (2, True)


def test_foreign_tools_are_named(here: Cogstep, tmp_path: Path) -> None:
    """A session of another program's is resumed there."""
    path = recorded(here, tmp_path)
    replaced(path, '"name":"calculate"', '"name":"abacus"')

    done = here("resume", "s.jsonl", "On!", replies=[])

    assert (done.returncode, "tools of another program (abacus)" in done.stderr) == (2, True)
