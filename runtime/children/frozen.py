"""For programs that are frozen into one file, such as those of PyInstaller: they can start nothing but themselves."""

from __future__ import annotations

import sys

FLAG = "--cogstep-model-process"
"""First argument of a frozen program (``sys.frozen``) that is to be a child process of cogstep's."""


def freeze_support() -> None:
    """Be a child process of cogstep's, where this program was started for that; else do nothing.

    The first line of a frozen program's main module, as with ``multiprocessing.freeze_support``. Other programs need
    not call it.
    """
    if sys.argv[1:2] == [FLAG]:
        import json

        from runtime.children.boot import begin

        begin(json.loads(sys.argv[2]))
        sys.exit(0)
