"""What a session is offered where nobody says it: little by the shipped model, and with any other one what people run
agents for.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from cognition import AgentConfig, ToolCall
from interpreters import replay
from interpreters.cli.options.arguments import FEATURES
from interpreters.cli.options.default_tools import ALL, GROUPS, IN_A_CHAT, is_shipped
from interpreters.cli.options.tool_options import choose_tools
from interpreters.recording.journal import JournalReader
from interpreters.testing.fakes import call
from interpreters.toolbox import file_tools, search_tools, shell_tools, standard_tools
from runtime.models.specs import SMALL_MODEL
from tests.interpreters.cli.processes import Cogstep, OnTerminal, scripted
from tests.interpreters.cli.test_signals import QUESTION

STANDARD = "calculate current_time Read Glob Grep"
EVERYTHING = f"{STANDARD} Write Edit MultiEdit Patch Bash BashOutput KillShell"
PLANS = "AskUserQuestion TodoWrite EnterPlanMode ExitPlanMode finish_step"
OTHER = ("--model", "other.gguf")


def offered(request: Any) -> str:
    """What a scripted model says: the tools that it is told of."""
    return " ".join(tool.name for tool in request.tools) or "none"


def config(path: Path) -> AgentConfig:
    with JournalReader(path) as reader:
        assert reader.header.config is not None
        return reader.header.config


# ----------------------------------------------------------------------------------------------------- the defaults


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ((), STANDARD),
        (OTHER, f"{EVERYTHING} TodoWrite"),
        ((*OTHER, "--record", "s.jsonl"), f"{EVERYTHING} ReadOutput TodoWrite"),
        ((*OTHER, "--no-tools"), "none"),
        ((*OTHER, "--tools", "calculate"), "calculate"),
        ((*OTHER, "--features", "plan"), f"{EVERYTHING} EnterPlanMode ExitPlanMode finish_step"),
        ((*OTHER, "--names", "cogstep"), f"{EVERYTHING} update_tasks"),
        ((*OTHER, "--ask"), f"{EVERYTHING} AskUserQuestion TodoWrite"),
        ((*OTHER, "--agent", "own:AGENT"), STANDARD),
        (("--tools", "all"), EVERYTHING),
        (("--tools", "all", "--record", "s.jsonl"), f"{EVERYTHING} ReadOutput"),
        (("--tools", "shell,calculate"), "calculate Bash BashOutput KillShell"),
        (("--tools", "files"), "Read Glob Grep Write Edit MultiEdit Patch"),
        ((*OTHER, "--tools", "standard"), STANDARD),
        (("--tools", "Edit,Read,standard"), f"{STANDARD} Edit"),
        (("--tools", "all,own:look"), f"{EVERYTHING} look"),
    ],
    ids=" ".join,
)
def test_what_a_chat_is_offered(options: tuple[str, ...], names: str, here: Cogstep, tmp_path: Path) -> None:
    """Nobody is at a terminal, so that nothing is offered which waits for somebody's answer."""
    (tmp_path / "own.py").write_text("AGENT = {'system': 'Be brief.'}\ndef look(x: int) -> int:\n    'Look.'\n")

    done = here("chat", *options, input="Hi\n", replies=[offered])

    assert (done.returncode, done.stdout, done.stderr) == (0, f"{names}\n", "")


def test_at_a_terminal_the_model_may_ask_and_plan_too(on_terminal: OnTerminal, tmp_path: Path) -> None:
    script = "replies = [lambda request: ' '.join(tool.name for tool in request.tools)]"
    typed = [("> ", "Hi\n"), ("finish_step", ""), ("> ", "/tools\n"), ("> ", "/quit\n")]
    screen, code = on_terminal(
        "chat", *OTHER, "--record", "s.jsonl", command=scripted(script), typed=typed, NO_COLOR="1"
    )

    assert code == 0, screen
    assert f"{EVERYTHING} ReadOutput {PLANS}\n" in screen
    assert "(fake), 18 tools, commands " in screen  # and what confines them
    for name in (*EVERYTHING.split(), "ReadOutput", *PLANS.split()):
        assert f"\n{name} " in screen
    asking = [line.split()[0] for line in screen.splitlines() if "  (asks) " in line]
    assert asking == ["Write", "Edit", "MultiEdit", "Patch", "Bash"]
    made = config(tmp_path / "s.jsonl")
    assert (made.features, made.names) == (IN_A_CHAT, "claude")


def test_a_single_question_is_offered_the_tools_and_nothing_that_waits(here: Cogstep) -> None:
    """Such as a question of the model, by which ``run`` would be cancelled where nobody is there."""
    assert here("run", "Hi", *OTHER, replies=[offered]).stdout == f"{EVERYTHING}\n"
    assert here("run", "Hi", replies=[offered]).stdout == f"{STANDARD}\n"


