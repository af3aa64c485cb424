"""Confine commands on macOS with Seatbelt (``sandbox-exec``), which ships with the system.

This module only writes the profile, as text in Seatbelt's language. **It is untried**: these profiles have never run on
a Mac. Their form follows profiles that Apple and others ship.

Of several rules that match, Seatbelt uses the last one. So the text has this order: everything is denied; the needed
parts of the system, the directories and the network are allowed; the denied paths are denied again. Unlike Landlock,
Seatbelt decides by path. So a denied path below ``root`` closes no directory, but a file with a second name (a hard
link) can be reached by that name.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from interpreters.toolbox.shell._profile import SandboxProfile

PROGRAM = "/usr/bin/sandbox-exec"

SYSTEM = (
    "/usr", "/bin", "/sbin", "/System", "/Library/Apple", "/Library/Developer/CommandLineTools", "/Library/Frameworks",
    "/Applications/Xcode.app", "/opt/homebrew", "/opt/local", "/nix/store", "/private/var/db/timezone",
    "/private/var/db/dyld", "/private/var/select", "/private/etc/ssl", "/private/etc/passwd", "/private/etc/group",
    "/private/etc/localtime", "/private/etc/shells", "/private/etc/protocols", "/private/etc/services",
)  # fmt: skip
"""Files and directories of the system that a command may read."""
NOT_SYSTEM = ("/usr/local/var", "/opt/homebrew/var", "/opt/homebrew/etc", "/usr/local/etc", "/opt/local/var")
"""Parts of those that hold the data and settings of services."""
NETWORK = ("/private/etc/hosts", "/private/etc/resolv.conf", "/private/var/run/resolv.conf")
"""Further files that may be read if the network may be used."""

DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/tty")
INFORMATION = ("hw.", "kern.os", "kern.version", "kern.hostname", "kern.argmax", "kern.max", "kern.secure_kernel",
               "kern.usrstack64", "kern.bootargs", "kern.proc.pgrp.", "kern.proc.pid.", "machdep.cpu.",
               "sysctl.proc_", "vm.loadavg")  # fmt: skip
"""Beginnings of the names of the machine's properties that a command may read."""
SERVICES = ("com.apple.system.opendirectoryd.libinfo", "com.apple.system.logger", "com.apple.trustd.agent")
"""Services of the system: names of users, messages, checks of certificates."""
RESOLVER = ("com.apple.dnssd.service", "com.apple.SystemConfiguration.DNSConfiguration",
            "com.apple.SystemConfiguration.configd", "com.apple.networkd")  # fmt: skip
"""Services that look up the addresses of names."""


def words(profile: SandboxProfile, temporary: Path) -> tuple[str, ...]:
    """Return the words before a command."""
    return (PROGRAM, "-p", profile_text(profile, temporary))


def profile_text(profile: SandboxProfile, temporary: Path) -> str:
    """Return the profile as text in Seatbelt's language.

    Args:
        profile: the limits of the command.
        temporary: a private directory that it may write in, a resolved path.
    """
    writable = _below(profile.root, temporary)
    readable = _below(*SYSTEM, *profile.readable, profile.root, temporary)
    lines = [
        "(version 1)",
        "(deny default)",
        "; the command's own processes",
        "(allow process-fork)",
        "(allow signal (target same-sandbox))",
        "(allow process-info* (target same-sandbox))",
        _rule("allow", "sysctl-read", _each("sysctl-name-prefix", INFORMATION)),
        _rule("allow", "mach-lookup", _each("global-name", SERVICES)),
        "(allow ipc-posix-sem)",
        "; files: names and sizes of those on the way to a path, contents of those that are listed",
        "(allow file-read-metadata)",
        '(allow file-read-data (literal "/"))',
        _rule("allow", "file-read*", readable),
        _rule("allow", "process-exec", readable),
        _rule("deny", "file-read* process-exec", _below(*NOT_SYSTEM)),
        _rule("allow", "file-read* process-exec", _below(*profile.readable, profile.root, temporary)),
        _rule("allow", "file-write*", writable),
        _rule("deny", "file-write-setugid", writable),
        _rule("allow", "file-read* file-write-data file-ioctl", _each("literal", DEVICES)),
        '(allow file-read* file-write-data (regex #"^/dev/fd/[0-2]$"))',
    ]
    if profile.network:
        lines += [
            "; the network, and no sockets that are files but the resolver's",
            '(allow network-outbound (remote ip) (literal "/private/var/run/mDNSResponder"))',
            "(allow network-inbound (local ip))",
            "(allow network-bind (local ip))",
            "(allow system-socket)",
            _rule("allow", "mach-lookup", _each("global-name", RESOLVER)),
            _rule("allow", "file-read*", _each("literal", NETWORK)),
        ]
    denied = [
        _rule("deny", "file-write*", _below(*profile.read_only)),
        _rule("deny", "file-read-data file-read-xattr file-write* process-exec", _below(*profile.hidden)),
        _rule("deny", "file-read-data file-write* process-exec", _below(*profile.programs)),
        # Moving a directory above them would move them to a path that is not denied.
        _rule("deny", "file-write-unlink", _each("literal", _above(profile))),
    ]
    if any(denied):
        lines += ["; denied paths", *denied]
    return "".join(f"{line}\n" for line in lines if line)


def _rule(decision: str, operations: str, filters: list[str]) -> str:
    """Return a rule, or nothing: without filters it would hold for everything."""
    return f"({decision} {operations} {' '.join(filters)})" if filters else ""


def _below(*paths: str | Path) -> list[str]:
    """Return filters for files or directories with all that is below."""
    return _each("subpath", paths)


def _each(kind: str, values: Iterable[str | Path]) -> list[str]:
    return [f"({kind} {quote(str(value))})" for value in values]


def _above(profile: SandboxProfile) -> list[Path]:
    """Return the directories above a denied path that can be written."""
    denied = (*profile.hidden, *profile.read_only, *profile.programs)
    return sorted({one for path in denied for one in path.parents if one.is_relative_to(profile.root)})


def quote(text: str) -> str:
    """Return a string of Seatbelt's language, which is a dialect of Scheme."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
