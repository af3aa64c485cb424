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

OF_THE_KERNEL = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi")
"""What in ``/proc`` sets something of the whole machine. The kernel lets root write there by its number alone, whatever
it may otherwise: one line in ``/proc/sys/kernel/core_pattern`` runs a program outside."""

LINGERING = """exec 3>&2 2>/dev/null; "$@" 2>&3 3>&-; code=$?; n=0
while set -- /proc/[0-9]*; [ $# -gt 2 ] && [ $n -lt 25 ]; do n=$((n+1)); sleep 0.02; done
left=; for one; do [ ${one#/proc/} -gt 2 ] && left="$left $(cat $one/comm)"; done
rest="run in the background what is to go on after its command"
[ -z "$left" ] || echo "[what it left running was ended:$left; $rest]"
exit $code"""
"""Runs the command, and gives what it has left half a second to end by itself, as the keeper does of what is not
confined: a sandbox ends with its first process, and ``command > >(tee file)`` would lose what was printed. Beside there
are two processes: bubblewrap's own, and this one."""

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
            f"{_mending(root)}choose 'off' and let somebody look at each command"
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
        return (), f"{program} doesn't run: {shown_name(str(error))}"
    if run.returncode:
        said = run.stderr.decode("utf-8", "replace").strip().splitlines() or [f"it ended with {run.returncode}"]
        return (), f"{program} doesn't work: {shown_name(said[-1])}"
    return words, ""


def _mending(root: Path) -> str:
    """What can be done beside choosing another way."""
    if root == Path("/"):
        return "choose a directory within, or "
    if bubblewrap() is None:
        return "install bubblewrap, or "
    # Of the system's settings: user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns and others.
    return "let this user make namespaces (user.max_user_namespaces and what else the system has for it), or "


def bubblewrap() -> str | None:
    """Where ``bwrap`` is."""
    return shutil.which("bwrap", path=starting.environment().get("PATH", USUAL_PATH))


def options(root: Path, readable: Sequence[Path] = ()) -> tuple[str, ...]:
    """What ``bwrap`` is told: nothing is there but what is named, and nothing of the network."""
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
    """Whether ``Bash`` can run here, and what is to be said of that and of the sandbox, on one line."""
    shell = shell_program() if os.name == "posix" else None
    if shell is None:
        return False, "there is neither bash nor sh on the path, which the tool Bash needs"
    with tempfile.TemporaryDirectory() as empty:
        found = confinement("auto", Path(empty).resolve(), shell)
    if found.confined:
        return True, f"{shell.path}; commands can be confined by {found.words[0]}"
    return True, f"{shell.path}; commands can't be confined: {found.why_not}"
