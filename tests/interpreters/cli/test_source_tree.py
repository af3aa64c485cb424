"""``cogstep chat`` in a tree of source code, on a terminal: it looks, edits, runs the tests, and asks before."""

from __future__ import annotations

import json
import re
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from interpreters import replay
from interpreters.testing.fakes import call
from tests.interpreters.cli.processes import Cogstep, OnTerminal, scripted
from tests.interpreters.cli.test_signals import QUESTION, REASON

SOURCE = '"""Sums."""\n\n\ndef add(a, b):\n    return a - b\n\n\ndef twice(a):\n    return a\n'
TESTS = """\
#!/bin/sh
grep -q 'return a + b' src/sums.py || { echo 'FAILED: add(1, 2) is -1'; exit 1; }
echo '1 passed'
"""
TOOLS = "interpreters.toolbox:file_tools,Glob,Grep,Bash"
ALL = f"[s]how all of it, {QUESTION}"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    for name, text in {"src/sums.py": SOURCE, "run_tests": TESTS, ".git/HEAD": "ref: refs/heads/main\n"}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "run_tests").chmod(0o755)
    return root


MODEL = """
    context = 8192  # as a model is loaded without a word

    def saying(request):
        print("TOLD", request.messages[-1].content.replace("\\n", " / "), file=open("told", "a"))

    def then(reply):
        def answer(request):
            saying(request)
            return reply
        return answer

    replies = [
        call("Grep", pattern="def "),
        then(call("Read", path="src/sums.py")),
        then(call("Edit", path="src/sums.py", old="    return a - b", new="    return a + b")),
        then(call("Bash", command="./run_tests")),
        then(call("Bash", command="./run_tests -v")),
        then(call("Bash", command="true && curl http://127.0.0.1/")),
        then(call("Edit", path="src/sums.py", old="    return a\\n", new="    return a + a\\n")),
        then(call("Write", path="notes.txt", content="done\\n")),
        then("It adds now."),
    ]
"""

EDITOR = """\
import json, os, sys
path = sys.argv[-1]
text = open(path).read()
print(path, oct(os.stat(path).st_mode & 0o777), oct(os.stat(os.path.dirname(path)).st_mode & 0o777),
      file=open("edited", "a"))
if text.endswith(",}"):  # the slip of the first time
    text = text[:-2] + "}"
else:
    text = json.dumps({**json.loads(text), "new": "    return 2 * a\\n"})[:-1] + ",}"
open(path, "w").write(text)
"""


@pytest.mark.parametrize("options", [("--model", "other.gguf"), ("--tools", TOOLS)], ids=["by default", "named"])
def test_a_chat_edits_a_tree_through_the_whole_path(
    options: tuple[str, ...], on_terminal: OnTerminal, here: Cogstep, tree: Path, tmp_path: Path
) -> None:
    """Model, policy, preview, approval, edit, test run, answer; each decision is in the recording, and replays."""
    (tmp_path / "editor.py").write_text(EDITOR)

    screen, code = on_terminal(
        "chat", *options, "--cwd", "tree", "--record", "s.jsonl",
        command=scripted(MODEL),
        EDITOR=f"{sys.executable} editor.py", VISUAL="", NO_COLOR="1",
        typed=[
            ("> ", "Mend add and twice.\n"),
            (QUESTION, "y\n"),
            (QUESTION, "?\n"), (QUESTION, "a\n"), ("Enter: back): ", "2\n"),
            (QUESTION, "e\n"), ("Enter edits it again", "\n"), (QUESTION, "y\n"),
            (QUESTION, "n\n"), (REASON, "no notes in the tree\n"),
            ("It adds now.", ""), ("> ", "/policy\n"), ("> ", "/policy forget 1\n"), ("> ", "/policy\n"),
            ("> ", "/quit\n"),
        ],
    )  # fmt: skip

    assert code == 0, screen
    screen = screen.replace("\n  ┆ ", "")  # lines in one piece, however wide the terminal is
    assert (tree / "src" / "sums.py").read_text() == SOURCE.replace("a - b", "a + b").replace(
        "    return a\n", "    return 2 * a\n"
    )
    assert not (tree / "notes.txt").exists()

    # the previews: what would change, the command and where it runs, the edited call again
    edit, command, again = (screen.index(text) for text in ("M src/sums.py", "│ ./run_tests", "return 2 * a"))
    assert (
        "  │ M src/sums.py: +1 -1 lines\n"
        "  │ @@ -2,7 +2,7 @@\n"
        "  │  \n"
        "  │  \n"
        "  │  def add(a, b):\n"
        "  │ -    return a - b\n"
        "  │ +    return a + b\n"
    ) in screen[edit - 10 : command]
    assert f"  in {tree}, for at most 120 s, " in screen[edit:command]
    assert "Behind │ stands what the call would do" in screen
    assert "  1  Bash(./run_tests)\n  2  Bash(./run_tests:*)\n  3  Bash, every call of this tool\n" in screen
    assert "  │ +    return a + a\n" in screen[command:again]
    assert "! this is no JSON: line 1, column " in screen[command:again]
    assert ": your arguments\n  │ M src/sums.py: +1 -1 lines\n" in screen[command : again + 200]
    assert "  │ A notes.txt: +1 -0 lines\n" in screen
    denied = "• policy denies Bash by the rule Bash(curl:*): fetching from the network by the shell is not permitted"
    assert screen.count("• policy ") == 1
    assert denied in screen[command:again]
    assert screen.count(QUESTION) == 6
    told = screen[screen.index("It adds now.") :]
    assert "protections, which no answer lifts:\n  deny   Bash(curl:*)" in told
    assert "from now on, as you said:\n  1  allow  Bash(./run_tests:*)\n" in told
    assert "forgotten: Bash(./run_tests:*)" in told
    assert "from now on: nothing was said" in told

    # what the model was told
    lines = [line.removeprefix("TOLD ") for line in (tmp_path / "told").read_text().splitlines()]
    assert "def add(a, b):" in lines[0]
    edits = [lines[index].partition(";")[0] for index in (2, 6)]
    assert edits == ["Edited src/sums.py: line 5", "Edited src/sums.py: line 9"]
    assert ["1 passed" in line for line in lines[3:5]] == [True, True]
    assert "fetching from the network by the shell is not permitted" in lines[5]
    assert "The user changed the arguments of this call" in lines[6]
    assert "return 2 * a" in lines[6]
    assert lines[7] == "Error: the user refused this call: no notes in the tree"

    # the editor's file was nobody else's, and is gone
    for line in (tmp_path / "edited").read_text().splitlines():
        path, *modes = line.split()
        assert modes == ["0o600", "0o700"]
        assert not Path(path).parent.exists()

    records = [json.loads(line) for line in (tmp_path / "s.jsonl").read_text().splitlines()]
    answers = [one["input"] for one in records if str(one.get("input", {}).get("type", "")).startswith("approval")]
    assert [(one["type"], one.get("always"), one.get("rule"), one.get("reason")) for one in answers] == [
        ("approval_given", None, None, None),
        ("approval_given", True, "Bash(./run_tests:*)", None),
        ("approval_given", None, None, None),
        ("approval_refused", None, None, "no notes in the tree"),
        ("approvals_forgotten", None, None, None),
    ]
    assert json.loads(answers[2]["arguments_json"])["new"] == "    return 2 * a\n"
    judged = [one for record in records for one in record.get("decisions", ()) if one["type"] == "call_judged"]
    assert [(one["action"], one["rule"]) for one in judged] == [
        ("allow", "Bash(./run_tests:*)"),
        ("deny", "Bash(curl:*)"),
    ]
    assert replay(tmp_path / "s.jsonl").same
    assert here("replay", "s.jsonl").returncode == 0


