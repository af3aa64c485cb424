"""Confine one command with Landlock and seccomp, then run it.

Runs as a separate program, from memory, before each command. To start fast, it imports nothing else from this
project, and few modules at all. It prints an error and exits with 126 if any step fails; it never runs the command
without its limits. Three processes work for each command:

- The first one waits, and ends as the command ends.
- The second one carries out a few system calls for the command (``Broker``). It takes in the command's orphans, and
  lives as long as any process of the command. If the first one is killed, it kills them all.
- The third one limits itself and becomes the command.

Landlock limits which files can be opened, run, made and removed. seccomp refuses everything that Landlock does not
cover: sockets, keys of the kernel, namespaces, other processes, unknown system calls. Neither of them can decide about
a change of a file's mode, owner or time by the file's path. For these calls the kernel asks the broker, which opens the
file itself, checks where that file is, and changes it. So no second thread of the command can exchange the path between
check and change.
"""

import _signal  # type: ignore[import-not-found]  # ``signal`` takes 4 ms more, for its enumerations
import _socket
import ctypes
import errno
import os
import select
import struct
import sys
from collections.abc import Callable
from contextlib import suppress

from interpreters.toolbox.shell._broker import Broker
from interpreters.toolbox.shell._limits import Limits, Node, Tree, denied_folders
from interpreters.toolbox.shell._seccomp import Filter, install
from interpreters.toolbox.shell._system_calls import LIBC, call, machine, number, place, prctl

FAILED = 126
"""Exit code if a command can't be confined, as shells have it for a program that can't be run."""

ENVIRON = {b"GIT_CONFIG_NOSYSTEM": b"1"}
"""Variables of a command. Git's settings of the machine are not readable, since they may have passwords in addresses,
and Git would fail on that.
"""
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")

# ------------------------------------------------------------------------------------------------------------- Landlock

(EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REMOVE_DIR, REMOVE_FILE, MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_FIFO,
 MAKE_BLOCK, MAKE_SYM, REFER, TRUNCATE, IOCTL_DEV) = (1 << bit for bit in range(16))  # fmt: skip
READ = EXECUTE | READ_FILE | READ_DIR
WRITE = (WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_SYM | REFER
         | TRUNCATE)  # fmt: skip
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
"""The rights that a rule for a file, rather than a directory, can have."""
NEEDED_ABI = 3
"""Landlock's version since Linux 6.2. Earlier ones let a command cut every file of its user to length 0."""
ABI_OF_DEVICES, ABI_OF_NETWORK, ABI_OF_SCOPES = 5, 4, 6


def landlock_abi() -> int:
    """Return the version of Landlock, 0 without Landlock."""
    try:
        return call("landlock_create_ruleset", None, 0, 1)
    except OSError:
        return 0


