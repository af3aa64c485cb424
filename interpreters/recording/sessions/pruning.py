"""Deleting old recordings with what stands beside them: never one that a session has open, never a file that is no
journal of this user's own, and nothing by following a link.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from attrs import frozen

from cognition import ConfigError
from interpreters.recording.journal import JournalError, JournalReader
from interpreters.recording.journal.contents import kept_files
from interpreters.recording.journal.locking import LockedFile
from interpreters.recording.journal.payloads import Payloads
from interpreters.recording.sessions.listing import journals_in
from runtime.files import closing


@frozen
class Pruned:
    """What became of a journal that was to go."""

    path: Path
    session: str
    bytes: int
    """The size of the journal, and of the large texts and old contents of files beside it."""
    reason: str
    """Why it was to go."""
    kept: str = ""
    """Why it was kept all the same; empty: it is deleted, or would be."""


@frozen
class _Journal:
    path: Path
    session: str
    changed: float
    bytes: int
    foreign: str
    """Why it is none of this user's own files; empty: it is."""


def prune(
    *places: str | os.PathLike[str],
    older: float | None = None,
    keep: int | None = None,
    size: int | None = None,
    dry_run: bool = False,
    now: float | None = None,
) -> Iterator[Pruned]:
    """Delete journals with the large texts beside them: what is too old, and the oldest of too many or too much.

    A journal that is open is kept, and so is every file whose first line is no whole header: it may be anything. A
    link, and what belongs to another user, is told as kept and counts neither towards ``keep`` nor towards ``size``.

    Args:
        places: journals, and directories of journals.
        older: seconds since a journal was last written from which on it goes.
        keep: how many may stay, the newest ones.
        size: how many bytes may stay in all.
        dry_run: only tell what would go.
        now: the time, in seconds since the epoch.

    Raises:
        ConfigError: nothing was said of what is to go.
        OSError: a place can't be looked at.
    """
    if older is None and keep is None and size is None:
        raise ConfigError("say which are to go: by age, by number or by size")
    now = time.time() if now is None else now
    left = 0
    found = list(_found(places))
    for journal in found:
        if journal.foreign:
            yield Pruned(journal.path, journal.session, journal.bytes, "no recording of your own", journal.foreign)
    ours = sorted((one for one in found if not one.foreign), key=lambda one: -one.changed)
    for rank, journal in enumerate(ours):
        left += journal.bytes
        reason = ""
        if older is not None and now - journal.changed > older:
            reason = f"not written for {_days(now - journal.changed)}"
        elif keep is not None and rank >= keep:
            reason = f"older than the newest {keep}"
        elif size is not None and left > size:
            reason = f"beyond {size} bytes"
        if reason:
            kept = _delete(journal, dry_run)
            yield Pruned(journal.path, journal.session, journal.bytes, reason, kept)


def _found(places: tuple[str | os.PathLike[str], ...]) -> Iterator[_Journal]:
    for path in journals_in(places):
        try:
            with JournalReader(path) as reader:
                about = path.lstat()
                size = about.st_size + Payloads(path).size() + kept_files(path).size()
                yield _Journal(path, reader.header.session, about.st_mtime, size, _foreign(about))
        except (JournalError, OSError):  # no journal, or gone meanwhile: `list` tells
            continue


def _foreign(about: os.stat_result) -> str:
    if stat.S_ISLNK(about.st_mode):
        return "it is a link"
    return "" if about.st_uid == os.geteuid() else "it belongs to another user"


def _delete(journal: _Journal, dry_run: bool) -> str:
    """Delete one while nobody can open it; why it was kept, if it was."""
    try:
        # By the directory's descriptor: whoever swaps a folder on the way for a link has nothing else deleted.
        with closing(os.open(journal.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as directory:
            file = LockedFile(journal.path, os.O_RDWR)
            try:
                if not file.lock():
                    return "a session has it open"
                about = os.fstat(file.descriptor)
                if about.st_mtime != journal.changed:
                    return "it was written just now"
                if not os.path.samestat(about, os.stat(journal.path.name, dir_fd=directory, follow_symlinks=False)):
                    return "another file has its name by now"
                if not dry_run:
                    # The journal goes last: what an interrupted prune leaves of it, the next one finds.
                    for beside in (Payloads(journal.path), kept_files(journal.path)):
                        beside.remove(dir_fd=directory)
                    os.unlink(journal.path.name, dir_fd=directory)
            finally:
                file.close()
    except OSError as error:
        return error.strerror or type(error).__name__
    return ""


def _days(seconds: float) -> str:
    return f"{seconds / 86400:.1f} days" if seconds >= 86400 else f"{seconds / 3600:.1f} hours"
