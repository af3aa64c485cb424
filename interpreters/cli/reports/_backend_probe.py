"""Test whether a backend really works: load the shipped model and ask it one question, in a child process.

The child prints one JSON object per line on stdout: first each stage that it starts, at the end its finding. So a
crash, mostly in native code, is a finding about the current stage. The parent reads these lines.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast

from attrs import frozen

from cognition.base.display import LONGEST_LINE, shown_name
from runtime.children.ending import signal_name

QUESTION = "What is 17 * 23?"
ANSWER = "391"
"""The expected answer, since a broken backend may produce nonsense without an error."""

Stage = Literal["import", "load", "answer"]
DOING: Mapping[Stage, str] = {
    "import": "importing the package",
    "load": "loading the model",
    "answer": "answering",
}


@frozen
class Finding:
    """The child's finding, or how its process ended."""

    works: bool
    problem: str = ""
    """One line; empty if it works."""
    device: str = ""
    answer: str = ""
    tool_called: bool = False
    load_seconds: float = 0.0
    answer_seconds: float = 0.0


def probe(backend: str, seconds: float) -> Finding:
    """Try a backend in a child process, which is killed after ``seconds``."""
    root = Path(__file__).resolve().parents[3]
    # -P and the path at the end: a file named json.py in the user's directory must not pass for Python's own.
    start = f"import sys; sys.path.append({str(root)!r}); from {__name__} import child; child({backend!r})"
    try:
        run = subprocess.run(
            [sys.executable, "-P", "-c", start],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        return Finding(False, f"it took longer than {seconds:g} s, {DOING[_stage(late.stdout or b'')]}")
    return understand(run.returncode, run.stdout, run.stderr)


def understand(code: int, out: bytes, err: bytes) -> Finding:
    """Interpret the child's exit code and output."""
    for line in reversed(_lines(out)):
        if "found" in line:
            return Finding(**line["found"])
    doing = DOING[_stage(out)]
    if code < 0:
        return Finding(False, f"its process was killed by {signal_name(-code)} while {doing}")
    said = err.decode("utf-8", "replace").strip().splitlines()
    return Finding(False, f"its process ended with code {code} while {doing}{': ' + said[-1] if said else ''}")


def _lines(out: bytes) -> list[dict[str, Any]]:
    found = []
    for line in out.decode("utf-8", "replace").splitlines():
        try:
            value = json.loads(line)
        except ValueError:  # native code prints to stdout as it likes
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


def _stage(out: bytes) -> Stage:
    return cast("Stage", next((line["stage"] for line in reversed(_lines(out)) if "stage" in line), "import"))


def child(backend: Literal["llama", "mlx"]) -> None:
    """Run the test in the child process and print the finding. Exceptions become a finding too."""
    try:
        found: dict[str, Any] = _try(backend)
    except Exception as error:
        message = shown_name(str(error), LONGEST_LINE)
        found = {"works": False, "problem": message if " " in message else f"{type(error).__name__}: {message}"}
    _print_json({"found": found})


def _try(backend: Literal["llama", "mlx"]) -> dict[str, Any]:
    _print_json({"stage": "import"})
    from interpreters.agents.agent import Agent
    from interpreters.toolbox import standard_tools
    from runtime import load_model
    from runtime.models.specs import device_of

    device = device_of(backend)
    _print_json({"stage": "load"})
    begun = time.monotonic()
    model = load_model(backend=backend)
    loaded = time.monotonic()
    _print_json({"stage": "answer"})
    with (
        model,
        tempfile.TemporaryDirectory() as empty,
        Agent(model, tools=standard_tools(Path(empty))) as agent,
    ):
        result = agent.run(QUESTION)
    answered = time.monotonic()
    text = shown_name(result.text)
    right = result.ok and ANSWER in text
    return {
        "works": right,
        "problem": "" if right else f"asked {QUESTION!r}, it answered {text or shown_name(str(result.outcome))!r}",
        "device": device,
        "answer": text,
        "tool_called": bool(result.calls),
        "load_seconds": loaded - begun,
        "answer_seconds": answered - loaded,
    }


def _print_json(value: dict[str, Any]) -> None:
    # Straight to the descriptor: what stands in a buffer when native code crashes is lost.
    os.write(1, (json.dumps(value) + "\n").encode())
