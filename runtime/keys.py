"""The user's own key, with which what a program of theirs wrote is told from what anybody else did.

It is drawn once for each user and stands in ``seal.key`` of the state directory, which nobody else can read.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from runtime.files import (
    UnusableFileError,
    closing,
    open_regular,
    own_state_directory,
    replace_private,
    state_directory,
)

KEY_NAME = "seal.key"
KEY_SIZE = 32
"""Bytes, drawn by the operating system."""


def key_for_writing() -> bytes:
    """The user's key, drawn now if there is none; the same for all processes that ask at once.

    Raises:
        OSError: there can't be one that only this user can read; ``UnusableFileError`` says why.
    """
    with contextlib.suppress(FileNotFoundError):
        return key_for_reading()
    path = own_state_directory() / KEY_NAME
    with closing(os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as directory:
        fcntl.flock(directory, fcntl.LOCK_EX)  # until it is closed
        if not os.path.lexists(path):
            replace_private(path, os.urandom(KEY_SIZE), durable=True)
    return _read(path)


def key_for_reading() -> bytes:
    """The user's key; raises as ``key_for_writing``, and FileNotFoundError if there is none yet."""
    place = state_directory()
    if not place.is_absolute():  # without a home it would lead into whatever directory the program was started in
        raise UnusableFileError("is no place of this user's: set HOME or XDG_STATE_HOME", place)
    key = _read(place / KEY_NAME)
    own_state_directory()  # where nobody else can have put it
    return key


def _read(path: Path) -> bytes:
    with open_regular(path, longest=KEY_SIZE, links=False) as file:
        about = os.fstat(file.fileno())
        key = file.read(KEY_SIZE)
    if about.st_uid != os.geteuid():
        raise UnusableFileError("belongs to another user, who could seal files with it; delete it", path)
    if about.st_nlink > 1:
        raise UnusableFileError(
            "has a second name (a hard link); delete the other one, or put a copy in its place", path
        )
    if about.st_mode & 0o077:
        raise UnusableFileError(
            "may be read by others, who could seal files with it; if nobody has read it (as where a copy of your "
            "home lost its modes), chmod 600 it; else delete it, and all that it sealed will count as foreign",
            path,
        )
    if len(key) != KEY_SIZE:
        raise UnusableFileError(f"is no key, which has {KEY_SIZE} bytes; delete it", path)
    return key
