"""A turn with everything in it, for what has to hold at every place of a turn."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from cognition import Failure, ModelRequest
from cognition.values.features import Feature
from interpreters.recording.journal.payloads import LARGE
from interpreters.testing.fakes import Reply, ScriptedModel, call

PAGE = "A page.\n" * (LARGE // 8)
"""Stands in a file beside the journal."""

FEATURES: tuple[Feature, ...] = ("questions", "plan", "memory", "workers")


def rich_script() -> list[Any]:
    """A retry, calls at once, calls that take too long, a question, a plan, an approval, notes, a worker."""
    return [
        Failure("try again", kind="transient"),
        Reply("I look.", [call("look", n=1), call("double", n=2)], reasoning="Which ones?", chunk=3),
        [call("ask_user", questions=[{"question": "Which?", "options": ["a", "b"]}])],
        [call("look", n=3), call("doze"), call("doze_on_a_thread")],
        call("pay", amount=5),
        [call("recall", query="cat"), call("spawn_worker", name="ann", objective="work"), call("remember", text="a")],
        call("submit_plan", steps=["rest"]),
        call("finish_step"),
        Reply("All is done.", chunk=4),
    ]


class RichModel(ScriptedModel):
    """A turn with everything in it, a worker included, and a greeting afterwards."""

    def __init__(self) -> None:
        self._script = iter(rich_script())
        super().__init__(iter(lambda: self._answer, None), context_tokens=10**6)

    def _answer(self, request: ModelRequest) -> Any:
        if "Hi!" in [getattr(message, "text", "") for message in request.messages[-2:]]:  # notes may stand behind it
            return "Hello again."
        if getattr(request.messages[0], "text", "").startswith("work"):
            return Reply("I work.", chunk=2)
        return next(self._script)


def open_files() -> int:
    """How many this process has."""
    return len(os.listdir("/dev/fd"))


def strangers(folder: Path) -> list[Path]:
    """What lies there beside journals and the large texts that are named by their content."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if path.suffix != ".jsonl" and not re.fullmatch("[0-9a-f]{64}", path.name)]
