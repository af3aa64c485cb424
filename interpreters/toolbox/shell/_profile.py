"""What one sandboxed command may reach. Each sandbox (``_bubblewrap.py``, ``_landlock.py``, ``_seatbelt.py``) enforces
the same profile with its own means.
"""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store",
    "/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/passwd", "/etc/group",
    "/etc/nsswitch.conf", "/etc/localtime", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs",
)  # fmt: skip
"""Paths of the system that a confined command may read beside its directory."""

NETWORK = ("/etc/resolv.conf", "/etc/hosts", "/etc/services", "/etc/protocols", "/etc/host.conf", "/etc/gai.conf")
"""Further paths that it may read if it may use the network."""


@frozen
class SandboxProfile:
    """The files, programs and network of one command. All paths are absolute, resolved and exist."""

    root: Path
    """The working directory: the only place, beside a temporary one, that the command may write in."""
    readable: tuple[Path, ...] = ()
    """Further directories that it may read."""
    hidden: tuple[Path, ...] = ()
    """Files and directories that it may neither read nor write, with all that is below them."""
    read_only: tuple[Path, ...] = ()
    """Files and directories below ``root`` that it may read and not write."""
    programs: tuple[Path, ...] = ()
    """Files of programs that it may neither run nor read."""
    network: bool = False
    """Whether it may use the network."""
