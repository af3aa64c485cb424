"""What is said of a call that waits, with ``resume --answer`` and with ``/answer``: the words of the question at the
terminal, on one line.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from cognition import AskApproval, EffectId, ToolCall, ToolSpec
from interpreters import Approval, replay
from interpreters.cli._errors import CommandError
from interpreters.cli.session._approval_dialog import QUESTION
from interpreters.cli.session.answers import APPROVALS, read_answer
from interpreters.testing.fakes import call
from tests.interpreters.cli.processes import Cogstep, OnTerminal, scripted

BASH = ToolSpec("Bash", approval=True, command="command")
WAITS = AskApproval(EffectId("1.1.1"), ToolCall("c", "Bash", {"command": "git status"}))
NEVER = "the user said never"


def test_the_words_are_those_of_the_question_at_the_terminal() -> None:
    words = {re.sub(r"[\[\]]", "", word): letter for word, letter in re.findall(r"(\w*\[(?=(\w))\w\]\w*)", QUESTION)}

    assert {word: letter for word, letter in words.items() if word != "help"} == APPROVALS


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("yes", Approval(True)),
        (" Y ", Approval(True)),
        ("no", Approval(False, "the user said no")),
        ("n use the other file", Approval(False, "use the other file")),
        ("No, use the other file", Approval(False, "use the other file")),
        ("always", Approval(True, always=True)),
        ("always Bash", Approval(True, always=True)),
        ("a Bash(git status:*)", Approval(True, always=True, rule="Bash(git status:*)")),
        ("never", Approval(False, NEVER, always=True)),
        ("v Bash(git push:*)", Approval(False, NEVER, always=True, rule="Bash(git push:*)")),
        ('edit {"command": "git diff"}', Approval(True, arguments={"command": "git diff"})),
        ('e {"command": "git status"}', Approval(True)),
    ],
)
def test_what_an_answer_means(typed: str, expected: Approval) -> None:
    assert read_answer(WAITS, typed, (BASH,)) == expected


@pytest.mark.parametrize(
    ("typed", "error"),
    [
        (
            "",
            "1.1.1 takes yes, no REASON, always RULE, never RULE or edit JSON, not ''; REASON may be left out",
        ),
        ("perhaps", "takes yes, no REASON, always RULE, never RULE or edit JSON, not 'perhaps'"),
        ("yes but not now", "not 'yes but not now'"),
        ("nothing of it", "not 'nothing of it'"),
        ("always 1", "1.1.1 can't be answered so: rule pattern '1'"),
        ("always Bash(ls:*)", "does not cover the call that is approved"),
        ("always Bash(ls:*)", "there are for this call: Bash(git status), Bash(git status:*), Bash"),
        ("never Write(a)", "an answer is about no other tool; write 'Bash(a)'; there are for this call: Bash("),
        ("never Bash(", "rule pattern 'Bash('"),
        ("edit", 'takes all arguments as JSON behind edit, such as: edit {"path": "a.txt"}; this is no JSON: line 1'),
        ("edit git diff", "this is no JSON: line 1, column 1"),
        ("edit [1]", "arguments are a JSON object"),
    ],
)
def test_what_is_no_answer_says_what_can_be_said(typed: str, error: str) -> None:
    with pytest.raises(CommandError) as raised:
        read_answer(WAITS, typed, (BASH,))

    assert error in str(raised.value)
    assert str(raised.value).startswith("1.1.1 ")


LATER = ("--tools", "Bash", "--approve", "later")


def said(request: Any) -> str:
    return str(request.messages[-1].content)


ANSWERS = {
    "yes": ("touch ran\n[exit code 0", True, ""),
    "no not in this directory": ("the user refused this call: not in this directory", False, ""),
    "always Bash(touch:*)": ("[exit code 0", True, "Bash(touch:*)"),
    "never Bash(touch:*)": ("the user refused this call: the user said never", False, "Bash(touch:*)"),
    'edit {"command": "echo instead"}': ("instead\n[exit code 0", False, ""),
}


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("way", ["resume", "chat"])
def test_an_answer_holds_in_both_places(way: str, answer: str, here: Cogstep, tmp_path: Path) -> None:
    told, ran, rule = ANSWERS[answer]
    asks = call("Bash", command="touch ran")
    if way == "resume":
        waits = here("run", "?", *LATER, "--record", "s.jsonl", replies=[asks])
        done = here("resume", "s.jsonl", "--answer", f"1.1.1={answer}", replies=[said])
    else:
        waits = done = here(
            "chat", *LATER, "--record", "s.jsonl", input=f"?\n/answer {answer}\n/policy\n", replies=[asks, said]
        )
        assert bool(re.search(rf"^  1  (allow|deny )  {re.escape(rule)}( |$)", done.stderr, re.M)) == bool(rule)

    assert done.returncode == 0, done.stderr
    assert told.removeprefix("touch ran\n") in done.stdout
    assert (tmp_path / "ran").exists() == ran
    assert "! to a call ANSWER is yes, no REASON, always RULE, never RULE or edit JSON\n" in waits.stderr
    assert "! RULE may be Bash(touch ran), Bash(touch:*), Bash\n" in waits.stderr
    assert replay(tmp_path / "s.jsonl").same


def test_an_answer_that_is_none_leaves_the_question_and_the_recording(here: Cogstep, tmp_path: Path) -> None:
    here("run", "?", *LATER, "--record", "s.jsonl", replies=[call("Bash", command="touch ran")])
    before = (tmp_path / "s.jsonl").read_bytes()

    for wrong in ("always Bash(ls:*)", "edit {", "yes please"):
        done = here("resume", "s.jsonl", "--answer", f"1.1.1={wrong}", replies=[])
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert (tmp_path / "s.jsonl").read_bytes() == before


def test_at_a_terminal_too(on_terminal: OnTerminal, tmp_path: Path) -> None:
    """The help says what can be said, and a mistake says it again."""
    script = 'replies = [call("Bash", command="touch ran"), lambda request: request.messages[-1].content]'
    typed = [
        ("> ", "Go\n"), ("/cancel", ""), ("> ", "/help\n"), ("> ", "/answer a Bash(ls:*)\n"),
        ("there are for this call", ""), ("> ", '/answer edit {"command": "echo instead"}\n'),
        ("exit code 0", ""), ("> ", "/quit\n"),
    ]  # fmt: skip
    screen, code = on_terminal(
        "chat", *LATER, "--record", "s.jsonl", command=scripted(script), typed=typed, NO_COLOR="1"
    )

    assert code == 0, screen
    assert "To a call: yes, no REASON, always RULE,\n" in screen
    assert "instead\n" in screen
    assert not (tmp_path / "ran").exists()
