"""Carry out system calls for a command whose files neither Landlock nor seccomp can check.

A module of ``_landlock_start.py``: it imports nothing else from this project, and little at all.
"""

import ctypes
import errno
import fcntl
import os
import struct
from collections.abc import Callable
from contextlib import suppress

from interpreters.toolbox.shell._limits import Limits
from interpreters.toolbox.shell._system_calls import call, number, place

AT_FDCWD, AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH = -100, 0x100, 0x1000
IN_DONT_FOLLOW = 0x02000000
RECEIVE, SEND, IS_VALID = 0xC0502100, 0xC0182101, 0x40082102
"""``SECCOMP_IOCTL_NOTIF_*``."""


class Broker:
    """Carries out those system calls of a command whose files neither Landlock nor seccomp can check.

    Changes of mode, owner and times succeed in ``root`` and ``temporary``, except in hidden and read-only paths.
    Watches (inotify) succeed for readable paths. If a directory is hidden, it also lists directories, since Landlock's
    right to list a directory holds for all that are below.

    Args:
        listener: the descriptor that the kernel's questions come from.
        limits: the limits of the command.
    """

    def __init__(self, listener: int, limits: Limits) -> None:
        self.listener = listener
        self._limits = limits
        self._calls: dict[int, Callable[[int, list[int]], int]] = {}
        for name, act in (
            ("chmod", lambda pid, a: self._chmod(self._at(pid, AT_FDCWD, a[0], 0), a[1])),
            ("fchmod", lambda pid, a: self._chmod(self._file(pid, a[0]), a[1])),
            ("fchmodat", lambda pid, a: self._chmod(self._at(pid, a[0], a[1], 0), a[2])),
            ("fchmodat2", lambda pid, a: self._chmod(self._at(pid, a[0], a[1], a[3]), a[2])),
            ("chown", lambda pid, a: self._chown(self._at(pid, AT_FDCWD, a[0], 0), a[1], a[2])),
            ("lchown", lambda pid, a: self._chown(self._at(pid, AT_FDCWD, a[0], AT_SYMLINK_NOFOLLOW), a[1], a[2])),
            ("fchown", lambda pid, a: self._chown(self._file(pid, a[0]), a[1], a[2])),
            ("fchownat", lambda pid, a: self._chown(self._at(pid, a[0], a[1], a[4]), a[2], a[3])),
            ("utime", lambda pid, a: self._utime(pid, self._at(pid, AT_FDCWD, a[0], 0), a[1], "=qq")),
            ("utimes", lambda pid, a: self._utime(pid, self._at(pid, AT_FDCWD, a[0], 0), a[1], "=qqqq")),
            ("futimesat", lambda pid, a: self._utime(pid, self._at(pid, a[0], a[1], 0, null=True), a[2], "=qqqq")),
            ("utimensat", lambda pid, a: self._utime(pid, self._at(pid, a[0], a[1], a[3], null=True), a[2], "")),
            ("getdents64", self._list),
            ("inotify_add_watch", self._watch),
        ):
            self._calls[number(name)] = act

    def answer(self) -> None:
        """Carry out one call."""
        request = bytearray(80)
        try:
            fcntl.ioctl(self.listener, RECEIVE, request)
        except OSError:  # the caller was killed
            return
        identity, pid, _, called, _, _, *arguments = struct.unpack("=QIIiIQ6Q", request)
        value, error = 0, 0
        self._identity = identity
        try:
            value = self._calls[called](pid, arguments)
        except OSError as failure:
            error = failure.errno or errno.EPERM
        except Exception:
            error = errno.EPERM
        with suppress(OSError):
            fcntl.ioctl(self.listener, SEND, struct.pack("=QqiI", identity, value, -error, 0))

    def _check_caller(self) -> None:
        """Check that the caller still waits, so that its process id is not another process's by now."""
        fcntl.ioctl(self.listener, IS_VALID, struct.pack("=Q", self._identity))

    def _memory(self, pid: int, address: int, size: int) -> bytes:
        memory = os.open(b"/proc/%d/mem" % pid, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._check_caller()
            return os.pread(memory, size, address)
        finally:
            os.close(memory)

    def _string(self, pid: int, address: int) -> bytes:
        text = b""
        while b"\0" not in text:
            if len(text) > 4096:
                raise OSError(errno.ENAMETOOLONG, "the path is too long")
            at = address + len(text)
            text += self._memory(pid, at, 4096 - at % 4096) or b"\0"  # not beyond the page, which may be the last
        return text.partition(b"\0")[0]

    def _file(self, pid: int, descriptor: int) -> int:
        """Open the file that the caller has open."""
        signed = ctypes.c_int(descriptor & 0xFFFFFFFF).value
        link = b"/proc/%d/cwd" % pid if signed == AT_FDCWD else b"/proc/%d/fd/%d" % (pid, max(signed, 0))
        try:
            found = os.open(link, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise OSError(errno.EBADF, "no such descriptor") from error
        self._check_caller()
        return found

    def _at(self, pid: int, folder: int, address: int, flags: int, *, null: bool = False) -> int:
        """Open the file that a path names for the caller."""
        if not address and null:
            return self._file(pid, folder)
        path = self._string(pid, address)
        if not path:
            if flags & AT_EMPTY_PATH:
                return self._file(pid, folder)
            raise OSError(errno.ENOENT, "an empty path")
        for prefix, own in ((b"/proc/self/", b"/proc/%d/" % pid), (b"/dev/fd/", b"/proc/%d/fd/" % pid)):
            if path.startswith(prefix):
                path = own + path[len(prefix) :]
        how = os.O_PATH | os.O_CLOEXEC | (os.O_NOFOLLOW if flags & AT_SYMLINK_NOFOLLOW else 0)
        if path.startswith(b"/"):
            return os.open(path, how)
        base = self._file(pid, folder)
        try:
            return os.open(path, how, dir_fd=base)
        finally:
            os.close(base)

    def _check_writable(self, descriptor: int) -> None:
        if not self._limits.may_write(place(descriptor)):
            raise OSError(errno.EPERM, "not a file that may be changed")

    def _chmod(self, descriptor: int, mode: int) -> int:
        try:
            self._check_writable(descriptor)
            os.chmod(b"/proc/self/fd/%d" % descriptor, mode & 0o7777)
        finally:
            os.close(descriptor)
        return 0

    def _chown(self, descriptor: int, user: int, group: int) -> int:
        try:
            self._check_writable(descriptor)
            return call("fchownat", descriptor, b"", user & 0xFFFFFFFF, group & 0xFFFFFFFF, AT_EMPTY_PATH)
        finally:
            os.close(descriptor)

    def _utime(self, pid: int, descriptor: int, address: int, form: str) -> int:
        """Set the times of a file. ``form`` is the older calls' layout: seconds, or seconds and microseconds."""
        try:
            self._check_writable(descriptor)
            times = None
            if address:
                times = self._memory(pid, address, struct.calcsize(form or "=qqqq"))
                if form == "=qq":
                    first, second = struct.unpack(form, times)
                    times = struct.pack("=qqqq", first, 0, second, 0)
                elif form:
                    first, before, second, after = struct.unpack(form, times)
                    times = struct.pack("=qqqq", first, before * 1000, second, after * 1000)
            return call("utimensat", descriptor, b"", times, AT_EMPTY_PATH)
        finally:
            os.close(descriptor)

    def _copy(self, pid: int, descriptor: int) -> int:
        """Return a copy of the caller's descriptor, which shares its position."""
        with open(b"/proc/%d/status" % pid, "rb") as file:
            process = int(file.read().partition(b"\nTgid:")[2].split(None, 1)[0])
        handle = os.pidfd_open(process)
        try:
            self._check_caller()
            return call("pidfd_getfd", handle, descriptor & 0xFFFFFFFF, 0)
        finally:
            os.close(handle)

    def _list(self, pid: int, arguments: "list[int]") -> int:
        folder = self._copy(pid, arguments[0])
        try:
            if self._limits.unreadable.denies(place(folder)):
                raise OSError(errno.EACCES, "a hidden directory")
            buffer = ctypes.create_string_buffer(min(arguments[2] & 0xFFFFFFFF, 1 << 16))
            size = call("getdents64", folder, buffer, len(buffer))
            memory = os.open(b"/proc/%d/mem" % pid, os.O_WRONLY | os.O_CLOEXEC)
            try:
                self._check_caller()
                if os.pwrite(memory, buffer.raw[:size], arguments[1]) != size:
                    raise OSError(errno.EFAULT, "no such memory")
            finally:
                os.close(memory)
            return size
        finally:
            os.close(folder)

    def _watch(self, pid: int, arguments: "list[int]") -> int:
        mask = arguments[2] & 0xFFFFFFFF
        flags = AT_SYMLINK_NOFOLLOW if mask & IN_DONT_FOLLOW else 0
        descriptor = self._at(pid, AT_FDCWD, arguments[1], flags)
        try:
            if not self._limits.may_read(place(descriptor)):
                raise OSError(errno.EACCES, "not a file that may be read")
            watcher = self._copy(pid, arguments[0])
            try:
                return call("inotify_add_watch", watcher, b"/proc/self/fd/%d" % descriptor, mask & ~IN_DONT_FOLLOW)
            finally:
                os.close(watcher)
        finally:
            os.close(descriptor)
