"""Commands in the real sandbox of Landlock and seccomp: their files, processes and sockets, and their ends."""

from __future__ import annotations

import json
import marshal
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve, frozen

from cognition import ConfigError
from interpreters.toolbox.shell import _landlock, _landlock_start as start, _system_calls
from interpreters.toolbox.shell._profile import SandboxProfile
from runtime.children import in_memory

ABI = start.landlock_abi() if sys.platform == "linux" and _system_calls.machine() >= 0 else 0
WHY_NOT = "" if ABI >= start.NEEDED_ABI else f"Landlock has version {ABI} here"
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "it can be used")

PYTHON = tuple({Path(one).resolve() for one in (sys.prefix, sys.base_prefix)})
"""This interpreter's files, which may be anywhere."""


@frozen
class Place:
    """A directory for commands, with files around it that they may not reach."""

    top: Path
    profile: SandboxProfile
    temporary: Path

    @property
    def root(self) -> Path:
        return self.profile.root

    def run(
        self,
        *command: str,
        profile: SandboxProfile | None = None,
        boot: str = "",
        confined: bool = True,
        **options: Any,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command, in the sandbox unless it is not confined. ``boot`` changes the program that confines it."""
        before = list(_landlock.words(profile or self.profile, self.temporary)) if confined else []
        if boot:
            at = before.index(in_memory.BOOT)
            before[at] = before[at].replace("start.main()", f"{boot}; start.main()")
        path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
        environ = {"PATH": path, "HOME": str(self.temporary), "TMPDIR": str(self.temporary), "LC_ALL": "C.UTF-8"}
        usual: dict[str, Any] = {
            "env": environ, "stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "errors": "replace",
            "cwd": self.root, "check": False, "timeout": 60,
        }  # fmt: skip
        usual |= options
        with in_memory.opened([*before, *command]) as (words, descriptors):
            return subprocess.run(words, **usual | {"pass_fds": [*usual.get("pass_fds", ()), *descriptors]})

    def said(self, command: str, **options: Any) -> str:
        """Return the output and errors of a shell command."""
        run = self.run("/bin/sh", "-c", command, **options)
        return run.stdout + run.stderr


def place(top: Path) -> Place:
    """Make a directory for commands and its surroundings."""
    top = top.resolve()
    for folder in ("root/sub", "root/vault/deep", "root/mixed", "root/fixed", "temporary", "library/private", "tools"):
        (top / folder).mkdir(parents=True)
    for file in (
        "outside",
        "root/.env",
        "root/vault/key",
        "root/vault/deep/key",
        "root/mixed/key",
        "library/private/key",
    ):
        (top / file).write_text("milk")
    for file in ("root/own", "root/sub/own", "root/fixed/rule", "root/mixed/own", "library/book", "root/config"):
        (top / file).write_text("bread")
    (top / "root/sub/link").symlink_to(top / "root/.env")
    (top / "root/sub/up").symlink_to(top)
    os.link(top / "root/mixed/key", top / "root/mixed/alias")
    for name in ("allowed", "denied"):
        shutil.copy(Path("/bin/true").resolve(), top / "tools" / name)
    os.link(top / "tools/denied", top / "tools/denied-too")
    profile = SandboxProfile(
        top / "root",
        readable=(top / "library", top / "tools", *PYTHON),
        hidden=(top / "root/.env", top / "root/vault", top / "root/mixed/key", top / "library/private"),
        read_only=(top / "root/fixed", top / "root/config"),
        programs=(top / "tools/denied", Path("/usr/bin/uptime").resolve()),
    )
    return Place(top, profile, top / "temporary")


@pytest.fixture
def desk(tmp_path: Path) -> Place:
    """A place without denied paths."""
    made = place(tmp_path / "desk")
    return evolve(made, profile=SandboxProfile(made.root, readable=made.profile.readable))


# ------------------------------------------------------------------------------------------------------------ attempts

PRELUDE = """
import ctypes, errno, fcntl, json, mmap, os, platform, shutil, signal, socket, stat, struct, subprocess, sys, time

TOP, PARENT, PORT, UNIX, ABSTRACT = sys.argv[1], *map(int, sys.argv[2:4]), *sys.argv[4:6]
ROOT, TMP, ARM = TOP + "/root", TOP + "/temporary", platform.machine() == "aarch64"
libc = ctypes.CDLL(None, use_errno=True)

def call(x86, arm, *arguments):
    number = arm if ARM else x86
    words = [ctypes.c_ulong(one & (2**64 - 1)) if isinstance(one, int) else one for one in arguments]
    libc.syscall.restype = ctypes.c_long
    result = libc.syscall(ctypes.c_long(number), *words)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result

def read(path):
    with open(path, "rb") as file:
        return file.read(64)

def write(path):
    with open(path, "a") as file:
        file.write("eggs")

def run(*words):
    return subprocess.run(words, check=True, stdout=subprocess.DEVNULL)

def forked(act):
    "Raise what a child process raised, or that it was killed."
    child = os.fork()
    if not child:
        try:
            act()
            os._exit(0)
        except OSError as error:
            os._exit(error.errno)
        finally:
            os._exit(99)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        raise OSError(status if status > 0 else errno.EPERM, "a child failed")

def machine_code(code):
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    result = ctypes.CFUNCTYPE(ctypes.c_int)(address)()
    if result < 0:
        raise OSError(-result, "refused")

def at(path):
    return ctypes.create_string_buffer(os.fsencode(path))

def connect(family, sort, address):
    with socket.socket(family, sort) as one:
        one.settimeout(5)
        one.connect(address)

def own_listener():
    code = b"".join(struct.pack("HBBI", *one) for one in [(6, 0, 0, 0x7fff0000)])
    buffer = ctypes.create_string_buffer(code, len(code))
    call(317, 277, 1, 8, struct.pack("HxxxxxxQ", 1, ctypes.addressof(buffer)))

def watched(path):
    one = call(294, 26, 0)
    call(254, 27, one, at(path), 0x100)
"""

EVERYWHERE = {
    # Reading what is outside.
    "read a file beside the directory": "read(TOP + '/outside')",
    "read it by ..": "read('../outside')",
    "read it by a link of its own": "os.symlink(TOP + '/outside', TMP + '/l1'); read(TMP + '/l1')",
    "read it by a link that was there": "read('sub/up/outside')",
    "read it by /proc/self/root": "read('/proc/self/root' + TOP + '/outside')",
    "read it by /proc/self/cwd": "read('/proc/self/cwd/../outside')",
    "read it by an open directory": "os.open('outside', os.O_RDONLY, dir_fd=os.open(TOP, os.O_PATH))",
    "read it by an O_PATH descriptor": ("read('/proc/self/fd/%d' % os.open(TOP + '/outside', os.O_PATH))"),
    "read it by openat2": "call(437, 437, -100, at(TOP + '/outside'), struct.pack('QQQ', 0, 0, 0), 24)",
    "read it from within it": "os.chdir(TOP); \ntry: read('outside')\nfinally: os.chdir(ROOT)",
    "run it": "os.chmod(TOP + '/outside', 0o755) or run(TOP + '/outside')",
    "copy it": "shutil.copyfile(TOP + '/outside', 'copy')",
    "link it": "os.link(TOP + '/outside', 'linked')",
    "move it here": "os.rename(TOP + '/outside', 'moved')",
    "exchange it with an own file": "call(316, 276, -100, at(TOP + '/outside'), -100, at(ROOT + '/own'), 2)",
    "list the directory above": "os.listdir(TOP)",
    "list the top directory": "os.listdir('/')",
    "list /tmp": "os.listdir('/tmp')",
    "watch the directory above": "watched(TOP)",
    # Writing outside.
    "write to a file outside": "write(TOP + '/outside')",
    "cut a file outside": "os.truncate(TOP + '/outside', 0)",
    "make a file outside": "write(TOP + '/new')",
    "make a file in the library": "write(TOP + '/library/new')",
    "write to a book": "write(TOP + '/library/book')",
    "cut a book": "os.truncate(TOP + '/library/book', 1)",
    "open a book and cut it": "os.open(TOP + '/library/book', os.O_RDONLY | os.O_TRUNC)",
    "write a book by a read descriptor": (
        "os.open('/proc/self/fd/%d' % os.open(TOP + '/library/book', os.O_RDONLY), os.O_RDWR)"
    ),
    "map a book for writing": ("mmap.mmap(os.open(TOP + '/library/book', os.O_RDWR), 5, mmap.MAP_SHARED)"),
    "remove a book": "os.unlink(TOP + '/library/book')",
    "make a directory outside": "os.mkdir(TOP + '/newdir')",
    "remove a directory outside": "os.rmdir(TOP + '/library/private')",
    "link outside": "os.symlink('x', TOP + '/newlink')",
    "move an own file outside": "os.rename('sub/own', TOP + '/away')",
    "move its own directory": "os.rename(ROOT, TOP + '/elsewhere')",
    "make a pipe outside": "os.mkfifo(TOP + '/pipe')",
    "write to /tmp": "write('/tmp/cogstep-landlock-test')",
    "write to /dev/shm": "write('/dev/shm/cogstep-landlock-test')",
    # The attributes of files outside.
    "change a mode outside": "os.chmod(TOP + '/outside', 0o777)",
    "change a mode outside by a link": "os.chmod('sub/up/outside', 0o777)",
    "change a mode outside by a descriptor": "os.fchmod(os.open(TOP + '/library/book', os.O_RDONLY), 0o777)",
    "change a mode outside by its directory": "os.chmod('outside', 0o777, dir_fd=os.open(TOP, os.O_PATH))",
    "change a mode by fchmodat2": "call(452, 452, os.open(TOP + '/outside', os.O_PATH), at(''), 0o777, 0x1000)",
    "change a mode by /proc/self/fd": "os.chmod('/proc/self/fd/%d' % os.open(TOP + '/outside', os.O_PATH), 0o777)",
    "change the mode of the directory above": "os.chmod('..', 0o755)",
    "change an owner outside": "os.chown(TOP + '/outside', os.getuid(), os.getgid())",
    "change an owner outside by a descriptor": (
        "os.fchown(os.open(TOP + '/library/book', os.O_RDONLY), os.getuid(), os.getgid())"
    ),
    "change an owner of a link": "os.lchown(TOP + '/outside', os.getuid(), os.getgid())",
    "change times outside": "os.utime(TOP + '/outside', (1, 1))",
    "change times outside by a descriptor": "os.utime(os.open(TOP + '/library/book', os.O_RDONLY), (1, 1))",
    "set an attribute outside": "os.setxattr(TOP + '/outside', 'user.x', b'y')",
    "set flags of a file": (
        "fcntl.ioctl(os.open(TOP + '/library/book', os.O_RDONLY), 0x40086602, struct.pack('l', 0x80))"
    ),
    # Other processes.
    "read a parent's environment": "read(f'/proc/{PARENT}/environ')",
    "read a parent's memory": "open(f'/proc/{PARENT}/mem', 'rb')",
    "read a parent's maps": "read(f'/proc/{PARENT}/maps')",
    "see a parent's descriptors": "os.readlink(f'/proc/{PARENT}/fd/0')",
    "see a parent's program": "os.readlink(f'/proc/{PARENT}/exe')",
    "enter a parent's root": "read(f'/proc/{PARENT}/root' + TOP + '/outside')",
    "enter a parent's directory": "os.stat(f'/proc/{PARENT}/cwd/.')",
    "read its supervisor's environment": "read(f'/proc/{os.getppid()}/environ')",
    "trace a parent": "call(101, 117, 0x4206, PARENT, 0, 0)",
    "read a parent's memory by a call": (
        "buffer = ctypes.create_string_buffer(8); pair = struct.pack('QQ', ctypes.addressof(buffer), 8); "
        "call(310, 270, PARENT, pair, 1, pair, 1, 0)"
    ),
    "take a parent's descriptor": "call(438, 438, os.pidfd_open(PARENT), 1, 0)",
    "lower a parent's limits": "import resource; resource.prlimit(PARENT, resource.RLIMIT_CORE, (0, 0))",
    "lower a parent's priority": "os.setpriority(os.PRIO_PROCESS, PARENT, 19)",
    "pin a parent": "os.sched_setaffinity(PARENT, os.sched_getaffinity(PARENT))",
    "signal all processes": "os.kill(-1, 0)",
    # The network.
    "connect by TCP": "connect(socket.AF_INET, socket.SOCK_STREAM, ('127.0.0.1', PORT))",
    "connect by UDP": "connect(socket.AF_INET, socket.SOCK_DGRAM, ('127.0.0.1', PORT))",
    "connect by IPv6": "socket.socket(socket.AF_INET6, socket.SOCK_STREAM)",
    "connect to a socket file": "connect(socket.AF_UNIX, socket.SOCK_STREAM, UNIX)",
    "connect to an abstract socket": "connect(socket.AF_UNIX, socket.SOCK_STREAM, '\\0' + ABSTRACT)",
    "listen": "socket.create_server(('127.0.0.1', 0))",
    "make a netlink socket": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)",
    "make a raw socket": "socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)",
    "make a packet socket": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)",
    "make a vsock": "socket.socket(40, socket.SOCK_STREAM)",
    "make a socket of the kernel's ciphers": "socket.socket(38, socket.SOCK_SEQPACKET)",
    "send by a pair for datagrams": "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)",
    "make a socket by x32": "call(0x40000000 + 41, -1, 2, 1, 0)",
    "look up a name": (
        "try: socket.getaddrinfo('localhost', 80)\n"
        "except socket.gaierror as error: raise PermissionError(errno.EACCES, 'not found')"
    ),
    # The kernel.
    "set up io_uring": "call(425, 425, 4, ctypes.create_string_buffer(256))",
    "make a user namespace": "call(272, 97, 0x10000000)",
    "clone into a user namespace": (
        "forked(lambda: call(56, 220, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0) or os._exit(0))"
    ),
    "use clone3": "call(435, 435, ctypes.create_string_buffer(struct.pack('Q', 0x10000000) + bytes(56)), 64)",
    "enter a namespace": "call(308, 268, os.open('/proc/self/ns/net', os.O_RDONLY), 0)",
    "mount": "call(165, 40, at('none'), at(TMP), at('tmpfs'), 0, 0)",
    "mount by the new calls": "call(428, 428, -100, at('/'), 1)",
    "change its root": "os.chroot(ROOT)",
    "make a device": "os.mknod('device', stat.S_IFCHR | 0o666, os.makedev(1, 1))",
    "make a disk": "os.mknod('disk', stat.S_IFBLK | 0o666, os.makedev(254, 0))",
    "read a key": "call(250, 219, 0, -3, 0)",
    "add a key": "call(248, 217, at('user'), at('x'), at('y'), 1, -3)",
    "attach shared memory": "call(29, 194, 0, 4096, 0o1600)",
    "open a message queue": "call(240, 180, at('cogstep'), 0o102, 0o600, 0)",
    "load a program of BPF": "call(321, 280, 0, ctypes.create_string_buffer(128), 128)",
    "count events": "call(298, 241, ctypes.create_string_buffer(struct.pack('II', 1, 128) + bytes(120)), 0, -1, -1, 0)",
    "handle faults": "call(323, 282, 1)",
    "watch all files": "call(300, 262, 0x200, 0)",
    "open a file by its handle": "call(304, 265, -100, ctypes.create_string_buffer(32), 0)",
    "write to the kernel's settings": "write('/proc/sys/kernel/core_pattern')",
    "rename itself in /proc": "write('/proc/self/comm')",
    "be killed less": "write('/proc/self/oom_score_adj')",
    "read the settings of hardware": "os.listdir('/sys/kernel')",
    "get capabilities": "call(126, 91, struct.pack('Ii', 0x20080522, 0), struct.pack('IIIIII', 1, 1, 0, 0, 0, 0))",
    "become another user": "os.setuid(os.getuid() + 1)",
    "type on a terminal": "fcntl.ioctl(0, 0x5412, b'x')",
    "get the kernel's questions itself": "own_listener()",
    "use a call of the future": "call(469, 469, 0, 0, 0, 0)",
    "use another machine's calls": (
        "forked(lambda: machine_code(bytes.fromhex('b814000000cd80c3'))) if not ARM else call(-1, 5000)"
    ),
    "open the machine's terminal": "os.open('/dev/ptmx', os.O_RDWR)",
    "read what the user has at home": "read(os.path.expanduser('~%s/.profile' % os.environ.get('X', 'root')))",
}
"""Attempts that fail in every sandbox: code by name. The code may use the names of ``PRELUDE``."""

DENIED = {
    "read a hidden file": "read('.env')",
    "read it by a link": "read('sub/link')",
    "read it by ./..": "read('sub/../.env')",
    "read it by its directory": "os.open('.env', os.O_RDONLY, dir_fd=os.open('.', os.O_RDONLY))",
    "write to it": "write('.env')",
    "cut it": "os.truncate('.env', 0)",
    "remove it": "os.unlink('.env')",
    "move it": "os.rename('.env', 'sub/env')",
    "replace it": "os.rename('sub/own', '.env')",
    "exchange it": "call(316, 276, -100, at('sub/own'), -100, at('.env'), 2)",
    "link it into another directory": "os.link('.env', 'sub/env')",
    "link it into the same directory": "os.link('.env', 'env')",
    "change its mode": "os.chmod('.env', 0o777)",
    "change its times": "os.utime('.env', (1, 1))",
    "read it by git": "run('git', 'hash-object', '.env')",
    "read it by tar": "run('tar', '-cf', TMP + '/tar', '.env')",
    "read a file in a hidden directory": "read('vault/key')",
    "read one deeper": "read('vault/deep/key')",
    "read one from within": "os.chdir('vault')\ntry: read('key')\nfinally: os.chdir(ROOT)",
    "list a hidden directory": "assert os.listdir('vault')",
    "list one deeper": "assert os.listdir('vault/deep')",
    "list it by its number": "os.listdir(os.open('vault', os.O_RDONLY))",
    "list it by the older call": "call(78, 61, os.open('vault', os.O_RDONLY), ctypes.create_string_buffer(999), 999)",
    "list it from a thread": (
        "import threading; found = []\n"
        "def look():\n try: found.append(os.listdir('vault'))\n except OSError: pass\n"
        "one = threading.Thread(target=look); one.start(); one.join()\n"
        "if not found: raise PermissionError(errno.EACCES, 'not listed')"
    ),
    "watch it": "watched('vault')",
    "make a file in it": "write('vault/new')",
    "make a directory in it": "os.mkdir('vault/newdir')",
    "link in it": "os.symlink('x', 'vault/newlink')",
    "move it away": "os.rename('vault', 'sub/vault')",
    "move the directory above it": "os.rename(ROOT + '/mixed', ROOT + '/sub/mixed')",
    "change its directory's mode": "os.chmod('vault', 0o777)",
    "remove a file in it": "os.unlink('vault/key')",
    "read by another name beside it": "read('mixed/alias')",
    "read a hidden part of the library": "read(TOP + '/library/private/key')",
    "list a hidden part of the library": "os.listdir(TOP + '/library/private')",
    "write to a read-only file": "write('config')",
    "cut a read-only file": "os.truncate('config', 0)",
    "remove a read-only file": "os.unlink('config')",
    "replace a read-only file": "os.rename('sub/own', 'config')",
    "change a read-only file's mode": "os.chmod('config', 0o777)",
    "make a file in a read-only directory": "write('fixed/new')",
    "write to a file in it": "write('fixed/rule')",
    "remove a file in it as well": "os.unlink('fixed/rule')",
    "move a read-only directory": "os.rename('fixed', 'sub/fixed')",
    "link a read-only file where it can be written": "os.link('config', 'sub/config')",
    "run a denied program": "run(TOP + '/tools/denied')",
    "run it by its other name": "run(TOP + '/tools/denied-too')",
    "run it by a link": "os.symlink(TOP + '/tools/denied', TMP + '/l2'); run(TMP + '/l2')",
    "run it by a descriptor": (
        "forked(lambda: os.execv('/proc/self/fd/%d' % os.open(TOP + '/tools/denied', os.O_PATH), ['x']))"
    ),
    "run it by execveat": (
        "forked(lambda: call(322, 281, os.open(TOP + '/tools/denied', os.O_PATH), at(''), 0, 0, 0x1000))"
    ),
    "run a copy of it": "shutil.copy(TOP + '/tools/denied', TMP + '/copy'); run(TMP + '/copy')",
    "run it by the loader": (
        "[loader] = [one for one in ('/lib64/ld-linux-x86-64.so.2', '/lib/ld-linux-aarch64.so.1') "
        "if os.path.exists(one)]\n"
        "if subprocess.run([loader, TOP + '/tools/denied'], stderr=subprocess.DEVNULL).returncode: "
        "raise PermissionError(errno.EACCES, 'not loaded')"
    ),
    "replace it by an own program": "shutil.copy(TOP + '/tools/allowed', TOP + '/tools/denied')",
    "run a denied program of the system": "run('/usr/bin/uptime')",
    "run it by the other path": "run('/bin/uptime')",
    "read it": "read('/usr/bin/uptime')",
}
"""Attempts on the denied paths of ``place``."""

FATAL = {
    "signal a parent": "os.kill(PARENT, signal.SIGCONT)",
    "signal its supervisor": "os.kill(os.getppid(), signal.SIGCONT)",
    "signal by a descriptor": "signal.pidfd_send_signal(os.pidfd_open(PARENT), signal.SIGCONT)",
    "signal a parent's group": "os.killpg(os.getpgid(PARENT), 0)",
}
"""Attempts that fail since version 6 of Landlock."""

HARMLESS = ("read ", "list ", "watch ", "change ", "connect ", "run ", "listen", "look up ", "see ", "enter a parent",
            "write to ", "make a file", "make a netlink", "open ", "cut ", "link it")  # fmt: skip
"""Beginnings of those attempts that can be made without a sandbox, one after the other."""
NOT_HARMLESS = {
    "change its root", "write to the kernel's settings", "write to /tmp", "write to /dev/shm", "make a file outside",
    # These fail for other reasons as well, here or elsewhere.
    "run it", "read it by openat2", "read a parent's memory by a call", "open a file by its handle",
    "open the machine's terminal", "read the settings of hardware", "read what the user has at home",
    "connect by IPv6", "open a message queue", "list it by the older call",
}  # fmt: skip

REFUSALS = {"EPERM", "EACCES", "ENOSYS", "EXDEV", "ENOTSUP", "EOPNOTSUPP", "ENOTTY", "EBUSY"}


def attempts_of(where: Place, attempts: dict[str, str], port: int, unix: str, **options: Any) -> dict[str, str]:
    """Return each attempt's error; empty for those that succeeded."""
    program = (
        PRELUDE
        + f"""
told = {{}}
for name, code in json.loads({json.dumps(json.dumps(attempts))}).items():
    try:
        exec(code, dict(globals()))
        told[name] = ""
    except OSError as error:
        told[name] = errno.errorcode.get(error.errno, f"{{error}}")
    except subprocess.CalledProcessError as error:
        told[name] = "EACCES"
    except BaseException as error:
        told[name] = repr(error)
print(json.dumps(told))
"""
    )
    words = [str(where.top), str(os.getpid()), str(port), unix, f"cogstep-{os.getpid()}"]
    run = where.run(sys.executable, "-I", "-W", "ignore", "-c", program, *words, **options)
    assert run.returncode == 0, run.stderr
    found: dict[str, str] = json.loads(run.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[int, str]]:
    """A port of TCP and the path of a socket that both answer, and an abstract one."""
    folder = Path("/tmp") / f"cogstep-{os.getpid()}"
    folder.mkdir()
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX) as named,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        named.bind(str(folder / "socket"))
        abstract.bind(f"\0cogstep-{os.getpid()}")
        for one in (named, abstract):
            one.listen()
        yield tcp.getsockname()[1], str(folder / "socket")
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory, servers: tuple[int, str]) -> dict[str, str]:
    """The errors of all attempts, without denied paths."""
    where = place(tmp_path_factory.mktemp("plain"))
    where = evolve(where, profile=SandboxProfile(where.root, readable=where.profile.readable))
    before = surroundings(where)
    told = attempts_of(where, EVERYWHERE | (FATAL if ABI >= start.ABI_OF_SCOPES else {}), *servers)
    assert surroundings(where) == before
    return told