class Ruleset:
    """A ruleset of Landlock. It refuses everything that no rule allows."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._linked: set[int] | None = None
        abi = landlock_abi()
        if abi < NEEDED_ABI:
            raise OSError(errno.ENOSYS, f"Landlock has version {abi} here, and {NEEDED_ABI} is needed")
        self._handled: int = (IOCTL_DEV << 1 if abi >= ABI_OF_DEVICES else IOCTL_DEV) - 1
        network = 3 if abi >= ABI_OF_NETWORK and not limits.network else 0  # TCP: to bind, to connect
        scopes = 3 if abi >= ABI_OF_SCOPES else 0  # abstract sockets, signals
        size = 24 if abi >= ABI_OF_SCOPES else 16 if abi >= ABI_OF_NETWORK else 8
        wanted = struct.pack("=QQQ", self._handled, network, scopes)[:size]
        self.descriptor: int = call("landlock_create_ruleset", wanted, size, 0)
        self._rule = ctypes.create_string_buffer(12)
        self._add = LIBC["syscall"]
        self._add.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_long]
        self._add.restype = ctypes.c_long
        self._number = number("landlock_add_rule")

    def fill(self) -> None:
        """Add all rules of the limits."""
        limits = self.limits
        for path in (*limits.readable, *limits.folders, limits.root, limits.temporary):
            must = path in (limits.root, limits.temporary)
            try:
                descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except OSError:
                if must:
                    raise
                continue
            real = place(descriptor)
            if real != path and path not in limits.readable:
                raise OSError(errno.ELOOP, f"{os.fsdecode(path)} has become a link to {os.fsdecode(real)}")
            if real in limits.tops and not must:  # as /bin and /usr/bin may be
                os.close(descriptor)
                continue
            limits.tops.append(real)
            if must and limits.unwritable is limits.unreadable:
                self._grant(descriptor, real, READ | WRITE, limits.unreadable)
            else:
                self._grant(descriptor, real, READ, limits.unreadable)
                if must:
                    self._grant(descriptor, real, WRITE, limits.unwritable)
            os.close(descriptor)
        for name, rights in (*((name, READ_FILE | WRITE_FILE) for name in DEVICES), ("/proc", READ_FILE | READ_DIR)):
            with suppress(FileNotFoundError):
                self._allow_path(os.fsencode(name), rights)
        try:
            os.close(os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY))
        except OSError as error:  # no terminal: a command may find that out
            if error.errno == errno.ENXIO:
                self._allow_path(b"/dev/tty", READ_FILE | WRITE_FILE)

    def _grant(self, descriptor: int, path: bytes, rights: int, denied: Tree) -> None:
        """Grant rights to all that is below a path, except the denied paths."""
        node = denied.node(path)
        if node is None:
            self._allow(descriptor, rights)
        elif not node.denied:
            self._split(descriptor, b".", node, rights, denied)

    def _split(self, above: int, name: bytes, node: Node, rights: int, denied: Tree) -> None:
        """Grant rights to the entries of a directory instead of itself, since something below is denied.

        Other processes may put links in place at this time, so nothing is opened by its path, only in its directory.
        """
        # New files can't be granted: a right of the directory would also hold for what is denied below. A directory can
        # be made, or moved here from elsewhere, if only files are denied: neither touches an existing file.
        own = READ_DIR | (MAKE_DIR | MAKE_SYM | REFER if node.only_files() else 0)
        try:
            folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
        except OSError:  # it has vanished, or this user can't read it
            return
        if rights & own:
            self._allow(folder, rights & own)
        hidden_folders = not denied.top.only_files()
        with os.scandir(folder) as entries:
            for entry in entries:
                name = os.fsencode(entry.name)  # names, since the directory is open by number
                below = node.below.get(name)
                if below is not None:
                    if not below.denied and entry.is_dir(follow_symlinks=False):
                        self._split(folder, name, below, rights, denied)
                    continue
                if entry.is_symlink() or entry.inode() in denied.inodes:
                    continue
                with suppress(FileNotFoundError):
                    one = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
                    try:
                        if entry.is_dir(follow_symlinks=False):
                            self._allow(one, rights)
                        elif not hidden_folders or not self._is_link_into(one, denied):
                            self._allow(one, rights & OF_FILES)
                    finally:
                        os.close(one)
        os.close(folder)

    def _is_link_into(self, descriptor: int, denied: Tree) -> bool:
        """Whether a file has another name within a denied directory. Its rule would hold for both."""
        status = os.fstat(descriptor)
        if status.st_nlink < 2:
            return False
        if self._linked is None:
            self._linked = set()
            for path in denied_folders(denied.top, b""):
                for folder, _, names in os.walk(path):
                    for name in names:
                        with suppress(OSError):
                            self._linked.add(os.lstat(os.path.join(folder, name)).st_ino)
        return status.st_ino in self._linked

    def _allow_path(self, path: bytes, rights: int) -> None:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        self._allow(descriptor, rights)
        os.close(descriptor)

    def _allow(self, descriptor: int, rights: int) -> None:
        for granted in (rights, rights & OF_FILES):
            struct.pack_into("=Qi", self._rule, 0, granted & self._handled, descriptor)
            if not granted or self._add(self._number, self.descriptor, 1, self._rule, 0) == 0:
                return
            if ctypes.get_errno() != errno.EINVAL:  # a file, or a directory that became one: the rights of a file
                break
        if ctypes.get_errno() != errno.EBADFD:  # an entry that no rule can name: it stays refused
            raise OSError(ctypes.get_errno(), f"landlock_add_rule: {os.strerror(ctypes.get_errno())}")


# -------------------------------------------------------------------------------------------------------- the processes


def main() -> None:
    """Run a command within limits.

    ``sys.argv[1]`` is the number of a descriptor with the limits; the words of the command follow.
    """
    words = [os.fsencode(word) for word in sys.argv[2:]]
    try:
        with os.fdopen(int(sys.argv[1]), "rb") as file:
            limits = Limits(file.read().split(b"\0"))
        code = run(limits, words)
    except BaseException as error:
        fail(error)
    else:
        _end_as(code)


def fail(error: BaseException) -> None:
    """Report an error and end this process."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    report(f"the command can't be confined, and was not run: {text}")
    os._exit(FAILED)


