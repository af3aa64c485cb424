"""Confine commands to their directory: with bubblewrap or Landlock on Linux, with Seatbelt on macOS."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

from attrs import frozen

from cognition import ConfigError
from cognition.base.display import shown_name
from interpreters.toolbox.shell import _bubblewrap, _landlock, _seatbelt
from interpreters.toolbox.shell._profile import SandboxProfile
from interpreters.toolbox.shell.environment import ShellProgram, shell_program
from runtime.children import start as starting

Wall = Literal["bubblewrap", "landlock", "seatbelt"]
Choice = Literal["auto", "required", "off", "bubblewrap", "landlock", "seatbelt"]
WALLS: tuple[Wall, ...] = get_args(Wall)
"""The best first: each works on some systems only."""

TRY_SECONDS = 20.0
"""Seconds for the first confined command, an empty test."""

ADVICE: Mapping[Wall, str] = {
    "bubblewrap": "let this user make namespaces (user.max_user_namespaces and what else the system has for it)",
    "landlock": "use a Linux kernel of 6.2 or later with Landlock, or install bubblewrap",
    "seatbelt": "use macOS with sandbox-exec",
}


@frozen
class Sandbox:
    """What confines the commands of one shell."""

    wall: Wall | None = None
    """None if commands are not confined."""
    why_not: str = ""
    """The reason if commands are not confined though that was requested."""
    required: bool = False
    """Whether a rule that it can't enforce is a reason not to run a command."""
    temporary: Path = Path("/tmp")
    """The commands' directory for temporary files, and their home."""
    _program: str = ""
    """The path of ``bwrap``: should it vanish, commands can't start."""
    _lingering: tuple[str, ...] = ()
    """The words of the shell that waits in the sandbox for what a command leaves running."""

    @property
    def confined(self) -> bool:
        return self.wall is not None

    def describe(self) -> str:
        """Return a phrase for the user."""
        if self.wall is not None:
            return f"commands confined by {self.wall}"
        return f"commands not confined{': ' + self.why_not if self.why_not else ''}"

    def words(self, profile: SandboxProfile) -> tuple[str, ...]:
        """Return the words before a command that confine it; empty without a sandbox."""
        if self.wall == "bubblewrap":
            return (self._program, *_bubblewrap.options(profile), "--", *self._lingering)
        if self.wall == "landlock":
            return _landlock.words(profile, self.temporary)
        return () if self.wall is None else _seatbelt.words(profile, self.temporary)

    def not_held(self, profile: SandboxProfile) -> tuple[Path, ...]:
        """Return the denied paths that it can't protect."""
        return _landlock.not_held(profile) if self.wall == "landlock" else ()

    def closed(self, profile: SandboxProfile) -> tuple[Path, ...]:
        """Return the directories in which a command can make no new files, since something in them is denied."""
        return _landlock.closed_directories(profile) if self.wall == "landlock" else ()

    @property
    def environment(self) -> dict[str, str]:
        """Variables whose directories do not exist in a sandbox, with others in their place."""
        return {name: str(self.temporary) for name in ("HOME", "TMPDIR")} if self.confined else {}


def choose_sandbox(
    choice: Choice, root: Path, shell: ShellProgram, readable: Sequence[Path] = (), environ: Mapping[str, str] = {}
) -> Sandbox:
    """Decide how to confine the commands of a directory. Tests it once, here.

    Args:
        choice: ``off`` for no sandbox, ``auto`` for a sandbox if possible, ``required`` for always, or the name of one
            that is required.
        root: the only directory that commands may write in.
        shell: the shell that runs them.
        readable: further directories that they may read.
        environ: their environment variables.

    Raises:
        ConfigError: a sandbox is required, but not possible here.
    """
    if choice == "off":
        return Sandbox()
    problems, advice = [], ""
    if root == Path("/"):
        problems, advice = ["the working directory is /, which holds everything"], "choose a directory within"
    else:
        for wall in [wall for wall in WALLS if choice in ("auto", "required", wall)]:
            profile = SandboxProfile(root, tuple(readable))
            made, problem, advised = _try_wall(wall, profile, shell, environ, required=choice != "auto")
            if made is not None:
                return made
            problems.append(problem)
            advice = advice or advised
    why_not = "; ".join(problems)
    if choice != "auto":
        raise ConfigError(
            f"sandbox={choice!r}, and commands can't be confined here: {why_not}; "
            f"{advice}, or choose 'off' and let somebody look at each command"
        )
    return Sandbox(None, why_not)


def _try_wall(
    wall: Wall, profile: SandboxProfile, shell: ShellProgram, environ: Mapping[str, str], *, required: bool
) -> tuple[Sandbox | None, str, str]:
    """Return the sandbox; or None, the reason, and an advice."""
    problem, advice = _find_problem(wall)
    if problem:
        return None, problem, advice
    if wall == "bubblewrap":
        lingering = (*shell.words(_bubblewrap.LINGERING), "sh")
        made = Sandbox(wall, required=required, program=_bubblewrap.program() or "bwrap", lingering=lingering)
    else:
        temporary = Path(tempfile.mkdtemp(prefix="cogstep-sandbox-")).resolve()
        made = Sandbox(wall, required=required, temporary=temporary)
        weakref.finalize(made, _remove, temporary, os.getpid())
    words = made.words(profile)
    try:
        run = subprocess.run(
            [*words, *shell.words("exit 0")],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TRY_SECONDS,
            check=False,
            cwd=profile.root,
            env={**starting.environment(), **environ, **made.environment},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, f"{words[0]} doesn't run: {shown_name(str(error))}", ADVICE[wall]
    if run.returncode:
        said = run.stderr.decode("utf-8", "replace").strip().splitlines() or [f"it ended with {run.returncode}"]
        return None, f"{words[0]} doesn't work: {shown_name(said[-1])}", ADVICE[wall]
    return made, "", ""


def _remove(folder: Path, process: int) -> None:
    """Delete a folder, unless this is a process that was forked off."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def _find_problem(wall: Wall) -> tuple[str, str]:
    """Return why a sandbox can't be had, and an advice; empty if it may work."""
    if wall == "bubblewrap":
        return ("", "") if _bubblewrap.program() else ("there is no bwrap on the path", "install bubblewrap")
    if wall == "landlock":
        problem = _landlock.problem()
    else:
        problem = "" if sys.platform == "darwin" else "Seatbelt is a part of macOS"
    return problem, ADVICE[wall]


def shell_report() -> tuple[bool, str]:
    """Return whether ``Bash`` can run here, and one line about the shell and the sandbox."""
    shell = shell_program() if os.name == "posix" else None
    if shell is None:
        return False, "there is neither bash nor sh on the path, which the tool Bash needs"
    with tempfile.TemporaryDirectory() as empty:
        found = choose_sandbox("auto", Path(empty).resolve(), shell)
    remark = _landlock.remark() if found.wall == "landlock" else ""
    return True, "; ".join(filter(None, (shell.path, found.describe(), remark)))
