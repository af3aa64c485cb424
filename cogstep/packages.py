"""Whether the packages that Python finds under our names are ours, and run on this system; importing this looks.

``cognition``, ``runtime`` and ``interpreters`` are words that a program may have files of. Such a file stands before
our package on Python's path, and what would come of it are errors that name neither.
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
"""The folder in which all of them stand: as Python found it, and where links lead from there. Of an installation whose
files are each a link into a store the first one counts, of packages that are linked one by one the second."""


class HiddenPackageError(ImportError):
    """Another file stands before one of our packages: says which, and what to do."""


class UnsupportedSystemError(ImportError):
    """cogstep does not run on this operating system: says where it does."""


def check_system(name: str = os.name) -> None:
    """See that this is a system that cogstep runs on: it locks files and ends processes as POSIX does.

    Raises:
        UnsupportedSystemError: it is Windows.
    """
    if name == "nt":
        raise UnsupportedSystemError(
            "cogstep runs on Linux and macOS, and not on Windows itself: use it within WSL "
            "(https://learn.microsoft.com/windows/wsl); the pure core alone, `import cognition`, works anywhere"
        )


def check_packages() -> None:
    """Look where Python finds our packages, without importing any.

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
    """Whether this file is the package of this name beside ours. Its ending is another where only compiled files are
    shipped.
    """
    for place in (os.path.abspath(found), os.path.realpath(found)):
        folder, file = os.path.split(place)
        home, package = os.path.split(folder)
        if home in HOMES and package == name and file.partition(".")[0] == "__init__":
            return True
    return False


def _file_of(name: str) -> str:
    """The file that ``import`` takes for this name, or has taken; empty if there is none."""
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
