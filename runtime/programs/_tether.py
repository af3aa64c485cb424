"""A few lines of Python that tie a process to this one, before it becomes the program.

Only Linux can end a process together with its parent in all cases, and only the process itself can request it. So on
Linux it starts as a Python that does so and then executes the program, with the same process id. This takes 20 ms and
imports nothing of ours, which would take thirty times as long. On other systems, and in frozen programs, the program
starts directly.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from multiprocessing import spawn

from runtime.children.boot import DIE_WITH_PARENT

CANT_START = 126

BECOME = f"""
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl({DIE_WITH_PARENT}, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):  # it went before the line above
    os._exit(0)
signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores these, and the program would too
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
try:
    os.execv(sys.argv[2], sys.argv[2:])
except OSError as error:
    os.write(2, f"{{sys.argv[2]}} can't be started: {{error.strerror}}".encode("utf-8", "replace"))
    os._exit({CANT_START})
"""


def command_of(path: str, arguments: Sequence[str]) -> list[str]:
    """Return the command that starts a program.

    Args:
        path: the program, absolute.
        arguments: its arguments.
    """
    if sys.platform != "linux" or getattr(sys, "frozen", False):
        return [path, *arguments]
    return [os.fsdecode(spawn.get_executable()), "-I", "-S", "-c", BECOME, str(os.getpid()), path, *arguments]
