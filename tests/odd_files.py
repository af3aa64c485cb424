"""What may stand where a file is expected: each kind by its name, made at a path. One more line is one more case."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

SPARSE = 1 << 40
"""Bytes that a file says it has, without a disk that holds them: whoever reads it whole fills the memory."""


def _socket(path: Path) -> None:
    directory = os.open(path.parent, os.O_RDONLY)
    try:  # by a short name: the address of a socket has room for about a hundred bytes
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(f"/proc/self/fd/{directory}/{path.name}")
    finally:
        os.close(directory)


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(SPARSE)


ODD_FILES: dict[str, Callable[[Path], object]] = {
    "directory": lambda path: path.mkdir(),
    "pipe": os.mkfifo,
    "socket": _socket,
    "huge file": _sparse,
    "link to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "link to /dev/full": lambda path: path.symlink_to("/dev/full"),
    "link to a terminal": lambda path: path.symlink_to("/dev/ptmx"),
    "link to itself": lambda path: path.symlink_to(path.name),
    "link to a directory": lambda path: path.symlink_to("."),
    "link to nothing": lambda path: path.symlink_to("nothing"),
}

PLANTED: dict[str, Callable[[Path, Path], object]] = {
    "link": lambda path, victim: path.symlink_to(victim),
    "relative link": lambda path, victim: path.symlink_to(os.path.relpath(victim, path.parent)),
    "link to a link": lambda path, victim: (
        path.with_name("between").symlink_to(victim),
        path.symlink_to("between"),
    ),
    "hard link": lambda path, victim: path.hardlink_to(victim),
}
"""What leads from a path to somebody's file elsewhere."""

UMASKS = (0o000, 0o002, 0o022, 0o027, 0o077, 0o277, 0o777)
