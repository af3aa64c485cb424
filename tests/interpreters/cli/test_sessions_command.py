"""``cogstep sessions``: what is typed, what is printed, and what a shell is told."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from interpreters import Agent, replay
from interpreters.recording.journal.payloads import directory_of
from interpreters.testing.fakes import ScriptedModel, call
from tests.interpreters.cli.processes import Cogstep
from tests.interpreters.journals import rewritten

CALL = [call("calculate", expression="17 * 23"), "17 * 23 is 391."]


@pytest.fixture
def recorded(here: Cogstep, tmp_path: Path) -> Path:
    """Two sessions that the command itself has recorded, the second one newer; and a file that is none."""
    for name, age in (("a.jsonl", 100), ("b.jsonl", 50)):
        assert here("run", "17 * 23?", "--record", name, replies=CALL).returncode == 0
        seconds = (tmp_path / name).stat().st_mtime - age * 86400
        os.utime(tmp_path / name, (seconds, seconds))
    return tmp_path


def test_a_list_shows_the_newest_first(here: Cogstep, recorded: Path) -> None:
    """A table, and a line for each file that is no recording: the exit code tells too."""
    done = here("sessions", "list")
    heads, *rows = [line.split() for line in done.stdout.splitlines()]

    assert (done.returncode, done.stderr) == (0, "")
    assert heads == ["written", "status", "turns", "size", "file", "first", "words"]
    assert [[row[2], row[3], row[6]] for row in rows] == [["idle", "1", "b.jsonl"], ["idle", "1", "a.jsonl"]]
    assert rows[0][7:] == ["17", "*", "23?"]
    (recorded / "c.jsonl").write_text("hello\n")
    with_bad = here("sessions", "list", ".")
    assert (1, done.stdout) == (with_bad.returncode, with_bad.stdout)
    assert "c.jsonl: this is no cogstep journal" in with_bad.stderr
    as_json = [json.loads(line) for line in here("sessions", "list", "--json").stdout.splitlines()]
    assert [one["bad"] for one in as_json] == [False, False, True]
    assert (as_json[0]["path"], as_json[0]["records"], as_json[0]["status"]) == ("a.jsonl", 4, "idle")


def test_an_empty_directory_says_how_to_begin(here: Cogstep) -> None:
    done = here("sessions", "list")

    assert (done.returncode, done.stdout) == (0, "")
    assert "cogstep run ... --record FILE" in done.stderr


def test_a_damaged_recording_is_told_and_counted_up_to_there(here: Cogstep, recorded: Path) -> None:
    path = recorded / "a.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"content":"391"', b'"content":"392"'))
    done = here("sessions", "list")

    assert (done.returncode, len(done.stdout.splitlines())) == (1, 3)
    assert "a.jsonl: line 4: the record was changed after it was written" in done.stderr


def test_a_session_is_shown_as_a_conversation(here: Cogstep, recorded: Path) -> None:
    """Its own control characters are shown, not obeyed; one turn of it, where asked for."""
    with Agent(ScriptedModel(["\x1b[31mred"]), journal=recorded / "c.jsonl") as agent:
        agent.run("Red?")
    done = here("sessions", "show", "a.jsonl")

    assert done.returncode == 0
    for expected in ("## Turn 1", "> 17 * 23?", "Call `calculate` (call-1-1-1):", "> 17 * 23 is 391."):
        assert expected in done.stdout
    assert r"> \x1b[31mred" in here("sessions", "show", "c.jsonl", "--turn", "1").stdout
    wrong = here("sessions", "show", "a.jsonl", "--turn", "3")
    assert (2, "there is no turn 3; there are 1 to 1" in wrong.stderr) == (wrong.returncode, True)
    gone = here("sessions", "show", "nowhere.jsonl")
    assert (2, "there is no such file" in gone.stderr) == (gone.returncode, True)


def test_the_whole_result_of_a_call_is_shown(here: Cogstep, tmp_path: Path) -> None:
    """Also if the model read a shortened one, which the conversation says."""
    (tmp_path / "long.txt").write_text("".join(f"{number} of {'very ' * 20}many\n" for number in range(99)))
    replies = [call("Grep", pattern="very many$"), "Ok."]
    assert here("run", "Read it.", "--record", "a.jsonl", replies=replies).returncode == 0
    conversation = here("sessions", "show", "a.jsonl")
    assert "1 result is shortened; --call call-1-1-1 shows it whole" in conversation.stderr
    assert "\nlong.txt:50: 49 of very " not in conversation.stdout
    later = here("sessions", "show", "a.jsonl", "--turn", "1")
    assert later.stderr == conversation.stderr
    whole = here("sessions", "show", "a.jsonl", "--call", "call-1-1-1")
    assert (whole.returncode, whole.stderr) == (0, "")
    assert "\nlong.txt:50: 49 of very " in whole.stdout
    for arguments, message in (
        (["--call", "call-9-9-9"], "there is no result of a call 'call-9-9-9'; those of this session: call-1-1-1"),
        (["--call", "call-1-1-1", "--turn", "1"], "--call and --turn: give one of them"),
    ):
        wrong = here("sessions", "show", "a.jsonl", *arguments)
        assert (wrong.returncode, wrong.stdout, message in wrong.stderr) == (2, "", True)


def test_a_search_shows_where(here: Cogstep, recorded: Path) -> None:
    """File, record, turn and speaker; 1 where nothing was found, as grep does."""
    done = here("sessions", "search", "17 * 23 IS")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "a.jsonl: record 4, turn 1, model_replied: 17 * 23 is 391.",
        "b.jsonl: record 4, turn 1, model_replied: 17 * 23 is 391.",
    ]
    assert here("sessions", "search", "17 * 23 IS", "--case").returncode == 1
    (hit,) = here("sessions", "search", "^[0-9]+$", "a.jsonl", "--regex", "--json").stdout.splitlines()
    assert (json.loads(hit)["speaker"], json.loads(hit)["found"]) == ("tool_returned", "391")
    wrong = here("sessions", "search", "(", "--regex")
    assert (2, "is no regular expression" in wrong.stderr) == (wrong.returncode, True)
    nowhere = here("sessions", "search", "x", "nowhere")
    assert (2, "nowhere: No such file" in nowhere.stderr) == (nowhere.returncode, True)


def test_an_export_goes_to_stdout_or_to_a_new_file(here: Cogstep, recorded: Path) -> None:
    openai = json.loads(here("sessions", "export", "a.jsonl", "--format", "openai").stdout)
    assert [message["role"] for message in openai["messages"]] == ["user", "assistant", "tool", "assistant"]
    data = json.loads(here("sessions", "export", "a.jsonl").stdout)
    assert data["turns"][0]["outcome"] == {"type": "completed", "text": "17 * 23 is 391."}
    markdown = here("sessions", "export", "a.jsonl", "--format", "markdown").stdout
    assert markdown == here("sessions", "show", "a.jsonl").stdout
    written = here("sessions", "export", "a.jsonl", "--format", "markdown", "--output", "a.md")
    assert (0, "", markdown) == (written.returncode, written.stdout, (recorded / "a.md").read_text())
    again = here("sessions", "export", "a.jsonl", "--output", "a.md")
    assert (2, "a.md exists" in again.stderr) == (again.returncode, True)
    nowhere = here("sessions", "export", "a.jsonl", "--output", "no/a.md")
    assert (2, "can't be written" in nowhere.stderr) == (nowhere.returncode, True)
    reasoning = here("sessions", "export", "a.jsonl", "--reasoning")
    assert (2, "--reasoning is for --format openai" in reasoning.stderr) == (reasoning.returncode, True)


def test_a_prune_deletes_what_it_was_told_to(here: Cogstep, recorded: Path) -> None:
    """And with --dry-run nothing; what is left replays."""
    asked = here("sessions", "prune", "--older-than", "60d", "--dry-run")
    assert (asked.returncode, (recorded / "a.jsonl").exists()) == (0, True)
    assert "a.jsonl: would go (not written for 100.0 days, " in asked.stdout
    assert "to delete: 1 recording, " in asked.stdout
    done = here("sessions", "prune", "--older-than", "60d")
    assert "a.jsonl: deleted (not written for 100.0 days, " in done.stdout
    assert [path.name for path in recorded.glob("*.jsonl")] == ["b.jsonl"]
    assert replay(recorded / "b.jsonl").same
    with Agent.resume(recorded / "b.jsonl", ScriptedModel([]), tools_of(recorded)):
        kept = here("sessions", "prune", "--keep", "0")
    assert "b.jsonl: kept, because a session has it open" in kept.stdout
    (data,) = here("sessions", "prune", "--max-size", "0", "--json").stdout.splitlines()
    assert (json.loads(data)["path"], json.loads(data)["kept"]) == ("b.jsonl", "")
    assert list(recorded.glob("*.jsonl")) == []


def tools_of(root: Path) -> tuple[object, ...]:
    from interpreters.toolbox import standard_tools

    return tuple(standard_tools(root))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["prune"], "say which are to go: by age, by number or by size"),
        (["prune", "--older-than", "30"], "expected an age such as 90m, 12h, 30d or 8w, not '30'"),
        (["prune", "--max-size", "many"], "expected a size such as 500K, 200M or 2G, not 'many'"),
        (["prune", "--keep", "-1"], "expected a whole number from 0"),
        ([], "required: ACTION"),
        (["list", "nowhere"], "nowhere: No such file or directory"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(here: Cogstep, arguments: list[str], message: str) -> None:
    done = here("sessions", *arguments)

    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert message in done.stderr


@pytest.mark.parametrize("action", ["list", "show", "search", "export", "prune"])
def test_help_teaches(here: Cogstep, action: str) -> None:
    """By two examples each."""
    done = here("sessions", action, "--help")

    assert done.returncode == 0
    assert done.stdout.count(f"  cogstep sessions {action}") == 2


# ------------------------------------------------------------------------------------------- one text, named often

TIMES = 101
LENGTH = 2_000_000

VIEWS = {
    "list": ["list", "."],
    "search": ["search", "words", "."],
    "show": ["show", "s.jsonl"],
    "show a turn": ["show", "s.jsonl", "--turn", "3"],
    "export as JSON": ["export", "s.jsonl", "--format", "json"],
    "export as Markdown": ["export", "s.jsonl", "--format", "markdown"],
    "export for OpenAI": ["export", "s.jsonl", "--format", "openai"],
}


@pytest.fixture(scope="module")
def named_often(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of some kilobytes that names a text of 2 MB a hundred times."""
    folder = tmp_path_factory.mktemp("named often")
    path, text = folder / "s.jsonl", "words " * (LENGTH // 6)
    with Agent(ScriptedModel(["Read."] * TIMES, context_tokens=10**9), journal=path, fsync="never") as agent:
        for _ in range(TIMES):
            agent.run("Read it!")
    name = sha256(text.encode()).hexdigest()
    directory_of(path).mkdir()
    (directory_of(path) / name).write_text(text)

    def change(_number: int, data: Any) -> Any:
        if data.get("input", {}).get("type") == "user_spoke":
            data["input"]["text"] = {"$payload": name}
        return data

    return rewritten(path, change).parent


@pytest.mark.skipif(sys.platform != "linux", reason="what a process may take of memory is limited as Linux does it")
@pytest.mark.parametrize("arguments", VIEWS.values(), ids=VIEWS)
def test_a_text_that_is_named_often_is_held_once(named_often: Path, arguments: list[str]) -> None:
    """What is shown has 200 MB, and the process that shows it gets 300 MB for everything, Python included."""
    with open(os.devnull, "w") as nowhere:
        run = subprocess.run(
            [sys.executable, "-m", "cogstep", "sessions", *arguments],
            cwd=named_often, stdout=nowhere, stderr=subprocess.PIPE, text=True, check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (300_000_000, 300_000_000)),
        )  # fmt: skip

    assert (run.returncode, run.stderr) == (0, "")
