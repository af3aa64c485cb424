"""The user's secret key; it authenticates the files that the user's own programs wrote.

It is generated once per user and stored in ``seal.key`` of the state directory, readable only by the user. Machines
that share sessions share a key file, named by ``COGSTEP_SEAL_KEY_FILE``.
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
"""Bytes, from the operating system's random source."""
KEY_FILE = "COGSTEP_SEAL_KEY_FILE"
"""The environment variable that names a key file shared by several machines. cogstep never creates that file: each
machine would generate a different key.
"""


def key_for_writing() -> bytes:
    """Return the user's key; generate it if missing. Concurrent processes receive the same key.

    Raises:
        OSError: a key that only this user can read is impossible; ``UnusableFileError`` gives the reason.
    """
    with contextlib.suppress(FileNotFoundError):  # which is not raised of a shared one
        return key_for_reading()
    path = own_state_directory() / KEY_NAME
    with closing(os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as directory:
        fcntl.flock(directory, fcntl.LOCK_EX)  # until it is closed
        if not os.path.lexists(path):
            replace_private(path, os.urandom(KEY_SIZE), durable=True)
    return _read(path)


def key_for_reading() -> bytes:
    """Return the user's key. Raises FileNotFoundError if it does not exist, else like ``key_for_writing``."""
    if shared := os.environ.get(KEY_FILE):
        return _read_shared_key(Path(shared))
    place = state_directory()
    if not place.is_absolute():  # without a home it would lead into whatever directory the program was started in
        raise UnusableFileError("is no place of this user's: set HOME or XDG_STATE_HOME", place)
    key = _read(place / KEY_NAME)
    own_state_directory()  # where nobody else can have put it
    return key


def _read_shared_key(path: Path) -> bytes:
    if not path.is_absolute():  # who could plant one in the working directory, could seal recordings with it
        raise UnusableFileError(f"is no whole path, which {KEY_FILE} needs", path)
    try:
        return _read(path, links=True)  # as secrets are mounted into containers
    except FileNotFoundError:
        raise UnusableFileError(
            f"is not there, though {KEY_FILE} names it: copy it from where the sessions were recorded, or make one "
            f"with `head -c {KEY_SIZE} /dev/urandom`, for this user alone (chmod 600)",
            path,
        ) from None


def _read(path: Path, *, links: bool = False) -> bytes:
    with open_regular(path, longest=KEY_SIZE, links=links) as file:
        about = os.fstat(file.fileno())
        key = file.read(KEY_SIZE)
    if about.st_uid != os.geteuid():
        raise UnusableFileError("belongs to another user, who could seal files with it; delete it", path)
    if about.st_nlink > 1:
        todo = "delete the other one, or put a copy in its place"
        raise UnusableFileError(f"has a second name (a hard link); {todo}", path)
    if about.st_mode & 0o077:
        raise UnusableFileError(
            "may be read by others, who could seal files with it; if nobody has read it (as where a copy of your "
            "home lost its modes), chmod 600 it; else delete it, and all that it sealed will count as foreign",
            path,
        )
    if len(key) != KEY_SIZE:
        raise UnusableFileError(f"is no key, which has {KEY_SIZE} bytes; delete it", path)
    return key