@pytest.fixture(scope="module")
def denying(tmp_path_factory: pytest.TempPathFactory, servers: tuple[int, str]) -> dict[str, str]:
    """The errors of all attempts, with denied paths."""
    where = place(tmp_path_factory.mktemp("denying"))
    before = surroundings(where)
    told = attempts_of(where, EVERYWHERE | DENIED, *servers)
    assert surroundings(where) == before
    assert [(where.root / path).read_text() for path in (".env", "config", "mixed/key")] == ["milk", "bread", "milk"]
    assert sorted(path.name for path in (where.root / "vault").iterdir()) == ["deep", "key"]
    assert [path.read_text() for path in (where.root / "fixed").iterdir()] == ["bread"]
    return told


def surroundings(where: Place) -> list[tuple[str, int, int, float, bytes]]:
    """The files around the root: path, mode, owner, time, content."""
    found = []
    for path in sorted(where.top.rglob("*")):
        if not path.is_relative_to(where.root) and not path.is_relative_to(where.temporary):
            status = path.lstat()
            content = path.read_bytes() if path.is_file() else b""
            found.append((str(path), status.st_mode, status.st_uid, status.st_mtime, content))
    return found


@pytest.mark.parametrize("name", EVERYWHERE)
def test_an_attempt_fails(plain: dict[str, str], name: str) -> None:
    assert plain[name] in REFUSALS


