"""What a child process of ours does first, once it can import this: it sees to it that it ends with its parent."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import Any

DIE_WITH_PARENT = 1
"""``PR_SET_PDEATHSIG`` of Linux's ``prctl.h``."""

OFTENEST_VICTIM = "500"
"""Of 1000, added to the badness by which Linux chooses whom to kill when memory runs out: rather this process than the
program that can start it again."""

LOOK_SECONDS = 0.5
"""Between two looks at whether the parent is still there, where the system can't tell."""


def begin(given: dict[str, Any]) -> None:
    """Be the child that ``starting.start`` asked for: run its module's ``main``, with its arguments in ``sys.argv``."""
    follow(given["parent"])
    sys.argv = [given["module"], *given["arguments"]]
    import_module(given["module"]).main()


def follow(parent: int) -> None:
    """Have this process end with its parent, whatever native code is doing then."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(OFTENEST_VICTIM, "ascii")
    else:
        threading.Thread(target=_look_after, args=(parent,), name="cogstep parent", daemon=True).start()
    if os.getppid() != parent:  # it went before the lines above
        os._exit(0)


def _look_after(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_SECONDS)
    os._exit(0)
