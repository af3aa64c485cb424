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

from attrs import evolve, frozen

from cognition import ConfigError
from cognition.base.display import shown_name
from interpreters.toolbox.shell import _bubblewrap, _landlock, _seatbelt
from interpreters.toolbox.shell._profile import SandboxProfile
from interpreters.toolbox.shell.environment import ShellProgram, environment, shell_program
from runtime.children import in_memory, start as starting

Wall = Literal["bubblewrap", "landlock", "seatbelt"]
Choice = Literal["auto", "required", "off", "bubblewrap", "landlock", "seatbelt"]
WALLS: tuple[Wall, ...] = get_args(Wall)
"""The best first: each works on some systems only."""

PREFIX_PARTS = ("bin", "lib", "lib64", "include", "pyvenv.cfg")
"""What a virtual environment consists of."""

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
    _shell: ShellProgram | None = None
    """The shell that waits in the sandbox for what a command leaves running."""
    _own: tuple[Path, ...] = ()
    """Files and folders of this program below the root."""
    _given: Mapping[str, str] = {}
    """The variables given for commands."""

    @property
    def confined(self) -> bool:
        return self.wall is not None

    def describe(self) -> str:
        """Return a phrase for the user."""
        if self.wall is not None:
            return f"commands confined by {self.wall}"
        return f"commands not confined{': ' + self.why_not if self.why_not else ''}"

    def words(self, profile: SandboxProfile, *, trial: bool = False) -> tuple[str, ...]:
        """Return the words before a command that confine it; empty without a sandbox. A trial uses all that it needs.

        Raises:
            ConfigError: the sandbox can't enforce the profile.
        """
        environ = {name: value for name, value in environment(self._given).items() if starting.is_of_loader(name)}
        if self.wall == "bubblewrap":
            assert self._shell is not None
            return _bubblewrap.words(self._program, profile, self._shell, self._own, environ, trial=trial)
        if self.wall == "landlock":
            return _landlock.words(profile, self.temporary, environ)
        if self.wall is None:
            return ()
        return _seatbelt.words(evolve(profile, read_only=(*profile.read_only, *self._own)), self.temporary)

    def not_held(self, profile: SandboxProfile) -> tuple[Path, ...]:
        """Return the denied paths that it can't protect."""
        return _landlock.not_held(profile) if self.wall == "landlock" else ()

    def closed(self, profile: SandboxProfile) -> tuple[Path, ...]:
        """Return the directories in which a command can make no new files, since something in them is denied."""
        return _landlock.closed_directories(profile) if self.wall == "landlock" else ()

    def environment(self, root: Path) -> dict[str, str]:
        """Return a command's variables: those whose directories do not exist in a sandbox have others. The programs
        that confine it load nothing from its root, so ``words`` sets the variables that would make them.
        """
        found = {**environment(self._given), "PWD": str(root)}
        if not self.confined:
            return found
        if self.wall in ("bubblewrap", "landlock"):
            found = starting.without_loader(found, root)
        return found | {name: str(self.temporary) for name in ("HOME", "TMPDIR")}


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
        return Sandbox(given=dict(environ))
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
    return Sandbox(None, why_not, given=dict(environ))


def _try_wall(
    wall: Wall, profile: SandboxProfile, shell: ShellProgram, environ: Mapping[str, str], *, required: bool
) -> tuple[Sandbox | None, str, str]:
    """Return the sandbox; or None, the reason, and an advice."""
    problem, advice = _find_problem(wall, profile.root)
    if problem:
        return None, problem, advice
    name = (_bubblewrap.program((profile.root,)) or "bwrap") if wall == "bubblewrap" else wall
    if wall == "bubblewrap":
        made = Sandbox(
            wall, required=required, program=name, shell=shell, own=own_files(profile.root), given=dict(environ)
        )
    else:
        temporary = Path(tempfile.mkdtemp(prefix="cogstep-sandbox-")).resolve()
        made = Sandbox(wall, required=required, temporary=temporary, own=own_files(profile.root), given=dict(environ))
        weakref.finalize(made, _remove, temporary, os.getpid())
    try:
        with in_memory.opened((*made.words(profile, trial=True), *shell.words("exit 0"))) as (words, descriptors):
            run = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=TRY_SECONDS,
                check=False,
                cwd=profile.root,
                env=made.environment(profile.root),
                pass_fds=descriptors,
            )
    except (OSError, subprocess.TimeoutExpired, ConfigError) as error:
        return None, f"{name} doesn't run: {shown_name(str(error))}", ADVICE[wall]
    if run.returncode:
        said = run.stderr.decode("utf-8", "replace").strip().splitlines() or [f"it ended with {run.returncode}"]
        return None, f"{name} doesn't work: {shown_name(said[-1])}", ADVICE[wall]
    return made, "", ""


def own_files(root: Path) -> tuple[Path, ...]:
    """Return the files and folders below the root that the running program consists of. A virtual environment is one,
    and so are our packages. A link to one can't be protected.
    """
    prefixes = [
        Path(one) for one in dict.fromkeys((sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix))
    ]
    found = [part for one in prefixes for part in ([one] if one != root else [one / name for name in PREFIX_PARTS])]
    found += [Path(home, name) for home in starting.HOMES for name in starting.OURS]
    found += [Path(one) for one in (sys.executable, in_memory.PYTHON) if one]
    real = {Path(os.path.realpath(one)) for one in found}
    return tuple(sorted(one for one in real if one != root and one.is_relative_to(root) and one.exists()))


def _remove(folder: Path, process: int) -> None:
    """Delete a folder, unless this is a process that was forked off."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def _find_problem(wall: Wall, root: Path) -> tuple[str, str]:
    """Return why a sandbox can't be had, and an advice; empty if it may work."""
    if wall == "bubblewrap":
        if _bubblewrap.program((root,)):
            return "", ""
        outside = " outside of the working directory" if _bubblewrap.program() else ""
        return f"there is no bwrap on the path{outside}", "install bubblewrap"
    if wall == "landlock":
        problem = _landlock.problem(root)
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
