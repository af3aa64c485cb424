"""Private files of the user, and safe reading of untrusted files.

A session may write confidential data into a directory where other users can write. So new files have the mode 0600 and
new directories 0700, regardless of the umask. Writing never follows a symlink in the last path component, and only
accepts regular files owned by this user.

A path to read may be anything: a pipe without a writer, an endless device, a growing file. So reading opens only
regular files, without blocking, and never returns more than the caller's limit. A symlink to a regular file may be
read: it gives access to nothing that the reader could not open by name.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from cognition import CogstepError

PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700

ALWAYS = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
"""Flags of every ``open``. Without ``O_NONBLOCK`` a pipe would wait for its other end; regular files ignore it."""

AT_ONCE = 1 << 20
"""Bytes per read of a file that is longer than its reported size."""

TRIES = 16
"""Attempts to open a file that another process creates and deletes at the same time."""

StrPath = str | os.PathLike[str]


class UnusableFileError(CogstepError, OSError):
    """The path is not a usable file: it is a pipe, a symlink, too large, or owned by another user.

    It is also an ``OSError``, so that code which reports ``error.strerror`` works unchanged.

    Attributes:
        path: its name.
        reason: the problem and the remedy, such as "it is a link ...".
    """

    def __init__(self, reason: str, path: StrPath) -> None:
        OSError.__init__(self, None, reason)
        self.path: Path = Path(os.fspath(path))
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def reason_about(error: OSError, path: StrPath) -> str:
    """Return the error's text for a message that already names ``path``; an error about another file is prefixed by its
    name.

    Otherwise "it is a link; delete it" would make the user delete the wrong file.
    """
    other = error.path if isinstance(error, UnusableFileError) else Path(os.fspath(path))
    return str(error.strerror) if other == Path(os.fspath(path)) else f"{other.name}: {error.strerror}"


def _check_name(path: StrPath) -> None:
    """Raise ``UnusableFileError`` for an invalid name. Python would raise a ValueError, which callers do not expect."""
    with contextlib.suppress(UnicodeEncodeError):
        if b"\0" not in os.fsencode(path):
            return
    raise UnusableFileError("it holds what no name of a file can hold; name another", path)


def kind_of(mode: int) -> str:
    """Return the kind of a file from its ``st_mode``, worded for a message."""
    return _KINDS.get(stat.S_IFMT(mode), "a device")


_KINDS = {
    stat.S_IFREG: "a regular file",
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
}


# ------------------------------------------------------------------------------------------------------------- reading


def open_regular(
    path: StrPath, *, longest: int | None = None, dir_fd: int | None = None, links: bool = True
) -> BinaryIO:
    """Open a regular file for reading bytes.

    Args:
        path: its name; relative to ``dir_fd`` if given.
        longest: the maximum size in bytes; None for no limit.
        dir_fd: an open directory.
        links: whether the last path component may be a symlink.

    Raises:
        UnusableFileError: it is not a regular file, or is longer.
        OSError: it cannot be opened.
    """
    _check_name(path)
    flags = os.O_RDONLY if links else os.O_RDONLY | os.O_NOFOLLOW
    return open(_open_checked(path, flags, dir_fd, lambda about: _check_regular(about, path, longest)), "rb")


def _open_checked(path: StrPath, flags: int, dir_fd: int | None, check: Callable[[os.stat_result], None]) -> int:
    """Open an existing file, checked before and after: to open a device may already do something, a socket can't be
    opened at all, and once it is open it may be another one.
    """
    check(os.stat(path, dir_fd=dir_fd, follow_symlinks=not flags & os.O_NOFOLLOW))
    descriptor = os.open(path, flags | ALWAYS, dir_fd=dir_fd)
    try:
        check(os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def check_regular(path: StrPath, longest: int | None = None) -> None:
    """Check that ``open_regular`` would accept a file that other code opens by name.

    Raises:
        UnusableFileError, OSError: as in ``open_regular``.
    """
    _check_name(path)
    _check_regular(os.stat(path), path, longest)


def read_regular(path: StrPath, longest: int, *, dir_fd: int | None = None, links: bool = True) -> bytes:
    """Return the content of a regular file, at most ``longest`` bytes, even if it grows. Otherwise like
    ``open_regular``.
    """
    with open_regular(path, longest=longest, dir_fd=dir_fd, links=links) as file:
        content = file.read(min(os.fstat(file.fileno()).st_size, longest) + 1)
        parts, length = [content], len(content)
        while content and length <= longest:  # it grows, or is one of those that don't know their size
            content = file.read(min(AT_ONCE, longest + 1 - length))
            if content:  # else the usual file of one part would be copied
                parts.append(content)
            length += len(content)
    if length > longest:
        raise too_long(path, longest)
    return b"".join(parts) if len(parts) > 1 else parts[0]


def read_regular_text(path: StrPath, longest: int) -> str:
    """Return the UTF-8 text of a regular file, without its byte order mark if it has one.

    Raises:
        UnusableFileError: it is not a regular file, is longer, or is not UTF-8.
        OSError: it cannot be opened.
    """
    try:
        return read_regular(path, longest).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnusableFileError("it is no text in UTF-8; convert it, or name another file", path) from error


def too_long(path: StrPath, longest: int) -> UnusableFileError:
    """Return the error for a file of more than ``longest`` bytes."""
    reason = f"it is longer than the {longest:,} bytes that are read of such a file; name another"
    return UnusableFileError(reason, path)


def _check_regular(about: os.stat_result, path: StrPath, longest: int | None) -> None:
    if not stat.S_ISREG(about.st_mode):
        todo = "name one" if stat.S_ISDIR(about.st_mode) else "save it to one first"
        raise UnusableFileError(f"it is {kind_of(about.st_mode)}, and only a regular file is read; {todo}", path)
    if longest is not None and about.st_size > longest:
        raise too_long(path, longest)


# ------------------------------------------------------------------------------------------------------------- writing


def open_private(path: StrPath, flags: int = os.O_RDWR | os.O_CREAT, *, dir_fd: int | None = None) -> int:
    """Open a regular file of this user for writing; return its descriptor. ``O_CREAT`` creates it if it does not exist.

    A new file has the mode 0600 from the start. The mode of an existing file does not change.

    Args:
        path: its name; relative to ``dir_fd`` if given.
        flags: as for ``os.open``; ``O_CLOEXEC`` and non-blocking flags are added. ``O_TRUNC`` only takes effect after
            the checks.
        dir_fd: an open directory.

    Raises:
        UnusableFileError: it is a symlink, not a regular file, owned by another user, or has a second hard link.
        OSError: it cannot be opened or created.
    """
    _check_name(path)
    makes, flags = flags & os.O_CREAT, flags | ALWAYS | os.O_NOFOLLOW
    for _ in range(TRIES):
        try:
            return _create(path, flags, dir_fd) if makes else _open_existing(path, flags, dir_fd)
        except FileExistsError:
            if flags & os.O_EXCL:
                raise
        with contextlib.suppress(FileNotFoundError):  # gone in between
            return _open_existing(path, flags, dir_fd)
    raise UnusableFileError("it is made and deleted again by somebody all the time; choose another name", path)


def make_private(path: StrPath) -> None:
    """Create an empty file of the mode 0600. Raises FileExistsError if it exists."""
    os.close(open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))


def check_private(path: StrPath) -> None:
    """Check that ``open_private`` would accept a file that other code opens by name.

    Raises:
        UnusableFileError, OSError: as in ``open_private``.
    """
    _check_name(path)
    _check_writable(os.stat(path, follow_symlinks=False), path)


def _open_existing(path: StrPath, flags: int, dir_fd: int | None) -> int:
    kept = flags & ~(os.O_CREAT | os.O_EXCL | os.O_TRUNC)
    descriptor = _open_checked(path, kept, dir_fd, lambda about: _check_writable(about, path))
    if flags & os.O_TRUNC:
        try:
            os.ftruncate(descriptor, 0)
        except BaseException:
            os.close(descriptor)
            raise
    return descriptor


def _create(path: StrPath, flags: int, dir_fd: int | None) -> int:
    """Create a file. ``O_EXCL`` never follows a symlink in the last component, not even a dangling one."""
    descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, PRIVATE_FILE, dir_fd=dir_fd)
    with contextlib.suppress(OSError):  # a disk without modes
        os.fchmod(descriptor, PRIVATE_FILE)  # a umask may have taken the user's own rights
    return descriptor


def _check_writable(about: os.stat_result, path: StrPath) -> None:
    foreign = "it belongs to another user, who could read what is written; use a copy of it"
    _check_own_file(about, path, "written", foreign)
    if about.st_nlink > 1:
        raise UnusableFileError("it has a second name (a hard link), under which others may read it; use a copy", path)


def replace_private(path: StrPath, content: bytes | Iterable[bytes | memoryview], *, durable: bool = False) -> None:
    """Atomically create or replace a file, with the mode 0600.

    Args:
        path: its name.
        content: the bytes, or parts of them.
        durable: whether to sync the content and the name to disk before returning.

    Raises:
        UnusableFileError: the existing file is a symlink, not a regular file, or owned by another user.
        OSError: it cannot be written.
    """
    _check_name(path)
    directory, name = os.path.split(os.path.abspath(os.fspath(path)))
    with closing(os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as folder:
        with contextlib.suppress(FileNotFoundError):
            about = os.stat(name, dir_fd=folder, follow_symlinks=False)
            foreign = "it belongs to another user; choose another name, or delete it first"
            _check_own_file(about, path, "replaced", foreign)
        # Of chance, so that nobody can plant it; short, since a file's own name may be as long as any may be.
        part = f".{secrets.token_hex(12)}.part"
        descriptor = open_private(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, dir_fd=folder)
        try:
            with open(descriptor, "wb") as file:
                for one in [content] if isinstance(content, bytes) else content:
                    file.write(one)
                file.flush()
                if durable:
                    os.fsync(descriptor)
            os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(part, dir_fd=folder)
            raise
        if durable:
            os.fsync(folder)


def _check_own_file(about: os.stat_result, path: StrPath, done: str, foreign: str) -> None:
    if stat.S_ISLNK(about.st_mode):
        raise UnusableFileError("it is a link, and nothing is written through one; name the file itself", path)
    if not stat.S_ISREG(about.st_mode):
        raise UnusableFileError(
            f"it is {kind_of(about.st_mode)}, and only a regular file is {done}; name another", path
        )
    if about.st_uid != os.geteuid():
        raise UnusableFileError(foreign, path)


# --------------------------------------------------------------------------------------------------------- directories


def make_directory(path: StrPath) -> None:
    """Create a directory and its missing parents, with the mode 0700, unless it exists.

    Raises:
        UnusableFileError: its name belongs to something else.
        OSError: it cannot be created.
    """
    _check_name(path)
    path = Path(path)
    try:
        os.mkdir(path, PRIVATE_DIRECTORY)
    except FileNotFoundError:
        if path.parent == path or os.path.lexists(path.parent):  # the latter is a link that leads nowhere
            raise
        make_directory(path.parent)
        make_directory(path)
        return
    except FileExistsError:
        if not path.is_dir():
            raise UnusableFileError("it is there and is no directory; delete it, or name another", path) from None
        return
    if stat.S_IMODE(os.lstat(path).st_mode) & PRIVATE_DIRECTORY != PRIVATE_DIRECTORY:
        os.chmod(path, PRIVATE_DIRECTORY)  # a umask has taken the user's own rights


def open_directory(path: StrPath, *, dir_fd: int | None = None) -> int:
    """Open a directory of this user and return its descriptor. Access by ``dir_fd`` stays inside it.

    Raises:
        UnusableFileError: it is a symlink, not a directory, or owned by another user.
        OSError: it cannot be opened.
    """
    _check_name(path)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    return _open_checked(path, flags, dir_fd, lambda about: _check_own_directory(about, path))


def _check_own_directory(about: os.stat_result, path: StrPath) -> None:
    if not stat.S_ISDIR(about.st_mode):
        raise UnusableFileError(f"it is {kind_of(about.st_mode)} where a directory of ours has to be; delete it", path)
    if about.st_uid != os.geteuid():
        reason = "it belongs to another user, who could read or change what is in it; choose another"
        raise UnusableFileError(reason, path)


def force_directory(path: StrPath) -> None:
    """Sync the entries of a directory to disk.

    Raises:
        OSError: the system cannot do it.
    """
    with closing(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as descriptor:
        os.fsync(descriptor)


def state_directory(environment: Mapping[str, str] | None = None, platform: str = sys.platform) -> Path:
    """Return the user's directory for cogstep's state. Creates nothing.

    By the XDG Base Directory Specification it is ``$XDG_STATE_HOME/cogstep``, by default ``~/.local/state/cogstep``. On
    macOS without that variable it is ``~/Library/Application Support/cogstep``.
    """
    environment = os.environ if environment is None else environment
    chosen = environment.get("XDG_STATE_HOME", "")
    if os.path.isabs(chosen):  # the specification: relative paths are to be ignored
        return Path(chosen, "cogstep")
    home = Path(environment.get("HOME") or os.path.expanduser("~"))
    if platform == "darwin":
        return home / "Library" / "Application Support" / "cogstep"
    return home / ".local" / "state" / "cogstep"


def own_state_directory(environment: Mapping[str, str] | None = None) -> Path:
    """Return ``state_directory()``, created if missing and checked that no other user can write to it.

    Raises:
        UnusableFileError: another user may put files there.
        OSError: it cannot be created.
    """
    path = state_directory(environment)
    make_directory(path)
    about = os.stat(path)
    _check_own_directory(about, path)
    if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UnusableFileError("it can be written by other users, who could put files there; chmod 700 it", path)
    return path


@contextlib.contextmanager
def closing(descriptor: int) -> Iterator[int]:
    """Close the descriptor at the end of the block."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)
