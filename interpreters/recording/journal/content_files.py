"""Files named by the SHA-256 of their content, in a private directory beside a journal.

Equal contents are stored once. A file gets its name only after it is complete. So a file with a wrong content was
changed by others, which is found when it is read.

    session.jsonl.payloads/9f86d0...    large texts of a recording: see ``payloads``
    session.jsonl.files/60303a...       old contents of changed files: see ``interpreters.recording.undo``
    session.jsonl.files/changes         the list of these changes
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from runtime.files import (
    closing,
    force_directory,
    make_directory,
    open_directory,
    open_private,
    read_regular,
)

PART = ".part"
"""Suffix of a file that is being written."""

CHANGES = "changes"
"""Name of the list of changes, the only file of the undo data not named by its content."""


class ContentError(Exception):
    """A file is missing, unreadable, or does not match its name."""


class Contents:
    """The files of one directory.

    Args:
        directory: created when a content is stored.
        what: word for such a file in errors.
        others: names of further files that belong to the directory.
    """

    def __init__(self, directory: Path, what: str, others: tuple[str, ...] = ()) -> None:
        self.directory = directory
        self._what = what
        self._others = others
        self._place = self.directory
        with contextlib.suppress(OSError):  # the working directory is gone, and what is named from there with it
            self._place = self.directory.absolute()
        """Absolute path, for when the program changes its working directory. The journal itself stays open."""
        self._there: set[str] = set()
        """Names of contents known to be stored completely."""

    @contextlib.contextmanager
    def open_directory(self) -> Iterator[int]:
        """Yield the descriptor of the directory, which is created if necessary.

        Raises:
            OSError: the directory can't be created or opened, or is not this user's.
        """
        make_directory(self._place)
        with closing(open_directory(self._place)) as directory:
            yield directory

    def put(self, content: bytes, *, force: bool, name: str = "", named: bool = True) -> str:
        """Store a content, and return its name.

        Args:
            content: the content.
            force: whether to force it to disk before this returns.
            name: its SHA-256, if known.
            named: whether to force its name too; otherwise ``force_names`` does that for many contents together.

        Raises:
            OSError: the content can't be written.
        """
        name = name or sha256(content).hexdigest()
        if name in self._there:
            return name
        with self.open_directory() as directory:
            there: bytes | None = None
            with contextlib.suppress(OSError):
                there = read_regular(name, len(content), dir_fd=directory, links=False)
            if there != content:  # a crash of the machine may have left it empty
                part = name + PART
                with contextlib.suppress(FileNotFoundError):  # a crash has left it, or somebody has planted it
                    os.unlink(part, dir_fd=directory)
                descriptor = open_private(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, dir_fd=directory)
                try:
                    with closing(descriptor):
                        written = 0
                        while written < len(content):
                            written += os.write(descriptor, content[written:])
                        if force:
                            os.fsync(descriptor)
                    os.replace(part, name, src_dir_fd=directory, dst_dir_fd=directory)
                except BaseException:
                    with contextlib.suppress(OSError):
                        os.unlink(part, dir_fd=directory)
                    raise
        if force and named:
            self.force_names()
        self._there.add(name)
        return name

    def force_names(self, *, own: bool = True) -> None:
        """Force the names of all files in the directory to disk.

        Args:
            own: whether to force the directory's own name too.

        Raises:
            OSError: it failed.
        """
        with self.open_directory() as directory:
            os.fsync(directory)
        if own:
            force_directory(self._place.parent)

    def get(self, name: str, longest: int) -> bytes:
        """Return the content with a name.

        Raises:
            ContentError: it is missing, longer than ``longest``, or was changed.
        """
        path = self.directory / name
        try:
            content = read_regular(self._place / name, longest, links=False)
        except OSError as error:
            raise ContentError(f"the {self._what} {path} is missing or can't be read ({error.strerror})") from error
        if sha256(content).hexdigest() != name:
            raise ContentError(f"the {self._what} {path} was changed after it was written")
        return content

    def remove(self, *, dir_fd: int | None = None) -> None:
        """Delete all files, and the directory unless it contains other files. Links are not followed.

        Args:
            dir_fd: open directory of the journal, if it is not the one at the path.

        Raises:
            UnusableFileError: the directory is not this user's.
            OSError: a file can't be deleted.
        """
        name = self.directory if dir_fd is None else self.directory.name
        try:
            opened = open_directory(name, dir_fd=dir_fd)
        except FileNotFoundError:
            return
        with closing(opened) as directory:
            for one in os.listdir(directory):
                if is_name(one.removesuffix(PART)) or one in self._others:
                    os.unlink(one, dir_fd=directory)
        with contextlib.suppress(OSError):
            os.rmdir(name, dir_fd=dir_fd)

    def size(self) -> int:
        """Return the bytes of all visible files. A session may be writing and naming files at the same time."""
        size = 0
        with contextlib.suppress(OSError), os.scandir(self.directory) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    size += entry.stat(follow_symlinks=False).st_size
        return size


def is_name(name: Any) -> bool:
    """Whether a value is the name of a content."""
    return isinstance(name, str) and len(name) == 64 and not set(name) - set("0123456789abcdef")


def undo_files(journal: Path) -> Contents:
    """Return the undo data of a session: saved file contents, and the list of changes."""
    return Contents(journal.parent / f"{journal.name}.files", "kept content", (CHANGES,))