@pytest.mark.parametrize("name", FATAL)
def test_no_signal_gets_out(plain: dict[str, str], name: str) -> None:
    if ABI < start.ABI_OF_SCOPES:
        pytest.skip("this kernel's Landlock does not limit signals")
    assert plain[name] in REFUSALS


@pytest.mark.parametrize("name", EVERYWHERE | DENIED)
def test_an_attempt_fails_beside_denied_paths(denying: dict[str, str], name: str) -> None:
    assert denying[name] in REFUSALS


def test_the_attempts_succeed_without_a_sandbox(tmp_path: Path, servers: tuple[int, str]) -> None:
    """Or else their failures would prove nothing."""
    where = place(tmp_path / "free")
    attempts = {
        name: code
        for name, code in (EVERYWHERE | DENIED).items()
        if name.startswith(HARMLESS) and name not in NOT_HARMLESS
    }
    told = attempts_of(where, attempts, *servers, confined=False)

    assert {name: error for name, error in told.items() if error} == {}
    assert len(told) > 60


# ------------------------------------------------------------------------------------------------------ ordinary work

WORK = {
    "echo": ("echo hello | tr a-z A-Z", "HELLO\n"),
    "heredoc": ("cat <<END\nfirst\nEND\ncat <<'END' | wc -l\na\nb\nEND\n", "first\n2\n"),
    "devices": ("echo x > /dev/null; head -c 3 /dev/zero | wc -c; head -c 5 /dev/urandom | wc -c", "3\n5\n"),
    "standard streams": ("echo out > /dev/stdout; echo err > /dev/stderr; echo in | cat /dev/stdin", "out\nin\nerr\n"),
    "substitution": ("bash -c 'diff <(echo a) <(echo a) && echo same'", "same\n"),
    "background": ("(echo late > sub/late) & wait; cat sub/late; kill -0 $$ && echo alive", "late\nalive\n"),
    "kill own": ("bash -c 'sleep 100 & kill $!; wait $!; echo $?'", "143\n"),
    "mktemp": ("f=$(mktemp) && echo y > $f && cat $f && [ $(dirname $f) = $TMPDIR ] && rm $f", "y\n"),
    "sort": ("seq 200000 | sort -rn -S 100k | head -1", "200000\n"),
    "tar": ("tar cf $TMPDIR/t.tar sub && mkdir out && tar xf $TMPDIR/t.tar -C out && cat out/sub/own", "bread"),
    "cp": ("cp -a sub copy && cp -p own b && cat copy/own b && stat -c %Y own b | uniq | wc -l", "breadbread1\n"),
    "install": ("install -m 700 own tool && stat -c %a tool", "700\n"),
    "chmod": ("chmod 600 own && stat -c %a own; chmod u+x own; chmod -R a+r sub; stat -c %a own", "600\n700\n"),
    "touch": ("touch -d 2001-02-03 own && date -r own +%Y; touch -h -d 2002-03-04 sub/link && touch new", "2001\n"),
    "ls": ("ls -la . > all && ls", "all\nconfig\nfixed\nmixed\nown\nsub\nvault\n"),
    "find": ("find . -name own | sort", "./mixed/own\n./own\n./sub/own\n"),
    "ps": ("ps -o comm= -p $$", "sh\n"),
    "sed": ("sed -i s/bread/toast/ own && cat own", "toast"),
    "links": ("ln own hard && ln -s own soft && cat hard soft", "breadbread"),
    "git": (
        "git init -q . && git add own && git -c user.name=a -c user.email=a@b commit -q -m first && "
        "git log --format=%s && git mv own moved && git status --short -uno; git gc -q; git fsck",
        "first\nR  own -> moved\n",
    ),
    "gcc": (
        "echo '#include <stdio.h>' > a.c && echo 'int main(void) { puts(\"compiled\"); return 0; }' >> a.c && "
        "gcc a.c -o a && ./a",
        "compiled\n",
    ),
    "make": ("printf 'all: b\\n\\t@cat b\\nb:\\n\\t@echo built > b\\n' > Makefile && make -s -j2", "built\n"),
    "perl": ("perl -e 'use POSIX; print floor(2.5)'", "2"),
    "node": ("node -e \"require('child_process').exec('echo node', (e, out) => process.stdout.write(out))\"", "node\n"),
    "timeout": ("timeout 0.05 sleep 10; echo $?", "124\n"),
    "xargs": ("printf '1\\n2\\n' | xargs -P 2 -n 1 echo | sort", "1\n2\n"),
}  # fmt: skip
"""Commands and their output by name; those of programs that are not installed are skipped."""