def test_whoever_is_asked_whether_a_command_may_be_ended_sees_which(
    on_terminal: OnTerminal, tree: Path, tmp_path: Path
) -> None:
    """Where it asks, which it does in the mode careful; what runs by a rule is told with -v."""
    script = """
        context = 8192
        replies = [
            call("Bash", command="echo up; sleep 1000", run_in_background=True),
            call("KillShell", id="shell-1"),
            call("KillShell", id="shell-1"),
            "Ended.",
        ]
    """
    screen, code = on_terminal(
        "chat", "--model", "other.gguf", "--cwd", "tree", "--mode", "careful", "-v",
        command=scripted(script), NO_COLOR="1",
        typed=[
            ("> ", "Go.\n"), (QUESTION, "y\n"), (QUESTION, "a\n"), ("Enter: back): ", "1\n"),
            ("Ended.", ""), ("> ", "/quit\n"),
        ],
    )  # fmt: skip

    assert code == 0, screen
    screen = screen.replace("\n  ┆ ", "")
    asked = screen[screen.index('? KillShell(id="shell-1")') :]
    assert re.search(
        rf"\n  ends shell-1, in {re.escape(str(tree))}, running for \d+ s\n  │ echo up; sleep 1000\n", asked
    )
    assert screen.count("• policy ") == 1
    assert "• policy allows KillShell by the rule KillShell\n" in asked


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["no terminal", "json"])
def test_without_anybody_to_ask_a_change_is_refused_and_the_model_is_told(
    options: tuple[str, ...], here: Cogstep, tree: Path
) -> None:
    """Ask means deny; what needs no answer goes on."""
    told: list[str] = []

    def then(reply: Any) -> Any:
        def answer(request: Any) -> Any:
            told.append(request.messages[-1].content)
            return reply

        return answer

    replies = [
        call("Read", path="src/sums.py"),
        then(call("Edit", path="src/sums.py", old="a - b", new="a + b")),
        then(call("Bash", command="touch ran")),
        then("I could not."),
    ]
    done = here("run", "Mend it.", "--tools", TOOLS, "--cwd", "tree", *options, replies=replies)

    assert done.returncode == 0
    assert told[1:] == ["Error: the user refused this call: nobody is here to approve it"] * 2
    assert "I could not." in done.stdout
    assert "a call was refused, since nobody was here to approve it" in done.stderr
    assert (tree / "src" / "sums.py").read_text() == SOURCE
    assert not (tree / "ran").exists()
    assert stat.S_IMODE((tree / "run_tests").stat().st_mode) == 0o755
