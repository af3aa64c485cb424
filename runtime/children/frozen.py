"""Support for programs frozen into one file, as by PyInstaller: they can only start themselves."""

from __future__ import annotations

import sys

FLAG = "--cogstep-model-process"
"""First argument of a frozen program (``sys.frozen``) that is to run as a child process of cogstep."""


def freeze_support() -> None:
    """Run as a child process of cogstep if the program was started as one; otherwise do nothing.

    Call it in the first line of a frozen program's main module, like ``multiprocessing.freeze_support``. Other programs
    need not call it.
    """
    if sys.argv[1:2] == [FLAG]:
        import json

        from runtime.children.boot import begin

        begin(json.loads(sys.argv[2]))
        sys.exit(0)
