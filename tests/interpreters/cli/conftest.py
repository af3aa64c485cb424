"""The command in processes of its own: real streams, real signals, real terminals."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from interpreters.cli.main import main
from interpreters.cli.session import session
from interpreters.testing.fakes import Script, ScriptedModel
from tests.interpreters.cli.processes import COMMAND, ROOT, Cogstep, OnTerminal, Start


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A user who has nothing yet."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "HF_", "NO_COLOR"))}
    return {**kept, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path / "home"), "TERM": "xterm", "HF_HUB_OFFLINE": "1"}


@pytest.fixture
def cogstep(tmp_path: Path, environment: dict[str, str]) -> Cogstep:
    """Runs the command to its end in an empty directory and gives its output as text."""

    def run(*arguments: str, command: Sequence[str] = COMMAND, **options: Any) -> subprocess.CompletedProcess[str]:
        if "input" not in options:
            options.setdefault("stdin", subprocess.DEVNULL)
        if "stdout" not in options:
            options["stdout"] = subprocess.PIPE
        return subprocess.run(
            [*command, *arguments], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True, check=False,
            **options,
        )  # fmt: skip

    return run


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cogstep:
    """Like ``cogstep``, in this process: 0.01 s instead of 0.4 s, for all that needs no streams or signals of its own.

    ``replies`` scripts the model, ``without`` names modules that are not installed.
    """
    monkeypatch.chdir(tmp_path)

    def run(
        *arguments: str, replies: Iterable[Script] | None = None, input: str = "", without: Sequence[str] = ()
    ) -> subprocess.CompletedProcess[str]:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", io.StringIO(input))
            patch.setattr(sys, "path", list(sys.path))
            before = set(sys.modules)
            if replies is not None:
                patch.setattr(session, "load_model", lambda *_, **__: ScriptedModel(iter(replies)))
            for name in without:
                patch.setitem(sys.modules, name, None)  # Python's own way to say that there is no such module
            capsys.readouterr()
            code = main(arguments)
            printed = capsys.readouterr()
            for name in set(sys.modules) - before:  # a module of this directory is another one in the next
                if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
                    del sys.modules[name]
            return subprocess.CompletedProcess(arguments, code, printed.out, printed.err)

    return run


@pytest.fixture
def start(tmp_path: Path, environment: dict[str, str]) -> Iterator[Start]:
    """Starts the command and gives the running process, line-buffered; it is killed when the test ends."""
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: str, command: Sequence[str] = COMMAND) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*command, *arguments], cwd=tmp_path, env=environment, text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


Typed = Sequence[tuple[str, str]]


@pytest.fixture
def on_terminal(tmp_path: Path, environment: dict[str, str]) -> OnTerminal:
    """Runs the command on a terminal of its own; gives what was on it, and the exit code.

    ``typed`` holds what to wait for and what to type then, in order.
    """

    def run(*arguments: str, command: Sequence[str] = COMMAND, typed: Typed = (), **more: str) -> tuple[str, int]:
        master, slave = os.openpty()
        process = subprocess.Popen(
            [*command, *arguments], env={**environment, **more}, cwd=tmp_path, stdin=slave, stdout=slave, stderr=slave
        )
        os.close(slave)
        try:
            screen = _converse(master, list(typed))
            return screen.replace("\r\n", "\n"), process.wait()
        finally:
            process.kill()
            process.wait()
            os.close(master)

    return run


def _converse(master: int, typed: list[tuple[str, str]]) -> str:
    screen, looked_at = bytearray(), 0
    while True:
        while typed and (found := screen.find(typed[0][0].encode(), looked_at)) >= 0:
            # What comes next is looked for behind this: terminals echo, and prompts repeat.
            looked_at = found + len(typed[0][0].encode())
            os.write(master, typed.pop(0)[1].encode())
        try:
            more = os.read(master, 65536)
        except OSError:  # EIO: nobody holds the other end any more
            more = b""
        if not more:
            return screen.decode("utf-8", "replace")
        screen += more
