"""Start bubblewrap, and cover paths in its sandbox before the command runs.

``bwrap`` follows links while it mounts, and makes what it mounts on if that is missing. Other commands may change links
in the root at that time. So ``bwrap`` mounts nothing below a place that a command can write in. This program does, in
the finished sandbox: it opens each path without following a link, and mounts on what it has opened. A mount moves with
the directory or file that it is on.

Runs as a separate program, from memory. It becomes ``bwrap``. A child of it waits until the sandbox is there, enters
it, and mounts. Until then a shell in the sandbox (``_bubblewrap.GATE``) waits to run the command; it never does if this
child fails. This module imports few others, to start fast.
"""

import ctypes
import errno
import fcntl
import marshal
import os
import stat
import sys
from contextlib import suppress

READY, GO = 8, 9
"""The descriptors on which the shell reports that the sandbox is there, and waits for the order to go on."""

RDONLY, NOSUID, NODEV, NOEXEC, REMOUNT, BIND, REC = 1, 2, 4, 8, 32, 4096, 16384
"""``MS_*`` of ``mount``."""
KEPT = {8: 8, 1024: 1024, 2048: 2048, 4096: 1 << 21}
"""Flags of a mount that must not be lost: ``ST_*`` with their ``MS_*``."""
HOW = getattr(os, "O_PATH", 0) | os.O_NOFOLLOW | os.O_CLOEXEC
NEWNS, NEWUSER, NEWPID = 0x00020000, 0x10000000, 0x20000000
GET_USERNS = 0xB701

LIBC = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Read the plan and become ``bwrap``.

    ``sys.argv[1]`` is the number of a descriptor with the plan: the root, and pairs of a way to cover and a path. The
    words of ``bwrap`` follow.
    """
    with os.fdopen(int(sys.argv[1]), "rb") as file:
        root, steps = marshal.load(file)
    words = sys.argv[2:]
    try:
        identity = Paths().identify(root)
        (told, telling), (ready, readying), (going, go) = pipe(), pipe(), pipe()
        middle = os.fork()
        if not middle:
            if os.fork():  # so ``bwrap`` has no child that it doesn't know
                os._exit(0)
            for one in (telling, readying, going):
                os.close(one)
            watch(told, ready, go, root, identity, steps)
        os.waitpid(middle, 0)
        os.dup2(readying, READY)
        os.dup2(going, GO)
        os.set_inheritable(telling, True)
        os.execv(words[0], [words[0], "--info-fd", str(telling), *words[1:]])
    except OSError as error:
        fail(error)


def pipe() -> "list[int]":
    """Return a pipe whose numbers are none that the shell uses."""
    ends = os.pipe()
    found = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, GO + 1) for end in ends]
    for end in ends:
        os.close(end)
    return found


def watch(
    told: int, ready: int, go: int, root: bytes, identity: "tuple[int, int]", steps: "list[tuple[str, bytes]]"
) -> None:
    """Wait for the sandbox, cover the paths, and let the command run. Ends this process."""
    process = 0
    try:
        text = b""
        while part := os.read(told, 4096):
            text += part
        if os.read(ready, 1):
            process = int(text.partition(b'"child-pid":')[2].split(b",")[0].split(b"}")[0])
            enter(process)
            child = os.fork()  # only a child is within the new process ids, and has their /proc
            if not child:
                try:
                    cover(root, identity, steps)
                except BaseException as error:
                    fail(error)
                os._exit(0)
            if os.waitpid(child, 0)[1] == 0:
                os.write(go, b"go\n")
        os._exit(0)
    except BaseException as error:
        fail(error)


def fail(error: BaseException) -> None:
    """Report an error and end this process."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    place = getattr(error, "filename", None)
    text += f": {os.fsdecode(place)}" if place else ""
    with suppress(OSError):
        os.write(2, f"the command can't be confined, and was not run: {text}\n".encode("utf-8", "backslashreplace"))
    os._exit(126)


