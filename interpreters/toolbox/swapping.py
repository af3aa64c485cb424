"""Two names of one folder are exchanged in one step, where the system can do that.

A file that is put in the place of another one by ``rename`` replaces whatever has the name by then. Exchanged, what had
the name has the other one afterwards: it can be looked at, and put back where it is not what was expected.
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
"""What a file system says that doesn't know it."""


@cache
def _function() -> Callable[..., int] | None:
    name = "renameatx_np" if sys.platform == "darwin" else "renameat2"
    try:
        function: Callable[..., int] = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (OSError, AttributeError):
        return None
    return function


def exchange(folder: int, one: str, other: str) -> bool:
    """Exchange two names; False if that can't be done here.

    Raises:
        OSError: it can, and failed: one of them is missing, or not permitted.
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
