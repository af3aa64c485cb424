"""What a process of a program is before it becomes the program: a few lines of Python that tie it to this one.

Only Linux can end a process with its parent whatever becomes of the parent, and only the process itself can ask for it.
So there it is started as a Python that does so and then becomes the program, under the same number; it takes a fiftieth
of a second, and imports nothing of ours, which would take thirty times as long. Elsewhere, and in frozen programs, the
program is started right away.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from multiprocessing import spawn

from runtime.children.boot import DIE_WITH_PARENT

CANT_START = 126
"""The code with which it ends where the program can't be started."""

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
    """What is to be started so that it is a program's process.

    Args:
        path: of the program, absolute.
        arguments: what stands behind its name.
    """
    if sys.platform != "linux" or getattr(sys, "frozen", False):
        return [path, *arguments]
    return [os.fsdecode(spawn.get_executable()), "-I", "-S", "-c", BECOME, str(os.getpid()), path, *arguments]
