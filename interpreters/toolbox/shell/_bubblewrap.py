"""The sandbox of Linux with bubblewrap (``bwrap``): namespaces in which only the paths of a profile exist."""

from __future__ import annotations

import marshal
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from cognition import ConfigError
from interpreters.toolbox.shell import _bubblewrap_start as start, _system_calls as system_calls
from interpreters.toolbox.shell._profile import NETWORK, SYSTEM, SandboxProfile
from interpreters.toolbox.shell._seccomp import Filter
from interpreters.toolbox.shell.environment import ShellProgram
from runtime.children import in_memory
from runtime.children.start import find_program

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

GATE = f"""echo >&{start.READY}; read -r go <&{start.GO} || exit 126; exec {start.READY}>&- {start.GO}<&-
"""
"""Waits until ``_bubblewrap_start`` has covered the paths."""

CODE = in_memory.code_of(start)

MOST = 20_000
"""Mounts in one sandbox: the kernel has a limit, too, and each takes time."""


def program(avoided: Sequence[Path] = ()) -> str | None:
    """Return the path of ``bwrap``, without links; None if it is not installed.

    Args:
        avoided: folders that it is not taken from.
    """
    found = find_program("bwrap", avoided)
    return None if found is None else os.path.realpath(found)


def words(
    program: str,
    profile: SandboxProfile,
    shell: ShellProgram,
    own: Sequence[Path],
    environ: Mapping[str, str],
    *,
    trial: bool = False,
) -> tuple[str, ...]:
    """Return the words before a command.

    Args:
        program: the path of ``bwrap``.
        profile: the limits of the command.
        shell: runs in the sandbox and waits for what the command leaves running.
        own: files and folders of this program below the root: they can't be changed.
        environ: variables that only the command has.
        trial: whether a path is covered in any case, to try that. A frozen program can't.

    Raises:
        ConfigError: the profile can't be enforced here.
    """
    steps = covers(profile, own)
    if trial and in_memory.is_possible(CODE):
        steps[Path("/tmp")] = "pin"
    if steps and not in_memory.is_possible(CODE):
        raise ConfigError(
            "this program has no Python of its own that could protect the paths that a command may not use"
        )
    given = [*options(profile), *(word for name, value in environ.items() for word in ("--setenv", name, value))]
    found = [program, "--args", in_memory.Input(b"".join(os.fsencode(one) + b"\0" for one in given))]
    if system_calls.machine() >= 0:
        found += ["--seccomp", in_memory.Input(Filter().build_small(network=profile.network))]
    found += ["--", *shell.words((GATE if steps else "") + LINGERING), "sh"]
    if not steps:
        return tuple(found)
    plan = marshal.dumps((os.fsencode(profile.root), [(how, os.fsencode(path)) for path, how in steps.items()]))
    return (*in_memory.words(CODE), in_memory.Input(plan), *found)


def options(profile: SandboxProfile) -> tuple[str, ...]:
    """Return the options of ``bwrap``: only the profile's paths exist. Those of ``covers`` are not yet denied."""
    found = ["--unshare-all", "--die-with-parent", "--new-session", "--proc", "/proc", "--dev", "/dev"]
    found += ["--tmpfs", "/tmp"]
    if os.geteuid() == 0:  # bwrap takes the rights of nobody else by itself, with which what is mounted can be changed
        found += ["--cap-drop", "ALL"]
        for name in OF_THE_KERNEL:
            found += ["--ro-bind-try", f"/proc/{name}", f"/proc/{name}"]
    for place in SYSTEM:
        found += ["--ro-bind-try", place, place]
    if profile.network:
        found += ["--share-net"]
        for place in NETWORK:
            found += ["--ro-bind-try", os.path.realpath(place), place]
    for folder in profile.readable:
        if not folder.is_relative_to(profile.root):
            found += ["--ro-bind", str(folder), str(folder)]
    root = str(profile.root)
    found += ["--bind", root, root]
    for path in (*profile.hidden, *profile.programs):
        for covered in _system_names(path, profile):
            if not covered.is_relative_to(profile.root):
                found += _hide(covered)
    return (*found, "--remount-ro", "/", "--chdir", root)


def covers(profile: SandboxProfile, own: Sequence[Path] = ()) -> dict[Path, str]:
    """Return what is mounted on paths of the root and of readable folders: nothing that can be used (``hide``), or what
    is there, without the right to write (``fix``). A directory above such a path in the root is mounted on itself
    (``pin``), since one that is a mount can't be moved or replaced.

    Raises:
        ConfigError: these are too many.
    """
    found: dict[Path, str] = {}
    for path in (*own, *profile.readable, *profile.read_only):
        if path != profile.root and path.is_relative_to(profile.root):
            found[path] = "fix"
    found |= {path: "hide" for path in (*profile.hidden, *profile.programs) if _is_own(path, profile)}
    for path in list(found):
        for above in path.parents:
            if above == profile.root or not above.is_relative_to(profile.root):
                break
            found.setdefault(above, "pin")
    if len(found) > MOST:
        raise ConfigError(f"rules deny paths in {len(found):,} files and folders, and {MOST:,} are possible")
    return found


def _is_own(path: Path, profile: SandboxProfile) -> bool:
    return any(path.is_relative_to(folder) for folder in (profile.root, *profile.readable))


def _hide(path: Path) -> list[str]:
    """Mount something over a path: an empty directory that can't be changed, or a file that can't be opened."""
    if path.is_dir():
        return ["--tmpfs", str(path), "--remount-ro", str(path)]
    return ["--ro-bind", "/dev/null", str(path)]  # not a device in the sandbox, and so permitted to nobody


def _system_names(path: Path, profile: SandboxProfile) -> list[Path]:
    """Return every path under which a file of the system exists in the sandbox: ``/bin`` may be a link to ``/usr/bin``.
    For a directory that holds such files and is not there itself, these.
    """
    found: dict[Path, None] = {}
    for place in (*SYSTEM, *(NETWORK if profile.network else ())):
        real = Path(os.path.realpath(place))
        if path.is_relative_to(real):
            found[Path(place, path.relative_to(real))] = None
        elif real.is_relative_to(path) and real.exists():
            found[Path(place)] = None
    return list(found)
