"""The first code that a child process runs: it makes the child end with its parent."""

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
"""``PR_SET_PDEATHSIG`` from Linux's ``prctl.h``."""

OFTENEST_VICTIM = "500"
"""Linux OOM score adjustment, out of 1000: kill this process before the program, which can restart it."""

LOOK_SECONDS = 0.5
"""Interval of checking that the parent is alive, on systems without a notification."""


def begin(given: dict[str, Any]) -> None:
    """Run the ``main`` of the requested module, with its arguments in ``sys.argv``. ``starting.start`` calls this."""
    follow(given["parent"])
    sys.argv = [given["module"], *given["arguments"]]
    import_module(given["module"]).main()


def follow(parent: int) -> None:
    """Make this process end with its parent, even during native code."""
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
