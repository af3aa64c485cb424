"""From the name of a remote model to its runtime. What that takes is only imported where there is one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.errors import ExtraMissingError, ModelOptionsError

if TYPE_CHECKING:
    from runtime.providers.backends import Backend
    from runtime.providers.names import RemoteName
    from runtime.providers.remote import RemoteRuntime


def names_remote(spec: str | Path | None, backends: Sequence[Backend]) -> RemoteName | None:
    """The remote model that is meant, if it is one: what is there under that name as a file is a local one.

    Raises:
        ModelSpecError: it is that of a remote model, and nothing can be meant by it.
        ConfigError: one of ``backends`` is none.
    """
    if not isinstance(spec, str):
        return None
    with contextlib.suppress(OSError, ValueError):  # of a name that no file can have
        if os.path.lexists(os.path.expanduser(spec)):
            return None
    from runtime.providers.backends import BACKENDS
    from runtime.providers.names import remote_name

    return remote_name(spec, BACKENDS.adding(backends))


def load_remote(
    name: RemoteName, refused: Mapping[str, object], context_tokens: int | None, queue_limit: int
) -> RemoteRuntime:
    """A runtime for it.

    Args:
        name: what it is.
        refused: the options that a remote model has no use for, with what was given for them.
        context_tokens: of ``load_model``, as ``queue_limit``.

    Raises:
        ModelOptionsError: one of those options was given, or the backend's key is missing.
        ExtraMissingError: the HTTP library is not installed.
    """
    given = [option for option, value in refused.items() if value]
    if given:
        raise ModelOptionsError(
            f"{name.text} is behind a server, which decides of {', '.join(given)} itself; leave that out",
            spec=name.text,
        )
    try:
        from runtime.providers.remote import RemoteRuntime
    except ModuleNotFoundError as error:
        if error.name != "httpcore2":
            raise
        raise ExtraMissingError(
            f"remote models such as {name.text} need the extra `remote`: pip install 'cogstep[remote]'",
            extra="remote",
            spec=name.text,
        ) from None
    return RemoteRuntime(name, context_tokens=context_tokens, queue_limit=queue_limit)