@pytest.mark.parametrize("name", WORK)
def test_ordinary_programs_work(desk: Place, name: str) -> None:
    command, expected = WORK[name]
    if name in {"git", "gcc", "make", "perl", "node", "ps"} and shutil.which(name, path="/usr/bin") is None:
        pytest.skip(f"{name} is not installed")

    assert desk.said(command) == expected


PYTHON_WORK = """
import asyncio, concurrent.futures, os, shutil, subprocess, tempfile, threading
with tempfile.NamedTemporaryFile("w+") as file:
    file.write("x")
assert subprocess.run(["sh", "-c", "echo $0"], capture_output=True, check=True).stdout == b"sh\\n"
async def main():
    child = await asyncio.create_subprocess_exec("echo", "b", stdout=subprocess.PIPE)
    assert (await child.communicate())[0] == b"b\\n"
asyncio.run(main())
with concurrent.futures.ThreadPoolExecutor() as pool:
    assert list(pool.map(len, ["a", "bc"])) == [1, 2]
shutil.copytree("sub", "tree", symlinks=True)
shutil.copystat("own", "tree/own")
shutil.make_archive("pack", "gztar", "tree")
os.chmod("own", 0o640)
os.chown("own", os.getuid(), os.getgid())
os.fchmod(os.open("own", os.O_RDONLY), 0o644)
os.utime("own", ns=(5, 7), dir_fd=os.open(".", os.O_RDONLY))
os.utime(os.open("own", os.O_RDONLY), (3, 4))
assert os.stat("own").st_mtime == 4
os.lchown("sub/link", os.getuid(), os.getgid())
os.utime("sub/link", (9, 9), follow_symlinks=False)
assert os.lstat("sub/link").st_mtime == 9
print("done")
"""


