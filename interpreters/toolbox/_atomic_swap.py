"""Exchange two names in one folder atomically, if the system supports it.

``rename`` replaces any file that has the target name at that moment. After an exchange, the replaced file has the other
name: it can be checked, and put back if it is not the expected file.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable
from functools import cache

EXCHANGE = 2
"""``RENAME_EXCHANGE`` of Linux, and ``RENAME_SWAP`` of macOS."""
CAN_NOT = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})
"""Errors of file systems without this operation."""


@cache
def _function() -> Callable[..., int] | None:
    name = "renameatx_np" if sys.platform == "darwin" else "renameat2"
    try:
        function: Callable[..., int] = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (OSError, AttributeError):
        return None
    return function


def exchange(folder: int, one: str, other: str) -> bool:
    """Exchange two names. Returns False if the system does not support it.

    Raises:
        OSError: it is supported but failed: a name is missing, or access is denied.
    """
    function = _function()
    if function is None:
        return False
    names = os.fsencode(one), os.fsencode(other)
    if function(folder, names[0], folder, names[1], ctypes.c_uint(EXCHANGE)) == 0:
        return True
    number = ctypes.get_errno()
    if number in CAN_NOT:
        return False
    raise OSError(number, os.strerror(number), other)
