"""What an exception says, in words for a model or for whoever reads a warning."""

from __future__ import annotations


def describe(error: BaseException) -> str:
    """What an exception says, with its type where the message alone would say nothing: ``KeyError: 'name'``."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename is not None else error.strerror
    message = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    if " " in message.strip():
        return message
    return f"{type(error).__name__}: {message}" if message else type(error).__name__
