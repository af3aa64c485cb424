"""What has to be known of a program to have its replies: a value, of which there is one for each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import frozen

from cognition import Failure, GenerationOptions, ModelRequest
from runtime.programs.events import EventReader
from runtime.programs.options import ProgramOptions


@frozen
class Program:
    """One of the programs; ``claude.CLAUDE`` and ``codex.CODEX``. ``Any`` stands for the options of its own class."""

    name: str
    """By which it is looked for on ``PATH``, and by which models are named."""
    options: type[ProgramOptions]
    install: str
    """How it is installed and signed in, as the end of a sentence."""
    sign_in: str
    """What to do where it is not signed in."""
    variables: tuple[str, ...]
    """Names of variables of the user's environment that it gets."""
    heeded: frozenset[str]
    """Options of a request that it has a place for."""
    takes_system: bool
    """Whether it takes a system prompt; otherwise that stands in its prompt."""
    forks: bool
    """Whether going on with a session leaves that session as it was."""
    arguments: Callable[[ModelRequest, Any, str, Path, str], list[str]]
    files_for: Callable[[ModelRequest, Any], dict[str, str]]
    settings: Callable[[GenerationOptions], dict[str, str]]
    refusal: Callable[[ModelRequest], Failure | None]
    reader: Callable[[Any, bool], EventReader]
    """Of its options, and of whether a schema is asked for."""
