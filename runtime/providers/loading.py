"""From the name of a remote model to its runtime. Imports the necessary modules only for a remote model."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.errors import ExtraMissingError, ModelOptionsError
from runtime.models.installation import install_line

if TYPE_CHECKING:
    from runtime.providers.backends import Backend, RemoteName
    from runtime.providers.remote import RemoteRuntime


def names_remote(spec: str | Path | None, backends: Sequence[Backend]) -> RemoteName | None:
    """Return the remote model that a spec names, or None. An existing file of that name takes precedence.

    Raises:
        ModelSpecError: it has the form of a remote model's name, but no valid meaning.
        ConfigError: an item of ``backends`` is not a backend.
    """
    if not isinstance(spec, str):
        return None
    with contextlib.suppress(OSError, ValueError):  # of a name that no file can have
        if os.path.lexists(os.path.expanduser(spec)):
            return None
    from runtime.providers.backends import BACKENDS, remote_name

    return remote_name(spec, BACKENDS.adding(backends))


def load_remote(
    name: RemoteName, refused: Mapping[str, object], context_tokens: int | None, queue_limit: int
) -> RemoteRuntime:
    """Return the runtime of a remote model.

    Args:
        name: the model's name.
        refused: options that a remote model does not support, with their values.
        context_tokens: as in ``load_model``, like ``queue_limit``.

    Raises:
        ModelOptionsError: an unsupported option is set, or the backend's key is missing.
        ExtraMissingError: the HTTP library is not installed.
    """
    given = [option for option, value in refused.items() if value]
    if given:
        told = f"{name.text} is behind a server, which decides of {', '.join(given)} itself; leave that out"
        raise ModelOptionsError(told, spec=name.text)
    try:
        from runtime.providers.remote import RemoteRuntime
    except ModuleNotFoundError as error:
        if error.name != "httpcore2":
            raise
        told = f"remote models such as {name.text} need the extra `remote`: {install_line('remote')}"
        raise ExtraMissingError(told, extra="remote", spec=name.text) from None
    return RemoteRuntime(name, context_tokens=context_tokens, queue_limit=queue_limit)
