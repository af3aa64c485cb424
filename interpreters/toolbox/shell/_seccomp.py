"""Decide with seccomp which system calls a command may use.

A module of ``_landlock_start.py``: it imports nothing else from this project, and little at all.
"""

import _socket
import ctypes
import errno
import struct
from collections.abc import Iterable

from interpreters.toolbox.shell._limits import Limits
from interpreters.toolbox.shell._system_calls import LAST_KNOWN, MACHINES, call, machine, number

REFUSED = {
    errno.EPERM: (
        # Other processes, and what processes share without a file.
        "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease", "kcmp", "pidfd_getfd",
        "migrate_pages", "move_pages", "shmget", "shmat", "shmctl", "semget", "semop", "semctl", "semtimedop",
        "msgget", "msgsnd", "msgrcv", "msgctl", "mq_open", "mq_unlink", "add_key", "request_key", "keyctl",
        # Namespaces and mounts, and files without a path.
        "unshare", "setns", "mount", "umount2", "pivot_root", "chroot", "open_tree", "move_mount", "fsopen", "fsconfig",
        "fsmount", "fspick", "mount_setattr", "name_to_handle_at", "open_by_handle_at", "fanotify_init",
        "fanotify_mark", "quotactl", "quotactl_fd", "acct", "swapon", "swapoff", "nfsservctl", "lookup_dcookie",
        # The machine, and parts of the kernel with many holes.
        "reboot", "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "create_module",
        "syslog", "settimeofday", "clock_settime", "clock_adjtime", "sethostname", "setdomainname", "iopl", "ioperm",
        "modify_ldt", "uselib", "_sysctl", "vhangup", "bpf", "perf_event_open", "userfaultfd", "io_uring_setup",
        "io_uring_enter", "io_uring_register",
    ),
    errno.ENOTSUP: ("setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr"),
    errno.ENOSYS: ("clone3",),  # its flags are in memory; the C library uses ``clone`` instead
}  # fmt: skip
"""System calls that fail, by their error."""
SHARED = ("add_key", "request_key", "keyctl", "io_uring_setup", "io_uring_enter", "io_uring_register")
"""Calls that fail also in namespaces: keys, which have none, and a way to make sockets beside ``socket``."""
NETWORK_ONLY = ("connect", "bind", "listen", "accept", "accept4")
"""Calls that fail if the command may not use the network."""
OTHER_PROCESS = ("prlimit64", "sched_setparam", "sched_setscheduler", "sched_setattr", "sched_setaffinity")
"""Calls whose first argument is a process. Only 0, the caller itself, may be used."""
BROKERED = ("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchown", "fchownat", "utime", "utimes",
            "futimesat", "utimensat", "inotify_add_watch")  # fmt: skip
"""Calls that the broker carries out."""

REQUESTS = (
    *range(0x5401, 0x540A), 0x540B, 0x540F, 0x5410, 0x5411, 0x5413, 0x5414, 0x5422, 0x5429,  # terminals, no TIOCSTI
    0x802C542A, 0x402C542B, 0x402C542C, 0x402C542D, 0x541B, 0x5421, 0x5450, 0x5451, 0x5452, 0x5460,
    0x40049409, 0x4020940D, 0xC020660B, 0x80086601, 0x2,  # copies that share blocks, maps of blocks, attributes
    0x8905, 0x8910, 0x8912, 0x8913, 0x8915, 0x8917, 0x8919, 0x891B, 0x8921, 0x8927, 0x8933,  # addresses of this machine
)  # fmt: skip
"""Requests of ``ioctl`` that are known to be harmless. All others fail: some change files that are open for reading."""

NAMESPACES = 0x7E020000
"""The flags ``CLONE_NEW*``."""

ALLOW, ASK, ERROR = 0x7FFF0000, 0x7FC00000, 0x00050000
"""``SECCOMP_RET_*``."""