def test_where_there_is_no_shell_all_the_rest_is_offered(here: Cogstep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    monkeypatch.setattr("interpreters.toolbox.shell.environment.shell_program", lambda *_: None)

    rest = EVERYTHING.removesuffix(" Bash BashOutput KillShell")
    assert here("run", "Hi", *OTHER, replies=[offered]).stdout == f"{rest}\n"


def test_words_for_several_tools_are_no_tools_and_cover_all_of_them(tmp_path: Path) -> None:
    root = tmp_path
    names = [tool.spec.name for made in (standard_tools, file_tools, search_tools, shell_tools) for tool in made(root)]

    assert not {*GROUPS, ALL} & {*names, *FEATURES}
    assert {name for group in GROUPS.values() for name in group} == set(names)


@pytest.mark.parametrize(
    ("model", "shipped"),
    [
        (None, True),
        (str(next(SMALL_MODEL.glob("*.gguf"), "")), True),
        (str(SMALL_MODEL / "mlx"), True),
        ("other.gguf", False),
        ("hf:owner/repo", False),
        ("~nobody-of-this-name/x.gguf", False),
        ("a\0b", False),
    ],
)
def test_which_model_is_the_shipped_one(model: str | None, shipped: bool, tmp_path: Path) -> None:
    assert is_shipped(model) == shipped


def test_the_shipped_model_has_the_tools_that_it_was_trained_with(tmp_path: Path) -> None:
    """Others, and whoever may edit, have those with ranges, offsets and options."""

    def reading(model: str | None, *tools: str) -> list[object]:
        options = argparse.Namespace(
            cwd=str(tmp_path), no_tools=False, tools=list(tools) or None, agent=None, model=model, record=None
        )
        return [tool.spec for tool in choose_tools(options) if tool.spec.name in ("Read", "Glob", "Grep")]

    short = [tool.spec for tool in standard_tools(tmp_path)[2:]]
    full = [file_tools(tmp_path)[0].spec, *(tool.spec for tool in search_tools(tmp_path))]

    assert reading(None) == reading(None, "standard") == reading(None, "shell", "Read", "Glob", "Grep") == short
    assert reading("other") == reading("other", "standard") == reading(None, "files") == reading(None, "all") == full


# ------------------------------------------------------------------------------------- what changes something asks


CHANGING = {
    "Write": {"path": "a", "content": "x"},
    "Edit": {"path": "a", "old": "x", "new": "y"},
    "MultiEdit": {"path": "a", "edits": [{"old": "x", "new": "y"}]},
    "Patch": {"patch": "--- a\n+++ a\n@@ -1 +1 @@\n-x\n+y\n"},
    "Bash": {"command": "touch a"},
}
FETCHING = ["curl x", "/usr/bin/wget x", "true && env curl x", 'bash -c "wget x"']


def test_of_what_is_offered_by_default_whatever_changes_something_asks_and_nothing_is_fetched(
    here: Cogstep, tmp_path: Path
) -> None:
    assert here("chat", *OTHER, "--record", "s.jsonl", input="Hi\n", replies=["Hello."]).returncode == 0
    made = config(tmp_path / "s.jsonl")
    specs = {tool.name: tool for tool in made.tools}

    def judged(name: str, arguments: Any) -> str:
        return made.policy.judge(ToolCall("1", name, arguments), specs[name]).action

    assert {name: judged(name, arguments) for name, arguments in CHANGING.items()} == dict.fromkeys(CHANGING, "ask")
    assert [name for name, spec in specs.items() if not spec.read_only] == [*CHANGING, "KillShell"]
    assert [judged("Bash", {"command": line}) for line in FETCHING] == ["deny"] * len(FETCHING)
    for line in ("mkfs.ext4 /dev/sda1", "sudo wipefs -a x", "rm -rf /", "rm -fr ~", "cat a > /dev/sda"):
        call_of = ToolCall("1", "Bash", {"command": line})
        assert made.policy.judge(call_of, specs["Bash"], mode="auto").action == "deny", line
    build = ToolCall("1", "Bash", {"command": "cd build; rm -rf x && make > log"})
    assert made.policy.judge(build, specs["Bash"], mode="auto").action == "allow"
    assert here("replay", "s.jsonl").returncode == 0


def test_a_fork_that_brings_a_shell_denies_fetching_too(here: Cogstep, tmp_path: Path) -> None:
    """What the recording allows or denies besides stays."""
    (tmp_path / "own.py").write_text(
        "from cognition import Policy, Rule\nAGENT = {'policy': Policy([Rule('deny', 'calculate')])}\n"
    )
    here("run", "Hi", "--agent", "own:AGENT", "--record", "s.jsonl", replies=["Hello."])
    bash = call("Bash", command="touch ran; curl --version")

    options = ("--tools", "shell", "--approve", "all", "--record", "f.jsonl")
    forked = here("fork", "s.jsonl", "Go", *options, replies=[bash, "Done."])

    assert forked.returncode == 0, forked.stderr
    assert "fetching from the network by the shell is not permitted" in forked.stderr
    assert not (tmp_path / "ran").exists()
    assert config(tmp_path / "f.jsonl").policy.rules[0].tool == "calculate"


# ------------------------------------------------------------------------------------------------------- taken up


SESSIONS = {
    "all": OTHER,
    "of a chat of old": ("--tools", "interpreters.toolbox:file_tools,Glob,Grep,Bash"),
    "short ones": ("--tools", "Read,Glob,Grep,Bash"),
    "the shipped model's": (),
}


@pytest.mark.parametrize("options", SESSIONS.values(), ids=SESSIONS)
def test_a_session_is_taken_up_with_the_tools_that_it_had(
    options: tuple[str, ...], here: Cogstep, tmp_path: Path
) -> None:
    """Resumed, forked, rehearsed and replayed without a word of them, and by which desk a file was read is known."""
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    look = [call("Read", path="a.txt"), "Read."]
    begun = here("run", "Hi", *options, "--record", "s.jsonl", replies=look)
    assert begun.returncode == 0, begun.stderr
    tools = config(tmp_path / "s.jsonl").tools

    def specs(request: Any) -> str:
        return "the same" if request.tools == tools else "others"

    assert here("resume", "s.jsonl", "More?", replies=[specs]).stdout == "the same\n"
    assert here("fork", "s.jsonl", "More?", "--record", "f.jsonl", replies=[specs]).stdout == "the same\n"
    assert config(tmp_path / "f.jsonl").tools == tools
    assert here("rehearse", "s.jsonl", "--cwd", ".").stdout == "s.jsonl: every result is the same (1 call)\n"
    assert here("replay", "s.jsonl").returncode == 0

    if any(tool.name == "Edit" for tool in tools):
        edit = [*look[:1], call("Edit", path="a.txt", old="one", new="1"), "Done."]
        done = here("resume", "s.jsonl", "Edit it.", "--approve", "all", replies=edit)
        assert (done.returncode, (tmp_path / "a.txt").read_text()) == (0, "1\ntwo\n"), done.stderr


def test_a_command_that_was_not_confined_when_it_was_recorded_goes_on_so(
    here: Cogstep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where bubblewrap was installed since, the tools are still those that the model was told of."""
    from interpreters import toolbox
    from interpreters.toolbox.shell.tools import shell_tools as real

    monkeypatch.setattr(
        toolbox, "shell_tools", lambda root, **more: real(root, **{"sandbox": "off", **more}), raising=False
    )
    here("run", "Hi", *OTHER, "--record", "s.jsonl", replies=["Hello."])
    monkeypatch.setattr(toolbox, "shell_tools", real, raising=False)

    done = here("resume", "s.jsonl", "More?", replies=["On."])
    assert (done.returncode, done.stdout) == (0, "On.\n"), done.stderr


def test_a_result_that_was_too_long_is_read_on_in_the_recording(here: Cogstep, tmp_path: Path) -> None:
    """By default, and after a resume."""
    (tmp_path / "long").write_text("".join(f"{number}\n" for number in range(8_000)))
    read = call("Read", path="long", limit=8_000)

    def told(request: Any) -> str:
        return str(request.messages[-1].content)

    done = here("chat", *OTHER, "--record", "s.jsonl", input="Hi\n", replies=[read, call("ReadOutput"), told])
    assert "[characters 0 to " in done.stdout
    done = here("resume", "s.jsonl", "More?", replies=[call("ReadOutput", offset=5), told])
    assert "[characters 5 to " in done.stdout
    records = [json.loads(line) for line in (tmp_path / "s.jsonl").read_text().splitlines()]
    assert records
    assert replay(tmp_path / "s.jsonl").same


def test_a_question_of_the_model_is_put_in_a_chat_by_default(on_terminal: OnTerminal) -> None:
    """By the name and the arguments that models know."""
    script = """
        asked = [{"question": "Which?", "header": "H", "multiSelect": False,
                  "options": [{"label": "red", "description": ""}, {"label": "blue", "description": ""}]}]
        replies = [call("AskUserQuestion", questions=asked), lambda request: request.messages[-1].content]
    """
    typed = [("> ", "Hi\n"), ("1 to 2", "2\n"), ("blue", ""), ("> ", "/quit\n")]
    screen, code = on_terminal("chat", *OTHER, command=scripted(script), typed=typed, NO_COLOR="1")

    assert (code, "? H: Which?" in screen) == (0, True), screen
    assert QUESTION not in screen


def test_the_model_that_ships_is_asked_for_no_summary_unless_that_is_wanted(here: Cogstep, tmp_path: Path) -> None:
    """It can't write one. A session that goes on keeps to what held."""
    here("run", "?", "--record", "usual.jsonl", replies=["391"])
    here("run", "?", "--record", "wanted.jsonl", "--compact-at", "0.5", replies=["391"])
    here("resume", "wanted.jsonl", "more", replies=["392"])

    assert config(tmp_path / "usual.jsonl").compact_at is None
    assert config(tmp_path / "wanted.jsonl").compact_at == 0.5
