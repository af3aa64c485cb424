"""Confine commands to their directory with bubblewrap (``bwrap``), if it is installed and usable."""

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
from cognition.base.display import shown_name
from interpreters.toolbox.shell.environment import USUAL_PATH, ShellProgram, shell_program
from runtime.children import start as starting

Choice = Literal["auto", "required", "off"]

SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store",
    "/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/passwd", "/etc/group",
    "/etc/nsswitch.conf", "/etc/localtime", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs",
)  # fmt: skip
"""Paths of the system that a confined command may read beside its directory."""

OF_THE_KERNEL = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi")
"""Entries in ``/proc`` that configure the whole machine. The kernel lets the root user write there even without
capabilities: one line in ``/proc/sys/kernel/core_pattern`` runs a program outside of the sandbox.
"""

LINGERING = """exec 3>&2 2>/dev/null; "$@" 2>&3 3>&-; code=$?; n=0
while set -- /proc/[0-9]*; [ $# -gt 2 ] && [ $n -lt 25 ]; do n=$((n+1)); sleep 0.02; done
left=; for one; do [ ${one#/proc/} -gt 2 ] && left="$left $(cat $one/comm)"; done
rest="run in the background what is to go on after its command"
[ -z "$left" ] || echo "[what it left running was ended:$left; $rest]"
exit $code"""
"""Runs the command, then gives its remaining processes half a second to end, as the keeper does outside of a sandbox. A
sandbox ends with its first process, so without this ``command > >(tee file)`` would lose output. Two further processes
are always there: bubblewrap's own, and this shell.
"""

TRY_SECONDS = 20.0
"""Seconds for the first confined command, an empty test."""

ELSEWHERE = {"HOME": "/tmp", "TMPDIR": "/tmp"}
"""Replaces variables whose directories do not exist in a sandbox."""


@frozen
class Confinement:
    """How commands are confined."""

    words: tuple[str, ...] = ()
    """The words before a command; empty if it is not confined."""
    why_not: str = ""
    """The reason if commands are not confined though that was requested."""

    @property
    def confined(self) -> bool:
        return bool(self.words)


def confinement(
    choice: Choice, root: Path, shell: ShellProgram, readable: Sequence[Path] = (), environ: Mapping[str, str] = {}
) -> Confinement:
    """Decide how to confine the commands of a directory. Tests it once, here.

    Args:
        choice: ``off`` for no sandbox, ``auto`` for a sandbox if possible, ``required`` for always.
        root: the only directory that commands may write in.
        shell: the shell that runs them.
        readable: further directories that they may read.
        environ: their environment variables.

    Raises:
        ConfigError: a sandbox is required, but not possible here.
    """
    if choice == "off":
        return Confinement()
    words, problem, advice = _try_confining(root, shell, readable, environ)
    if problem and choice == "required":
        raise ConfigError(
            f"sandbox='required', and commands can't be confined here: {problem}; "
            f"{advice}, or choose 'off' and let somebody look at each command"
        )
    return Confinement(words, problem)


def _try_confining(
    root: Path, shell: ShellProgram, readable: Sequence[Path], environ: Mapping[str, str]
) -> tuple[tuple[str, ...], str, str]:
    """Return the words that confine a command; or none, the reason, and an advice."""
    if root == Path("/"):
        return (), "the working directory is /, which holds everything", "choose a directory within"
    program = shutil.which("bwrap", path=starting.environment().get("PATH", USUAL_PATH))
    if program is None:
        return (), "there is no bwrap on the path", "install bubblewrap"
    # Of the system's settings: user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns and others.
    advice = "let this user make namespaces (user.max_user_namespaces and what else the system has for it)"
    words = (program, *options(root, readable), "--", *shell.words(LINGERING), "sh")
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
        return (), f"{program} doesn't run: {shown_name(str(error))}", advice
    if run.returncode:
        said = run.stderr.decode("utf-8", "replace").strip().splitlines() or [f"it ended with {run.returncode}"]
        return (), f"{program} doesn't work: {shown_name(said[-1])}", advice
    return words, "", ""


def options(root: Path, readable: Sequence[Path] = ()) -> tuple[str, ...]:
    """Return the options of ``bwrap``: only the listed paths exist, and there is no network."""
    found = ["--unshare-all", "--die-with-parent", "--new-session", "--proc", "/proc", "--dev", "/dev"]
    found += ["--tmpfs", "/tmp"]
    if os.geteuid() == 0:  # bwrap takes the rights of nobody else by itself, with which what is mounted can be changed
        found += ["--cap-drop", "ALL"]
        for name in OF_THE_KERNEL:
            found += ["--ro-bind-try", f"/proc/{name}", f"/proc/{name}"]
    for place in SYSTEM:
        found += ["--ro-bind-try", place, place]
    for folder in readable:
        found += ["--ro-bind", str(folder), str(folder)]
    return (*found, "--bind", str(root), str(root), "--remount-ro", "/", "--chdir", str(root))


def shell_report() -> tuple[bool, str]:
    """Return whether ``Bash`` can run here, and one line about the shell and the sandbox."""
    shell = shell_program() if os.name == "posix" else None
    if shell is None:
        return False, "there is neither bash nor sh on the path, which the tool Bash needs"
    with tempfile.TemporaryDirectory() as empty:
        found = confinement("auto", Path(empty).resolve(), shell)
    if found.confined:
        return True, f"{shell.path}; commands can be confined by {found.words[0]}"
    return True, f"{shell.path}; commands can't be confined: {found.why_not}"