def report(text: str) -> None:
    with suppress(OSError):
        os.write(2, f"{text}\n".encode("utf-8", "backslashreplace"))


def run(limits: Limits, command: "list[bytes]") -> int:
    """Run a command within its limits. Returns its status, as ``waitpid`` has it. No command: try the limits."""
    if machine() < 0:
        raise OSError(errno.ENOSYS, "this machine's system calls are not known")
    call("close_range", 3, 0xFFFFFFFF, 0)
    with suppress(OSError):  # it may lead a session already
        os.setsid()
    drop_rights()
    ruleset = Ruleset(limits)
    ruleset.fill()
    os.chdir(limits.root)
    prctl(15, ctypes.addressof(NAME))  # PR_SET_NAME
    for one in QUIET:
        _signal.signal(one, _signal.SIG_IGN)
    reading, writing = os.pipe()
    if not os.fork():
        os.close(reading)
        try:
            supervise(limits, ruleset.descriptor, command, writing)
        except BaseException as error:
            fail(error)
        os._exit(0)
    os.close(writing)
    os.close(ruleset.descriptor)
    status = os.read(reading, 16)
    if not status:
        report("the command was killed, since its supervisor ended")
        os._exit(FAILED)
    return int(status)


NAME = ctypes.create_string_buffer(b"cogstep-sandbox")
QUIET = (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP, _signal.SIGQUIT, _signal.SIGUSR1, _signal.SIGUSR2)
"""Signals that are for the command, and that the processes beside it ignore."""


def _end_as(status: int) -> None:
    """End this process as another one has ended."""
    if os.WIFSIGNALED(status):
        signal = os.WTERMSIG(status)
        prctl(4, 0)  # PR_SET_DUMPABLE: the memory of this process is of no use
        with suppress(OSError, ValueError):
            _signal.signal(signal, _signal.SIG_DFL)
        os.kill(os.getpid(), signal)
        os._exit(128 + signal)
    os._exit(os.WEXITSTATUS(status))


def drop_rights() -> None:
    """Give up all capabilities, for this process and all programs that it runs.

    Raises:
        OSError: some are left.
    """
    if prctl(38, 1):  # PR_SET_NO_NEW_PRIVS
        raise OSError(errno.EPERM, "no_new_privs can't be set")
    prctl(47, 4)  # PR_CAP_AMBIENT, CLEAR_ALL
    capability = 0
    while prctl(23, capability) >= 0 and capability < 64:  # PR_CAPBSET_READ
        prctl(24, capability)  # PR_CAPBSET_DROP; fails without the right to, and then no_new_privs suffices
        capability += 1
    call("capset", struct.pack("=Ii", 0x20080522, 0), bytes(24))
    with open("/proc/self/status", "rb") as file:
        left = [line for line in file if line.startswith((b"CapPrm", b"CapEff", b"CapInh")) and int(line[7:], 16)]
    if left:
        raise OSError(errno.EPERM, "capabilities are left")


