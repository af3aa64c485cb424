"""How a child process ends: the signals for it, and their names."""

from __future__ import annotations

import contextlib
import os
import signal


def kill_group(leader: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to a process and all its children that are still in its group; nothing if the group is gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def signal_name(number: int) -> str:
    """Return the name of a signal, such as ``SIGKILL``."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def describe_end(code: int | None) -> str:
    """Return how a process ended, as the end of a sentence; the code None means that not even SIGKILL ends it."""
    if code is None:
        return "can't be ended: the kernel holds it"
    return f"ended with code {code}" if code >= 0 else f"was killed by {signal_name(-code)}"
