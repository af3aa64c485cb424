"""What a session is offered where nobody says it, and the words that stand for several of cogstep's tools."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from cognition.features import Feature
from interpreters.cli.terminal import err

if TYPE_CHECKING:
    from interpreters.recording.recorder import Where

READING = ("Read", "Glob", "Grep")
EDITING = ("Write", "Edit", "MultiEdit", "Patch")
SHELL = ("Bash", "BashOutput", "KillShell")
"""They run whatever the model writes."""
READ_ON = "ReadOutput"
"""It reads on in the results of the session's own recording."""

GROUPS: Mapping[str, tuple[str, ...]] = {
    "standard": ("calculate", "current_time", *READING),
    "files": (*READING, *EDITING),
    "shell": SHELL,
}
"""What a word stands for that names several tools; and there is ``ALL``."""
ALL = "all"
"""The word for all of cogstep's tools that this machine and this session have a place for."""

IN_A_CHAT: tuple[Feature, ...] = ("questions", "tasks", "plan")
ALONE: tuple[Feature, ...] = ("tasks",)
"""Of these, what needs nobody's answer."""


def is_shipped(model: str | None) -> bool:
    """Whether ``--model`` is the small model that ships. It knows five tools, in one order and in their short form, and
    nothing else.
    """
    if model is None:
        return True
    if model.startswith("hf:"):
        return False
    from runtime.models.specs import SMALL_MODEL

    try:
        return Path(model).expanduser().resolve().is_relative_to(SMALL_MODEL.resolve())
    except (OSError, RuntimeError, ValueError):  # a loop of links, a home that is nobody's, a NUL
        return False


def offers_all(options: argparse.Namespace) -> bool:
    """Whether a new session gets what people run agents for: nobody has said which tools there are, and the model is
    another one than the shipped one.
    """
    said = options.no_tools or options.tools is not None or options.agent is not None
    return not said and not is_shipped(options.model)


def usual_features(options: argparse.Namespace) -> tuple[Feature, ...]:
    """The features of a new session that is offered all: those of a chat, and with nobody at the terminal none that
    waits for an answer.
    """
    if options.command != "chat":
        return ()
    return IN_A_CHAT if somebody_is_here(options) else ALONE


def somebody_is_here(options: argparse.Namespace) -> bool:
    """Whether somebody reads the output of a command and types at its terminal."""
    return not options.json and sys.stdin.isatty() and err().is_terminal


def meant_by(names: Iterable[str], recording: Where | None) -> tuple[str, ...]:
    """The names with those in the place of a word that the word stands for."""
    found: list[str] = []
    for name in names:
        found += _all_there_are(recording) if name == ALL else GROUPS.get(name, (name,))
    return tuple(dict.fromkeys(found))


def _all_there_are(recording: Where | None) -> list[str]:
    from interpreters.toolbox.shell.surroundings import shell_program

    shell = SHELL if shell_program() is not None else ()
    return [*GROUPS["standard"], *EDITING, *shell, *([] if recording is None else [READ_ON])]
