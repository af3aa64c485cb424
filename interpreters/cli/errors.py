"""Exit codes, and the error that becomes one line on stderr.

Strategy: whatever the user can mend (a path, an option, an extra, a full disk) is raised as a ``CommandError`` or
already is a ``CogstepError``; ``main`` prints its message as one line and exits with ``UNUSABLE``. What a turn brings,
its failure included, is an outcome and decides between ``ANSWERED`` and ``UNANSWERED``. Anything else is a fault of
this program and keeps its traceback.
"""

from __future__ import annotations

import re

ANSWERED = 0
"""The model answered, the recording agrees, a backend works."""
UNANSWERED = 1
"""The turn failed or hit a limit, the recording disagrees, no backend works."""
UNUSABLE = 2
"""Wrong usage, or something about this machine that has to be put right first. argparse uses the same code."""
INTERRUPTED = 130
"""Ctrl-C: 128 + SIGINT, as shells count."""
PIPE_CLOSED = 141
"""The reader of our output has closed the pipe: 128 + SIGPIPE."""
TERMINATED = 143
"""Asked to end: 128 + SIGTERM."""


class CommandError(Exception):
    """Something the user can mend. The message is one line that says what to do."""

    code = UNUSABLE


class Terminated(BaseException):
    """SIGTERM arrived. Raised by the signal's handler, like KeyboardInterrupt, and so no ``Exception``."""


PASSWORD = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:/{1,2}[^\s/@:]*):[^\s@]*@|(?<=[?&]password=)[^\s&]+")
"""Of a URL, also where it was taken for a path, which has one stroke."""


def without_passwords(message: str) -> str:
    """A message that repeats what was typed, without the passwords of URLs in it."""
    return PASSWORD.sub(lambda found: f"{found[1]}:***@" if found[1] is not None else "***", message)


def reason_of(error: OSError) -> str:
    """What the system says was wrong, without the number and the path: ``No space left on device``."""
    return error.strerror or type(error).__name__
