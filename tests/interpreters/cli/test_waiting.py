"""A signal at the question whether a call may run keeps the question in the recording, where it is asked again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interpreters.cli.processes import Cogstep, OnTerminal, scripted
from tests.interpreters.cli.test_signals import QUESTION

TOOLS = """
    @tool(approval=True)
    def launch(target: str) -> str:
        '''Launch.'''
        with open("launched", "a") as file:
            file.write(target)
        return "launched " + target

    tools = (launch,)
"""
ASKS = 'replies = [call("launch", target="the boat")]'
DONE = 'replies = ["Gone."]'

SIGNALLED = """
    import builtins, os, signal, types

    def signalled():
        os.kill(os.getpid(), signal.SIGNAL)

    sys.stdin = types.SimpleNamespace(isatty=lambda: True, readline=signalled)
"""
"""A signal that comes exactly while the answer is read; see ``test_signals.INTERRUPTED``."""

COMMANDS = {
    "run": ("run", "?", "--record", "s.jsonl"),
    "resume": ("resume", "s.jsonl", "?"),
    "fork": ("fork", "other.jsonl", "?", "--record", "s.jsonl"),
}


def signalled(name: str) -> str:
    return SIGNALLED.replace("SIGNAL)", f"{name})")


@pytest.mark.behaviour("P16a")
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_signal_at_a_question_keeps_it_and_resume_asks_again(
    command: str, name: str, code: int, on_terminal: OnTerminal, here: Cogstep, tmp_path: Path
) -> None:
    """As often as it is interrupted; once it is answered, the call runs once."""
    if command != "run":
        recording = {"resume": "s.jsonl", "fork": "other.jsonl"}[command]
        _, ended = on_terminal("run", "Hi!", "--record", recording, command=scripted(TOOLS, DONE))
        assert ended == 0
    for arguments, script in ((COMMANDS[command], ASKS), (("resume", "s.jsonl"), DONE)):
        screen, ended = on_terminal(*arguments, command=scripted(TOOLS, script, signalled(name)))
        assert (code, False) == (ended, "! cancelled" in screen)
        assert "go on with: cogstep resume s.jsonl\x1b[0m\n" in screen
        assert not (tmp_path / "launched").exists()

    screen, ended = on_terminal("resume", "s.jsonl", command=scripted(TOOLS, DONE), typed=[(QUESTION, "y\n")])

    assert (ended, "what waits for an answer is asked again" in screen) == (0, True)
    assert "Gone." in screen
    assert (tmp_path / "launched").read_text() == "the boat"
    assert here("replay", "s.jsonl").returncode == 0


LATER_PROMPTS = """
    import os, signal, sys, types
    typed = iter({typed!r})

    def readline():
        line = next(typed, None)
        if line is None:
            os.kill(os.getpid(), signal.SIGINT)
        return line

    sys.stdin = types.SimpleNamespace(isatty=lambda: True, readline=readline)
"""


@pytest.mark.parametrize("typed", [["n\n"], ["a\n"], ["v\n"], ["e\n"], ["e\n", "{\n"], ["h\n"]], ids=repr)
def test_ctrl_c_means_the_same_at_each_prompt_of_a_question(
    typed: list[str], on_terminal: OnTerminal, tmp_path: Path
) -> None:
    """At the reason, the rules and the arguments too the question is kept, and no answer is half given."""
    quiet = {"VISUAL": "", "EDITOR": ""}
    script = LATER_PROMPTS.replace("{typed!r}", repr(typed))
    screen, code = on_terminal("run", "?", "--record", "s.jsonl", command=scripted(TOOLS, ASKS, script), **quiet)
    assert (code, "go on with: cogstep resume s.jsonl" in screen) == (130, True), screen

    screen, code = on_terminal("resume", "s.jsonl", command=scripted(TOOLS, DONE), typed=[(QUESTION, "y\n")])
    assert (code, (tmp_path / "launched").read_text()) == (0, "the boat")


def test_what_was_typed_before_a_question_is_no_answer_to_it(on_terminal: OnTerminal, tmp_path: Path) -> None:
    """It was meant for something else, and nobody had seen yet what would run."""
    slow = """
        import select

        def slowly(request):
            print("THINKING", flush=True, file=sys.stderr)
            assert select.select([0], [], [], 60)[0]  # it is typed
            return call("launch", target="the boat")

        replies = [slowly, "Gone."]
    """
    typed = [("THINKING", "y\n"), (QUESTION, "n not yet\n")]
    screen, code = on_terminal("run", "?", command=scripted(TOOLS, slow), typed=typed)

    assert (code, screen.count(QUESTION), "refused: the user refused this call: not yet" in screen) == (0, 1, True)
    assert not (tmp_path / "launched").exists()


def test_sigterm_at_a_question_of_a_chat_keeps_it_and_ctrl_c_cancels(on_terminal: OnTerminal, tmp_path: Path) -> None:
    def chat(name: str) -> tuple[str, int]:
        """A chat whose one message is read, and at whose question a signal comes."""
        read = """
            lines = iter(["Go!"])
            builtins.input = lambda prompt="": next(lines, "/quit")
        """
        more = ("chat", "--record", f"{name}.jsonl")
        return on_terminal(*more, command=scripted(TOOLS, ASKS, signalled(name), read))

    screen, ended = chat("SIGTERM")
    assert (ended, "cogstep resume SIGTERM.jsonl" in screen, "! cancelled" in screen) == (143, True, False)

    screen, ended = chat("SIGINT")
    assert (ended, "cogstep resume" in screen, "! cancelled" in screen) == (0, False, True)


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_without_a_recording_a_signal_at_a_question_cancels(name: str, code: int, on_terminal: OnTerminal) -> None:
    screen, ended = on_terminal("run", "?", command=scripted(TOOLS, ASKS, signalled(name)))

    assert (code, True, False) == (ended, "! cancelled" in screen, "cogstep resume" in screen)
