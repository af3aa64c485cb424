"""The default tools and features of a session, and the words for groups of cogstep's tools."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from cognition.values.features import Feature
from interpreters.cli.screen.terminal import err

if TYPE_CHECKING:
    from interpreters.recording.recorder import Where

READING = ("Read", "Glob", "Grep")
EDITING = ("Write", "Edit", "MultiEdit", "Patch")
SHELL = ("Bash", "BashOutput", "KillShell")
"""These run any command of the model."""
READ_ON = "ReadOutput"
"""Reads further parts of results from the session's own recording."""

GROUPS: Mapping[str, tuple[str, ...]] = {
    "standard": ("calculate", "current_time", *READING),
    "files": (*READING, *EDITING),
    "shell": SHELL,
}
"""The tools behind each group word; ``ALL`` is another group word."""
ALL = "all"
"""The word for all of cogstep's tools that this machine and session can offer."""

IN_A_CHAT: tuple[Feature, ...] = ("questions", "tasks", "plan")
ALONE: tuple[Feature, ...] = ("tasks",)
"""The part that works without a user."""


def is_shipped(model: str | None) -> bool:
    """Return whether ``--model`` is the small model that ships. It knows only five tools, in one order and in their
    short form.
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
    """Return whether a new session offers all tools: no tool option is set, and the model is not the shipped one."""
    said = options.no_tools or options.tools is not None or options.agent is not None
    return not said and not is_shipped(options.model)


def usual_features(options: argparse.Namespace) -> tuple[Feature, ...]:
    """Return the features of a new session with all tools: those of a chat. Without a user at the terminal, only the
    features that need no answers.
    """
    if options.command != "chat":
        return ()
    return IN_A_CHAT if has_user(options) else ALONE


def has_user(options: argparse.Namespace) -> bool:
    """Return whether a user reads the command's output and can type at its terminal."""
    return not options.json and sys.stdin.isatty() and err().is_terminal


def expand_groups(names: Iterable[str], recording: Where | None) -> tuple[str, ...]:
    """Replace group words by the names of their tools."""
    found: list[str] = []
    for name in names:
        found += _list_all(recording) if name == ALL else GROUPS.get(name, (name,))
    return tuple(dict.fromkeys(found))


def _list_all(recording: Where | None) -> list[str]:
    from interpreters.toolbox.shell.environment import shell_program

    shell = SHELL if shell_program() is not None else ()
    return [*GROUPS["standard"], *EDITING, *shell, *([] if recording is None else [READ_ON])]
