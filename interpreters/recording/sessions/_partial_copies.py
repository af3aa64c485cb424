"""Partial copies left by a kill: distinguished from copies in progress, and removed.

A copy is written to a file with another name. This file is created before all other files of the copy, and is locked
from beginning to end. So an unlocked file belongs to a killed copy, and so do the files beside the future recording.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import uuid
from contextlib import suppress
from pathlib import Path

from interpreters.recording.journal.locking import LockedFile, is_being_written
from interpreters.recording.journal.payloads import Payloads, directory_of
from runtime.files import closing

PART = ".part"
"""Suffix of a file during the copy, which no list includes."""

NAME = re.compile(r"(.+)\.[0-9a-f]{32}\.part", re.DOTALL)
"""Matches the name of such a file, with the recording's name as its group."""


def part_of(path: Path) -> Path:
    """Return a random path for the partial copy of a recording."""
    return path.with_name(f"{path.name}.{uuid.uuid4().hex}{PART}")


def create_part(part: Path) -> LockedFile:
    """Create and lock a partial copy.

    Raises:
        OSError: the file can't be created.
    """
    file = LockedFile(part, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    try:
        if file.lock() and os.fstat(file.descriptor).st_nlink:
            return file
        raise OSError(None, "somebody has cleared it away; copy it again")  # between these two lines
    except BaseException:
        file.close()
        with suppress(OSError):
            os.unlink(part)
        raise


def clear_parts(folder: Path, of: str | None = None) -> None:
    """Remove the files of killed copies in a folder that belong to this user and can be deleted.

    Args:
        folder: the folder.
        of: name of the only recording whose copies to remove; None: all.
    """
    with suppress(OSError):
        for name in os.listdir(folder):
            found = NAME.fullmatch(name)
            if found is not None and of in (None, found[1]):
                with suppress(OSError):
                    _clear(folder / name, folder / found[1])


def _clear(part: Path, recording: Path) -> None:
    # Not by `LockedFile`, which takes no file with two names: the recording may have got its own in the last moment.
    with closing(os.open(part, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)) as descriptor:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid():
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # it is being made
            return
        try:
            if not os.path.lexists(directory_of(recording)) or _clear_payloads(recording, part):
                os.unlink(part)  # last: by it the rest is found
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def _clear_payloads(recording: Path, part: Path) -> bool:
    """Delete the large texts beside a missing recording, under its lock, unless they may belong to another copy.

    A copy in progress creates its own file first. Returns whether no large texts of a killed copy remain.
    """
    try:
        claim = LockedFile(recording, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    except FileExistsError:  # they are those of a recording
        return True
    try:
        if not claim.lock():
            return True
        try:
            if _is_copied(recording, but=part):
                return False
            Payloads(recording).remove()
            return True
        finally:
            os.unlink(recording)
    finally:
        claim.close()


def _is_copied(recording: Path, but: Path) -> bool:
    for name in os.listdir(recording.parent):
        found = NAME.fullmatch(name)
        if found is not None and found[1] == recording.name and name != but.name:
            with suppress(OSError):  # gone, or none of ours
                if is_being_written(recording.with_name(name)):
                    return True
    return False