def test_python_and_pytest_work(desk: Place) -> None:
    assert desk.run(sys.executable, "-c", PYTHON_WORK).stdout == "done\n"
    run = desk.run("env", "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1", sys.executable, "-m", "pytest", "--version")
    assert run.stdout == f"pytest {pytest.__version__}\n"


WATCH = """
import ctypes, os, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
watcher = libc.inotify_init1(0)
names = []
def watch():
    assert libc.inotify_add_watch(watcher, b"sub", 0x100) > 0
    names.extend(os.listdir("large"))
thread = threading.Thread(target=watch)
thread.start()
thread.join()
open("sub/new", "w").close()
print(os.read(watcher, 4096)[16:].rstrip(bytes(1)).decode(), len(set(names)))
"""


def test_directories_are_listed_and_watched_for_a_command(tmp_path: Path) -> None:
    """By the broker, also for threads, and in several parts."""
    where = place(tmp_path / "desk")
    (where.root / "large").mkdir()
    for number in range(1500):
        (where.root / f"large/a-file-with-a-long-name-number-{number}").touch()

    assert where.run(sys.executable, "-c", WATCH).stdout == "new 1500\n"
    assert where.said("ls large | wc -l; find sub -name own; rm -r large/*; ls large") == "1500\nsub/own\n"


