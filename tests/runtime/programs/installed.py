"""The stand-ins of ``fake.py``, installed in a folder for a test."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from runtime.programs._claude import CLAUDE
from runtime.programs._codex import CODEX
from runtime.programs._program import Program
from runtime.programs.handles import ProgramRuntime

PROGRAMS = {"claude": CLAUDE, "codex": CODEX}
SOURCE = Path(__file__).parent / "fake.py"
VARIABLES = ("FAKE_PLAN", "FAKE_LOG", "FAKE_SESSIONS")


class Installed:
    """One program in a folder of its own, and what it was called with."""

    def __init__(self, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.program: Program = PROGRAMS[name]
        self.folder = folder
        self.path = folder / name
        self.path.write_text(f"#!{sys.executable} -IS\n{SOURCE.read_text('utf-8')}", "utf-8")
        self.path.chmod(0o755)
        self._patch = monkeypatch
        for variable, place in (("FAKE_LOG", "log"), ("FAKE_SESSIONS", "sessions")):
            (folder / place).mkdir()
            monkeypatch.setenv(variable, str(folder / place))
        monkeypatch.delenv("FAKE_PLAN", raising=False)

    def plan(self, *steps: list[Any]) -> None:
        """What it does from now on."""
        plan = self.folder / "plan.json"
        plan.write_text(json.dumps(steps), "utf-8")
        self._patch.setenv("FAKE_PLAN", str(plan))

    def echo(self) -> None:
        """It says what it was told last, from now on."""
        self._patch.delenv("FAKE_PLAN", raising=False)

    def load(self, model: str = "", **options: Any) -> ProgramRuntime:
        """A runtime of it."""
        usual = {"program": str(self.path), "variables": VARIABLES, "grace": 0.5, **options}
        return ProgramRuntime(self.program, model, self.program.options(**usual))

    @property
    def calls(self) -> list[dict[str, Any]]:
        """What it was called with, in order."""
        return [json.loads(path.read_text("utf-8")) for path in sorted((self.folder / "log").iterdir())]

    @property
    def meeting(self) -> Path:
        """Where it says that it is there, by the step ``meet``."""
        return self.folder / "there"

    def met(self) -> int:
        """Wait until it says so; its process id."""
        deadline = time.monotonic() + 30
        while not (self.meeting.exists() and self.meeting.read_text("utf-8")):
            assert time.monotonic() < deadline, "the program has never come to that step"
            time.sleep(0.005)
        return int(self.meeting.read_text("utf-8"))