def supervise(limits: Limits, ruleset: int, command: "list[bytes]", writing: int) -> None:
    """Start the command, answer the kernel's questions, and report the command's status to a pipe."""
    prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: so it stays an ancestor of all, which Yama asks of who reads their memory
    wake, woken = os.pipe()
    for end in (wake, woken):
        os.set_blocking(end, False)
    _signal.signal(_signal.SIGCHLD, lambda _number, _frame: None)
    _signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
    leader = os.fork()
    if not leader:
        try:
            become(limits, ruleset, command, theirs)
        except BaseException as error:
            fail(error)
    theirs.close()
    os.close(ruleset)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):  # who reads the command's output waits for its end
        os.dup2(nothing, standard)
    _, control, _, _ = ours.recvmsg(1, _socket.CMSG_SPACE(4))
    ours.close()
    poll = select.poll()
    poll.register(wake, select.POLLIN)
    poll.register(writing, 0)  # an error as soon as the first process has ended
    broker = None
    if control:
        broker = Broker(struct.unpack("=i", control[0][2][:4])[0], limits)
        poll.register(broker.listener, select.POLLIN)
    while True:
        for descriptor, event in poll.poll():
            if broker is not None and descriptor == broker.listener:
                if not event & select.POLLIN:  # no process of the command is left
                    poll.unregister(broker.listener)
                    broker = None
                else:
                    broker.answer()
            elif descriptor == wake:
                with suppress(BlockingIOError):
                    os.read(wake, 4096)
            elif leader:
                kill_all()
                return
        leader, left = reap(leader, writing, poll)
        if not left or (not leader and broker is None):
            return


def reap(leader: int, writing: int, poll: select.poll) -> "tuple[int, bool]":
    """Collect ended processes. Returns the process id of the command, 0 once it has ended, and whether any is left."""
    while True:
        try:
            process, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return leader, False
        if not process:
            return leader, True
        if process == leader and not os.WIFSTOPPED(status):  # stopped: it asked to be traced, which it never is
            poll.unregister(writing)
            with suppress(OSError):
                os.write(writing, b"%d" % status)
            os.close(writing)
            leader = 0


def kill_all() -> None:
    """Kill all processes of the command: the children, and then the orphans, which become children."""
    own = str(os.getpid()).encode()
    while True:
        for name in os.listdir(b"/proc"):
            if name.isdigit():
                with suppress(OSError), open(b"/proc/%s/stat" % name, "rb") as file:
                    if file.read().rpartition(b")")[2].split()[1] == own:
                        os.kill(int(name), _signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def become(limits: Limits, ruleset: int, command: "list[bytes]", channel: "_socket.socket") -> None:
    """Take the limits on, and become the command."""
    prctl(1, _signal.SIGKILL)  # PR_SET_PDEATHSIG
    _signal.set_wakeup_fd(-1)
    for one in (*QUIET, _signal.SIGCHLD, _signal.SIGPIPE, _signal.SIGXFSZ):
        _signal.signal(one, _signal.SIG_DFL)
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY))
        os.setsid()  # away from a terminal
    except OSError:
        os.setpgid(0, 0)  # so ``kill 0`` stays among the command's own
    call("landlock_restrict_self", ruleset, 0)
    listener = install(Filter().build(limits))
    channel.sendmsg([b"l"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("=i", listener))])
    channel.close()
    call("close_range", 3, 0xFFFFFFFF, 0)
    if not command:
        try_limits(limits)
        os._exit(0)
    try:
        os.execvpe(command[0], command, {**os.environb, **limits.environ, **ENVIRON})
    except OSError as error:
        report(f"{os.fsdecode(command[0])}: {error.strerror}")
        os._exit(127 if error.errno == errno.ENOENT else FAILED)


def try_limits(limits: Limits) -> None:
    """Check that the limits hold and that the broker works.

    Raises:
        OSError: one of them does not.
    """
    os.chmod(limits.temporary, 0o700)
    os.utime(limits.temporary)
    attempts: tuple[tuple[str, Callable[[], object]], ...] = (
        ("list the top directory", lambda: os.listdir("/")),
        ("change another file's mode", lambda: os.chmod("/proc/self/status", 0o400)),
        ("write to the kernel's settings", lambda: os.open("/proc/self/oom_score_adj", os.O_WRONLY)),
        ("make a socket", lambda: _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)),
        ("make a namespace", lambda: call("unshare", 0x10000000)),
    )
    for what, attempt in attempts:
        try:
            attempt()
        except PermissionError:
            continue
        raise OSError(errno.EPERM, f"a confined process was able to {what}")
