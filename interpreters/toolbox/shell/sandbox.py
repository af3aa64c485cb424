"""Confining commands to their directory, by bubblewrap (``bwrap``), where it is installed and may be used."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from attrs import frozen

from cognition import ConfigError
from cognition.shown import shown_name
from interpreters.toolbox.shell.surroundings import USUAL_PATH, ShellProgram, shell_program
from runtime.children import starting

Choice = Literal["auto", "required", "off"]

SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store",
    "/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/passwd", "/etc/group",
    "/etc/nsswitch.conf", "/etc/localtime", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs",
)  # fmt: skip
"""What a confined command may read of the system beside its directory."""

TRY_SECONDS = 20.0
"""How long the first confined command, which does nothing, may take."""

ELSEWHERE = {"HOME": "/tmp", "TMPDIR": "/tmp"}
"""Variables that name directories which aren't there in a sandbox."""


@frozen
class Confinement:
    """How commands are confined."""

    words: tuple[str, ...] = ()
    """What stands before a command; empty where it is not confined."""
    why_not: str = ""
    """Why it isn't, where that was not asked for."""

    @property
    def confined(self) -> bool:
        return bool(self.words)

    @property
    def variables(self) -> Mapping[str, str]:
        """Those that are another one within."""
        return ELSEWHERE if self.words else {}


def confinement(
    choice: Choice, root: Path, shell: ShellProgram, readable: Sequence[Path] = (), environ: Mapping[str, str] = {}
) -> Confinement:
    """How the commands of a directory are to be confined: tried here, once, and relied on from then on.

    Args:
        choice: ``off`` for not at all, ``auto`` for where it is possible, ``required`` for nothing else.
        root: what they may write in.
        shell: what reads them.
        readable: further directories that they may read.
        environ: the variables that they get.

    Raises:
        ConfigError: it is required and not possible here.
    """
    if choice == "off":
        return Confinement()
    words, problem = _tried(root, shell, readable, environ)
    if problem and choice == "required":
        raise ConfigError(
            f"sandbox='required', and commands can't be confined here: {problem}; "
            "install bubblewrap, or choose 'off' and let somebody look at each command"
        )
    return Confinement(words, problem)


def _tried(
    root: Path, shell: ShellProgram, readable: Sequence[Path], environ: Mapping[str, str]
) -> tuple[tuple[str, ...], str]:
    """The words that confine, or none and why."""
    if root == Path("/"):
        return (), "the working directory is /, which holds everything"
    program = bubblewrap()
    if program is None:
        return (), "there is no bwrap on the path"
    words = (program, *options(root, readable), "--")
    try:
        run = subprocess.run(
            [*words, *shell.words("exit 0")],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TRY_SECONDS,
            check=False,
            env={**starting.environment(), **environ, **ELSEWHERE},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return (), f"{program} doesn't run: {shown_name(str(error))}"
    if run.returncode:
        said = run.stderr.decode("utf-8", "replace").strip().splitlines() or [f"it ended with {run.returncode}"]
        return (), f"{program} doesn't work: {shown_name(said[-1])}"
    return words, ""


def bubblewrap() -> str | None:
    """Where ``bwrap`` is."""
    return shutil.which("bwrap", path=starting.environment().get("PATH", USUAL_PATH))


def options(root: Path, readable: Sequence[Path] = ()) -> tuple[str, ...]:
    """What ``bwrap`` is told: nothing is there but what is named, and nothing of the network."""
    found = ["--unshare-all", "--die-with-parent", "--new-session", "--proc", "/proc", "--dev", "/dev"]
    found += ["--tmpfs", "/tmp"]
    for place in SYSTEM:
        found += ["--ro-bind-try", place, place]
    for folder in readable:
        found += ["--ro-bind", str(folder), str(folder)]
    return (*found, "--bind", str(root), str(root), "--chdir", str(root))


def shell_report() -> tuple[bool, str]:
    """Whether ``Bash`` can run here, and what is to be said of that and of the sandbox, on one line."""
    shell = shell_program() if os.name == "posix" else None
    if shell is None:
        return False, "there is neither bash nor sh on the path, which the tool Bash needs"
    with tempfile.TemporaryDirectory() as empty:
        found = confinement("auto", Path(empty).resolve(), shell)
    if found.confined:
        return True, f"{shell.path}; commands can be confined by {found.words[0]}"
    return True, f"{shell.path}; commands can't be confined: {found.why_not}"
