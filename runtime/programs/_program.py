"""The description of a program as a model: one value per program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import frozen

from cognition import Failure, GenerationOptions, ModelRequest
from runtime.programs._events import EventReader
from runtime.programs.options import ProgramOptions


@frozen
class Program:
    """One of the programs: ``claude.CLAUDE`` or ``codex.CODEX``. ``Any`` represents its own options class."""

    name: str
    """The command on ``PATH``, and the name in model specs."""
    options: type[ProgramOptions]
    install: str
    """How to install it and sign in, as the end of a sentence."""
    sign_in: str
    """How to sign in."""
    variables: tuple[str, ...]
    """Names of user environment variables that it receives."""
    takes_system: bool
    """Whether it accepts a system prompt; otherwise the prompt includes it."""
    forks: bool
    """Whether continuing a session leaves the old session unchanged."""
    arguments: Callable[[ModelRequest, Any, str, Path, str], list[str]]
    files_for: Callable[[ModelRequest, Any], dict[str, str]]
    reader: Callable[[Any, bool], EventReader]
    """Called with its options, and with whether the request has a schema."""
    heeded: frozenset[str] = frozenset()
    """Request options that it supports."""
    reports_costs: bool = False
    """Whether it reports the cost of a reply."""
    settings: Callable[[GenerationOptions], dict[str, str]] = lambda _options: {}
    refusal: Callable[[ModelRequest], Failure | None] = lambda _request: None