def test_only_three_descriptors_are_inherited(desk: Place) -> None:
    with open(desk.top / "outside") as secret:
        run = desk.run("/bin/ls", "/proc/self/fd", pass_fds=[secret.fileno()])

    assert run.stdout.split() == ["0", "1", "2", "3"]


def test_no_right_of_root_is_left(desk: Place) -> None:
    said = desk.said("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status")

    values = dict(line.split(":\t") for line in said.splitlines())
    assert values.pop("NoNewPrivs") == "1"
    assert values.pop("Seccomp") == "2"
    if os.geteuid() == 0:
        assert set(values.values()) == {"0" * 16}
    else:  # the bounding set needs a right to be changed, and without new rights it has no effect
        values.pop("CapBnd")
        assert set(values.values()) == {"0" * 16}


def test_another_user_than_root_is_confined_alike(tmp_path: Path) -> None:
    """In a place that this user can reach, by a Python that it can run."""
    user = 65534 if os.geteuid() == 0 else os.geteuid()
    program = next((one for one in (sys.executable, "/usr/bin/python3") if _can_run(one, user)), None)
    if program is None:
        pytest.skip("the other user can run no Python of this version here")
    top = Path("/tmp") / f"cogstep-user-{os.getpid()}"
    try:
        where = place(top)
        for path in (top, *top.rglob("*")):
            os.chown(path, user, -1, follow_symlinks=False)
        code = "cat .env config; echo x > sub/new && chmod 600 sub/new; chmod 777 ../outside config; ls vault; ls"
        words = (*_landlock.words(where.profile, where.temporary), "/bin/sh", "-c", code)
        with in_memory.opened(words) as (given, descriptors):
            run = subprocess.run(
                [program, *given[1:]], pass_fds=descriptors, user=user, capture_output=True, text=True, check=False,
                env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"}, cwd="/",
            )  # fmt: skip
        assert run.stdout == "breadconfig\nfixed\nmixed\nown\nsub\nvault\n", run.stderr
        assert run.stderr.count("Permission denied") + run.stderr.count("not permitted") == 4
        assert (where.root / "sub/new").stat().st_mode & 0o777 == 0o600
        assert (where.top / "outside").stat().st_mode & 0o777 == 0o644
    finally:
        shutil.rmtree(top, ignore_errors=True)


def _can_run(program: str, user: int) -> bool:
    """Whether the user can run this Python, and it is of the version whose code a confined process is given."""
    code = f"import sys; open({start.__file__!r}); sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
    try:
        run = subprocess.run([program, "-I", "-c", code], user=user, stderr=-3, check=False)
    except OSError:
        return False
    return run.returncode == 0


# --------------------------------------------------------------------------------------------------------- the network


def test_with_the_network_internet_sockets_work_and_no_others(desk: Place, servers: tuple[int, str]) -> None:
    profile = evolve(desk.profile, network=True)
    port, unix = servers
    attempts = {
        name: code for name, code in EVERYWHERE.items() if name.startswith(("connect", "make a", "listen", "send"))
    }
    told = attempts_of(desk, attempts, port, unix, profile=profile)

    allowed = {
        "connect by TCP", "connect by UDP", "connect by IPv6", "listen", "make a netlink socket",
        "make a file in the library",
    }  # fmt: skip
    assert {name for name, error in told.items() if not error} <= allowed
    assert [told[name] for name in ("connect by TCP", "connect by UDP", "listen", "make a netlink socket")] == [""] * 4
    code = "import socket; print(socket.getaddrinfo('localhost', 80)[0][4][1])"
    assert desk.run(sys.executable, "-c", code, profile=profile).stdout == "80\n"


