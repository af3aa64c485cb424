"""Files that are the user's alone, and files that come from anybody.

Whatever a session writes may hold what nobody else on the machine shall read, and may stand in a directory where others
write too. So a file that is made here has the mode 0600 and a directory 0700 whatever the umask says, and a link is
never followed by its last name where something is written: only regular files that belong to this user are.

Whatever is read may be anything: a pipe that nobody writes to, a device without end, a file that grows meanwhile. So
only regular files are opened for reading, without waiting, and never more is read than the caller has room for. A link
that leads to a regular file may be read: it gives nothing that its reader couldn't open by name.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from cognition import CogstepError

PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700

ALWAYS = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
"""Of every opening. Without ``O_NONBLOCK`` a pipe would wait for its other end; to regular files it means nothing."""

AT_ONCE = 1 << 20
"""Bytes that are read of a file at a time when it turns out to be longer than it said."""

TRIES = 16
"""How often a file is opened that somebody makes and deletes again at the same time."""

StrPath = str | os.PathLike[str]


class UnusableFileError(CogstepError, OSError):
    """Something other than a file that can be used here: it is a pipe, a link, too large, somebody else's.

    It is an ``OSError`` as well, so that whoever reports those as ``error.strerror`` reports this one in the same way.

    Attributes:
        path: its name.
        reason: what is wrong with it and what to do, such as "it is a link ...".
    """

    def __init__(self, reason: str, path: StrPath) -> None:
        OSError.__init__(self, None, reason)
        self.path = Path(os.fspath(path))
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def reason_about(error: OSError, path: StrPath) -> str:
    """What an error says where ``path`` is named already: if it is about another file, that name stands before it.

    Else "it is a link; delete it" would tell whoever reads it to delete a file with which nothing is wrong.
    """
    other = error.path if isinstance(error, UnusableFileError) else Path(os.fspath(path))
    return str(error.strerror) if other == Path(os.fspath(path)) else f"{other.name}: {error.strerror}"


def _check_name(path: StrPath) -> None:
    """Where it can't be a name, Python raises a ValueError, which nobody expects of a file."""
    try:
        if b"\0" not in os.fsencode(path):
            return
    except UnicodeEncodeError:
        pass
    raise UnusableFileError("it holds what no name of a file can hold; name another", path)


def kind_of(mode: int) -> str:
    """What a file is, from its ``st_mode``, in the words of a message."""
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
    """A regular file, open for reading bytes.

    Args:
        path: its name; relative to ``dir_fd`` where that is given.
        longest: bytes it may have; None for any number.
        dir_fd: an open directory.
        links: whether its last name may be a link to one.

    Raises:
        UnusableFileError: it is something else, or longer.
        OSError: it can't be opened.
    """
    _check_name(path)
    # Looked at before: to open a device may already do something, and a socket can't be opened at all.
    _check_regular(os.stat(path, dir_fd=dir_fd, follow_symlinks=links), path, longest)
    flags = os.O_RDONLY | ALWAYS | (0 if links else os.O_NOFOLLOW)
    descriptor = os.open(path, flags, dir_fd=dir_fd)
    try:
        _check_regular(os.fstat(descriptor), path, longest)  # it may be another one by now
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def check_regular(path: StrPath, longest: int | None = None) -> None:
    """See that a file which somebody else opens by its name is one that ``open_regular`` would open.

    Raises:
        UnusableFileError, OSError: as there.
    """
    _check_name(path)
    _check_regular(os.stat(path), path, longest)


def read_regular(path: StrPath, longest: int, *, dir_fd: int | None = None, links: bool = True) -> bytes:
    """What a regular file holds: at most ``longest`` bytes, even if it grows meanwhile. Else as ``open_regular``."""
    with open_regular(path, longest=longest, dir_fd=dir_fd, links=links) as file:
        content = file.read(min(os.fstat(file.fileno()).st_size, longest) + 1)
        parts = [content]
        length = len(content)
        while content and length <= longest:  # it grows, or is one of those that don't know their size
            content = file.read(min(AT_ONCE, longest + 1 - length))
            if content:  # else the usual file of one part would be copied
                parts.append(content)
            length += len(content)
    if length > longest:
        raise too_long(path, longest)
    return b"".join(parts) if len(parts) > 1 else parts[0]


