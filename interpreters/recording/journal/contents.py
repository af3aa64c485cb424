"""Files that are named by the SHA-256 of what is in them, in one directory beside a journal, for its user alone.

What is put there ten times stands there once. A file is whole before it has its name, so that one which has it holds
what it says, or has been changed by somebody; that is found when it is read.

    session.jsonl.payloads/9f86d0...    the large texts of a recording: see ``payloads``
    session.jsonl.files/60303a...       what files held before its tools changed them: see ``interpreters.workspace``
    session.jsonl.files/changes         which change that was
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
"""The end of a file's name while it is written."""

CHANGES = "changes"
"""The name of the one file among what tools have overwritten that is not named by what is in it."""


class ContentError(Exception):
    """A file is missing, can't be read, or is not what its name says."""


class Contents:
    """The files of one directory.

    Args:
        directory: is made when something is put there.
        what: the word for one of the files in errors.
        others: files beside them that are ours too.
    """

    def __init__(self, directory: Path, what: str, others: tuple[str, ...] = ()) -> None:
        self.directory = directory
        self._what = what
        self._others = others
        self._place = self.directory
        with contextlib.suppress(OSError):  # the working directory is gone, and what is named from there with it
            self._place = self.directory.absolute()
        """Where that is, though the program goes to another working directory meanwhile; the journal itself is open."""
        self._there: set[str] = set()
        """What is known to be there, whole."""

    @contextlib.contextmanager
    def opened(self) -> Iterator[int]:
        """The descriptor of the directory, which is made if it is not there.

        Raises:
            OSError: it can't be made or opened, or is none of ours.
        """
        make_directory(self._place)
        with closing(open_directory(self._place)) as directory:
            yield directory

    def put(self, content: bytes, *, force: bool, name: str = "", named: bool = True) -> str:
        """See that a content is there, and give its name.

        Args:
            content: it.
            force: whether it has to be on the disk before this returns.
            name: its SHA-256, where that is known.
            named: whether its name has to be there too; else ``force_names`` sees to that, for many at once.

        Raises:
            OSError: it can't be written.
        """
        name = name or sha256(content).hexdigest()
        if name in self._there:
            return name
        with self.opened() as directory:
            if _content(name, directory, len(content)) != content:  # a crash of the machine may have left it empty
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
                self._force_names(directory)
        self._there.add(name)
        return name

    def force_names(self, *, own: bool = True) -> None:
        """See that the names of all that is there are on the disk.

        Args:
            own: whether the directory's own name has to be, too.

        Raises:
            OSError: it can't be done.
        """
        with self.opened() as directory:
            self._force_names(directory, own=own)

    def _force_names(self, directory: int, *, own: bool = True) -> None:
        os.fsync(directory)
        if own:
            force_directory(self._place.parent)

    def get(self, name: str, longest: int) -> bytes:
        """The content of a name.

        Raises:
            ContentError: it is missing, longer, or was changed.
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
        """Delete all of them, and their directory unless something else lies in it. No link is followed.

        Args:
            dir_fd: the open directory of the journal, if not the one that its path leads to.

        Raises:
            UnusableFileError: their directory is none of ours.
            OSError: one can't be deleted.
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
        """The bytes of all that can be seen. A session may be writing some, and give them their names meanwhile."""
        size = 0
        with contextlib.suppress(OSError), os.scandir(self.directory) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    size += entry.stat(follow_symlinks=False).st_size
        return size


def _content(name: str, directory: int, longest: int) -> bytes | None:
    """What stands in a file of a directory, if that can be read, is no link, and not longer."""
    try:
        return read_regular(name, longest, dir_fd=directory, links=False)
    except OSError:
        return None


def is_name(name: Any) -> bool:
    """Whether it is the name of a content."""
    return isinstance(name, str) and len(name) == 64 and not set(name) - set("0123456789abcdef")


def kept_files(journal: Path) -> Contents:
    """What files held before the tools of a session changed them, and the list of its changes."""
    return Contents(journal.parent / f"{journal.name}.files", "kept content", (CHANGES,))
