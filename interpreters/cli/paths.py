"""Where the command keeps what is its own: one directory of the user's, made when something is written into it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path


def state_directory(environment: Mapping[str, str] | None = None, platform: str = sys.platform) -> Path:
    """The directory for the chat's history of lines. Nothing is created here.

    By the XDG Base Directory Specification ``$XDG_STATE_HOME/cogstep``, by default ``~/.local/state/cogstep``; on macOS
    ``~/Library/Application Support/cogstep`` where that variable is not set.
    """
    environment = os.environ if environment is None else environment
    chosen = environment.get("XDG_STATE_HOME", "")
    if os.path.isabs(chosen):  # the specification: relative paths are to be ignored
        return Path(chosen, "cogstep")
    home = Path(environment.get("HOME") or "~").expanduser()
    if platform == "darwin":
        return home / "Library" / "Application Support" / "cogstep"
    return home / ".local" / "state" / "cogstep"


def nearest_existing(path: Path) -> Path:
    """The path itself or the first directory above it that is there: where creating it would begin."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path