# ------------------------------------------------------------------------------------------------------- denied paths


def test_beside_denied_paths_the_rest_can_be_used(tmp_path: Path) -> None:
    where = place(tmp_path / "desk")
    told = where.said(
        "ls; ls sub; ls mixed; echo more >> own; echo new > sub/new; cat own sub/new config fixed/rule mixed/own; "
        "../tools/allowed && chmod 600 own; stat -c %a own; cat ../library/book; touch -d @7 sub; stat -c %Y sub"
    )

    assert told.split() == [
        "config", "fixed", "mixed", "own", "sub", "vault", "link", "own", "up", "alias", "key", "own",
        "breadmore", "new", "breadbreadbread600", "bread7",
    ]  # fmt: skip


def test_if_only_files_are_denied_directories_can_be_moved_here(desk: Place) -> None:
    """New files can't be made beside a denied file. A tree made elsewhere can be put there."""
    profile = evolve(desk.profile, hidden=(desk.root / ".env",), read_only=(desk.root / "config",))
    told = desk.said(
        "mkdir made; echo x > made/x; mkdir $TMPDIR/tree && echo y > $TMPDIR/tree/y && mv $TMPDIR/tree . && ls tree; "
        "echo z > new; cat .env",
        profile=profile,
    )

    assert told.startswith("y\n")
    assert told.count("ermission denied") == 3
    assert desk.said("echo x > made/x && cat made/x tree/y", profile=profile) == "x\ny\n"
    assert _landlock.closed_directories(profile) == (desk.root,)


def test_a_second_name_of_a_file_in_a_hidden_directory_does_not_open_it(desk: Place) -> None:
    """A rule belongs to a file, not to a name."""
    os.link(desk.root / "vault/key", desk.root / "innocent")
    profile = evolve(desk.profile, hidden=(desk.root / "vault",))

    assert desk.said("cat vault/key innocent own", profile=profile).count("milk") == 0


def test_files_with_names_that_are_not_known_are_reported(desk: Place) -> None:
    os.link(desk.root / ".env", desk.root / "sub/env")
    profile = evolve(
        desk.profile,
        hidden=(desk.root / ".env", desk.root / "mixed/key", desk.root / "vault"),
        read_only=(desk.root / "config",),
    )

    assert _landlock.not_held(profile) == (desk.root / ".env", desk.root / "mixed/key")
    both = evolve(profile, hidden=(desk.root / ".env", desk.root / "sub/env"))
    assert _landlock.not_held(both) == ()
    assert _landlock.not_held(evolve(both, programs=(Path("/usr/bin/env").resolve(),))) == ()


def test_programs_are_denied_by_all_their_names(desk: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_landlock, "PROGRAM_FOLDERS", (str(desk.top / "tools"), "/nowhere"))
    (desk.top / "more").mkdir()
    os.link(desk.top / "tools/denied", desk.top / "more/third")
    profile = evolve(desk.profile, programs=(desk.top / "tools/denied",))

    limits = [one.data for one in _landlock.words(profile, desk.temporary) if isinstance(one, in_memory.Input)][-1]
    assert f"program={desk.top}/tools/denied-too" in limits.decode().split("\0")
    assert _landlock.not_held(profile) == (desk.top / "tools/denied",)


@pytest.mark.parametrize("field", ["hidden", "read_only", "programs"])
@pytest.mark.parametrize("path", ["root", ".", "/", "temporary"])
def test_a_directory_of_work_can_not_be_denied(desk: Place, field: str, path: str) -> None:
    denied: dict[str, Any] = {field: ((desk.top / path).resolve(),)}
    profile = evolve(desk.profile, **denied)

    with pytest.raises(ConfigError, match="can't be denied, since commands work in"):
        _landlock.words(profile, desk.temporary)


def test_denied_paths_may_vanish_and_be_within_each_other(desk: Place) -> None:
    paths = ("gone", "gone/deep/er", "vault", "vault/key", "sub/gone", "own")
    profile = evolve(
        desk.profile,
        hidden=tuple(desk.root / path for path in paths),
        readable=(*desk.profile.readable, desk.top / "missing", desk.root / "vault"),
    )

    told = desk.said("cat own vault/key; ls vault; echo x > gone; cat sub/own", profile=profile)
    assert told.count("ermission denied") == 4
    assert told.startswith("bread")


@pytest.mark.parametrize("name", ["root", "temporary"])
def test_a_directory_of_work_that_is_gone_or_a_link_stops_the_command(desk: Place, name: str) -> None:
    (desk.top / name).rename(desk.top / "away")
    for _ in range(2):
        run = desk.run("/bin/echo", "ran", cwd="/")
        assert (run.returncode, run.stdout) == (start.FAILED, "")
        assert run.stderr.startswith("the command can't be confined, and was not run: ")
        (desk.top / name).unlink(missing_ok=True)
        (desk.top / name).symlink_to(desk.top / "away")


ODD = ["a space", "-dash", "--", "new\nline", "quo'te\"$x", "\udcff\udcfe", "ünicode", "a" * 200, ":colon", "*", "x=y"]


@pytest.mark.parametrize("name", ODD, ids=ascii)
def test_paths_may_have_any_name(tmp_path: Path, name: str) -> None:
    root, temporary = tmp_path / name / "root", tmp_path / name / "temporary"
    for folder in (root / name, temporary, root / "vault" / name):
        folder.mkdir(parents=True)
    (root / name / name).write_text("milk")
    (root / name / "own").write_text("bread")
    profile = SandboxProfile(root, hidden=(root / name / name, root / "vault" / name))
    where = Place(tmp_path, profile, temporary)

    told = where.said('cat -- "$0/own"; cat -- "$0/$0"; ls "vault/$0"; echo x > "$TMPDIR/$0" && cat "$TMPDIR/$0"'
                      .replace("$0", name.replace("\\", "\\\\") if name.isalnum() else "$N"),
                      env={"PATH": "/usr/bin:/bin", "TMPDIR": str(temporary), "N": name, "LC_ALL": "C"})  # fmt: skip
    assert told.startswith("breadx\n")
    assert told.count("ermission denied") == 2


