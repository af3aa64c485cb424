"""A model's process and the program that started it: it starts from wherever Python runs, outlives Ctrl-C, and nothing
else outlives the program.
"""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.models.specs import is_installed

ROOT = Path(__file__).resolve().parents[3]
LONG = 60

HEAD = """
import os, sys, time
from tests.runtime.isolated.test_supervisor import IsolatedRuntime, ask, supervise
runtime = IsolatedRuntime(supervise())
"""

ASK = """
from cognition import GenerationOptions, History, ModelRequest, UserMessage
from runtime import load_model
model = load_model(isolate=True)
request = ModelRequest("", History((UserMessage("m", "Hi"),)), (), GenerationOptions(max_tokens=2))
*_, done = model.submit(request)
print(done.finish_reason, done.usage.output_tokens, model.starts)
"""


def program(code: str) -> "subprocess.Popen[str]":
    """A Python program in a process group of its own, as a terminal gives to each command."""
    return subprocess.Popen(
        [sys.executable, "-c", HEAD + code],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="there is no way to wait for a process that is not ours")
@pytest.mark.parametrize("doing", ["nothing", "work", "first hang", "first SIGSTOP"])
def test_no_child_is_left_when_its_parent_is_killed(doing: str) -> None:
    """Whatever it was doing: nothing, work, native code that hangs; even where it was stopped."""
    text = "word " * 5_000 if doing == "work" else doing
    code = f"generation = runtime.submit(ask({text!r})); next(generation); print(runtime.pid, flush=True); input()"
    with program(code) as parent:
        assert parent.stdout is not None
        child = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
    try:
        assert select.select([child], [], [], LONG)[0] == [child]
    finally:
        os.close(child)


def test_ctrl_c_is_the_parents_to_answer() -> None:
    """It goes to all processes of a terminal's command; the child of one that goes on goes on too."""
    code = """
generation = runtime.submit(ask("first " + "word " * 1_000_000)); next(generation)
try:
    print("ready", flush=True)
    while True:  # Not signal.pause(): it waits for a second one where the first has come just before.
        time.sleep(0.01)
except KeyboardInterrupt:
    generation.cancel()
    *_, done = generation
    *_, other = runtime.submit(ask("and another"))
    print(done.finish_reason, other.text, runtime.starts)
"""
    with program(code) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "ready\n"
        os.killpg(parent.pid, signal.SIGINT)
        assert parent.stdout.read() == "cancelled andanother 1\n"
    assert parent.returncode == 0


def run(*command: str, code: str = "") -> tuple[int, str, str]:
    done = subprocess.run(
        command, cwd=ROOT, input=code, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    return done.returncode, done.stdout, done.stderr


needs_a_backend = pytest.mark.skipif(
    not (is_installed("llama") or is_installed("mlx")), reason="no backend is installed"
)


@needs_a_backend
@pytest.mark.parametrize("how", ["-c", "stdin", "script", "frozen"])
def test_it_starts_from_wherever_python_runs(tmp_path: Path, how: str) -> None:
    """Without ``if __name__ == "__main__"``, without a file, from another folder, and frozen into a program.

    And it ends with the program, though nobody closed it, and says nothing on the terminal.
    """
    script = tmp_path / "script.py"
    if how == "-c":
        result = run(sys.executable, "-c", ASK)
    elif how == "stdin":
        result = run(sys.executable, "-", code=ASK)
    elif how == "script":
        script.write_text("import os\nos.chdir('/')\n" + ASK)
        result = run(sys.executable, str(script))
    else:
        # As PyInstaller's programs are: whatever they start as ``sys.executable`` runs the same program again.
        script.write_text(
            "import sys\nsys.frozen = True\nsys.executable = sys.argv.pop(1)\n"
            "from runtime import freeze_support\nfreeze_support()\n" + ASK
        )
        frozen = tmp_path / "program"
        frozen.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$0" "$@"\n')
        frozen.chmod(0o755)
        result = run(str(frozen))

    assert result == (0, "length 2 1\n", "")


@needs_a_backend
def test_a_frozen_program_that_does_not_help_is_told(tmp_path: Path) -> None:
    """Not one that starts itself over and over: it says what to do."""
    script, frozen = tmp_path / "script.py", tmp_path / "program"
    script.write_text("import sys\nsys.frozen = True\nsys.executable = sys.argv.pop(1)\n" + ASK)
    frozen.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$0" "$@"\n')
    frozen.chmod(0o755)
    code, out, error = run(str(frozen))

    assert (code, out) == (1, "")
    assert "call runtime.freeze_support() in the first line of the program's main module" in error