def read_regular_text(path: StrPath, longest: int) -> str:
    """What a regular file holds as text in UTF-8, with or without the mark that may stand before it.

    Raises:
        UnusableFileError: it is something else, longer, or no text.
        OSError: it can't be opened.
    """
    try:
        return read_regular(path, longest).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnusableFileError("it is no text in UTF-8; convert it, or name another file", path) from error


def too_long(path: StrPath, longest: int) -> UnusableFileError:
    """The error about a file of more than ``longest`` bytes."""
    return UnusableFileError(
        f"it is longer than the {longest:,} bytes that are read of such a file; name another", path
    )


def _check_regular(about: os.stat_result, path: StrPath, longest: int | None) -> None:
    if not stat.S_ISREG(about.st_mode):
        todo = "name one" if stat.S_ISDIR(about.st_mode) else "save it to one first"
        raise UnusableFileError(f"it is {kind_of(about.st_mode)}, and only a regular file is read; {todo}", path)
    if longest is not None and about.st_size > longest:
        raise too_long(path, longest)


# ------------------------------------------------------------------------------------------------------------- writing


def open_private(path: StrPath, flags: int = os.O_RDWR | os.O_CREAT, *, dir_fd: int | None = None) -> int:
    """The descriptor of a regular file for writing that is this user's: with ``O_CREAT`` made if it is not there.

    One that is made has the mode 0600 from its first moment. The mode of one that was there is left as it is.

    Args:
        path: its name; relative to ``dir_fd`` where that is given.
        flags: as for ``os.open``; ``O_CLOEXEC`` and what keeps from waiting are added. ``O_TRUNC`` takes effect only on
            a file that may be written.
        dir_fd: an open directory.

    Raises:
        UnusableFileError: it is a link, no regular file, another user's, or has a second name.
        OSError: it can't be opened or made.
    """
    _check_name(path)
    makes, flags = flags & os.O_CREAT, flags | ALWAYS | os.O_NOFOLLOW
    for _ in range(TRIES):
        try:
            return _made(path, flags, dir_fd) if makes else _found(path, flags, dir_fd)
        except FileExistsError:
            if flags & os.O_EXCL:
                raise
        with contextlib.suppress(FileNotFoundError):  # gone in between
            return _found(path, flags, dir_fd)
    raise UnusableFileError("it is made and deleted again by somebody all the time; choose another name", path)


def make_private(path: StrPath) -> None:
    """Make an empty file of the mode 0600; raises FileExistsError where there is one."""
    os.close(open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))


def check_private(path: StrPath) -> None:
    """See that a file which somebody else opens by its name is one that ``open_private`` would open.

    Raises:
        UnusableFileError, OSError: as there.
    """
    _check_name(path)
    _check_writable(os.stat(path, follow_symlinks=False), path)


def _found(path: StrPath, flags: int, dir_fd: int | None) -> int:
    """A file that is there."""
    _check_writable(os.stat(path, dir_fd=dir_fd, follow_symlinks=False), path)
    descriptor = os.open(path, flags & ~(os.O_CREAT | os.O_EXCL | os.O_TRUNC), dir_fd=dir_fd)
    try:
        _check_writable(os.fstat(descriptor), path)
        if flags & os.O_TRUNC:
            os.ftruncate(descriptor, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _made(path: StrPath, flags: int, dir_fd: int | None) -> int:
    """A new file. With ``O_EXCL`` the last name is never followed, not even where its target is missing."""
    descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, PRIVATE_FILE, dir_fd=dir_fd)
    with contextlib.suppress(OSError):  # a disk without modes
        os.fchmod(descriptor, PRIVATE_FILE)  # a umask may have taken the user's own rights
    return descriptor


