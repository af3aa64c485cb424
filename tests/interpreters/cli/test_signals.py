"""Ctrl-C and SIGTERM on real processes, and what a terminal sees. Each test waits for output, never for time."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import IO

import pytest

from interpreters.cli.screen.terminal import ERASE_LINE
from tests.interpreters.cli.processes import BACKENDS, Cogstep, OnTerminal, Start, scripted

HOLDING = 'replies = [Reply("Let me think\\n", hold=Hold()), "Here I am."]'
"""A model that stops in the middle of its reply until it is cancelled."""

STUCK = """
    @tool(read_only=True)
    def dig(context: ToolContext[None]) -> str:
        '''Dig, deaf to all.'''
        print("digging", file=sys.stderr, flush=True)
        while not context.cancelled:
            threading.Event().wait(0.01)
        print("heard it", file=sys.stderr, flush=True)
        threading.Event().wait()

    tools = (dig,)
    replies = [call("dig")]
"""
"""A tool that never ends, cancelled or not."""


def wait_for(stream: IO[str] | None, text: str) -> None:
    """Read lines up to one that holds the text."""
    assert stream is not None
    for line in stream:
        if text in line:
            return
    raise AssertionError(f"the stream ended without {text!r}")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_cancels_the_turn_and_completes_the_recording(
    number: signal.Signals, code: int, start: Start, here: Cogstep, tmp_path: Path
) -> None:
    """The exit code is the shell's for the signal; the recording ends with the cancelled turn and replays."""
    process = start("run", "?", "--record", "s.jsonl", command=scripted(HOLDING))
    wait_for(process.stdout, "Let me think")
    process.send_signal(number)
    _, errors = process.communicate()

    assert process.returncode == code
    assert errors == "! cancelled\n"
    assert '"type":"cancelled"' in (tmp_path / "s.jsonl").read_text()
    assert "1 turn," in here("replay", "s.jsonl").stdout


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_second_signal_leaves_at_once(number: signal.Signals, code: int, start: Start, here: Cogstep) -> None:
    """A tool that never returns can't hold the user, and what was recorded stays readable."""
    process = start("run", "?", "--record", "s.jsonl", command=scripted(STUCK))
    wait_for(process.stderr, "digging")
    process.send_signal(signal.SIGINT)
    wait_for(process.stderr, "heard it")
    process.send_signal(number)

    assert process.wait() == code
    assert here("replay", "s.jsonl").returncode == 0


def test_ctrl_c_in_a_chat_cancels_the_answer_and_keeps_the_conversation(start: Start) -> None:
    """After the cancelled answer the next message is answered, with the first still in the conversation."""
    script = 'replies = [Reply("Let me think\\n", hold=Hold()), lambda request: f"{len(request.messages)} messages"]'
    process = start("chat", command=scripted(script))
    assert process.stdin is not None
    process.stdin.write("one\n")
    wait_for(process.stdout, "Let me think")
    process.send_signal(signal.SIGINT)
    wait_for(process.stderr, "! cancelled")
    out, errors = process.communicate("two\n")

    assert (process.returncode, out, errors) == (0, "3 messages\n", "")


# ------------------------------------------------------------------------------------------------------- on a terminal

CALLING = 'replies = [Reply("", call("calculate", expression="17 * 23"), reasoning="A tool."), "It is 391."]'


def settled(screen: str) -> str:
    """What stays of it: each line as it is after it was erased the last time. On a slow machine spinners appear."""
    return "\n".join(line.split(ERASE_LINE)[-1] for line in screen.split("\n"))


def test_a_terminal_gets_colours(on_terminal: OnTerminal) -> None:
    """Thinking is dim, the call is cyan, the answer is plain; usage and time come last."""
    screen, code = on_terminal("run", "?", command=scripted(CALLING))

    assert code == 0
    screen = settled(screen)
    assert "\x1b[2mA tool.\x1b[0m\n" in screen
    assert '\x1b[36m→ calculate(expression="17 * 23")\x1b[0m\n← 391\nIt is 391.\n\x1b[2m2 replies,' in screen


def test_a_terminal_that_wants_no_colour_gets_none(on_terminal: OnTerminal) -> None:
    """NO_COLOR takes the colours, and TERM=dumb every escape sequence; what is said is the same."""
    expected = 'A tool.\n→ calculate(expression="17 * 23")\n← 391\nIt is 391.\n2 replies,'
    plain, _ = on_terminal("run", "?", command=scripted(CALLING), NO_COLOR="1")
    dumb, _ = on_terminal("run", "?", command=scripted(CALLING), TERM="dumb")

    assert expected in settled(plain)
    assert "\x1b[2m" not in plain
    assert expected in dumb
    assert "\x1b" not in dumb


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_terminal_shows_a_bar_while_the_model_loads(backend: str, on_terminal: OnTerminal) -> None:
    """It is full at the end, and erased before anything else is written."""
    screen, code = on_terminal("chat", "--backend", backend, typed=[("> ", "/quit\n")])

    assert code == 0, screen
    assert "100%\x1b[0m\r\x1b[K" in screen


