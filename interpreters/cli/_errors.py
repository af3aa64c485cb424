"""Exit codes, and the error that becomes one line on stderr.

- If the user can fix a problem (a path, an option, an extra, a full disk), it is raised as a ``CommandError`` or a
  ``CogstepError``. ``main`` prints its message as one line and exits with ``UNUSABLE``.
- The result of a turn, including a failure, is an outcome. It decides between ``ANSWERED`` and ``UNANSWERED``.
- Any other exception is a bug in this program and keeps its traceback.
"""

from __future__ import annotations

import re

ANSWERED = 0
"""The model answered, the recording agrees, or a backend works."""
UNANSWERED = 1
"""The turn failed or hit a limit, the recording differs, or no backend works."""
UNUSABLE = 2
"""Wrong usage, or a problem of this machine that must be fixed first. argparse uses the same code."""
INTERRUPTED = 130
"""Ctrl-C: 128 + SIGINT, as in shells."""
PIPE_CLOSED = 141
"""The reader of our output has closed the pipe: 128 + SIGPIPE."""
TERMINATED = 143
"""SIGTERM: 128 + SIGTERM."""


class CommandError(Exception):
    """A problem that the user can fix. The message is one line with the next step."""

    code = UNUSABLE


class Terminated(BaseException):
    """SIGTERM arrived. Raised by the signal handler, like KeyboardInterrupt, and so not an ``Exception``."""


IN_URL = re.compile(r"([A-Za-z0-9+.-]:/{1,2}[^\s/@:]*):[^\s@]*(@?)")
"""Matches the password in a URL, also in a URL that was treated as a path and so has a single slash. It begins at the
scheme's last character and also matches without ``@``, so that a long text is read once.
"""
IN_QUERY = re.compile(r"(?<=[?&]password=)[^\s&]+")


def without_passwords(message: str) -> str:
    """Remove passwords in URLs from a message that repeats user input."""
    return IN_QUERY.sub("***", IN_URL.sub(lambda found: f"{found[1]}:***@" if found[2] else found[0], message))


def reason_of(error: OSError) -> str:
    """Return the system's message without the number and the path: ``No space left on device``."""
    return error.strerror or type(error).__name__