def _check_writable(about: os.stat_result, path: StrPath) -> None:
    if stat.S_ISLNK(about.st_mode):
        raise UnusableFileError("it is a link, and nothing is written through one; name the file itself", path)
    if not stat.S_ISREG(about.st_mode):
        raise UnusableFileError(
            f"it is {kind_of(about.st_mode)}, and only a regular file is written; name another", path
        )
    if about.st_uid != os.geteuid():
        raise UnusableFileError("it belongs to another user, who could read what is written; use a copy of it", path)
    if about.st_nlink > 1:
        raise UnusableFileError("it has a second name (a hard link), under which others may read it; use a copy", path)


def replace_private(path: StrPath, content: bytes | Iterable[bytes | memoryview], *, durable: bool = False) -> None:
    """Put a file with the mode 0600 in the place of one that may be there: all of it, or nothing.

    Args:
        path: its name.
        content: the bytes, or parts of them.
        durable: whether it is to be on the disk, name included, when this returns.

    Raises:
        UnusableFileError: what is there is a link, no regular file, or another user's.
        OSError: it can't be written.
    """
    _check_name(path)
    directory, name = os.path.split(os.path.abspath(os.fspath(path)))
    with closing(os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as folder:
        with contextlib.suppress(FileNotFoundError):
            _check_replaceable(os.stat(name, dir_fd=folder, follow_symlinks=False), path)
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


def _check_replaceable(about: os.stat_result, path: StrPath) -> None:
    if stat.S_ISLNK(about.st_mode):
        raise UnusableFileError("it is a link, and nothing is written through one; name the file itself", path)
    if not stat.S_ISREG(about.st_mode):
        raise UnusableFileError(
            f"it is {kind_of(about.st_mode)}, and only a regular file is replaced; name another", path
        )
    if about.st_uid != os.geteuid():
        raise UnusableFileError("it belongs to another user; choose another name, or delete it first", path)


# --------------------------------------------------------------------------------------------------------- directories


def make_directory(path: StrPath) -> None:
    """See that a directory is there. It, and those above it that are made, have the mode 0700.

    Raises:
        UnusableFileError: something else has its name.
        OSError: it can't be made.
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
    """The descriptor of a directory of this user's, whose last name is no link: what is done by ``dir_fd`` stays in it.

    Raises:
        UnusableFileError: it is a link, no directory, or another user's.
        OSError: it can't be opened.
    """
    _check_name(path)
    _check_own_directory(os.stat(path, dir_fd=dir_fd, follow_symlinks=False), path)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | ALWAYS
    descriptor = os.open(path, flags, dir_fd=dir_fd)
    try:
        _check_own_directory(os.fstat(descriptor), path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_own_directory(about: os.stat_result, path: StrPath) -> None:
    if not stat.S_ISDIR(about.st_mode):
        raise UnusableFileError(f"it is {kind_of(about.st_mode)} where a directory of ours has to be; delete it", path)
    if about.st_uid != os.geteuid():
        raise UnusableFileError(
            "it belongs to another user, who could read or change what is in it; choose another", path
        )


def force_directory(path: StrPath) -> None:
    """Force a directory's entries to the disk.

    Raises:
        OSError: it can't be done.
    """
    with closing(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as descriptor:
        os.fsync(descriptor)


def state_directory(environment: Mapping[str, str] | None = None, platform: str = sys.platform) -> Path:
    """The directory of the user's for what cogstep itself keeps. Nothing is created here.

    By the XDG Base Directory Specification ``$XDG_STATE_HOME/cogstep``, by default ``~/.local/state/cogstep``; on macOS
    ``~/Library/Application Support/cogstep`` where that variable is not set.
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
    """``state_directory()``, made if it is not there, and found to be one that nobody else writes in.

    Raises:
        UnusableFileError: another user may put files there.
        OSError: it can't be made.
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
    """A descriptor for as long as the block lasts."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)
