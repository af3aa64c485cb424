"""For programs that are frozen into one file, such as those of PyInstaller: they can start nothing but themselves."""

from __future__ import annotations

import sys

FLAG = "--cogstep-model-process"
"""First argument of a frozen program (``sys.frozen``) that is to be the process of a model."""


def freeze_support() -> None:
    """Be the process of a model, where this program was started for that; else do nothing.

    The first line of a frozen program's main module, as with ``multiprocessing.freeze_support``. Other programs need
    not call it.
    """
    if sys.argv[1:2] == [FLAG]:
        from importlib import import_module

        import_module(sys.argv[2]).main()
