"""The sandbox of Linux with bubblewrap (``bwrap``): namespaces in which only the paths of a profile exist."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from interpreters.toolbox.shell._profile import NETWORK, SYSTEM, SandboxProfile
from interpreters.toolbox.shell.environment import USUAL_PATH
from runtime.children import start as starting

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


def program() -> str | None:
    """Return the path of ``bwrap``; None if it is not installed."""
    return shutil.which("bwrap", path=starting.environment().get("PATH", USUAL_PATH))


def options(profile: SandboxProfile) -> tuple[str, ...]:
    """Return the options of ``bwrap``: only the profile's paths exist."""
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
        found += ["--ro-bind", str(folder), str(folder)]
    root = str(profile.root)
    found += ["--bind", root, root]
    for path in profile.read_only:
        found += ["--ro-bind", str(path), str(path)]
    for path in profile.hidden:
        found += _hide(path)
    for path in profile.programs:
        for covered in _names_of(path, profile):
            found += _hide(covered)
    return (*found, "--remount-ro", "/", "--chdir", root)


def _hide(path: Path) -> list[str]:
    """Mount something over a path: an empty directory that can't be changed, or a file that can't be opened."""
    if path.is_dir():
        return ["--tmpfs", str(path), "--remount-ro", str(path)]
    return ["--ro-bind", "/dev/null", str(path)]  # not a device in the sandbox, and so permitted to nobody


def _names_of(path: Path, profile: SandboxProfile) -> list[Path]:
    """Return every path under which a file exists in the sandbox: ``/bin`` may be a link to ``/usr/bin``."""
    found = [
        Path(place, path.relative_to(real))
        for place in SYSTEM
        if path.is_relative_to(real := Path(os.path.realpath(place))) and real.is_dir()
    ]
    if any(path.is_relative_to(folder) for folder in (profile.root, *profile.readable)):
        found.append(path)
    return list(dict.fromkeys(found))