def test_many_entries_beside_a_denied_one_are_granted(desk: Place) -> None:
    for number in range(300):
        (desk.root / f"n{number}").touch()
    profile = evolve(desk.profile, hidden=(desk.root / ".env",))

    assert desk.said("cat .env 2>/dev/null; cat n* && ls | wc -l", profile=profile) == "306\n"


# --------------------------------------------------------------------------------------------------------- how it ends


@pytest.mark.parametrize(("command", "code"), [("exit 0", 0), ("exit 255", 255), ("kill -9 $$", -9), ("kill $$", -15)])
def test_it_ends_as_its_command(desk: Place, command: str, code: int) -> None:
    assert desk.run("/bin/sh", "-c", command).returncode == code


def test_programs_that_are_missing_or_none_have_the_codes_of_shells(desk: Place) -> None:
    missing, none = desk.run("no-such-program"), desk.run(str(desk.root / "own"))

    assert (missing.returncode, missing.stderr) == (127, "no-such-program: No such file or directory\n")
    assert (none.returncode, none.stderr) == (126, f"{desk.root}/own: Permission denied\n")


def test_remaining_processes_work_on_and_its_output_ends_with_them(desk: Place) -> None:
    began = time.monotonic()
    told = desk.said("(sleep 0.2; chmod 600 own; stat -c %a own) & echo soon")

    assert told == "soon\n600\n"
    assert time.monotonic() - began < 30


def test_if_the_first_process_is_killed_all_are(desk: Place) -> None:
    words = [*_landlock.words(desk.profile, desk.temporary), "/bin/sh", "-c"]
    words.append("(trap '' TERM; setsid sleep 71 & sleep 72) & echo up; sleep 73")
    with (
        in_memory.opened(words) as (given, descriptors),
        subprocess.Popen(given, stdout=subprocess.PIPE, pass_fds=descriptors) as run,
    ):
        assert run.stdout is not None
        assert run.stdout.readline() == b"up\n"
        run.terminate()  # ignored: it is for the command
        assert run.poll() is None
        run.kill()
        assert run.stdout.read() == b""  # the end, which waits for all who can write


def test_a_signal_that_the_command_sends_to_its_group_stays_with_it(desk: Place) -> None:
    assert desk.run("/bin/sh", "-c", "trap 'exit 5' TERM; kill 0").returncode == 5


CALLS = f"sys.modules[{_system_calls.__name__!r}]"
FAULTS = {
    "no Landlock": "start.landlock_abi = lambda: 0",
    "an old Landlock": "start.landlock_abi = lambda: 2",
    "another machine": "start.machine = lambda: -1",
    "no seccomp": "start.install = lambda program: start.call('close_range', 9, 1, 0)",
    "a filter that is refused": "start.Filter.build = lambda self, limits: bytes(8)",
    "capabilities that stay": "start.drop_rights = lambda: start.call('unshare', -1)",
    "a rule that fails": "start.Ruleset._allow = lambda self, descriptor, rights: start.call('close_range', 9, 1, 0)",
    "a domain that fails": f"{CALLS}.NUMBERS['landlock_restrict_self'] = (9999, 9999)",
    "a ruleset that fails": f"start.landlock_abi = lambda: 5; {CALLS}.NUMBERS['landlock_create_ruleset'] = (999, 999)",
    "a supervisor that fails": "start.Broker = lambda *_: 1 / 0",
}
"""Faults by name: code that changes the program that confines commands."""


@pytest.mark.parametrize("name", FAULTS)
def test_a_command_that_can_not_be_confined_does_not_run(desk: Place, name: str) -> None:
    run = desk.run("/bin/sh", "-c", "sleep 0.3; echo > ran", boot=FAULTS[name])

    assert run.returncode == start.FAILED
    assert run.stderr.startswith(
        "the command was killed" if "supervisor" in name else "the command can't be confined, and was not run: "
    )
    assert not (desk.root / "ran").exists()


@pytest.mark.parametrize("abi", [3, 4, 5, 6])
def test_older_versions_of_landlock_limit_the_same(desk: Place, servers: tuple[int, str], abi: int) -> None:
    """All but signals, which came with version 6."""
    if abi > ABI:
        pytest.skip("this kernel's Landlock is older")
    told = attempts_of(desk, EVERYWHERE, *servers, boot=f"start.landlock_abi = lambda: {abi}")

    assert set(told.values()) <= REFUSALS


def coded(text: str) -> bytes:
    return marshal.dumps([("start", compile(text, "start", "exec"))])


def test_the_reason_is_given_where_it_can_not_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _landlock.problem() == ""
    monkeypatch.setattr(_landlock, "CODE", coded("def main(): sys.exit('a reason')\nimport sys"))
    assert _landlock.problem() == "a reason"
    monkeypatch.setattr(_landlock, "CODE", coded("raise SystemExit(3)"))
    assert _landlock.problem() == "a confined process ended with 3"
    monkeypatch.setattr(in_memory, "PYTHON", "/nowhere/python")
    assert _landlock.problem().startswith("a confined process can't be started: ")
    monkeypatch.setattr(in_memory, "PYTHON", "")
    assert _landlock.problem() == "this program has no Python of its own that could confine a command"
    monkeypatch.setattr(start, "landlock_abi", lambda: 2)
    monkeypatch.setattr(in_memory, "PYTHON", "/nowhere/python")
    assert _landlock.problem() == "Landlock has version 2 in this kernel, and version 3 is needed (Linux 6.2)"
    assert "signals" in _landlock.remark()
    monkeypatch.setattr(start, "landlock_abi", lambda: 6)
    assert _landlock.remark() == ""
    monkeypatch.setattr(start, "landlock_abi", lambda: 0)
    assert _landlock.problem() == "this kernel has no Landlock, or it is switched off"
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "", "", "", "riscv64")))
    assert "riscv64" in _landlock.problem()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert _landlock.problem() == "Landlock is a part of Linux"
