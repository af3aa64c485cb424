"""Confine commands on Linux without namespaces: with Landlock, seccomp, and a small program before each command
(``_landlock_start.py``).

Landlock can only grant, for a file or for a directory with all that is below it. So it differs from bubblewrap:

- **Denied paths below a granted directory** hold, since each entry beside them is granted instead of the directory.
  A command can then make no new files in this directory and in those between it and the denied path
  (``closed_directories``). It can change the files there, make files in other directories, and, if only files are
  denied, make directories and move them there. The next command can use these.
- **Sizes, times and attributes** of other files can be read by a command that knows their path (``stat``, ``readlink``,
  ``getxattr``), also of hidden ones. Contents and listings can't be read. So a program finds that a file outside
  exists, and gets "Permission denied" for it.
- **Other processes** can be listed with their command lines (``/proc``). Their environment, memory and files can't be
  read, and they can't be traced. Since Linux 6.12 they receive no signals (``remark``).
- **Sockets that are files** can't be used at all, not even with ``network`` or within ``root``. Without ``network`` no
  local server can be started either.
- **Shared memory** (``/dev/shm``, System V) and terminals can't be made. So locks of Python's ``multiprocessing`` and
  its process pools fail with "Permission denied".
- Nested namespaces, io_uring, extended attributes and changes of other processes' priorities are refused.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from cognition import ConfigError
from interpreters.toolbox.shell import (
    _broker,
    _landlock_start as start,
    _limits,
    _seccomp,
    _system_calls as system_calls,
)
from interpreters.toolbox.shell._profile import NETWORK, SYSTEM, SandboxProfile
from runtime.children import in_memory

CODE = in_memory.code_of(system_calls, _limits, _broker, _seccomp, start)

ALSO = (
    # Programs fail if a file of theirs exists and can't be read.
    "/etc/perl", "/etc/python3", f"/etc/python{sys.version_info[0]}.{sys.version_info[1]}", "/etc/inputrc",
    "/etc/terminfo", "/etc/services", "/etc/protocols", "/etc/mime.types", "/etc/magic", "/etc/fonts", "/etc/timezone",
    "/etc/lsb-release", "/etc/manpath.config",
)  # fmt: skip
"""Paths that a command may read beside those of all sandboxes. Where others have no such file, here it exists."""
ALSO_FOR_NETWORK = ("/etc/ca-certificates", "/etc/ca-certificates.conf", "/etc/ssh/ssh_config", "/etc/ssh/ssh_config.d")

TRY_SECONDS = 20.0
"""Seconds for the first confined process, which tries its limits."""

PROGRAM_FOLDERS = ("/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/usr/games", "/usr/libexec",
                   "/usr/lib/git-core", "/usr/libexec/git-core")  # fmt: skip
"""Directories that are searched for further names (hard links) of denied programs."""


def problem(root: Path | None = None) -> str:
    """Return why commands can't be confined here, in plain words; empty if they can. Starts a process to try it.

    Args:
        root: the working directory of the commands. They could change a Python in it, which confines them.
    """
    if sys.platform != "linux":
        return "Landlock is a part of Linux"
    if system_calls.machine() < 0:
        return f"the system calls of this machine ({os.uname().machine}) are not known; known are x86_64 and aarch64"
    if not in_memory.is_possible(CODE):
        return "this program has no Python of its own that could confine a command"
    if root is not None:
        for part in (in_memory.PYTHON, os.__file__):
            if Path(os.path.realpath(part)).is_relative_to(root):
                return f"commands could change the Python that confines them, since {part} lies in their directory"
    abi = start.landlock_abi()
    if not abi:
        return "this kernel has no Landlock, or it is switched off"
    if abi < start.NEEDED_ABI:
        return f"Landlock has version {abi} in this kernel, and version {start.NEEDED_ABI} is needed (Linux 6.2)"
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder).resolve()
        try:
            with in_memory.opened(words(SandboxProfile(place), place)) as (command, descriptors):
                run = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=TRY_SECONDS,
                    check=False,
                    pass_fds=descriptors,
                )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"a confined process can't be started: {error}"
    if run.returncode:
        said = run.stderr.decode("utf-8", "replace").strip().splitlines()
        return said[-1] if said else f"a confined process ended with {run.returncode}"
    return ""


def remark() -> str:
    """Return a limit of this kernel's Landlock, in plain words; empty for a newer kernel."""
    if start.landlock_abi() < start.ABI_OF_SCOPES:
        return "a command can send signals to this user's other processes, since that is limited only by Linux 6.12"
    return ""


