"""Large texts of a journal: each in a file of its own, named by the SHA-256 of what is in it.

    session.jsonl                       {"seq":3,"input":{...,"content":{"$payload":"9f86d0..."}},...}
    session.jsonl.payloads/9f86d0...    the text, as UTF-8

So lines stay short, and what a tool gives ten times stands there once. A file is whole before a record names it; one
that no record names, as a crash may leave it, does no harm.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

from runtime.files import force_directory

LARGE = 16_384
"""Characters from which on a text gets a file of its own: the time to write a line of that length is about that of
making a file."""

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
        self._there: set[str] = set()
        """What is known to be there, whole."""

    def moved_out(self, data: Any, *, force: bool) -> Any:
        """Plain data with its large texts replaced by references, once their files are there.

        Args:
            data: is not changed.
            force: whether the files have to be on the disk before this returns.

        Raises:
            OSError: a file can't be written.
        """

        def move(text: str) -> Any:
            return text if len(text) < LARGE else {REFERENCE: self._put(text, force)}

        return _mapped(data, lambda value: move(value) if isinstance(value, str) else None)

    def brought_back(self, data: Any, look: Callable[[bytes], object] = len) -> Any:
        """Plain data with its references replaced by the texts.

        Args:
            data: is not changed; no deeper than a line may be.
            look: is shown the bytes of each text.

        Raises:
            PayloadError: a file is missing or was changed; says which.
        """
        known: dict[str, str] = {}
        """What is named twice in a line is held once."""

        def bring(value: Any) -> Any:
            if not (isinstance(value, dict) and len(value) == 1 and REFERENCE in value):
                return None
            name = value[REFERENCE]
            if not _is_name(name):
                raise PayloadError(f"{name!r} is no name of a payload")
            if name not in known:
                known[name] = self._get(name, look)
            return known[name]

        return _mapped(data, bring)

    def remove(self) -> None:
        """Delete all of them, and their directory unless something else lies in it.

        Raises:
            OSError: one can't be deleted.
        """
        if self.directory.is_dir():
            for path in self.directory.iterdir():
                if _is_name(path.name.removesuffix(PART)):
                    path.unlink()
            with contextlib.suppress(OSError):
                self.directory.rmdir()

    def size(self) -> int:
        """The bytes of all that can be seen. A session may be writing some, and give them their names meanwhile."""
        size = 0
        with contextlib.suppress(OSError), os.scandir(self.directory) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    size += entry.stat(follow_symlinks=False).st_size
        return size

    def _put(self, text: str, force: bool) -> str:
        content = text.encode("utf-8", "surrogatepass")
        name = sha256(content).hexdigest()
        if name in self._there:
            return name
        path = self.directory / name
        if _content(path) is None:  # a crash of the machine may have left it empty
            self.directory.mkdir(exist_ok=True)
            part = path.with_name(name + PART)
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            try:
                written = 0
                while written < len(content):
                    written += os.write(descriptor, content[written:])
                if force:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
            part.rename(path)
        if force:
            force_directory(self.directory)
            force_directory(self.directory.parent)
        self._there.add(name)
        return name

    def _get(self, name: str, look: Callable[[bytes], object]) -> str:
        path = self.directory / name
        try:
            content = _content_of(path, name)
        except OSError as error:
            raise PayloadError(f"the payload {path} is missing or can't be read ({error.strerror})") from error
        if content is None:
            raise PayloadError(f"the payload {path} was changed after it was written")
        look(content)
        try:
            return content.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise PayloadError(f"the payload {path} is no text") from error


PART = ".part"
"""The end of a payload's name while it is written."""


IN_ONE = 1 << 20
"""Bytes of a file that is read at once. Of a larger one the sum is found first, so that what somebody put in its place
never fills the memory."""


def _content(path: Path) -> bytes | None:
    """What stands in a file, if that is what its name says."""
    try:
        return _content_of(path, path.name)
    except OSError:
        return None


def _content_of(path: Path, name: str) -> bytes | None:
    """The same, for who wants to know why a file can't be read.

    Raises:
        OSError: it can't be, or is no file at all.
    """
    # Without waiting: to open a pipe would wait for somebody who writes to it.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise OSError(None, "it is no file")
        if about.st_size > IN_ONE:
            if file_digest(file, "sha256").hexdigest() != name:
                return None
            file.seek(0)
        content = file.read(about.st_size)
        return content if sha256(content).hexdigest() == name else None


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