class Filter:
    """A program for the kernel that decides about each system call."""

    LOAD, EQUAL, GREATER, ANY_BIT, AND, RETURN = 0x20, 0x15, 0x25, 0x45, 0x54, 0x06
    """Instructions of BPF."""

    def __init__(self) -> None:
        self._code: list[tuple[int, int, int, int]] = []

    def refuse(self, name: str, error: int) -> None:
        self.block(name, [(self.RETURN, 0, 0, ERROR | error)])

    def block(self, name: str, code: "list[tuple[int, int, int, int]]") -> None:
        """Add instructions for one system call, which end with a result."""
        if number(name) >= 0:
            self._code += [(self.EQUAL, 0, len(code), number(name)), *code]

    def one_of(
        self, argument: int, values: "Iterable[int]", error: int, mask: int = 0
    ) -> "list[tuple[int, int, int, int]]":
        """Return instructions that allow these values of an argument."""
        code = [self.argument(argument), *([(self.AND, 0, 0, mask)] if mask else [])]
        for value in values:
            code += [(self.EQUAL, 0, 1, value), (self.RETURN, 0, 0, ALLOW)]
        return [*code, (self.RETURN, 0, 0, ERROR | error)]

    def argument(self, index: int, high: int = 0) -> "tuple[int, int, int, int]":
        """Return the instruction that loads half of an argument."""
        return (self.LOAD, 0, 0, 16 + 8 * index + 4 * high)

    def build(self, limits: Limits) -> bytes:
        """Return the program for a command that Landlock confines."""
        refuse, allow = (self.RETURN, 0, 0, ERROR | errno.EPERM), (self.RETURN, 0, 0, ALLOW)
        self._begin()
        for error, names in REFUSED.items():
            for name in names:
                self.refuse(name, error)
        for name in BROKERED:
            self.block(name, [(self.RETURN, 0, 0, ASK)])
        if limits.hides_directories():
            self.block("getdents64", [(self.RETURN, 0, 0, ASK)])
            self.refuse("getdents", errno.ENOSYS)
        self.block("clone", [self.argument(0), (self.ANY_BIT, 0, 1, NAMESPACES), refuse, allow])
        self.block("kill", [self.argument(0), (self.EQUAL, 0, 1, 0xFFFFFFFF), refuse, allow])
        for name in OTHER_PROCESS:
            self.block(name, self.one_of(0, [0], errno.EPERM))
        for name, itself in (("setpriority", 0), ("ioprio_set", 1)):
            self.block(name, [self.argument(0), (self.EQUAL, 1, 0, itself), refuse, *self.one_of(1, [0], errno.EPERM)])
        self.block("ioctl", self.one_of(1, REQUESTS, errno.ENOTTY))
        # Connected pairs only: one for datagrams could still send to any other address.
        pair = self.one_of(1, [1, 5], errno.EPERM, mask=0xF)
        self.block("socketpair", [self.argument(0), (self.EQUAL, 1, 0, _socket.AF_UNIX), refuse, *pair])
        if limits.network:
            internet = self.one_of(1, [1, 2], errno.EPERM, mask=0xF)  # TCP, UDP
            routes = self.one_of(2, [0], errno.EPERM)
            code = [self.argument(0), (self.EQUAL, 1, 0, 2), (self.EQUAL, 0, len(internet), 10), *internet]
            self.block("socket", [*code, (self.EQUAL, 0, len(routes), 16), *routes, refuse])
        else:
            for name in ("socket", *NETWORK_ONLY):
                self.refuse(name, errno.EPERM)
            address = [self.argument(4), (self.EQUAL, 1, 0, 0), refuse, self.argument(4, 1), (self.EQUAL, 1, 0, 0)]
            self.block("sendto", [*address, refuse, allow])
        return self._end()

    def build_small(self, *, network: bool) -> bytes:
        """Return the program for a command that namespaces confine: for what they don't separate."""
        refuse = (self.RETURN, 0, 0, ERROR | errno.EPERM)
        self._begin()
        for name in SHARED:
            self.refuse(name, errno.EPERM)
        routes = self.one_of(2, [0, 4] if network else range(23), errno.EPERM)
        families = [self.argument(0)]
        for family in (_socket.AF_UNIX, _socket.AF_INET, _socket.AF_INET6):
            families += [(self.EQUAL, 0, 1, family), (self.RETURN, 0, 0, ALLOW)]
        self.block("socket", [*families, (self.EQUAL, 0, len(routes), 16), *routes, refuse])
        self.block("socketpair", self.one_of(0, [_socket.AF_UNIX], errno.EPERM))
        return self._end()

    def _begin(self) -> None:
        missing = (self.RETURN, 0, 0, ERROR | errno.ENOSYS)
        arch = list(MACHINES.values())[machine()]
        self._code = [(self.LOAD, 0, 0, 4), (self.EQUAL, 1, 0, arch), missing]  # another machine's numbers
        self._code += [(self.LOAD, 0, 0, 0), (self.GREATER, 0, 1, LAST_KNOWN), missing]  # also x32, from 2**30 on

    def _end(self) -> bytes:
        return b"".join(struct.pack("=HBBI", *one) for one in [*self._code, (self.RETURN, 0, 0, ALLOW)])


def install(program: bytes) -> int:
    """Put a filter on this process. Returns the descriptor that the kernel's questions come from."""
    code = ctypes.create_string_buffer(program, len(program))
    pointer = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
    new_listener, wait_killable = 8, 32
    try:
        return call("seccomp", 1, new_listener | wait_killable, pointer)
    except OSError as error:
        if error.errno != errno.EINVAL:  # before Linux 5.19 there was no second flag
            raise
        return call("seccomp", 1, new_listener, pointer)