def words(profile: SandboxProfile, temporary: Path, environ: Mapping[str, str] = {}) -> tuple[str, ...]:
    """Return the words before a command. Without a command, they try the limits.

    Args:
        profile: the limits of the command.
        temporary: a private directory for it, a resolved path.
        environ: variables that only the command has.

    Raises:
        ConfigError: the profile hides ``root`` or ``temporary`` itself.
    """
    for place in (profile.root, temporary):
        for denied in (*profile.hidden, *profile.programs, *profile.read_only):
            if place.is_relative_to(denied):
                raise ConfigError(f"{denied} can't be denied, since commands work in {place}")
    found = [f"root={profile.root}", f"temporary={temporary}"]
    system = (*SYSTEM, *ALSO, *((*NETWORK, *ALSO_FOR_NETWORK) if profile.network else ()))
    named: tuple[tuple[str, Sequence[str | Path]], ...] = (
        ("readable", system),
        ("folder", profile.readable),
        ("hidden", profile.hidden),
        ("read_only", profile.read_only),
        ("program", (*profile.programs, *_other_names(profile.programs))),
    )
    for name, paths in named:
        found += [f"{name}={path}" for path in paths]
    found += [f"environ={name}={value}" for name, value in environ.items()]
    found += ["network=1"] if profile.network else []
    return (*in_memory.words(CODE), in_memory.Input(b"\0".join(map(os.fsencode, found))))


def not_held(profile: SandboxProfile) -> tuple[Path, ...]:
    """Return denied files that a command may reach by another name.

    Such a file has a hard link that is neither denied nor, for a program, in the usual directories of programs. A right
    to the directory of this link is a right to the file. Files within a hidden directory are not examined. Everything
    else in a profile holds.
    """
    denied = (*profile.hidden, *profile.read_only, *profile.programs)
    known = {path for path in (*denied, *_other_names(profile.programs)) if path.is_file()}
    names: dict[tuple[int, int], int] = {}
    for path in known:
        if (identity := _identity(path)) is not None:
            names[identity] = names.get(identity, 0) + 1
    return tuple(
        path for path in denied if path in known and _link_count(path) > names.get(_identity(path) or (0, 0), 0)
    )


def closed_directories(profile: SandboxProfile) -> tuple[Path, ...]:
    """Return the directories where a command can make no new files: ``root`` and those below, above a denied path."""
    found = {
        parent
        for path in (*profile.hidden, *profile.read_only, *profile.programs)
        for parent in path.parents
        if parent.is_relative_to(profile.root)
    }
    return tuple(sorted(found))


def _other_names(programs: Sequence[Path]) -> list[Path]:
    """Return the hard links of programs in the usual directories."""
    wanted = {_identity(path) for path in programs if _link_count(path) > 1}
    if not wanted:
        return []
    return [path for path in _programs() if path not in programs and _identity(path) in wanted]


def _programs() -> Iterator[Path]:
    for name in dict.fromkeys(os.path.realpath(folder) for folder in PROGRAM_FOLDERS):
        try:
            yield from Path(name).iterdir()
        except OSError:
            continue


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _link_count(path: Path) -> int:
    try:
        return path.lstat().st_nlink
    except OSError:
        return 0
