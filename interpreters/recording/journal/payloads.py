"""Large texts of a journal: each in a file of its own, named by the SHA-256 of what is in it.

    session.jsonl                       {"seq":3,"input":{...,"content":{"$payload":"9f86d0..."}},...}
    session.jsonl.payloads/9f86d0...    the text, as UTF-8

So lines stay short, and what a tool gives ten times stands there once. A file is whole before a record names it; one
that no record names, as a crash may leave it, does no harm.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
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

LARGE = 16_384
"""Characters from which on a text gets a file of its own: the time to write a line of that length is about that of
making a file."""

LONGEST_WITH_PAYLOADS = 1 << 28
"""Bytes of all large texts that one line names, 256 MiB: neither written nor read beyond."""

REFERENCE = "$payload"
"""The only key of what stands in a record instead of a text. No value of the core has an object with such a key."""
MARK = b'"$payload"'
"""Whether a line holds one: within a text the quotes would be escaped."""

Map = Callable[[Any], Any]


def directory_of(journal: Path) -> Path:
    """Where the large texts of a journal are, if it has any."""
    return journal.parent / f"{journal.name}.payloads"


class PayloadError(Exception):
    """A payload is not what the record says."""


class Payloads:
    """The large texts of one journal."""

    def __init__(self, journal: Path) -> None:
        self.directory = directory_of(journal)
        self._place = self.directory
        with contextlib.suppress(OSError):  # the working directory is gone, and what is named from there with it
            self._place = self.directory.absolute()
        """Where that is, though the program goes to another working directory meanwhile; the journal itself is open."""
        self._there: set[str] = set()
        """What is known to be there, whole."""
        self._kept: dict[str, tuple[str, int]] = {}
        """Texts that were read and are kept, by their name, with their length in bytes."""

    def moved_out(self, data: Any, *, force: bool) -> Any:
        """The plain data of a line with its large texts replaced by references, once their files are there.

        Args:
            data: is not changed.
            force: whether the files have to be on the disk before this returns.

        Raises:
            OSError: a file can't be written.
        """
        moved: set[str] = set()
        room = LONGEST_WITH_PAYLOADS

        def move(text: str) -> Any:
            nonlocal room
            if len(text) < LARGE:
                return text
            content = text.encode("utf-8", "surrogatepass")
            name = sha256(content).hexdigest()
            if name not in moved:
                moved.add(name)
                room -= len(content)
            if room < 0:
                raise OSError(None, f"its texts have more than the {LONGEST_WITH_PAYLOADS:,} bytes of a record")
            self._put(name, content, force)
            return {REFERENCE: name}

        return _mapped(data, lambda value: move(value) if isinstance(value, str) else None)

    def brought_back(self, data: Any, look: Callable[[bytes], object] = len, *, keep: bool = False) -> Any:
        """The plain data of a line with its references replaced by the texts.

        Args:
            data: is not changed; no deeper than a line may be.
            look: is shown the bytes of each text that is read.
            keep: whether to keep the texts for the lines that follow. Whoever holds a whole conversation then holds
                each text once, however often it is named.

        Raises:
            PayloadError: a file is missing or was changed, or they are too long; says which.
        """
        known: dict[str, tuple[str, int]] = {}
        """What is named twice in a line is held once."""
        room = LONGEST_WITH_PAYLOADS

        def bring(value: Any) -> Any:
            nonlocal room
            if not (isinstance(value, dict) and len(value) == 1 and REFERENCE in value):
                return None
            name = value[REFERENCE]
            if not _is_name(name):
                raise PayloadError(f"{name!r} is no name of a payload")
            if name not in known:
                known[name] = self._kept.get(name) or self._get(name, room, look)
                room -= known[name][1]
                if room < 0:
                    raise PayloadError(f"its texts have more than the {LONGEST_WITH_PAYLOADS:,} bytes of a record")
            return known[name][0]

        brought = _mapped(data, bring)
        if keep:
            self._kept |= known
        return brought

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
                if _is_name(one.removesuffix(PART)):
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

    def _put(self, name: str, content: bytes, force: bool) -> None:
        if name in self._there:
            return
        make_directory(self._place)
        with closing(open_directory(self._place)) as directory:
            if _content(name, directory) != content:  # a crash of the machine may have left it empty
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
            if force:
                os.fsync(directory)
                force_directory(self._place.parent)
        self._there.add(name)

    def _get(self, name: str, room: int, look: Callable[[bytes], object]) -> tuple[str, int]:
        path = self.directory / name
        try:
            content = read_regular(self._place / name, room, links=False)
        except OSError as error:
            raise PayloadError(f"the payload {path} is missing or can't be read ({error.strerror})") from error
        if sha256(content).hexdigest() != name:
            raise PayloadError(f"the payload {path} was changed after it was written")
        look(content)
        try:
            return content.decode("utf-8", "surrogatepass"), len(content)
        except UnicodeDecodeError as error:
            raise PayloadError(f"the payload {path} is no text") from error


PART = ".part"
"""The end of a payload's name while it is written."""


def _content(name: str, directory: int) -> bytes | None:
    """What stands in a file of a directory, if that can be read and is no link."""
    try:
        return read_regular(name, LONGEST_WITH_PAYLOADS, dir_fd=directory, links=False)
    except OSError:
        return None


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and len(name) == 64 and not set(name) - set("0123456789abcdef")


def _mapped(data: Any, change: Map) -> Any:
    """A copy of plain data; ``change`` gives what stands for a value, or None to look inside it."""
    changed = change(data)
    if changed is not None:
        return changed
    if isinstance(data, dict):
        return {name: _mapped(value, change) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [_mapped(value, change) for value in data]
    return data
