"""Importing this checks that Python finds our own packages under their names, and that the system is supported.

A program may have files named ``cognition``, ``runtime`` or ``interpreters``. Such a file precedes our package on
Python's path and would cause errors that name neither.
"""

from __future__ import annotations

import os
import os.path
import sys
from importlib.util import find_spec

NAMES = ("cognition", "runtime", "interpreters")
"""The packages, from the bottom up."""

HOMES = tuple(
    os.path.dirname(os.path.dirname(place)) for place in (os.path.abspath(__file__), os.path.realpath(__file__))
)
"""The folder of the packages: as Python found it, and with symlinks resolved. The first is right if each installed
file is a symlink into a store, the second if each package is a symlink.
"""


class HiddenPackageError(ImportError):
    """Another file hides one of our packages; the message names it and the remedy."""


class UnsupportedSystemError(ImportError):
    """cogstep does not run on this operating system; the message lists the supported systems."""


def check_system(name: str = os.name) -> None:
    """Check that cogstep runs on this system: it needs POSIX file locks and process control.

    Raises:
        UnsupportedSystemError: it is Windows.
    """
    if name == "nt":
        raise UnsupportedSystemError(
            "cogstep runs on Linux and macOS, and not on Windows itself: use it within WSL "
            "(https://learn.microsoft.com/windows/wsl); the pure core alone, `import cognition`, works anywhere"
        )


def check_packages() -> None:
    """Check where Python finds our packages, without importing any.

    Raises:
        HiddenPackageError: it finds something else under one of their names.
    """
    for name in NAMES:
        found = _file_of(name)
        if not _is_ours(found, name):
            what = f"{found} hides" if found else "Python does not find"
            raise HiddenPackageError(
                f"{what} cogstep's own package {name!r}, which is in {HOMES[0]}: rename the other one, or start Python "
                "elsewhere or with -P, so that ours comes first on its path",
                name=name,
                path=found,
            )


def _is_ours(found: str, name: str) -> bool:
    """Whether this file is our package of this name. Installations with only compiled files have another suffix."""
    for place in (os.path.abspath(found), os.path.realpath(found)):
        folder, file = os.path.split(place)
        home, package = os.path.split(folder)
        if home in HOMES and package == name and file.partition(".")[0] == "__init__":
            return True
    return False


def _file_of(name: str) -> str:
    """Return the file that ``import`` finds or has found for this name; empty if there is none."""
    try:
        spec = find_spec(name)
    except ValueError:  # it was imported without a specification
        return getattr(sys.modules[name], "__file__", None) or ""
    if spec is None:
        return ""
    if spec.origin is None:  # a folder without an __init__.py
        return next(iter(spec.submodule_search_locations or ()), "")
    return spec.origin


check_system()
check_packages()
