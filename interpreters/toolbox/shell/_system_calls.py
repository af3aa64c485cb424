"""Numbers of system calls, for x86_64 and aarch64.

A module of ``_landlock_start.py``: it imports nothing else from this project, and little at all.
"""

import ctypes
import os
import sys

MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""Machines whose tables are below: ``AUDIT_ARCH`` by name."""

NUMBERS: "dict[str, tuple[int, int]]" = {
    # name: number on x86_64, on aarch64; -1 without such a call. From the kernel's ``unistd.h``.
    "ioctl": (16, 29), "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "socket": (41, 198),
    "connect": (42, 203), "accept": (43, 202), "sendto": (44, 206), "bind": (49, 200), "listen": (50, 201),
    "socketpair": (53, 199), "clone": (56, 220), "kill": (62, 129), "semget": (64, 190), "semop": (65, 193),
    "semctl": (66, 191), "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188), "msgctl": (71, 187),
    "getdents": (78, -1), "chmod": (90, -1), "fchmod": (91, 52), "chown": (92, -1), "fchown": (93, 55),
    "lchown": (94, -1), "syslog": (103, 116), "capset": (126, 91), "utime": (132, -1), "uselib": (134, -1),
    "setpriority": (141, 140), "sched_setparam": (142, 118), "sched_setscheduler": (144, 119), "vhangup": (153, 58),
    "modify_ldt": (154, -1), "pivot_root": (155, 41), "_sysctl": (156, -1), "chroot": (161, 51), "acct": (163, 89),
    "settimeofday": (164, 170), "mount": (165, 40), "umount2": (166, 39), "swapon": (167, 224), "swapoff": (168, 225),
    "reboot": (169, 142), "sethostname": (170, 161), "setdomainname": (171, 162), "iopl": (172, -1),
    "ioperm": (173, -1), "create_module": (174, -1), "init_module": (175, 105), "delete_module": (176, 106),
    "quotactl": (179, 60), "nfsservctl": (180, 42), "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16), "sched_setaffinity": (203, 122),
    "lookup_dcookie": (212, 18), "getdents64": (217, 61), "semtimedop": (220, 192), "clock_settime": (227, 112),
    "utimes": (235, -1), "mq_open": (240, 180), "mq_unlink": (241, 181), "kexec_load": (246, 104),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "ioprio_set": (251, 30),
    "inotify_add_watch": (254, 27), "migrate_pages": (256, 238), "fchownat": (260, 54), "futimesat": (261, -1),
    "fchmodat": (268, 53), "unshare": (272, 97), "move_pages": (279, 239), "utimensat": (280, 88),
    "accept4": (288, 242), "perf_event_open": (298, 241), "fanotify_init": (300, 262), "fanotify_mark": (301, 263),
    "prlimit64": (302, 261), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    "clock_adjtime": (305, 266), "setns": (308, 268), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "kcmp": (312, 272), "finit_module": (313, 273), "sched_setattr": (314, 274), "seccomp": (317, 277),
    "kexec_file_load": (320, 294), "bpf": (321, 280), "userfaultfd": (323, 282),
    # From here on the numbers are the same on all machines.
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433),
    "clone3": (435, 435), "close_range": (436, 436), "pidfd_getfd": (438, 438), "process_madvise": (440, 440),
    "mount_setattr": (442, 442), "quotactl_fd": (443, 443), "landlock_create_ruleset": (444, 444),
    "landlock_add_rule": (445, 445), "landlock_restrict_self": (446, 446), "process_mrelease": (448, 448),
    "set_mempolicy_home_node": (450, 450), "fchmodat2": (452, 452),
}  # fmt: skip
LAST_KNOWN = 462
"""The last system call that this table covers (``mseal``, Linux 6.10). Later ones do not exist for a command."""

LIBC = ctypes.CDLL(None, use_errno=True)


def machine() -> int:
    """Return this machine's column in ``NUMBERS``, or -1."""
    name = os.uname().machine
    return list(MACHINES).index(name) if name in MACHINES and sys.maxsize > 2**32 else -1


def number(name: str) -> int:
    return NUMBERS[name][machine()]


def call(name: str, *arguments: "int | bytes | ctypes.Array[ctypes.c_char] | None") -> int:
    """Call the system.

    Raises:
        OSError: it returned an error.
    """
    words = [ctypes.c_ulong(one & 0xFFFFFFFFFFFFFFFF) if isinstance(one, int) else one for one in arguments]
    result: int = _syscall(ctypes.c_long(number(name)), *words)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")
    return result


_syscall = LIBC["syscall"]
_syscall.restype = ctypes.c_long


def prctl(option: int, *arguments: int) -> int:
    """Call ``prctl``. Returns its result, -1 for an error."""
    four = [ctypes.c_ulong(one) for one in (*arguments, 0, 0, 0, 0)[:4]]
    return int(LIBC.prctl(ctypes.c_int(option), *four))


def place(descriptor: int) -> bytes:
    """Return the path of an open file."""
    return os.readlink(b"/proc/self/fd/%d" % descriptor)