def enter(process: int) -> None:
    """Enter the namespaces of a process: its mounts, its process ids, and the users that these belong to."""
    mounts = os.open(f"/proc/{process}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    numbers = os.open(f"/proc/{process}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    if os.fstat(mounts).st_ino == os.stat("/proc/self/ns/mnt").st_ino:  # another process has its number by now
        raise OSError(errno.ESRCH, "the sandbox has ended")
    owner = fcntl.ioctl(mounts, GET_USERNS)
    if os.fstat(owner).st_ino != os.stat("/proc/self/ns/user").st_ino:
        _check(LIBC.setns(owner, NEWUSER))
    _check(LIBC.setns(numbers, NEWPID))
    _check(LIBC.setns(mounts, NEWNS))


def cover(root: bytes, identity: "tuple[int, int]", steps: "list[tuple[str, bytes]]") -> None:
    """Mount on the paths, those above others first."""
    paths = Paths()
    if paths.identify(root) != identity:
        raise OSError(errno.ELOOP, "it has been replaced", root)
    for how, path in sorted(steps, key=lambda step: (step[1].count(b"/"), step[1])):
        try:
            place = paths.open(path)
        except FileNotFoundError:
            continue  # it has gone since
        is_folder = stat.S_ISDIR(os.fstat(place).st_mode)
        if how == "pin" and not is_folder:
            raise OSError(errno.ENOTDIR, "it has become a file", path)
        flags = NOSUID | NODEV
        if how == "hide" and is_folder:
            _mount(b"tmpfs", place, b"tmpfs", flags | RDONLY | NOEXEC, b"mode=0755,size=4k")
        elif how == "hide":  # not a device in the sandbox, and so permitted to nobody
            _mount(b"/dev/null", place, None, BIND, None)
            paths.remount(path, flags | RDONLY | NOEXEC)
        else:
            _mount(_by_number(place), place, None, BIND | REC, None)
        if how == "fix":
            paths.remount(path, flags | RDONLY)
            for below in mounts_below(path):
                paths.remount(below, flags | RDONLY)
        os.close(place)


class Paths:
    """Opens absolute paths without following links. Of the last path, the directory stays open: the next is often in
    it.
    """

    def __init__(self) -> None:
        self._above = b"/"
        self._folder = os.open(b"/", HOW)

    def open(self, path: bytes) -> int:
        """Open a path.

        Raises:
            OSError: there is a link in it, or nothing.
        """
        *above, name = [one for one in path.split(b"/") if one]
        if b"/".join(above) != self._above:
            self._above = b""
            os.close(self._folder)
            self._folder = os.open(b"/", HOW)
            for one in above:
                found = _open(one, self._folder, path)
                os.close(self._folder)
                self._folder = found
            self._above = b"/".join(above)
        return _open(name, self._folder, path)

    def identify(self, path: bytes) -> "tuple[int, int]":
        place = self.open(path)
        status = os.fstat(place)
        os.close(place)
        return status.st_dev, status.st_ino

    def remount(self, path: bytes, flags: int) -> None:
        """Change the flags of the mount on a path. Fails if there is none."""
        place = self.open(path)
        kept = os.statvfs(_by_number(place)).f_flag
        for known, wanted in KEPT.items():
            flags |= wanted if kept & known else 0
        _mount(None, place, None, REMOUNT | BIND | flags, None)
        os.close(place)


def _open(name: bytes, folder: int, path: bytes) -> int:
    found = os.open(name, HOW, dir_fd=folder)
    if stat.S_ISLNK(os.fstat(found).st_mode):
        os.close(found)
        raise OSError(errno.ELOOP, "there is a link in a path that has none otherwise", path)
    return found


def mounts_below(path: bytes) -> "list[bytes]":
    with open(b"/proc/self/mountinfo", "rb") as file:
        fields = [line.split()[4] for line in file]
    places = [one.replace(b"\\040", b" ").replace(b"\\011", b"\t").replace(b"\\012", b"\n") for one in fields]
    return [one for one in (place.replace(b"\\134", b"\\") for place in places) if one.startswith(path + b"/")]


def _by_number(descriptor: int) -> bytes:
    return b"/proc/self/fd/%d" % descriptor


def _mount(source: "bytes | None", place: int, kind: "bytes | None", flags: int, data: "bytes | None") -> None:
    if LIBC.mount(source, _by_number(place), kind, ctypes.c_ulong(flags), data) < 0:
        _fail("a path can't be covered", os.readlink(_by_number(place)))


def _check(result: int) -> None:
    if result < 0:
        _fail("the sandbox can't be entered")


def _fail(what: str, *path: bytes) -> None:
    number = ctypes.get_errno()
    raise OSError(number, f"{what} ({os.strerror(number)})", *path)
