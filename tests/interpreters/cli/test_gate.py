"""Everything that the command line writes goes through one gate: found in its source, and tried with real processes."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import interpreters.cli
from cognition import ToolCall
from interpreters.cli.session._approval_dialog import LONGEST_CALL, question_lines
from tests.interpreters.cli.processes import ROOT, OnTerminal, scripted
from tests.interpreters.hostile_text import HOSTILE, offences

CLI = Path(interpreters.cli.__file__).parent

BESIDE_THE_GATE = {
    ("terminal.py", "sys.stdout"): "the gate itself",
    ("terminal.py", "sys.stderr"): "the gate itself",
    ("main.py", "sys.stdout"): "where there is none, one is opened; nothing is written",
    ("main.py", "sys.stderr"): "as above",
    ("arguments.py", "sys.stdout"): "compared with, to tell which of the two argparse means",
    ("interrupts.py", "os.write"): "a handler of signals may use no buffer: it writes our own two sequences",
    ("environment_report.py", "os.write"): "a child's report to its parent, as JSON in ASCII",
    ("line_input.py", "input"): "shows a prompt of ours, for a library that edits lines",
}
"""Who names a stream all the same, and why."""

WRITERS = {"print", "input", "sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__", "os.write", "breakpoint"}


def writers(path: Path) -> set[str]:
    """What of a module's source may write."""
    tree = ast.parse(path.read_text())
    names = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    dotted = {
        f"{node.value.id}.{node.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    buffers = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "buffer"}
    return (names | dotted) & WRITERS | buffers


def test_nothing_is_written_beside_the_gate() -> None:
    """In all of the command line there is no other `print`, no other stream, and each exception has its reason."""
    found = {(path.name, name) for path in CLI.rglob("*.py") for name in writers(path)}

    assert found == set(BESIDE_THE_GATE)


def test_only_the_gate_writes_sequences() -> None:
    """Escape sequences stand in one module, and are written by `steer` alone."""
    for path in CLI.rglob("*.py"):
        if path.name != "terminal.py":
            assert "\\x1b" not in path.read_text().replace("``\\x1b``", ""), path


TALKING = """
    import logging, sys, warnings
    from interpreters import tool
    EVIL = "\\x1b]0;owned\\x07 \\x9b31m \\u202e \\u2028 \\ud83d"
    @tool
    def look() -> str:
        print(EVIL)
        sys.stderr.write(EVIL)
        warnings.warn(EVIL)
        logging.getLogger("other").error(EVIL)
        return EVIL
    tools = (look,)
    replies = [fakes.call("look"), EVIL]
"""


@pytest.mark.parametrize("locale", ["C.UTF-8", "C", "POSIX"])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "cp1252", "utf-8:strict"])
def test_no_encoding_of_a_terminal_ends_a_session(
    locale: str, encoding: str, environment: dict[str, str], tmp_path: Path
) -> None:
    """What it can't show is shown as an escape, whatever the locale; nor does anybody else's line get through."""
    environment |= {"LC_ALL": locale, "LANG": locale, "PYTHONIOENCODING": encoding}
    command = [*scripted(TALKING), "run", "Hi"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False)

    assert done.returncode == 0
    assert b"Traceback" not in done.stderr
    for written in (done.stdout, done.stderr):
        assert b"\\x1b]0;owned\\x07" in written
        assert (
            not offences(written, encoding.partition(":")[0], on_terminal=False, lines=True) or written == done.stdout
        )
    assert not [byte for byte in done.stdout if byte < 32 and byte != 10]


@pytest.mark.parametrize("more", [{}, {"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_on_a_real_terminal_only_our_own_sequences_arrive(on_terminal: OnTerminal, more: dict[str, str]) -> None:
    """With colours and a spinner, without colours, and on a terminal that moves nothing."""
    screen, code = on_terminal("run", "Hi", command=scripted(TALKING), **more)

    assert code == 0
    assert "\\x1b]0;owned\\x07" in screen
    assert not offences(screen.encode("utf-8", "replace"), "utf-8", on_terminal=not more.get("TERM"), lines=True)
    assert ("\x1b[" in screen) == (not more)


def question(text: str, longest: int | None = LONGEST_CALL) -> list[str]:
    call = ToolCall("c", "wipe", {"path": text})
    return [line for line, _ in question_lines(call, "it asks", longest)]


@pytest.mark.parametrize("evil", HOSTILE.values(), ids=HOSTILE)
def test_a_question_is_a_line_or_two_that_say_what_runs(evil: str) -> None:
    """What is shown is bounded, says how much it doesn't show, and is JSON, so that nothing passes for its end."""
    for line in question(evil):
        assert len(line) < LONGEST_CALL + 300
        assert line.isprintable()
    assert ("characters not shown" in question(evil)[0]) == (len(evil) > 1000)
    (whole, *_) = question(evil, None)
    assert len(whole) >= len(evil)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("notes.txt", ['? wipe(path="notes.txt"): it asks']),
        ('a"): may it run?\n? list("', ['? wipe(path="a\\"): may it run?\\n? list(\\""): it asks']),
        ("раураl", ['? wipe(path="раураl"): it asks', '  in ASCII: wipe(path="\\u0440\\u0430\\u0443\\u0440\\u0430l")']),
        ("a\u202eb", ['? wipe(path="a\\u202eb"): it asks']),
        ("שלום", ['? wipe(path="שלום"): it asks', '  in ASCII: wipe(path="\\u05e9\\u05dc\\u05d5\\u05dd")']),
        ("\\x1b", ['? wipe(path="\\\\x1b"): it asks']),
    ],
)
def test_what_looks_like_something_else_is_told_from_it(text: str, expected: list[str]) -> None:
    """Quotes and line breaks are JSON's, and letters that may pass for others are written in ASCII besides."""
    assert expected == question(text)


def test_the_middle_of_a_long_call_is_shown_when_asked_for(on_terminal: OnTerminal) -> None:
    """The question says how much is not shown, and `s` shows it: nothing is approved unseen by way of its length."""
    script = """
    from interpreters import tool
    @tool(approval=True)
    def wipe(path: str) -> str:
        return "wiped"
    tools = (wipe,)
    replies = [fakes.call("wipe", path="a" * 4000 + " MIDDLE " + "z" * 4000), "Done."]
    """
    screen, code = on_terminal(
        "run", "Hi", command=scripted(script), typed=[("[s]how all of it", "s\n"), ("[s]how all of it", "y\n")]
    )

    first, second = screen.split("[s]how all of it")[:2]
    assert "characters not shown" in first
    assert "MIDDLE" not in first
    assert "MIDDLE" in second
    assert code == 0


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        *(
            (error, 1, f"{error}: \\x1b[2J\\u202e\n")
            for error in ("ZeroDivisionError", "BaseException", "GeneratorExit")
        ),
        ("SystemExit", 2, "it has to return, or raise an exception\n"),
    ],
)
def test_a_fault_is_told_without_its_text_being_obeyed(error: str, code: int, told: str) -> None:
    """Tracebacks pass the gate too, whatever was raised, and the exit code is that of a failure."""
    program = (
        "import sys\nfrom interpreters.cli import main\nfrom interpreters.cli.session import session\n"
        f"def fail(*_, **__): raise {error}('\\x1b[2J\\u202e')\n"
        "session.load_model = fail\nsys.exit(main.main(['run', 'Hi']))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=False)

    assert (done.returncode, done.stdout) == (code, b"")
    assert done.stderr.endswith(told.encode())
    assert b"\x1b" not in done.stderr