ASKING = """
    @tool(approval=True)
    def launch(target: str) -> str:
        '''Launch.'''
        return "launched " + target

    tools = (launch,)
    replies = [call("launch", target="the boat"), call("launch", target="it"), lambda r: r.messages[-1].content]
"""
QUESTION = "[y]es, [n]o, [a]lways, ne[v]er, [e]dit, [h]elp: "
FROM_NOW_ON = "from now on: 1, or a rule of your own (Enter: back): "
REASON = "reason (Enter: none): "


INTERRUPTED = """
    import builtins, os, signal, types
    typed = iter(["^C", "hello", "^C", "^C"])

    def read(prompt=""):
        line = next(typed)
        if line == "^C":
            os.kill(os.getpid(), signal.SIGINT)
        return line

    builtins.input = read
    sys.stdin = types.SimpleNamespace(isatty=lambda: True, readline=read)
"""
"""A user who presses Ctrl-C exactly while a line is read. Sent from outside, a signal that comes between the prompt and
the read is only noticed at the next key (the C library's ``read`` and readline's ``select`` begin after it)."""


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ([(QUESTION, "y\n"), (QUESTION, "n\n"), (REASON, "\n")], "refused this call: the user said no"),
        ([(QUESTION, "y\n"), (QUESTION, "No\n"), (REASON, "wait for the tide\n")], "this call: wait for the tide"),
        ([(QUESTION, "y\n"), (QUESTION, "n not today\n")], "this call: not today"),
        ([(QUESTION, "what?\n"), (QUESTION, "Always\n"), (FROM_NOW_ON, "1\n")], "launched it"),
        ([(QUESTION, "v\n"), (FROM_NOW_ON, "\n"), (QUESTION, "v\n"), (FROM_NOW_ON, "1\n")], "refused"),
    ],
)
def test_the_user_is_asked_for_an_approval(
    typed: list[tuple[str, str]], expected: str, on_terminal: OnTerminal
) -> None:
    """The whole call is shown, and the answer is heeded, for this call or from now on."""
    screen, code = on_terminal("run", "?", command=scripted(ASKING), typed=typed)

    assert code == 0
    assert '? launch(target="the boat"): ' in screen
    assert expected in screen
    assert screen.count(QUESTION) == [prompt for prompt, _ in typed].count(QUESTION)


@pytest.mark.parametrize(
    ("arguments", "expected"), [(["--yes"], "launched it\n"), ([], "nobody is here to approve it")]
)
def test_without_a_terminal_nobody_is_asked(arguments: list[str], expected: str, cogstep: Cogstep) -> None:
    """Such calls are refused, unless --yes approved them all."""
    run = cogstep("run", "?", *arguments, command=scripted(ASKING))

    assert run.returncode == 0
    assert expected in run.stdout


def test_ctrl_c_at_a_question_cancels_the_turn(on_terminal: OnTerminal) -> None:
    """The call does not run."""
    screen, code = on_terminal("run", "?", command=scripted(ASKING, INTERRUPTED))

    assert code == 130
    assert "! cancelled" in screen
    assert "launched" not in screen


def test_ctrl_c_twice_at_the_prompt_leaves(on_terminal: OnTerminal) -> None:
    """The first says how to leave, the second leaves; a message in between makes it the first again."""
    script = "replies = [lambda r: str(len(r.messages)) + ' message']"
    screen, code = on_terminal("chat", command=scripted(script, INTERRUPTED))

    assert code == 130
    assert screen.count("Ctrl-C again leaves, like Ctrl-D and /quit") == 2
    assert "1 message\n" in screen


def test_a_chat_on_a_terminal_keeps_its_lines(on_terminal: OnTerminal, environment: dict[str, str]) -> None:
    """It greets, edits lines, and remembers them in the user's state directory, which nobody else may read."""
    typed = [("> ", "hello \\\n"), (". ", "world\n"), ("4", "/quit\n")]
    screen, code = on_terminal("chat", command=scripted("replies = [lambda r: str(2 + 2)]"), typed=typed)
    history = Path(environment["HOME"], ".local", "state", "cogstep", "chat_history")

    assert code == 0
    assert "scripted (fake), 5 tools; /help says what can be typed, Ctrl-D leaves" in screen
    assert "hello \\\nworld\n/quit\n" in history.read_text()
    assert history.stat().st_mode & 0o077 == 0


def test_the_end_of_input_leaves_a_chat(on_terminal: OnTerminal) -> None:
    """Ctrl-D at the prompt."""
    _, code = on_terminal("chat", command=scripted("replies = iter(())"), typed=[("> ", "\x04")])

    assert code == 0
