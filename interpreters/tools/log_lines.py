"""The log lines about a program's own errors, without its secrets."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable

LOG = logging.getLogger("cogstep")

Hides = Callable[[str], str]
"""Returns a text with its secrets replaced."""


def log_error(level: int, said: str, error: BaseException, hides: Hides | None) -> None:
    """Log ``said`` with the error and its traceback.

    If ``hides`` finds a secret in the traceback's text, the line contains the text without the secret, and the record
    has no ``exc_info``. If ``hides`` raises, the line names only the error's type.
    """
    if not LOG.isEnabledFor(level):
        return
    if hides is not None:
        text = f"{said}\n{''.join(traceback.format_exception(error)).rstrip()}"
        try:
            hidden = hides(text)
        except Exception as broken:  # a program's own function, which fails closed
            kinds = type(error).__name__, type(broken).__name__
            LOG.log(level, "%s: %s (its text is left out, because redaction failed with %s)", said, *kinds)
            return
        if hidden != text:
            LOG.log(level, "%s", hidden)
            return
    LOG.log(level, "%s", said, exc_info=error)


def hidden_line(text: str, hides: Hides | None) -> str:
    """Return a line for the log without secrets. If ``hides`` raises, nothing of the text is left."""
    if hides is None:
        return text
    try:
        return hides(text)
    except Exception as broken:
        return f"(this line is left out, because redaction failed with {type(broken).__name__})"
